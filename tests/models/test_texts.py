"""Models of text and code: tokens, padding, causality, what they learn, and nets of the package transformers."""

import builtins
import json
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods import METHODS
from shiftbench.methods.method import Batch, Task
from shiftbench.models import MODELS, build
from shiftbench.models.text_nets import BUCKETS, PAIRS, hashed_words, pairs
from shiftbench.models.weights import weights_digest

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
    batch = Batch(x, label, codes, codes, torch.arange(8), kind="tokens" if net.per_place else "class")
    task = Task(N_TOKENS, 2, 2, net.width, torch.full((2, N_TOKENS), 4), torch.tensor([4, 4]))
    learner = METHODS[method]()
    loss = learner.loss(net, batch, learner.state(task), 1000)
    for one in torch.autograd.grad(loss, list(net.parameters())):
        assert bool(torch.isfinite(one).all())
        assert bool(one.any())


# -------------------------------------------------------------------------------------------------------------- code

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


# ------------------------------------------------------------------------------------------ the package transformers

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "a", "the", "!"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Nets of two layers and width 16 in the layout of the hub, with a tokenizer of ten words: random, but whole."""
    package = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    words = Tokenizer(models.WordLevel({word: code for code, word in enumerate(VOCABULARY)}, marks["unk_token"]))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2),
                                                                                                   ("[SEP]", 3)])
    cut = package.PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=20, **marks)
    sizes = {"vocab_size": len(VOCABULARY), "pad_token_id": 0, "max_position_embeddings": 32}
    bert = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, **sizes}
    made = {
        "distilbert": package.DistilBertForSequenceClassification(package.DistilBertConfig(
            dim=16, n_layers=2, n_heads=2, hidden_dim=32, num_labels=3, **sizes)),
        "bert": package.BertForSequenceClassification(package.BertConfig(num_labels=3, **bert)),
        "roberta": package.RobertaForSequenceClassification(package.RobertaConfig(num_labels=3, **bert)),
        "gpt2": package.GPT2LMHeadModel(package.GPT2Config(
            n_embd=16, n_layer=2, n_head=2, n_inner=32, vocab_size=len(VOCABULARY), n_positions=32,
            bos_token_id=2, eos_token_id=3)),
    }
    root = tmp_path_factory.mktemp("hub")
    for name, model in made.items():
        for part in model.parameters():  # layers that start at 0 would hide mistakes
            part.data += 0.2 * torch.randn_like(part)
        model.save_pretrained(root / name)
        cut.save_pretrained(root / name)
    return root


TEXTS = ["a good film !", "the bad unheard", "", "good"]
READERS = ["distilbert", "bert", "roberta"]
"""GPT-2 can be asked for the class of a text too: it reads off its last token."""


def net_and_x(folders, kind: str, n_classes: int = 3, length: int = 8, seed: int = 0):
    x = torch.from_numpy(MODELS["transformers"].tokens(TEXTS, length, str(folders / kind)))
    return build("transformers", n_classes, length, str(folders / kind), seed).eval(), x


@pytest.mark.parametrize("kind", READERS)
def test_a_published_classifier_is_itself(folders, kind):
    """From a folder with a head of as many classes, outputs are those of the package's own classifier."""
    import transformers

    net, x = net_and_x(folders, kind)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folders / kind).eval()
    given = transformers.AutoTokenizer.from_pretrained(folders / kind)(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        expected = theirs(input_ids=given["input_ids"], attention_mask=given["attention_mask"]).logits
        assert_close(net(x), expected)
        assert_close(net.head(net.features(x)), net(x))
    assert x[0].tolist() == [3, 8, 5, 7, 10, 4, 0, 0]
    assert net.width == 16


@pytest.mark.parametrize("kind", [*READERS, "gpt2"])
def test_padding_changes_no_published_net(folders, kind):
    """More padding and another order leave features as they are; a row of padding alone gives no NaN."""
    net, x = net_and_x(folders, kind)
    with torch.inference_mode():
        assert_close(net.features(F.pad(x, (0, 5)).flip(0)).flip(0), net.features(x))
        assert bool(torch.isfinite(net.features(torch.zeros_like(x))).all())


@pytest.mark.learning
@pytest.mark.parametrize("kind", READERS)
def test_a_published_net_trains_and_is_saved(folders, kind, tmp_path):
    """Training with another number of classes lowers the loss; saved tensors give a fresh net the same features."""
    net, x = net_and_x(folders, kind, n_classes=2)
    label = torch.tensor([1, 0, 0, 1])
    before = F.cross_entropy(net(x), label)
    steps(net, x, label, 40, 1e-2, batch=4)
    assert F.cross_entropy(net(x), label) < 0.8 * before
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    again = net_and_x(folders, kind, n_classes=2, seed=5)[0]
    assert not torch.equal(again(x), net(x))
    again.load_state_dict(load_file(tmp_path / "w.safetensors"))
    assert torch.equal(again.features(x), net.features(x))
    assert torch.equal(again(x), net(x))


def test_a_new_head_comes_from_the_seed(folders):
    """A seed fixes a head that the folder does not have; the rest is the folder's for every seed."""
    nets = [net_and_x(folders, "distilbert", 2, seed=seed)[0] for seed in (1, 1, 2)]
    assert weights_digest(nets[0].head) == weights_digest(nets[1].head) != weights_digest(nets[2].head)
    features = [{key: value for key, value in net.features.named_parameters()} for net in nets]
    assert all(torch.equal(value, features[2][key]) for key, value in features[0].items())


def test_training_of_a_published_net_goes_on_from_its_tensors_alone(folders):
    """A net with another's tensors does the same further steps, dropout included, whatever torch drew in between."""
    (net, x), label = net_and_x(folders, "distilbert", 2), torch.tensor([1, 0, 0, 1])
    saved = {key: value.clone() for key, value in net.state_dict().items()}
    losses = []
    for noise in (3, 4):
        torch.manual_seed(noise)
        net.load_state_dict(saved)
        steps(net, x, label, 3, 1e-2, batch=4)
        losses.append(net(x))
    assert torch.equal(*losses)
    assert any(key.endswith(".count") for key in saved)  # there is dropout


def test_a_causal_net_keeps_its_own_head(folders):
    """Outputs for the next token are the package's, cut to the benchmark's tokens, and no place sees a later one."""
    import transformers

    theirs = transformers.AutoModelForCausalLM.from_pretrained(folders / "gpt2").eval()
    net, x = build("transformers-lm", 7, 9, str(folders / "gpt2")).eval(), tokens(2, 9, 7)
    other = x.clone()
    other[0, 4:], other[1, 4:] = 1, -100
    with torch.inference_mode():
        assert_close(net(x), theirs(input_ids=x).logits[..., :7])
        assert_close(net(other)[:, :4], net(x)[:, :4])
        assert net.features(x).shape == (2, 9, net.width)
    before = net(x)
    save = {key: value.clone() for key, value in net.state_dict().items()}
    steps(net, x[:, :-1], x[:, 1:], 5, 1e-2, batch=2)
    assert not torch.equal(net(x), before)
    net.load_state_dict(save)
    assert torch.equal(net(x), before)


def test_every_wrong_source_is_told(folders, tmp_path, monkeypatch):
    """Each way in which weights can be wrong has a message that says what to do, and none is a foreign traceback."""
    distil, gpt2 = str(folders / "distilbert"), str(folders / "gpt2")

    def says(words: str, name: str = "transformers", n: int = 2, length: int = 8, weights: str = distil) -> None:
        with pytest.raises(ShiftBenchError, match=words):
            build(name, n, length, weights)

    says("weights=none says nothing", weights="none")
    says("no such folder", weights=str(tmp_path / "absent"))
    says("no such folder", weights="weights.safetensors")
    says("cannot load weights=.*config.json", weights=str(tmp_path))
    says("positions for 32 tokens, but the items have 33", length=33)
    says("sees the tokens that it is to predict", "transformers-lm", weights=str(folders / "bert"))
    says("knows 10 tokens, but the benchmark's run to 11", "transformers-lm", n=12, weights=gpt2)
    with pytest.raises(ShiftBenchError, match="1 to 20 tokens, not 21"):
        MODELS["transformers"].tokens(TEXTS, 21, distil)
    with pytest.raises(ShiftBenchError, match="comes with its tokens"):
        MODELS["transformers-lm"].tokens(TEXTS, 8, gpt2)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    says("cannot load weights=nobody/no-such-net .*can be fetched", weights="nobody/no-such-net")


class _Exits:
    """Unpickled, it would end the process."""

    def __reduce__(self):
        return SystemExit, ("it ran",)


def test_a_folder_that_lacks_tensors_or_brings_code_is_refused(folders, tmp_path):
    """Weights that leave a part of the net to chance are an error; so is a net that needs code from its folder."""
    config = json.loads((folders / "distilbert" / "config.json").read_text())
    tensors = load_file(folders / "distilbert" / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    key = "distilbert.transformer.layer.1.ffn.lin1.weight"
    save_file({name: value for name, value in tensors.items() if name != key}, tmp_path / "model.safetensors")
    with pytest.raises(ShiftBenchError, match=f"1 tensors are missing or of another shape .first: {key}"):
        build("transformers", 2, 8, str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ShiftBenchError, match="cannot load weights"):
        build("transformers", 2, 8, str(tmp_path))
    (tmp_path / "model.safetensors").unlink()
    torch.save({**tensors, key: _Exits()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ShiftBenchError, match="cannot load weights"):
        build("transformers", 2, 8, str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(
        {"model_type": "ours", "auto_map": {"AutoConfig": "code.C", "AutoModelForSequenceClassification": "code.Net"}}))
    (tmp_path / "code.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(ShiftBenchError, match="cannot load weights"):
        build("transformers", 2, 8, str(tmp_path))


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    """Without transformers these two models alone are out of reach, and the message has the command."""
    real = builtins.__import__

    def without(name, *rest):
        if name == "transformers":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    for name in ("transformers", "transformers-lm"):
        with pytest.raises(ShiftBenchError, match="pip install transformers"):
            build(name, 2, 8, "distilbert-base-uncased")
    assert build("text-bag", 2)(tokens()).shape == (3, 2)
