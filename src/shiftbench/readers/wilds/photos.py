"""WILDS' images with one label each, from tables of their own: RxRx1, FMoW, PovertyMap, CelebA."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Bools, Ints, Strs, Values, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.tables import decimal, filled, read_table, strings, whole, within
from shiftbench.data.collection import Collection
from shiftbench.readers.wilds.metadata import digits, needed, one_of, pictures, shuffled

RXRX1 = ("cell_type", "dataset", "experiment", "plate", "well", "site", "sirna_id")
FMOW = ("split", "category", "timestamp", "country_code")
LAST_YEARS = (2013, 2016)  # FMoW: validation begins with the first, test with the second
LAND = (  # FMoW numbers its 62 classes in this order
    "airport", "airport_hangar", "airport_terminal", "amusement_park", "aquaculture", "archaeological_site",
    "barn", "border_checkpoint", "burial_site", "car_dealership", "construction_site", "crop_field", "dam",
    "debris_or_rubble", "educational_institution", "electric_substation", "factory_or_powerplant", "fire_station",
    "flooded_road", "fountain", "gas_station", "golf_course", "ground_transportation_station", "helipad",
    "hospital", "impoverished_settlement", "interchange", "lake_or_pond", "lighthouse", "military_facility",
    "multi-unit_residential", "nuclear_powerplant", "office_building", "oil_or_gas_facility", "park",
    "parking_lot_or_garage", "place_of_worship", "police_station", "port", "prison", "race_track",
    "railway_bridge", "recreational_facility", "road_bridge", "runway", "shipyard", "shopping_mall",
    "single-unit_residential", "smokestack", "solar_farm", "space_facility", "stadium", "storage_tank",
    "surface_mine", "swimming_pool", "toll_booth", "tower", "tunnel_opening", "waste_disposal",
    "water_treatment_facility", "wind_farm", "zoo",
)
CELEBA_SPLITS = np.asarray(["train", "val", "test"])
POVERTY = ("wealthpooled", "country", "urban")
HELD_OUT = {  # the test countries of each fold; the next fold's are its validation countries
    "A": ("angola", "cote_d_ivoire", "ethiopia", "mali", "rwanda"),
    "B": ("benin", "burkina_faso", "guinea", "sierra_leone", "tanzania"),
    "C": ("cameroon", "ghana", "malawi", "zimbabwe"),
    "D": ("democratic_republic_of_congo", "mozambique", "nigeria", "togo", "uganda"),
    "E": ("kenya", "lesotho", "senegal", "zambia"),
}
SET_ASIDE = 2000  # rows kept for id_val and id_test


def rxrx1(folder: Path, images: bool = True) -> Collection:
    """Images of cells: `label` is the number of the siRNA, the domain is `experiment`, scores are per `cell_type`.

    The column `dataset` says train, val or test; site 2 of the training experiments is id_test. `split_mixed_to_test`
    is WILDS' in-distribution setting: site 1 of the test experiments is in train, in place of as many training
    experiments of the same cell type (those numbered 01, 02, …); test is their site 2.
    """
    (path,) = needed(folder, "metadata.csv")
    table = read_table(path, RXRX1, text=("cell_type", "dataset", "experiment", "well"), every=False)
    filled(path, table, RXRX1, blank=True)
    cells, part, experiment, well = (strings(path, table, name)
                                     for name in ("cell_type", "dataset", "experiment", "well"))
    one_of(path, "split", "dataset", part, ("train", "val", "test"))
    plate, site, y = (whole(path, table, name) for name in ("plate", "site", "sirna_id"))
    within(path, "site", site, 2, 1)
    files = [f"images/{e}/Plate{p}/{w}_s{s}.png" for e, p, w, s in zip(
        experiment.tolist(), plate.tolist(), well.tolist(), site.tolist(), strict=True)]
    pixels, root = pictures(folder, files, images)
    mixed = np.where((part == "train") & (site == 2), "unused", np.where((part == "test") & (site == 1), "train", part))
    tested = Counter(name.split("-")[0] for name in np.unique(experiment[part == "test"]).tolist())
    replaced = [f"{prefix}-{number:02}" for prefix, count in tested.items() for number in range(1, count + 1)]
    mixed[np.isin(experiment, replaced)] = "unused"
    return Collection(
        name="rxrx1",
        items=np.asarray([name.removeprefix("images/").removesuffix(".png") for name in files], np.str_),
        factors={"label": y, "y": y, "cell_type": cells, "experiment": experiment, "plate": plate, "well": well,
                 "site": site, "split": np.where((part == "train") & (site == 2), "id_test", part),
                 "split_mixed_to_test": mixed},
        pixels=pixels, root=root)


def fmow(folder: Path, images: bool = True) -> Collection:
    """Satellite images: `label` is the use of the land, the domain is `year`, scores are also per `region`.

    Split, from the file's own (train, val, test) and the year t:  train, id_val, id_test where t < 2013;  val where
    2013 ≤ t < 2016 and the file says val;  test where t ≥ 2016 and the file says test;  all others are `unused`, which
    the shift `given` leaves out with ignore = ["unused"]. Sequestered images (seq) are not items, as in WILDS. The id
    is the row of rgb_metadata.csv, by which the images are named. A country without a region is in `Other`; where the
    file leaves the region empty, the package has a region `nan`, which is none of the six published.
    `split_mixed_to_test` is WILDS' in-distribution setting: half of train is kept (seed 114) and filled up with as many
    images from 2013 on that are not the file's test (seed 113), except those that are val.
    """
    rows = fmow_rows(folder)
    kept = np.flatnonzero(rows.file_split != "seq")
    file_split, label, year = rows.file_split[kept], rows.category[kept], rows.year[kept]
    before, between, late = rows.before[kept], rows.between[kept], rows.late[kept]
    split = np.select(
        [before & (file_split == "train"), before & (file_split == "val"), before & (file_split == "test"),
         between & (file_split == "val"), late & (file_split == "test")],
        ["train", "id_val", "id_test", "val", "test"], "unused")
    pixels, root = pictures(folder, [f"images/rgb_img_{row}.png" for row in kept.tolist()], images)
    y = positions(label, np.asarray(LAND, np.str_))
    for row in np.flatnonzero(y < 0)[:1]:
        raise unknown("category", str(label[row]), LAND, f"{folder / 'rgb_metadata.csv'}: row {kept[row]}")
    return Collection(
        name="fmow",
        items=kept.astype(np.str_),
        factors={"label": label, "y": y, "region": rows.region[kept],
                 "year": year, "country": rows.country[kept], "split": split,
                 "split_mixed_to_test": _mixed(split, kept, rows.file_split, rows.year)},
        pixels=pixels, root=root)


class FmowRows(NamedTuple):
    """All rows of FMoW's table, also sequestered ones: the file's split, the facts and the period (`LAST_YEARS`)."""

    file_split: Strs
    category: Strs
    year: Ints
    country: Strs
    region: Strs
    before: Bools
    between: Bools
    late: Bools


def fmow_rows(folder: Path) -> FmowRows:
    path, codes = needed(folder, "rgb_metadata.csv", "country_code_mapping.csv")
    table = read_table(path, FMOW, text=FMOW, every=False)
    filled(path, table, ("split", "category", "timestamp"), blank=True)
    file_split = strings(path, table, "split")
    one_of(path, "split", "split", file_split, ("train", "val", "test", "seq"))
    year = digits(path, strings(path, table, "timestamp"), 0, 4)
    country = strings(path, table, "country_code", gap="")
    first, last = LAST_YEARS
    return FmowRows(file_split, strings(path, table, "category"), year, country, _regions(codes, country), year < first,
                    (year >= first) & (year < last), year >= last)


def unlabelled_fmow(folder: Path, images: bool) -> Collection:
    """Rows of the labelled data set's own table, by their year t and the file's own split.

    Sequestered ones (seq) of t < 2013 are train; those that are neither test nor val are val from 2013 and test from
    2016 on.
    """
    rows = fmow_rows(folder)
    unassigned = ~np.isin(rows.file_split, ("test", "val"))
    split = np.select([unassigned & rows.late, unassigned & rows.between, (rows.file_split == "seq") & rows.before],
                      ["test_unlabeled", "val_unlabeled", "train_unlabeled"], "")
    kept = np.flatnonzero(split != "")
    pixels, root = pictures(folder, [f"images/rgb_img_{row}.png" for row in kept.tolist()], images)
    return Collection("fmow", kept.astype(np.str_), {
        "region": rows.region[kept], "year": rows.year[kept], "country": rows.country[kept], "split": split[kept]},
        pixels=pixels, root=root)


def _mixed(split: Strs, kept: Ints, file_split: Strs, year: Ints) -> Strs:
    """FMoW's mixed-to-test; WILDS draws from all rows of the table and drops the sequestered ones afterwards."""
    later = np.flatnonzero((year >= LAST_YEARS[0]) & (file_split != "test"))
    train = kept[split == "train"]
    half = len(train) // 2
    drawn = np.concatenate([shuffled(later, 113)[:half], shuffled(train, 114)[:half]])
    mixed = np.where(split == "train", "unused", split)
    mixed[np.isin(kept, drawn) & (mixed == "unused")] = "train"
    return mixed


