"""The whole flow in one call: what `make demo` does, with one seed instead of three."""

import pytest

from shiftbench.benchmark import Benchmark
from shiftbench.demonstration import LADDER, METHODS, SHARES, demo
from shiftbench.reporting import distance_tables


@pytest.mark.slow
def test_the_demo_shows_the_shape_and_does_nothing_twice(tmp_path):
    """ERM falls from every rung of the ladder to the one after next, and a second call trains no run again."""
    shown = demo(tmp_path, seeds=(0,))
    benchmarks = [Benchmark.load(folder) for folder in shown.benchmarks]
    (table,) = distance_tables(shown.scores, benchmarks)
    far = [column["x"] for column in table["columns"]]
    erm = [cell["value"] for row in table["rows"] if row["method"] == "erm" for cell in row["cells"]]
    assert far == sorted(far)
    assert len(erm) == len(LADDER)
    assert all(later < sooner for sooner, later in zip(erm, erm[2:], strict=False))
    assert erm[-1] < 0.5 < erm[0]
    done = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/done")}
    assert len(done) == (len(LADDER) + len(SHARES)) * len(METHODS)
    again = demo(tmp_path, seeds=(0,))
    assert again.scores == shown.scores
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/done")} == done
    assert "dog(shelf)" in shown.page.read_text()
