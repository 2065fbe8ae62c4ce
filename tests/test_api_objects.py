"""The verbs take what is in memory: arrays of predictions, benchmarks and collections, as well as folders."""

import inspect
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import typer

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.conflict import Settings
from shiftbench.core.errors import ShiftBenchError
from shiftbench.hierarchies.superclasses import superclasses
from shiftbench.human import Design
from shiftbench.metagraph.graph import meta_graph
from shiftbench.methods import METHODS
from shiftbench.scoring.differences import Design as DesignOfTest
from shiftbench.scoring.differences import group_power
from shiftbench.shifts.subset import ladder
from shiftbench.training.run import Run
from tests.toys import toy_rows

CLASSES = ("cat", "dog")
SHORT = {"model": "pixel-mlp", "size": 16, "steps": 4, "batch_size": 8, "eval_every": 4, "device": "cpu"}


@pytest.fixture(scope="module")
def benchmark():
    return toy_rows()[1]


@pytest.fixture(scope="module")
def probabilities(benchmark):
    """Of every item; the likelier class is right in most."""
    sure = np.random.default_rng(0).uniform(0.2, 1, len(benchmark))
    return np.stack([np.where(benchmark.label == code, sure, 1 - sure) for code in (0, 1)], axis=1).astype(np.float32)


def test_arrays_are_scored_as_the_file_with_the_same_numbers(benchmark, probabilities, tmp_path):
    """Probabilities, their logarithms as logits, and a CSV file of them have the same scores."""
    from pyarrow.csv import write_csv

    columns = {f"prob:{name}": probabilities[:, code] for code, name in enumerate(CLASSES)}
    write_csv(pa.table({"item": benchmark.items, **columns}), tmp_path / "predictions.csv")
    file = sb.score(benchmark, tmp_path / "predictions.csv")
    assert sb.score(benchmark, ids=benchmark.items, probabilities=probabilities) == file
    with np.errstate(divide="ignore"):
        assert sb.score(benchmark, ids=benchmark.items, logits=np.log(probabilities)) == file


def test_rows_may_come_in_any_order_and_columns_by_any_order_of_classes(benchmark, probabilities):
    """Items are matched by id and columns by the names in `classes`."""
    expected = sb.score(benchmark, ids=benchmark.items, probabilities=probabilities)
    order = np.random.default_rng(1).permutation(len(benchmark))
    assert sb.score(benchmark, ids=benchmark.items[order], probabilities=probabilities[order][:, ::-1],
                    classes=["dog", "cat"]) == expected


@pytest.mark.parametrize("form", ["names", "codes", "floats", "booleans", "list", "codes of classes"])
def test_a_predicted_class_may_be_a_name_or_a_code(benchmark, form):
    """Names, codes, whole floats and truths mean the same classes; codes count in `classes` where these are given."""
    code = np.random.default_rng(2).integers(0, 2, len(benchmark))
    values = {"names": np.asarray(CLASSES)[code], "codes": code, "floats": code.astype(np.float32),
              "booleans": code == 1, "list": [CLASSES[k] for k in code], "codes of classes": 1 - code}[form]
    given = sb.Predictions.of(benchmark, benchmark.items, predictions=values,
                              classes=["dog", "cat"] if form == "codes of classes" else None)
    assert given.predicted.tolist() == code.tolist()


def test_tensors_and_columns_of_frames_are_arrays(benchmark, probabilities):
    """A tensor with a gradient, columns of pandas, polars and pyarrow, and lists of lists give the same predictions."""
    import torch

    expected = sb.Predictions.of(benchmark, benchmark.items, logits=probabilities)
    words = benchmark.items.tolist()
    for ids, logits in ((pd.Series(words), torch.tensor(probabilities, requires_grad=True)),
                        (pl.Series(words), probabilities.tolist()), (pa.array(words), pd.DataFrame(probabilities)),
                        (pa.chunked_array([words]), pl.DataFrame(probabilities))):
        assert sb.Predictions.of(benchmark, ids, logits=logits) == expected


