"""A script for the package `wilds` runs on a benchmark of ours: the same items, loaders, groups and numbers."""

import copy
import importlib
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from shiftbench.compat import answering, main, run_script
from shiftbench.compat.wilds import (
    CombinatorialGrouper,
    GroupSampler,
    evaluate,
    get_dataset,
    get_eval_loader,
    get_train_loader,
    wilds_modules,
)
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark, collection_folder
from shiftbench.data.collection import Collection, Texts
from shiftbench.data.predictions import Predictions
from shiftbench.scoring import score
from shiftbench.worlds.scenes import scenes

SCRIPT = Path(__file__).parents[2] / "examples" / "wilds_script.py"
torch.set_num_threads(1)


def seeded(seed):
    """As scripts do: the loaders draw from numpy's global generator."""
    np.random.seed(seed)  # noqa: NPY002


def tensor(picture):
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved benchmark of 200 scenes: cats mostly indoors and others outdoors in train, balanced in test."""
    place = tmp_path_factory.mktemp("world")
    world = scenes(200, 0, 32)
    world.save(place / "collection")
    rng = np.random.default_rng(0)
    split = np.repeat(["train", "id_val", "val", "id_test", "test"], [100, 20, 20, 20, 40])
    label = np.where(world.factors["class"] == "dog", "dog", "other")
    made = Benchmark.of(world, None, 0, np.arange(200), split, label=label, domain=world.factors["location"],
                        extra={"weight": rng.random(200), "batch": rng.integers(0, 3, 200)})
    facts = {**made.card, "collection": {**made.card["collection"], "path": "../../collection"}}
    Benchmark(made.items, made.split, made.label, made.domain, made.group, made.names, facts, made.extra).save(
        place / "benchmarks" / "dogs")
    return place / "benchmarks" / "dogs"


@pytest.fixture(scope="module")
def data(folder):
    return get_dataset(dataset="dogs", root_dir=folder.parent)


def test_items_are_those_of_the_benchmark(folder, data):
    """Item i of a subset is the image, label and codes of the i-th row of its split, and splits share no row."""
    benchmark = Benchmark.load(folder)
    world = Collection.load(collection_folder(benchmark))
    seen = []
    for split in data.split_dict:
        subset = data.get_subset(split)
        rows = benchmark.rows(split)
        seen += rows.tolist()
        assert len(subset) == len(rows)
        assert np.array_equal(subset.y_array, benchmark.label[rows])
        assert (subset.split_array == data.split_dict[split]).all()
        x, y, metadata = subset[3]
        assert isinstance(x, Image.Image)
        assert np.array_equal(np.asarray(x), world.pixels[world.index(benchmark.items)[rows[3]]])
        named = {field: data.metadata_map[field][code]
                 for field, code in zip(data.metadata_fields, metadata.tolist(), strict=True)}
        assert y == benchmark.label[rows[3]]
        assert named["y"] == benchmark.names["label"][y]
        assert named["domain"] == benchmark.names["domain"][benchmark.domain[rows[3]]] == named["location"]
        assert named["group"] == benchmark.names["group"][benchmark.group[rows[3]]]
        assert named["batch"] == str(benchmark.extra["batch"][rows[3]])
        assert named["from_source_domain"] == str(split in ("train", "id_val", "id_test"))
    assert sorted(seen) == list(range(len(data)))


def test_the_data_set_has_what_scripts_ask_for(data):
    """Metadata is a matrix of whole numbers whose last columns are y and from_source_domain; fractions are left out."""
    assert data.metadata_array.dtype == data.y_array.dtype == torch.int64
    assert data.metadata_array.shape == (200, len(data.metadata_fields))
    assert data.metadata_fields[-2:] == ["y", "from_source_domain"]
    assert data.metadata_fields[:2] == ["domain", "group"]
    assert "weight" not in data.metadata_fields
    assert torch.equal(data.metadata_array[:, -2], data.y_array)
    assert data.n_classes == 2
    assert data.split_names.keys() == data.split_dict.keys()
    subset = data.get_subset("val")
    assert subset.metadata_fields == data.metadata_fields
    assert subset.collate is None


def test_eval_is_our_own_scoring(folder, data):
    """Average, groups, counts and worst group are what `score` gives, from classes or from logits with a function."""
    benchmark = Benchmark.load(folder)
    logits = np.random.default_rng(1).normal(size=(len(benchmark), 2)).astype(np.float32)
    logits[np.arange(200), benchmark.label] += 0.7
    ours = score(benchmark, Predictions(benchmark.items, benchmark.split, logits, benchmark.names["label"]),
                 replicates=0)
    for split in data.split_dict:
        subset = data.get_subset(split)
        mine = torch.from_numpy(logits[benchmark.rows(split)])
        found, told = data.eval(mine, subset.y_array, subset.metadata_array, prediction_fn=lambda x: x.argmax(1))
        assert subset.eval(mine.argmax(1), subset.y_array, subset.metadata_array)[1] == told
        here = {(row["metric"], row["group"]): row for row in ours if row["split"] == split}
        assert found["acc_avg"] == pytest.approx(here["accuracy", "all"]["value"])
        worst = [row for (metric, _), row in here.items() if metric == "worst_group_accuracy"]
        assert found["acc_wg"] == pytest.approx(worst[0]["value"])
        for group in benchmark.names["group"]:
            row = here.get(("accuracy", group))
            assert found[f"count_group:{group}"] == (row["n"] if row else 0)
            assert found[f"acc_group:{group}"] == pytest.approx(row["value"] if row else math.nan, nan_ok=True)
            assert (f"group = {group}  [n = " in told) == (row is not None)
        assert told.startswith(f"Average acc: {found['acc_avg']:.3f}\n")
        assert told.endswith(f"Worst-group acc: {found['acc_wg']:.3f}\n")


def test_eval_groups_by_what_was_asked_for(folder):
    """With `groupby_fields` the groups are their combinations, last column first in a key."""
    data = get_dataset(folder, groupby_fields=["domain", "y"])
    found, _ = data.eval(data.y_array, data.y_array, data.metadata_array)
    assert found["acc_avg"] == found["acc_wg"] == 1
    assert found["count_y:dog_domain:indoors"] == sum(
        (data.metadata_array[:, 0] == data.metadata_map["domain"].index("indoors")) & (data.y_array == 0)).item()
    quirky, _ = get_dataset(folder, compat="wilds-2.0").eval(data.y_array, data.y_array, data.metadata_array)
    assert quirky["acc_group:dog_indoors"] == 1  # the package drops spaces and commas


def test_standard_loaders_give_every_item_once(data):
    """The evaluation loader keeps the order of rows, the training loader does not and follows torch's seed."""
    subset = data.get_subset("train", transform=tensor)
    batches = list(get_eval_loader("standard", subset, batch_size=16))
    assert [len(y) for _, y, _ in batches] == [16] * 6 + [4]
    assert batches[0][0].shape == (16, 3, 32, 32)
    assert torch.equal(torch.cat([metadata for *_, metadata in batches]), subset.metadata_array)

    def epoch(seed):
        torch.manual_seed(seed)
        return torch.cat([x for x, *_ in get_train_loader("standard", subset, batch_size=16)]).flatten(1).sum(1)

    assert torch.equal(epoch(0), epoch(0))
    assert not torch.equal(epoch(0), epoch(1))
    assert torch.equal(epoch(0).sort().values, torch.cat([x for x, *_ in batches]).flatten(1).sum(1).sort().values)


