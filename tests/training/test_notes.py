"""What `train` says before it trains: that features are computed, and that a net does not fit the classes."""

import numpy as np
import pytest
from torch import nn

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.models import build
from shiftbench.models.net import Nets
from shiftbench.training.inputs import embed
from tests.toys import toy_rows

FEATURES = "efficientnet-lite0@32"


@pytest.fixture
def folders(tmp_path):
    collection, benchmark = toy_rows(24)
    collection.save(tmp_path / "c")
    benchmark.save(tmp_path / "b")
    return tmp_path


def test_features_that_are_not_cached_are_said(folders):
    """`train` says how many features it computes and where they go, shows how far it is, and computes them once."""
    said, steps = [], []
    words = {"collection": folders / "c", "features": FEATURES, "steps": 2, "device": "cpu"}
    sb.train(folders / "b", "erm", folders / "runs", say=said.append, progress=lambda *at: steps.append(at), **words)
    assert said == [f"features {FEATURES} of 24 of 24 items are not cached: computing them once, into "
                    f"{folders / 'c' / 'features'}. Choose others, or a smaller size, with --features BACKBONE@SIZE."]
    assert (24, 24) in steps
    sb.train(folders / "b", "erm", folders / "runs", say=said.append, seed=1, **words)
    assert len(said) == 1


def test_what_is_cached_is_taken(folders):
    """Of features that `embed` or another benchmark left, only the missing ones are computed."""
    collection, _ = toy_rows(24)
    embed(collection, np.arange(20), "efficientnet-lite0", 32, folder=folders / "c")
    said = []
    sb.train(folders / "b", "erm", folders / "runs", collection=folders / "c", features=FEATURES, steps=2, device="cpu",
             say=said.append)
    assert said[0].startswith(f"features {FEATURES} of 4 of 24 items are not cached")


def test_a_net_with_another_number_of_outputs_is_refused(monkeypatch):
    """A net whose head does not have one output per class is one error, before anything is trained."""
    plain = Nets.__getitem__

    class Stubborn(plain(Nets(), "linear")):
        def __init__(self, n_classes, n_inputs=0):
            super().__init__(n_classes, n_inputs)
            self.head = nn.Linear(n_inputs, 1000)

    monkeypatch.setattr(Nets, "__getitem__", lambda self, name: Stubborn if name == "linear" else plain(self, name))
    with pytest.raises(ShiftBenchError, match=r"Model 'linear' gives 1,000 outputs, but there are 2 classes"):
        build("linear", 2, 5)
