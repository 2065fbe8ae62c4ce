"""The graph net: what it may not see (order, padding, neighbours), what it must see, and that it learns."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods import METHODS, Batch, Task
from shiftbench.models import Net, build
from shiftbench.models.gin import ATOM_SIZES, BOND_SIZES

torch.set_num_threads(1)

seeds = st.integers(0, 2**32 - 1)


def molecule(rng: np.random.Generator, n: int | None = None) -> Tensor:
    """Lines of a molecule that is connected, with bonds both ways."""
    n = int(rng.integers(1, 9)) if n is None else n
    atoms = np.concatenate([np.zeros((n, 1), np.int64), rng.integers(0, ATOM_SIZES, (n, 9))], axis=1)
    ends = [(k, int(rng.integers(k))) for k in range(1, n)]
    edges = [[1, *way, *kind, -1, -1, -1, -1] for pair in ends
             for kind in [rng.integers(0, BOND_SIZES).tolist()] for way in (pair, pair[::-1])]
    return torch.from_numpy(np.concatenate([atoms, np.asarray(edges, np.int64).reshape(-1, 10)]))


def padded(listed: list[Tensor], more: int = 0) -> Tensor:
    x = torch.full((len(listed), max(map(len, listed)) + more, 10), -1)
    for row, lines in zip(x, listed, strict=True):
        row[:len(lines)] = lines
    return x


def shuffled(lines: Tensor, rng: np.random.Generator) -> Tensor:
    """The same molecule with its atoms in another order, and its edges too."""
    atoms, edges = lines[lines[:, 0] == 0], lines[lines[:, 0] == 1].clone()
    order = torch.from_numpy(rng.permutation(len(atoms)))
    edges[:, 1:3] = order.argsort()[edges[:, 1:3]]
    return torch.cat([atoms[order], edges[torch.from_numpy(rng.permutation(len(edges)))]])


def net_of(name: str = "gin-small", n_classes: int = 3, seed: int = 0) -> Net:
    """In 64 bits, in evaluation, with batch norms that have seen something, so that each of them matters."""
    net = build(name, n_classes, seed=seed).double()
    rng = np.random.default_rng(seed)
    net.train()(padded([molecule(rng) for _ in range(16)]))
    with torch.no_grad():  # eps and the virtual node start at 0: move them
        for key, value in net.named_parameters():
            if key.endswith(("eps", "features.virtual")):
                value.uniform_(-0.5, 0.5)
    return net.eval()


def dense(net: Net, lines: Tensor) -> Tensor:
    """One molecule by matrices: messages as an atoms × atoms × width array, with no index of ours."""
    body, atoms, edges = net.features, lines[lines[:, 0] == 0], lines[lines[:, 0] == 1]
    n, h, z = len(atoms), 0, body.virtual[0]
    for k, size in enumerate(ATOM_SIZES):
        h = h + F.one_hot(atoms[:, k + 1], size).double() @ body.atoms[k].weight
    for number, layer in enumerate(body.layers):
        h = h + z
        total = torch.zeros_like(h)
        for _, source, target, *kind in edges[:, :6].tolist():
            bond = sum(table.weight[value] for table, value in zip(layer.conv.bonds, kind, strict=True))
            one = torch.zeros(n, n, dtype=h.dtype)
            one[target, source] = 1
            total = total + one @ (h + bond).clamp(min=0)
        new = layer.norm(layer.conv.mlp((1 + layer.conv.eps) * h + total))
        if number + 1 < len(body.layers):
            new, z = new.clamp(min=0), layer.virtual((z + h.sum(dim=0))[None])[0]
        h = new
    return net.head(h.mean(dim=0))


@pytest.mark.parametrize("name", ["gin-small", "gin-virtual"])
def test_message_passing_is_the_dense_one(name: str) -> None:
    """A batch gives what matrices of every pair of atoms give, molecule by molecule, ways one and two."""
    net, rng = net_of(name), np.random.default_rng(1)
    listed = [molecule(rng) for _ in range(4)]
    listed.append(listed[0][listed[0][:, 0] == 0])  # no edge at all
    listed.append(torch.cat([molecule(rng, 4), molecule(rng, 4)[4:6]])[:-1])  # an edge that leads one way only
    with torch.no_grad():
        torch.testing.assert_close(net(padded(listed)), torch.stack([dense(net, lines) for lines in listed]))


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_the_order_of_atoms_does_not_matter(seed: int) -> None:
    """Atoms renumbered, edges along with them and in another order: the same outputs."""
    rng, net = np.random.default_rng(seed), net_of()
    listed = [molecule(rng) for _ in range(3)]
    with torch.no_grad():
        torch.testing.assert_close(net(padded([shuffled(lines, rng) for lines in listed])), net(padded(listed)))


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(0, 5))
def test_padding_and_neighbours_do_not_matter(seed: int, more: int) -> None:
    """In evaluation a molecule's outputs are its own, whatever stands beside it and however long the lines are."""
    rng, net = np.random.default_rng(seed), net_of()
    listed = [molecule(rng) for _ in range(4)]
    with torch.no_grad():
        whole = net(padded(listed, more))
        for number, lines in enumerate(listed):
            torch.testing.assert_close(net(lines[None])[0], whole[number])


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(0, 2))
def test_one_bond_makes_a_difference(seed: int, feature: int) -> None:
    """Two molecules that differ in one feature of one bond, or in one bond more, get other outputs."""
    rng, net = np.random.default_rng(seed), net_of()
    one = molecule(rng, 5)
    other = one.clone()
    other[-2:, 3 + feature] = (other[-2:, 3 + feature] + 1) % BOND_SIZES[feature]
    with torch.no_grad():
        outputs = net(padded([one, other, one[:-2]]))
    assert (outputs[0] - outputs[1]).abs().max() > 1e-9
    assert (outputs[0] - outputs[2]).abs().max() > 1e-9


