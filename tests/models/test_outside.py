"""Models of other libraries by name: what they are fed and which classes they know comes from the library."""

import pytest
import torch

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.names import facts, library_of
from shiftbench.models.outside import load


def test_a_timm_model_says_what_it_is_fed_and_what_it_tells_apart():
    """Side, normalisation and class names are those of timm's configuration; its outputs are one per class."""
    model = load("timm:resnet10t", "none")
    assert (model.feed.side, model.feed.mean, model.feed.crop) == (176, (123.675, 116.28, 103.53), 0.875)
    assert model.classes[0].startswith("tench")
    assert model.ids[0] == "n01440764"
    assert model.module(torch.zeros(1, 3, 64, 64)).shape == (1, len(model.classes))


def test_a_torchvision_model_says_what_it_is_fed_and_what_it_tells_apart():
    """Side, normalisation and class names are those of torchvision's weights."""
    model = load("torchvision:resnet18", "none")
    assert (model.feed.side, model.feed.interpolation, model.feed.crop) == (224, "bilinear", 0.875)
    assert model.feed.std == (58.395, 57.12, 57.375)
    assert model.classes[:2] == ("tench", "goldfish")


@pytest.mark.parametrize(("name", "words"), [
    ("timm:resnet1t", "No timm model named 'resnet1t'. Nearest: resnet14t, resnet10t"),
    ("timm:resnet18.none", "No timm model named 'resnet18.none'. Nearest: resnet18."),
    ("torchvision:resent18", "No torchvision model named 'resent18'. Nearest: resnet18"),
    ("hf:/no/such/folder", "/no/such/folder: no such folder"),
    ("resnet18", "Model 'resnet18' belongs to no library"),
])
def test_a_name_that_a_library_does_not_have_is_answered_with_the_nearest(name, words):
    """One line names what was asked for and what comes nearest."""
    with pytest.raises(ShiftBenchError, match=words.replace("(", r"\(")):
        load(name)


def test_the_form_of_a_name_says_its_library_without_importing_it():
    """Names of libraries, files and objects have a form; others are looked for in the catalogue."""
    names = ["timm:a", "torchvision:a", "hf:a/b", "models/mine.py:build", "object:Net@12", "resnet18", "timm:", "x:y"]
    assert [library_of(name) for name in names] == ["timm", "torchvision", "hf", "file", "object", "", "", ""]
    assert facts("timm:a").takes == "images"
    with pytest.raises(ShiftBenchError, match=r"No model named 'resnet8'. Did you mean 'resnet18'.*timm:NAME"):
        facts("resnet8")
