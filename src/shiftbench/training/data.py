"""The rows of a benchmark as tensors: inputs, codes and splits, on the device where they fit."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from torch import Tensor, nn

from shiftbench.arrays import Ints, Strs, positions
from shiftbench.benchmark import Benchmark
from shiftbench.collection import Collection
from shiftbench.errors import ShiftBenchError
from shiftbench.methods.base import Batch, Task
from shiftbench.models.base import Net
from shiftbench.pixels.augment import augment, draws_of
from shiftbench.pixels.decode import images
from shiftbench.training.embed import embed
from shiftbench.training.run import Run, split_features


def inputs(benchmark: Benchmark, collection: Collection, run: Run, cache: Path | None) -> Tensor:
    """One input per row of the benchmark: cached features as float32, or images as uint8 N × H × W × 3."""
    rows = collection.index(benchmark.items)
    if run.features:
        backbone, size = split_features(run.features)
        return torch.from_numpy(embed(collection, rows, backbone, size, folder=cache))
    found = images(collection, rows, run.size or None)
    if run.stylised:
        train = benchmark.rows("train")
        other = Collection.load(run.stylised)
        found[train] = images(other, _same_items(other, benchmark.items[train]), found.shape[1])
    return torch.from_numpy(found)


def _same_items(other: Collection, items: Strs) -> Ints:
    """Rows of the items in another collection; a file may end otherwise there, as Stylized ImageNet's do."""
    place = positions(_stems(items), _stems(other.items))
    if (place < 0).any():
        lacking = items[place < 0]
        raise ShiftBenchError(f"Collection '{other.name}' has no stylised image of {len(lacking)} of the {len(items)} "
                              f"training items ({lacking[0]}, …). It must have the same items.")
    return place


def _stems(items: Strs) -> Strs:
    return np.asarray([str(PurePosixPath(item).with_suffix("")) if "/" in item else item for item in items.tolist()])


_LOADED: dict[tuple[str, ...], "Data"] = {}
"""The data of the last few loads: a worker that does many runs on one benchmark loads it once."""
KEPT = 2
MEASURED = 512
"""Items from which the statistics of batch norms are taken, all in one forward pass."""


def load(benchmark: Benchmark, collection: Collection, run: Run, device: torch.device, folder: Path | str | None
         ) -> "Data":
    """The data a run is trained on, from memory where this process has just used the same."""
    shape = "" if collection.pixels is None else str(collection.pixels.shape)  # a digest does not know it
    key = (benchmark.digest, collection.digest, shape, run.stylised, run.features, str(run.size), str(device),
           str(folder))
    if key not in _LOADED:
        while len(_LOADED) >= KEPT:
            del _LOADED[next(iter(_LOADED))]
        _LOADED[key] = Data(benchmark, inputs(benchmark, collection, run, Path(folder) if folder else None), device)
    return _LOADED[key]


