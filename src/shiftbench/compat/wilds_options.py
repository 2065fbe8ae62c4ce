"""Options of the package's `get_dataset` for single data sets: folds, schemes, seeds, channels, names of splits."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.readers.wilds.comments import amazon_name, amazon_splits
from shiftbench.readers.wilds.poverty import HELD_OUT
from shiftbench.shifts.suites import WILDS

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "poverty": {"no_nl": False, "fold": "A", "use_ood_val": True, "cache_size": 100},
    "fmow": {"seed": 111, "use_ood_val": True},
}
OFFICIAL = {"poverty": "countries", "fmow": "time_after_2016", "amazon": "user", "molpcba": "scaffold"}
"""The package's own name for the official scheme of a data set."""
SCHEMES = ("mixed-to-test", "test-to-test", "official_with_subsampled_test")
ALSO = {"ogb-molpcba": "molpcba"}
"""The package's name of a data set -> that of its collection and benchmark."""


class Options(NamedTuple):
    """A data set as the package's options ask for it."""

    name: str  # of the collection, where it is one of the ten; else empty
    scheme: str = "official"
    fold: str = ""
    no_nl: bool = False  # images without their last channel, the light at night
    ood_val: bool = True  # whether `val` is the out-of-distribution one
    explicit: bool = False  # whether the script itself asked for a fold or a scheme

    @staticmethod
    def of(dataset: str, scheme: str, options: Mapping[str, Any]) -> "Options":
        """Check what a script asks for; an option that the package does not take for a data set is an error."""
        name = ALSO.get(dataset, dataset)
        defaults = DEFAULTS.get(name, {})
        for key in options:
            if key not in defaults:
                raise unknown("option", key, defaults, f"get_dataset('{dataset}')")
        settings = {**defaults, **options}
        fold = str(settings.get("fold", ""))
        if fold and fold not in HELD_OUT:
            raise unknown("fold", fold, HELD_OUT, dataset)
        if scheme == OFFICIAL.get(name):
            scheme = "official"
        is_published = name in WILDS or name == "poverty"
        of_amazon = name == "amazon" and bool(amazon_splits(scheme))
        if scheme != "official" and not of_amazon and not (is_published and scheme in SCHEMES):
            raise unknown("split scheme", scheme, ("official", *SCHEMES), dataset)
        if scheme != "official" and int(settings.get("seed", 111)) != 111:
            raise ShiftBenchError(f"{dataset}: split_scheme='{scheme}' is drawn when the data set is read, with the "
                                  "package's seed 111. Leave out `seed`.")
        return Options(name if is_published else "", scheme, fold,
                       bool(settings.get("no_nl", False)), bool(settings.get("use_ood_val", True)),
                       scheme != "official" or "fold" in options)

    @property
    def is_apart(self) -> bool:
        """Whether the scheme has its own items, collection and benchmark, as Amazon's other schemes have."""
        return self.name == "amazon" and bool(amazon_splits(self.scheme))

    @property
    def folders(self) -> tuple[str, ...]:
        """Names under which `build wilds` may have put the benchmark, the one that is asked for first."""
        if self.name == "poverty":
            others = [fold for fold in HELD_OUT if fold != self.fold]
            return (f"poverty-{self.fold}", *(f"poverty-{fold}" for fold in others))
        if self.is_apart:
            return (amazon_name(self.scheme), "amazon-time" if self.scheme.startswith("time") else "amazon-category")
        return (self.name,) if self.name else ()

    def built(self, benchmark: Benchmark, collection: Collection) -> Benchmark:
        """The benchmark with the split that is asked for, which may be another than its own."""
        if self.is_apart:
            if collection.name != amazon_name(self.scheme):
                raise ShiftBenchError(f"Benchmark '{benchmark.name}' is of collection '{collection.name}', but "
                                      f"split_scheme='{self.scheme}' has reviews of its own. Read and build it: "
                                      f"shiftbench read wilds amazon --scheme {self.scheme}.")
            return benchmark
        if collection.name != self.name:
            if self.scheme != "official":
                raise ShiftBenchError(f"Benchmark '{benchmark.name}' is not {self.name} of WILDS but of collection "
                                      f"'{collection.name}': it has one split scheme, the official one.")
            return benchmark
        shift = WILDS[f"poverty-{self.fold}" if self.fold else self.name]
        factor = shift.split
        if self.scheme != "official":
            suffix = self.scheme.replace("-", "_")
            factor = f"split_{suffix}" + (f"_{self.fold}" if self.fold else "")
        if factor not in collection.factors:
            raise ShiftBenchError(f"Collection '{collection.name}' has no factor '{factor}', so "
                                  f"split_scheme='{self.scheme}' is not known. Read it again: shiftbench read wilds "
                                  f"{self.name}.")
        current = str((benchmark.card.get("params") or {}).get("split", ""))
        folds = [f"split_{fold}" for fold in HELD_OUT]
        if current == factor or not (self.explicit or current in folds):
            return benchmark
        rebuilt = replace(shift, split=factor, ignore=(*shift.ignore, "unused")).build(collection)
        return replace(rebuilt, card={**rebuilt.card, "name": benchmark.name})


PLAIN = Options("")
"""A benchmark as it is."""
