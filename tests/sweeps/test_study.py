"""A study becomes a fixed list of runs: what is swept, what is drawn, what is refused."""

import math
import os
import tomllib
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench import demonstration
from shiftbench.core.arrays import child
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import parse_changes
from shiftbench.core.registry import make
from shiftbench.data.benchmark import Benchmark, collection_folder
from shiftbench.methods import METHODS
from shiftbench.methods.space import SPACES, Choice, Drawn, Power, Uniform, law
from shiftbench.sweeps.jobs import train_jobs
from shiftbench.sweeps.study import Study
from shiftbench.training import Run
from tests.toys import toy_rows

EXAMPLES = Path(__file__).parents[2] / "examples" / "studies"
HEAD = {"model": "mlp", "features": "efficientnet-lite0@32"}
IMAGES = {"model": "small-cnn"}


def study(methods, run=None, **settings) -> Study:
    """A study in memory; its benchmark is looked at by `jobs` alone."""
    blocks = {name: tuple(table) if isinstance(table, list) else (table,) for name, table in methods.items()}
    return Study(("nowhere",), blocks, HEAD if run is None else run, **settings)


@pytest.fixture
def place(tmp_path):
    """A folder with two benchmarks on one collection, and a place for a study."""
    for number, name in enumerate(("toy-b", "toy-a")):
        collection, benchmark = toy_rows(120 + 8 * number)
        collection.save(tmp_path / name / "collection")
        benchmark.card["collection"]["path"] = "../../" + f"{name}/collection"
        benchmark.save(tmp_path / "benchmarks" / name)
    return tmp_path


def write(folder, text):
    path = folder / "studies" / "study.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


SMALL = """
benchmarks = ["../benchmarks/toy-*"]
seeds = 2
[run]
model = "small-cnn"
steps = 6
batch_size = 8
eval_every = 3
[methods.erm]
[methods.irm]
penalty = [1.0, 10.0]
"""

# Lists


@given(st.lists(st.sampled_from([1e-4, 1e-3, 1e-2, 1e-1]), min_size=1, max_size=4),
       st.lists(st.sampled_from([8, 16, 32]), min_size=1, max_size=3), st.lists(st.sampled_from([0.5, 1.0, 2.0]),
                                                                                min_size=1, max_size=3))
def test_lists_are_taken_each_with_each(rates, sizes, penalties):
    """The settings are the product of the lists, each once, in the order of the lists; ERM has no penalty to sweep."""
    found = study({"erm": {}, "irm": {"penalty": penalties}}, {**HEAD, "lr": rates, "batch_size": sizes}).settings()
    got = [(one["method"], one["lr"], one["batch_size"], one["params"].get("penalty")) for one in found]
    assert len(got) == len(set(got)) == len(set(rates)) * len(set(sizes)) * (1 + len(set(penalties)))
    assert {one[1:] for one in got if one[0] == "irm"} == {
        (rate, size, penalty) for rate in rates for size in sizes for penalty in penalties}
    assert got == [(one["method"], one["lr"], one["batch_size"], one["params"].get("penalty")) for one in study(
        {"erm": {}, "irm": {"penalty": penalties}}, {**HEAD, "lr": rates, "batch_size": sizes}).settings()]


def test_a_method_wins_over_the_run_and_blocks_follow_each_other():
    """What stands at a method is its own; a method given twice has both blocks, and equal runs count once."""
    found = study({"erm": [{"lr": 0.5}, {"steps": 7}, {"lr": 0.5, "steps": 300}], "irm": {}},
                  {**HEAD, "lr": 0.25}).settings()
    assert [(one["method"], one["lr"], one["steps"]) for one in found] == [
        ("erm", 0.5, 300), ("erm", 0.25, 7), ("irm", 0.25, 300)]


def test_naming_a_default_changes_nothing():
    """A setting that is written out and equals the default gives the same run."""
    assert study({"irm": {}}).settings() == study({"irm": {"penalty": 100.0, "lr": 1e-3}}).settings()


