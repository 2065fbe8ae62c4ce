"""Data sets of torch become collections, and rows of a benchmark become a data set of torch."""

import pickle
from collections import namedtuple

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
from torchvision.datasets import ImageFolder

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.images.decode import images


class Listed(Dataset):
    """Samples from a list."""

    def __init__(self, samples, **facts):
        self.rows = samples
        self.__dict__.update(facts)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def pictures(n=6, size=8):
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 255, (size, size, 3), np.uint8)) for _ in range(n)]


def test_pictures_tensors_and_dicts_are_the_same_collection():
    """Pictures with labels, tensors with metadata rows, and dicts hold the same pixels, class names and factors."""
    drawn = pictures()
    place = ["home", "street"] * 3
    one = Listed([(x, k % 2, {"place": p, "age": k}) for k, (x, p) in enumerate(zip(drawn, place, strict=True))],
                 classes=["cat", "dog"])
    two = Listed([{"img": torch.from_numpy(np.array(x)).permute(2, 0, 1).float() / 255, "y": torch.tensor(k % 2),
                   "place": p, "age": torch.tensor(k)} for k, (x, p) in enumerate(zip(drawn, place, strict=True))])
    made = [sb.Collection.from_torch(one, domain="place"),
            sb.Collection.from_torch(two, label="y", domain="place", classes=("cat", "dog"))]
    for collection in made:
        assert collection.items.tolist() == list("012345")
        assert collection.factors["label"].tolist() == ["cat", "dog"] * 3
        assert collection.factors["domain"].tolist() == place
        assert collection.factors["age"].tolist() == list(range(6))
        assert np.array_equal(collection.pixels, np.stack([np.asarray(x) for x in drawn]))
    rows = Listed([(x, k % 2, torch.tensor([k, 7])) for k, x in enumerate(drawn)], metadata_fields=["camera", "day"])
    named = sb.Collection.from_torch(rows, id="camera", domain="day")
    assert named.items.tolist() == list("012345")
    assert set(named.factors) == {"label", "domain", "day"}
    assert sb.Collection.from_torch(one, images=False).pixels is None


def test_files_that_are_listed_are_not_opened(tmp_path, monkeypatch):
    """ImageFolder and a Subset of it keep their files and class names; splits are a dict of data sets."""
    for split in ("train", "test"):
        for label in ("cat", "dog"):
            (tmp_path / split / label).mkdir(parents=True)
            for number, picture in enumerate(pictures(3)):
                picture.save(tmp_path / split / label / f"{number}.png")
    sets = {split: ImageFolder(tmp_path / split) for split in ("train", "test")}
    monkeypatch.setattr(ImageFolder, "__getitem__", None)
    made = sb.Collection.from_torch({"train": sets["train"], "test": Subset(sets["test"], [0, 4])}, name="pets")
    assert made.items.tolist() == [f"train/{label}/{k}.png" for label in ("cat", "dog") for k in range(3)] + [
        "test/cat/0.png", "test/dog/1.png"]
    assert made.factors["split"].tolist() == ["train"] * 6 + ["test"] * 2
    assert made.factors["label"].tolist() == ["cat"] * 3 + ["dog"] * 3 + ["cat", "dog"]
    assert made.path(7) == tmp_path / "test" / "dog" / "1.png"


def test_texts_vectors_and_images_of_many_sizes(tmp_path):
    """A text is a text, a vector is features, and pictures of several sizes are kept as PNG files."""
    words = sb.Collection.from_torch(Listed([("good", 1), ("bad", 0)], classes=["no", "yes"]))
    assert words.texts.text.tolist() == ["good", "bad"]
    numbers = sb.Collection.from_torch(TensorDataset(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 1])))
    assert numbers.factors["feature:x1"].tolist() == [2.0, 4.0]
    drawn = [*pictures(2), *pictures(1, 6)]
    mixed = sb.Collection.from_torch(Listed([(x, k) for k, x in enumerate(drawn)]))
    mixed.save(tmp_path / "c")
    again = sb.Collection.load(tmp_path / "c")
    for row, picture in enumerate(drawn):
        assert np.array_equal(images(again, np.asarray([row]))[0], np.asarray(picture))


Pair = namedtuple("Pair", "x y z w")
WRONG = [
    ([pictures(1)[0]], {}, r"Listed\[0\]: is a Image, not \(input, label\)"),
    ([Pair(1, 2, 3, 4)], {}, r"Listed\[0\]: is a Pair of 4, not"),
    ([(pictures(1)[0], 2)], {"classes": ["a", "b"]}, r"Listed\[0\]: has the label 2, but there are 2 classes"),
    ([(pictures(1)[0], -1)], {"classes": ["a", "b"]}, r"Listed\[0\]: has the label -1"),
    ([(torch.full((3, 4, 4), 2.5), 0)], {},
     r"values from 0 to 2.5, but floating-point images go from 0 to 1. Remove the norm"),
    ([(torch.zeros(5, 4, 4), 0)], {}, r"Listed\[0\]: its input has shape 5 × 4 × 4"),
    ([({"a": 1}, 0)], {}, "its input has shape"),
    ([(pictures(1)[0], 0, [1, 2])], {}, r"has 2 values of metadata, and 0 are named. Name them all with `fields`"),
    ([(pictures(1)[0], 0)], {"domain": "place"}, r"Listed: domain: No column named 'place'"),
    ([{"image": 1}], {}, r"Listed\[0\]: No key named 'label'"),
    ([(x, 0, {"k": 1}) for x in pictures(2)], {"id": "k"}, "Listed: id '1' in column 'k' is in rows 0 and 1"),
    ([(x, 0, {"k": k}) for x, k in zip(pictures(2), ("a", 1), strict=True)], {}, "Listed: 'k' has values of several"),
    ([], {}, "Listed: has no samples"),
]


