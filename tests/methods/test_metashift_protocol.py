"""How MetaShift trains: DomainBed's batches, frozen batch norms, and players that take turns."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from shiftbench.methods.presets import preset_settings
from shiftbench.training.batches import Data
from shiftbench.training.lane import Lane
from shiftbench.training.loop import Fitting
from shiftbench.training.run import Run
from tests.toys import CPU, fitted, method_of, net_of, ten_rows, toy_features, toy_rows, toy_run


@pytest.mark.parametrize("name", ["dann", "cdann"])
def test_taking_turns_is_two_optimizers(name):
    """With alternate = 1 under one Adam, f and D end with the weights of DomainBed's two: f first, D after, each with
    moments of its own, and neither moved by the other's loss."""
    _, batch, task = ten_rows()
    method = method_of(name, alternate=1, penalty=0.7, width=6, depth=1)
    nets, states = [], []
    for _ in range(2):
        torch.manual_seed(3)
        nets.append(net_of())
        states.append(method.state(task))
    one = torch.optim.Adam([*nets[0].parameters(), *states[0].parameters()], 0.01)
    for step in range(6):
        one.zero_grad()
        method.loss(nets[0], batch, states[0], step).backward()
        one.step()

    net, state = nets[1], states[1]
    learner = torch.optim.Adam(net.parameters(), 0.01)
    guesser = torch.optim.Adam(state.parameters(), 0.01)

    def guessing():
        z = net.features(batch.x)
        if name == "dann":
            return F.cross_entropy(state.discriminator(z), batch.domain)
        counts = F.one_hot(batch.label, 3).sum(dim=0)
        weight = 1.0 / (counts[batch.label] * 3)
        return (weight * F.cross_entropy(state.discriminator(z + state.label_vector(batch.label)), batch.domain,
                                         reduction="none")).sum()

    for count in range(1, 7):
        learner.zero_grad()
        guesser.zero_grad()
        if count % 2 < 1:
            guessing().backward()
            guesser.step()
        else:
            (F.cross_entropy(net(batch.x), batch.label) - 0.7 * guessing()).backward()
            learner.step()
    for pair in (nets, states):
        for first, second in zip(pair[0].parameters(), pair[1].parameters(), strict=True):
            torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-6)
    assert all(weight.requires_grad for weight in states[0].parameters())


def test_a_run_that_takes_turns_moves_one_player_at_a_time():
    """In training D's weights stay as they were at the first step, and the net's at the second."""
    _, benchmark = toy_rows()
    x = toy_features(benchmark)
    ends = {steps: fitted(toy_run(benchmark, method="cdann", params={"alternate": 1}, steps=steps, eval_every=1,
                                  select_on="last"), benchmark, x).learned for steps in (1, 2)}
    assert torch.equal(ends[1].logits("test"), ends[2].logits("test"))
    moved = [not torch.equal(one, other) for one, other in zip(
        ends[1].state.discriminator.parameters(), ends[2].state.discriminator.parameters(), strict=True)]
    assert all(moved)


def test_batches_hold_as_many_of_every_label_of_every_domain():
    """Rare cells come as often as common ones."""
    _, benchmark = toy_rows()
    data = Data(benchmark, toy_features(benchmark), CPU)
    run = toy_run(benchmark, batches="domain_label", batch_size=5)
    fitting = Fitting(run, data)
    lane = Lane(run, fitting.data, method_stage(run), 0, None)
    rows = data.train[lane.block(0, 30)[0]]
    cell = benchmark.domain[rows] * 2 + benchmark.label[rows]
    assert all(np.bincount(row, minlength=4).tolist() == [5, 5, 5, 5] for row in cell)
    train = benchmark.rows("train")
    assert np.ptp(np.bincount(benchmark.domain[train] * 2 + benchmark.label[train])) > 20


def method_stage(run: Run):
    """The first stage that the run's method asks for."""
    return next(run.learner().fit())


@pytest.mark.parametrize("frozen", [False, True])
def test_frozen_norms_keep_their_statistics(frozen):
    """Running means stay as they start while weights learn; without the setting they move."""
    collection, benchmark = toy_rows(80)
    run = Run(benchmark.digest, model="small-cnn", steps=3, batch_size=8, eval_every=2, frozen_norms=frozen)
    x = torch.from_numpy(collection.pixels)
    start = Lane(run, Data(benchmark, x, CPU), method_stage(run), 0, None).net.state_dict()
    end = fitted(run, benchmark, x).learned.net.state_dict()
    means = [key for key in start if key.endswith("running_mean")]
    assert means
    assert all(torch.equal(start[key], end[key]) == frozen for key in means)
    assert not torch.equal(start["head.weight"], end["head.weight"])


def test_a_run_without_frozen_norms_has_the_id_it_had():
    """The setting is left out of a run's facts where it says nothing."""
    run = Run("x", model="small-cnn")
    assert "frozen_norms" not in run.to_json()
    assert Run.of(run.to_json()) == run
    frozen = Run("x", model="small-cnn", frozen_norms=True)
    assert frozen.id != run.id
    assert Run.of(frozen.to_json()) == frozen


def test_the_preset_has_domainbeds_defaults():
    """Hyperparameters of the authors' copy of DomainBed, by method."""
    common = preset_settings("metashift", "erm")
    assert (common["batches"], common["frozen_norms"], common["lr"], common["optimizer"]) == (
        "domain_label", True, 5e-5, "adam")
    own = {name: {key: value for key, value in preset_settings("metashift", name).items() if key not in common}
           for name in ("group_dro", "irm", "coral", "cdann")}
    assert own == {"group_dro": {"by": "domain", "step_size": 0.01}, "irm": {"penalty": 100.0, "anneal": 0.1},
                   "coral": {"penalty": 1.0}, "cdann": {"penalty": 1.0, "width": 256, "depth": 2, "alternate": 1}}
    for name, params in own.items():
        method_of(name, **params)
