"""The suites of Wiles et al. (2022), Table 2: three shifts and two conditions on each of six data sets.

`fine_grained/dsprites/low_data` is a family over N; `…/spurious`, `…/unseen`, `…/noise` (over p) and `…/size` (over n)
are its like. `fine_grained/sprites/…` are the dSprites ones on the built-in world, in its sizes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from shiftbench.shifts.base import Shift
from shiftbench.shifts.conditions import Condition, Noise, Size, Under
from shiftbench.shifts.given import Given
from shiftbench.shifts.low_data import LowData, Unseen
from shiftbench.shifts.parts import Where
from shiftbench.shifts.spurious import Spurious

COUNTS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10_000)
"""The N of the authors' code; the paper's text does not list those of its figures."""
PORTIONS = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Our choice of p: the paper's text does not list its own."""
TOTALS = (1000, 10_000, 100_000)
"""The n of the authors' code that every large data set has items for."""


@dataclass(frozen=True)
class Setup:
    """One row of Table 2: the shifts of a data set, and how far its N, p and n go."""

    spurious: Spurious
    low_data: LowData
    unseen: Shift
    counts: tuple[int, ...] = COUNTS
    totals: tuple[int, ...] = TOTALS
    ratio: float = 0.001  # N / n under the condition of size
    n_low: int = 10  # N under label noise
    conditioned: LowData | None = None  # what the conditions are applied to; default: low_data

    def suites(self) -> dict[str, Callable[[], Mapping[str, Shift]]]:
        return {
            "spurious": lambda: {f"spurious-{n}": replace(self.spurious, n_uncorrelated=n) for n in self.counts},
            "low_data": lambda: {f"low-{n}": replace(self.low_data, n_low=n) for n in self.counts},
            "unseen": lambda: {"unseen": self.unseen},
            "noise": lambda: {f"noise-{100 * p:g}": self._under(self.n_low, Noise(p)) for p in PORTIONS},
            "size": lambda: {f"size-{n}": self._under(max(1, round(self.ratio * n)), Size(n, self.ratio))
                             for n in self.totals},
        }

    def _under(self, n_low: int, condition: Condition) -> Shift:
        return Under(replace(self.conditioned or self.low_data, n_low=n_low), (condition,))


def setup(
    label: str, factor: str, low: tuple[str, ...], pairs: Mapping[str, str | tuple[str, ...]] | None = None,
    counts: tuple[int, ...] = COUNTS, totals: tuple[int, ...] = TOTALS, ratio: float = 0.001, n_test: int = 10_000,
    n_val: int = 10_000, test_where: Where | None = None,
) -> Setup:
    """A row of Table 2 whose three shifts are on one factor; sizes of 0 are by share."""
    where = test_where or {}
    return Setup(Spurious(label, factor, pairs=pairs or {}, n_test=n_test, n_val=n_val, test_where=where),
                 LowData(label, factor, low, n_test=n_test, n_val=n_val, test_where=where),
                 Unseen(label, factor, low, n_test=n_test, n_val=n_val, test_where=where), counts, totals, ratio)


# The k-th label goes with the k-th value in the order of the published files, which is not that of the names.
SPRITES = {"square": "red", "ellipse": "green", "heart": "blue"}
OBJECTS = {"cone": "white", "cube": "green", "cylinder": "red", "hexagonal": "blue", "pyramid": "brown",
           "sphere": "olive"}
ROOMS = {"cube": "#1", "cylinder": "#2", "sphere": "#3", "capsule": "#4"}
TOYS = {"animal": "#1", "human": "#2", "airplane": "#3", "truck": "#4", "car": "#5"}
NORB = setup("category", "azimuth", ("#5..",), TOYS, counts=COUNTS[:7], totals=TOTALS[:2], n_test=2000, n_val=0,
             test_where={"source": ("testing",)})
"""Half of the toys are for test, as published: no toy of test is seen in training."""
HELD_OUT = {"split": ("val", "test")}  # the locations that are out of distribution in WILDS
CAMERAS = LowData("animal", "location", low_where=HELD_OUT, balanced=False, n_test=10_000, n_val=10_000)

SETUPS = {
    "dsprites": setup("shape", "colour", ("blue",), SPRITES),
    "mpi3d": setup("object_shape", "object_color", ("red", "blue", "brown", "olive"), OBJECTS),
    "shapes3d": setup("shape", "object_hue", ("#3..",), ROOMS, totals=TOTALS[:2]),
    # Azimuth drifts or is unseen; correlation and conditions are on the lighting (D.1). The table has no A_c for that:
    # our reading is i > 4 again.
    "smallnorb": replace(NORB, spurious=replace(NORB.spurious, factor="lighting"),
                         conditioned=replace(NORB.low_data, factor="lighting")),
    # Hospitals are resplit at random, but for the unseen shift, which is WILDS' own (D.1).
    "camelyon17": replace(setup("tumor", "hospital", ("#2..3",), {"#1": ("#1..3",), "#2": ("#4..5",)}),
                          unseen=Given("tumor", "split", domain="hospital")),
    # Most locations lack most animals: the test is drawn at random, and an animal goes with its commonest location.
    "iwildcam": Setup(
        Spurious("animal", "location", pairing="commonest", balanced=False, n_test=10_000), CAMERAS,
        Given("animal", "split", domain="location")),
    "sprites": setup("shape", "colour", ("blue",), SPRITES, (1, 10, 100, 1000), (100, 300, 1000), 0.01, 0, 0),
}

FINE_GRAINED = {f"fine_grained/{name}/{kind}": make for name, one in SETUPS.items()
                for kind, make in one.suites().items()}
