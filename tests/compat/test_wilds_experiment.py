"""A script with the imports and calls of WILDS' own examples gives the package's numbers, to the printed digit."""

import importlib
import io
import os
import runpy
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import shiftbench as sb
from shiftbench.compat import answering, run_script
from shiftbench.compat.wilds import get_dataset, wilds_modules
from shiftbench.data.collection import Collection
from shiftbench.shifts.splits import Given
from tests.readers.wilds_files import read, table

SCRIPT = Path(__file__).with_name("wilds_experiment.py")
ALGORITHMS = ("ERM", "groupDRO", "IRM")
with_package = pytest.mark.skipif("SHIFTBENCH_WILDS" not in os.environ, reason="needs the package: make test-real")


@pytest.fixture(scope="module")
def patches(tmp_path_factory):
    """160 patches in Camelyon17's files, a colour per hospital and a weak one per label; read, and built below b/."""
    root, rng = tmp_path_factory.mktemp("patches"), np.random.default_rng(0)
    place = root / "camelyon17_v1.0"
    rows = []
    for n in range(160):
        slide, tumor = (n * 7) % 50, int(rng.integers(2))
        patient, node = f"{slide // 2:03}", slide % 2
        file = place / f"patches/patient_{patient}_node_{node}/patch_patient_{patient}_node_{node}_x_{n}_y_{n}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        shade = 90 + 15 * (slide // 10) + np.asarray([30, 0, -30]) * tumor
        Image.fromarray((rng.normal(shade, 40, (16, 16, 3))).clip(0, 255).astype(np.uint8)).save(file)
        rows.append([n, patient, node, n, n, tumor, slide, slide // 10, int(rng.random() < 0.2)])
    table(place / "metadata.csv", ["", "patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split"],
          rows)
    (place / "RELEASE_v1.0.txt").write_text("")
    read(root, "camelyon17").save(root / "c")
    sb.suite("wilds", root / "c", root / "b", only="camelyon17")
    return root


def printed(patches, algorithm, *more):
    """What the script prints with our modules."""
    words = ["--dataset", "camelyon17", "--algorithm", algorithm, "--root_dir", str(patches / "b"), *more]
    with redirect_stdout(io.StringIO()) as text:
        run_script(SCRIPT, words, wilds_modules({}))
    return text.getvalue()


@with_package
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("more", [(), ("--frac", "0.5")])
@pytest.mark.filterwarnings("ignore")
def test_the_package_prints_the_same(patches, algorithm, more, monkeypatch):
    """Losses, group counts, results, their text and the trained weights, line by line, also on half of the data."""
    words = ["--dataset", "camelyon17", "--algorithm", algorithm, "--root_dir", str(patches), *more]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
    with redirect_stdout(io.StringIO()) as text:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert printed(patches, algorithm, *more).splitlines() == text.getvalue().splitlines()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_script_says_what_the_package_said(patches, algorithm):
    """Without the package: its last validation, as it was recorded, and its words for splits and groups."""
    text = printed(patches, algorithm)
    assert [line for line in text.splitlines() if line in ("Train", "Validation (ID)", "Test", "Validation (OOD)")] == [
        "Train", "Validation (ID)", "Test", "Validation (OOD)"]
    assert "    hospital = 1: n = 0\n" in text
    averages = [line for line in text.splitlines() if line.startswith("Average acc: ")]
    assert len(averages) == 8
    assert (averages[-4:], text.splitlines()[-1]) == RECORDED[algorithm]


@with_package
@pytest.mark.filterwarnings("ignore")
def test_the_package_has_the_same_metrics_and_groups():
    """Every metric, loss and function of `wilds.common` gives the package's value on the same tensors."""
    modules = ("wilds.common.metrics.all_metrics", "wilds.common.metrics.loss", "wilds.common.utils")
    theirs = [importlib.import_module(name) for name in modules]
    with answering(wilds_modules({})):
        ours = [importlib.import_module(name) for name in modules]
    for (mine, own), (_, other) in zip(values(*ours).items(), values(*theirs).items(), strict=True):
        assert torch.allclose(own.double(), other.double(), rtol=2e-6, atol=1e-7, equal_nan=True), mine
        assert own.shape == other.shape, mine


def values(metrics, losses, groups):
    """Results of `wilds.common` on drawn tensors, by name."""
    torch.manual_seed(0)
    logits, y, g = torch.randn(40, 3), torch.randint(0, 3, (40,)), torch.randint(0, 4, (40,)).clamp(max=2)
    tasks, answers = torch.randn(40, 5), torch.randint(0, 2, (40, 5)).float()
    answers[torch.rand(40, 5) < 0.3] = float("nan")
    numbers = torch.randn(40, 1)
    two = torch.randint(0, 2, (40,))
    loss = losses.ElementwiseLoss(torch.nn.CrossEntropyLoss(reduction="none"))
    found = {}
    for name, metric, predicted, label in (
        ("loss", loss, logits, y), ("acc", metrics.Accuracy(metrics.multiclass_logits_to_pred), logits, y),
        ("mse", metrics.MSE(), numbers, numbers * 0.3 + 1), ("r", metrics.PearsonCorrelation(), numbers, numbers ** 2),
        ("f1", metrics.F1(metrics.multiclass_logits_to_pred, average="macro"), logits, y),
        ("f1 binary", metrics.F1(), two, two.flip(0)), ("recall binary", metrics.Recall(), two, two.flip(0)),
        ("recall weighted", metrics.Recall(metrics.multiclass_logits_to_pred, average="weighted"), logits, y),
        ("tasks", metrics.MultiTaskAccuracy(metrics.binary_logits_to_pred), tasks, answers),
        ("bce", losses.MultiTaskLoss(torch.nn.BCEWithLogitsLoss(reduction="none")), tasks, answers),
        ("ap", metrics.MultiTaskAveragePrecision(), tasks, answers), ("dummy", metrics.DummyMetric(), logits, y),
        ("precision", metrics.PrecisionAtRecall(0.5, metrics.binary_logits_to_score), logits[:, :2], two),
        ("plain", losses.Loss(torch.nn.CrossEntropyLoss()), logits, y),
    ):
        found |= {f"{name} {key}": torch.tensor(value) for key, value in (
            metric.compute(predicted, label) | metric.compute_group_wise(predicted, label, g, 4)).items()}
    found["elements"] = loss.compute_element_wise(logits, y, return_dict=False)
    for name, labels in (("multiclass_logits", logits), ("binary_logits", tasks)):
        kept = getattr(metrics, f"pseudolabel_{name}")(labels, 0.6)
        found |= {f"{name} {at}": torch.as_tensor(value).float() for at, value in enumerate(kept)}
    boxes = [{"boxes": torch.rand(4, 4), "labels": torch.ones(4), "scores": torch.tensor([0.2, 0.9, 0.7, 0.1]) * scale,
              "losses": {}} for scale in (1, 0.5)]
    for name in ("detection", "detection_discard_empty"):
        kept, labels, share, mask = getattr(metrics, f"pseudolabel_{name}")(boxes, 0.6)
        found |= {f"{name} kept": torch.cat([one["boxes"] for one in kept]), f"{name} share": torch.as_tensor(share),
                  f"{name} labels": torch.cat([one["labels"] for one in labels]), f"{name} mask": mask}
    found |= {f"counts {at}": value for at, value in enumerate(groups.avg_over_groups(numbers[:, 0], g, 4))}
    found |= {f"own {at}": value for at, value in enumerate(groups.split_into_groups(g)[1])}
    found["subsample"] = torch.from_numpy(groups.subsample_idxs(np.arange(50), num=20, take_rest=True, seed=7))
    found["shuffle"] = torch.from_numpy(groups.shuffle_arr(np.arange(50), seed=7))
    found["recall"] = torch.tensor(groups.threshold_at_recall(numbers[:, 0].numpy(), two.numpy()))
    found["least"] = torch.as_tensor(groups.minimum(torch.tensor([3.0, float("nan"), 2.0])))
    found["most"] = torch.as_tensor(groups.maximum(np.asarray([3.0, np.nan])))
    found["none"] = torch.as_tensor(groups.maximum([], empty_val=5.0))
    return found


def test_metrics_are_means_of_their_items():
    """A group's loss is the mean over its items, 0 in an empty one; the worst is the largest, of accuracy the least."""
    with answering(wilds_modules({})):
        metrics, losses, groups = (importlib.import_module(f"wilds.common.{name}") for name in (
            "metrics.all_metrics", "metrics.loss", "utils"))
    found = values(metrics, losses, groups)
    torch.manual_seed(0)
    logits, y, g = torch.randn(40, 3), torch.randint(0, 3, (40,)), torch.randint(0, 4, (40,)).clamp(max=2)
    each = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    wanted = [each[g == group].mean().item() for group in range(3)]
    assert [found[f"loss loss_group:{group}"].item() for group in range(4)] == pytest.approx([*wanted, 0.0])
    assert found["loss loss_wg"].item() == pytest.approx(max(wanted))
    right = (logits.argmax(1) == y).float()
    assert found["acc acc_wg"].item() == pytest.approx(min(right[g == group].mean().item() for group in range(3)))
    assert found["acc count_group:3"].item() == 0


def test_the_grouper_warns_in_the_package_s_words(patches):
    """A least value that is not 0 and fractions are warned of; a subset is refused, as its groups would differ."""
    with answering(wilds_modules({})):
        wilds = importlib.import_module("wilds")
        grouper = importlib.import_module("wilds.common.grouper").CombinatorialGrouper
    data = wilds.get_dataset("camelyon17", root_dir=patches / "b")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grouper(data, ["hospital"])
    data.metadata_array = data.metadata_array + 1
    with pytest.warns(UserWarning, match=r"^Minimum metadata value for CombinatorialGrouper is not 0 \(slide, 1\)\. "
                                         "This will result in empty groups$"):
        grouper(data, ["slide"])
    data.metadata_array = (data.metadata_array - 1) / 2
    with pytest.warns(UserWarning, match=r"^CombinatorialGrouper: converting metadata with fields \[y\] into long$"):
        grouper(data, ["y"])
    with pytest.raises(ValueError, match="subset"):
        grouper(data.get_subset("val"), ["y"])


def test_items_to_adapt_with_are_the_unlabeled_ones(tmp_path):
    """`unlabeled=True` has the rows of target_train: (x, metadata), their labels on demand or from a teacher, and the
    columns of the labelled data set, so that one grouper is made of both."""
    split = np.repeat(["train", "val", "test", "target_train"], [8, 4, 4, 6])
    world = Collection("pets", np.arange(22).astype(str), factors={
        "label": np.asarray(["cat", "dog"])[np.arange(22) % 2], "home": np.where(np.arange(22) < 12, "in", "out"),
        "split": split}, pixels=np.arange(22, dtype=np.uint8)[:, None, None, None] * np.ones((1, 8, 8, 3), np.uint8))
    world.save(tmp_path / "c")
    benchmark = Given(domain="home").build(world)
    with answering(wilds_modules({})):
        names = importlib.import_module("wilds.datasets.unlabeled.wilds_unlabeled_dataset")
        loaders = importlib.import_module("wilds.common.data_loaders")
        grouper = importlib.import_module("wilds.common.grouper").CombinatorialGrouper
    labelled, items = (get_dataset(benchmark, collection=world, unlabeled=unlabeled) for unlabeled in (False, True))
    assert isinstance(items, names.WILDSUnlabeledDataset)
    assert (len(items), items.split_dict, items.split_names) == (
        6, {"test_unlabeled": 12}, {"test_unlabeled": "Unlabeled Test"})
    assert items.metadata_fields == labelled.metadata_fields
    both = grouper([labelled, items], ["domain"])
    assert both.metadata_to_group(items.metadata_array).tolist() == [1] * 6

    def shade(picture):
        return np.asarray(picture)[0, 0, 0]

    plain, judged = (items.get_subset("test_unlabeled", transform=shade, load_y=load_y) for load_y in (False, True))
    assert [int(x) for x, _ in plain] == list(range(16, 22))
    assert [int(y) for _, y, _ in judged] == [0, 1] * 3
    guessed = names.WILDSPseudolabeledSubset(plain, torch.arange(6), shade, collate=items.collate)
    assert [(int(x), int(y)) for x, y, _ in guessed] == [(16 + at, at) for at in range(6)]
    x, y, metadata = next(iter(loaders.get_train_loader("group", guessed, 5, grouper=both, n_groups_per_batch=1)))
    assert len(set(y.tolist())) == 5
    assert (x.long() - 16 == y).all()
    assert torch.equal(metadata, items.metadata_array[y])
    with pytest.raises(ValueError, match="test_unlabeled"):
        items.get_subset("train_unlabeled")
    with pytest.raises(AttributeError):
        items.eval(y, y, metadata)


RECORDED = {
    "ERM": (["Average acc: 0.568", "Average acc: 1.000", "Average acc: 0.727", "Average acc: 0.906"],
            "['-0.0322', '0.0151', '-0.0759', '-0.0770']"),
    "groupDRO": (["Average acc: 0.514", "Average acc: 1.000", "Average acc: 1.000", "Average acc: 1.000"],
                 "['-0.0292', '0.0224', '-0.0747', '-0.0810']"),
    "IRM": (["Average acc: 0.639", "Average acc: 0.562", "Average acc: 0.455", "Average acc: 0.312"],
            "['-0.0979', '-0.0409', '-0.1186', '-0.1196']"),
}
"""The last four averages and the first weights that wilds 2.0.0 printed, with torch 2.15."""
