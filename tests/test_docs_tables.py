"""Numbers in the docs are those that a command wrote."""

import re
from pathlib import Path

import pytest

from docs.write_tables import PAGES, breeds_table, inserted, quoted
from shiftbench.reporting.score_tables import as_markdown

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_quotes_what_a_command_wrote(name):
    """To the letter; docs/write_tables.py puts it there."""
    written = (DOCS / "studies" / f"{name}.md").read_text(encoding="utf-8")
    assert quoted((DOCS / PAGES[name]).read_text(encoding="utf-8"), name) == written
    word = {"sizes": "diffusion", "left_out": "cat(bed)", "interventions": "resnet18"}.get(name, "erm")
    assert word in written or written == "It has not been run yet.\n"


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
    assert len(numbers) == 2
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


def test_only_what_is_between_the_marks_changes():
    """What is inserted is what is quoted; a page without the marks, or with two pairs, is an error."""
    page = "before\n<!-- t -->\nold\n<!-- end t -->\nafter\n"
    changed = inserted(page, "t", "new\n")
    assert quoted(changed, "t") == "new\n"
    assert changed.replace("new", "old") == page
    for bad in ("", page + page):
        with pytest.raises(ValueError, match="once each"):
            quoted(bad, "t")
