"""WILDS' image data sets with one class per image: iWildCam, Camelyon17, RxRx1, FMoW, CelebA."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import Bools, Ints, Strs, Values, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.tables import filled, read_table, strings, whole, within
from shiftbench.data.collection import Collection
from shiftbench.readers.wilds.metadata import animals, needed, pictures, shuffled
from shiftbench.readers.wilds.metadata import camelyon17 as camelyon17_table
from shiftbench.readers.wilds.metadata import iwildcam as iwildcam_table

RXRX1 = ("cell_type", "dataset", "experiment", "plate", "well", "site", "sirna_id")
FMOW = ("split", "category", "timestamp", "country_code")
CLOCK = (("day", 8), ("minute", 14), ("second", 17))  # positions of two digits in 2013-06-05 05:44:19
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
MIXED_SLIDE = 23  # Camelyon17, mixed-to-test: this slide of the test hospital is trained on


def iwildcam(folder: Path, images: bool = True) -> Collection:
    """Photos of camera traps: `label` is the animal, `y` its number, the domain is `location`.

    The label has a name where categories.csv is there, else it is the number. Images lie in train/, whatever the split.
    """
    (table,) = needed(folder, "metadata.csv")
    collection = iwildcam_table([table], "iwildcam")
    factors = dict(collection.factors)
    y, times, categories = factors.pop("animal"), factors["datetime"], folder / "categories.csv"
    label = animals(categories, table, y) if categories.is_file() else y
    clock: dict[str, Values] = {unit: _digits(table, times, start) for unit, start in CLOCK}
    order = ("location", "sequence", "year", "month", "day", "hour", "minute", "second", "split")
    pixels, root = pictures(folder, [f"train/{name}" for name in collection.items.tolist()], images)
    return replace(collection, factors={"label": label, "y": y, **{name: (factors | clock)[name] for name in order}},
                   pixels=pixels, root=root)


def camelyon17(folder: Path, images: bool = True) -> Collection:
    """Patches of tissue: `label` is normal or tumor, the domain is `hospital` (0 to 4), scores are also per `slide`.

    `split_mixed_to_test` is WILDS' in-distribution setting: slide 23 of the test hospital is in train.
    """
    (table,) = needed(folder, "metadata.csv")
    collection = camelyon17_table(table, "camelyon17")
    factors = dict(collection.factors)
    label, split = factors.pop("tumor"), factors.pop("split")
    folders = [f"patient_{patient}_node_{node}" for patient, node in zip(
        factors["patient"].tolist(), factors["node"].tolist(), strict=True)]
    files = [f"patches/{parent}/{item}.png" for parent, item in zip(folders, collection.items.tolist(), strict=True)]
    pixels, root = pictures(folder, files, images)
    mixed = np.where(factors["slide"] == MIXED_SLIDE, "train", split)
    return replace(collection, pixels=pixels, root=root, factors={
        "label": label, "y": (label == "tumor").astype(np.int64), **factors, "split": split,
        "split_mixed_to_test": mixed})


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
    _allowed(path, "dataset", part, ("train", "val", "test"))
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
    _allowed(path, "split", file_split, ("train", "val", "test", "seq"))
    year = _digits(path, strings(path, table, "timestamp"), 0, 4)
    country = strings(path, table, "country_code", gap="")
    first, last = LAST_YEARS
    return FmowRows(file_split, strings(path, table, "category"), year, country, _regions(codes, country), year < first,
                    (year >= first) & (year < last), year >= last)


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


def _allowed(path: Path, column: str, values: Strs, allowed: tuple[str, ...]) -> None:
    for row in np.flatnonzero(~np.isin(values, allowed))[:1]:
        raise unknown("split", str(values[row]), allowed, f"{path}: row {row}, column '{column}'")


def _digits(path: Path, times: Values, start: int, length: int = 2) -> Ints:
    """The whole number at the same position of every time."""
    digits = pc.utf8_slice_codeunits(pa.array(times, pa.string()), start, start + length)
    try:
        return np.asarray(digits.cast(pa.int64()), np.int64)
    except pa.ArrowException as problem:
        raise ShiftBenchError(f"{path}: a time is not written like 2013-06-05T05:44:19 "
                              f"({str(problem).splitlines()[0]}).") from problem