def test_a_preset_that_names_its_model_keeps_it():
    """The study's model and the features of its heads are for the others; a contradiction at the preset is refused."""
    found = study({"erm": [{}, {"preset": ["resnet18", "pixel-mlp"]}]}).settings()
    assert [(one["model"], one["features"], one.get("preset")) for one in found] == [
        ("mlp", "efficientnet-lite0@32", None), ("resnet18", "", "resnet18"), ("pixel-mlp", "", "pixel-mlp")]
    with pytest.raises(ShiftBenchError, match="contradicts"):
        study({"erm": {"preset": "resnet18", "model": "resnet50"}}).settings()


def test_a_protocol_stands_under_everything_else_and_a_list_of_them_is_a_sweep():
    """At the top for all methods, at a method for it alone; a variant and what the file gives win."""
    found = study({"erm": {"preset": "augmix"}, "irm": {"lr": 0.5}}, {}, preset=("metashift",)).settings()
    assert [(one["model"], one["augment"], one["lr"], one["steps"]) for one in found] == [
        ("resnet18", "augmix", 5e-5, 5000), ("resnet18", "color", 0.5, 5000)]
    swept = study({"coral": {"preset": ["wilds-camelyon17", "wilds-fmow"]}}, {}).settings()
    assert [(one["model"], one["params"]["penalty"]) for one in swept] == [("densenet121", 0.1)] * 2
    assert [one["size"] for one in swept] == [96, 224]
    with pytest.raises(ShiftBenchError, match="resnet18 and augmix cannot be one run"):
        study({"erm": {"preset": "augmix"}}, {}, preset=("resnet18",)).settings()


# Laws


def test_a_protocol_knows_the_epochs_of_its_tasks(place):
    """BREEDS trains 300 epochs of ENTITY-13, 450 of others, of the items that there are; steps of the file win."""
    for name, task in (("toy-a", "entity13"), ("toy-b", "")):
        folder = place / "benchmarks" / name
        benchmark = Benchmark.load(folder)
        benchmark.card["params"] = {"task": task}
        benchmark.save(folder)
    path = write(place, 'benchmarks = ["../benchmarks/toy-*"]\npreset = "breeds-resnet18"\n[methods.erm]\n')
    assert [job.settings["steps"] for job in Study.load(path).jobs(place / "runs")] == [
        math.ceil(300 * 64 / 128), math.ceil(450 * 60 / 128)]
    assert {job.settings["steps"] for job in Study.load(path, {"steps": 7}).jobs(place / "runs")} == {7}


def test_a_protocol_evaluates_by_epochs_of_each_benchmark(place):
    """NOOCh's preset evaluates once an epoch of 64 or 60 items; eval_every of the file wins."""
    path = write(place, 'benchmarks = ["../benchmarks/toy-*"]\npreset = "nooch"\n[methods.erm]\nbatch_size = 10\n')
    assert [job.settings["eval_every"] for job in Study.load(path).jobs(place / "runs")] == [7, 6]
    assert {job.settings["eval_every"] for job in Study.load(path, {"eval_every": 9}).jobs(place / "runs")} == {9}


@pytest.mark.slow
@pytest.mark.parametrize("search", sorted(SPACES))
@settings(max_examples=5)
@given(seed=st.integers(0, 99), draws=st.integers(1, 6))
def test_every_named_space_fits_every_method(search, seed, draws):
    """Every space gives valid runs for every method; the first of a drawn space is its defaults."""
    made = study({name: {} for name in METHODS}, IMAGES, search=search, draws=draws, draw_seed=seed)
    for block in made.blocks():
        assert all(isinstance(one, Drawn) for one in block.laws.values())
    found = made.settings()
    assert {one["method"] for one in found} == set(METHODS)
    for name in METHODS:
        first = next(one for one in found if one["method"] == name)
        run = Run.of({**first, "benchmark": "", "seed": 0})
        assert run.method == name
        if search not in ("wiles", "wilds"):  # grids, whose first point is no default
            given = {"by": "domain"} if name == "group_dro" and search.startswith("domainbed") else {}
            assert run.learner() == make(METHODS[name], given, name)


