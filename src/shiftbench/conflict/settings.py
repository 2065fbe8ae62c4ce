"""What decides a conflict matrix, besides the benchmark."""

from dataclasses import asdict, dataclass
from typing import Any

from shiftbench.errors import ShiftBenchError, unknown
from shiftbench.rng import child
from shiftbench.training.run import Run

MAKEUPS = ("varied", "plain")


@dataclass(frozen=True)
class Settings:
    """A net, its steps, and how often it is trained from a new start.

    Steps are plain gradient descent, θ ← θ − lr ∇L: then a step is a sum over the items of its batch, which is what the
    regression takes it for. Momentum or Adam would also move along the batches before and blame the present one.

    The first steps are not counted: a net that knows nothing yet is pulled the same way by all items of a class. Which
    subsets differ shows later.
    """

    model: str = "mlp"
    features: str = ""  # what a head works on, BACKBONE@SIZE; empty for a net that takes images
    weights: str = "none"  # start of a net that takes images: none, imagenet or a file
    size: int = 0  # images are resized to this; 0: as they are
    steps: int = 300
    skip: float = 1 / 3  # part of the steps, at the start, that is trained but not counted; the paper: 0
    batch_size: int = 64
    lr: float = 0.0  # 0: 0.01 on features, 0.02 on images
    makeup: str = "varied"  # varied: few subsets fill most of a batch; plain: items at random, as in the paper
    repeats: int = 8
    train_items: int = 50  # most items of a training subset; 0: all
    eval_items: int = 50  # most items of an evaluation subset; 0: all
    seed: int = 0

    def __post_init__(self) -> None:
        if self.makeup not in MAKEUPS:
            raise unknown("make-up", self.makeup, MAKEUPS, "conflicts")
        for name, least in (("repeats", 1), ("train_items", 0), ("eval_items", 0)):
            if getattr(self, name) < least:
                raise ShiftBenchError(f"conflicts: '{name}' is {getattr(self, name)}, but must be at least {least}.")
        if not 0 <= self.skip < 1:
            raise ShiftBenchError(f"conflicts: 'skip' is {self.skip}, but must be a share of the steps, from 0 to less "
                                  "than 1.")
        object.__setattr__(self, "lr", float(self.lr) or (0.01 if self.features else 0.02))

    @property
    def skipped(self) -> int:
        return int(self.skip * self.steps)

    def run(self, benchmark: str, repeat: int) -> Run:
        """One repeat in the words of training, which checks the rest; each has a start and batches of its own."""
        seed = int(child(self.seed, "repeat", str(repeat)).integers(2**31))
        return Run(benchmark, model=self.model, features=self.features, weights=self.weights, size=self.size,
                   steps=self.steps, batch_size=self.batch_size, optimizer="sgd", momentum=0.0, lr=self.lr,
                   select_on="last", seed=seed)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
