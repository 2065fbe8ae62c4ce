"""Models of text and code: tokens, padding, causality, what they learn, and nets of the package transformers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.target import Target, TokenTarget
from shiftbench.methods import METHODS
from shiftbench.methods.method import Batch, Task
from shiftbench.models import MODELS, build
from shiftbench.models.net import weights_digest
from shiftbench.models.text_nets import BUCKETS, PAIRS, hashed_words, pairs

torch.set_num_threads(1)
WORDS = ["text-bag", "text-transformer"]
OWN = [*WORDS, "code-transformer"]
N_TOKENS = 11


def tokens(n: int = 3, length: int = 9, most: int = N_TOKENS, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, most, (n, length), generator=torch.Generator().manual_seed(seed))


def assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------------------------------------------------- words

@given(st.lists(st.text(max_size=40), max_size=4), st.integers(1, 12), st.integers(0, 8))
def test_a_text_is_cut_by_itself(texts, length, more):
    """Rows do not depend on each other, on case, or on the length but for where they end; padding comes last."""
    found = hashed_words(texts, length)
    assert found.shape == (len(texts), length)
    assert found.dtype == np.int32
    assert ((found >= 0) & (found < BUCKETS)).all()
    assert ((found[:, 1:] == 0) | (found[:, :-1] > 0)).all()
    for row, text in zip(found, texts, strict=True):
        assert (hashed_words([text.lower()], length + more)[0, :length] == row).all()


def test_tokens_are_the_same_in_every_process():
    """The hash is CRC-32, by its published check value; words keep their apostrophes, marks stand alone."""
    assert hashed_words(["123456789"], 1) == 1 + 0xCBF43926 % (BUCKETS - 1)
    one, other = hashed_words(["Don\u2019t stop, CAFÉ!", "don't\tSTOP\ncafé ! ,"], 6)
    assert one[[0, 1, 3, 4, 2, 5]].tolist() == other.tolist()
    assert len(set(one.tolist())) == 6
    assert (hashed_words(["half a pair: \ud800"], 9) > 0).sum() == 5
    with pytest.raises(ShiftBenchError, match="at least 1"):
        hashed_words(["a"], 0)


@pytest.mark.parametrize("name", WORDS)
def test_texts_become_inputs(name):
    """A class cuts its own texts, and its net takes them."""
    x = MODELS[name].tokens(["a good film", "", "bad"], 5, "none")
    assert build(name, 2)(torch.from_numpy(x)).shape == (3, 2)


def test_pairs_are_spread():
    """Pairs know their order, and a hundred thousand different ones fill the buckets at least as chance would."""
    assert pairs(torch.tensor([[3, 5]])) != pairs(torch.tensor([[5, 3]]))
    for every in (torch.cartesian_prod(torch.arange(1, 1001), torch.arange(1, 101)), tokens(100_000, 2, BUCKETS)):
        found = pairs(every)
        assert found.min() >= 0
        assert found.max() < PAIRS
        assert len(found.unique()) / PAIRS > 1 - np.exp(-len(every) / PAIRS) - 0.01


# -------------------------------------------------------------------------------------------------------------- nets

@pytest.mark.parametrize("name", OWN)
def test_a_net_is_head_of_features(name):
    """Outputs are head(features), per place where the net says so, for tokens of 32 and of 64 bits."""
    net, x = build(name, N_TOKENS).eval(), tokens()
    z = net.features(x)
    assert z.shape == ((3, 9, net.width) if net.per_place else (3, net.width))
    assert torch.equal(net(x), net.head(z))
    assert torch.equal(net(x.int()), net(x))
    assert net(x).shape == (*z.shape[:-1], N_TOKENS)


@pytest.mark.parametrize("name", OWN)
def test_a_seed_fixes_the_start_and_a_file_restores_it(name, tmp_path):
    """The same seed gives the same weights, another gives others, and a file makes any net the one that was saved."""
    net = build(name, N_TOKENS, seed=1)
    assert weights_digest(build(name, N_TOKENS, seed=1)) == weights_digest(net)
    other = build(name, N_TOKENS, seed=2)
    assert weights_digest(other) != weights_digest(net)
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    assert weights_digest(build(name, N_TOKENS, weights=str(tmp_path / "w.safetensors"), seed=2)) == weights_digest(net)


@pytest.mark.parametrize("name", WORDS)
def test_padding_and_neighbours_change_nothing(name):
    """An item's features are the same with more padding, in another order of the batch, and alone."""
    net, x = build(name, 2).eval(), tokens(4, 9, BUCKETS)
    x[1, 4:], x[2, 1:] = 0, 0
    z = net.features(x)
    assert_close(net.features(F.pad(x, (0, 7))), z)
    assert_close(net.features(x.flip(0)).flip(0), z)
    assert_close(net.features(x[1:2, :4]), z[1:2])
    assert_close(net.features(x[2:3, :1]), z[2:3])


@pytest.mark.parametrize("name", WORDS)
def test_an_empty_text_has_no_features(name):
    """A text without words has features 0, and spoils no gradient of the others."""
    net, x = build(name, 2), tokens(3, 5, BUCKETS)
    x[1] = 0
    z = net.features(x)
    assert torch.equal(z[1], torch.zeros(net.width))
    gradients = torch.autograd.grad(z.sin().sum(), list(net.features.parameters()))
    assert all(bool(torch.isfinite(one).all()) for one in gradients)


@pytest.mark.parametrize("name", WORDS)
def test_order_matters(name):
    """The same words in another order are another text."""
    net = build(name, 2).eval()
    x = tokens(1, 6, BUCKETS)
    assert (net.features(x) - net.features(x[:, [1, 0, 2, 3, 4, 5]])).abs().max() > 1e-4


