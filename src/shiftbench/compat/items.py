"""The rows of a benchmark as a script sees them: input x and target y, by kind; and how batches are collated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from shiftbench.compat.wilds_metadata import next_kinds
from shiftbench.core.arrays import Ints, read_array
from shiftbench.core.backend import load_torch, torch
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import SPLITS, UNLABELLED, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.item_table import features
from shiftbench.data.target import BOXES, NO_LABEL, TOKENS, Boxes, boxes_of, tokens_of
from shiftbench.images.decode import channel_images, images, open_image

PADDING = -1
"""The value that pads a molecule to as many lines as the largest in its batch has."""


class Inputs:
    """x of every row, before any transform.

    An RGB image as a PIL picture; one of an .npz file as float32, channels × height × width; the tokens of a target of
    tokens but the last, int64, 0 beyond their end; a molecule as int64 lines × 10, an atom `[0, f0 … f8]` or an edge
    `[1, source, target, b0, b1, b2, -1 …]`; the first text of any other item, or its features, float32, where the
    collection has no texts.
    """

    def __init__(self, benchmark: Benchmark, collection: Collection) -> None:
        self.collection, self.item = collection, collection.index(benchmark.items)
        self._tokens: Any = None
        if benchmark.target.per_place:
            codes = tokens_of(np.asarray(benchmark.extra[TOKENS]))[:, :-1]
            self._tokens = torch.from_numpy(np.where(codes == NO_LABEL, 0, codes))

    @property
    def graphs(self) -> bool:
        """Whether items are molecules in OGB's files."""
        pixels, root, factors = self.collection.pixels, self.collection.root, self.collection.factors
        return pixels is None and root is not None and {"atoms", "bonds"} <= set(factors)

    def __getitem__(self, idx: int) -> Any:
        row, pixels = int(self.item[int(idx)]), self.collection.pixels
        if self._tokens is not None:
            return self._tokens[int(idx)]
        if self.graphs:
            values, start = self._lines
            return torch.from_numpy(values[start[int(idx)]:start[int(idx) + 1]].astype(np.int64))
        if pixels is None and self._features is not None:
            return self._features[row]
        if pixels is None:
            return self._text[row]
        if pixels.dtype.kind != "U":
            return Image.fromarray(images(self.collection, np.asarray([row]))[0])
        if str(pixels[row]).endswith(".npz"):
            return torch.from_numpy(channel_images(self.collection, np.asarray([row]))[0])
        return open_image(self.collection, row, None)

    def __getstate__(self) -> dict[str, Any]:
        """The state that is sent to another process, which opens an array of images on disk itself."""
        pixels = self.collection.pixels
        if not isinstance(pixels, np.memmap) or pixels.filename is None:
            return dict(self.__dict__)
        return {**self.__dict__, "collection": replace(self.collection, pixels=None), "_file": pixels.filename}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if (file := self.__dict__.pop("_file", None)) is not None:
            self.collection = replace(self.collection, pixels=read_array(file))

    def ready(self) -> None:
        """Read files shared by all items once, so that the workers of a loader do not each read them."""
        if self.graphs and self._tokens is None:
            _ = self._lines

    @cached_property
    def _lines(self) -> tuple[Any, Ints]:
        from shiftbench.readers.wilds.molecules import graph_lines

        return graph_lines(self.collection, self.item)

    @cached_property
    def _features(self) -> Any:
        """Items × columns, where a collection of plain numbers has neither images nor texts."""
        values = features(self.collection)[1]
        return None if len(self.collection.texts.item) or not values.shape[1] else torch.from_numpy(
            values.astype(np.float32))

    @cached_property
    def _text(self) -> Mapping[int, str]:
        """The first text of every item."""
        texts = self.collection.texts
        first = {int(row): str(text) for row, text in zip(texts.item[::-1], texts.text[::-1], strict=True)}
        if missing := set(self.item.tolist()) - set(first):
            raise ShiftBenchError(f"Collection '{self.collection.name}' has neither an image nor a text of item "
                                  f"'{self.collection.items[min(missing)]}', so a script has nothing to look at.")
        return first


class BoxList:
    """y of images with boxes: {"boxes": float32 M × 4 in pixels of the image, "labels": int64 M, all 1}.

    Left, top, right, bottom, as torchvision's detectors take them. Sizes of image files are looked up when an item is
    asked for. Rows of it are a list of the same kind.
    """

    def __init__(self, collection: Collection, item: Ints, start: Ints, box: Boxes, rows: Ints) -> None:
        self.collection, self.item, self.start, self.box, self.rows = collection, item, start, box, rows

    @staticmethod
    def of(benchmark: Benchmark, collection: Collection) -> "BoxList":
        row, box = boxes_of(np.asarray(benchmark.extra[BOXES]))
        start = np.searchsorted(row, np.arange(len(benchmark) + 1))
        return BoxList(collection, collection.index(benchmark.items), start, box, np.arange(len(benchmark)))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, idx: Any) -> Any:
        chosen = self.rows[idx]
        if np.ndim(chosen):
            return BoxList(self.collection, self.item, self.start, self.box, chosen)
        width, height = image_size(self.collection, int(self.item[chosen]))
        box = self.box[self.start[chosen]:self.start[chosen + 1]] * np.asarray([width, height] * 2, np.float32)
        return {"boxes": torch.from_numpy(box), "labels": torch.ones(len(box), dtype=torch.int64)}


