"""What a method is, what it knows about the task, what a batch holds, and what losses are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias

from shiftbench.core.backend import F, nn, torch
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Registry, find
from shiftbench.data.target import NO_LABEL, Target
from shiftbench.methods.space import Space, listed

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.net import Net

METHODS: Registry[type[Method]] = Registry()
"""Every learning rule by its name: `METHODS["erm"]` is the class of ERM."""

OUTPUTS = ("class", "number", "tasks", "tokens")
"""The kinds of target whose loss is a function of the outputs."""

BATCHES = ("plain", "domain", "group", "domain_label")
"""How a batch is drawn: from all training items, or the same number from each domain, from each group, or from each
label of each domain."""

NEEDS = {"": "any model", "features": "features that learn", "images": "images", "maps": "images and maps of features"}
"""What a method may ask of a model. Those of the first two kinds run on cached features too."""


ONE_DOMAIN = "all training items are of one domain"
"""Why a setting of a method that compares domains may be idle."""


def no_twin() -> Net:
    """The `twin` of a task without a model."""
    raise NotImplementedError("this task has no model, so there is no second net")


class Task(NamedTuple):
    """What a method knows before it starts. Domains and groups are those of the training items, coded 0, 1, …

    `label_counts[d, y]` is the number of training items of domain d and label y; `group_counts[g]` that of group g.
    `n_features` is the width of the net's features, `steps` how many the stage has. `twin()` is a second net of the
    run's model, on the CPU, that starts from other numbers. `n_all_domains` also counts the domains of the unlabelled
    items that training lacks: they follow the others.
    """

    n_classes: int
    n_domains: int
    n_groups: int
    n_features: int
    label_counts: Tensor
    group_counts: Tensor
    steps: int = 1
    twin: Callable[[], Net] = no_twin
    n_all_domains: int = 0

    def counts(self, by: str) -> Tensor:
        """The number of training items of each group, domain or label."""
        return self.group_counts if by == "group" else self.label_counts.sum(dim=int(by == "domain"))


class Unlabelled(NamedTuple):
    """Items without labels, as many as the batch has labelled ones: inputs, the same inputs augmented strongly (where
    the method asks for it), domains, numbers among the unlabelled items, and random numbers."""

    x: Tensor
    strong: Tensor
    domain: Tensor
    index: Tensor
    u: Tensor | None = None


class Batch(NamedTuple):
    """Training items: inputs, codes, numbers among the training items, a weight for each loss (None: all 1), and the
    random numbers a method asked for, uniform in [0, 1), items × `draws`.

    `label` is the target: a code per item, or numbers (NaN where a task has no label), or tokens, or boxes. `loss`
    names the target's loss in LOSSES. `unlabelled` are the items that a method asked for by `unlabelled_split`.
    """

    x: Tensor
    label: Tensor
    domain: Tensor
    group: Tensor
    index: Tensor
    weight: Tensor | None = None
    u: Tensor | None = None
    loss: str = Target.loss
    unlabelled: Unlabelled | None = None


class Codes(NamedTuple):
    """Label, domain and group of every training item."""

    label: Tensor
    domain: Tensor
    group: Tensor


class Trained(Protocol):
    """What `fit` gets back for a stage: the net with its chosen weights, the method's state as the last step left it,
    and the net's predictions on a split."""

    net: Net
    state: nn.Module
    step: int  # updates done
    best_step: int  # the one whose weights were chosen

    def logits(self, split: str = "train") -> Tensor: ...

    def wrong(self, split: str = "train") -> Tensor: ...

    def take(self, weights: Mapping[str, Tensor]) -> None:
        """Give the net other weights, and measure its batch norms on the training items again."""


class Stage(NamedTuple):
    """What `fit` asks for: a method to train, and everything that differs from the run's plain training."""

    method: Method
    weights: Tensor | None = None  # of each training item's loss
    share: float = 1.0  # of the run's steps
    start: Trained | None = None  # begin with its weights; None: from the run's own start
    trains: Sequence[str] = ()  # what the names of the parameters that learn begin with; none: all learn
    split: str = "train"  # the items to learn from
    lr: float | None = None  # None: the run's
    select_on: str = ""  # which weights are kept; empty: as the run says
    idle: Mapping[str, str] = {}  # settings that turned out to change nothing, each with the reason


