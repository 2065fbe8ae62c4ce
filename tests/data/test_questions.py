"""Numbers in bins and dates by year, month, season and hour are factors, wherever a factor is named."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import columns_in, group_by
from shiftbench.data.item_table import table
from shiftbench.data.predictions import Predictions
from shiftbench.data.questions import FORMS, UNKNOWN, base_of, dates, parse, resolve
from shiftbench.shifts import Context, Given, Spurious, Unseen
from shiftbench.shifts.out_of_context import holds
from tests.strategies import toy

finite = st.floats(-1e6, 1e6)
moments = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 30))
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def people(n: int = 400, seed: int = 0) -> Collection:
    """The toy with an age of most items, a day and a moment for most, and a plain year."""
    plain, rng = toy(n, seed), np.random.default_rng(seed)
    age = np.where(rng.random(n) < 0.1, np.nan, rng.integers(18, 90, n).astype(float))
    day = np.datetime_as_string(np.datetime64("2010-01-01") + rng.integers(0, 3650, n))
    taken = np.where(rng.random(n) < 0.1, "", np.strings.add(day, "T12:30:00"))
    year = np.asarray([int(word[:4]) for word in day])
    return Collection("people", plain.items, {**plain.factors, "age": age, "day": day, "taken": taken, "year": year},
                      plain.tags)


@given(st.lists(st.one_of(finite, st.just(float("nan"))), min_size=1, max_size=40),
       st.lists(finite, min_size=1, max_size=5, unique=True))
def test_bins_hold_what_lies_between_their_edges(values, edges):
    """Every number is in the one bin whose edges it lies between, an edge in the bin it begins; a gap is unknown."""
    rising = sorted(edges)
    words = [repr(edge) for edge in rising]
    answers = resolve(f"bins:x:{','.join(words)}", {"x": np.asarray(values)}.get).tolist()
    for value, answer in zip(values, answers, strict=True):
        if np.isnan(value):
            assert answer == UNKNOWN
        elif value < rising[0]:
            assert answer == f"under {words[0]}"
        elif value >= rising[-1]:
            assert answer == f"from {words[-1]}"
        else:
            low = max(k for k, edge in enumerate(rising) if edge <= value)
            assert answer == f"{words[low]} to {words[low + 1]}"


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=60), st.integers(2, 12))
def test_quantiles_are_as_even_as_ties_allow(values, n):
    """Equal numbers share a bin, bins and their names rise with the numbers, and distinct numbers fill them evenly."""
    x = np.asarray(values)
    answers = resolve(f"quantiles:x:{n}", {"x": x}.get)
    order = np.argsort(x, kind="stable")
    assert sorted(answers.tolist()) == answers[order].tolist()
    for value in np.unique(x):
        assert len(np.unique(answers[x == value])) == 1
    if len(np.unique(x)) == len(x):
        sizes = np.unique(answers, return_counts=True)[1]
        assert sizes.max() - sizes.min() <= 1
    for name in np.unique(answers).tolist():
        low, high = name.partition(": ")[2].split(" to ")
        assert (x[answers == name].min(), x[answers == name].max()) == (float(low), float(high))


@pytest.mark.slow
@given(st.lists(st.tuples(moments, st.one_of(st.none(), zones)), min_size=1, max_size=20),
       st.sampled_from(["T", " "]))
def test_dates_are_read_as_python_reads_them(listed, between):
    """Year, month, hour and the order of moments are those of datetime.fromisoformat, with and without a zone."""
    stamps = [moment.replace(tzinfo=zone) for moment, zone in listed]
    text = np.asarray([stamp.isoformat(sep=between) for stamp in stamps])
    expected = [stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC) for stamp in stamps]
    found = dates(text, "taken")
    assert found.known.all()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert found.moment.tolist() == [(stamp - epoch) // timedelta(microseconds=1) for stamp in expected]
    for question, attribute in (("year", "year"), ("month", "month"), ("hour", "hour")):
        answers = resolve(f"{question}:t", {"t": text}.get)
        assert [int(word) for word in answers] == [getattr(stamp, attribute) for stamp in stamps]


def test_seasons_and_what_a_date_does_not_say():
    """Seasons are of the north and begin with a month; what a date does not say is unknown."""
    day = np.asarray(["2019-12-01", "2020-02-29", "2019-03-01", "2019-08-31", "2019-09", "2019", "", "NaT"])
    look = {"day": day}.get
    assert resolve("season:day", look).tolist() == ["winter", "winter", "spring", "summer", "autumn", *[UNKNOWN] * 3]
    assert resolve("year:day", look).tolist() == ["2019", "2020", *["2019"] * 4, *[UNKNOWN] * 2]
    assert resolve("month:day", look).tolist() == ["12", "02", "03", "08", "09", *[UNKNOWN] * 3]
    assert resolve("hour:day", look).tolist() == [UNKNOWN] * 8
    assert resolve("year:n", {"n": np.asarray([2019.0, np.nan])}.get).tolist() == ["2019", UNKNOWN]
    assert resolve("bins:year:day:2020", look).tolist()[:3] == ["under 2020", "from 2020", "under 2020"]


@pytest.mark.parametrize(("name", "message"), [
    ("bins:age", "Write bins:FACTOR:EDGE,EDGE"),
    ("bins:age:", "Write bins:FACTOR"),
    ("bins:age:old", "edges are numbers"),
    ("bins:age:60,30", "edges must be finite, each larger than the one before"),
    ("bins:age:30,30", "edges must be finite, each larger than the one before"),
    ("bins:age:1e999", "edges must be finite, each larger than the one before"),
    ("quantiles:age:1", "from 2 to 100"),
    ("quantiles:age:4.5", "from 2 to 100"),
    ("quantiles:age:" + "9" * 5000, "from 2 to 100"),
    ("bins:class:3", "'cat', which is not a number|'dog', which is not a number"),
    ("year:class", "which is no date"),
    ("year:age", "which is no date"),
    ("bins:aeg:30", "No factor named 'aeg'. Did you mean 'age'?"),
    ("season:", "No factor named 'season:'"),
])
def test_questions_that_cannot_be_answered_say_why(name, message):
    """One line that names the factor."""
    with pytest.raises(ShiftBenchError) as problem:
        people(40).factor(name)
    assert any(part in str(problem.value) for part in message.split("|"))


@pytest.mark.slow
def test_questions_may_be_about_questions():
    """The year of a year is that year, however often it is asked."""
    collection = people(40)
    assert np.array_equal(collection.factor("year:" * 2000 + "day"), collection.factor("year:day"))


@pytest.mark.parametrize("day", ["2019-02-30", "2019-13-01", "04/03/2019", "20190304", "2019-03-04T25:00", "soon"])
def test_what_is_no_date_is_named(day):
    """The first value that is no ISO date is in the message."""
    with pytest.raises(ShiftBenchError, match="Factor 'd' holds") as problem:
        dates(np.asarray(["2019-03-04", day]), "d")
    assert day in str(problem.value)


def test_a_column_of_that_name_comes_first():
    """A name that the data have is never taken apart."""
    odd = {"year:day": np.asarray(["a", "b"]), "day": np.asarray(["2019", "2020"])}
    assert Collection("odd", np.asarray(["1", "2"]), odd).factor("year:day").tolist() == ["a", "b"]
    assert base_of("year:day", odd) == "year:day"
    assert [name for name in FORMS if parse(f"{name}:x:1") is None] == ["has", "area", "which"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_dates_of_a_table_stay_dates(tmp_path, suffix):
    """Days, moments of any unit, moments with a zone and text come out of the table reader as the same dates."""
    stamp = [datetime(2019, 3, 4, 12, 30), datetime(2020, 7, 1, 23, 59), None]
    columns = {"id": ["a", "b", "c"], "y": ["x", "y", "x"], "day": pa.array([one and one.date() for one in stamp])}
    columns |= {f"at_{unit}": pa.array(stamp, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")}
    columns |= {"zoned": pa.array(stamp, pa.timestamp("ms", "UTC")), "text": ["2019-03-04", "2020-07-01", ""]}
    made, path = pa.table(columns), tmp_path / f"t{suffix}"
    if suffix == ".csv":
        from pyarrow import csv
        csv.write_csv(made, path)
    else:
        pq.write_table(made, path)
    table(path, id="id", label="y").save(tmp_path / "t")
    read = Collection.load(tmp_path / "t")
    for name in [name for name in columns if name not in ("id", "y")]:
        assert read.factor(f"year:{name}").tolist() == ["2019", "2020", UNKNOWN], name
        assert read.factor(f"season:{name}").tolist() == ["spring", "summer", UNKNOWN], name
        hours = [UNKNOWN] * 3 if name in ("day", "text") else ["12", "23", UNKNOWN]
        assert read.factor(f"hour:{name}").tolist() == hours, name


@pytest.mark.parametrize(("said", "columns"), [
    ("bins:age:30,60", ("bins:age:30,60",)),
    ("bins:age:30, 60.5 , label", ("bins:age:30,60.5", "label")),
    ("place,bins:age:-1,2e3,year:day", ("place", "bins:age:-1,2e3", "year:day")),
    ("bins:age:30,60!under 30", ("bins:age:30,60",)),
    ("has:sofa+has:bed,label", ("has:sofa", "has:bed", "label")),
    ("which:home=sofa+bed|boat!none,label", ("which:home=sofa+bed|boat", "label")),
])
def test_groupings_are_said_with_questions(said, columns):
    """The commas between edges part no columns, and the + of which: joins none."""
    assert columns_in(said, ["label", "place", "age", "day"]) == columns


def test_a_number_can_be_a_column_behind_bins():
    """A known column that is named like an edge is a column."""
    assert columns_in("bins:age:30,60,7", ["7", "age"]) == ("bins:age:30,60", "7")


def test_groups_of_a_plain_table():
    """Questions are answered from the columns that are given."""
    made = group_by({"age": np.asarray([20.0, 40.0, 70.0, np.nan])}, "bins:age:30,60!unknown")
    assert sorted(made.names) == [f"bins:age:30,60 = {word}" for word in ("30 to 60", "from 60", "under 30")]
    assert made.size.tolist() == [1, 1, 1]
    with pytest.raises(ShiftBenchError, match=r"Group by its bins: bins:age:EDGE,EDGE or quantiles:age:4"):
        group_by({"age": np.asarray([20.5, 40.0])}, "age")


SAID = ("bins:age:30,60,label", "quantiles:age:4", "year:day", "season:taken", "has:sofa+has:bed", "which:sofa|bed")


def scored(tmp_path, keep=()):
    collection = people()
    collection.save(tmp_path / "people")
    split = np.repeat(["train", "test"], [100, 300])
    both = Collection("people", collection.items, {**collection.factors, "split": split}, collection.tags)
    both.save(tmp_path / "people")
    (tmp_path / "r.toml").write_text(f"""