TABLES = {
    "pandas": lambda names, values: pd.DataFrame(values, columns=names),
    "polars": lambda names, values: pl.DataFrame(values, schema=list(names)),
    "lazy polars": lambda names, values: pl.LazyFrame(values, schema=list(names)),
    "pyarrow": lambda names, values: pa.table(list(values.T), names=list(names)),
    "dict": lambda names, values: dict(zip(names, values.T.tolist(), strict=True)),
}
tables = pytest.mark.parametrize("form", TABLES)


@tables
@pytest.mark.parametrize("argument", ["probabilities", "logits"])
def test_named_columns_are_taken_by_their_names(benchmark, probabilities, form, argument):
    """A table of dog and cat is that of cat and dog; with a mark as in files too. Another name is no class."""
    values = probabilities if argument == "probabilities" else np.log(probabilities)
    expected = sb.Predictions.of(benchmark, benchmark.items, **{argument: values})
    for names in (("dog", "cat"), ("prob:dog", "prob:cat")):
        turned = TABLES[form](names, values[:, ::-1])
        assert sb.Predictions.of(benchmark, benchmark.items, **{argument: turned}) == expected
    alien = TABLES[form](("car", "bus"), values)
    with pytest.raises(ShiftBenchError, match=rf"^{argument}: its columns are car, bus, but the classes are cat, dog"):
        sb.Predictions.of(benchmark, benchmark.items, **{argument: alien})
    turned = TABLES[form](("car", "bus"), values[:, ::-1])
    assert sb.Predictions.of(benchmark, benchmark.items, **{argument: turned}, classes=["dog", "cat"]) == expected
    with pytest.raises(ShiftBenchError, match=r"its columns are dog, cat, but classes= says cat, dog"):
        sb.Predictions.of(benchmark, benchmark.items, classes=["cat", "dog"],
                          **{argument: TABLES[form](("dog", "cat"), values)})


@pytest.mark.parametrize("frame", [
    pd.DataFrame, pl.DataFrame, lambda p: pd.DataFrame(p, columns=[281, 207]),
    lambda p: pl.DataFrame(p, schema=["column_1", "column_2"]),  # as polars reads a file without a head
    lambda p: pa.table(list(p.T), names=["f0", "f1"]), lambda p: pa.table(list(p.T), names=["0", "1"])])
def test_columns_without_names_are_taken_in_their_order(benchmark, probabilities, frame):
    """Numbers, and the names that a library counts, are no names."""
    assert sb.Predictions.of(benchmark, benchmark.items, probabilities=frame(probabilities)) == sb.Predictions.of(
        benchmark, benchmark.items, probabilities=probabilities)


def test_numbers_are_names_where_the_classes_are_numbers():
    """The columns 1 and 0 of a scikit-learn model are the classes 1 and 0."""
    _, made = toy_rows()
    made = replace(made, names={**made.names, "label": ("0", "1")})
    likely = np.eye(2)[made.label] * 0.8 + 0.1
    expected = sb.Predictions.of(made, made.items, probabilities=likely)
    for columns in ([1, 0], ["1", "0"]):
        turned = pd.DataFrame(likely[:, ::-1], columns=columns)
        assert sb.Predictions.of(made, made.items, probabilities=turned) == expected