@dataclass(frozen=True)
class Method:
    """A learning rule: hyperparameters are fields, memory is a state, and the loss is what is minimised.

    A method of yours changes what differs from ERM: `loss` in most cases, `state` where it remembers something, `fit`
    where it trains in stages.

    A loss is computed for many runs at once, or recorded once and replayed on a GPU: in both cases `step` and the
    numbers among the fields are tensors. So it branches on neither, nor on data: `torch.where` instead of `if`. Nor
    does it draw: `draws` says how many random numbers it wants per item, and they come with the batch. A method that
    must look at the data is not `recordable`: its runs take plain steps, one by one.

    `batches` is what its batches are drawn from unless the run says otherwise; `space` is what a sweep draws from;
    `shapes` names the whole-number fields that shape the state, in which runs trained at once must agree; `unsaid`
    those that a run's facts leave out at their default, since runs from before them keep their ids. `model` is
    the one model that it can train, where there is only one. `targets` are the kinds of target it can learn. `strong`
    is the augmentation that makes a second view of unlabelled items.
    """

    family: ClassVar[str] = ""
    batches: ClassVar[str] = "plain"
    needs: ClassVar[str] = ""  # of the model; see NEEDS
    model: ClassVar[str] = ""
    adapts: ClassVar[bool] = False  # whether `adapted` does anything
    targets: ClassVar[tuple[str, ...]] = ("class",)
    space: ClassVar[Space] = {}
    shapes: ClassVar[tuple[str, ...]] = ()
    unsaid: ClassVar[tuple[str, ...]] = ()
    strong: ClassVar[str] = ""
    recordable: ClassVar[bool] = True
    draws: ClassVar[int] = 0  # random numbers that the loss wants per item
    name: ClassVar[str]

    def net(self, net: Net) -> Net:
        """What the run's model becomes before training."""
        return net

    def unlabelled_split(self) -> str:
        """The split whose items come with every batch, without their labels: a method's field `unlabelled`, or none."""
        return str(getattr(self, "unlabelled", ""))

    def drawing(self, codes: Codes) -> Tensor | None:
        """The weights by which training items are drawn; None for uniform draws."""
        return None

    def idle(self, task: Task) -> dict[str, str]:
        """Settings that change nothing on this task, each with the reason. The log and the terminal show them."""
        return {}

    @property
    def alternates(self) -> bool:
        """Whether its loss moves other weights at one step than at the next (a field `alternate` above 0): it is then
        neither stacked nor recorded, and may branch on the step."""
        return bool(getattr(self, "alternate", 0))

    def state(self, task: Task) -> nn.Module:
        """The method's memory: a module, so that its tensors move, train and are saved with the net's."""
        return nn.Module()

    def loss(self, net: Net, batch: Batch, state: nn.Module, step: int | Tensor) -> Tensor:
        """What a step minimises: by default the mean loss of the batch's items. It may update the state."""
        return risks(net, batch).mean()

    def fit(self) -> Generator[Stage, Trained, Trained]:
        """The training as a sequence of stages, `learned = yield Stage(method)` for each: many runs can train at once.
        """
        return (yield Stage(self))

    def adapted(self, net: Net, inputs: Tensor) -> Net:
        """What the trained net becomes for the items of one domain: it may look at their inputs, not at labels."""
        return net

    def numbers(self) -> dict[str, float]:
        """The hyperparameters in which runs trained at once may differ."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in self.shapes}
        return {key: float(value) for key, value in values.items()
                if isinstance(value, int | float) and not isinstance(value, bool)}


@dataclass(frozen=True)
class Environments(Method):
    """A method that compares environments: `by` says whether they are the domains or the groups.

    The risk R of domains is the mean loss of the batch's items, so that a domain counts by its items. Groups are mostly
    of very unequal size: R is the mean of their risks, each counts equally whatever its share of the batch.
    """

    by: str = "domain"

    unsaid: ClassVar[tuple[str, ...]] = ("by",)

    def __post_init__(self) -> None:
        if self.by not in ("domain", "group"):
            raise unknown("kind of environment", self.by, ("domain", "group"), f"{self.name}: by")

    def codes(self, batch: Batch) -> Tensor:
        return batch.group if self.by == "group" else batch.domain

    def count(self, task: Task) -> int:
        return task.n_groups if self.by == "group" else task.n_domains

    def mean(self, losses: Tensor, batch: Batch, n: int) -> Tensor:
        """The mean over items, or over the groups that the batch has."""
        if self.by == "domain":
            return losses.mean()
        means, count = means_by(losses, batch.group, n)
        return means.sum() / (count > 0).sum()

    def alone(self, task: Task) -> str:
        """Why there is nothing to compare; empty where there is."""
        return "" if self.count(task) > 1 else ONE_DOMAIN.replace("domain", self.by)


def find_method(name: str, where: str = "") -> type[Method]:
    """The method of that name; the name of a preset is an error that says how presets are given."""
    if name not in METHODS:
        from shiftbench.methods.presets import unknown_method

        raise unknown_method(name, where)
    return METHODS[name]


def described(method: Method) -> tuple[str, dict[str, Any]]:
    """The name under which the class of a method is registered, and the method's settings."""
    name = next((name for name, cls in METHODS.items() if cls is type(method)), "")
    if not name:
        cls = f"class {method.__name__}" if isinstance(method, type) else f"{type(method).__name__} object"
        raise ShiftBenchError(f"train: this {cls} is not a method. Give the name of one, or an object of a class that "
                              "is registered with @sb.register.method(\"NAME\").")
    return name, {field.name: getattr(method, field.name) for field in fields(method)}