@pytest.mark.parametrize("name", OWN)
def test_a_step_looks_at_no_data(name):
    """Loss and gradients can be computed of tensors without values, so a GPU can record a step and replay it."""
    with torch.device("meta"):
        x, net = torch.zeros(3, 9, dtype=torch.int64), build(name, N_TOKENS)
    net = net.to("meta").train()
    gradients = torch.autograd.grad(net(x).square().mean(), list(net.parameters()))
    assert [one.shape for one in gradients] == [one.shape for one in net.parameters()]


@pytest.mark.parametrize("name", OWN)
def test_sixteen_bits_and_repeating_algorithms_say_the_same(name):
    """Under autocast features stay close to those of 32 bits; where algorithms must repeat they are the same."""
    net, x = build(name, N_TOKENS).eval(), tokens()
    z = net.features(x)
    with torch.autocast("cpu", torch.bfloat16):
        half = net.features(x)
    assert (half.float() - z).abs().max() < 0.03 * z.abs().max() + 1e-6
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert_close(net.features(x), z)
    finally:
        torch.use_deterministic_algorithms(False)


# ---------------------------------------------------------------------------------------------------------- learning

def steps(net, x: torch.Tensor, label: torch.Tensor, n: int, lr: float, batch: int = 32) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr, fused=True)
    net.train()
    for step in range(n):
        rows = torch.arange(step * batch, (step + 1) * batch) % len(x)
        optimizer.zero_grad()
        F.cross_entropy(net(x[rows]).flatten(0, -2), label[rows].flatten()).backward()
        optimizer.step()
    net.eval()


def reviews(n: int, seed: int) -> tuple[list[str], torch.Tensor]:
    """Twelve words of a hundred, one of which says what the review thinks."""
    draw = np.random.default_rng(seed)
    label, said = draw.integers(2, size=n), draw.integers(100, size=(n, 12))
    texts = [[f"word{word}" for word in row] for row in said]
    for text, truth in zip(texts, label, strict=True):
        text[draw.integers(12)] = (("awful", "dull"), ("great", "fine"))[truth][draw.integers(2)]
    return [" ".join(text) + "." for text in texts], torch.from_numpy(label)


@pytest.mark.learning
@pytest.mark.parametrize(("name", "n", "lr"), [("text-bag", 60, 1e-2), ("text-transformer", 40, 1e-3)])
def test_planted_words_are_learnt(name, n, lr):
    """A few dozen steps find the four words that decide, and new texts are told apart by them."""
    net, (texts, label), (new, truth) = build(name, 2), reviews(2048, 0), reviews(200, 1)
    steps(net, torch.from_numpy(net.tokens(texts, 16, "none")), label, n, lr)
    with torch.inference_mode():
        said = net(torch.from_numpy(net.tokens(new, 20, "none"))).argmax(dim=1)
    assert (said == truth).double().mean() > 0.95


@pytest.mark.learning
def test_a_rule_of_code_is_learnt():
    """After a few dozen steps the next token is known where it is the one three before, which no single token tells."""
    def lines(n: int, seed: int) -> torch.Tensor:
        start = torch.randint(N_TOKENS, (n, 3), generator=torch.Generator().manual_seed(seed))
        return start.repeat(1, 4)
    net, x = build("code-transformer", N_TOKENS), lines(512, 0)
    steps(net, x[:, :-1], x[:, 1:], 70, 3e-3)
    new = lines(100, 1)
    with torch.inference_mode():
        right = net(new[:, :-1]).argmax(dim=2) == new[:, 1:]
    assert right[:, 2:].double().mean() > 0.95
    assert right[:, :2].double().mean() < 0.4  # there it has only been guessed


@pytest.mark.parametrize("method", ["erm", "coral", "irm", "group_dro"])
@pytest.mark.parametrize("name", ["text-transformer", "code-transformer"])
def test_methods_move_every_parameter(name, method):
    """The paper's methods have a finite gradient for every parameter, of whole texts and of next tokens."""
    net, x = build(name, N_TOKENS).train(), tokens(8, 6)
    x[3, 4:] = 0 if name == "text-transformer" else -100
    codes = torch.arange(8) % 2
    label = F.pad(x[:, 1:], (0, 1), value=-100) if net.per_place else x[:, 0]
    batch = Batch(x, label, codes, codes, torch.arange(8), loss=(TokenTarget if net.per_place else Target).loss)
    task = Task(N_TOKENS, 2, 2, net.width, torch.full((2, N_TOKENS), 4), torch.tensor([4, 4]))
    learner = METHODS[method]()
    loss = learner.loss(net, batch, learner.state(task), 1000)
    for one in torch.autograd.grad(loss, list(net.parameters())):
        assert bool(torch.isfinite(one).all())
        assert bool(one.any())


# -------------------------------------------------------------------------------------------------------------- code

@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 7), st.integers(0, 2**31))
def test_a_place_sees_nothing_after_it(place, seed):
    """Whatever follows place t, padding included, features and outputs up to t stay."""
    net, x = build("code-transformer", N_TOKENS).eval(), tokens(2, 9, seed=seed)
    other = x.clone()
    other[0, place + 1:] = tokens(1, 9, seed=seed + 1)[0, place + 1:]
    other[1, place + 1:] = -100
    with torch.inference_mode():
        assert_close(net(other)[:, :place + 1], net(x)[:, :place + 1])
        if place:
            other[0, place - 1] = N_TOKENS - other[0, place - 1]
            assert (net(other)[0, place] - net(x)[0, place]).abs().max() > 1e-6


def test_plain_texts_have_no_next_token():
    """A model of next tokens takes those of the benchmark, and says what to use for texts."""
    with pytest.raises(ShiftBenchError, match=r"comes with its tokens.*text-bag"):
        MODELS["code-transformer"].tokens(["x = 1"], 8, "none")
