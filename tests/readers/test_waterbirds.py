"""Waterbirds as published: what is read, what is refused, and its four environments as a benchmark."""

import numpy as np
import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.readers import READERS

waterbirds = READERS["waterbirds"]
HEAD = "img_id,img_filename,y,split,place,place_filename\n"


def published(folder, rows=400, images=False, seed=0):
    """A folder with the layout of the published one: nine in ten birds at home in training, half of them after it."""
    rng = np.random.default_rng(seed)
    y, split = rng.integers(0, 2, rows), rng.choice(3, rows, p=[0.6, 0.2, 0.2])
    away = rng.random(rows) < np.where(split == 0, 0.1, 0.5)
    lines = []
    for row in range(rows):
        file = f"{row % 5 + 1:03d}.Bird_{row % 5}/Bird_{row:04d}.jpg"
        place = int(y[row] ^ away[row])
        lines.append(f"{row + 1},{file},{y[row]},{split[row]},{place},/{'ocean' if place else 'forest'}/{row:05d}.jpg")
        if images:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(b"jpg")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata.csv").write_text(HEAD + "\n".join(lines) + "\n")
    return folder, y, split, np.where(away, 1 - y, y)


def test_everything_published_is_read(tmp_path):
    """Labels and places in words and numbers, the makers' split, species; images where they are; a file alone."""
    folder, y, split, place = published(tmp_path / "w", images=True)
    read = waterbirds(folder)
    assert read.items.tolist() == [str(k + 1) for k in range(400)]
    assert (read.factors["bird"] == np.where(y, "waterbird", "landbird")).all()
    assert (read.factors["background"] == np.where(place, "water", "land")).all()
    assert (read.factors["y"] == y).all()
    assert (read.factors["place"] == place).all()
    assert (read.factors["split"] == np.asarray(["train", "val", "test"])[split]).all()
    assert read.factors["species"][1] == "002.Bird_1"
    assert read.path(3).read_bytes() == b"jpg"
    assert Collection.load(read.save(tmp_path / "c")) == read
    bare = published(tmp_path / "bare")[0]
    assert waterbirds(bare).pixels is None
    assert waterbirds(bare / "metadata.csv", images=folder).path(3).read_bytes() == b"jpg"


@pytest.mark.parametrize(("text", "says"), [
    (HEAD, "has no rows"), ("img_id,y\n1,0\n", "No column named 'img_filename'"),
    (HEAD + "1,a.jpg,2,0,0,p\n", r"row 0 has 2 in column 'y'. Allowed: 0 \(landbird\), 1 \(waterbird\)"),
    (HEAD + "1,a.jpg,0,3,0,p\n", "in column 'split'"), (HEAD + "1,a.jpg,0,0,x,p\n", "not all whole numbers"),
    (HEAD + "1,a.jpg,,0,0,p\n", "nothing in column 'y'"), (HEAD + "1,../a.jpg,0,0,0,p\n", "leads out of its folder"),
    (HEAD + "1,a.jpg,0,0,0,p\n1,b.jpg,0,0,0,p\n", "listed more than once"),
])
def test_bad_tables_name_the_file_and_the_place(tmp_path, text, says):
    """A missing column, a strange number, a hole, a hostile path, a double id: one clear message."""
    (tmp_path / "metadata.csv").write_text(text)
    with pytest.raises(ShiftBenchError, match=says):
        waterbirds(tmp_path)
    with pytest.raises(ShiftBenchError, match="no such file"):
        waterbirds(tmp_path / "nowhere")


def test_four_environments_from_the_command_line(tmp_path, monkeypatch, shell):
    """`read waterbirds`, then `place != y` as criterion: birds out of their place are hard, groups are bird × place."""
    monkeypatch.chdir(tmp_path)
    _, y, split, place = published(tmp_path / "w")
    assert shell("read", "waterbirds", "w", "--out", "birds", "--quiet")[0] == 0
    (tmp_path / "r.toml").write_text('collection = "birds"\nshift.context = {label = "bird", criterion = "place != y", '
                                     'split = "split", domain = "background", test_on = "all"}\n')
    code, _, err = shell("build", "r.toml", "--out", "b")
    assert code == 0, err
    made = Benchmark.load("b")
    assert made.names["group"] == ("landbird, land", "landbird, water", "waterbird, land", "waterbird, water")
    assert made.card["positive"] == "waterbird"
    assert len(made) == 400
    kinds = dict(zip(made.items.tolist(), made.extra["kind"].tolist(), strict=True))
    for row in range(400):
        hard = "hard_positive" if y[row] else "hard_negative"
        assert kinds[str(row + 1)] == ("easy" if y[row] == place[row] else hard)
    assert len(made.rows("test")) == (split == 2).sum()
    assert len(made.rows("id_val")) == (split == 1).sum()