def test_uniform_loader_makes_groups_equally_likely(data):
    """With uniform_over_groups every group that has items is drawn as often, in as many draws as there are items."""
    grouper = CombinatorialGrouper(data, ["domain", "y"])
    subset = data.get_subset("train")
    loader = get_train_loader("standard", subset, batch_size=20, uniform_over_groups=True, grouper=grouper)
    torch.manual_seed(0)
    drawn = np.concatenate([list(loader.sampler) for _ in range(60)])
    group = grouper.metadata_to_group(subset.metadata_array).numpy()
    share = np.bincount(group[drawn], minlength=grouper.n_groups) / len(drawn)
    present = np.bincount(group, minlength=grouper.n_groups) > 0
    assert len(drawn) == 60 * len(subset)
    assert share[present] == pytest.approx(np.full(present.sum(), 1 / present.sum()), abs=0.03)


@pytest.mark.parametrize("uniform", [None, True, False])
def test_batches_of_the_group_loader_have_the_asked_groups_and_items(data, uniform):
    """Every batch has n_groups_per_batch groups and as many items of each; an epoch has ⌊items / batch⌋ batches."""
    grouper = CombinatorialGrouper(data, ["domain", "y"])
    subset = data.get_subset("train", transform=tensor)
    loader = get_train_loader("group", subset, 12, uniform_over_groups=uniform, grouper=grouper, n_groups_per_batch=3)
    seeded(0)
    batches = list(loader)
    assert len(batches) == len(loader) == 100 // 12
    for x, y, metadata in batches:
        assert len(x) == len(y) == 12
        assert grouper.metadata_to_group(metadata).unique(return_counts=True)[1].tolist() == [4, 4, 4]


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), groups=st.integers(1, 4), each=st.integers(1, 4),
       uniform=st.booleans(), distinct=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_group_sampler_keeps_its_word(sizes, groups, each, uniform, distinct, seed):
    """Runs of `each` items are of one group, distinct groups differ, and an item comes twice only in a small group."""
    group = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)) * 2, sizes))
    if len(group) < groups * each or (distinct and groups > len(sizes)):
        with pytest.raises(ShiftBenchError, match=r"items"):
            GroupSampler(group, groups * each, groups, uniform, distinct)
        return
    sampler = GroupSampler(torch.from_numpy(group), groups * each, groups, uniform, distinct)
    seeded(seed)
    batches = list(sampler)
    assert len(batches) == len(sampler) == len(group) // (groups * each)
    for batch in batches:
        parts = batch.reshape(groups, each)
        own = group[parts]
        assert (own == own[:, :1]).all()
        assert not distinct or len(np.unique(own[:, 0])) == groups
        for part, code in zip(parts, own[:, 0], strict=True):
            assert sizes[code // 2] <= each or len(np.unique(part)) == each
    seeded(seed)
    assert all(np.array_equal(a, b) for a, b in zip(batches, sampler, strict=True))


def test_a_fraction_follows_the_global_seed(data):
    """`frac` keeps a share of the rows, in order, and the same ones for the same seed of numpy."""
    def rows(seed):
        seeded(seed)
        return data.get_subset("train", frac=0.25).indices

    assert len(rows(0)) == 25
    assert (np.diff(rows(0)) > 0).all()
    assert np.array_equal(rows(0), rows(0))
    assert not np.array_equal(rows(0), rows(1))


def test_texts_where_there_are_no_images():
    """A collection of documents gives its texts as x; one with neither says so."""
    words = Collection("notes", np.asarray(["a", "b"]), texts=Texts(np.asarray([1, 0, 1]), np.asarray(["y", "x", "z"])))
    split, codes = np.asarray(["train", "test"]), {"label": np.asarray([0, 1]), "domain": np.asarray([0, 1])}
    benchmark = Benchmark.of(words, None, 0, np.arange(2), split, **codes)
    data = get_dataset(benchmark, collection=words)
    assert [data[0][0], data.get_subset("test", transform=str.upper)[0][0]] == ["x", "Y"]
    with pytest.raises(ShiftBenchError, match="neither an image nor a text"):
        get_dataset(benchmark, collection=Collection("notes", words.items))[0]


def test_image_files_of_any_size_are_items(tmp_path):
    """Where a collection names files, x is the decoded file in RGB, at its own size; a lost file is named."""
    sizes = [(5, 4), (7, 9)]
    for number, size in enumerate(sizes):
        Image.new("L", size, 40 * number).save(tmp_path / f"{number}.png")
    files = Collection("files", np.asarray(["a", "b", "c"]), pixels=np.asarray(["0.png", "1.png", "2.png"]),
                       root=tmp_path)
    split, codes = np.asarray(["train"] * 3), {"label": np.asarray([0, 1, 0]), "domain": np.asarray([0, 1, 1])}
    data = get_dataset(Benchmark.of(files, None, 0, np.arange(3), split, **codes), collection=files)
    train = copy.deepcopy(data.get_subset("train"))  # as a worker process of a loader has it
    assert [(train[row][0].size, train[row][0].mode) for row in (0, 1)] == [(size, "RGB") for size in sizes]
    assert train[1][0].getpixel((0, 0)) == (40, 40, 40)
    with pytest.raises(ShiftBenchError, match="item 'c' cannot be read"):
        train[2]


def test_what_cannot_be_met_is_said(folder, data):
    """No download, no other scheme, no unlabeled part, no unknown split, loader or column; groups need a grouper."""
    train = data.get_subset("train")
    grouper = CombinatorialGrouper(data, ["domain"])
    for call, words in {
        lambda: get_dataset("camelyon17", root_dir=folder.parent, download=True): "nothing is downloaded.*read wilds",
        lambda: get_dataset("dogs", root_dir=folder.parent, split_scheme="mixed-to-test"): "official",
        lambda: get_dataset("dogs", root_dir=folder.parent, unlabeled=True): "target_train",
        lambda: get_dataset(folder, groupby_fields=["slide"]): "No column named 'slide'",
        lambda: data.get_subset("valid"): "Did you mean 'val'",
        lambda: get_train_loader("groups", train, 4): "Did you mean 'group'",
        lambda: get_eval_loader("group", train, 4): "Known loaders: standard",
        lambda: get_train_loader("standard", train, 4, uniform_over_groups=True): "grouper is needed",
        lambda: get_train_loader("group", train, 4, n_groups_per_batch=2): "grouper is needed",
        lambda: get_train_loader("group", train, 4, grouper=grouper): "needs n_groups_per_batch",
        lambda: get_train_loader("group", train, 6, grouper=grouper, n_groups_per_batch=3): "only 2 groups",
        lambda: get_train_loader("group", train, 5, grouper=grouper, n_groups_per_batch=2): "Choose a multiple",
        lambda: data.eval(torch.zeros(4, 2), torch.zeros(4), data.metadata_array[:4]): "prediction_fn",
    }.items():
        with pytest.raises(ShiftBenchError, match=words):
            call()


def test_evaluate_is_here_too():
    """The ten data sets of the package are judged by `shiftbench.compat.wilds.evaluate`."""
    metadata = np.asarray([[0, 0, 1, 1], [1, 1, 0, 0]])
    assert evaluate("camelyon17", np.asarray([1, 1]), np.asarray([1, 0]), metadata)["acc_avg"] == 0.5


@pytest.mark.slow
def test_the_example_runs_changed_and_unchanged(folder, tmp_path, capsys):
    """The script prints the same with its import changed and, unchanged, through -m; with either loader. Which group is
    the worst only the changed one says: the other has the package's words."""
    changed = re.sub(r"^from wilds[\w.]* import", "from shiftbench.compat.wilds import", SCRIPT.read_text(), flags=re.M)
    assert "wilds" not in changed.partition("import argparse")[2].replace("shiftbench.compat.wilds", "")
    (tmp_path / "changed.py").write_text(changed)
    words = ["--dataset", "dogs", "--root_dir", str(folder.parent), "--epochs", "1", "--loader"]
    said = {}
    for loader in ("standard", "group"):
        run_script(tmp_path / "changed.py", [*words, loader], {})
        said[loader] = capsys.readouterr().out
        assert "Worst-group acc:" in said[loader]
        assert re.search(r"^test: acc_wg [01]\.\d{4}$", said[loader], re.M)
    assert said["standard"] != said["group"]
    done = subprocess.run([sys.executable, "-m", "shiftbench.compat.wilds", SCRIPT, *words, "group"], text=True,
                          capture_output=True, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == re.sub(r"^Worst group: .*\n", "", said["group"], flags=re.M) != said["group"]


def test_use_gives_a_script_our_benchmark_for_its_own_name(folder, tmp_path, capsys, monkeypatch):
    """With --use a fixed name in a script means a benchmark, `wilds` is ours only meanwhile, and argv comes back."""
    script = tmp_path / "fixed.py"
    script.write_text("import sys, wilds, wilds.common.grouper\nfrom wilds.get_dataset import get_dataset\n"
                      "data = wilds.get_dataset('iwildcam', download=True)\nassert get_dataset is wilds.get_dataset\n"
                      "print(len(data), sys.argv[1:], 'iwildcam' in wilds.supported_datasets)\n")
    before = sys.modules.get("wilds"), list(sys.argv), list(sys.path)
    monkeypatch.setattr("shiftbench.compat.wilds.USED", {})
    names = run_script(script, ["--x"], wilds_modules({"iwildcam": folder}))
    assert capsys.readouterr().out == "200 ['--x'] True\n"
    assert names["data"].dataset_name == "dogs"
    assert (sys.modules.get("wilds"), list(sys.argv), list(sys.path)) == before


@pytest.mark.parametrize(("words", "message"), [
    ([], "usage:"), (["--use", "iwildcam"], "usage:"), (["--use", "a=b"], "usage:"), (["--used"], "usage:"),
    (["none.py"], "none.py: there is no such script"),
])
def test_a_wrong_call_is_one_line(monkeypatch, tmp_path, words, message):
    """Without a script, with half an option or a script that is not there, it ends with what is wrong."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["wilds", *words])
    with pytest.raises(SystemExit, match=message):
        main(wilds_modules)


@pytest.mark.slow
def test_workers_that_start_anew_find_the_modules_too(folder, tmp_path):
    """A loader whose worker is spawned, and so imports the script again, gives the same batches through -m."""
    script = tmp_path / "workers.py"
    script.write_text("import wilds\nfrom wilds.common.data_loaders import get_eval_loader\n"
                      "def width(picture):\n    return picture.size[0]\n"
                      "if __name__ == '__main__':\n"
                      "    data = wilds.get_dataset('fmow').get_subset('test', transform=width)\n"
                      "    for x, y, _ in get_eval_loader('standard', data, 40, num_workers=1,\n"
                      "                                   multiprocessing_context='spawn'):\n"
                      "        print(len(y), x.unique().tolist())\n")
    done = subprocess.run([sys.executable, "-m", "shiftbench.compat.wilds", "--use", f"fmow={folder}", script],
                          capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert (done.returncode, done.stdout) == (0, "40 [32]\n"), done.stderr


def test_what_the_package_has_and_we_do_not_is_not_found():
    """A module that is not answered is missing, even where the package is installed."""
    with answering(wilds_modules({})), pytest.raises(ModuleNotFoundError):
        importlib.import_module("wilds.download_datasets")


def test_the_packages_own_sampler_draws_the_same(data):
    """With one seed the package's group sampler and ours give the same batches, draw by draw."""
    try:
        theirs = importlib.import_module("wilds.common.data_loaders")
    except ImportError as missing:
        if "SHIFTBENCH_WILDS" in os.environ:
            raise
        pytest.skip(f"the package wilds cannot be imported: {missing}")
    subset = data.get_subset("train")
    group = CombinatorialGrouper(data, ["domain", "y"]).metadata_to_group(subset.metadata_array)
    for uniform, distinct in ((True, True), (False, True), (True, False), (False, False)):
        made = []
        for sampler in (theirs.GroupSampler, GroupSampler):
            seeded(5)
            made.append(np.stack(list(sampler(group, 12, 3, uniform, distinct))))
        assert np.array_equal(*made)


def test_the_packages_own_evaluation_says_the_same(folder):
    """In the package's manner `eval` gives its dictionary and its text, where a group is empty too."""
    try:
        evaluation = importlib.import_module("wilds.datasets.wilds_dataset").WILDSDataset.standard_group_eval
        grouper = importlib.import_module("wilds.common.grouper").CombinatorialGrouper
        accuracy = importlib.import_module("wilds.common.metrics.all_metrics").Accuracy()
    except ImportError as missing:
        if "SHIFTBENCH_WILDS" in os.environ:
            raise
        pytest.skip(f"the package wilds cannot be imported: {missing}")
    data = get_dataset(folder, compat="wilds-2.0", groupby_fields=["domain", "batch", "y"])
    subset = data.get_subset("id_val")
    guess = torch.from_numpy(np.random.default_rng(2).integers(0, 2, len(subset)))
    wanted = evaluation(accuracy, grouper(data, ["domain", "batch", "y"]), guess, subset.y_array, subset.metadata_array)
    assert data.eval(guess, subset.y_array, subset.metadata_array) == wanted
    assert 0 in wanted[0].values()


@pytest.mark.parametrize("module", ["wilds", "domainbed", "items"])
def test_without_torch_the_error_says_what_to_install(module):
    """Not Python's own error, but the sentence that names the extra."""
    script = f"import sys; sys.modules['torch'] = None; import shiftbench.compat.{module}"
    done = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True)
    assert done.stderr.splitlines()[-1].endswith('torch, which is not installed. Install it with: '
                                                 'pip install "shiftbench[train]"')