def test_columns_of_several_outputs_are_taken_by_their_names():
    """`predictions` of a benchmark with two tasks is a table of both, in any order."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, (60, 2))
    collection = sb.Collection("assays", np.asarray([f"m{k}" for k in range(60)]),
                               {"y0": truth[:, 0].astype(np.float64), "y1": truth[:, 1].astype(np.float64)})
    made = sb.Given("y?", target="tasks").build(collection)
    values = rng.normal(size=(60, 2))
    expected = sb.Predictions.of(made, made.items, predictions=values)
    assert expected.classes == ("y0", "y1")
    turned = pd.DataFrame(values[:, ::-1], columns=["y1", "y0"])
    assert sb.Predictions.of(made, made.items, predictions=turned) == expected


def test_numbers_are_predicted_where_numbers_are_asked_for():
    """A benchmark of numbers takes `predictions` of one number per item, and no probabilities."""
    rng = np.random.default_rng(0)
    collection = sb.Collection("houses", np.asarray([f"h{k}" for k in range(60)]), {"price": rng.normal(size=60)})
    benchmark = sb.Given(label="price", target="number").build(collection)
    scores = sb.score(benchmark, ids=benchmark.items, predictions=benchmark.extra["price"])
    assert scores.where(metric="mse", group="all", split="test")["value"].tolist() == pytest.approx([0], abs=1e-9)
    with pytest.raises(ShiftBenchError, match=r"^logits: .*asks for numbers"):
        sb.score(benchmark, ids=benchmark.items, logits=rng.normal(size=60))


def test_name_method_and_seed_describe_the_run(benchmark, probabilities):
    """They stand in the columns of the table; words that do not tell two models apart are refused."""
    scores = sb.score(benchmark, ids=benchmark.items, probabilities=probabilities, name="a7", method="forest", seed=3)
    assert {(row["run"], row["method"], row["seed"]) for row in scores} == {("a7", "forest", 3)}
    one = sb.Predictions.of(benchmark, benchmark.items, probabilities=probabilities)
    with pytest.raises(ShiftBenchError, match="second model of method 'a7'"):
        sb.score(benchmark, one, one, name="a7")


def broken(probabilities):
    twice = probabilities.copy()
    twice[7] = [0.9, 0.4]
    below = probabilities.copy()
    below[5] = [1.5, -0.5]
    gap = probabilities.copy()
    gap[3, 1] = np.nan
    return twice, below, gap


FAULTS = {
    r"^ids: 1 ids are not in the benchmark, the first is 'x'": lambda i, p: {"ids": ["x", *i[1:]], "probabilities": p},
    r"^ids: 1 ids occur more than once": lambda i, p: {"ids": [i[1], *i[1:]], "probabilities": p},
    r"^ids: is missing": lambda i, p: {"probabilities": p},
    r"^ids: is str, but": lambda i, p: {"ids": "i000", "probabilities": p},
    r"^probabilities: has 239 rows, but ids has 240": lambda i, p: {"ids": i, "probabilities": p[1:]},
    r"^probabilities: 1 of 240 items have no probabilities: the first, 'i007', sums to 1.3":
        lambda i, p: {"ids": i, "probabilities": broken(p)[0]},
    r"^probabilities: 1 of 240 items have no probabilities: the first, 'i005', has -0.5":
        lambda i, p: {"ids": i, "probabilities": broken(p)[1]},
    r"^logits: row 3 \(item 'i003'\) has no number": lambda i, p: {"ids": i, "logits": broken(p)[2]},
    r"^logits: has shape \(240, 3\), but needs 240 × 2, a column for each of cat, dog":
        lambda i, p: {"ids": i, "logits": np.zeros((240, 3))},
    r"^probabilities: has shape \(240,\)": lambda i, p: {"ids": i, "probabilities": p[:, 0]},
    r"^classes: are cat, cow, but those of benchmark .* are cat, dog":
        lambda i, p: {"ids": i, "logits": p, "classes": ["cat", "cow"]},
    r"^predictions: .*No class named 'cow'": lambda i, p: {"ids": i, "predictions": ["cow"] * 240},
    r"^predictions: has shape \(240, 2\)": lambda i, p: {"ids": i, "predictions": p},
    r"^logits: is not all numbers": lambda i, p: {"ids": i, "logits": [["a", "b"]] * 240},
    r"^Give exactly one of": lambda i, p: {"ids": i, "logits": p, "predictions": p},
}


@pytest.mark.parametrize("message", FAULTS)
def test_what_is_wrong_with_an_array_is_said_with_its_name(benchmark, probabilities, message):
    """One message, which begins with the argument that the user passed."""
    with pytest.raises(ShiftBenchError, match=message):
        sb.score(benchmark, **FAULTS[message](benchmark.items.tolist(), probabilities))


def test_ids_that_the_benchmark_has_not_are_left_out_on_request(benchmark, probabilities):
    """`ignore_extra` counts them in a warning, as it does for files."""
    with pytest.warns(UserWarning, match="1 of 241 ids are not in the benchmark"):
        scores = sb.score(benchmark, ids=[*benchmark.items, "x"], ignore_extra=True,
                          probabilities=[*probabilities.tolist(), [0.5, 0.5]])
    assert scores == sb.score(benchmark, ids=benchmark.items, probabilities=probabilities)


# Benchmarks and collections in memory

@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on a benchmark and a collection that were in memory."""
    out = tmp_path_factory.mktemp("objects") / "runs"
    collection, benchmark = toy_rows()
    return collection, benchmark, out, sb.train(benchmark, "erm", out, collection=collection, **SHORT)


