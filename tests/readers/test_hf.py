"""Data sets of Hugging Face become collections: splits, class names, images as files with the same bytes, tags."""

import io
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.images.decode import images

datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()


def picture(shade, form="JPEG"):
    stream = io.BytesIO()
    Image.new("RGB", (8, 6), (shade, 0, 90)).save(stream, form)
    return stream.getvalue()


FEATURES = datasets.Features({
    "image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"]), "place": datasets.Value("string"),
    "age": datasets.Value("int32"), "weight": datasets.Value("float32"),
    "things": datasets.Sequence(datasets.Value("string")),
    "codes": datasets.Sequence(datasets.ClassLabel(names=["sofa", "bed"])),
})


def rows(n=6, first=0, **changes):
    columns = {
        "image": [{"bytes": picture(10 * (first + k), "PNG" if k % 2 else "JPEG"), "path": None} for k in range(n)],
        "label": [k % 2 for k in range(n)], "place": [f"p{k // 2}" for k in range(n)], "age": list(range(n)),
        "weight": [k / 2 for k in range(n)], "things": [["sofa", "cup"][:k % 3] for k in range(n)],
        "codes": [[0, 1][:k % 3] for k in range(n)], **changes}
    return datasets.Dataset.from_dict(columns, features=FEATURES)


@pytest.fixture
def sets():
    return datasets.DatasetDict(train=rows(6), validation=rows(4, 10), test=rows(2, 20))


def written(sets, kind, folder):
    if kind == "saved":
        sets.save_to_disk(folder)
    elif kind == "shards":
        (folder / "data").mkdir(parents=True)
        for split, part in sets.items():
            for shard in range(2):
                half = part.shard(2, shard, contiguous=True)
                half.to_parquet(folder / "data" / f"{split}-{shard:05}-of-00002.parquet")
    elif kind == "converted":
        for split, part in sets.items():
            (folder / split).mkdir(parents=True)
            part.to_parquet(folder / split / "0000.parquet")
    return sets if kind == "object" else folder


@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize("kind", ["object", "saved", "shards", "converted"])
def test_what_datasets_holds_is_in_the_collection(kind, sets, tmp_path):
    """Ids, class names, types, splits, tags and the bytes of images are the same from objects, folders and shards."""
    source = written(sets, kind, tmp_path / "in")
    made = sb.read("hf", source, domain="place", tags_in="things", out=tmp_path / "out", name="pets")
    again = sb.Collection.load(tmp_path / "out")
    assert made == again
    assert again.items.tolist() == [f"{split}/{k}" for split, n in (("train", 6), ("validation", 4), ("test", 2))
                                    for k in range(n)]
    assert np.unique(again.factors["split"]).tolist() == ["test", "train", "val"]
    assert again.factors["label"].tolist() == ["cat", "dog"] * 6
    assert again.factors["domain"].tolist()[:4] == ["p0", "p0", "p1", "p1"]
    assert {name: again.factors[name].dtype.kind for name in ("age", "weight")} == {"age": "i", "weight": "f"}
    assert again.tags.names == ("cup", "sofa")
    content = [row["image"]["bytes"] for part in sets.values() for row in part.cast_column(
        "image", datasets.Image(decode=False))]
    assert [again.path(row).read_bytes() for row in range(12)] == content
    assert again.path(0).suffix == ".jpg"
    assert again.path(1).suffix == ".png"