@dataclass(eq=False)
class Data:
    """Inputs and codes of every row, and how to take a batch of training items or a split's inputs from them.

    `learns` is the split whose items are the training items.
    """

    benchmark: Benchmark
    x: Tensor
    device: torch.device
    learns: str = "train"

    def __post_init__(self) -> None:
        if len(self.x) != len(self.benchmark):
            raise ShiftBenchError(f"{len(self.x)} inputs for the {len(self.benchmark)} rows of the benchmark.")
        if not len(self.benchmark.rows(self.learns)):
            raise ShiftBenchError(f"Benchmark '{self.benchmark.name}' has no rows in split '{self.learns}' to learn "
                                  "from.")
        if self.x.is_floating_point() and not bool(torch.isfinite(self.x).all()):
            bad = int((~torch.isfinite(self.x).flatten(1).all(dim=1)).nonzero()[0])
            raise ShiftBenchError(f"The features of item '{self.benchmark.items[bad]}' are not finite numbers.")
        if self.device.type == "cuda" and self.x.nbytes < 0.6 * torch.cuda.mem_get_info(self.device)[0]:
            self.x = self.x.to(self.device)

    @cached_property
    def _scales(self) -> dict[type[Net], Tensor]:
        return {}

    @cached_property
    def _views(self) -> dict[str, "Data"]:
        return {self.learns: self}

    def on(self, split: str) -> "Data":
        """The same data with another split's items as training items; the same object for the same split."""
        if split not in self._views:
            self._views[split] = replace(self, learns=split)
        return self._views[split]

    @cached_property
    def train(self) -> Ints:
        return self.benchmark.rows(self.learns)

    @cached_property
    def selection(self) -> str:
        """The split on which weights are chosen: `id_val`, else `val`, else none; `val` where the target is learnt."""
        listed = ("val",) if self.learns == "target_train" else ("id_val", "val")
        return next((split for split in listed if split in self.benchmark.splits), "")

    def codes(self, column: str) -> Ints:
        """Codes of the training items, counted from 0 without gaps: only what training has."""
        return np.unique(getattr(self.benchmark, column)[self.train], return_inverse=True)[1].astype(np.int64)

    def task(self, n_features: int, steps: int = 1, twin: Callable[[], Net] = Net) -> Task:
        label, domain, group = self.benchmark.label[self.train], self.codes("domain"), self.codes("group")
        n_classes, n_domains = len(self.benchmark.names["label"]), int(domain.max()) + 1
        counts = np.bincount(domain * n_classes + label, minlength=n_domains * n_classes).reshape(n_domains, n_classes)
        return Task(n_classes, n_domains, int(group.max()) + 1, n_features, torch.from_numpy(counts),
                    torch.from_numpy(np.bincount(group)), steps, twin)

    @cached_property
    def _codes(self) -> Tensor:
        """Row, label, domain and group of every training item, in one tensor: one gather per batch."""
        return torch.from_numpy(np.stack([self.train, self.benchmark.label[self.train], self.codes("domain"),
                                          self.codes("group")])).to(self.device)

    def draws(self, augmentation: str) -> int:
        """Random numbers per item that its augmentation takes."""
        return draws_of(augmentation) if self.x.dtype == torch.uint8 else 0

    def batch(self, index: Tensor, net: Net, augmentation: str = "none", u: Tensor | None = None,
              weight: Tensor | None = None) -> Batch:
        """The training items of these numbers; `index` may have a row per run. Of the draws `u` the first are for the
        augmentation, the rest for the method."""
        row, label, domain, group = self._codes.index_select(1, index.flatten()).view(4, *index.shape).unbind()
        n = self.draws(augmentation)
        own = None if u is None or u.shape[-1] == n else u[..., n:]
        x = self.prepare(self.take(row.flatten()), net, augmentation, u[..., :n] if u is not None and n else None)
        x = x.view(*index.shape, *x.shape[1:]) if index.ndim > 1 else x
        return Batch(x, label, domain, group, index, weight, own)

    def take(self, rows: Tensor) -> Tensor:
        """Inputs of benchmark rows, on the device; from host memory where all of them would not fit there."""
        return self.x.index_select(0, rows.to(self.x.device)).to(self.device)

    def prepare(self, x: Tensor, net: Net, augmentation: str = "none", u: Tensor | None = None) -> Tensor:
        if x.dtype != torch.uint8:
            return x
        mean, std = self.scale(net)
        return augment(x, augmentation, mean, std, u)

    def scale(self, net: Net) -> Tensor:
        """Mean and deviation of a net's pixels, 2 × 3; made once, since a recorded step must not copy from the host."""
        if type(net) not in self._scales:
            self._scales[type(net)] = torch.tensor([net.mean, net.std], device=self.device)
        return self._scales[type(net)]

    def some(self, rows: Ints, net: Net) -> Tensor:
        """Prepared inputs of at most MEASURED of these rows, evenly spread."""
        places = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MEASURED)).round().astype(np.int64))
        return self.prepare(self.take(torch.from_numpy(rows[places])), net)

    @torch.no_grad()
    def measure_norms(self, net: Net, precision: str = "float32") -> None:
        """Give the batch norms the mean and variance that training items have under the net's present weights."""
        norms = net.norms()
        if not norms:
            return
        modes = [(norm, norm.momentum) for norm in norms]
        net.train()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the plain mean over what follows
        with torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bf16"):
            net(self.some(self.train, net))
        for norm, momentum in modes:
            norm.momentum = momentum

    @torch.inference_mode()
    def outputs(self, net: Net, rows: Ints, precision: str = "float32", part: nn.Module | None = None) -> Tensor:
        """What a net, or a part of it, makes of benchmark rows, on the CPU, without augmentation."""
        modes = [(module, module.training) for module in net.modules()]
        net.eval()
        chunk = 4096 if self.x.dtype != torch.uint8 else max(1, 8_000_000 // max(1, self.x[0].numel()))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bf16"):
            parts = [(part or net)(self.prepare(self.take(some), net)) for some in torch.from_numpy(rows).split(chunk)]
        for module, mode in modes:
            module.training = mode
        if not parts:
            return torch.zeros(0, net.width if part else len(self.benchmark.names["label"]))
        return torch.cat(parts).float().cpu()

    def logits(self, net: Net, rows: Ints, precision: str = "float32") -> Tensor:
        return self.outputs(net, rows, precision)
