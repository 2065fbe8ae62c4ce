"""What the package wilds 2.0.0 publishes of each of its ten data sets: columns, splits and sizes that stay the same."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shiftbench.data.target import NO_LABEL
from shiftbench.readers.wilds.comments import IDENTITIES, OTHER_MARKS
from shiftbench.readers.wilds.poverty import HELD_OUT
from shiftbench.readers.wilds.wheat import SESSIONS
from shiftbench.shifts.suites import WITHOUT_LABELS

THREE = {"train": "Train", "val": "Validation", "test": "Test"}
FIVE = {"train": "Train", "val": "Validation (OOD)", "test": "Test (OOD)", "id_val": "Validation (ID)",
        "id_test": "Test (ID)"}
SATELLITES = {"train": "Train", "id_val": "ID Val", "id_test": "ID Test", "val": "OOD Val", "test": "OOD Test"}


class Known(NamedTuple):
    """The columns of a data set, how many values they have in the whole data, and the names of those values.

    A column in neither `names` nor `seen` is its own number.
    """

    fields: Sequence[str]
    sizes: Mapping[str, int] = {}
    names: Mapping[str, Sequence[object]] = {}
    splits: Mapping[str, str] = THREE  # in the package's order, with its words
    seen: Sequence[str] = ()  # columns whose words are numbered as they first appear
    source: Sequence[str] = ("train",)  # the splits whose rows have from_source_domain = 1
    resolution: tuple[int, int] | None = None
    n_classes: int | None = None  # None: one more than the largest label


DATASETS: Mapping[str, Known] = {
    "amazon": Known(("user", "product", "category", "year", "y"), seen=("user", "product", "category"), splits={
        name: FIVE[name] for name in ("train", "val", "id_val", "test", "id_test")},
        source=("train", "id_val", "id_test"), n_classes=5),
    "camelyon17": Known(("hospital", "slide", "y"), {"hospital": 5, "slide": 50}, splits={
        "train": "Train", "id_val": "Validation (ID)", "test": "Test", "val": "Validation (OOD)"},
        resolution=(96, 96), n_classes=2),
    "civilcomments": Known((*IDENTITIES, *OTHER_MARKS, "y"), {**dict.fromkeys(IDENTITIES, 2), "y": 2}, n_classes=2),
    "iwildcam": Known(("location", "sequence", "year", "month", "day", "hour", "minute", "second", "y"), splits={
        "train": "Train", "val": "Validation (OOD/Trans)", "test": "Test (OOD/Trans)",
        "id_val": "Validation (ID/Cis)", "id_test": "Test (ID/Cis)"}),
    "ogb-molpcba": Known(("scaffold",), n_classes=2),
    "poverty": Known(("urban", "y", "country"), {"urban": 2}, {
        "country": sorted(name for countries in HELD_OUT.values() for name in countries)},
        splits=SATELLITES, resolution=(224, 224)),
    "fmow": Known(("region", "year", "y"), {"region": 6, "year": 16}, {
        "region": ("Asia", "Europe", "Africa", "Americas", "Oceania", "Other"), "year": tuple(range(2002, 2018))},
        splits=SATELLITES, source=("train", "id_val", "id_test"), resolution=(224, 224),
        n_classes=62),
    "py150": Known(("repo",), splits=FIVE, n_classes=50_001),
    "rxrx1": Known(("cell_type", "experiment", "plate", "well", "site", "y"), {"cell_type": 4}, {
        "cell_type": ("HEPG2", "HUVEC", "RPE", "U2OS")}, seen=("cell_type", "experiment", "well"), splits={
        name: FIVE[name] for name in ("train", "val", "test", "id_test")}),
    "globalwheat": Known(("session", "country", "location", "stage"), {"session": 47}, {
        "session": SESSIONS,
        "country": ("Switzerland", "UK", "Belgium", "Norway", "France", "Canada", "US", "Mexico", "Japan", "China",
                    "Australia", "Sudan"),
        "location": ("Baima", "Brookstead", "Ciudad Obregon", "Gatton", "Gembloux", "Gréoux", "KSU", "Kyoto",
                     "Maricopa, AZ", "McAllister", "Mons", "NARO-Hokkaido", "NARO-Tsukuba", "NMBU", "Rothamsted",
                     "Saskatchewan", "Toulouse", "Usask", "VLB", "VSC", "Wad Medani",
                     "Eschikon"),
        "stage": ("Filling", "Filling-Ripening", "multiple", "Post-flowering", "Ripening"),
    }, splits=FIVE, resolution=(1024, 1024), n_classes=1),
}
"""In the order of the package's `benchmark_datasets`."""

ADDITIONAL = ("celebA", "domainnet", "waterbirds", "yelp", "bdd100k", "sqf", "encode")
UNLABELED = ("amazon", "camelyon17", "domainnet", "civilcomments", "iwildcam", "ogb-molpcba", "poverty", "fmow",
             "globalwheat")
UNLABELED_SPLITS = dict(zip(WITHOUT_LABELS, ("Unlabeled Train", "Unlabeled Validation", "Unlabeled Test",
                                             "Unlabeled Extra"), strict=True))
GAPS: Mapping[str, Mapping[str, int]] = {
    "civilcomments": dict.fromkeys((*IDENTITIES, *OTHER_MARKS), 2), "poverty": {"urban": NO_LABEL}}
"""What the package's metadata says of an unlabelled item where a column is not known: a group of its own."""
CLASSES = {"amazon": "Amazon", "camelyon17": "Camelyon17", "civilcomments": "CivilComments", "iwildcam": "IWildCam",
           "ogb-molpcba": "OGBPCBA", "poverty": "PovertyMap", "fmow": "FMoW", "py150": "Py150", "rxrx1": "RxRx1",
           "globalwheat": "GlobalWheat"}
"""How the package's class of a data set begins, before `Dataset` and `UnlabeledDataset`."""

MEANS = {"BLUE": 0.059183, "GREEN": 0.088619, "RED": 0.104145, "SWIR1": 0.246874, "SWIR2": 0.168728,
         "TEMP1": 299.078023, "NIR": 0.253074, "DMSP": 4.005496, "VIIRS": 1.096089}
SPREADS = {"BLUE": 0.022926, "GREEN": 0.031880, "RED": 0.051458, "SWIR1": 0.088857, "SWIR2": 0.083240,
           "TEMP1": 4.300303, "NIR": 0.058973, "DMSP": 23.038301, "VIIRS": 4.786354}
"""Mean and standard deviation of PovertyMap's bands, by which its images were standardised."""


def splits_of(name: str, scheme: str) -> Mapping[str, str]:
    """The splits of a data set in a scheme, in the package's order and with its words."""
    if name == "rxrx1" and scheme != "official":
        return THREE
    if name == "globalwheat" and scheme != "official":
        return {split: FIVE[split] for split in THREE}
    if name == "amazon" and (scheme == "category_subpopulation" or scheme.endswith("_baseline")):
        return THREE
    return DATASETS[name].splits