collection = "{tmp_path / 'people'}"
[shift.given]
label = "class"
domain = "place"
keep = {list(keep)}
""")
    made = sb.build(tmp_path / "r.toml", tmp_path / "made")
    rng = np.random.default_rng(1)
    Predictions(made.items, made.split, rng.normal(size=(len(made), 2)).astype(np.float32),
                made.names["label"]).save(tmp_path / "p.csv")
    return both, made


@pytest.mark.parametrize("keep", [(), ("age", "day", "taken")])
def test_scores_by_questions(tmp_path, keep):
    """`score --by` answers them from the rows or from the collection; each group has the items that answer so."""
    collection, made = scored(tmp_path, keep)
    scores = sb.score(tmp_path / "made", tmp_path / "p.csv", by=SAID, replicates=0)
    item = collection.index(made.items[made.rows("test")])
    for said, word in (("year:day", "2014"), ("season:taken", "winter"), ("season:taken", UNKNOWN)):
        (row,) = scores.where(split="test", metric="accuracy", by=said, group=f"{said} = {word}")
        assert row["n"] == int((collection.factor(said)[item] == word).sum()) > 0
    age = collection.factor("age")[item]
    (row,) = scores.where(split="test", metric="accuracy", by="bins:age:30,60,label",
                          group="bins:age:30,60 = 30 to 60, label = cat")
    assert row["n"] == int(((age >= 30) & (age < 60) & (collection.factor("class")[item] == "cat")).sum())


def test_the_command_scores_by_questions(shell, tmp_path):
    """The words of Python are the words of the shell."""
    scored(tmp_path)
    words = [word for said in SAID for word in ("--by", said)]
    code, out, err = shell("score", tmp_path / "made", tmp_path / "p.csv", "--json", *words)
    assert (code, err) == (0, "")
    assert "bins:age:30,60 = from 60, label = dog" in out
    code, _, err = shell("score", tmp_path / "made", tmp_path / "p.csv", "--by", "bins:aeg:30")
    assert code == 1
    assert "'aeg'" in err


def test_shifts_take_questions_for_factors():
    """Unseen ages, correlated seasons, hard years and card groupings need no column of their own."""
    collection = people(2000)
    made = Unseen("class", "bins:age:30,60", ("from 60",), values=("under 30", "30 to 60", "from 60")).build(collection)
    age = collection.factor("age")[collection.index(made.items)]
    assert (age[made.rows("train")] < 60).all()
    assert (age[made.rows("test")] >= 60).any()
    assert Unseen("class", "quantiles:age:4", ("#4",), values=("#1..4",)).build(collection).card["params"]
    spurious = Spurious("class", "season:day", pairs={"cat": "winter", "dog": "summer"}, values=("winter", "summer"))
    assert spurious.build(collection).names["domain"] == ("summer", "winter")
    hard = Context("class", "year:taken >= 2017 or day < 2011").build(collection)
    day = collection.factor("day")[collection.index(hard.items)]
    taken = collection.factor("taken")[collection.index(hard.items)]
    expected = (np.strings.startswith(day, "2010")) | (taken >= "2017")
    assert np.array_equal(hard.extra["kind"] != "easy", expected)
    split = np.resize(["train", "test"], len(collection))
    given_split = Collection("p", collection.items, {**collection.factors, "split": split}, collection.tags)
    made = Given("class", score_by=("bins:age:30,60,label",), keep=("year:day",)).build(given_split)
    assert {"bins:age:30,60", "year:day"} <= set(made.extra)
    assert made.card["groupings"] == ["bins:age:30,60,label"]


@pytest.mark.parametrize(("text", "share"), [
    ("day >= 2015-06", lambda day: day >= "2015-06"), ("day <= 2015", lambda day: day < "2016"),
    ("month:day > 9", lambda day: np.asarray([word[5:7] > "09" for word in day])),
    ("year:day < 2012", lambda day: day < "2012")])
def test_criteria_compare_dates_as_exactly_as_they_are_said(text, share):
    """`day <= 2015` has all of 2015; months and years are numbers."""
    collection = people()
    assert np.array_equal(holds(collection, text), share(collection.factor("day")))


def test_criteria_say_what_cannot_be_compared():
    """Words that are neither numbers nor dates have no order."""
    with pytest.raises(ShiftBenchError, match="compares numbers or dates"):
        holds(people(), "class >= 2013")
    with pytest.raises(ShiftBenchError, match="compares numbers or dates"):
        holds(people(), "day >= soon")
