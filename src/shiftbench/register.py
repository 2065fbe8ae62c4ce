"""Your own methods, shifts, readers, metrics, models and sections: what you register works like a built-in.

    import shiftbench as sb

    @sb.register.method("mine")
    class Mine(sb.Method):
        strength: float = 1.0

Each decorator takes the name and enters a class or function into the table that everything reads: lists, search
spaces, sweeps, selection, reports, boards, help. Fields of a class are its settings. Importing the file registers;
`--import FILE.py` does so on the command line, `import = ["FILE.py"]` in a study, and an entry point of the group
`shiftbench.plugins` in an installed package. See docs/extend.md.

A name that is taken is refused. The same file or notebook may register its own class or function again.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from inspect import signature
from typing import Any, TypeVar, dataclass_transform

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Owner, listed
from shiftbench.core.registry import register as enter

C = TypeVar("C", bound=type)
M = TypeVar("M", bound=Callable[..., Any])
F = TypeVar("F", bound=Callable[..., Any])
_FED = ("takes", "side", "channels", "mean", "std")
"""The facts of a model that a function builds."""
_RESERVED = ("out", "overwrite", "drop_missing", "plugins", "json", "quiet")
"""Options of every reader."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass_transform(frozen_default=True)
def method(name: str) -> Callable[[C], C]:
    """Enter a learning rule: a subclass of `shiftbench.Method`, whose fields are hyperparameters with defaults.

    `space` is their search space in a sweep (docs/sweeps.md); `Method` documents the rest. `recordable = True` is for a
    loss that reads no value of a tensor: its runs are stacked on a CPU and recorded on a GPU. Other losses run plainly.
    """
    module = _caller("method", name)

    def add(cls: C) -> C:
        from shiftbench.methods import METHODS, Method
        from shiftbench.methods.presets import PRESETS

        _settings("method", name, cls, Method, module)
        if not any("recordable" in vars(base) for base in cls.__mro__ if base is not Method):
            cls.recordable = False  # type: ignore[attr-defined]
        if name in PRESETS:
            raise ShiftBenchError(f"The name '{name}' of {Owner.of(cls, module)} is taken by a preset. Choose another.")
        for field in fields(cls):
            if field.default is MISSING:
                raise ShiftBenchError(f"Method '{name}': '{field.name}' has no default. Give every hyperparameter one.")
        return enter(METHODS, name, Owner.of(cls, module))(cls)

    return add


@dataclass_transform(frozen_default=True)
def shift(name: str) -> Callable[[C], C]:
    """Enter a shift: a class whose fields are its settings, with `build(self, collection, seed=0)` -> Benchmark.

    A recipe names it: `[shift.NAME]`.
    """
    module = _caller("shift", name)

    def add(cls: C) -> C:
        from shiftbench.shifts import SHIFTS

        _settings("shift", name, cls, object, module, "build")
        return enter(SHIFTS, name, Owner.of(cls, module))(cls)

    return add


def reader(name: str) -> Callable[[F], F]:
    """Enter a reader: a function from sources to a Collection. Parameters with defaults and those after * are options.

        @sb.register.reader("sheets")
        def sheets(source, *, label: str = "class"): ...

    It is read by sb.read("sheets", SOURCE, label=…) and by `shiftbench read sheets SOURCE --label …`.
    """
    module = _caller("reader", name)

    def add(function: F) -> F:
        from shiftbench.readers import READERS

        for key in signature(_function("reader", name, function)).parameters:
            if key in _RESERVED:
                raise ShiftBenchError(f"Reader '{name}': every reader has an option '{key}'. Rename the parameter.")
        return enter(READERS, name, Owner.of(function, module))(function)

    return add


def metric(
    name: str, *, words: str = "", targets: str | tuple[str, ...] = "class", better: str = "higher",
    unit: str = "share", items: Callable[..., Any] | None = None, interval: str = "",
) -> Callable[[F], F]:
    """Enter a metric: a function (truth, outputs, weight) -> float.

        @sb.register.metric("cost", words="cost of errors", better="lower", unit="number")
        def cost(label, scores, weight=None):
            return float(np.average(PRICE[label, scores.argmax(axis=1)], weights=weight))

    For classes truth is a label per item and outputs are scores, items × classes; for numbers and tasks both are items
    × columns, with NaN where there is no label. `weight` says how often each item counts, for the bootstrap.
    With `items(truth, outputs)`, which gives each item's contribution to a mean, the interval has a formula: `student`,
    or `wilson of contributions` for shares; and the metric is also scored in every group and in the worst.
    """
    from shiftbench.data.target import KINDS
    from shiftbench.scoring.metrics import METRICS, WORST, Metric, add_metric

    module, kinds = _caller("metric", name), listed(targets)
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind of target", kind, KINDS, f"metric '{name}'")
        if KINDS[kind].lists:
            raise ShiftBenchError(f"Metric '{name}' is for {KINDS[kind].words}, but a metric of your own takes arrays. "
                                  "Choose among class, number and tasks.")
    for word, allowed in ((better, ("higher", "lower")), (unit, ("share", "number"))):
        if word not in allowed:
            raise unknown("word", word, allowed, f"metric '{name}'")
    usual = "bootstrap" if items is None else "wilson of contributions" if unit == "share" else "student"
    if (interval or usual) not in ((usual,) if items is None else ("student", "wilson of contributions")):
        raise unknown("interval", interval, ("student", "wilson of contributions"), f"metric '{name}'")

    def add(function: F) -> F:
        owner = Owner.of(_function("metric", name, function), module)
        add_metric(Metric(name, words or name.replace("_", " "), kinds, better, unit, interval or usual,
                          function=function, items=items, own=True), groups=items is not None, owner=owner)
        if items is None and WORST + name in METRICS.owners and (
                owner.replaces(METRICS.owners[WORST + name])):  # of an earlier version of it
            del METRICS[WORST + name]
        return function

    return add


