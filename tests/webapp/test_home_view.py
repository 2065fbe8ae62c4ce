"""The first page says what each thing on the shelf holds, and when the folder is gone."""

import json
import shutil

import pytest

import shiftbench as sb
from shiftbench.auditing.findings import Audit
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.scores import RUN
from shiftbench.webapp.home_view import home
from shiftbench.webapp.server import ANSWERS
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Query, Studio


def says(studio):
    return {thing["id"]: thing["says"] for thing in home(studio, Query({}))["things"]}


def test_a_line_says_what_a_thing_holds(world, shown):
    """Items, factors, tags; the shift and the items of every split; runs and rows; findings: as the library counts."""
    lines = says(shown)
    items = sb.Collection.load(world / "collections/scenes")
    assert lines["collections/scenes"] == (
        f"{len(items):,} items, {len(items.factors)} factors, {len(items.tags.names)} tags")
    counts = sb.Benchmark.load(world / "benchmarks/minority").counts()
    splits = ", ".join(f"{split} {sum(groups.values())}" for split, groups in counts.items())
    assert lines["benchmarks/minority"] == f"subpopulation: {splits}"
    scores = sb.Scores.load(world / "scores.parquet")
    runs = len(set(scores.where(stat=RUN)["run"].tolist()))
    assert lines["scores.parquet"] == f"{runs} runs, {len(scores):,} rows"
    findings = len(Audit.load(world / "audit.json").findings)
    assert lines["audit.json"].startswith(f"{findings} finding{'' if findings == 1 else 's'}")
    assert lines["runs"] == "4 runs: 4 done"
    assert lines["recipes/minority.toml"] == "subpopulation"


def test_a_thing_that_changes_is_told_anew(world, tmp_path):
    """A line follows the file; one that cannot be read says so, and hides no other."""
    for name in ("audit.json", "scores.parquet"):
        shutil.copy(world / name, tmp_path / name)
    studio = Studio(Shelf([tmp_path]))
    before = says(studio)
    facts = json.loads((tmp_path / "audit.json").read_text())
    (tmp_path / "audit.json").write_text(json.dumps(facts | {"findings": "?"}))
    studio.shelf.forget()
    assert says(studio) == before | {"audit.json": "cannot be read"}


@pytest.mark.parametrize("view", ["home", "collection", "graph", "design", "runs", "compare", "failures"])
def test_a_folder_that_is_gone_is_said_by_every_view(tmp_path, view):
    """No view takes a folder that vanished for an empty one; when it is back, so is the view."""
    (tmp_path / "work").mkdir()
    studio = Studio(Shelf([tmp_path / "work"]))
    shutil.rmtree(tmp_path / "work")
    with pytest.raises(ShiftBenchError, match=r"work: gone\. The studio continues when it is back\."):
        ANSWERS[view](studio, Query({}))
    (tmp_path / "work").mkdir()
    assert says(studio) == {}


def test_one_of_two_folders_that_is_gone_is_a_note(world, tmp_path):
    """What lies in the other is shown, and the note names the one that is gone."""
    (tmp_path / "other").mkdir()
    studio = Studio(Shelf([world, tmp_path / "other"]))
    shutil.rmtree(tmp_path / "other")
    answer = home(studio, Query({}))
    assert len(answer["things"]) == 6
    assert answer["note"] == f"{tmp_path / 'other'} is gone."
