"""The whole flow in one call: what `make demo` does, with half of the items, one seed, smaller pictures, fewer steps.

The methods that have no shape to show take fewest.
"""

import re

import pytest

from shiftbench import demonstration
from shiftbench.data.benchmark import Benchmark
from shiftbench.demonstration import HELD_OUT, LADDER, SHARES, demo
from shiftbench.reporting import distance_tables
from shiftbench.scoring.rules import RULES


def halved(line: re.Match[str]) -> str:
    return f"{line[1]} = {int(line[2]) // 2}"


@pytest.mark.slow
@pytest.mark.usefixtures("workers_here")
def test_the_demo_shows_the_shape_and_does_nothing_twice(tmp_path, monkeypatch):
    """ERM falls from every rung of the ladder to the one after next, and a second call trains no run again."""
    monkeypatch.setattr(demonstration, "FEATURES", "efficientnet-lite0@48")
    for name in ("SUBSET", "SUBPOPULATION"):  # half as many items in every split
        text = getattr(demonstration, name)
        monkeypatch.setattr(demonstration, name, re.sub(r"(?m)^(n_\w+) = (\d+)", halved, text))
    short = demonstration.STUDY.replace("steps = 200", "steps = 4")
    monkeypatch.setattr(demonstration, "STUDY", short.replace("[methods.erm]", "[methods.erm]\nsteps = 40"))
    shown = demo(tmp_path, items=6000, seeds=(0,), workers=1)
    benchmarks = [Benchmark.load(folder) for folder in shown.benchmarks]
    (table,) = distance_tables(shown.scores, benchmarks)
    far = [column["x"] for column in table["columns"]]
    erm = [cell["value"] for row in table["rows"] if row["method"] == "erm" for cell in row["cells"]]
    assert far == sorted(far)
    assert len(erm) == len(LADDER)
    assert all(later < sooner for sooner, later in zip(erm, erm[2:], strict=False))
    assert erm[-1] < 0.5 < erm[0]
    done = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/done")}
    assert len(done) == (len(LADDER) + len(SHARES) + 2 * len(HELD_OUT)) * 5 * 2  # methods, learning rates
    again = demo(tmp_path, items=6000, seeds=(0,), workers=1)
    assert again.scores == shown.scores
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/done")} == done
    assert len(shown.audit) > 0  # one in a hundred cats is outdoors in training
    assert (tmp_path / "audit.json").is_file()
    page = shown.page.read_text()
    assert "dog(shelf)" in page
    for rule in RULES.values():
        assert rule.head in page