def targets(benchmark: Benchmark, collection: Collection) -> Any:
    """y of every row, as the package has it.

    Classes int64 (N); numbers and tasks float32, N × outputs, NaN where there is no label; of tokens the next one at
    each place, float32 so that NaN can say that none is asked for; boxes a `BoxList`.
    """
    target = benchmark.target
    if target.one_per_column:
        columns = [np.asarray(benchmark.extra[name], np.float32) for name in target.columns]
        return torch.from_numpy(np.stack(columns, axis=1))
    if target.per_place:
        after = tokens_of(np.asarray(benchmark.extra[TOKENS]))[:, 1:]
        asked = (after != NO_LABEL) & (next_kinds(benchmark) != NO_LABEL)
        return torch.from_numpy(np.where(asked, after, np.nan).astype(np.float32))
    if target.detects:
        return BoxList.of(benchmark, collection)
    return torch.from_numpy(benchmark.label.astype(np.int64))


def collate_boxes(batch: Sequence[tuple[Any, Any, Any]]) -> tuple[Any, list[Any], Any]:
    """x stacked where all are tensors of one shape, else a list; y a list; metadata stacked."""
    x, y, metadata = (list(column) for column in zip(*batch, strict=True))
    alike = all(isinstance(image, torch.Tensor) and image.shape == x[0].shape for image in x)
    return torch.stack(x) if alike else x, y, torch.stack(metadata)


def collate_graphs(batch: Sequence[tuple[Any, Any, Any]]) -> tuple[Any, Any, Any]:
    """x as N × most lines × 10, PADDING behind a molecule's end; a list where a transform returns no tensors."""
    x, y, metadata = (list(column) for column in zip(*batch, strict=True))
    if all(isinstance(molecule, torch.Tensor) for molecule in x):
        x = torch.nn.utils.rnn.pad_sequence(x, batch_first=True, padding_value=PADDING)
    return x, torch.utils.data.default_collate(y), torch.stack(metadata)


def image_size(collection: Collection, row: int) -> tuple[int, int]:
    """Width and height of an image; only the header of a file is read."""
    pixels = collection.pixels
    if pixels is None:
        raise ShiftBenchError(f"Collection '{collection.name}' has no images, so its boxes, which are shares of them, "
                              "are not known in pixels. Read it with its image files.")
    if pixels.dtype.kind != "U":
        return int(pixels.shape[2]), int(pixels.shape[1])
    try:
        with Image.open(collection.path(row)) as picture:
            return picture.size
    except (OSError, Image.DecompressionBombError):
        return open_image(collection, row, None).size  # says what is wrong with the file


# The rows of a split as a data set of torch, for users' own training loops

class TorchRows(load_torch("torch.utils.data").Dataset):  # type: ignore[misc]
    """(x, y, {"id", "domain", "group"}) of each row of a split; domain and group are codes, whose words `names` has.

    x is an image, a text, or the features of a table; `transform` gets a picture of pillow, and without one an image is
    float32, channels × height × width, from 0 to 1. y is the code of the class, and -100, which losses of torch ignore,
    where a row has none; of another target it is what `compat.items.targets` says. Files are opened when a row is asked
    for, so that it can be sent to the workers of a DataLoader.
    """

    def __init__(
        self, benchmark: Benchmark, collection: Collection, split: str, transform: Callable[[Any], Any] | None = None
    ) -> None:
        self.rows = benchmark.rows(split)
        if not len(self.rows):
            present = [name for name in SPLITS if (benchmark.split == name).any()]
            raise ShiftBenchError(f"Benchmark '{benchmark.name}' has no rows of split '{split}'. It has "
                                  f"{', '.join(present)}.")
        self.split, self.transform, self.names = split, transform, benchmark.names
        self.ids, self.domain, self.group = benchmark.items, benchmark.domain, benchmark.group
        self._inputs = Inputs(benchmark, collection)
        self._inputs.ready()
        hidden = benchmark.target.has_classes and split == UNLABELLED
        self._y = torch.full((len(benchmark),), NO_LABEL) if hidden else targets(benchmark, collection)

    def __repr__(self) -> str:
        return f"TorchRows('{self.split}': {len(self):,} rows; labels: {', '.join(self.names['label'][:6])})"

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Any, Any, dict[str, Any]]:
        row = int(self.rows[index])
        x = self._inputs[row]
        if self.transform is not None:
            x = self.transform(x)
        elif isinstance(x, Image.Image):
            x = torch.from_numpy(np.array(x, np.float32).transpose(2, 0, 1) / 255)
        y = self._y[row]
        return x, int(y) if isinstance(y, torch.Tensor) and y.ndim == 0 and not y.is_floating_point() else y, {
            "id": str(self.ids[row]), "domain": int(self.domain[row]), "group": int(self.group[row])}
