"""A collection: items with their tags, texts and factors, before any decision about train or test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shiftbench.core.arrays import Ints, Strs, Values, broken_text, digest, has_doubles, in_short, positions, read_array
from shiftbench.core.backend import notebook
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import (
    check_digests,
    check_regular,
    file_digests,
    inside,
    read_folder,
    read_marker,
    write_json,
    writing_folder,
)
from shiftbench.core.tables import decimal, long_texts, read_table, strings, values_of, whole, write_table
from shiftbench.data.image_files import FOLDER, is_allowed, is_kept, link_images, record_trust, trusted_root, untrusted
from shiftbench.data.questions import FORMS, about_tags, base_of, resolve

MARKER = "collection.json"
FORMAT = 1
LONGEST_ID = 4096
SIDES, LINK = ("x", "y", "width", "height"), ("child", "parent")
"""The columns of boxes, and those of the class hierarchy."""
SHAPE = {"name": str, "factors": [str], "tags": [[str]], "pixels": str, "root": str | None, "digest": str}


class Texts(NamedTuple):
    """Captions or documents: row r says that item number `item[r]` has `text[r]`; several per item are usual.

    `text` is an array of Python strings: one long text must not widen all the others.
    """

    item: Ints
    text: Values

    def __repr__(self) -> str:
        return f"Texts({len(self.text):,} of {len(np.unique(self.item)):,} items)"

    @staticmethod
    def none() -> "Texts":
        """Texts of a collection that has none."""
        return Texts(np.zeros(0, np.int64), np.zeros(0, np.object_))


@dataclass(frozen=True, eq=False)
class Tags:
    """Which item carries which tag, as a long table sorted by item, then tag, each pair once.

    Row r says that item number `item[r]` carries the tag `names[tag[r]]`, which is of kind `kinds[tag[r]]` and covers
    `area[r]` of the image (a share, summed over instances, so overlapping instances may exceed 1; NaN when unknown).
    The same word may occur twice in `names`, with two kinds (`grass` the object, `grass` the place).
    Box k, `boxes[k]` = (x, y, width, height) as shares of the image, belongs to row `box_row[k]`.
    """

    item: Ints
    tag: Ints
    area: npt.NDArray[np.float32]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    box_row: Ints
    boxes: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        """Check that every code has a name and every box a row, and that pairs are sorted."""
        for codes, limit, what in ((self.tag, len(self.names), "tag"), (self.box_row, len(self.tag), "row of a box")):
            if len(codes) and (codes.min() < 0 or codes.max() >= limit):
                raise ShiftBenchError(f"A {what} is outside 0..{limit - 1}: the table of tags was changed, or it does "
                                      "not belong to this vocabulary.")
        item, tag = np.diff(self.item), np.diff(self.tag)
        if ((item < 0) | ((item == 0) & (tag <= 0))).any():
            raise ShiftBenchError("A tag occurs twice for an item, or the rows are not in order of items and tags: the "
                                  "table of tags was changed. Make it again; Tags.of puts rows in order.")

    def __repr__(self) -> str:
        return (f"Tags({len(self.tag):,} of {len(np.unique(self.item)):,} items; {len(self.names):,} names: "
                f"{in_short(self.names) or 'none'}; kinds: {in_short(dict.fromkeys(self.kinds)) or 'none'}; "
                f"{len(self.boxes):,} boxes)")

    @staticmethod
    def of(
        item: npt.ArrayLike,
        tag: npt.ArrayLike,
        names: Sequence[str],
        kinds: Sequence[str] | str = "object",
        area: npt.ArrayLike | None = None,
        boxes: npt.ArrayLike | None = None,
    ) -> "Tags":
        """Make tags from one row per instance, in any order: merge pairs, sum their areas and keep their boxes.

        A row of `boxes` that is NaN means that this instance has none.
        """
        items, tags = np.asarray(item, np.int64), np.asarray(tag, np.int64)
        kind_names = (kinds,) * len(names) if isinstance(kinds, str) else tuple(kinds)
        if len(items) != len(tags) or len(kind_names) != len(names):
            raise ShiftBenchError(f"Tags need one tag per row and one kind per name; got {len(items)} items, "
                                  f"{len(tags)} tags, {len(names)} names, {len(kind_names)} kinds.")
        if len(set(zip(names, kind_names, strict=True))) != len(names):
            raise ShiftBenchError("A tag is listed twice with the same name and kind. List each once.")
        if len(tags) and (tags.min() < 0 or tags.max() >= len(names)):
            raise ShiftBenchError(f"A tag code is outside 0..{len(names) - 1}.")
        key = items * max(len(names), 1) + tags
        order = np.argsort(key, kind="stable")
        pairs, start = np.unique(key[order], return_index=True)
        share = np.full(len(items), np.nan) if area is None else np.asarray(area, np.float64)
        if np.isinf(share).any() or (share < 0).any():
            raise ShiftBenchError("An area is negative or infinite. Areas are shares of the image, at least 0.")
        has_area = ~np.isnan(share[order])
        total_area = np.add.reduceat(np.where(has_area, share[order], 0.0), start) if len(start) else np.zeros(0)
        n_areas = np.add.reduceat(has_area.astype(np.int64), start) if len(start) else np.zeros(0, np.int64)
        box = np.full((len(items), 4), np.nan) if boxes is None else np.asarray(boxes, np.float64).reshape(-1, 4)
        boxed = order[~np.isnan(box[order]).any(axis=1)]
        return Tags(
            item=pairs // max(len(names), 1),
            tag=pairs % max(len(names), 1),
            area=np.where(n_areas > 0, total_area, np.nan).astype(np.float32),
            names=tuple(names),
            kinds=kind_names,
            box_row=np.searchsorted(pairs, key[boxed]).astype(np.int64),
            boxes=box[boxed].astype(np.float32),
        )

    @staticmethod
    def none() -> "Tags":
        """Tags of a collection that has none."""
        return Tags.of([], [], ())

    def codes(self, name: str) -> Ints:
        """The codes of a tag: `grass` means every kind of grass, `place:grass` only the place."""
        kind, _, bare = name.partition(":")
        codes = [code for code, word in enumerate(self.names) if word == name] or [
            code for code, (word, of_kind) in enumerate(zip(self.names, self.kinds, strict=True))
            if word == bare and of_kind == kind]
        if not codes:
            raise unknown("tag", name, self.names)
        return np.asarray(codes, np.int64)

    def rows_of(self, name: str) -> Ints:
        """The rows of this table that carry a tag."""
        start, order = self._by_tag
        return np.sort(np.concatenate([order[start[code]:start[code + 1]] for code in self.codes(name)]))

    @cached_property
    def _by_tag(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.tag, kind="stable")
        return np.searchsorted(self.tag[order], np.arange(len(self.names) + 1)), order


@dataclass(frozen=True, eq=False)
class Collection:
    """Items with annotations. Made by readers and worlds, read by shifts and meta-graphs.

    - `items`: ids in the source data, one per item, no doubles
    - `factors`: columns with exactly one value per item
    - `tags`: names an item may carry or not
    - `texts`: captions or documents
    - `parents`: class hierarchy: name -> names of its parents
    - `pixels`: per item an image (uint8, N × H × W × 3) or a file name below `root`; None when there are no images
    - `home`: the folder it was loaded from, below which what is computed from it is kept
    - `foreign`: whether it was made elsewhere and `root` is not trusted here (see `image_files`): no file is used then
    """

    name: str
    items: Strs
    factors: Mapping[str, Values] = field(default_factory=dict)
    tags: Tags = field(default_factory=Tags.none)
    texts: Texts = field(default_factory=Texts.none)
    parents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pixels: Values | None = None
    root: Path | None = None
    home: Path | None = None
    foreign: bool = False

    def __post_init__(self) -> None:
        items = np.asarray(self.items)
        if items.dtype.kind == "O" and max(map(len, map(str, items.tolist())), default=0) > LONGEST_ID:
            raise ShiftBenchError(f"Collection '{self.name}': an id has more than {LONGEST_ID} letters. An id is a "
                                  "short name; is this column a text?")
        if items.dtype.kind != "U":
            items = items.astype(np.str_)
        object.__setattr__(self, "items", items)
        for what, values in (("id", items), ("image file", self.pixels), *self.factors.items()):
            if values is not None and (odd := broken_text(np.asarray(values))) is not None:
                raise ShiftBenchError(f"Collection '{self.name}': the {what} '{odd}' is not UTF-8 text. Rename it.")
        object.__setattr__(self, "texts", Texts(self.texts.item, np.asarray(self.texts.text, np.object_)))
        if has_doubles(items):
            names, counts = np.unique(items, return_counts=True)
            raise ShiftBenchError(f"Collection '{self.name}': item '{names[counts > 1][0]}' is listed more than once. "
                                  "Ids must be unique.")
        for name, values in self.factors.items():
            if len(values) != len(items):
                raise ShiftBenchError(f"Collection '{self.name}': factor '{name}' has {len(values)} values "
                                      f"for {len(items)} items.")
        for what, rows in (("tags", self.tags.item), ("texts", self.texts.item)):
            if len(rows) and (rows.min() < 0 or rows.max() >= len(items)):
                raise ShiftBenchError(f"Collection '{self.name}': its {what} name an item number outside "
                                      f"0..{len(items) - 1}.")
        if self.pixels is not None and len(self.pixels) != len(items):
            raise ShiftBenchError(f"Collection '{self.name}': {len(self.pixels)} images for {len(items)} items.")

    @staticmethod
    def from_frame(
        frame: Any, *, id: str, label: str, domain: str | None = None, split: str | None = None,
        image: str | None = None, images: Path | str | None = None, text: str | None = None,
        features: str | Sequence[str] = (), tags: str | Sequence[str] = (), name: str | None = None, **options: Any,
    ) -> "Collection":
        """From a data frame (pandas, polars, pyarrow) or a dict of columns, as `shiftbench read table` from a file.

        Each of `id`, `label`, `domain`, `split`, `image` and `text` names a column; see `item_table.table` for these
        and further options.
        """
        from shiftbench.data.item_table import table

        return table(frame, id=id, label=label, domain=domain, split=split, image=image, images=images, text=text,
                     features=features, tags=tags, name=name, **options)

    @staticmethod
    def from_hf(
        dataset: Any, *, id: str | None = None, label: str = "label", domain: str | None = None,
        split: str | None = None, image: str | None = None, images: Path | str | None = None, text: str | None = None,
        features: str | Sequence[str] = (), tags: str | Sequence[str] = (), tags_in: str | None = None,
        name: str | None = None, **options: Any,
    ) -> "Collection":
        """From a Dataset or DatasetDict of `datasets`, a folder of one, or a name of the hub; see `hf_dataset.hf`.

        Splits are the factor `split`, a ClassLabel keeps its names, and images are written as files into `images`, by
        default with the collection when it is saved.
        """
        from shiftbench.data.hf_dataset import hf

        return hf(dataset, id=id, label=label, domain=domain, split=split, image=image, images=images, text=text,
                  features=features, tags=tags, tags_in=tags_in, name=name, **options)

    @staticmethod
    def from_torch(
        dataset: Any, *, id: str | None = None, label: str = "label", domain: str | None = None,
        image: str | None = None, classes: Sequence[str] | None = None, fields: Sequence[str] = (),
        images: bool | Path | str = True, name: str | None = None, **options: Any,
    ) -> "Collection":
        """From a map-style data set of torch, or a dict of them by split; see `torch_dataset.from_torch`.

        Samples are (image or text, label), with metadata behind them, or dicts. Files that the data set lists, as
        torchvision's ImageFolder does, are used where they are.
        """
        from shiftbench.data.torch_dataset import from_torch

        return from_torch(dataset, id=id, label=label, domain=domain, image=image, classes=classes, fields=fields,
                          images=images, name=name, **options)

    def __repr__(self) -> str:
        images = "no images" if self.pixels is None else "image files" if self.pixels.dtype.kind == "U" else (
            f"images {'×'.join(map(str, self.pixels.shape[1:3]))}")
        return (f"Collection('{self.name}': {len(self):,} items; factors: {in_short(self.factors) or 'none'}; "
                f"{len(self.tags.names):,} tags, {len(self.texts.item):,} texts, {images})")

    def _repr_html_(self) -> str:
        return str(notebook().html(self))

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Collection):
            return NotImplemented
        same_pixels = (self.pixels is None) == (other.pixels is None)
        if same_pixels and self.pixels is not None and other.pixels is not None:
            same_pixels = np.array_equal(self.pixels, other.pixels) and (
                self.root == other.root or (self.keeps_images and other.keeps_images))
        return self.name == other.name and self.digest == other.digest and same_pixels

    @cached_property
    def digest(self) -> str:
        """A digest of all annotations, but not of the pixels."""
        parents = [(child, parent) for child, above in sorted(self.parents.items()) for parent in above]
        return digest({
            "items": self.items,
            **{f"factor:{name}": values for name, values in sorted(self.factors.items())},
            "tags.item": self.tags.item, "tags.tag": self.tags.tag, "tags.area": self.tags.area,
            "tags.names": np.asarray(self.tags.names, np.str_), "tags.kinds": np.asarray(self.tags.kinds, np.str_),
            "tags.box_row": self.tags.box_row, "tags.boxes": self.tags.boxes,
            "texts.item": self.texts.item, "texts.text": self.texts.text,
            "parents": np.asarray(parents, np.str_).reshape(-1),
        })

    def factor(self, name: str) -> Values:
        """One value per item: a column, or a question about tags or about another factor.

        - `has:sofa`: yes or no
        - `area:sofa`: the share of the image that sofas cover, 0 where there is none
        - `which:A|B`: A or B, whichever tag the item carries; `none` or `several` where it is not just one of them;
          a choice may have a name and several tags: `which:home=sofa+bed|street=car+bus`
        - `bins:age:30,60`, `quantiles:age:4`: numbers as bins
        - `year:taken`, `month:taken`, `season:taken`, `hour:taken`: of a factor that holds dates; see `questions`

        A name from the class hierarchy stands for every tag below it: `has:vehicle`.
        """
        values = resolve(name, self._known)
        if values is None:
            raise unknown("factor", base_of(name), [*self.factors, *FORMS.values()])
        return values

    def _known(self, name: str) -> Values | None:
        """A column, or the answer to a question about tags; None if the name is neither."""
        if name in self.factors:
            values = self.factors[name]
            if values.dtype.kind == "O":  # see `to_strings`
                raise ShiftBenchError(f"Factor '{name}' of collection '{self.name}' holds long texts, of up to "
                                      f"{max(map(len, values.tolist()))} letters, not values. Read it as the text of "
                                      "the items, or name another factor.")
            return values
        return about_tags(name, len(self), self._rows, self.tags.item, self.tags.area)

    def with_tag(self, name: str) -> Ints:
        """The numbers, sorted, of the items that carry a tag or one below it in the class hierarchy."""
        return np.unique(self.tags.item[self._rows(name)])

    def _rows(self, name: str) -> Ints:
        """The rows of the tags' table that carry a tag or one below it."""
        carried = {name, *self.below(name)}.intersection(self.tags.names) or {name}
        return np.unique(np.concatenate([self.tags.rows_of(tag) for tag in carried]))

    def below(self, name: str) -> set[str]:
        """Every name under this one in the class hierarchy."""
        below: set[str] = set()
        layer = {name}
        while layer:
            layer = {child for child, above in self.parents.items() if layer.intersection(above)} - below - {name}
            below |= layer
        return below

    def index(self, items: Strs) -> Ints:
        """Item numbers of ids; an id that is not here is an error."""
        rows = positions(np.asarray(items, np.str_), self.items)
        if len(rows) and rows.min() < 0:
            missing = np.asarray(items)[rows < 0]
            raise ShiftBenchError(f"Collection '{self.name}' has no item '{missing[0]}'"
                                  f"{f' (and {len(missing) - 1} more)' if len(missing) > 1 else ''}.")
        return rows

    @cached_property
    def _first_text(self) -> Ints:
        """Per item, the row of its first text, or -1."""
        items, rows = np.unique(self.texts.item, return_index=True)
        first = np.full(len(self), -1, np.int64)
        first[items] = rows
        return first

    def first_texts(self, rows: Ints) -> list[str]:
        """The first text of each of these items; an item without one is an error."""
        texts = self._first_text[rows]
        lacking = rows[texts < 0]
        if len(lacking):
            raise ShiftBenchError(f"The model reads texts, but collection '{self.name}' has none of {len(lacking)} "
                                  f"items ('{self.items[lacking[0]]}', …). Name the column when it is read (--text), "
                                  "or choose a model that takes images or features.")
        return [str(text) for text in self.texts.text[texts].tolist()]

    def save(self, folder: Path | str) -> Path:
        """Write the folder of `docs/files.md`; an existing collection there is replaced in one step."""
        with writing_folder(folder, MARKER) as staging:
            columns = {"item": pa.array(self.items), **{f"factor:{k}": pa.array(v) for k, v in self.factors.items()}}
            storage = "none"
            if self.pixels is not None and self.pixels.dtype.kind == "U":
                storage = "files"
                columns["pixels"] = pa.array(self.pixels)
                if self.keeps_images and self.root is not None:
                    link_images(self.root, self.pixels.tolist(), staging / FOLDER)
            elif self.pixels is not None:
                storage = "array"
                np.save(staging / "pixels.npy", self.pixels, allow_pickle=False)
            write_table(staging / "items.parquet", pa.table(columns))
            tags = self.tags
            vocabulary = [f"{kind}:{name}" for name, kind in zip(tags.names, tags.kinds, strict=True)]
            write_table(staging / "tags.parquet", pa.table({
                "item": self._named(tags.item),
                "tag": pa.DictionaryArray.from_arrays(pa.array(tags.tag), pa.array(vocabulary, pa.string())),
                "area": pa.array(tags.area),
            }))
            if len(tags.boxes):
                write_table(staging / "boxes.parquet", pa.table({
                    "row": tags.box_row, **dict(zip(SIDES, tags.boxes.T, strict=True))}))
            texts = {"item": self._named(self.texts.item), "text": pa.array(self.texts.text, pa.string())}
            write_table(staging / "texts.parquet", pa.table(texts))
            links = [(child, parent) for child, above in self.parents.items() for parent in above]
            write_table(staging / "parents.parquet", pa.table({
                side: pa.array([link[at] for link in links], pa.string()) for at, side in enumerate(LINK)}))
            write_json(staging / MARKER, {
                "format": "shiftbench collection", "version": FORMAT, "name": self.name, "items": len(self),
                "factors": list(self.factors), "tags": [list(tags.names), list(tags.kinds)], "pixels": storage,
                "root": FOLDER if self.keeps_images else str(self.root) if self.root else None, "digest": self.digest,
                "files": file_digests(staging, [file.name for file in staging.glob("*.parquet")])})
        if not self.foreign and not self.keeps_images and (self.root is not None or storage == "files"):
            record_trust(Path(folder) / MARKER, self.root or Path.cwd())
        return Path(folder)

    def _named(self, rows: Ints) -> pa.Array:
        """Item numbers as ids. Plain strings: a dictionary would be written again for every row group."""
        return pa.array(self.items).take(pa.array(rows))

    @staticmethod
    def load(folder: Path | str) -> "Collection":
        """Read a folder that `save` wrote and check its tables against their digests.

        Images stay on disk, memory-mapped; they have no digest.
        """
        return read_folder(Path(folder), MARKER, Collection._read)

    @staticmethod
    def _read(folder: Path) -> "Collection":
        facts = read_marker(folder, MARKER, "collection", FORMAT, SHAPE)
        if "files" in facts:  # older collections have none
            check_digests(folder, MARKER, facts["files"], "collection")

        def table(name: str, *columns: str) -> tuple[Path, pa.Table]:
            return folder / name, read_table(folder / name, columns)

        files = ["pixels"] if facts["pixels"] == "files" else []
        rows = table("items.parquet", "item", *files, *(f"factor:{name}" for name in facts["factors"]))
        pairs = table("tags.parquet", "item", "tag", "area")
        texts, links = table("texts.parquet", "item", "text"), table("parents.parquet", *LINK)
        boxes = table("boxes.parquet", "row", *SIDES) if (folder / "boxes.parquet").exists() else None
        items, (names, kinds) = strings(*rows, "item"), names_and_kinds(folder, facts)
        vocabulary = np.asarray([f"{kind}:{name}" for name, kind in zip(names, kinds, strict=True)], np.str_)
        parents: dict[str, tuple[str, ...]] = {}
        for child, parent in zip(*(strings(*links, side).tolist() for side in LINK), strict=True):
            parents[child] = (*parents.get(child, ()), parent)
        pixels: Values | None = strings(*rows, "pixels") if files else None
        if facts["pixels"] == "array":
            pixels = read_array(folder / "pixels.npy")
            if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] != 3 or not all(pixels.shape[1:]):
                raise ShiftBenchError(f"{folder / 'pixels.npy'}: holds {pixels.dtype} of shape {pixels.shape}, but "
                                      "images are uint8, items × height × width × 3. Make the collection again.")
        if "\0" in (facts["root"] or ""):
            raise ShiftBenchError(f"{folder / MARKER}: 'root' is not the name of a folder; the file was changed. Make "
                                  "the collection again.")
        keeps = bool(facts["root"]) and not Path(facts["root"]).is_absolute()  # images that it keeps itself
        trusted = trusted_root(folder / MARKER) if (facts["root"] or files) and not keeps else None
        root = (trusted or folder.resolve() / facts["root"]) if facts["root"] else None
        return Collection(
            name=facts["name"],
            items=items,
            factors={name: values_of(*rows, f"factor:{name}") for name in facts["factors"]},
            tags=Tags(
                item=positions(strings(*pairs, "item"), items),
                tag=positions(strings(*pairs, "tag"), vocabulary),
                area=decimal(*pairs, "area").astype(np.float32),
                names=tuple(names),
                kinds=tuple(kinds),
                box_row=np.zeros(0, np.int64) if boxes is None else whole(*boxes, "row"),
                boxes=np.zeros((0, 4), np.float32) if boxes is None else np.stack(
                    [decimal(*boxes, side) for side in SIDES], axis=1).astype(np.float32)),
            texts=Texts(positions(strings(*texts, "item"), items), long_texts(*texts, "text")),
            parents=parents,
            pixels=pixels,
            root=root,
            home=folder,
            foreign=bool(facts["root"] or files) and trusted is None and not is_allowed(root or Path.cwd(), folder))

    def take(self, rows: Ints) -> "Collection":
        """The collection restricted to these items, in this order, with their annotations; the tag vocabulary stays."""
        number = np.full(len(self), -1)
        number[rows] = np.arange(len(rows))
        item = number[self.tags.item]
        order = np.flatnonzero(item >= 0)
        order = order[np.lexsort((self.tags.tag[order], item[order]))]
        row = np.full(len(item), -1)
        row[order] = np.arange(len(order))
        boxes = np.flatnonzero(row[self.tags.box_row] >= 0)
        boxes = boxes[np.argsort(row[self.tags.box_row[boxes]], kind="stable")]
        texts = np.flatnonzero(number[self.texts.item] >= 0)
        texts = texts[np.argsort(number[self.texts.item[texts]], kind="stable")]
        return replace(
            self,
            items=self.items[rows],
            factors={name: values[rows] for name, values in self.factors.items()},
            tags=replace(self.tags, item=item[order], tag=self.tags.tag[order], area=self.tags.area[order],
                         box_row=row[self.tags.box_row[boxes]], boxes=self.tags.boxes[boxes]),
            texts=Texts(number[self.texts.item[texts]], self.texts.text[texts]),
            pixels=None if self.pixels is None else self.pixels[rows],
            home=None)

    @property
    def keeps_images(self) -> bool:
        """Whether its image files are its own, saved with it and moved with it; see `image_files`."""
        return self.root is not None and is_kept(self.root, None if self.home is None else self.home.resolve())

    def lying_in(self, folder: Path | str) -> "Collection":
        """The collection as the one that was saved in this folder."""
        home = Path(folder)
        return replace(self, home=home, root=home.resolve() / FOLDER if self.keeps_images else self.root)

    @property
    def files_root(self) -> Path:
        """The folder that holds the files; for a collection from elsewhere the user must trust it first."""
        root = self.root or Path.cwd()
        if self.foreign:
            raise untrusted(self.home or Path(), root)
        return root

    def path(self, row: int) -> Path:
        """The image file of an item; a name that leads out of `root` is refused."""
        if self.pixels is None or self.pixels.dtype.kind != "U":
            raise ShiftBenchError(f"Collection '{self.name}' has no image files.")
        path = inside(self.files_root, str(self.pixels[row]))
        check_regular(path)
        return path


def names_and_kinds(folder: Path, facts: Mapping[str, Any]) -> list[list[str]]:
    """The tags in a marker: [names, kinds]."""
    pair: list[list[str]] = facts["tags"]
    if len(pair) != 2 or len(pair[0]) != len(pair[1]):
        raise ShiftBenchError(f"{folder / MARKER}: 'tags' must list names and kinds, as many of each.")
    return pair