def test_the_papers_spaces():
    """Draw 0, and the bounds of the others, are those of the published code."""
    found = study({"irm": {}}, search="domainbed", draws=200).settings()
    assert {key: found[0][key] for key in ("lr", "weight_decay", "batch_size", "batches", "optimizer")} == {
        "lr": 5e-5, "weight_decay": 0.0, "batch_size": 32, "batches": "domain", "optimizer": "adam"}
    assert found[0]["params"] == {"penalty": 100.0, "anneal": 0.1, "unbiased": True}
    drawn = found[1:]
    for values, low, high in (([one["lr"] for one in drawn], 1e-5, 10**-3.5),
                              ([one["params"]["penalty"] for one in drawn], 0.1, 1e5),
                              ([one["weight_decay"] for one in drawn], 1e-6, 1e-2)):
        assert low <= min(values) <= low * 2
        assert high / 2 <= max(values) <= high
    assert {type(one["batch_size"]) for one in drawn} == {int}
    assert {one["batch_size"] for one in drawn} <= set(range(8, 46))
    assert all(2e-4 <= one["params"]["anneal"] <= 1 for one in drawn)  # DomainBed's steps as a share of its 5,001
    grid = study({"erm": {}, "irm": {}}, search="wiles").settings()
    assert len(grid) == 3 + 3 * 4
    assert {one["batch_size"] for one in grid} == {128}
    first = study({"group_dro": {}}, search="subpopbench", draws=1).settings()[0]
    assert [first[key] for key in ("optimizer", "lr", "weight_decay", "batch_size")] == ["sgd", 1e-3, 1e-4, 108]


@pytest.mark.slow
@given(st.integers(0, 2**31), st.integers(2, 8))
def test_a_draw_moves_no_other(seed, draws):
    """A further setting, method or draw leaves all that was drawn as it was; another seed changes it."""
    lr = {"power": [10, -5, -1]}
    bare = study({"irm": {"lr": lr}}, draws=draws, draw_seed=seed).settings()
    more = study({"erm": {"lr": lr}, "irm": {"anneal": {"power": [10, -2, 0]}, "lr": lr}}, draws=draws + 3,
                 draw_seed=seed).settings()
    longer = [one for one in more if one["method"] == "irm"]
    assert [one["lr"] for one in longer[:draws]] == [one["lr"] for one in bare]
    assert len({one["lr"] for one in bare}) == draws
    other = study({"irm": {"lr": lr}}, draws=draws, draw_seed=seed + 1).settings()
    assert [one["lr"] for one in other[1:]] != [one["lr"] for one in bare[1:]]


def test_a_search_space_wins_over_the_run_and_a_method_over_the_space():
    """[run] gives way where the space names the setting, unless it is pinned; a method's own values and laws stay."""
    methods = {"erm": {}, "irm": {"lr": {"power": [10, -2, -1]}, "penalty": 5.0}}
    settings = study(methods, {**HEAD, "lr": 0.125, "batch_size": 7, "steps": 9}, search="domainbed", draws=5,
                     pinned=("batch_size",)).settings()
    assert {one["steps"] for one in settings} == {9}
    assert {one["batch_size"] for one in settings} == {7}
    assert len({one["lr"] for one in settings if one["method"] == "erm"}) == 5
    irm = [one for one in settings if one["method"] == "irm"]
    assert irm[0]["lr"] == 5e-5
    assert all(0.01 <= one["lr"] <= 0.1 for one in irm[1:])
    assert {one["params"]["penalty"] for one in irm} == {5.0}