def _regions(path: Path, country: Strs) -> Strs:
    """The region of each country code, `Other` where the file names none; a code that occurs twice has the last."""
    table = read_table(path, ("alpha-3", "region"), text=("alpha-3", "region"), every=False)
    code, region = (strings(path, table, name, gap="") for name in ("alpha-3", "region"))
    code, last = np.unique(code[::-1], return_index=True)
    position = positions(country, code)
    names = region[::-1][last][position] if len(code) else np.zeros(len(country), "U5")
    return np.where((position < 0) | (names == ""), "Other", names)


def poverty(folder: Path, images: bool = True) -> Collection:
    """`label` is the wealth index (a number), the domain is `country`, scores are per `urban` (urban or rural).

    `split_A` to `split_E` are the five folds, and `split` is fold A, as in WILDS; `split_mixed_to_test_A` and so on are
    its in-distribution settings. Images are .npz files with an array `x` of 8 × 224 × 224; they are named in
    `pixels`, and a network of three channels cannot be trained on them.
    """
    (path,) = needed(folder, "dhs_metadata.csv")
    table = read_table(path, POVERTY, text=("country",))
    filled(path, table, POVERTY, blank=True)
    wealth, country = decimal(path, table, "wealthpooled"), _countries(path, table)
    folds = {f"split_{fold}": fold_split(country, fold) for fold in HELD_OUT}
    mixed = {f"split_mixed_to_test_{fold}": mixed_fold(country, fold) for fold in HELD_OUT}
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


