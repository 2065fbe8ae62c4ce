"""What a user registers is what a built-in is, wherever it comes from: a file, a notebook, an installed package."""

import json
import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import numpy as np
import pytest
from torch import nn

import shiftbench as sb
from shiftbench.core import registry as plugins
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.image_files import ROOTS
from shiftbench.methods import METHODS, Method, facts
from shiftbench.methods.method import Stage, find_method
from shiftbench.models.names import facts as facts_of
from shiftbench.models.net import Net
from shiftbench.readers import READERS
from shiftbench.scoring.metrics import METRICS
from shiftbench.shifts import SHIFTS
from shiftbench.sweeps.local import WorkerOptions
from shiftbench.sweeps.on_ray import work
from shiftbench.training.batches import Data
from shiftbench.training.fast import Stacked
from shiftbench.training.folder import load_run
from shiftbench.training.lane import Lane
from shiftbench.training.loop import _stepper_of
from shiftbench.training.step import Plain
from tests.toys import CPU, toy_features, toy_rows, toy_run

pytestmark = pytest.mark.usefixtures("registry")

READER = '''
import shiftbench as sb

@sb.register.reader("lines")
def lines(source, *, label: str = "class", limit: int = 0, name: str = "lines"):
    """One item per line: its id and its class."""
    rows = [line.split() for line in open(source)][:limit or None]
    columns = {"id": [row[0] for row in rows], label: [row[1] for row in rows]}
    return sb.Collection.from_frame(columns, id="id", label=label, name=name)
'''


def cell(code, module="__main__"):
    """Run the cell of a notebook: code in a module without a file."""
    scope = ModuleType(module).__dict__ | {"sb": sb}
    exec(code, scope)  # noqa: S102


def forget():
    """Begin as another process does: nothing is loaded."""
    plugins._LOADED.clear()
    for name in [name for name in sys.modules if name.startswith("shiftbench_plugin")]:
        del sys.modules[name]


