"""How many source files one verb passes: a newcomer who follows it reads them all, so no walk may get longer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import shiftbench as sb

COUNT = """
import json, sys
from pathlib import Path
import shiftbench
from shiftbench.cli import main

root, words, passed = str(Path(shiftbench.__file__).parent), sys.argv[1:], {}

def note(frame, event, argument):
    file = frame.f_code.co_filename
    if event != "call" or not file.startswith(root) or frame.f_code.co_name == "<module>" or file in passed:
        return
    caller = frame.f_back
    while caller is not None:  # what runs while a module is imported is no part of the walk
        if caller.f_code.co_name == "<module>" and caller.f_code.co_filename.startswith(root):
            return
        caller = caller.f_back
    passed[file] = None

sys.argv = ["shiftbench", *words]
sys.setprofile(note)
try:
    main()
except SystemExit as end:
    code = end.code
sys.setprofile(None)
print(json.dumps({"code": code, "files": [str(Path(file).relative_to(root)) for file in passed]}))
"""
RECIPE = """
collection = "scenes"
[shift.subset]
train = ["cat(sofa + bed)", "dog(bag + box)"]
test = ["cat(shelf)", "dog(shelf)"]
moves = "dog"
"""
LONGEST = {"read": 9, "build": 14, "score": 17, "train": 29, "report": 19}
"""Files on the walk of each verb, at most."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A COCO file, a world, a recipe, and what the verbs before each verb leave."""
    folder = tmp_path_factory.mktemp("walks")
    (folder / "coco.json").write_text(json.dumps({
        "images": [{"id": number, "file_name": f"{number}.jpg", "height": 48, "width": 64} for number in range(9)],
        "categories": [{"id": 1, "name": "dog", "supercategory": "animal"}],
        "annotations": [{"id": number, "image_id": number, "category_id": 1, "area": 9.0, "bbox": [1, 2, 3, 3],
                         "iscrowd": 0} for number in range(9)]}))
    sb.read("world", "scenes", items=3000, size=64, out=folder / "scenes")
    (folder / "recipe.toml").write_text(RECIPE)
    sb.build(folder / "recipe.toml", folder / "benchmark")
    run = sb.train(folder / "benchmark", "group_dro", folder / "runs", model="mlp",
                   features="efficientnet-lite0@64", steps=5)
    sb.score(folder / "benchmark", run / "predictions.parquet").save(folder / "scores.parquet")
    (folder / "predictions.parquet").write_bytes((run / "predictions.parquet").read_bytes())
    return folder


WALKS = {
    "read": ["read", "coco", "coco.json", "--out", "coco", "--quiet"],
    "build": ["build", "recipe.toml", "--out", "again"],
    "score": ["score", "benchmark", "predictions.parquet", "--out", "again.parquet"],
    "train": ["train", "benchmark", "--method", "group_dro", "--model", "mlp", "--features", "efficientnet-lite0@64",
              "--set", "steps=6", "--out", "runs"],
    "report": ["report", "scores.parquet", "--out", "report.html"],
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", WALKS)
def test_a_walk_is_no_longer_than_it_was(verb: str, project: Path) -> None:
    done = subprocess.run([sys.executable, "-c", COUNT, *WALKS[verb]], cwd=project, capture_output=True, text=True)
    walk = json.loads(done.stdout.splitlines()[-1])
    assert not walk["code"], done.stderr
    assert len(walk["files"]) <= LONGEST[verb], walk["files"]
