"""docs/shifts.md has every shift, condition and question, each once, and its recipes run as they stand."""

import re
from pathlib import Path

import numpy as np
import pytest

from shiftbench.data.benchmark import Benchmark
from shiftbench.data.questions import FORMS
from shiftbench.shifts import CONDITIONS, SHIFTS

PAGE = (Path(__file__).parent.parent / "docs" / "shifts.md").read_text()
RECIPES = {re.search(r"\[shift\.(\w+)\]", text)[1]: text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)}
CITIES = ("Berlin", "Hamburg", "Köln")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the photos of the page, in unequal cities and years."""
    place = tmp_path_factory.mktemp("page")
    rng, n = np.random.default_rng(0), 600
    day = np.datetime_as_string(np.datetime64("2015-01-01") + rng.integers(0, 1800, n))
    city = rng.choice(CITIES, n, p=[0.6, 0.3, 0.1])
    rows = zip(rng.choice(["healthy", "ill"], n), rng.choice(["train", "val", "test"], n), city, day,
               rng.integers(18, 90, n), strict=True)
    lines = [f"p{number:04}.jpg,{','.join(map(str, row))}" for number, row in enumerate(rows)]
    (place / "photos.csv").write_text("\n".join(["item,label,split,city,taken,age", *lines]) + "\n")
    return place


def commands(heading: str) -> list[list[str]]:
    """The words of the shiftbench lines in the first block below a heading."""
    block = PAGE.split(heading)[1].split("```")[1]
    return [line.split()[1:] for line in block.splitlines() if line.startswith("shiftbench ")]


def test_the_page_has_every_shift_once():
    """The table, the recipes and the registry have the same names, and each has its paragraph."""
    table = PAGE.split("| shift |")[1].split("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(SHIFTS)
    assert len(re.findall(r"```toml", PAGE)) == len(RECIPES)
    assert sorted(RECIPES) == sorted(SHIFTS)
    assert sorted(re.findall(r"^\*\*(\w+)\*\*:", PAGE, re.MULTILINE)) == sorted(SHIFTS)


def test_start_names_every_shift():
    """The first page a user reads lists them all and says how many they are."""
    start = (Path(__file__).parent.parent / "docs" / "start.md").read_text()
    section = start.split("## The shifts")[1].split("\n## ")[0]
    assert all(f"`{name}`" in section for name in SHIFTS)
    assert {12: "Twelve shifts"}[len(SHIFTS)] in section


def test_the_page_has_every_condition_and_question():
    """Their names are those of the registries."""
    assert sorted(re.findall(r"\[condition\.(\w+)\]", PAGE)) == sorted(CONDITIONS)
    table = PAGE.split("| question | answers |")[1].split("\n\n")[0]
    assert sorted(word.replace("\\", "") for word in re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)) == sorted(
        FORMS.values())


@pytest.mark.slow
def test_every_recipe_runs(folder, monkeypatch, shell):
    """Both collections are read and every recipe builds, as the page says; one without `test` builds all domains."""
    monkeypatch.chdir(folder)
    for words in commands("## A minimal recipe each"):
        words = ["4000" if word == "6000" else word for word in words]
        code, _, err = shell(*words, "--quiet", *(["--size", "32"] if "world" in words else []))
        assert (code, err) == (0, "")
    for name, text in RECIPES.items():
        Path(f"{name}.toml").write_text(text)
        code, _, err = shell("build", f"{name}.toml", "--out", f"benchmarks/{name}", "--quiet")
        assert (code, err) == (0, ""), name
        made = Benchmark.load(f"benchmarks/{name}")
        assert {"train", "test"} <= set(made.splits), name
    alone = Benchmark.load("benchmarks/leave_one_domain_out")
    assert int((alone.split == "test").sum()) == (folder / "photos.csv").read_text().count(",Hamburg,")
    Path("all.toml").write_text(RECIPES["leave_one_domain_out"].replace('test = "Hamburg"\n', ""))
    assert shell("build", "all.toml", "--out", "benchmarks/all", "--quiet")[0] == 0
    assert sorted(path.name for path in Path("benchmarks/all").iterdir()) == [f"city-{city}" for city in CITIES]
