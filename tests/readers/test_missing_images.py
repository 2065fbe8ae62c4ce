"""Image files that are not there: counted by read, all listed by check, dropped when asked, whatever the format."""

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.data.image_files import missing_files

NAMES = [f"{number}.jpg" for number in range(1, 7)]


def pictures(folder: Path, names=NAMES) -> Path:
    """One image of its own per name."""
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (40 * number, 9, 9)).save(folder / name)
    return folder


def coco(folder: Path) -> tuple:
    (folder / "i.json").write_text(json.dumps({
        "images": [{"id": int(Path(name).stem), "width": 8, "height": 8, "file_name": name} for name in NAMES],
        "annotations": [], "categories": [{"id": 1, "name": "dog"}]}))
    return folder / "i.json", {"images": folder}


def gqa(folder: Path) -> tuple:
    (folder / "s.json").write_text(json.dumps({
        Path(name).stem: {"width": 8, "height": 8, "objects": {}} for name in NAMES}))
    return folder / "s.json", {"images": folder}


def metashift(folder: Path) -> tuple:
    (folder / "m.pkl").write_bytes(pickle.dumps({"dog(sofa)": {Path(name).stem for name in NAMES}}))
    return folder / "m.pkl", {"images": folder}


def table(folder: Path) -> tuple:
    (folder / "t.csv").write_text("id,y,file\n" + "".join(f"{name},{name[0]},{name}\n" for name in NAMES))
    return folder / "t.csv", {"id": "id", "label": "y", "image": "file"}


def waterbirds(folder: Path) -> tuple:
    (folder / "metadata.csv").write_text("img_id,img_filename,y,split,place,place_filename\n" + "".join(
        f"{name[0]},{name},0,0,1,p\n" for name in NAMES))
    return folder, {}


def imagenet(folder: Path) -> tuple:
    (folder / "train" / "dog").mkdir(parents=True)
    for name in NAMES:
        (folder / "train" / "dog" / name).symlink_to(folder / name)
    return folder, {}


FORMATS = {write.__name__: write for write in (coco, gqa, metashift, table, waterbirds)}


@pytest.mark.parametrize("form", FORMATS)
def test_missing_files_are_counted_and_dropped_on_request(tmp_path, shell, form):
    """`read` says how many are not there and names the first; --drop-missing leaves their items out, with a note."""
    source, options = FORMATS[form](pictures(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(sb.read(form, source, **options)) == 6
    for name in NAMES[:4]:
        (tmp_path / name).unlink()
    with pytest.warns(UserWarning, match=r"4 of 6 image files are not below .*: 1.jpg, 2.jpg, 3.jpg, …"):
        assert len(sb.read(form, source, **options)) == 6
    words = [part for key, value in options.items() for part in (f"--{key}", value)]
    code, out, err = shell("read", form, source, *words, "--drop-missing", "--json", "--out", tmp_path / "c")
    assert (code, json.loads(out)["items"]) == (0, 2)
    assert "note: 4 of 6 image files" in err
    assert "dropped" in json.loads(out)["notes"][0]
    kept = Collection.load(tmp_path / "c")
    assert kept.pixels.tolist() == NAMES[4:]
    assert not len(missing_files(kept.pixels, kept.root))


def test_links_that_lead_nowhere_are_missing_files(tmp_path):
    """A folder of links, as of ImageNet on another disk: the dangling ones are found."""
    source, _ = imagenet(pictures(tmp_path))
    (tmp_path / NAMES[0]).unlink()
    with pytest.warns(UserWarning, match="1 of 6 image files"):
        assert len(sb.read("imagenet", source, drop_missing=True)) == 5


@pytest.mark.parametrize("form", ["coco", "gqa", "metashift", "table"])
def test_a_folder_without_a_single_image_is_the_wrong_one(tmp_path, form):
    """Where no file is there, reading stops and says which option names their folder."""
    source, options = FORMATS[form](tmp_path)
    with pytest.raises(ShiftBenchError, match=r"6 of 6 image files are not below .*--images"):
        sb.read(form, source, drop_missing=True, **options)


def test_check_lists_all_missing_files_of_a_collection_and_of_a_benchmark(tmp_path, shell):
    """Every name is in the output, exit 1; present files are still compared by content."""
    names = [f"p/{number:03}.png" for number in range(80)]
    pictures(tmp_path, names)
    (tmp_path / names[79]).write_bytes((tmp_path / names[0]).read_bytes())
    split = np.where(np.arange(80) < 40, "train", "test")
    Collection("c", np.asarray(names), {"label": np.where(np.arange(80) % 2, "a", "b"), "split": split},
               pixels=np.asarray(names), root=tmp_path).save(tmp_path / "c")
    (tmp_path / "r.toml").write_text('collection = "c"\n[shift.given]\n')
    sb.build(tmp_path / "r.toml", tmp_path / "b")
    for name in names[5:30]:
        (tmp_path / name).unlink()
    for folder in ("c", "b"):
        code, out, _ = shell("check", tmp_path / folder, "--json")
        (finding,) = [one for one in json.loads(out)["findings"] if one["what"] == "missing image file"]
        assert code == 1
        assert all(name in finding["detail"] for name in names[5:30])
        assert names[30] not in finding["detail"]
    assert {"same content in two splits", "missing image file"} <= {one["what"] for one in json.loads(out)["findings"]}
    assert json.loads(out)["fit_for"] == []
    code, out, _ = shell("check", tmp_path / "c")
    assert (code, names[29] in out.replace("\n", "")) == (1, True)


def test_taking_items_keeps_what_is_theirs_and_nothing_else():
    """Tags, areas, boxes, texts and factors follow their items into any order."""
    tags = Tags.of([0, 1, 1, 2, 2], [0, 0, 1, 1, 1], ("dog", "cat"), area=[0.1, 0.2, 0.3, 0.4, 0.5],
                   boxes=[[k, 0, 1, 1] for k in range(5)])
    whole = Collection("w", np.asarray(["a", "b", "c"]), {"n": np.arange(3)}, tags,
                       Texts(np.asarray([0, 1, 1, 2]), np.asarray(["t0", "t1", "t2", "t3"], np.object_)))
    part = whole.take(np.asarray([2, 1]))
    assert part.items.tolist() == ["c", "b"]
    assert part.factors["n"].tolist() == [2, 1]
    assert part.factor("area:cat").tolist() == pytest.approx([0.9, 0.3])
    assert part.factor("has:dog").tolist() == ["no", "yes"]
    assert part.tags.boxes[:, 0].tolist() == [3, 4, 1, 2]
    assert part.tags.item[part.tags.box_row].tolist() == [0, 0, 1, 1]
    assert (part.texts.item.tolist(), part.texts.text.tolist()) == ([0, 1, 1], ["t3", "t1", "t2"])
    assert whole.take(np.arange(3)) == whole