def test_what_is_pinned_and_what_is_replaced_is_said():
    """Each value of the file that meets a search space is named once, with its table and its fate; others are not."""
    plan = study({"erm": {}, "irm": {"penalty": 5.0}, "dann": {}}, {**HEAD, "lr": 0.125, "batch_size": 7, "steps": 9},
                 search="wiles", pinned=("batch_size",))
    assert plan.search_notes() == [
        "[run] batch_size = 7: pinned, not searched",
        '[run] lr = 0.125: replaced by search = "wiles"; pinned = ["NAME"] keeps a value',
        "[methods.irm] penalty = 5.0: pinned, not searched"]
    assert study({"erm": {}}, {**HEAD, "lr": 0.125}).search_notes() == []
    with pytest.raises(ShiftBenchError, match="'width'"):
        study({"erm": {}}, HEAD, pinned=("width",))


def test_table_4_is_whole_on_the_small_study(place):
    """`--set search=wiles` on a file that names learning rate and batch size sweeps all of Table 4; --set pins."""
    path = EXAMPLES.parent / "fine_grained" / "small.toml"
    small = Study.load(path, {"search": "wiles"})
    assert len(small.settings()) * 3 * len(small.seeds) == 954
    assert {one["batch_size"] for one in small.settings()} == {128, 1024}
    pinned = Study.load(path, {"search": "wiles", "lr": 1e-3})
    assert {one["lr"] for one in pinned.settings()} == {1e-3}
    assert len(pinned.settings()) < len(small.settings())


def test_grids_and_draws_pair():
    """At every point of a grid the same values are drawn."""
    found = study({"erm": {}}, {**HEAD, "steps": [10, 20], "lr": {"uniform": [0.0, 1.0]}}, draws=4).settings()
    rates = [[one["lr"] for one in found if one["steps"] == steps] for steps in (10, 20)]
    assert rates[0] == rates[1]
    assert len(set(rates[0])) == 4


@given(st.floats(0.1, 20), st.floats(-3, 3), st.floats(0, 3), st.booleans(), st.integers(0, 999))
def test_laws_stay_within_their_bounds(base, low, width, whole, seed):
    """What is drawn lies between the bounds, and is rounded down where the field is a whole number."""
    ends = sorted((base**low, base ** (low + width)))
    value = law({"power": [base, low, low + width]}, whole, "x").draw(child(seed))
    assert (int(ends[0]) if whole else ends[0] * 0.999999) <= value <= ends[1] * 1.000001
    flat = law({"uniform": [low, low + width]}, whole, "x").draw(child(seed))
    assert (math.floor(low) if whole else low) <= flat <= low + width
    assert isinstance(value, int) is whole is isinstance(flat, int)
    assert law({"choice": ["a", "b"]}, whole, "x").draw(child(seed)) in ("a", "b")


def test_laws_are_told_as_they_are_written():
    """The words of a list of methods."""
    assert [str(one) for one in (Power(10, -1, 5), Uniform(0, 0.5), Choice((1, 2)))] == [
        "10^U(-1, 5)", "U(0, 0.5)", "one of 1, 2"]


# Files


def test_jobs_come_in_a_fixed_order_and_each_run_once(place):
    """Benchmark by benchmark, by name; the runs are distinct, and the same from another folder or a second look."""
    path = write(place, SMALL)
    jobs = Study.load(path).jobs(place / "runs")
    assert [Path(job.benchmark).name for job in jobs] == ["toy-a"] * 6 + ["toy-b"] * 6
    assert [job.settings["seed"] for job in jobs[:4]] == [0, 1, 0, 1]
    ids = [job.run.id for job in jobs]
    assert len(set(ids)) == 12
    twice = write(place, SMALL.replace('["../benchmarks/toy-*"]', '["../benchmarks/*", "../benchmarks/toy-a"]'))
    assert sorted(job.run.id for job in Study.load(twice).jobs(place / "runs")) == sorted(ids)
    assert not (place / "runs").exists()