@pytest.mark.slow
def test_a_run_finds_the_benchmark_that_was_in_memory(trained, tmp_path):
    """It lies beside the runs, with its collection, so that folder verbs go on from there."""
    collection, benchmark, out, run = trained
    saved = sb.Benchmark.load(out / "benchmarks" / benchmark.name)
    assert saved.digest == benchmark.digest
    assert sb.Collection.load(out / "collections" / "toy") == collection
    page = sb.report(out, tmp_path / "report.html")
    assert page.is_file()
    assert sb.train(out / "benchmarks" / benchmark.name, "erm", out, **SHORT) == run


@pytest.mark.slow
def test_a_finished_run_on_an_object_is_not_repeated(trained):
    """The same objects give the same run, whose files stay as they are."""
    collection, benchmark, out, run = trained
    before = (run / "predictions.parquet").stat().st_mtime_ns
    assert sb.train(benchmark, "erm", out, collection=collection, **SHORT) == run
    assert (run / "predictions.parquet").stat().st_mtime_ns == before
    assert len(list((out / "benchmarks").iterdir())) == 1


@pytest.mark.slow
def test_a_method_may_be_an_object_of_its_class(trained):
    """Its fields are the method's settings: the run is that of the name with the same settings."""
    collection, benchmark, out, run = trained
    assert sb.train(benchmark, METHODS["erm"](), out, collection=collection, **SHORT) == run
    options = {"out": out, "collection": collection, **SHORT}
    ours = sb.train(benchmark, METHODS["irm"](penalty=3.0), **options)
    assert ours == sb.train(benchmark, "irm", params={"penalty": 3.0}, **options)


@pytest.mark.slow
def test_two_benchmarks_of_one_name_lie_beside_each_other(trained, tmp_path):
    """The second has its digest in its name, so that scores tell the two apart."""
    collection, benchmark, _, _ = trained
    other_collection, other = toy_rows(seed=1)
    sb.train(benchmark, "erm", tmp_path, collection=collection, **SHORT)
    sb.train(other, "erm", tmp_path, collection=other_collection, **SHORT)
    names = {path.name for path in (tmp_path / "benchmarks").iterdir()}
    assert names == {benchmark.name, f"{benchmark.name}-{other.short_digest}"}
    assert {choice.benchmark for choice in sb.select(tmp_path, "id").choices} == names


def test_a_benchmark_in_memory_needs_its_own_collection(benchmark, tmp_path):
    """Without one, or with another's, training is refused before anything is written."""
    with pytest.raises(ShiftBenchError, match="Give `collection`"):
        sb.train(benchmark, "erm", tmp_path / "runs", **SHORT)
    with pytest.raises(ShiftBenchError, match=r"^collection: 'toy' has digest .* was built from"):
        sb.train(benchmark, "erm", tmp_path / "runs", collection=toy_rows(n=120)[0], **SHORT)
    assert not (tmp_path / "runs").exists()


