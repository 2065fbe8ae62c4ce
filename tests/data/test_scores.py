"""The table of scores: its columns, its files, and how a metric over a grouping is written."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import write_table
from shiftbench.data.scores import COLUMNS, DEFAULTS, DIFFERENCE, MEAN, RUN, VERSION_KEY, Measure, Scores

ROW = {"run": "r", "benchmark": "b", "method": "erm", "seed": 0, "split": "test", "group": "all", "n": 3,
       "metric": "accuracy", "value": 0.4, "low": np.nan, "high": 0.5}
words = st.text("abc,+ =", max_size=4)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.fixed_dictionaries({
    "method": words, "label": words, "by": words, "stat": st.sampled_from([RUN, MEAN, DIFFERENCE]),
    "runs": st.integers(1, 9), "value": st.floats(0, 1), "p": st.one_of(st.just(np.nan), st.floats(0, 1))}),
    min_size=1, max_size=10))
def test_scores_survive_the_file_and_can_be_asked(tmp_path, rows):
    """load(save(x)) == x as parquet and CSV, and where() keeps exactly the rows that agree."""
    scores = Scores.of([{**ROW, **row} for row in rows])
    assert tuple(scores.columns) == tuple(COLUMNS)
    for name in ("s.parquet", "s.csv"):
        assert Scores.load(scores.save(tmp_path / name)) == scores
    assert len(scores.where(method=rows[0]["method"])) == sum(row["method"] == rows[0]["method"] for row in rows)


def test_a_row_is_shown_by_its_label():
    """A row without a label is shown by its method, else by its run, else as a model."""
    scores = Scores.of([{**ROW, "label": "erm (lr=1)"}, ROW, {**ROW, "method": ""}, {**ROW, "method": "", "run": ""}])
    assert scores.names.tolist() == ["erm (lr=1)", "erm", "r", "model"]


def test_other_values_are_put_into_known_columns():
    """assign() takes one value or one per row, and no column that a table of scores has not."""
    scores = Scores.of([ROW, ROW]).assign(stat=MEAN, runs=np.asarray([2, 3]))
    assert [(row["stat"], row["runs"]) for row in scores] == [(MEAN, 2), (MEAN, 3)]
    with pytest.raises(ShiftBenchError, match="No column named 'stats'"):
        scores.assign(stats=MEAN)


def columns(**changes):
    return {name: [value] for name, value in {**ROW, **changes}.items()}


@pytest.mark.parametrize("name", ["s.parquet", "s.csv"])
def test_a_table_of_ones_own_is_read(tmp_path, name):
    """Without the columns that have a default, rows are single runs over the benchmark's own groups."""
    write_table(tmp_path / name, pa.table(columns()))
    (row,) = Scores.load(tmp_path / name)
    assert {key: row[key] for key in DEFAULTS if key != "p"} == {key: DEFAULTS[key] for key in DEFAULTS if key != "p"}
    assert np.isnan(row["p"])
    assert row["value"] == 0.4


@pytest.mark.parametrize("name", ["s.parquet", "s.csv"])
@pytest.mark.parametrize("changes", [
    {"run": "mean of 3", "seed": -1}, {"metric": "accuracy_behind_best"}, {"metric": "p_accuracy_behind_best"},
    {"metric": "worst_group_accuracy[region]"}, {"metric": "worst_group_accuracy[a,b]_behind_best"}])
def test_what_an_older_version_wrote_in_names_is_refused(tmp_path, name, changes):
    """Means, differences and groupings of the first format are told apart from single runs, with what to do."""
    write_table(tmp_path / name, pa.table(columns(**changes)))
    with pytest.raises(ShiftBenchError, match=r"an older shiftbench wrote these scores.*Score again\.$"):
        Scores.load(tmp_path / name)


def test_a_later_version_and_an_unknown_stat_are_refused(tmp_path):
    """Nothing is read as what it may not be."""
    path = Scores.of([ROW]).save(tmp_path / "s.parquet")
    table = pa.table({name: pa.array(values) for name, values in Scores.load(path).columns.items()})
    write_table(path, table.replace_schema_metadata({VERSION_KEY: "3"}))
    with pytest.raises(ShiftBenchError, match="have format 3"):
        Scores.load(path)
    with pytest.raises(ShiftBenchError, match="Did you mean 'mean'"):
        Scores.load(Scores.of([{**ROW, "stat": "means"}]).save(path))


@given(st.text("abc_", min_size=1), st.text("abc,+[]! ="))
def test_a_measure_is_read_as_it_is_written(metric, by):
    """Measure.parse(str(x)) == x, whatever the grouping."""
    assert Measure.parse(str(Measure(metric, by))) == Measure(metric, by)