@pytest.mark.parametrize(("samples", "options", "message"), WRONG)
def test_wrong_samples_are_one_line(samples, options, message):
    """The message names the data set, the sample, and what it is."""
    with pytest.raises(ShiftBenchError, match=message):
        sb.Collection.from_torch(Listed(samples), **options)


def test_what_is_no_map_style_data_set_is_said():
    """The samples of a stream cannot be indexed."""
    with pytest.raises(ShiftBenchError, match="generator: is a generator, whose samples cannot be indexed"):
        sb.Collection.from_torch(x for x in ())


def pets(kind, tmp_path):
    """A saved benchmark of 24 rows with images (in an array or in files), texts, or features."""
    n, drawn = 24, pictures(24)
    base = [{"label": k % 2, "place": ["home", "street", "zoo"][k % 3]} for k in range(n)]
    inputs = [x if kind in ("array", "files") else f"text {k}" if kind == "text" else torch.tensor([float(k), 1.0])
              for k, x in enumerate(drawn)]
    sets = {split: Listed([{"x": inputs[k], **base[k]} for k in rows], classes=["cat", "dog"])
            for split, rows in (("train", range(12)), ("test", range(12, 20)), ("unlabelled", range(20, 24)))}
    collection = sb.Collection.from_torch(sets, domain="place", images=tmp_path / "png" if kind == "files" else True)
    collection.save(tmp_path / "c")
    return drawn, sb.build(sb.Given(), collection=sb.Collection.load(tmp_path / "c"), out=tmp_path / "b")


@pytest.mark.parametrize("kind", ["array", "files", "text", "features"])
def test_rows_are_a_data_set_of_torch(kind, tmp_path):
    """Inputs, codes of labels and metadata are those of the benchmark, also after the journey to another process."""
    drawn, made = pets(kind, tmp_path)
    for bench in (made, sb.Benchmark.load(tmp_path / "b")):
        rows = bench.torch("train")
        assert isinstance(rows, Dataset)
        sent = pickle.dumps(rows)
        assert len(sent) < 40_000
        for dataset in (rows, pickle.loads(sent)):  # noqa: S301
            x, y, metadata = dataset[3]
            row = int(bench.rows("train")[3])
            number = int(metadata["id"].removeprefix("train/"))
            assert (y, metadata["domain"], metadata["group"]) == (
                bench.label[row], bench.domain[row], bench.group[row])
            if kind == "text":
                assert x == f"text {number}"
            elif kind == "features":
                assert x.tolist() == [number, 1.0]
            else:
                assert torch.equal((x * 255).round().byte(), torch.from_numpy(np.array(drawn[number])).permute(2, 0, 1))
                assert bench.torch("train", transform=lambda picture: picture.size)[3][0] == (8, 8)
    assert {y for _, y, _ in bench.torch("unlabelled")} == {-100}
    batch = next(iter(DataLoader(bench.torch("test"), batch_size=4)))
    assert batch[1].tolist() == bench.label[bench.rows("test")][:4].tolist()
    assert batch[2]["id"] == bench.items[bench.rows("test")][:4].tolist()
    with pytest.raises(ShiftBenchError, match=r"has no rows of split 'val'. It has train, test, unlabelled"):
        bench.torch("val")


@pytest.mark.slow
@pytest.mark.parametrize(("way", "workers"), [("fork", 2), ("spawn", 1)])
def test_workers_of_a_loader_give_the_same_rows(way, workers, tmp_path):
    """Workers, forked or started anew, give the batches that this process gives."""
    _, bench = pets("array", tmp_path)
    alone, many = (list(DataLoader(bench.torch("train"), 4, num_workers=n, multiprocessing_context=way if n else None))
                   for n in (0, workers))
    for (x, y, metadata), (x2, y2, metadata2) in zip(alone, many, strict=True):
        assert torch.equal(x, x2)
        assert torch.equal(y, y2)
        assert metadata["id"] == metadata2["id"]


def test_a_benchmark_in_memory_asks_for_its_collection(tmp_path):
    """One that was never saved takes `collection`, an object or a folder."""
    collection = sb.Collection.from_torch({"train": Listed([("a", 0), ("b", 1)]), "test": Listed([("c", 0), ("d", 1)])})
    collection.factors["domain"] = np.asarray(["u", "v"] * 2)
    bench = sb.Given().build(collection)
    with pytest.raises(ShiftBenchError, match="Give `collection`"):
        bench.torch("train")
    assert bench.torch("train", collection=collection)[1][0] == "b"
    with pytest.raises(ShiftBenchError, match="Give the collection that it was built from"):
        bench.torch("train", collection=collection.take(np.arange(3)))
    collection.save(tmp_path / "c")
    assert bench.torch("test", collection=tmp_path / "c")[0][0] == "c"