def facts(name: str) -> dict[str, Any]:
    """What a list of methods shows for each. `space` is what a sweep draws from, `wiles` the grid of Wiles et al."""
    cls = find(METHODS, "method", name)
    return {"name": name, "family": cls.family, "batches": cls.batches, "needs": NEEDS[cls.needs],
            "targets": list(cls.targets),
            "head_only": cls.needs in ("", "features"),
            "model": cls.model,
            "parameters": {field.name: field.default for field in fields(cls)},
            "space": {key: str(law) for key, law in cls.space.items()}, "wiles": listed(name, "wiles"),
            "summary": next(iter((cls.__doc__ or "").strip().splitlines()), "")}


# What losses are made of


class Loss(NamedTuple):
    """`per_item(f, y)` is the loss l(f, y) of each item: the mean over its labelled cells.

    A cell is what one label stands for: the item's class or its numbers, one of its tasks, one of its tokens.
    `slopes(f, y)`, items × cells, is d/dw l(w f, y) at w = 1 of each cell, for IRM; `known(y)` says which cells have a
    label.
    """

    per_item: Callable[[Tensor, Tensor], Tensor]
    slopes: Callable[[Tensor, Tensor], Tensor]
    known: Callable[[Tensor], Tensor]


def class_losses(outputs: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy: log sum_c exp(f_c) - f_y."""
    return F.cross_entropy(outputs, label, reduction="none")


def class_slopes(outputs: Tensor, label: Tensor) -> Tensor:
    """With p = softmax(f): sum_c p_c f_c - f_y."""
    return (outputs.softmax(dim=-1) * outputs).sum(dim=-1, keepdim=True) - outputs.gather(-1, label[..., None])


def number_losses(outputs: Tensor, target: Tensor) -> Tensor:
    """Squared error, mean over the outputs."""
    return ((outputs - target) ** 2).mean(dim=1)


def number_slopes(outputs: Tensor, target: Tensor) -> Tensor:
    return (2 * (outputs - target) * outputs).mean(dim=1, keepdim=True)


def task_losses(outputs: Tensor, target: Tensor) -> Tensor:
    """Binary cross-entropy, mean over the item's own labelled tasks; 0 for an item that has none.

    WILDS takes the mean over all labelled cells of a batch, by which an item with many labels counts for more.
    """
    known, truth = _known(target)
    return _mean(F.binary_cross_entropy_with_logits(outputs, truth.to(outputs.dtype), reduction="none"), known)


def task_slopes(outputs: Tensor, target: Tensor) -> Tensor:
    _, truth = _known(target)
    return (outputs.sigmoid() - truth) * outputs


def token_losses(outputs: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy of the next token, mean over the item's labelled places."""
    losses = F.cross_entropy(outputs.transpose(1, 2), label, ignore_index=NO_LABEL, reduction="none")
    return _mean(losses, label != NO_LABEL)


def token_slopes(outputs: Tensor, label: Tensor) -> Tensor:
    return class_slopes(outputs, label.clamp(min=0)).squeeze(-1)


def one_cell(target: Tensor) -> Tensor:
    return torch.ones((len(target), 1), dtype=torch.bool, device=target.device)


def _known(target: Tensor) -> tuple[Tensor, Tensor]:
    known = ~torch.isnan(target)
    return known, torch.where(known, target, torch.zeros_like(target))


def _mean(values: Tensor, known: Tensor) -> Tensor:
    return (values * known).sum(dim=1) / known.sum(dim=1).clamp(min=1)


LOSSES: Mapping[str, Loss] = {
    "cross_entropy": Loss(class_losses, class_slopes, one_cell),
    "squared_error": Loss(number_losses, number_slopes, one_cell),
    "task_cross_entropy": Loss(task_losses, task_slopes, lambda target: ~torch.isnan(target)),
    "token_cross_entropy": Loss(token_losses, token_slopes, lambda label: label != NO_LABEL),
}
"""The losses of targets by name (`Target.loss`). A detector has its own."""


def per_item(outputs: Tensor, batch: Batch) -> Tensor:
    """The loss of each item, times its weight; for classes it is the cross-entropy."""
    return weighted(LOSSES[batch.loss].per_item(outputs, batch.label), batch)


def weighted(losses: Tensor, batch: Batch) -> Tensor:
    return losses if batch.weight is None else losses * batch.weight


def risks(net: Net, batch: Batch) -> Tensor:
    """The loss of each item from the inputs, also where a net has its own loss, as a detector has."""
    return weighted(net.losses(batch.x, batch.label), batch) if net.own_loss else per_item(net(batch.x), batch)


def means_by(values: Tensor, codes: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Mean of the values per code, 0 where a code is absent, and how many items each code has.

    As a product with the one-hot matrix: unlike a scatter it adds in a fixed order on every device. In 32 bits whatever
    the run's precision is: a penalty is made of small differences of means.
    """
    with torch.autocast(values.device.type, enabled=False):
        member = one_hot(codes, n).float()
        count = member.sum(dim=0)
        return (values.float() @ member) / count.clamp(min=1), count


def one_hot(codes: Tensor, n: int) -> Tensor:
    """True where an item has the code, items × codes. torch's own looks at the data, which a recorded loss must not."""
    return codes[:, None] == torch.arange(n, device=codes.device)


Number: TypeAlias = "float | Tensor"
"""A hyperparameter, or one per run where many runs are trained at once."""


def after(step: int | Tensor, start: Number, value: Number, before: Number) -> Number:
    """`value` from step `start` on, `before` until then."""
    late = (step >= start) * 1.0
    return late * value + (1.0 - late) * before


def first_step(share: Number, steps: int) -> Number:
    """The first step t with t >= share * steps, to a millionth: a share in 32 bits gives the same step.

    >>> first_step(0.1, 300), float(first_step(torch.tensor(0.1), 300))
    (30, 30.0)
    """
    begin = share * steps * (1 - 1e-6)
    return torch.ceil(begin) if isinstance(begin, torch.Tensor) else math.ceil(begin)


def check_share(method: Method, name: str, *, positive: bool = False) -> None:
    """Refuse a setting that is no share of the run's steps."""
    share = getattr(method, name)
    if not 0 <= share <= 1 or (positive and share == 0):
        raise ShiftBenchError(f"{method.name}: '{name}' is {share:g}, but it is a share of the run's steps, "
                              f"{'above 0 and at most' if positive else 'from 0 to'} 1. For 500 of 5,000 steps write "
                              f"{name}=0.1.")


def check_finite(method: Method, name: str, *, positive: bool = False) -> None:
    """Refuse a setting that is below 0 or infinite."""
    value = getattr(method, name)
    if not 0 <= value < math.inf or (positive and value == 0):
        raise ShiftBenchError(f"{method.name}: '{name}' is {value}, but must be a finite number "
                              f"{'above' if positive else 'of at least'} 0.")


def at_most(value: Number, most: float) -> Number:
    return value.clamp(max=most) if isinstance(value, torch.Tensor) else min(value, most)


def at_least(value: Number, least: float) -> Number:
    return value.clamp(min=least) if isinstance(value, torch.Tensor) else max(value, least)


def memory(**values: Tensor | int) -> nn.Module:
    """A state without parameters: tensors become buffers, which are saved and moved; numbers are plain attributes."""
    state = nn.Module()
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            state.register_buffer(name, value)
        else:
            setattr(state, name, value)
    return state