def unlabelled_poverty(folder: Path, images: bool) -> Collection:
    """unlabeled_metadata.csv has the country of images/landsat_poverty_img_ROW.npz; its fold decides as of the labelled
    ones: the fold's own countries are test, the next fold's val, others train."""
    (path,) = needed(folder, "unlabeled_metadata.csv")
    table = read_table(path, ("country",), text=("country",), every=False)
    filled(path, table, ("country",), blank=True)
    country = _countries(path, table)
    folds: dict[str, Values] = {f"split_{fold}": _held_out(country, fold, *(
        f"{name}_unlabeled" for name in ("test", "val", "train"))) for fold in HELD_OUT}
    pixels, root = pictures(folder, [f"images/landsat_poverty_img_{row}.npz" for row in range(len(country))], images)
    return Collection("poverty", np.arange(len(country)).astype(np.str_), {
        "country": country, "split": folds["split_A"], **folds}, pixels=pixels, root=root)


def fold_split(country: Strs, fold: str) -> Strs:
    """The split of each row in one fold.

    test: the fold's own countries;  val: those of the next fold (A → B → … → E → A).  All other rows are shuffled by
    the seed ord(fold) + 541433: the first 1,000 are id_val, the next 1,000 id_test, the rest train.
    """
    splits = _held_out(country, fold).astype("U7")
    rows = shuffled(np.flatnonzero(splits == "train"), ord(fold))
    splits[rows[:SET_ASIDE // 2]] = "id_val"
    splits[rows[SET_ASIDE // 2:SET_ASIDE]] = "id_test"
    return splits


def _held_out(country: Strs, fold: str, test: str = "test", val: str = "val", train: str = "train") -> Strs:
    """The fold's own countries are test, those of the next fold val."""
    letters = list(HELD_OUT)
    following = letters[(letters.index(fold) + 1) % len(letters)]
    return np.where(np.isin(country, HELD_OUT[fold]), test, np.where(np.isin(country, HELD_OUT[following]), val, train))


def _countries(path: Path, table: pa.Table) -> Strs:
    country = strings(path, table, "country")
    one_of(path, "country", "country", country, [name for group in HELD_OUT.values() for name in group])
    return country


def mixed_fold(country: Strs, fold: str) -> Strs:
    """The in-distribution setting of a fold: train on all countries, those of test included, on as many rows as before.

    Of all rows, shuffled by the same seed, the first n are taken (n: rows outside the fold's test and val countries)
    and the first 2,000 of these left out; they are train, whatever else they were. A row without a split is `unused`.
    """
    splits = fold_split(country, fold)
    inside = int((~np.isin(splits, ("test", "val"))).sum())
    splits[splits == "train"] = "unused"
    splits[shuffled(np.arange(len(country)), ord(fold))[:inside][SET_ASIDE:]] = "train"
    return splits


def celeba(folder: Path, images: bool = True) -> Collection:
    """Faces: `label` is blond or not blond, the domain is `male` (0 or 1), groups are the four cells.

    All forty attributes are factors, by their names in small letters, 1 where the file says 1 and 0 where it says -1.
    The split is that of CelebA's makers, as Sagawa et al. (2020) use it.
    """
    path, split_file = needed(folder, "list_attr_celeba.csv", "list_eval_partition.csv")
    table = read_table(path, ("image_id", "Blond_Hair", "Male"), text=("image_id",))
    partition = read_table(split_file, ("image_id", "partition"), text=("image_id",))
    items, codes = strings(path, table, "image_id"), whole(split_file, partition, "partition")
    if not np.array_equal(items, strings(split_file, partition, "image_id")):
        raise ShiftBenchError(f"{split_file}: does not list the images of {path.name} in their order. Both must be "
                              "of one version.")
    within(split_file, "partition", codes, len(CELEBA_SPLITS) - 1)
    attributes: dict[str, Values] = {}
    for name in table.column_names:
        if name != "image_id":
            values = whole(path, table, name)
            within(path, name, values, 1, -1)
            attributes[name.lower()] = (values == 1).astype(np.int64)
    y = attributes["blond_hair"]
    pixels, root = pictures(folder, [f"img_align_celeba/{item}" for item in items.tolist()], images)
    return Collection(
        name="celeba",
        items=items,
        factors={"label": np.where(y == 1, "blond", "not blond"), "y": y, **attributes, "split": CELEBA_SPLITS[codes]},
        pixels=pixels, root=root)
