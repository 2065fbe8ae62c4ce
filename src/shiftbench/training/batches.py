"""The rows of a benchmark as tensors, on the device where they fit; and which training items make batch t."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftbench.core.arrays import Floats, Ints, child, uniform
from shiftbench.core.errors import Advance, Say, ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import OWN, groupings_of
from shiftbench.images.augment import augment, draws_of, joined, standardised
from shiftbench.methods.method import Batch, Task, Unlabelled
from shiftbench.models.net import MODELS, Net
from shiftbench.scoring.metrics import own_metrics
from shiftbench.scoring.scorer import Scorer, scorer
from shiftbench.training.inputs import Ragged, inputs, size_of, truth_of
from shiftbench.training.run import Run, pools_of

_LOADED: dict[tuple[str, ...], "Data"] = {}
"""The data of the last few loads: a worker that does many runs on one benchmark loads it once."""
KEPT = 2
MEASURED = 512
"""Items from which the statistics of batch norms are taken, all in one forward pass."""


def load(
    benchmark: Benchmark, collection: Collection, run: Run, device: torch.device,
    progress: Advance | None = None, say: Say | None = None,
) -> "Data":
    """The data a run is trained on, from memory where this process has just loaded the same.

    `progress` and `say` report on features that are still to be computed.
    """
    shape = "" if collection.pixels is None else str(collection.pixels.shape)  # the digest does not cover it
    takes = MODELS[run.model].takes
    tokens = (run.model, run.weights) if takes == "tokens" else ()  # each net of tokens has its own
    key = (benchmark.digest, collection.digest, shape, run.stylised, run.features, str(size_of(run)), str(device),
           str(collection.home), takes, str(MODELS[run.model].channels), run.normalise, *tokens)
    if key not in _LOADED:
        while len(_LOADED) >= KEPT:
            del _LOADED[next(iter(_LOADED))]
        x = inputs(benchmark, collection, run, progress, say)
        _LOADED[key] = Data(benchmark, x, device, normalise=run.normalise if takes == "images" else "")
    return _LOADED[key]


@dataclass(eq=False)
class Data:
    """Inputs and codes of every row, and how to take a batch of training items or a split's inputs from them.

    `train_split` is the split of the training items. `unlabelled` is the split whose items accompany them without
    labels, or empty; `strong` is the augmentation of their second view. `normalise` is the run's: it applies to
    everything a net sees, in training and in evaluation.
    """

    benchmark: Benchmark
    x: Tensor | Ragged
    device: torch.device
    train_split: str = "train"
    unlabelled: str = ""
    strong: str = ""
    normalise: str = ""
    _views: dict[tuple[str, ...], "Data"] = field(default_factory=dict, init=False)
    _rows: dict[str, Ints] = field(default_factory=dict, init=False)
    _pools: dict[str, Ints] = field(default_factory=dict, init=False)
    _scorers: dict[tuple[Any, ...], Scorer] = field(default_factory=dict, init=False)
    _scales: dict[type[Net], Tensor] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.loss = self.benchmark.target.loss  # once: every batch carries it
        n = self.x.items if isinstance(self.x, Ragged) else len(self.x)
        if n != len(self.benchmark):
            raise ShiftBenchError(f"{n} inputs for the {len(self.benchmark)} rows of the benchmark.")
        if not len(self.benchmark.rows(self.train_split)):
            raise ShiftBenchError(f"Benchmark '{self.benchmark.name}' has no rows in split '{self.train_split}' to "
                                  "learn from.")
        if self.unlabelled and not len(self.benchmark.rows(self.unlabelled)):
            raise ShiftBenchError(f"run: the method learns from unlabelled items of split '{self.unlabelled}', but "
                                  f"benchmark '{self.benchmark.name}' has none. Its splits: "
                                  f"{', '.join(self.benchmark.splits)}. Name another: unlabelled=SPLIT.")
        if isinstance(self.x, Tensor) and self.x.is_floating_point() and not bool(torch.isfinite(self.x).all()):
            row = int((~torch.isfinite(self.x).flatten(1).all(dim=1)).nonzero()[0])
            noun = "features" if self.x.ndim == 2 else "channels"
            raise ShiftBenchError(f"The {noun} of item '{self.benchmark.items[row]}' are not finite numbers.")
        if self.device.type == "cuda" and self.x.nbytes < 0.6 * torch.cuda.mem_get_info(self.device)[0]:
            self.x = self.x.to(self.device)

    @cached_property
    def has_classes(self) -> bool:
        return self.benchmark.target.has_classes

    @property
    def are_pixels(self) -> bool:
        """Whether inputs are images of three channels, which augmentations work on."""
        return isinstance(self.x, Tensor) and self.x.dtype == torch.uint8

    @property
    def n_inputs(self) -> int:
        """Width of the features, height of the images, number of tokens; 0 for what has no size."""
        if isinstance(self.x, Ragged):
            return 0
        return int(self.x.shape[2 if self.x.ndim == 4 and not self.are_pixels else 1])

    @property
    def n_outputs(self) -> int:
        return self.benchmark.target.n or len(self.benchmark.names["label"])

    @property
    def on_device(self) -> bool:
        return (self.x.values if isinstance(self.x, Ragged) else self.x).device.type == self.device.type

    @cached_property
    def truth(self) -> Tensor:
        """The truth of every row, on the device."""
        height, width = self.x.shape[1:3] if self.are_pixels and isinstance(self.x, Tensor) else (0, 0)
        truth = truth_of(self.benchmark, self.n_inputs, height, width)
        if self.benchmark.target.in_units:
            mean, spread = self.units
            truth = (truth - mean) / spread
        return truth.to(self.device)

    @cached_property
    def units(self) -> tuple[Tensor, Tensor]:
        """Mean and spread of the numbers that training items have. Nets learn numbers in these units, since a step of
        an optimizer has a size of its own; predictions are in the data's."""
        numbers = truth_of(self.benchmark)[torch.from_numpy(self.benchmark.rows("train"))]
        spread = numbers.std(dim=0, unbiased=False)
        return numbers.mean(dim=0), torch.where(spread > 0, spread, 1.0)

    def rows(self, split: str) -> Ints:
        """The rows of a split, looked up once: every evaluation needs them."""
        if split not in self._rows:
            self._rows[split] = self.benchmark.rows(split)
        return self._rows[split]

    def scorer(self, split: str) -> Scorer:
        """The scorer of a split, with the groupings of the card; prepared once per set of registered metrics."""
        key = (split, *own_metrics(self.benchmark.target))
        if key not in self._scorers:
            asked = self.has_classes and self.benchmark.card.get(OWN)
            groupings = groupings_of(self.benchmark) if asked else ()
            self._scorers[key] = scorer(self.benchmark, split, groupings)
        return self._scorers[key]

    def on(self, split: str, unlabelled: str = "", strong: str = "") -> "Data":
        """The same data with another split's items as training items; the same object for the same splits."""
        key = (split, unlabelled, strong)
        if key == (self.train_split, self.unlabelled, self.strong):
            return self
        if key not in self._views:
            self._views[key] = replace(self, train_split=split, unlabelled=unlabelled, strong=strong)
        return self._views[key]

    @property
    def train(self) -> Ints:
        return self.rows(self.train_split)

    @cached_property
    def selection(self) -> str:
        """The split on which weights are chosen: `id_val`, else `val`, else none; `val` where the target is learnt."""
        candidates = ("val",) if self.train_split == "target_train" else ("id_val", "val")
        return next((split for split in candidates if split in self.benchmark.splits), "")

    def pools(self, batches: str) -> Ints:
        """The pool of batches that each training item is in (`pools_of`): by domain, by group, …"""
        if batches not in self._pools:
            self._pools[batches] = pools_of(self.benchmark, batches, self.train)
        return self._pools[batches]

    def task(self, n_features: int, steps: int = 1, twin: Callable[[], Net] = Net) -> Task:
        label, domain, group = self.benchmark.label[self.train], self.pools("domain"), self.pools("group")
        n_classes, n_domains = self.n_outputs, int(domain.max()) + 1
        n_labels = n_classes if self.has_classes else 1  # without classes all have the label 0
        counts = np.bincount(domain * n_labels + label, minlength=n_domains * n_labels).reshape(n_domains, n_labels)
        return Task(n_classes, n_domains, int(group.max()) + 1, n_features, torch.from_numpy(counts),
                    torch.from_numpy(np.bincount(group)), steps, twin,
                    max(n_domains, int(self._unlabelled_codes[2].max(initial=-1)) + 1))

    @cached_property
    def _unlabelled_codes(self) -> Ints:
        """Row, label, domain and group of every unlabelled item; labels and groups are hidden: 0. A domain that occurs
        in training keeps its code; new ones follow."""
        rows = self.benchmark.rows(self.unlabelled) if self.unlabelled else np.zeros(0, np.int64)
        trained, domain = np.unique(self.benchmark.domain[self.train]), self.benchmark.domain[rows]
        new = np.setdiff1d(domain, trained)
        code = np.where(np.isin(domain, trained), np.searchsorted(trained, domain),
                        len(trained) + np.searchsorted(new, domain))
        hidden = np.zeros_like(rows)
        return np.stack([rows, hidden, code.astype(np.int64), hidden])

    @cached_property
    def _codes(self) -> Tensor:
        """Row, label, domain and group of every training item, and of the unlabelled ones behind them, in one tensor:
        one gather per batch."""
        labelled = np.stack([self.train, self.benchmark.label[self.train], self.pools("domain"), self.pools("group")])
        return torch.from_numpy(np.concatenate([labelled, self._unlabelled_codes], axis=1)).to(self.device)

    def draws(self, augmentation: str) -> int:
        """Random numbers per item that its augmentation takes."""
        return draws_of(augmentation) if self.are_pixels else 0

    def strong_draws(self, augmentation: str) -> int:
        """Random numbers per item that the second view of unlabelled items takes beside those of the first."""
        return self.draws(joined(augmentation, self.strong)) - self.draws(augmentation) if self.strong else 0

    def batch(self, index: Tensor, net: Net, augmentation: str = "none", u: Tensor | None = None,
              weight: Tensor | None = None) -> Batch:
        """The training items of these numbers; `index` may have a row per run. The first of the random numbers `u` are
        for the augmentation, then those for the second view, the rest for the method.

        With a split of unlabelled items the second half of the numbers are theirs, counted behind the training items.
        """
        if not self.unlabelled:
            return self._labelled(index, net, augmentation, u, weight)
        half = index.shape[-1] // 2
        u, u_unlabelled = (None, None) if u is None else (u[..., :half, :], u[..., half:, :])
        batch = self._labelled(index[..., :half], net, augmentation, u, None if weight is None else weight[..., :half])
        return batch._replace(unlabelled=self._unlabelled(index[..., half:], net, augmentation, u_unlabelled))

    def _labelled(self, index: Tensor, net: Net, augmentation: str, u: Tensor | None, weight: Tensor | None) -> Batch:
        row, label, domain, group = self._codes.index_select(1, index.flatten()).view(4, *index.shape).unbind()
        if not self.has_classes:
            label = self.truth.index_select(0, row.flatten()).view(*index.shape, *self.truth.shape[1:])
        x = self._view(row, net, augmentation, u)
        return Batch(x, label, domain, group, index, weight, self._method_draws(u, augmentation), self.loss)

    def _unlabelled(self, index: Tensor, net: Net, augmentation: str, u: Tensor | None) -> Unlabelled:
        row, _, domain, _ = self._codes.index_select(1, index.flatten()).view(4, *index.shape).unbind()
        x = self._view(row, net, augmentation, u)
        strong = self._view(row, net, joined(augmentation, self.strong), u) if self.strong else x
        return Unlabelled(x, strong, domain, index - len(self.train), self._method_draws(u, augmentation))

    def _view(self, row: Tensor, net: Net, augmentation: str, u: Tensor | None) -> Tensor:
        """The prepared inputs of rows, of which there may be a line per run."""
        n = self.draws(augmentation)
        x = self.prepare(self.take(row.flatten()), net, augmentation, u[..., :n] if u is not None and n else None)
        return x.view(*row.shape, *x.shape[1:]) if row.ndim > 1 else x

    def _method_draws(self, u: Tensor | None, augmentation: str) -> Tensor | None:
        """The random numbers left for the method."""
        n = self.draws(augmentation) + self.strong_draws(augmentation)
        return None if u is None or u.shape[-1] == n else u[..., n:]

    def take(self, rows: Tensor) -> Tensor:
        """Inputs of benchmark rows, on the device; from host memory where all of them would not fit there."""
        if isinstance(self.x, Ragged):
            return self.x.take(rows).to(self.device)
        return self.x.index_select(0, rows.to(self.x.device)).to(self.device)

    def prepare(self, x: Tensor, net: Net, augmentation: str = "none", u: Tensor | None = None) -> Tensor:
        if self.are_pixels:
            mean, std = self.scale(net)
            x = augment(x, augmentation, mean, std, u)
        return standardised(x) if self.normalise else x

    def scale(self, net: Net) -> Tensor:
        """Mean and deviation of a net's pixels, 2 × 3; made once, since a recorded step must not copy from the host."""
        if type(net) not in self._scales:
            self._scales[type(net)] = torch.tensor([net.mean, net.std], device=self.device)
        return self._scales[type(net)]

    def sample(self, rows: Ints, net: Net) -> Tensor:
        """Prepared inputs of at most MEASURED of these rows, evenly spread."""
        spread = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MEASURED)).round().astype(np.int64))
        return self.prepare(self.take(torch.from_numpy(rows[spread])), net)

    @torch.no_grad()
    def measure_norms(self, net: Net, precision: str = "float32") -> None:
        """Set the statistics of batch norms to those of training items under the net's present weights."""
        norms = net.norms()
        if not norms:
            return
        modes = [(norm, norm.momentum) for norm in norms]
        net.train()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the plain mean over what follows
        with torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bf16"):
            net(self.sample(self.train, net))
        for norm, momentum in modes:
            norm.momentum = momentum

    def outputs(self, net: Net, rows: Ints, precision: str = "float32", part: nn.Module | None = None) -> Tensor:
        """The outputs of a net, or of a part of it, for benchmark rows, on the CPU, without augmentation."""
        chunks = list(self.by_chunk(part or net, net, rows, precision))
        return torch.cat(chunks).cpu() if chunks else torch.zeros(0, net.width if part else self.n_outputs)

    @torch.inference_mode()
    def by_chunk(
        self, part: Callable[[Tensor], Any], net: Net, rows: Ints, precision: str = "float32"
    ) -> Iterator[Any]:
        """The outputs of a part of a net for benchmark rows, chunk by chunk, without augmentation."""
        modes = [(module, module.training) for module in net.modules()]
        net.eval()
        try:
            for chunk in torch.from_numpy(rows).split(self.at_once):
                with torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bf16"):
                    outputs = part(self.prepare(self.take(chunk), net))
                yield outputs.float() if isinstance(outputs, Tensor) and outputs.is_floating_point() else outputs
        finally:
            for module, mode in modes:
                module.training = mode

    @property
    def at_once(self) -> int:
        """Rows of one pass without gradients."""
        if isinstance(self.x, Ragged):
            return 512
        if self.x.ndim == 2:  # features, or tokens: these become vectors of hundreds of numbers
            if self.benchmark.target.per_place:  # each place has an output for every token
                return max(1, 64_000_000 // (self.x.shape[1] * self.n_outputs))
            return 4096 if self.x.is_floating_point() else max(1, 65_536 // self.x.shape[1])
        return max(1, 8_000_000 // max(1, self.x[0].numel()))


class Batches:
    """Numbers of training items for any step: a pure function of the seed and the step, so that a resumed run needs no
    memory of earlier batches.

    `codes` says which pool an item is in: one pool for plain batches, one per domain or group for the others. Each
    batch takes `size` items from every pool. A pool is dealt in random order, round after round: every item comes
    equally often, none again before all have come. A pool smaller than `size` is drawn with replacement.

    With `at_once` a batch takes `size` items from each of that many pools, drawn uniformly for every step (WILDS' group
    loader with its default of uniform groups). A pool of fewer items than `size` is drawn with replacement.

    Batches of another `purpose` are drawn by streams of their own.

    With `weights` item i is drawn with replacement in proportion to weight i among its pool. A pool whose weights are
    all 0 is drawn as if there were none, since a batch needs items from it too.
    """

    def __init__(self, codes: Ints, size: int, seed: int, weights: Floats | None = None, at_once: int = 0,
                 purpose: str = "") -> None:
        self.size, self.seed, self.weights, self.purpose = size, seed, weights, purpose
        order = np.argsort(codes, kind="stable")
        self.pools = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
        self.at_once = at_once if at_once < len(self.pools) else 0
        # Two rounds at most are in use at once per pool: the one a batch ends and the one it begins.
        self._round = lru_cache(maxsize=2 * len(self.pools) + 2)(self._deal)

    def __len__(self) -> int:
        """Items per batch."""
        return self.size * (self.at_once or len(self.pools))

    def block(self, first: int, steps: int) -> Ints:
        """The batches of several steps as rows, pool after pool: one transfer to the device instead of many."""
        if self.at_once:
            return np.stack([self._from_some_pools(step) for step in range(first, first + steps)])
        return np.concatenate([self._draw(number, first, steps) for number in range(len(self.pools))], axis=1)

    def _draw(self, number: int, first: int, steps: int) -> Ints:
        """Batch t takes `size` items from position t · size of the endless sequence of rounds."""
        pool = self.pools[number]
        counters = np.arange(first * self.size, (first + steps) * self.size)
        sums = np.zeros(1) if self.weights is None else np.cumsum(self.weights[pool])
        if sums[-1] > 0:
            u = uniform(self.seed, f"{self.purpose}batch {number}", counters)
            chosen = pool[np.searchsorted(sums, u * sums[-1], side="right").clip(max=len(pool) - 1)]
        elif len(pool) < self.size:
            chosen = pool[(uniform(self.seed, f"{self.purpose}batch {number}", counters) * len(pool)).astype(np.int64)]
        else:
            first_turn, last_turn = int(counters[0]) // len(pool), int(counters[-1]) // len(pool)
            rounds = np.concatenate([self._round(number, turn) for turn in range(first_turn, last_turn + 1)])
            chosen = rounds[counters - first_turn * len(pool)]
        return chosen.reshape(steps, self.size)

    def _from_some_pools(self, step: int) -> Ints:
        """The batch of a step that draws from `at_once` of the pools."""
        rng = child(self.seed, f"{self.purpose}pools", str(step))
        chosen = []
        for number in rng.choice(len(self.pools), self.at_once, replace=False).tolist():
            pool = self.pools[number]
            share = None if self.weights is None else self.weights[pool]
            if share is not None and share.sum() > 0:
                chosen.append(rng.choice(pool, self.size, p=share / share.sum()))
            else:
                chosen.append(rng.choice(pool, self.size, replace=len(pool) < self.size))
        return np.concatenate(chosen)

    def _deal(self, number: int, turn: int) -> Ints:
        return child(self.seed, f"{self.purpose}round", str(number), str(turn)).permutation(self.pools[number])
