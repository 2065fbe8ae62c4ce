"""Numbers in the docs are those that a command wrote."""

import json
import re
from pathlib import Path

import pytest

from docs.write_tables import (
    FIGURES,
    PAGES,
    arena_tables,
    bench_logs,
    breeds_table,
    coverage_table,
    dated,
    inserted,
    mark,
    quoted,
    with_line,
)
from shiftbench.reporting.score_tables import as_markdown

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_quotes_what_a_command_wrote(name):
    """To the letter; docs/write_tables.py puts it there."""
    written = (DOCS / "studies" / f"{name}.md").read_text(encoding="utf-8")
    assert quoted((DOCS / PAGES[name]).read_text(encoding="utf-8"), name) == written
    word = {"sizes": "diffusion", "left_out": "cat(bed)", "interventions": "resnet18",
            "audit_null": "5 planted", "arena": "deepchecks", "audit_speed": "sliceline",
            "audit_growth": "10,000,000", "coverage": "auditing",
            "studio": "1,000,000", "benches": "metagraph"}.get(name, "erm")
    assert word in written or written == "It has not been run yet.\n"


def test_the_page_of_benches_shows_what_they_printed(tmp_path):
    """A line per log with the first words of the bench and its ratio, and then the last lines of the log."""
    (tmp_path / "metagraph.txt").write_text("\n".join([*map(str, range(20)), "ratio: 3.0"]))
    lines = bench_logs(tmp_path).splitlines()
    assert lines[2].endswith("| 3.0 | `python bench/metagraph.py` |")
    assert lines[lines.index("```text") + 1:] == [*map(str, range(9, 20)), "ratio: 3.0", "```"]


def test_coverage_is_summed_by_room():
    """Files of a folder are one line, and the last line is the sum."""
    keys = ("num_statements", "covered_lines", "num_branches", "covered_branches")
    files = {"api.py": (10, 9, 0, 0), "core/rng.py": (20, 20, 4, 3), "core/deep/files.py": (20, 10, 4, 3)}
    text = json.dumps({"files": {f"src/shiftbench/{name}": {"summary": dict(zip(keys, counts, strict=True))}
                                 for name, counts in files.items()}})
    assert coverage_table(text).splitlines()[2:] == [
        "| api.py | 10 | 90.0 | 0 | – |", "| core | 40 | 75.0 | 8 | 75.0 |", "| all | 50 | 78.0 | 8 | 75.0 |"]


def test_the_tables_of_the_arena_are_those_of_its_file():
    """What the file says is on the page; every bar has enough permuted tables, and ours keeps to its rate."""
    page = quoted((DOCS / "audit.md").read_text(encoding="utf-8"), "arena")
    text = (DOCS / "studies" / "arena.json").read_text(encoding="utf-8")
    assert page == arena_tables(text)
    rows = json.loads(text)["rows"]
    tools = {row["tool"] for row in rows}
    assert tools == {"shiftbench", "sliceline", "divexplorer", "pysubgroup", "giskard", "giskard_test", "deepchecks"}
    assert all(row["nulls"] >= 20 and row["at_equal"] for row in rows if row["planted"])
    ours = [row for row in rows if row["tool"] == "shiftbench"]
    assert sum(row["fdr"] for row in ours) / len(ours) < 0.1
    above = any("▲" in line for line in page.splitlines() if line.startswith("|"))
    assert ("no tool is above ours" in (DOCS / "audit.md").read_text(encoding="utf-8")) is not above


def test_a_tool_is_marked_where_it_differs_from_ours_by_two_standard_errors():
    """▲ above and ▼ below ours; nothing where the draws do not tell or one of the two is not known."""
    def row(value, error=0.1):
        return {"at_equal": {"recall": value, "recall_error": error}}

    ours = row(0.5)
    assert [mark(row(value), ours, "recall") for value in (0.9, 0.7, 0.5, 0.3, 0.1)] == [" ▲", "", "", "", " ▼"]
    assert mark(row(0.9, 0.3), ours, "recall") == ""
    assert mark(row(None, None), ours, "recall") == mark({"at_equal": None}, ours, "recall") == ""


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_audits_are_those_of_their_tables(name):
    """The line of docs/figures.md is made of the table that the bench wrote, and is the only one of its command."""
    line = FIGURES[name]((DOCS / "studies" / f"{name}.md").read_text(encoding="utf-8"))
    page = (DOCS / "figures.md").read_text(encoding="utf-8")
    assert page.splitlines().count(line) == 1
    assert with_line(page, line) == page
    with pytest.raises(ValueError, match="no line with the command"):
        with_line("# Figures\n", line)