def test_benchmarks_are_seen_from_the_file_then_from_here(place, monkeypatch):
    """A relative folder means the same wherever the command is given; one of --set is seen from the current folder."""
    path = write(place, SMALL)
    assert len(Study.load(path).benchmarks) == 2
    monkeypatch.chdir(place / "studies")
    assert Study.load("study.toml").benchmarks == tuple(os.path.normpath(f"../benchmarks/{name}")
                                                        for name in ("toy-a", "toy-b"))
    monkeypatch.chdir(place)
    here = Study.load("studies/study.toml", {"benchmarks": "benchmarks/toy-b"})
    assert here.benchmarks == ("benchmarks/toy-b",)
    assert Study.load(path, {"benchmarks": [str(place / "benchmarks" / "*-a")]}).benchmarks == (
        str(place / "benchmarks" / "toy-a"),)


def test_two_benchmarks_of_one_name_are_refused_unless_they_are_equal(place):
    """Scores know a benchmark by its name; equal rows under two paths are one benchmark."""
    other = Benchmark.load(place / "benchmarks" / "toy-b")
    other.save(place / "more" / "toy-a")
    path = write(place, SMALL.replace('["../benchmarks/toy-*"]', '["../benchmarks/toy-a", "../more/*"]'))
    with pytest.raises(ShiftBenchError, match="both named 'toy-a'"):
        Study.load(path).jobs(place / "runs")
    Benchmark.load(place / "benchmarks" / "toy-a").save(place / "more" / "toy-a")
    assert len(Study.load(path).jobs(place / "runs")) == 6


def test_leaving_domains_out_adds_benchmarks_that_find_their_collection(place):
    """Derived benchmarks lie below the runs, are built once and can be trained on as any other."""
    path = write(place, "leave_one_domain_out = true" + SMALL)
    jobs = Study.load(path, {"benchmarks": str(place / "benchmarks" / "toy-a")}).jobs(place / "runs")
    folders = list(dict.fromkeys(job.benchmark for job in jobs))
    assert [Path(folder).name for folder in folders] == ["toy-a", "toy-a~in", "toy-a~out"]
    for job in jobs:
        made = Benchmark.load(job.benchmark)
        assert made.digest == job.settings["benchmark"]
        assert collection_folder(made).samefile(job.collection)
    before = os.stat(Path(folders[1]) / "benchmark.json")
    assert Study.load(path, {"benchmarks": str(place / "benchmarks" / "toy-a")}).jobs(place / "runs") == jobs
    assert os.stat(Path(folders[1]) / "benchmark.json") == before
    assert [end.state for end in train_jobs([jobs[-1]], place / "runs", device="cpu")] == ["done"]


def test_changes_replace_what_the_file_says(place):
    """Every way to name a setting; `methods` keeps some of them with their settings."""
    path = write(place, SMALL)
    changes = parse_changes(["seeds=[4]", "lr=[0.1, 0.2]", "run.steps=9", "irm.penalty=3.0", "methods.irm.anneal=0.2"])
    found = Study.load(path, changes)
    assert found.seeds == (4,)
    assert {(one["lr"], one["steps"]) for one in found.settings()} == {(0.1, 9), (0.2, 9)}
    assert [one["params"] for one in found.settings() if one["method"] == "irm"] == [
        {"penalty": 3.0, "anneal": 0.2, "unbiased": True}] * 2
    some = Study.load(path, parse_changes(["methods=['irm', 'coral']"])).settings()
    assert [(one["method"], one["params"]["penalty"]) for one in some] == [("irm", 1.0), ("irm", 10.0), ("coral", 1.0)]
    assert len(Study.load(path, {"preset": "metashift", "model": "small-cnn"}).settings()) == 3


def test_a_study_may_be_a_dict(place, monkeypatch):
    """It says what a file says, of folders seen from here; it is not changed, and what is wrong is one message."""
    path, said = write(place, SMALL), tomllib.loads(SMALL)
    monkeypatch.chdir(path.parent)
    before, changes = deepcopy(said), {"lr": [0.1, 0.2]}
    found = Study.load(said, changes)
    assert said == before
    assert len(found.benchmarks) == 2
    assert found.settings() == Study.load(path, changes).settings()
    folder = place / "benchmarks" / "toy-a"
    assert Study.load({**said, "benchmarks": [folder]}).benchmarks == (str(folder),)
    for wrong, message in (({"seed": 2}, "study: No key named 'seed'"), ({"seeds": [1.5]}, "study: 'seeds'"),
                           ({"run": {"lr": 10 ** 400}}, "must be of type float")):
        with pytest.raises(ShiftBenchError, match=message):
            Study.load({**said, **wrong}).settings()


