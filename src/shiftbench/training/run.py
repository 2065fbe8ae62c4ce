"""A run: one method, one benchmark, one model, one seed. Flat, frozen, JSON, and named by its content."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Owner, Registry, find, listed, load_installed, make
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import label_of, run_id
from shiftbench.images.augment import joined, parts_of
from shiftbench.methods import METHODS, Method
from shiftbench.methods.method import BATCHES, NEEDS, find_method
from shiftbench.methods.presets import VARIANTS, expand
from shiftbench.models.names import (
    CATALOGUE,
    COLUMNS,
    SENTENCES,
    Model,
    facts,
    image_models,
    library_of,
    takes_pictures,
)
from shiftbench.scoring.metrics import METRICS

OPTIMIZERS = ("adam", "adamw", "sgd")
PRECISIONS = ("float32", "bf16")
SCHEDULES = ("constant", "thirds", "cosine", "linear", "exponential")
"""`thirds`: a tenth after a third of the steps and again after two (BREEDS). `cosine`: (1 + cos(pi t / T)) / 2.
`linear`: 1 - t / T (WILDS' transformers). `exponential`: `drop` to the power of ⌊t / drop_every⌋ (WILDS'
satellites). After a warm-up of w steps, in which the rate rises as t / w, cosine and linear count t and T from w on."""
NORMALISATIONS = ("", "image")
"""How pixels are brought to one scale: by the mean and deviation that the model expects or, `image`, each channel of
each image by its own (WILDS' RxRx1), in training and in evaluation."""
SELECTIONS = ("accuracy", "worst_group", "macro_f1", "headline", "loss", "last")


def selections(name: str) -> tuple[str, ...]:
    """What weights may be chosen by: the numbers that every target has, and the user's own metrics."""
    if name not in SELECTIONS:
        load_installed()
    return (*SELECTIONS, *(metric.name for metric in METRICS.values() if metric.own))


FEATURES = "efficientnet-lite0"
"""The backbone of a head's features where none are named."""

UNSAID = ("preset", "epochs", "eval_epochs", "frozen_norms", "max_grad_norm", "decay_all", "warmup", "drop",
          "drop_every", "normalise")
"""Fields that a run's JSON omits at their default, so that runs made before the field existed keep their id."""

IN_EPOCHS = {"epochs": "steps", "eval_epochs": "eval_every"}
"""Lengths in passes over the training items, and the field in steps that each stands for. The two are one setting:
`on_benchmark` turns epochs into steps, and a user's steps replace a preset's epochs."""


@dataclass(frozen=True)
class Run:
    """Everything that decides the predictions. Two runs with equal fields have one `id` and are never done twice.

    `params` are the method's hyperparameters; those not given are filled with its defaults, so that naming a default
    changes nothing. `features` is what a head is trained on: an embedding BACKBONE@SIZE (`efficientnet-lite0@128`), the
    vectors of the texts (`sentences`) or the feature columns of a table (`columns`), which are standardised; it is
    empty for a model that takes something else. `select_on` chooses which evaluation's weights are kept, by a number on
    `select_split`: `accuracy` and `worst_group` are of the target's own metric (r of numbers, mean AP of tasks, …),
    `headline` is what ranks methods on the benchmark, `last` keeps the last weights. It may also be
    a metric of your own.
    """

    benchmark: str  # digest of the benchmark's rows
    method: str = "erm"
    params: Mapping[str, Any] = field(default_factory=dict)
    model: str = "linear"
    weights: str = "none"  # none, imagenet (of an outside model: pretrained) or a file
    features: str = ""
    size: int = 0  # side of images, or tokens of texts; 0: as they are, or as many as the model reads
    stylised: str = ""  # a collection's folder with the same items: training sees its images, evaluation plain ones
    augment: str = "none"  # an augmentation, or several joined by +
    normalise: str = ""  # image: each channel of each image by its own mean and deviation; empty: by the model's
    attack: float = 0.0  # train on images moved by up to this (l2, pixels from 0 to 1) to where the net errs more
    attack_steps: int = 3
    precision: str = "float32"  # bf16: products in 16 bits, weights and sums in 32; for a GPU
    batches: str = ""  # plain, domain, group or domain_label; empty: what the method asks for
    resample: bool = True  # draw items by the benchmark's column `weight`, where it has one
    batch_size: int = 32  # items of a plain batch; items of each domain, group or cell in the others
    domains_per_batch: int = 0  # domains or groups of a batch, drawn at every step; 0: all of them
    steps: int = 300
    epochs: float = 0.0  # passes over the training items, in place of steps; 0: steps count
    optimizer: str = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9  # of sgd
    decay_all: bool = True  # False: biases and the weights of layer norms do not decay
    max_grad_norm: float = 0.0  # a longer gradient is scaled to this length; 0: none is
    schedule: str = "constant"  # of the learning rate; see SCHEDULES
    warmup: int = 0  # steps in which the learning rate rises from 0
    drop: float = 0.96  # factor of the exponential schedule
    drop_every: int = 0  # steps between two drops of the exponential schedule
    eval_every: int = 50  # steps between two evaluations
    eval_epochs: float = 0.0  # the same in passes over the training items, in place of eval_every; 0: eval_every counts
    patience: int = 0  # evaluations without a better one before training stops; 0: never
    select_on: str = "accuracy"
    select_split: str = ""  # id_val or val; empty: id_val where there is one, else val
    seed: int = 0
    frozen_norms: bool = False  # batch norms keep the statistics that they start with, as in DomainBed
    preset: str = ""  # the variant of the method that this is, and under whose name it is shown

    def __post_init__(self) -> None:
        self._take_preset()
        for name, choices, noun in (("optimizer", OPTIMIZERS, "optimizer"),
                                    ("select_on", selections(self.select_on), "selection"),
                                    ("precision", PRECISIONS, "precision"), ("schedule", SCHEDULES, "schedule"),
                                    ("batches", ("", *BATCHES), "kind of batch"),
                                    ("normalise", NORMALISATIONS, "normalisation"),
                                    ("select_split", ("", "id_val", "val"), "split to choose on")):
            if getattr(self, name) not in choices:
                raise unknown(noun, getattr(self, name), [choice for choice in choices if choice], "run")
        if self.augment != "none":
            parts_of(self.augment)
        for name in ("steps", "batch_size", "eval_every", "attack_steps", "patience", "size", "domains_per_batch",
                     "seed", "warmup", "drop_every"):
            least = int(name in ("steps", "batch_size", "eval_every", "attack_steps"))
            if getattr(self, name) < least:
                raise ShiftBenchError(f"run: '{name}' is {getattr(self, name)}, but must be at least {least}.")
        for name in ("lr", "weight_decay", "momentum", "attack", *IN_EPOCHS, "max_grad_norm", "drop"):
            value = float(getattr(self, name))
            object.__setattr__(self, name, value)  # 1 and 1.0 must give one id
            if not 0 <= value < float("inf") or (name == "lr" and value == 0):
                raise ShiftBenchError(f"run: '{name}' is {value}, but must be a finite number "
                                      f"{'above' if name == 'lr' else 'of at least'} 0.")
        if self.schedule == "exponential" and not (self.drop_every and 0 < self.drop <= 1):
            raise ShiftBenchError(f"run: schedule=exponential multiplies the learning rate by drop={self.drop} after "
                                  f"every drop_every={self.drop_every} steps. Give both, drop above 0 and at most 1.")
        model = facts(self.model)
        if self.weights in ("imagenet", "pretrained"):  # one thing under the word that suits the model
            object.__setattr__(self, "weights", "pretrained" if model.outside else "imagenet")
        self.check_inputs(model)
        if self.features:
            if self.features not in (COLUMNS, SENTENCES):
                split_features(self.features)
            if self.precision != "float32":
                raise ShiftBenchError(f"run: precision '{self.precision}' is for models that take images; a head on "
                                      "features is computed in float32.")
            for name, verb in (("stylised", "exchanges"), ("attack", "moves")):
                if getattr(self, name):
                    raise ShiftBenchError(f"run: {name}={getattr(self, name)} {verb} images, but model '{self.model}' "
                                          "works on cached features. Choose a model that takes images.")
        if self.attack and self.normalise:
            raise ShiftBenchError(f"run: attack={self.attack} moves pixels on one scale for all images, but normalise="
                                  f"{self.normalise} gives each its own. Leave one of them out.")
        object.__setattr__(self, "params", asdict(self.learner()))
        self.check_needs(model)

    def _take_preset(self) -> None:
        """Fill in the model that the method asks for, and the settings of the preset."""
        model = find_method(self.method).model
        if model:
            self._fill("model", model, f"method '{self.method}' trains only model '{model}'")
        if not self.preset:
            return
        preset = find(VARIANTS, "preset of one method", self.preset)
        changes = ", ".join(f"{key}={value}" for key, value in preset.settings.items())
        if self.method != preset.method:
            raise ShiftBenchError(f"run: preset '{self.preset}' is {preset.method} with {changes}, so method "
                                  f"'{self.method}' contradicts it. Leave the preset out, and give {changes}.")
        for key, value in preset.settings.items():
            self._fill(key, value, f"preset '{self.preset}' is {preset.method} with {changes}")

    def _fill(self, key: str, value: Any, reason: str) -> None:
        """Set a field, or a hyperparameter of the method, that has its default; another value is a contradiction."""
        if key not in RUN_FIELDS:
            current = self.params.get(key, value)
            object.__setattr__(self, "params", {**self.params, key: value})
        else:
            current = getattr(self, key)
            if key == "augment":
                value = current = joined(current, value)
            elif current == getattr(Run, key):
                current = value
            elif key in ("weights", "attack"):  # other weights and another strength are the same idea
                value = current
            object.__setattr__(self, key, value)
        if current != value:
            raise ShiftBenchError(f"run: {reason}, so {key}={current} contradicts it. Leave one of them out.")

    def check_inputs(self, model: Model) -> None:
        """Check that the run's inputs suit a model of these facts. What an outside model takes is known only once it is
        loaded; `takes` is empty before."""
        if model.takes == "features" and not self.features:
            raise ShiftBenchError(f"run: model '{self.model}' works on cached features. Name them, for example "
                                  "features=efficientnet-lite0@128, or choose a model that takes images.")
        if model.takes not in ("features", "") and self.features:
            raise ShiftBenchError(f"run: model '{self.model}' takes {model.takes}, so features='{self.features}' has "
                                  "no use. Leave features empty, or choose linear or mlp.")

    def check_needs(self, model: Model) -> None:
        """Check that a model of these facts has what the method needs."""
        needs = METHODS[self.method].needs
        if self.preset and {"augment", "attack", "weights"} & set(VARIANTS[self.preset].settings):
            needs = "images"
        if needs == "features" and self.model == "linear":
            raise ShiftBenchError(f"run: method '{self.method}' moves features, but model 'linear' has none: "
                                  "it would be ERM. Choose mlp, or a model that takes images.")
        if (needs in ("images", "maps") and not takes_pictures(model)) or (needs == "maps" and not model.has_maps):
            suitable = [name for name, candidate in image_models().items() if candidate.has_maps or needs != "maps"]
            raise ShiftBenchError(f"run: {'preset' if self.preset else 'method'} '{self.label}' needs {NEEDS[needs]}, "
                                  f"which model '{self.model}' does not have. Models that do: {', '.join(suitable)}.")

    def idle(self) -> dict[str, str]:
        """Settings that differ from their defaults but have no effect given the others, each with the reason."""
        reasons = {}
        if self.optimizer != "sgd":
            reasons["momentum"] = f"optimizer {self.optimizer} has moments of its own"
        if not self.attack:
            reasons["attack_steps"] = "there is no attack"
        if self.schedule != "exponential":
            reasons |= dict.fromkeys(("drop", "drop_every"), f"the schedule is {self.schedule}")
        if not self.weight_decay:
            reasons["decay_all"] = "nothing decays"
        if self.batch_kind == "plain":
            reasons["domains_per_batch"] = "plain batches are drawn from all items"
        if self.select_on == "last":
            reasons |= dict.fromkeys(("patience", "select_split"), "select_on=last keeps the last weights")
        elif self.eval_every >= self.steps:
            reasons |= dict.fromkeys(("select_on", "patience"),
                                     f"the only evaluation is after all {self.steps:,} steps")
        model = facts(self.model)
        if not takes_pictures(model):
            reasons["augment"] = f"model '{self.model}' takes no images of three channels"
        if model.takes not in ("images", ""):
            reasons["normalise"] = f"model '{self.model}' takes no images"
        if self.features:
            reasons["size"] = f"features={self.features} are as they were computed"
        return {name: why for name, why in reasons.items() if getattr(self, name) != getattr(Run, name)}

    def learner(self) -> Method:
        """The method with its hyperparameters."""
        return make(METHODS[self.method], self.params, f"method {self.method}")

    @property
    def label(self) -> str:
        """The name under which the run is shown: the preset's, else the method's."""
        return label_of(self.to_json())

    @property
    def batch_kind(self) -> str:
        return self.batches or METHODS[self.method].batches

    @property
    def varies(self) -> bool:
        """Whether the learning rate changes during training."""
        return self.schedule != "constant" or self.warmup > 0

    @property
    def id(self) -> str:
        """The name of the run's folder."""
        return run_id(self.to_json())

    def to_json(self) -> dict[str, Any]:
        method = METHODS[self.method]
        default = {param.name: param.default for param in fields(method) if param.name in method.unsaid}
        facts = {name: getattr(self, name) for name in RUN_FIELDS
                 if name not in UNSAID or getattr(self, name) != getattr(Run, name)}
        return {**facts, "params": {key: value for key, value in self.params.items()
                                    if key not in default or value != default[key]}}

    @staticmethod
    def of(settings: Mapping[str, Any], where: str = "run") -> "Run":
        """From settings of a file or a command line: every key is checked, every value cast to its field's type."""
        return make(Run, settings, where)


RUN_FIELDS = tuple(field.name for field in fields(Run))


def run_facts(name: str, benchmark: Benchmark, path: Path | str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The first entries of every run.json: the run's name, its benchmark and where that is, and the settings."""
    return {"format": "shiftbench run", "version": 1, "id": name,
            "benchmark": {"name": benchmark.name, "digest": benchmark.digest, "path": str(path) if path else None},
            "run": settings}


def own_parts(settings: Mapping[str, Any]) -> dict[str, Owner]:
    """The users' code that a run with these settings uses, and where it is: method 'mine' -> its owner."""
    tables: tuple[tuple[str, Registry[Any], str], ...] = (
        ("method", METHODS, "method"), ("model", CATALOGUE, "model"), ("metric", METRICS, "select_on"))
    return {f"{noun} '{settings[key]}'": owner for noun, table, key in tables
            if (owner := table.owners.get(settings.get(key, ""))) is not None and not owner.ours}


def pools_of(benchmark: Benchmark, batches: str, rows: Ints) -> Ints:
    """The pool that batches of a kind draw each of these rows from, counted from 0 without gaps: its domain, its group
    or its cell of domain × label; one pool holds all where batches are plain."""
    if batches == "plain":
        return np.zeros(len(rows), np.int64)
    codes = getattr(benchmark, batches) if batches != "domain_label" else (
        benchmark.domain * (1 + int(benchmark.label.max(initial=0))) + benchmark.label)
    return np.unique(codes[rows], return_inverse=True)[1].astype(np.int64)


def count_pools(benchmark: Benchmark, batches: str) -> int:
    """How many pools the batches of a kind draw training items from."""
    return len(np.unique(pools_of(benchmark, batches, benchmark.rows("train"))))


def items_per_batch(batch_size: int, pools: int, at_once: int) -> int:
    """`batch_size` items of each pool that a batch takes: of `at_once` of them, or of all, where that is 0 or more than
    there are."""
    return batch_size * max(1, min(at_once or pools, pools))


def on_benchmark(settings: Mapping[str, Any], benchmark: Benchmark) -> dict[str, Any]:
    """The settings of a run on this benchmark: with its digest, and with epochs as the steps that they take.

    steps = ⌈epochs · n / m⌉ for n training items and m items of a batch (`items_per_batch`); the same holds of
    `eval_epochs`, so that patience counts evaluations of this benchmark and not of another size.
    """
    values = {**settings, "benchmark": benchmark.digest}
    lengths = {name: values.pop(name, 0) for name in IN_EPOCHS}
    if any(lengths.values()):
        pools = count_pools(benchmark, values["batches"] or METHODS[values["method"]].batches)
        n, m = len(benchmark.rows("train")), items_per_batch(values["batch_size"], pools, values["domains_per_batch"])
        values |= {IN_EPOCHS[name]: max(1, ceil(epochs * n / m)) for name, epochs in lengths.items() if epochs}
    return values


def task_of(benchmark: Benchmark) -> str:
    """The name of a benchmark's task in its paper, as presets know it: living17; empty where it has none."""
    return str(benchmark.card.get("params", {}).get("task", ""))


def run_of(
    method: str, params: Mapping[str, Any], settings: Mapping[str, Any], preset: str | Sequence[str] = (),
    benchmark: Benchmark | None = None,
) -> Run:
    """A checked run, on a benchmark or not yet on one. A head works on a backbone's features by default."""
    if not method and not preset:
        raise ShiftBenchError("train: name a method or a preset. `shiftbench methods` lists both.")
    variant, protocol = "", dict[str, Any]()
    if preset:
        method, variant, protocol = expand(listed(preset), method, task_of(benchmark) if benchmark else "")
    of_method, of_run = split_settings(protocol)
    for in_epochs, in_steps in IN_EPOCHS.items():
        if in_steps in settings:
            of_run.pop(in_epochs, None)
    known = {option.name for option in fields(find_method(method))}
    if stray := {key: value for key, value in split_settings(settings)[0].items() if key in known}:
        raise ShiftBenchError(f"train: {', '.join(map(repr, stray))} belongs to method '{method}', not to the run. "
                              f"Give params={stray}.")
    of_run = {"model": default_model(method, variant), **of_run, **settings}
    if facts(str(of_run["model"])).takes == "features":
        of_run.setdefault("features", FEATURES)
    run = Run.of({"benchmark": "", "method": method, "preset": variant, "params": {**of_method, **params}, **of_run},
                 "train")
    return run if benchmark is None else Run.of(on_benchmark(run.to_json(), benchmark), "train")


class Outcome(NamedTuple):
    """How a run ended: `done`, `failed` with a reason, or `busy` where another process is doing it."""

    run: str
    state: str
    reason: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()  # settings that had no effect


def default_model(method: str, preset: str = "") -> str:
    """The model of a run that names none: the one of its preset or method, or the smallest that suits them."""
    cls = find_method(method)
    settings = VARIANTS[preset].settings if preset else {}
    if cls.model or "model" in settings:
        return cls.model or str(settings["model"])
    if "weights" in settings:
        return "efficientnet-lite0"  # its ImageNet weights come with a package
    return "resnet18" if cls.needs in ("images", "maps") or {"augment", "attack"} & set(settings) else "mlp"


def split_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings as (hyperparameters of the method, fields of the run)."""
    of_run = set(RUN_FIELDS) - {"benchmark", "method", "params"}
    return ({key: value for key, value in settings.items() if key not in of_run},
            {key: value for key, value in settings.items() if key in of_run})


def split_features(name: str) -> tuple[str, int]:
    """Backbone and image size of an embedding's name: `efficientnet-lite0@128` is ("efficientnet-lite0", 128).

    Where the name of an outside model has no size, as `timm:resnet18`, it is 0: the model's own.
    """
    backbone, _, size = name.partition("@")
    net = facts(backbone) if library_of(backbone) else image_models().get(backbone)
    if net is None:
        raise unknown("features", name, [*image_models(), COLUMNS, SENTENCES])
    if size and not (size.isdecimal() and 8 <= int(size) <= 1024):
        raise ShiftBenchError(f"features: '{name}' must read BACKBONE@SIZE with a size from 8 to 1024, "
                              f"for example {backbone}@{net.side}.")
    return backbone, int(size or (0 if net.outside else net.side))