def model(name: str, **facts: Any) -> Callable[[M], M]:
    """Enter a model: a function n_classes -> nn.Module, or such a class. Runs name it, `--model NAME`.

        @sb.register.model("mine", side=64)
        def build(n_classes):
            return nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, n_classes))

    `facts` say what it is fed: `takes` images, features or tokens; `side` of images in pixels, or how many tokens are
    read; `channels`; `mean` and `std` of pixels from 0 to 1. The module ends in an nn.Linear, before which its features
    are taken. A subclass of `shiftbench.models.net.Net` has features and a head of its own, and `facts` are any of
    `shiftbench.models.names.Model`.
    """
    module = _caller("model", name)

    def add(builder: M) -> M:
        from shiftbench.models.names import CATALOGUE, Model

        net = sys.modules.get("shiftbench.models.net")
        is_net = net is not None and isinstance(builder, type) and issubclass(builder, net.Net)
        allowed = [key for key in Model._fields if key not in ("home", "outside", "builder")] if is_net else _FED
        for key in facts:
            if key not in allowed:
                raise unknown("fact", key, allowed, f"model '{name}'")
        if not callable(builder):
            raise ShiftBenchError(f"Model '{name}' must be a function or a class that builds an nn.Module, not "
                                  f"{builder!r}. Write @sb.register.model above a function n_classes -> nn.Module.")
        owner = Owner.of(builder, module)
        model_facts = {key: value for key, value in facts.items() if key in Model._fields}
        if net is not None and is_net:
            enter(CATALOGUE, name, owner)(Model(builder.__module__, **model_facts))
            net.model(name)(builder)
        else:
            for key, value in facts.items():
                setattr(builder, key, value)
            model_facts = {"takes": "images", **model_facts, "outside": True, "builder": builder}
            enter(CATALOGUE, name, owner)(Model(**model_facts))
        return builder

    return add


def section(
    name: str, head: str = "", *, shifts: str | tuple[str, ...] = (), column: str = "", classes: bool = False
) -> Callable[[F], F]:
    """Enter a section of the page: a function of `reporting.page.Results` that gives its content, or None.

    The content is a dict: `text` (a paragraph, or several), `tables` (caption, columns, rows of each) and `figures`
    (of `reporting.charts`). `head` is its title. `shifts`, a further `column` and `classes` restrict the benchmarks
    that it is about.
    """
    module = _caller("section", name)

    def add(function: F) -> F:
        from shiftbench.reporting.page import SECTIONS, Section

        entry = Section(name, head or name.replace("_", " "), listed(shifts), column, classes,
                        _function("section", name, function))
        enter(SECTIONS, name, Owner.of(function, module))(entry)
        return function

    return add


def _caller(kind: str, name: object) -> str:
    """The module of the file that registers something, whichever module defines the function."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ShiftBenchError(f"@sb.register.{kind} needs a name of letters, digits, - and _: "
                              f"@sb.register.{kind}(\"mine\"), not {name!r}.")
    return str(sys._getframe(2).f_globals.get("__name__", "__main__"))


def _settings(kind: str, name: str, cls: Any, base: type, module: str, *verbs: str) -> None:
    """Check a class of a user, and make it a frozen dataclass where it is none yet."""
    if not isinstance(cls, type) or not issubclass(cls, base):
        wanted = "a class" if base is object else f"a subclass of {base.__name__}"
        raise ShiftBenchError(f"{kind.capitalize()} '{name}' must be {wanted}, not {cls!r} of module {module}.")
    for verb in verbs:
        if not callable(getattr(cls, verb, None)):
            raise ShiftBenchError(f"{kind.capitalize()} '{name}': {Owner.of(cls, module)} has no function '{verb}'.")
    if "__dataclass_fields__" not in vars(cls):
        dataclass(frozen=True)(cls)


def _function(kind: str, name: str, function: Any) -> Any:
    if not callable(function) or isinstance(function, type):
        raise ShiftBenchError(f"{kind.capitalize()} '{name}' must be a function, not {function!r}.")
    return function
