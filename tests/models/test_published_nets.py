"""Nets of the package transformers: a published one is itself, trains, and is saved; wrong ones are refused."""

import builtins
import json
import sys

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models import MODELS, build
from shiftbench.models.net import weights_digest
from tests.models.test_texts import assert_close, steps, tokens

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

    says("weights=none names none", weights="none")
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