@pytest.mark.filterwarnings("ignore:.*left out")
def test_a_collection_takes_its_images_along(sets, tmp_path):
    """A saved collection holds its images, may be moved, is written once, and trains from its folder."""
    sb.read("hf", sets["train"], out=tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    moved = sb.Collection.load(tmp_path / "b")
    assert not moved.foreign
    assert images(moved, np.arange(6)).shape == (6, 6, 8, 3)
    before = (tmp_path / "b" / "collection.json").stat().st_mtime_ns
    sb.read("hf", sets["train"], out=tmp_path / "b")
    assert (tmp_path / "b" / "collection.json").stat().st_mtime_ns == before
    moved.save(tmp_path / "b")
    assert images(sb.Collection.load(tmp_path / "b"), np.arange(6)).shape == (6, 6, 8, 3)
    named = sb.Collection.from_hf(sets["train"], images=tmp_path / "pictures")
    assert named.root == tmp_path / "pictures"
    assert named.items.tolist() == list("012345")


def test_columns_that_are_no_values_are_named():
    """Lists that nobody asked for are left out with one warning; lists of class labels become tags by their names."""
    with pytest.warns(UserWarning, match=r"left out: 'things' \(List\)") as noted:
        made = sb.Collection.from_hf(rows(), tags_in="codes", id="age")
    assert len(noted) == 1
    assert made.tags.names == ("bed", "sofa")
    assert made.items.tolist() == list("012345")


WRONG = {
    "no label": ({"label": "lable"}, {}, r"DatasetDict: No column named 'lable'. Did you mean 'label'"),
    "-1": ({}, {"label": [0, -1]}, r"DatasetDict: 1 rows have no label \(-1 or nothing\) in column 'label', the first "
           "is row 7, of split 'test'. If the whole split 'test' has none, say so: --rename test=unlabelled"),
    "no image": ({}, {"image": [None, {"bytes": b"no", "path": None}]}, "column 'image': row 0 has no image. Drop"),
    "not an image": ({}, {"image": [{"bytes": b"no", "path": None}] * 2}, "column 'image', row 0: the image cannot be "
                     "read .its bytes are no image"),
    "double id": ({"id": "age"}, {}, "DatasetDict: id '0' in column 'age' is in rows 0 and 6; 2 ids"),
    "unknown split": ({"rename": {"dev": "val"}}, {}, "No split named 'dev'"),
}


@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_is_one_line(what):
    """The message names the object, the split, the row and the column, and what to do."""
    options, changes, message = WRONG[what]
    sets = datasets.DatasetDict(train=rows(6), test=rows(2, 20, **changes))
    with pytest.raises(ShiftBenchError, match=message):
        sb.Collection.from_hf(sets, **options)


@pytest.mark.filterwarnings("ignore:.*left out")
def test_a_split_without_labels_is_named(tmp_path):
    """Rows with -1 are read as unlabelled rows, which add no class; numbers as labels keep their names."""
    sets = datasets.DatasetDict(train=rows(6), test=rows(6, 10), extra=rows(2, 20, label=[-1, -1]))
    made = sb.Collection.from_hf(sets, domain="place", rename={"extra": "unlabelled"})
    assert made.factors["label"].tolist()[-2:] == ["", ""]
    bench = sb.Given().build(made)
    assert bench.names["label"] == ("cat", "dog")
    frame = {"id": ["a", "b", "c"], "y": pa.chunked_array([[1, 2, None]]), "s": ["train", "test", "unlabelled"]}
    assert sb.Collection.from_frame(frame, id="id", label="y", split="s").factors["label"].tolist() == ["1", "2", ""]
    with pytest.raises(ShiftBenchError, match="dict: row 2 has nothing in column 'y'"):
        sb.Collection.from_frame({**frame, "s": ["train", "test", "val"]}, id="id", label="y", split="s")


def test_folders_that_cannot_be_read_are_one_line(tmp_path, monkeypatch):
    """No folder, an empty one, a damaged shard, two data sets in one folder, a network that is not there."""
    with pytest.raises(ShiftBenchError, match="nowhere/at/all: no such folder"):
        sb.read("hf", "nowhere/at/all")
    with pytest.raises(ShiftBenchError, match="holds no data set"):
        sb.read("hf", tmp_path)
    (tmp_path / "train-00000-of-00001.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(ShiftBenchError, match=r"train-00000-of-00001.parquet: not a readable file of a data set"):
        sb.read("hf", tmp_path)
    for config in ("a", "b"):
        (tmp_path / "two" / config).mkdir(parents=True)
        rows(2).to_parquet(tmp_path / "two" / config / "train.parquet")
    with pytest.raises(ShiftBenchError, match="Name the folder of one data set"):
        sb.read("hf", tmp_path / "two")

    def offline(name, config):
        raise ConnectionError("Couldn't reach the hub")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(ShiftBenchError, match=r"some/name: is no folder here, and the hub does not give it .Couldn't"):
        sb.read("hf", "some/name")
    monkeypatch.setattr(datasets, "load_dataset", lambda name, config: rows())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert sb.read("hf", "some/name").name == "name"
    with pytest.raises(ShiftBenchError, match="int is no data set of Hugging Face"):
        sb.read("hf", 7)


@pytest.mark.parametrize("facts", ["3", "[]", '{"info": 3}', '{"info": []}', '{"info": {"features": 3}}'])
def test_features_that_are_none_say_nothing(tmp_path, facts):
    """What a file says of its columns may be anything; without features, classes are the numbers that they are."""
    table = pa.table({"label": [0, 1]}).replace_schema_metadata({"huggingface": facts})
    pq.write_table(table, tmp_path / "train.parquet")
    assert sb.read("hf", tmp_path).factors["label"].tolist() == [0, 1]


def test_doubled_columns_of_a_data_set_are_one_line(tmp_path):
    """The message names the file once, and says what to do."""
    pq.write_table(pa.table([[0], [1]], names=["label", "label"]), tmp_path / "train.parquet")
    with pytest.raises(ShiftBenchError, match=r"^[^(]*train.parquet: has more than one column 'label'"):
        sb.read("hf", tmp_path)


def test_a_path_in_a_strangers_file_is_not_followed(tmp_path):
    """An image that is only a path in a folder is refused, wherever the path leads; in an object it is opened."""
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    listed = datasets.Dataset.from_dict({"image": [str(tmp_path / "a.png")], "label": [0]}, features=features)
    assert sb.Collection.from_hf(listed).path(0).read_bytes() == (tmp_path / "a.png").read_bytes()
    table = listed.with_format("arrow")[:]
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "train.parquet")
    with pytest.raises(ShiftBenchError, match=r"row 0 has no image, only the path .*a.png. Save the data set with"):
        sb.read("hf", tmp_path / "in", image="image")
