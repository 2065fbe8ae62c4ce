"""Weights that have seen the target's subclasses are named."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.names import check_unseen, classes_in, seen_note
from shiftbench.models.net import write_weights
from tests.toys import FEATURES, fitted, toy_features, toy_rows, toy_run

NONE = {"weights": "none", "features": ""}


def breeds_rows(names):
    """The toy with a subclass for every row, the last of the names in the test alone."""
    benchmark = toy_rows()[1]
    benchmark.extra["subclass"] = np.where(benchmark.split == "test", names[-1], names[0])
    return benchmark


@pytest.mark.parametrize(("settings", "names", "count"), [
    (NONE, ["n02085620", "n02086240"], 0),
    ({"weights": "imagenet", "features": ""}, ["n02085620", "n02086240"], 1),
    ({"weights": "none", "features": FEATURES}, ["n02085620", "n02086240"], 1),  # the backbone's weights are ImageNet's
    ({"weights": "none", "features": "columns"}, ["n02085620", "n02086240"], 0),
    ({"weights": "imagenet", "features": ""}, ["siamese", "collie"], 0),
])
def test_imagenet_has_seen_the_classes_of_imagenet(settings, names, count):
    """Only weights from ImageNet have, and only subclasses that are ImageNet's."""
    note = seen_note(settings, breeds_rows(names))
    assert bool(note) == bool(count)
    if count:
        assert "1 of the 1 subclasses of the target, such as 'n02086240'" in note
        with pytest.raises(ShiftBenchError, match=r"have seen 1 of the 1 .*weights=none"):
            check_unseen(settings, breeds_rows(names))
    else:
        check_unseen(settings, breeds_rows(names))


def test_a_file_of_ours_says_what_it_has_seen(tmp_path):
    """Classes of the source do not count, those of the target do; a file that says nothing has seen nothing known."""
    path = tmp_path / "weights.safetensors"
    write_weights(path, {"head.weight": torch.zeros(2, 2)}, {"classes": json.dumps(["collie", "siamese"])})
    assert classes_in(str(path)) == {"collie", "siamese"}
    settings = {"weights": str(path), "features": ""}
    assert "1 of the 1 subclasses of the target, such as 'collie'" in seen_note(settings, breeds_rows(["x", "collie"]))
    assert not seen_note(settings, breeds_rows(["siamese", "poodle"]))
    write_weights(path, {"head.weight": torch.zeros(2, 2)}, {})
    assert not seen_note(settings, breeds_rows(["siamese", "collie"]))


def test_a_run_on_such_weights_notes_it(tmp_path):
    """The note is in the run's log once, and is told."""
    benchmark = breeds_rows(["n02085620", "n02086240"])
    one = fitted(toy_run(benchmark), benchmark, toy_features(benchmark), tmp_path)
    assert ["have seen 1 of the 1" in note for note in one.notes] == [True]
    assert (tmp_path / "log.jsonl").read_text().count("have seen 1 of the 1") == 1


def test_strict_refuses_such_weights_before_anything_is_trained(shell, tmp_path):
    """train and sweep, by command and from Python, end with one line and leave no run."""
    collection, _ = toy_rows()
    collection.save(tmp_path / "c")
    benchmark = breeds_rows(["n02085620", "n02086240"])
    replace(benchmark, card={**benchmark.card, "collection": {**benchmark.card["collection"], "path": str(
        tmp_path / "c")}}).save(tmp_path / "b")
    (tmp_path / "study.toml").write_text(f'benchmarks = ["b"]\n[run]\nfeatures = "{FEATURES}"\n[methods.erm]\n')
    out = str(tmp_path / "R")
    study = (str(tmp_path / "study.toml"), "--out", out, "--strict")
    for words in (("train", str(tmp_path / "b"), "--method", "erm", "--features", FEATURES, "--out", out, "--strict"),
                  ("sweep", *study), ("sweep", *study, "--dry-run")):
        code, _, problem = shell(*words)
        assert code == 1
        assert "have seen 1 of the 1 subclasses of the target, such as 'n02086240'" in problem
    for verb, start in ((sb.train, (tmp_path / "b", "erm")), (sb.sweep, (tmp_path / "study.toml",))):
        settings = {"features": FEATURES} if verb is sb.train else {}
        with pytest.raises(ShiftBenchError, match=r"leave --strict \(strict=True\) out"):
            verb(*start, out=tmp_path / "R", strict=True, **settings)
    assert not (tmp_path / "R").exists() or not any((tmp_path / "R").iterdir())