def test_a_benchmark_in_memory_is_not_saved_to_a_url():
    """It would become a local folder of that name."""
    collection, benchmark = toy_rows()
    with pytest.raises(ShiftBenchError, match="is a URL"):
        sb.sweep("study.toml", "s3://bucket/runs", benchmarks=benchmark, collection=collection, device="cpu")


def test_pages_tables_and_choices_take_benchmarks_in_memory(benchmark, probabilities, tmp_path):
    """`benchmarks` may be an object, a folder or a list of both."""
    scores = sb.score(benchmark, ids=benchmark.items, probabilities=probabilities, method="mine")
    folder = benchmark.save(tmp_path / "toy")
    assert sb.report(scores, tmp_path / "a.html", benchmarks=benchmark).is_file()
    assert sb.table(scores, benchmarks=[benchmark, folder]) == sb.table(scores, benchmarks=folder)
    assert sb.select(scores, "id", benchmarks=[benchmark]).choices[0].method == "mine"


@pytest.mark.slow
@pytest.mark.usefixtures("workers_here")
def test_a_study_takes_benchmarks_in_memory(trained, tmp_path):
    """They take the place of those that the study names, and are saved beside its runs."""
    collection, benchmark, _, run = trained
    (tmp_path / "study.toml").write_text('[methods.erm]\n[run]\nmodel = "pixel-mlp"\nsize = 16\nsteps = 4\n'
                                         'batch_size = 8\neval_every = 4\n')
    ends = sb.sweep(tmp_path / "study.toml", tmp_path / "runs", benchmarks=[benchmark], collection=collection,
                    workers=1, device="cpu")
    assert [(end.run, end.state) for end in ends] == [(run.name, "done")]


def test_a_shift_is_built_on_a_collection_in_memory(tmp_path):
    """build(shift, collection=…) is shift.build, and saves the benchmark where `out` says so."""
    scenes = sb.read("world", "scenes", items=300, size=32, out=tmp_path / "scenes")
    shift = sb.IID("class")
    benchmark = sb.build(shift, tmp_path / "iid", collection=scenes, seed=1)
    assert benchmark.digest == shift.build(scenes, 1).digest == sb.Benchmark.load(tmp_path / "iid").digest
    assert scenes.home == tmp_path / "scenes"


FRAME = pd.DataFrame({"item": ["a"]})
REFUSED = {
    "gap of scores": (lambda b, s: sb.gap(s), "Scores is neither the folder of a run nor a folder of runs"),
    "gap of a benchmark": (lambda b, s: sb.gap(b), "Benchmark is neither the folder of a run nor a folder of runs"),
    "gap of nothing": (lambda b, s: sb.gap(), "There are no runs, scores or predictions to compare"),
    "report of nothing": (lambda b, s: sb.report([], "r.html"), "There are no runs, scores or predictions to compare"),
    "hardest": (lambda b, s: sb.hardest(b), "Benchmark is neither scores nor"),
    "sweep": (lambda b, s: sb.sweep(3, "out"), "int is neither a Study nor the file of one"),
    "a class for a method": (lambda b, s: sb.train(b, METHODS["erm"]), "this class ERM is not a method. Give the name"),
    "a frame for a method": (lambda b, s: sb.train(b, FRAME), "this DataFrame object is not a method. Give the name"),
    "an empty study": (lambda b, s: sb.sweep({}, "out"), "study: names no benchmark"),
    "retrain": (lambda b, s: sb.retrain(FRAME), "DataFrame is neither the folder of a run nor a folder of runs"),
    "suite": (lambda b, s: sb.suite("metashift/table1", FRAME, "out"), "DataFrame is neither a Collection nor"),
    "name of a suite": (lambda b, s: sb.suite(FRAME, None, "out"), "DataFrame is neither the name of a suite nor"),
    "hierarchy": (lambda b, s: sb.hierarchy(FRAME), "DataFrame is neither a Collection nor the file or folder"),
    "superclasses": (lambda b, s: sb.superclasses(FRAME, level=1), "DataFrame is neither a Collection nor the file"),
    "studio": (lambda b, s: sb.studio(FRAME), "DataFrame is neither the folder of a collection"),
    "a list for a frame": (lambda b, s: sb.Collection.from_frame([1, 2], id="a", label="b"),
                           "list is neither the file of a table, nor a data frame"),
    "a list for a table": (lambda b, s: sb.read("table", [1, 2], id="a", label="b"), "list is neither the file of a"),
    "a class for a shift": (lambda b, s: sb.build(sb.Given, collection=toy_rows()[0]), "Given is a class, and a shift"),
    "a number for a shift": (lambda b, s: sb.build(3, collection=toy_rows()[0]), "int is neither a shift, nor"),
    "a number for a map": (lambda b, s: sb.predict(b, print, map=3), "int is neither a map of classes to labels nor"),
    "a frame for a hierarchy": (lambda b, s: sb.predict(b, print, collection=toy_rows()[0], hierarchy=FRAME),
                                "DataFrame is neither a Collection nor the file or folder of a hierarchy"),
}


