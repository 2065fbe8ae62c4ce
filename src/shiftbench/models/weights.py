"""Weight files: read without unpickling objects, loaded strictly, with a message for each way in which they fail."""

import hashlib
import json
import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError

SUFFIXES = (".safetensors", ".pth", ".pt")

OURS = ("num_batches_tracked", ".salt", ".count")
"""What a file may lack: batch norm's counter, which older files do not have and we do not use, and what our dropout
draws its masks from, which is in no published file."""

DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
          torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
          torch.bool: "BOOL"}
"""How a safetensors file names them."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a weight file by name.

    A .pth or .pt file is read with `weights_only=True`: tensors and plain containers, no code. A file that wraps its
    tensors in `state_dict` or `model` (as training scripts write them) is unwrapped, and a `module.` prefix dropped.
    """
    if path.suffix not in SUFFIXES:
        raise ShiftBenchError(f"{path}: weights are none, imagenet, or a file that ends in {', '.join(SUFFIXES)}.")
    if not path.is_file():
        raise ShiftBenchError(f"{path}: no such weight file.")
    try:
        if path.suffix == ".safetensors":
            tensors: object = load_file(path)
        else:
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as problem:
        raise ShiftBenchError(f"{path}: not a readable weight file; it is damaged or holds more than tensors "
                              f"({str(problem).splitlines()[0][:120] if str(problem) else type(problem).__name__}). "
                              "Save it as .safetensors.") from problem
    for wrapper in ("state_dict", "model"):
        if isinstance(tensors, Mapping) and isinstance(tensors.get(wrapper), Mapping):
            tensors = tensors[wrapper]
    if not isinstance(tensors, Mapping) or not tensors or not all(
            isinstance(value, Tensor) for value in tensors.values()):
        raise ShiftBenchError(f"{path}: holds no table of tensors by name, so it is not a weight file.")
    return {str(key).removeprefix("module."): value for key, value in tensors.items()}


def load_into(net: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy tensors into a net: the features must match name for name and shape for shape.

    A file's head is often for other classes: where its shape differs, or it is absent, the net keeps its new head.
    """
    state = net.state_dict()
    head = [key for key in state if key.startswith("head.")]
    fits = all(key in tensors and tensors[key].shape == state[key].shape for key in head)
    entries = {key: value for key, value in tensors.items() if fits or not key.startswith("head.")}
    expected = {key: value for key, value in state.items() if fits or key not in head}
    missing = [key for key in expected if key not in entries and not key.endswith(OURS)]
    strange = [key for key in entries if key not in expected]
    if missing or strange:
        faults = [f"{len(keys)} {fault} (first: {keys[0]})"
                  for fault, keys in (("missing", missing), ("unknown", strange)) if keys]
        raise ShiftBenchError(f"{path}: does not belong to this model: tensors {' and '.join(faults)}. "
                              "Choose the model the file was made with.")
    for key, value in entries.items():
        if value.shape != state[key].shape:
            raise ShiftBenchError(f"{path}: tensor '{key}' has shape {tuple(value.shape)}, but the model needs "
                                  f"{tuple(state[key].shape)}. Choose the model the file was made with.")
    net.load_state_dict({**state, **entries})


def write_weights(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> None:
    """Write tensors, and facts about them, as safetensors: the same tensors and facts give the same bytes.

    The package's own writer puts the facts in the order of a hash table, another one each time, makes files that only
    their owner reads, and reports a full disk by an exception of its own; so we write the few lines of the format here.
    """
    ordered = {key: tensors[key].detach().cpu().contiguous() for key in sorted(tensors)}
    ordered = dict(sorted(ordered.items(), key=lambda pair: -pair[1].element_size()))  # so that every tensor is aligned
    head: dict[str, object] = {"__metadata__": dict(sorted(facts.items()))} if facts else {}
    end = 0
    for key, value in ordered.items():
        start, end = end, end + value.numel() * value.element_size()
        head[key] = {"dtype": DTYPES[value.dtype], "shape": list(value.shape), "data_offsets": [start, end]}
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for value in ordered.values():
            file.write(_bytes(value))


def weights_digest(net: nn.Module) -> str:
    """SHA-256 over every tensor of a net, by name: two nets with one digest compute the same."""
    return tensors_digest(net.state_dict())


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of tensors by name, independent of the file that holds them."""
    total = hashlib.sha256()
    for key, value in sorted(tensors.items()):
        total.update(f"{key}\0{tuple(value.shape)}\0".encode())
        total.update(_bytes(value.detach().cpu().contiguous()))
    return total.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor that lies in one piece; numpy has no bfloat16, so they go as bytes."""
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())
