"""PovertyMap of WILDS: the wealth of places in 23 African countries, from satellite images of eight channels."""

from pathlib import Path

import numpy as np

from shiftbench.core.arrays import Strs, Values
from shiftbench.core.errors import unknown
from shiftbench.core.tables import decimal, filled, read_table, strings, whole
from shiftbench.data.collection import Collection
from shiftbench.readers.wilds.metadata import needed, pictures, shuffled

COLUMNS = ("wealthpooled", "country", "urban")
HELD_OUT = {  # the test countries of each fold; the next fold's are its validation countries
    "A": ("angola", "cote_d_ivoire", "ethiopia", "mali", "rwanda"),
    "B": ("benin", "burkina_faso", "guinea", "sierra_leone", "tanzania"),
    "C": ("cameroon", "ghana", "malawi", "zimbabwe"),
    "D": ("democratic_republic_of_congo", "mozambique", "nigeria", "togo", "uganda"),
    "E": ("kenya", "lesotho", "senegal", "zambia"),
}
SET_ASIDE = 2000  # rows kept for id_val and id_test


def poverty(folder: Path, images: bool = True) -> Collection:
    """`label` is the wealth index (a number), the domain is `country`, scores are per `urban` (urban or rural).

    `split_A` to `split_E` are the five folds, and `split` is fold A, as in WILDS; `split_mixed_to_test_A` and so on are
    its in-distribution settings. Images are .npz files with an array `x` of 8 × 224 × 224; they are named in
    `pixels`, and a network of three channels cannot be trained on them.
    """
    (path,) = needed(folder, "dhs_metadata.csv")
    table = read_table(path, COLUMNS, text=("country",))
    filled(path, table, COLUMNS, blank=True)
    wealth, country = decimal(path, table, "wealthpooled"), strings(path, table, "country")
    countries = tuple(name for group in HELD_OUT.values() for name in group)
    for row in np.flatnonzero(~np.isin(country, countries))[:1]:
        raise unknown("country", str(country[row]), countries, f"{path}: row {row}")
    folds = {f"split_{fold}": split(country, fold) for fold in HELD_OUT}
    mixed = {f"split_mixed_to_test_{fold}": mixed_to_test(country, fold) for fold in HELD_OUT}
    pixels, root = pictures(folder, [f"images/landsat_poverty_img_{row}.npz" for row in range(len(wealth))], images)
    extra: dict[str, Values] = {
        name: decimal(path, table, name) for name in ("lat", "lon") if name in table.column_names}
    if "year" in table.column_names:
        extra["year"] = whole(path, table, "year")
    urban = decimal(path, table, "urban")
    return Collection(
        name="poverty",
        items=np.arange(len(wealth)).astype(np.str_),
        factors={"label": wealth, "y": wealth, "urban": np.where(urban > 0, "urban", "rural"), "country": country,
                 **extra, "split": folds["split_A"], **folds, **mixed},
        pixels=pixels, root=root)


def split(country: Strs, fold: str) -> Strs:
    """The split of each row in one fold.

    test: the fold's own countries;  val: those of the next fold (A → B → … → E → A).  All other rows are shuffled by
    the seed ord(fold) + 541433: the first 1,000 are id_val, the next 1,000 id_test, the rest train.
    """
    splits = np.full(len(country), "train", "U7")
    splits[np.isin(country, HELD_OUT[fold])] = "test"
    splits[np.isin(country, HELD_OUT[next_fold(fold)])] = "val"
    rows = shuffled(np.flatnonzero(splits == "train"), ord(fold))
    splits[rows[:SET_ASIDE // 2]] = "id_val"
    splits[rows[SET_ASIDE // 2:SET_ASIDE]] = "id_test"
    return splits


def next_fold(fold: str) -> str:
    """The fold whose test countries validate this one."""
    letters = list(HELD_OUT)
    return letters[(letters.index(fold) + 1) % len(letters)]


def mixed_to_test(country: Strs, fold: str) -> Strs:
    """The in-distribution setting of a fold: train on all countries, those of test included, on as many rows as before.

    Of all rows, shuffled by the same seed, the first n are taken (n: rows outside the fold's test and val countries)
    and the first 2,000 of these left out; they are train, whatever else they were. A row without a split is `unused`.
    """
    splits = split(country, fold)
    inside = int((~np.isin(splits, ("test", "val"))).sum())
    splits[splits == "train"] = "unused"
    splits[shuffled(np.arange(len(country)), ord(fold))[:inside][SET_ASIDE:]] = "train"
    return splits