@pytest.fixture
def notebook(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Install plug-ins: modules with their entry points."""

    def install(**codes):
        for name, code in codes.items():
            (tmp_path / f"{name}.py").write_text(code)
            monkeypatch.setitem(sys.modules, name, None)
            del sys.modules[name]  # as it is after the test, too
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr("importlib.metadata.entry_points",
                            lambda group: [EntryPoint(name, name, group) for name in codes])
        plugins._TRIED.clear()

    return install


def test_a_cell_may_be_run_again_but_takes_no_name_of_others(notebook):
    """A notebook replaces what it registered before; built-in names and those of files are refused with both owners."""
    cell("@sb.register.method('mine')\nclass Mine(sb.Method):\n    a: float = 1.0")
    cell("@sb.register.method('mine')\nclass Better(sb.Method):\n    b: float = 2.0")
    assert facts("mine")["parameters"] == {"b": 2.0}
    with pytest.raises(ShiftBenchError, match=r"'erm' of Mine of module __main__ \(this session\) is taken by ERM of "
                                              r"module shiftbench.methods.erm \(.*erm.py\)"):
        cell("@sb.register.method('erm')\nclass Mine(sb.Method): pass")
    with pytest.raises(ShiftBenchError, match=r"'resnet50' .* is taken by a preset"):
        cell("@sb.register.method('resnet50')\nclass Mine(sb.Method): pass")


def test_two_files_with_one_name_are_told_apart(tmp_path, monkeypatch):
    """Two plug-ins with one name: one line with both files. One file imported and named is loaded once."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("import shiftbench as sb\n@sb.register.metric('cost')\n"
                                             "def cost(y, f, w=None): return 0.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    import one

    plugins.load_plugins([str(tmp_path / "one.py")])
    assert METRICS["cost"].function is one.cost
    with pytest.raises(ShiftBenchError, match=r"two.py: The name 'cost' of cost of module .*two.py\) is taken by cost "
                                              r"of module one \(.*one.py\)"):
        plugins.load_plugins([str(tmp_path / "two.py")])
    del sys.modules["one"]


def test_what_is_registered_wrongly_is_one_line():
    """A missing name, a wrong base, a field without default, a shift without build: each is told with its name."""
    with pytest.raises(ShiftBenchError, match=r"@sb.register.method\(\"mine\"\), not <class"):
        sb.register.method(Method)
    for register, thing, message in (
            (sb.register.method, int, "Method 'odd' must be a subclass of Method"),
            (sb.register.method, type("A", (Method,), {"__annotations__": {"a": float}}), "'a' has no default"),
            (sb.register.shift, int, "has no function 'build'"), (sb.register.reader, 3, "must be a function"),
            (sb.register.reader, lambda source, out="": None, "every reader has an option 'out'"),
            (sb.register.section, 3, "must be a function")):
        with pytest.raises(ShiftBenchError, match=message):
            register("odd")(thing)
    assert not any("odd" in table for table in (METHODS, SHIFTS, READERS))


def test_an_installed_plugin_is_loaded_when_a_name_is_missing(install):
    """Not before: a built-in name loads nothing. A broken one is one warning with its package, and the others work."""
    install(broken="raise RuntimeError('no licence')",
            sound="import shiftbench as sb\n@sb.register.method('sound')\nclass Sound(sb.Method): pass\n")
    assert "erm" in METHODS
    assert not plugins._TRIED
    with pytest.warns(UserWarning, match=r"package 'broken' \(broken\) cannot be loaded: .*no licence in line 1"):
        assert METHODS["sound"].name == "sound"
    with pytest.raises(ShiftBenchError, match=r"No method named 'soud'. Did you mean 'sound'"):
        find_method("soud")


def test_two_installed_plugins_with_one_name(install):
    """The first keeps the name, and one warning names both."""
    code = "import shiftbench as sb\n@sb.register.method('sound')\nclass Sound(sb.Method): pass\n"
    install(first=code, second=code)
    with pytest.warns(UserWarning, match=r"package 'second' .* 'sound' of Sound of module second \(.*second.py\) is "
                                         r"taken by Sound of module first \(.*first.py\)"):
        assert METHODS["sound"].__module__ == "first"


def test_a_broken_plugin_is_a_note_beside_the_list(install, shell):
    """The list of methods is shown, and one line says what is missing from it."""
    install(broken="1 / 0")
    code, out, err = shell("methods")
    assert code == 0
    assert "group_dro" in out
    assert err.startswith("note: The plug-in of package 'broken'")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("words", [("--help", "--import", "mine.py"), ("--import", "mine.py", "--help")])
def test_help_lists_the_readers_of_an_import(shell, tmp_path, monkeypatch, words):
    """Wherever --import stands."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(READER)
    code, out, _ = shell("read", *words)
    assert code == 0
    assert "One item per line" in out


def test_a_registered_reader_is_a_command(shell, tmp_path, monkeypatch):
    """Its parameters are options with their types and defaults, in its help; --import may stand before or after it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(READER)
    (tmp_path / "a.txt").write_text("a cat\nb dog\nc cat\n")
    assert shell("read", "lines", "a.txt", "--out", "none")[0] == 2
    code, out, err = shell("read", "lines", "a.txt", "--limit", "2", "--label", "kind", "--out", "c",
                           "--import", "mine.py")
    assert (code, err) == (0, "")
    assert sb.Collection.load("c").factor("kind").tolist() == ["cat", "dog"]
    code, out, err = shell("read", "--import", "mine.py", "--help")
    assert "One item per line" in out
    assert shell("read", "lines", "a.txt", "--limit", "two", "--out", "d")[0] == 2
    assert len(sb.read("lines", "a.txt")) == 3
    with pytest.raises(ShiftBenchError, match=r"lines: No setting named 'limits'. Did you mean 'limit'"):
        sb.read("lines", "a.txt", limits=1)
    sb.register.reader("rows")(lambda source: [source])
    with pytest.raises(ShiftBenchError, match=r"rows: .*test_register.py\) returns list, but a reader must return"):
        sb.read("rows", "a.txt")


METHOD = '''
import shiftbench as sb
from shiftbench.methods import Power
from shiftbench.methods.method import means_by, memory, risks

@sb.register.method("worst_domain")
class WorstDomain(sb.Method):
    """The domain with the highest risk counts by a share of its own."""
    share: float = 0.5
    batches = "domain"
    space = {"share": Power(10, -2, 0)}

    def state(self, task):
        return memory(n=task.n_domains)

    def loss(self, net, batch, state, step):
        losses = risks(net, batch)
        means, _ = means_by(losses, batch.domain, state.n)
        return (1 - self.share) * losses.mean() + self.share * means.max()

@sb.register.section("shares", "Shares of domains")
def shares(results):
    return {"text": "A section of mine.", "tables": [("Methods <b>", ["method"], [[name] for name in results.methods])]}

@sb.register.shift("alternate")
class Alternate:
    """Every k-th item is tested."""
    label: str = "label"
    k: int = 3

    def build(self, collection, seed=0):
        import numpy as np
        rows = np.arange(len(collection))
        split = np.where(rows % self.k == 0, "test", np.where(rows % self.k == 1, "val", "train"))
        return sb.Benchmark.of(collection, self, seed, rows, split, label=collection.factor(self.label),
                               domain=collection.factor("domain"))
'''
STUDY = '''
import = ["own/mine.py"]
recipes = ["recipe.toml"]
search = "domainbed-small"
draws = 2
[run]
model = "linear"
features = "columns"
steps = 3
[methods.worst_domain]
[methods.erm]
'''
RECIPE = '''
collection = "c"
[shift.alternate]
k = 4
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A table as a collection, a recipe of a user's shift and a study of a user's method."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 240)
    sb.Collection.from_frame(
        {"id": [f"i{number}" for number in range(240)], "label": np.asarray(["cat", "dog"])[label],
         "domain": rng.choice(["east", "west"], 240), "x": label + rng.normal(size=240)},
        id="id", label="label", domain="domain", features=["x"], name="c").save("c")
    (tmp_path / "own").mkdir()
    for name, text in (("own/mine.py", METHOD), ("study.toml", STUDY), ("recipe.toml", RECIPE)):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.slow
def test_a_method_a_shift_and_a_section_go_the_whole_way(shell, project):
    """A study imports them: its workers train the method on the shift, with its search space; all else shows them."""
    code, out, err = shell("sweep", "study.toml", "--out", "runs", "--device", "cpu", "--workers", "1", "--json")
    assert code == 0, err
    assert json.loads(out)["done"] == 4
    runs = [json.loads((folder / "run.json").read_text()) for folder in (project / "runs").iterdir()
            if (folder / "done").exists()]
    own = [facts for facts in runs if facts["run"]["method"] == "worst_domain"]
    assert len({facts["run"]["params"]["share"] for facts in own}) == 2
    assert all(facts["own"]["method 'worst_domain'"]["import"] == "mine.py" for facts in own)
    code, out, err = shell("select", "runs", "--json")
    assert {choice["method"] for choice in json.loads(out)["choices"]} == {"erm", "worst_domain"}
    code, out, err = shell("report", "runs", "--out", "report.html", "--quiet")
    assert (code, err) == (0, "")
    page = (project / "report.html").read_text()
    assert '<a href="#shares">Shares of domains</a>' in page
    assert "A section of mine." in page
    assert "Methods &lt;b&gt;" in page


def test_a_shift_of_ones_own_builds_from_a_recipe(shell, project):
    """Its fields are settings of the recipe and of --set, its card names it, and Python builds the same."""
    own = ("--import", "own/mine.py")
    assert shell("build", "recipe.toml", "--out", "b")[2].startswith("shiftbench: No shift named 'alternate'.")
    code, out, err = shell("build", "recipe.toml", "--out", "b", "--set", "k=3", "--json", *own)
    assert (code, err) == (0, "")
    card = json.loads(out)["card"]
    assert (card["shift"], card["params"]) == ("alternate", {"label": "label", "k": 3})
    again = sb.build(SHIFTS["alternate"](k=3), collection="c")
    assert again.digest == json.loads(out)["digest"]
    empty = sb.register.shift("empty")(type("Empty", (), {"build": lambda self, collection, seed=0: None}))
    with pytest.raises(ShiftBenchError, match=r"Shift Empty\(\) builds NoneType, but `build` must give a Benchmark"):
        sb.build(empty(), collection="c")
    assert shell("build", "recipe.toml", "--out", "b", "--set", "j=3", *own)[2].startswith(
        "shiftbench: recipe.toml, --set: No setting named 'j'.")


def test_a_run_says_what_to_import_and_whether_that_changed(shell, project):
    """Reading a run without its method names the file; training it again with other code is refused."""
    own, words = ("--import", "own/mine.py"), ("--method", "worst_domain", "--model", "linear", "--features",
                                               "columns", "--steps", "2", "--device", "cpu", "--out", "runs")
    shell("build", "recipe.toml", "--out", "b", *own)
    code, out, err = shell("train", "b", *words, "--json", *own)
    assert code == 0, err
    folder = json.loads(out)["run"]
    assert load_run(folder).method == "worst_domain"
    del METHODS["worst_domain"]
    with pytest.raises(ShiftBenchError, match=r"No method named 'worst_domain'.*made with --import mine.py"):
        load_run(folder)
    file = project / "own/mine.py"
    file.write_text(METHOD.replace("means.max()", "means.min()"))
    forget()
    code, _, err = shell("train", "b", *words, *own)
    assert (code, err) == (1, f"shiftbench: {folder}: method 'worst_domain' has changed since this run. Register it "
                           "under another name, or delete the folder.\n")
    (project / "study.toml").write_text(
        'benchmarks = ["b"]\n[run]\nmodel = "linear"\nfeatures = "columns"\nsteps = 2\n[methods.worst_domain]\n')
    assert "has changed since this run" in shell("sweep", "study.toml", "--out", "runs", "--device", "cpu")[2]


def test_a_method_of_a_notebook_is_swept_in_its_process(project, notebook):
    """Worker processes cannot load a cell, so its runs are trained here; a cluster cannot, and that is told."""
    plugins.load_plugins(["own/mine.py"])
    cell(METHOD.replace('"worst_domain"', '"mine"').partition("@sb.register.section")[0])
    assert "__main__" not in plugins.loaded_plugins()
    sb.build("recipe.toml", "b")
    (project / "study.toml").write_text('benchmarks = ["b"]\n[run]\nmodel = "linear"\nfeatures = "columns"\nsteps = 2\n'
                                        "[methods.mine]\n")
    with pytest.raises(ShiftBenchError, match=r"Method 'mine' \(WorstDomain of module __main__ \(this session\)\)"):
        sb.sweep("study.toml", "runs", engine="ray")
    assert [end.state for end in sb.sweep("study.toml", "runs", device="cpu")] == ["done"]
    sb.register.metric("misses", better="lower")(lambda label, scores, weight=None: float(
        np.average(scores.argmax(axis=1) != label, weights=weight)))
    folder = sb.train("b", "mine", "runs", model="linear", features="columns", steps=2, select_on="misses")
    assert "val_misses" in (folder / "log.jsonl").read_text()  # though the data were loaded before it was registered


def test_a_task_of_a_cluster_loads_the_code_of_its_driver(project, monkeypatch):
    """What runs on another machine imports the plug-ins before it reads its jobs."""
    monkeypatch.setenv(ROOTS, "")
    plugins.load_plugins(["own/mine.py"])
    sb.build("recipe.toml", "b")
    (project / "study.toml").write_text(
        'benchmarks = ["b"]\n[run]\nmodel = "linear"\nfeatures = "columns"\nsteps = 2\n[methods.worst_domain]\n')
    jobs = sb.Study.load("study.toml").jobs("runs")
    options = WorkerOptions(str(project / "runs"), "cpu", 1, 30.0, plugins.loaded_plugins())
    del METHODS["worst_domain"], SHIFTS["alternate"]
    forget()
    assert [end.state for end in work(jobs, options, str(project), [])] == ["done"]


def test_a_model_of_ones_own_is_in_the_catalogue(project):
    """A function with facts, and a Net, are trained and embedded by name; odd facts are told."""
    plugins.load_plugins(["own/mine.py"])
    benchmark = sb.build("recipe.toml", "b")

    @sb.register.model("two-layers", takes="features")
    def build(n_classes, n_inputs):
        return nn.Sequential(nn.Linear(n_inputs, 5), nn.ReLU(), nn.Linear(5, n_classes))

    @sb.register.model("bare", takes="features")
    class Bare(Net):
        def __init__(self, n_classes, n_inputs=0):
            super().__init__()
            self.features, self.head = nn.Linear(n_inputs, 3), nn.Linear(3, n_classes)

    for name in ("two-layers", "bare"):
        folder = sb.train(benchmark, "dann", "runs", collection="c", model=name, features="columns", steps=2)
        own = json.loads((folder / "run.json").read_text())["own"]
        assert own[f"model '{name}'"]["import"].endswith("test_register")
    assert facts_of("two-layers").builder is build
    for register, message in ((lambda: sb.register.model("odd", sides=3)(build), "model 'odd': No fact named 'sides'"),
                              (lambda: sb.register.model("odd")(3), "Model 'odd' must be a function or a class"),
                              (lambda: sb.register.model("mlp")(build), "is taken by Model of module shiftbench")):
        with pytest.raises(ShiftBenchError, match=message):
            register()


@pytest.mark.parametrize(("line", "way"), [("", Plain), ("recordable = True", Stacked)])
def test_a_loss_may_look_at_the_data(line, way):
    """A user's loss is stepped plainly, so that it may branch on a value; one that says it does not is stacked."""
    cell(f"""
@sb.register.method("looking")
class Looking(sb.Method):
    {line}

    def loss(self, net, batch, state, step):
        losses = net(batch.x).square().sum(dim=-1)
        return losses.mean() if {not line} and losses.mean().item() > 1 else losses.sum()
""")
    _, benchmark = toy_rows()
    run = toy_run(benchmark, method="looking", steps=2)
    lane = Lane(run, Data(benchmark, toy_features(benchmark), CPU), Stage(run.learner()), 0, None)
    assert _stepper_of(lane) is way
    assert len(way([lane]).advance(2)[0]) == 2