def test_the_rungs_of_the_twins_rise_and_diffusion_hardly_changes_with_size():
    """In the published table every ladder rises under both distances, and no diffusion distance changes by a fifth."""
    lines = quoted((DOCS / "metashift.md").read_text(encoding="utf-8"), "sizes").splitlines()[2:]
    assert len(lines) == 8
    for line in lines:
        _, kind, *sizes = (cell.strip() for cell in line.strip("|").split("|"))
        rungs = [[float(value) for value in cell.split()] for cell in sizes]
        assert all(row == sorted(row) for row in rungs), line
        if kind == "diffusion":
            assert all(max(values) < 1.2 * min(values) for values in zip(*rungs, strict=True)), line


def test_the_table_of_interventions_is_that_of_the_figures(tmp_path):
    """Every benchmark and model of the figures' tables is a line, with its numbers and their intervals."""
    head = "benchmark,model,quantity,value,low,high\n"
    (tmp_path / "breeds-source-target.csv").write_text(
        head + "bad,resnet18,source,0.9,0.88,0.92\nbad,resnet18,target,0.45,0.4,0.5\nbad,resnet18,rt,0.8,0.75,0.85\n"
        "bad,resnet18,whole,0.875,0.85,0.9\nbad,adversarial,source,0.8,0.7,0.9\nbad,adversarial,target,0.4,0.3,0.5\n")
    (tmp_path / "breeds-relative.csv").write_text(head + "bad,resnet18,source,0.9,0.88,0.92\n"
                                                  "bad,resnet18,relative,0.5,0.45,0.55\n")
    assert breeds_table(tmp_path).splitlines() == [
        "| split | model | source | target | target-RT | trained on the target | relative |", "|--|--|--|--|--|--|--|",
        "| bad | resnet18 | 90.0 [88.0, 92.0] | 45.0 [40.0, 50.0] | 80.0 [75.0, 85.0] | 87.5 [85.0, 90.0] | "
        "50.0 [45.0, 55.0] |", "| bad | adversarial | 80.0 [70.0, 90.0] | 40.0 [30.0, 50.0] | – | – | – |"]


@pytest.mark.parametrize(("file", "name"), [("real_data.md", "real"), ("nooch.md", "nooch")])
def test_prose_has_no_number_of_its_own(file, name):
    """Every share and interval in the sentences is one that the run printed."""
    page = (DOCS / file).read_text(encoding="utf-8")
    found = quoted(page, name)
    said = re.findall(r"-?0\.\d{3}", page.replace(found, "").replace("−", "-"))
    assert said
    assert set(said) <= set(re.findall(r"-?0\.\d{3}", found))


def test_the_tips_have_no_number_of_their_own():
    """Every change with its interval beside the four tips of Wiles et al. is one that the page of the study has."""
    page, study = ((DOCS / name).read_text(encoding="utf-8") for name in ("fine_grained.md", "studies/fine_grained.md"))
    tips = page.partition("## The paper's four tips")[2].partition("\n## ")[0]
    numbers = re.findall(r"[+−]\d+\.\d % \[[^]]+\]", tips)
    assert len(numbers) == 4
    assert all(number in study for number in numbers)
    assert [line[2] for line in tips.splitlines() if re.match(r"\| \d\.", line)] == list("1234")


def test_a_table_is_written_as_markdown():
    """A line per method; bold is the best, ≈ tied with it, – where nothing was run; a bar in a name is escaped."""
    cell = {"value": 0.8234, "low": 0.8, "high": 0.85, "best": True, "tied": False}
    column = {"block": "Accuracy on dog(shelf)", "head": "d = 0.07", "under": "a|b"}
    table = {"title": "cat vs. dog", "columns": [column], "rows": [
        {"method": "erm", "cells": [cell]}, {"method": "irm", "cells": [{**cell, "best": False, "tied": True}]},
        {"method": "coral", "cells": [None]}]}
    assert as_markdown(table).splitlines() == [
        "cat vs. dog: accuracy on dog(shelf) on test, %", "", "| method | a\\|b, d = 0.07 |", "|--|--|",
        "| erm | **82.3** <sub>80.0–85.0</sub> |", "| irm | 82.3 ≈ <sub>80.0–85.0</sub> |", "| coral | – |"]


def test_a_study_is_dated_in_its_row():
    """The day of the run stands in the row that names the file; every file of docs/studies has one row."""
    results = (DOCS / "results.md").read_text(encoding="utf-8")
    for name in PAGES:
        changed = dated(results, name, "2001-02-03")
        assert [line for line in changed.splitlines() if "2001-02-03" in line] == [
            line for line in changed.splitlines() if f"| `{name}` |" in line]
        assert changed.count("2001-02-03") == 1
    with pytest.raises(ValueError, match="one row"):
        dated(results, "no study", "2001-02-03")


def test_only_what_is_between_the_marks_changes():
    """What is inserted is what is quoted; a page without the marks, or with two pairs, is an error."""
    page = "before\n<!-- t -->\nold\n<!-- end t -->\nafter\n"
    changed = inserted(page, "t", "new\n")
    assert quoted(changed, "t") == "new\n"
    assert changed.replace("new", "old") == page
    for bad in ("", page + page):
        with pytest.raises(ValueError, match="once each"):
            quoted(bad, "t")