@pytest.mark.parametrize("call", REFUSED)
def test_an_object_of_another_type_is_named_in_one_line(benchmark, probabilities, call):
    """Every verb says what was passed and what it takes, not what Python could not do with it."""
    verb, message = REFUSED[call]
    with pytest.raises(ShiftBenchError, match=message):
        verb(benchmark, sb.score(benchmark, ids=benchmark.items, probabilities=probabilities))


@pytest.mark.parametrize("verb", ["embed", "check", "power", "score", "export"])
def test_what_is_neither_an_object_nor_a_folder_is_said_in_one_line(verb):
    """A wrong type is our error with a sentence, not Python's."""
    with pytest.raises(ShiftBenchError, match="int is neither a Benchmark nor the folder of one"):
        getattr(sb, verb)(5, *["out"] * (verb == "export"))


def test_what_verbs_give_is_one_line(benchmark, probabilities, tmp_path):
    """A meta-graph, tags, a hierarchy, a board, a selection and a comparison, however much is in them."""
    scenes = sb.read("world", "scenes", items=300, size=32)
    models = {f"model-{k}": sb.Predictions.of(benchmark, benchmark.items, probabilities=np.roll(probabilities, k, 0))
              for k in range(3)}
    many = {"benchmarks": benchmark, "method": list(models)}
    shown = {
        "graph": sb.graph(scenes, "cat", min_size=2), "tags": scenes.tags, "texts": scenes.texts,
        "hierarchy": sb.hierarchy(scenes), "selection": sb.select(list(models.values()), **many),
        "board": sb.board(list(models.values()), benchmark, seeds=1, method=list(models)),
        "comparison": sb.table(list(models.values()), **many),
    }
    for thing in shown.values():
        assert "array" not in repr(thing)
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 400
    assert repr(shown["graph"]).startswith(f"MetaGraph('cat': {len(shown['graph'])} subsets, ")
    assert repr(shown["tags"]).startswith(f"Tags({len(scenes.tags.tag):,} of 300 items; {len(scenes.tags.names)} names")
    assert repr(shown["hierarchy"]).startswith("Hierarchy('scenes': ")
    assert repr(shown["board"]).startswith("Board('nonetype' by accuracy on test; 3 ranked: model-0, ")
    assert "rules: id, " in repr(shown["selection"])
    assert repr(shown["comparison"]).startswith("Comparison(6 lines; benchmarks: nonetype; methods: model-0, model-1, ")
    assert "methods: model-0, model-1, model-2; " in repr(shown["selection"])


