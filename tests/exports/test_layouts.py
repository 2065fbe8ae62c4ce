"""Exports are opened by the tools that they are for, and read back as what they were."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import table
from shiftbench.data.collection import Tags, Texts
from shiftbench.images.decode import images

datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()


def pets(folder=None, texts=False, n=48):
    """Items with a label, a domain, a split, numbers, tags and images: pixels, or files below a folder."""
    rng = np.random.default_rng(0)
    split = np.asarray(["train"] * 24 + ["val"] * 8 + ["test"] * 12 + ["unlabelled"] * 4)[:n]
    label = np.where(split == "unlabelled", "", np.asarray(["cat", "dog"])[np.arange(n) % 2])
    pixels = rng.integers(0, 255, (n, 8, 8, 3), np.uint8)
    names = [f"{k}.png" for k in range(n)]
    if folder is not None:
        folder.mkdir()
        for name, picture in zip(names, pixels, strict=True):
            Image.fromarray(picture).save(folder / name)
    return sb.Collection(
        "pets", np.asarray([f"pet {k}" for k in range(n)]),
        {"label": label, "domain": np.asarray(["home", "street", "zoo/park"])[np.arange(n) % 3], "split": split,
         "age": np.arange(n), "weight": rng.random(n)},
        tags=Tags.of(np.repeat(np.arange(n), 2), np.tile([0, 1], n), ["sofa", "cup"], "object"),
        texts=Texts(np.arange(n), np.asarray([f"text {k}" for k in range(n)], np.object_)) if texts else Texts.none(),
        pixels=None if texts else pixels if folder is None else np.asarray(names), root=folder)


@pytest.mark.parametrize("kind", ["array", "files", "text"])
def test_a_benchmark_for_datasets_is_read_back(kind, tmp_path):
    """`load_dataset` gives features, splits and bytes; `read hf` gives the items, labels, factors, tags and images."""
    collection = pets(tmp_path / "in" if kind == "files" else None, texts=kind == "text")
    bench = sb.Given().build(collection)
    sb.export(bench, tmp_path / "out", to="hf", collection=collection)
    loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert set(loaded) == {"train", "val", "test", "unlabelled"}
    first = loaded["test"][0]
    row = int(bench.rows("test")[0])
    assert loaded["test"].features["label"].names == list(bench.names["label"])
    assert loaded["test"].features["group"].int2str(first["group"]) == table(bench)["group"][row]
    assert set(loaded["unlabelled"]["label"]) == {-1}
    if kind != "text":
        number = int(first["item"].removeprefix("pet "))
        assert np.array_equal(np.asarray(first["image"]), images(collection, np.asarray([number]))[0])
    options = {"id": "item", "domain": "domain", "tags_in": "tags", **({"text": "text"} if kind == "text" else {})}
    again = sb.read("hf", tmp_path / "out", **options)
    same = collection.index(again.items)
    assert sorted(same.tolist()) == list(range(48))
    for name, values in collection.factors.items():
        assert np.array_equal(again.factors[name], values[same]), name
    assert sb.Given().build(again).counts() == bench.counts()
    assert [again.with_tag(name).size for name in ("sofa", "cup")] == [48, 48]
    if kind == "text":
        assert again.texts.text.tolist() == collection.texts.text[same].tolist()
    else:
        assert np.array_equal(images(again, np.arange(48)), images(collection, same))


def test_several_texts_of_an_item_are_read_back(tmp_path):
    """A column of lists, of which `--text` makes texts; an item may have none."""
    collection = pets(texts=True)
    texts = Texts(np.repeat(np.arange(40), 2), np.asarray([f"text {k}" for k in range(80)], np.object_))
    collection = replace(collection, texts=texts)
    sb.export(sb.Given().build(collection), tmp_path / "out", to="hf", collection=collection)
    again = sb.read("hf", tmp_path / "out", id="item", domain="domain", tags_in="tags", text="texts")
    owned = {item: [] for item in collection.items.tolist()}
    for row, text in zip(again.texts.item, again.texts.text, strict=True):
        owned[again.items[row]].append(text)
    assert list(owned.values()) == [[f"text {2 * k}", f"text {2 * k + 1}"] if k < 40 else [] for k in range(48)]


def rows_of(path):
    with (path / "rows.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("copy", [False, True])
def test_a_benchmark_for_torch_is_an_image_folder(copy, tmp_path):
    """ImageFolder numbers the classes as the benchmark does and has its pictures; rows.csv has codes and files."""
    from torchvision.datasets import ImageFolder

    collection = pets(tmp_path / "in")
    bench = sb.Given().build(collection)
    sb.export(bench, tmp_path / "out", to="torch", copy=copy, collection=collection)
    rows = {row["file"]: row for row in rows_of(tmp_path / "out")}
    for split in bench.splits:
        folder = ImageFolder(tmp_path / "out" / split, allow_empty=True)
        assert folder.classes == list(bench.names["label"])
        assert len(folder) == len(bench.rows(split))
        for path, code in folder.samples:
            row = rows[str(path).removeprefix(f"{tmp_path / 'out'}/")]
            assert (row["split"], int(row["label_code"])) == (split, code)
            assert bench.names["domain"][int(row["domain_code"])] == row["domain"]
    assert (tmp_path / "out" / rows_of(tmp_path / "out")[0]["file"]).is_symlink() != copy


def test_a_benchmark_for_domainbed_has_a_folder_per_domain(tmp_path):
    """DOMAIN/CLASS/ITEM holds every labelled row once, under a name that stays inside its folder."""
    collection = pets()
    bench = sb.Given().build(collection)
    sb.export(bench, tmp_path / "out", to="domainbed", collection=collection)
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == [
        "home", "street", "zoo%2Fpark"]
    assert len(list((tmp_path / "out").glob("*/*/*.png"))) == 44
    for row in rows_of(tmp_path / "out"):
        assert bool(row["file"]) == (row["split"] != "unlabelled")


def test_a_benchmark_for_wilds_is_read_as_iwildcam(tmp_path):
    """`read wilds iwildcam` gives the labels, domains and splits of the rows; splits that WILDS lacks are told."""
    collection = pets()
    bench = sb.Given().build(collection)
    with pytest.warns(UserWarning, match="WILDS has no split unlabelled: those rows are only in rows.csv"):
        sb.export(bench, tmp_path / "out", to="wilds", collection=collection)
    with pytest.warns(UserWarning, match="are published"):
        again = sb.read("wilds", "iwildcam", root=tmp_path / "out")
    rows = collection.index(np.char.replace(np.char.replace(again.items, ".png", ""), "%20", " "))
    assert np.array_equal(again.factors["label"], collection.factors["label"][rows])
    assert np.array_equal(again.factors["split"], collection.factors["split"][rows])
    pairs = set(zip(again.factors["location"].tolist(), collection.factors["domain"][rows].tolist(), strict=True))
    assert len(pairs) == 3
    assert np.array_equal(images(again, np.arange(44)), collection.pixels[rows])


def test_exports_without_images_are_refused(tmp_path):
    """A layout of images needs them; an array of channels is no Image."""
    bench = sb.Given().build(pets(texts=True))
    for to in ("torch", "domainbed", "wilds", "folder"):
        with pytest.raises(ShiftBenchError, match="has no images at hand"):
            sb.export(bench, tmp_path / "out", to=to)
    with pytest.raises(ShiftBenchError, match="has no collection at hand, with its images, texts, tags and factors"):
        sb.export(bench, tmp_path / "out", to="hf")
    stream = io.BytesIO()
    np.savez(stream, x=np.zeros((8, 4, 4), np.float32))
    (tmp_path / "0.npz").write_bytes(stream.getvalue())
    one = sb.Collection("p", np.asarray(["a", "b"]), {"label": np.asarray(["x", "y"]), "split": np.asarray(
        ["train", "test"]), "domain": np.asarray(["u", "v"])}, pixels=np.asarray(["0.npz"] * 2), root=tmp_path)
    with pytest.raises(ShiftBenchError, match=r"0.npz: the image of item 'a' is an array of any number of channels"):
        sb.export(sb.Given().build(one), tmp_path / "out", to="hf", collection=one)
    assert not (tmp_path / "out").exists()