@pytest.mark.parametrize(("old", "new", "message"), [
    ("seeds = 2", "seed = 2", "No key named 'seed'. Did you mean 'seeds'?"),
    ("seeds = 2", "seeds = 0", "'seeds' must be a number of seeds, at least 1"),
    ("seeds = 2", "seeds = [-1]", "'seeds' must be"),
    ("seeds = 2", "seeds = 'two'", "'seeds' is 'two', but it must be of type"),
    ("seeds = 2", "seeds = true", "'seeds' is True"),
    ("seeds = 2", "seeds = 100000000", "asks for"),
    ("seeds = 2", "source = 'x'", "No key named 'source'"),
    ("seeds = 2", "search = 'domainbad'", "Did you mean 'domainbed'?"),
    ("seeds = 2", "preset = 'metashif'", "Did you mean 'metashift'?"),
    ("seeds = 2", "draws = 3", "no setting is drawn"),
    ("seeds = 2", "draws = 0\nsearch = 'domainbed'", "'draws' is 0, but must be at least 1"),
    ('["../benchmarks/toy-*"]', '["../benchmarks/foy-*"]', "'../benchmarks/foy-*' matches no benchmark"),
    ('["../benchmarks/toy-*"]', '"../benchmarks/toy-c"', "'../benchmarks/toy-c' is not there"),
    ('["../benchmarks/toy-*"]', '"../toy-a"', "'../toy-a' is not a benchmark"),
    ('["../benchmarks/toy-*"]', "3", "'benchmarks' is 3, but it must be a list"),
    ('benchmarks = ["../benchmarks/toy-*"]', "", "names no benchmark"),
    ("steps = 6", "stops = 6", "No setting named 'stops'. Did you mean 'steps'?"),
    ("steps = 6", "steps = 'six'", "'steps' is 'six', but it must be of type int"),
    ("steps = 6", "steps = [6, 0]", "method 'erm': run: 'steps' is 0"),
    ("steps = 6", "steps = []", "'steps' is an empty list"),
    ("steps = 6", "seed = 3", "'seed' belongs elsewhere in a study: seeds ="),
    ("steps = 6", "model = ", "not valid TOML"),
    ("steps = 6", "lr = {power = [10, 0]}", "write the law as {power = [base, low, high]}"),
    ("steps = 6", "lr = {power = [10, 2, 1]}", "low must not be above high"),
    ("steps = 6", "lr = {powr = [10, 0, 1]}", "Did you mean 'power'?"),
    ("steps = 6", "lr = {choice = []}", "[option, …]}, not with []. It has at least one option."),
    ("steps = 6", "lr = {uniform = [2, 1]}", "[2, 1]. Its numbers are finite, and low must not be above high."),
    ("steps = 6", "optimizer = {power = [10, 0, 1]}",
     "'optimizer' is not a number, so only {choice = [...]} can draw it"),
    ("steps = 6", "lr = {}", "a law is a table with one entry"),
    ("[methods.erm]", "[methods.erm]\npenalty = 1.0", "No setting named 'penalty'"),
    ("[methods.erm]", "[methods.emr]", "No method named 'emr'. Did you mean 'erm'?"),
    ("[methods.erm]", "[methods.resnet50]", "'resnet50' is a preset: --preset resnet50, or preset = \"resnet50\" in"),
    ("[methods.erm]", "[methods.erm]\npreset = 3", "'preset' is 3, but it must be a name or a list of names"),
    ("[methods.erm]", "[methods.erm]\npreset = 'resnet5'", "Did you mean 'resnet50'?"),
    ("steps = 6", "preset = 'metashift'", "'preset' belongs elsewhere in a study"),
    ("penalty = [1.0, 10.0]", "penalty = ['high']", "method 'irm': method irm: 'penalty' is 'high'"),
    ('model = "small-cnn"', 'model = "linear"\n[methods.coral]\n[run.x]', "No setting named 'x'"),
    ("[methods.erm]", '[methods.coral]\nmodel = "linear"', "method 'coral': run: method 'coral' moves features"),
    ("[methods.erm]\n[methods.irm]\npenalty = [1.0, 10.0]", "", "names no method"),
])
def test_a_wrong_study_is_one_clear_message(place, old, new, message):
    """What, where, what is allowed; the file is named."""
    assert old in SMALL
    path = write(place, SMALL.replace(old, new, 1))
    with pytest.raises(ShiftBenchError) as problem:
        Study.load(path).jobs(place / "runs")
    assert message in str(problem.value)
    assert "study.toml" in str(problem.value)


