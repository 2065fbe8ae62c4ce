"""Runs in a store come to a folder."""

import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.sweeps.jobs import FEW, GRAPHS, HEADS, Job, make_packs
from tests.toys import toy_rows, toy_run


def test_finished_runs_are_fetched_once(tmp_path, shell):
    """What is finished in the store can be read here, what is not stays; a second call brings nothing new."""
    for name, files in {"a": ("run.json", "predictions.parquet", "done"), "b": ("run.json", "unfinished.tar")}.items():
        (tmp_path / "store" / name).mkdir(parents=True)
        for file in files:
            (tmp_path / "store" / name / file).write_text(file)
    assert sb.fetch((tmp_path / "store").as_uri(), tmp_path / "runs") == ["a"]
    assert {path.name for path in (tmp_path / "runs" / "a").iterdir()} == {"done", "predictions.parquet", "run.json"}
    before = (tmp_path / "runs" / "a" / "done").stat().st_mtime_ns
    code, said, _ = shell("fetch", (tmp_path / "store").as_uri(), "--out", tmp_path / "runs")
    assert (code, "1 finished runs" in said) == (0, True)
    assert (tmp_path / "runs" / "a" / "done").stat().st_mtime_ns == before


def test_a_folder_needs_no_fetching(tmp_path):
    """A path where a URL belongs is told."""
    with pytest.raises(ShiftBenchError, match="not a URL"):
        sb.fetch(str(tmp_path), tmp_path / "runs")


def test_packs_hold_every_run_once_and_go_together():
    """Heads that can be stacked are one pack, images one by one on a CPU and side by side on a GPU."""
    _, benchmark = toy_rows()
    heads = [Job("b", "c", toy_run(benchmark, method=method, seed=seed, lr=lr).to_json())
             for method in ("erm", "irm") for seed in range(3) for lr in (0.1, 0.2, 0.3)]
    images = [Job("b", "c", toy_run(benchmark, model="small-cnn", features="", seed=seed).to_json())
              for seed in range(GRAPHS + 2)]
    for device, sizes in (("cpu", [9, 9, *[1] * len(images)]), ("cuda", [GRAPHS, GRAPHS, 2, GRAPHS, 2])):
        packs = make_packs([*heads, *images], device)
        assert [len(pack) for pack in packs] == sizes
        assert sorted(job.run.id for pack in packs for job in pack) == sorted(job.run.id for job in [*heads, *images])
        assert all(len({(job.run.features, job.benchmark) for job in pack}) == 1 for pack in packs)
    many = [Job("b", "c", toy_run(benchmark, seed=seed).to_json()) for seed in range(HEADS + 1)]
    assert [len(pack) for pack in make_packs(many, "cpu")] == [HEADS, 1]
    assert max(len(pack) for pack in make_packs(many[:32], "cpu", workers=4)) == FEW
