"""The plain step is the textbook's, and a reader follows it through four files."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import shiftbench
from shiftbench.methods import METHODS
from shiftbench.methods.method import Stage
from shiftbench.readers.annotation_files import no_collection
from shiftbench.shifts import LowData
from shiftbench.training.batches import Data, load
from shiftbench.training.lane import Lane
from shiftbench.training.run import Run
from shiftbench.training.step import Plain, batch_of, step
from shiftbench.worlds.sprites import sprites
from tests.toys import CPU, toy_features, toy_rows, toy_run

SOURCE = Path(shiftbench.__file__).parent


def entered(benchmark, data, **settings):
    run = toy_run(benchmark, **settings)
    return Lane(run, data, Stage(run.learner()), 0, None)


@pytest.fixture(scope="module")
def toy():
    _, benchmark = toy_rows()
    return benchmark, Data(benchmark, toy_features(benchmark), CPU)


@pytest.mark.parametrize("settings", [{}, {"schedule": "thirds"}, {"optimizer": "sgd", "momentum": 0.5}], ids=str)
def test_erm_is_what_every_course_teaches(toy, settings):
    """Batch, logits, cross-entropy, backward, optimizer: the same weights bit for bit."""
    benchmark, data = toy
    ours, by_hand = (entered(benchmark, data, method="erm", steps=6, **settings) for _ in range(2))
    (losses,) = Plain([ours]).advance(6)
    index, _ = by_hand.block(0, 6)
    optimizer = by_hand.optimizer
    for t, rate in enumerate(by_hand.rates(0, 6)):
        rows = torch.from_numpy(data.train[index[t]])
        label = torch.from_numpy(benchmark.label[rows]).long()
        loss = F.cross_entropy(by_hand.net(data.x[rows]), label, reduction="none").mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = float(rate)
        optimizer.step()
        assert losses[t] == float(loss.detach())
    for one, other in zip(ours.net.parameters(), by_hand.net.parameters(), strict=True):
        assert torch.equal(one, other)


def passed_by(call, *arguments):
    """What a call returns, and the source files in which a function runs meanwhile; none by a collection of garbage,
    which ends generators that other tests left."""
    passed = set()

    def note(frame, event, arg):
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            passed.add(str(Path(frame.f_code.co_filename).relative_to(SOURCE)))

    with no_collection():
        sys.setprofile(note)
        try:
            return call(*arguments), passed
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("method", sorted(
    name for name, cls in METHODS.items() if cls.needs in ("", "features") and not cls.model and (
        not getattr(cls(), "unlabelled", ""))))
def test_a_plain_step_passes_few_files(toy, method):
    """The batch comes from batches.py. The step is step.py, the net, the page of methods and the method's own, which
    ERM does without. None leads back to lane.py."""
    lane = entered(*toy, method=method, model="mlp")
    index, u = (None if block is None else torch.from_numpy(block) for block in lane.block(0, 2))
    for t in range(2):  # the first step finds torch through core/backend.py
        batch, of_batch = passed_by(batch_of, lane, index[t], None if u is None else u[t])
        _, of_step = passed_by(step, lane, batch, t, 0.1)
    assert of_batch == {"training/step.py", "training/batches.py"}
    assert len(of_step) <= (3 if method == "erm" else 4), of_step
    assert "training/lane.py" not in of_step


def test_evaluation_sees_images_as_training_does():
    """normalise = "image": a net gets the same standardised images in a batch and in an evaluation, another run on the
    same images gets the plain ones, and light and contrast of an image change no prediction."""
    collection = sprites(120, seed=0, size=32)
    benchmark = LowData("shape", "colour", ("blue",), n_low=8).build(collection)
    run = Run(benchmark.digest, model="small-cnn", steps=3, batch_size=8, normalise="image", augment="rotate-flip")
    data = load(benchmark, collection, run, CPU, None)
    lane = Lane(run, data, Stage(run.learner()), 0, None)
    Plain([lane]).advance(3)
    rows = data.train[:6]
    trained = data.batch(torch.arange(6), lane.net).x
    evaluated = torch.cat(list(data.by_chunk(lambda x: x, lane.net, rows)))
    assert torch.equal(trained, evaluated)
    varies = (data.x[rows].amax(dim=(1, 2)) > data.x[rows].amin(dim=(1, 2))).float()  # a channel may be black
    assert varies.any()
    torch.testing.assert_close(evaluated.std(dim=(2, 3)), varies, rtol=0, atol=1e-4)
    plain = load(benchmark, collection, replace(run, normalise=""), CPU, None)
    assert not torch.allclose(plain.batch(torch.arange(6), lane.net).x, trained, atol=0.1)
    dark, bright = (replace(data, x=x) for x in (data.x // 4, data.x // 4 * 3 + 20))
    assert not torch.equal(dark.x, bright.x)
    torch.testing.assert_close(dark.outputs(lane.net, rows), bright.outputs(lane.net, rows), rtol=0, atol=1e-4)