@pytest.mark.parametrize(("changes", "message"), [
    (["sedes=3"], "Did you mean 'seeds'?"), (["coral.penalty=1"], "No method named 'coral'"),
    (["irm.penalti=1"], "Did you mean 'penalty'?"), (["run.lrr=1"], "Did you mean 'lr'?"), (["run=1"], "No setting"),
    (["methods=['x']"], "No method named 'x'"),
])
def test_a_wrong_change_is_one_clear_message(place, changes, message):
    """The nearest name is suggested."""
    with pytest.raises(ShiftBenchError, match=r"study\.toml") as problem:
        Study.load(write(place, SMALL), parse_changes(changes)).settings()
    assert message in str(problem.value)


def test_a_benchmark_without_its_collection_is_refused_and_can_be_told(place):
    """The message says what to write; the collection must be the one it was built from."""
    path = write(place, SMALL.replace("toy-*", "toy-a"))
    (place / "toy-a" / "collection").rename(place / "moved")
    with pytest.raises(ShiftBenchError, match=r"collection 'toy' is not at .* In a study: collection = "):
        Study.load(path).jobs(place / "runs")
    moved = write(place, 'collection = "../moved"' + SMALL.replace("toy-*", "toy-a"))
    assert {Path(job.collection).name for job in Study.load(moved).jobs(place / "runs")} == {"moved"}
    wrong = write(place, 'collection = "../toy-b/collection"' + SMALL.replace("toy-*", "toy-a"))
    with pytest.raises(ShiftBenchError, match="The collection was changed"):
        Study.load(wrong).jobs(place / "runs")


def test_a_collection_of_a_change_is_relative_to_the_current_folder(place, monkeypatch):
    """A folder of that name beside the study does not stand in for one that is not there."""
    path = write(place, SMALL)
    (place / "studies" / "moved").mkdir()
    monkeypatch.chdir(place)
    assert Study.load(path, {"collection": "moved"}).collection == "moved"
    assert Study.load(write(place, 'collection = "moved"' + SMALL)).collection == str(place / "studies/moved")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_load(path, place):
    """Each example gives runs, on any benchmark put in its place."""
    made = Study.load(path, {"benchmarks": str(place / "benchmarks" / "toy-*")})
    jobs = made.jobs(place / "runs")
    assert len({job.run.id for job in jobs}) == len(jobs) > 20


def test_the_first_example_holds_the_demos_runs(place):
    """What the demo did is found by the example, and not done again."""
    text = demonstration.STUDY.format(
        features=demonstration.FEATURES, seeds="0, 1, 2", benchmarks="'x'", held_out="false")
    runs = [{job.run.id for job in Study.load(path, {
        "benchmarks": str(place / "benchmarks" / "toy-a"), "leave_one_domain_out": False}).jobs(place / "runs")}
        for path in (write(place, text), EXAMPLES / "cat_dog_methods.toml")]
    assert runs[0] < runs[1]