def test_a_repr_is_one_line_of_counts_and_names(probabilities):
    """No array is printed, however large the object is."""
    collection, benchmark = toy_rows()
    predictions = sb.Predictions.of(benchmark, benchmark.items, probabilities=probabilities)
    assert repr(collection) == "Collection('toy': 240 items; factors: none; 0 tags, 0 texts, images 16×16)"
    assert repr(benchmark).startswith("Benchmark('nonetype': 240 rows; train 120, ")
    assert repr(benchmark).endswith("; labels: cat, dog; domains: in, out; 4 groups)")
    assert repr(predictions).endswith("classes: cat, dog)")
    assert repr(sb.score(benchmark, predictions, method="mine")).startswith("Scores(")
    for thing in (collection, benchmark, predictions, sb.score(benchmark, predictions), sb.Scores.join([])):
        assert "array" not in repr(thing)
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 300


@pytest.mark.parametrize("verb", ["score", "select", "gap", "table", "report", "board"])
def test_help_shows_the_words_that_describe_predictions(verb):
    """The words are carried together, and every verb that takes them lists each in its signature and on the command
    line; a word that nobody knows is refused."""
    words = {"name": "", "method": "", "setting": "", "seed": (), "ignore_extra": False}
    shown = inspect.signature(getattr(sb, verb)).parameters
    assert {word: shown[word].default for word in words} == words
    assert {shown[word].kind for word in words} == {inspect.Parameter.KEYWORD_ONLY}
    assert all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in shown.values())
    (command,) = [command for command in app.registered_commands if command.callback.__name__ == verb]
    assert set(words) < set(inspect.signature(command.callback).parameters)
    with pytest.raises(TypeError, match="nmae"):
        getattr(sb, verb)(*("a", "b")[:1 if verb == "table" else 2], nmae="mine")


def parameters(function):
    return set(inspect.signature(function).parameters)


def options(verb):
    """The options of a verb that say what it does, not what it prints."""
    group = typer.main.get_command(app)
    words = {word for option in group.get_command(None, verb).params for word in option.opts if word.startswith("--")}
    return words - {"--json", "--quiet", "--import", "--draws"}


def test_a_word_of_the_shell_is_one_of_python_or_stands_in_the_table():
    """Every option is a parameter of that name, of the verb's function or of what that makes, unless docs/python.md
    says what it is called instead; and the page names nothing that is not there."""
    page = (Path(__file__).parent.parent / "docs" / "python.md").read_text(encoding="utf-8")
    section = page.split("## Words that differ")[1].split("\n## ")[0]
    listed = set(re.findall(r"`([a-z]+) (--[a-z-]+)", section))
    made = {
        "graph": parameters(meta_graph) | parameters(ladder), "hierarchy": parameters(superclasses) | {"task"},
        "power": parameters(group_power) | parameters(DesignOfTest), "select": parameters(sb.hardest),
        "train": parameters(Run), "pretrain": parameters(Run), "conflicts": parameters(Settings),
        "study": parameters(Design)}
    verbs = set(typer.main.get_command(app).list_commands(None)) - {"read", "show", "methods"}
    known = {verb: parameters(getattr(sb, verb)) | made.get(verb, set()) for verb in verbs}
    assert listed == {(verb, word) for verb in verbs for word in options(verb)
                      if word.removeprefix("--").replace("-", "_") not in known[verb]}
    for name, word in re.findall(r"`sb\.(\w+)\((\w+)=", section):
        assert word in parameters({"graph": meta_graph, "ladder": ladder, "superclasses": superclasses,
                                   "study": Design}.get(name, getattr(sb, name)))


@pytest.mark.parametrize("verb", ["score", "select", "gap", "table", "report", "board"])
def test_a_misspelt_argument_is_named_with_its_verb(verb):
    with pytest.raises(TypeError, match=rf"^{verb}\(\) got an unexpected keyword argument 'sede'$"):
        getattr(sb, verb)("runs", sede=1)
