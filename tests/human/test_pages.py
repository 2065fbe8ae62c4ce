"""What the page of a study gives away, and what it shows."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.human import Design, Key, write_study
from shiftbench.human.pages import cropped
from tests.human.test_human import KINDS, creatures

# What the page gives away

def segments(data):
    """The marker of every segment of a JPEG before its image data."""
    found, place = [], 2
    while data[place + 1] != 0xDA:
        found.append(data[place + 1])
        place += 2 + int.from_bytes(data[place + 2:place + 4], "big")
    return found


def test_the_page_holds_no_name(tmp_path):
    """Neither superclass, subclass, item, benchmark nor condition can be read from what is handed out, though file
    names and EXIF of the source are full of them; the key, which has them, lies outside."""
    collection, made = creatures(tmp_path / "images", per=8)
    made.save(tmp_path / "bestiary")
    made = Benchmark.load(tmp_path / "bestiary")
    key = write_study(made, collection, tmp_path / "s", Design(examples=3, questions=4, size=32, rescale=40))
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["key.json", "page"]
    handed = [path for path in (tmp_path / "s" / "page").rglob("*") if path.is_file()]
    secret = [*KINDS, "Novus", "Vetus", "bestiary", made.digest[:12], "id_test"]
    text = (tmp_path / "s" / "page" / "index.html").read_text()
    data = json.loads(text.partition('id="study">')[2].partition("</script>")[0])
    for path in handed:
        content = path.read_bytes().lower() + str(path.relative_to(tmp_path / "s")).lower().encode()
        assert not [word for word in secret if word.lower().encode() in content], path
    assert set(data) == {"study", "size", "first", "tasks"}
    assert all(set(task) == {"id", "examples", "questions"} for task in data["tasks"])
    for path in handed:
        if path.suffix == ".jpg":
            with Image.open(path) as picture:
                assert picture.size == (32, 32)
                assert set(picture.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
                assert not picture.getexif()
            assert set(segments(path.read_bytes())) <= {0xE0, 0xDB, 0xC0, 0xC4}
    used = {name for task in data["tasks"] for part in (*task["examples"], task["questions"]) for name in part}
    assert used == {path.stem for path in handed if path.suffix == ".jpg"}
    assert not [word for word in ("http:", "https:", "//cdn", "fetch(", "XMLHttp", "sendBeacon", "WebSocket", "cookie")
                if word in text]
    assert Key.load(tmp_path / "s").id == key.id


@pytest.mark.slow
def test_numbers_of_images_and_groups_say_nothing(tmp_path):
    """Which of a task's groups comes first, and how images are numbered, is drawn: neither follows the labels."""
    collection, made = creatures(per=12)
    firsts, ranks = [], []
    for seed in range(12):
        key = write_study(made, collection, tmp_path / str(seed), Design(examples=2, questions=4, size=16, rescale=16,
                                                                          seed=seed))
        firsts += [task["labels"] == sorted(task["labels"]) for task in key.tasks]
        for task in key.tasks:
            numbers = {side: [int(image) for image, one in task["questions"].items() if one["group"] == side]
                       for side in (0, 1)}
            ranks.append(np.mean(numbers[0]) > np.mean(numbers[1]))
    assert 0.3 < np.mean(firsts) < 0.7
    assert 0.3 < np.mean(ranks) < 0.7


def test_a_study_is_never_replaced_by_another(tmp_path):
    """The same study is found again; another one in its place is refused, since answers need their key."""
    collection, made = creatures()
    design = Design(examples=3, questions=4, size=16, rescale=16)
    key = write_study(made, collection, tmp_path / "s", design)
    (tmp_path / "s" / "answers").mkdir()
    assert write_study(made, collection, tmp_path / "s", design).id == key.id
    with pytest.raises(ShiftBenchError, match="Choose another folder"):
        write_study(made, collection, tmp_path / "s", Design(examples=3, questions=4, size=16, rescale=16, seed=1))
    assert (tmp_path / "s" / "answers").is_dir()
    assert Key.load(tmp_path / "s").facts() == key.facts()


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 40), st.integers(0, 20))
def test_the_centre_is_cut_out(wide, high, size, margin):
    """Any picture becomes size × size; one of a single colour keeps it."""
    picture = cropped(np.full((high, wide, 3), 77, np.uint8), size + margin, size)
    assert picture.size == (size, size)
    assert np.ptp(np.asarray(picture)) == 0


def test_the_crop_is_centred():
    """What lies outside the centre is not shown, and what is shown keeps its shape."""
    pixels = np.zeros((100, 200, 3), np.uint8)
    pixels[:, 50:150] = 255
    assert np.asarray(cropped(pixels, 64, 64)).min() > 230  # the filter sees a little of the edge
    assert np.asarray(cropped(pixels[:, :150], 64, 64))[:, :8].max() < 40