def test_it_is_as_large_as_published() -> None:
    """OGB's table of results counts 3,374,533 parameters, with one kind of chirality less: 300 numbers."""
    assert sum(value.numel() for value in build("gin-virtual", 128).parameters()) == 3_374_533 + 300


@pytest.mark.parametrize("name", ["gin-small", "gin-virtual"])
def test_a_net_is_head_of_features_and_its_file_makes_it_again(name: str, tmp_path: Path) -> None:
    """logits = head(features(x)) with features of the stated width; a file of its weights gives the same net."""
    net, x = build(name, 4, seed=1).eval(), padded([molecule(np.random.default_rng(0)) for _ in range(3)])
    assert (net.takes, net.recordable) == ("graphs", False)
    z = net.features(x)
    assert z.shape == (3, net.width)
    assert torch.equal(net(x), net.head(z))
    assert net(x).shape == (3, 4)
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    again = build(name, 4, seed=2, weights=str(tmp_path / "w.safetensors")).eval()
    assert torch.equal(again(x), net(x))
    assert not torch.equal(build(name, 4, seed=2).eval()(x), net(x))


def test_dropout_repeats_from_its_buffers() -> None:
    """While training two passes differ; from the same buffers they are the same bit for bit."""
    net, x = build("gin-virtual", 2), padded([molecule(np.random.default_rng(0)) for _ in range(4)])
    twin = copy.deepcopy(net)
    first = net.train()(x)
    assert torch.equal(first, twin.train()(x))
    assert not torch.equal(first, net(x))


def test_sixteen_bits_are_near() -> None:
    """Under bfloat16 the net runs, learns, and says about the same."""
    net, x = net_of(n_classes=2).float(), padded([molecule(np.random.default_rng(0)) for _ in range(8)])
    with torch.autocast("cpu", torch.bfloat16):
        outputs = net(x)
    outputs.float().sum().backward()
    assert all(value.grad is not None for value in net.parameters())
    torch.testing.assert_close(outputs.float(), net(x), rtol=0.1, atol=0.1)


def test_a_molecule_of_nothing_is_no_number_gone_wrong() -> None:
    """A row of padding alone has features 0, and leaves the others as they are."""
    net, one = net_of(), molecule(np.random.default_rng(0))
    with torch.no_grad():
        z = net.features(padded([one, one[:0]]))
        torch.testing.assert_close(z[0], net.features(one[None])[0])
    assert torch.equal(z[1], torch.zeros_like(z[1]))


@pytest.mark.parametrize("shape", [(2, 10), (2, 5, 9), (2, 3, 32, 32)])
def test_another_shape_is_told(shape: tuple[int, ...]) -> None:
    """What is no array of lines is one error that says how graphs come."""
    with pytest.raises(ShiftBenchError, match=r"molecules × lines × 10, but got .*graph_lines"):
        build("gin-small", 2)(torch.zeros(shape, dtype=torch.int64))


@pytest.mark.learning
def test_tasks_with_gaps_are_learnt() -> None:
    """Two planted rules, each known for half of the molecules: is there a certain element, and a certain bond?"""
    rng = np.random.default_rng(0)
    listed = [molecule(rng, int(rng.integers(3, 7))) for _ in range(400)]
    for lines in listed:  # of three elements and two bonds, all else alike
        atoms, edges = lines[:, 0] == 0, lines[:, 0] == 1
        lines[atoms, 1] %= 3
        lines[atoms, 2:] = 0
        lines[edges, 3] = (lines[edges, 3] == 0).long()
        lines[edges, 4:6] = 0
    x = padded(listed)
    truth = torch.stack([((x[..., 0] == 0) & (x[..., 1] == 2)).any(dim=1),
                         ((x[..., 0] == 1) & (x[..., 3] == 1)).any(dim=1)], dim=1).float()
    known = torch.from_numpy(rng.random((400, 2)) < 0.5)
    net = build("gin-small", 2)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(180):
        rows = torch.from_numpy(rng.choice(300, 64, replace=False))
        losses = F.binary_cross_entropy_with_logits(net(x[rows]), truth[rows], reduction="none")
        loss = (losses * known[rows]).sum() / known[rows].sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = (net.eval()(x[300:]) > 0) == (truth[300:] > 0)
    share = truth[300:].mean(dim=0)
    assert bool((share.maximum(1 - share) < 0.85).all())  # saying always the same would not do
    assert float(right.float().mean()) > 0.9


@pytest.mark.parametrize("name", ["erm", "coral", "irm", "group_dro"])
def test_methods_run_on_graphs(name: str) -> None:
    """The four methods of WILDS give a finite loss, with a finite gradient for every parameter."""
    net, rng = build("gin-small", 3), np.random.default_rng(0)
    label, domain = torch.arange(9) % 3, torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2])
    counts = F.one_hot(domain, 3).T @ F.one_hot(label, 3)
    task = Task(3, 3, 3, net.width, counts, counts.sum(dim=1))
    method = METHODS[name]()
    batch = Batch(padded([molecule(rng) for _ in range(9)]), label, domain, domain, torch.arange(9))
    loss = method.loss(net, batch, method.state(task), 1000)
    loss.backward()
    assert torch.isfinite(loss)
    for key, value in net.named_parameters():
        assert value.grad is not None, key
        assert torch.isfinite(value.grad).all(), key
