"""A sound project: a file of every kind that we write or read, and every verb with a command line that uses it."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa

import shiftbench as sb
from shiftbench.auditing.contexts import keep
from shiftbench.auditing.findings import Audit, Finding
from shiftbench.auditing.predicates import Predicate
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection, Texts
from shiftbench.data.image_files import record_trust
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions
from shiftbench.human import Design, write_study
from shiftbench.shifts import SHIFTS
from shiftbench.sweeps.study import Study
from tests.fuzz.samples import Command, readers
from tests.hierarchies.test_hierarchy_files import noun
from tests.human.test_human import answered, creatures
from tests.leaderboard.test_boards import guesses, submit, wilds_files
from tests.scoring.test_kinds import bench, model
from tests.scoring.test_published_lists import publish
from tests.scoring.test_published_lists import write as write_logits
from tests.scoring.test_target_scores import code, heads, numbers, python, wealth, wheat
from tests.shifts.test_shifts import EXAMPLES, with_part
from tests.strategies import toy
from tests.text.test_text import tiny

ITEMS = 400
"""Of the collection: as few as every shift can be built on."""
NOTHING_TO_READ = ("demo", "methods")
"""Verbs that take no file."""


def light(images: np.ndarray) -> np.ndarray:
    """A model that `predict` runs: dark or light."""
    bright = images.mean(axis=(1, 2, 3)) / 255
    return np.stack([1 - bright, bright], axis=1)


def project(place: Path) -> list[Command]:
    """Write everything below `place`, which is the current folder, and give the commands that use it."""
    found = [*_collections(place), *_shifts(place), *_judged(place), *_trained(place), *_others(place), *readers(place)]
    for path in place.glob("*/collection.json"):  # as older ones are: a digest would hide the tables from every case
        facts = json.loads(path.read_text())
        path.write_text(json.dumps({key: facts[key] for key in facts if key != "files"}))
        if facts["root"]:
            record_trust(path, facts["root"])
    (place / "out").mkdir()
    assert len({one.name for one in found}) == len(found)
    return found


def _collections(place: Path) -> Iterator[Command]:
    """A collection with tags, texts, parents, images and columns of features."""
    plain = with_part(toy(ITEMS))
    rng = np.random.default_rng(0)
    factors = {**plain.factors, "year": rng.integers(2000, 2020, ITEMS), "feature:age": rng.normal(size=ITEMS),
               "feature:dose": rng.normal(size=ITEMS)}
    pixels = rng.integers(0, 256, (ITEMS, 8, 8, 3), np.uint8)
    texts = Texts(np.arange(ITEMS), np.asarray([f"a caption {k}" for k in range(ITEMS)], np.object_))
    Collection("toy", plain.items, factors, plain.tags, texts, {"cat": ("animal",), "dog": ("animal",)},
               pixels).save(place / "toy")
    boxed = sb.Tags.of([0, 1, 2], [0, 0, 1], ("a", "b"), area=[0.1, 0.2, 0.3], boxes=np.full((3, 4), 0.5))
    Collection("boxed", np.asarray(["x", "y", "z"]), tags=boxed).save(place / "boxed")
    (place / "photos").mkdir()
    Collection("filed", np.asarray(["x"]), pixels=np.asarray(["x.png"]), root=place / "photos").save(place / "filed")
    yield Command("trust", ("trust", "filed", "--root", "photos"))
    yield Command("show collection", ("show", "toy"))
    yield Command("show collection --json", ("show", "boxed", "--json"))
    graph = ("graph", "toy", "--min-size", "5")
    yield Command("graph", (*graph, "--class", "dog", "--from", "dog(shelf)", "--out", "out/g.html"), cost=3)
    yield Command("graph --all", (*graph, "--all"), cost=2)
    yield Command("graph --ladder", (*graph, "--from", "dog(shelf)", "--ladder", "2", "--items", "5"), cost=2)


def _shifts(place: Path) -> Iterator[Command]:
    """A recipe of every shift that is registered, and what is done with a benchmark."""
    (place / "recipes").mkdir()
    for name in SHIFTS:
        lines = ['collection = "../toy"', "seed = 1", f"[shift.{name}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in asdict(EXAMPLES[name]).items() if value is not None]
        (place / "recipes" / f"{name}.toml").write_text("\n".join(lines) + "\n")
        yield Command(f"build {name}", ("build", f"recipes/{name}.toml", "--out", "out/b", "--set", "collection='toy'"),
                      cost=2, then=(("show", "out/b"),))
    sb.build(place / "recipes" / "subpopulation.toml", place / "b")
    yield Command("show benchmark", ("show", "b"))
    yield Command("check", ("check", "b"), finds=True)
    yield Command("power", ("power", "b", "--difference", "2"), cost=2)
    yield Command("reference", ("build", "b", "--reference", "train-to-train", "--out", "out/m"), cost=2,
                  then=(("show", "out/m"),))
    yield Command("export csv", ("export", "b", "--to", "csv", "--out", "out/e"))
    yield Command("export folder", ("export", "b", "--to", "folder", "--out", "out/e"), cost=6)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def _judged(place: Path) -> Iterator[Command]:
    """Predictions of every kind of target, scores of them, a board."""
    made = Benchmark.load(place / "b")
    every = made.splits
    guesses(made, 0, 0.8, every).save(place / "p.parquet")
    guesses(made, 1, 0.7, every).save(place / "q.csv")
    words = np.asarray(made.names["label"])[made.label]
    write_table(place / "r.csv", pa.table({"id": made.items, "prediction": words}))
    write_table(place / "l.parquet", pa.table({"item": made.items, "logits": [[1.0, 2.0]] * len(made)}))
    score = ("score", "b", "--replicates", "20")
    yield Command("score parquet", (*score, "p.parquet"), cost=2)
    yield Command("score csv", (*score, "q.csv", "--by", "year", "--collection", "toy"), cost=2)
    yield Command("score choices", (*score, "r.csv", "--out", "out/s.csv"), cost=2)
    yield Command("score lists", (*score, "l.parquet", "--json"), cost=2)
    yield Command("audit", ("audit", "q.csv", "--data", "b", "--split", "all", "--out", "out/a.json"), cost=3)
    numbers_of = np.arange(len(made))
    write_table(place / "x.csv", pa.table({"id": made.items, "u": numbers_of % 7.0, "v": numbers_of}))
    checked = {"seen": ["cat"] * 9 + ["dog"] * 9, "true": ["cat"] * 8 + ["dog"] * 10}
    write_table(place / "checked.csv", pa.table(checked))
    yield Command("audit features", ("audit", "q.csv", "--data", "b", "--split", "all", "--features", "x.csv",
                                     "--least", "5", "--json"), cost=4)
    yield Command("audit flips", ("audit", "p.parquet", "--data", "r.csv", "--label", "prediction", "--flips",
                                  "prediction=cat=checked.csv"), cost=2)
    yield Command("audit table", ("audit", "p.parquet", "--data", "r.csv", "--label", "prediction", "--json"), cost=2)
    truth, predicted, urban = wealth(n=40)
    others = {"number": numbers(truth.astype(np.float64), urban)}
    boxes, found, sure, session = heads(n=24)
    others["boxes"] = wheat(boxes, session)
    tokens, kinds, said, repo = code(n=16)
    others["tokens"] = python(tokens, kinds, repo)
    for name, one in others.items():
        one.save(place / f"b-{name}")
    one = others["number"]
    Predictions(one.items, one.split, predicted, one.names["label"]).save(place / "n.csv")
    one = others["boxes"]
    Answers.of(one.items, one.split, {"boxes": [box / 1024 for box in found], "scores": sure}).save(place / "x.parquet")
    result = {"bbox": [1.0, 2.0, 30.0, 40.0], "score": 0.5, "category_id": 1}
    (place / "x.json").write_text(json.dumps([{"image_id": item, **result} for item in one.items.tolist()]))
    one = others["tokens"]
    Answers.of(one.items, one.split, {"tokens": [row[:-1] for row in said]}).save(place / "t.csv")
    for name, file in (("number", "n.csv"), ("boxes", "x.parquet"), ("tokens", "t.csv")):
        yield Command(f"score {name}", ("score", f"b-{name}", file, "--replicates", "20"), cost=2)
    yield Command("answers of coco", call=lambda: Answers.of_coco("x.json", Benchmark.load("b-boxes"), 1024, 1024))
    sb.score(place / "b", place / "p.parquet", place / "q.csv", replicates=20).save(place / "scores.parquet")
    sb.score(place / "b", place / "p.parquet", replicates=20).save(place / "scores.csv")
    yield Command("table", ("table", "scores.parquet"), cost=2)
    yield Command("select", ("select", "scores.parquet", "--benchmark", "b"), cost=2)
    yield Command("select csv", ("select", "scores.csv", "--rule", "id", "--out", "out/s.csv"), cost=2)
    yield Command("table csv", ("table", "scores.csv", "--format", "csv"), cost=2)
    yield Command("report scores", ("report", "scores.csv", "--benchmark", "b", "--out", "out/r.html"), cost=40)
    for seed in range(2):
        submit(place / "board", f"team {seed}", made, [guesses(made, 10 * seed + k, 0.7, every) for k in range(2)])
    lines = submit(place / "board", "lines", made)
    wilds_files(lines, made, [guesses(made, 30 + k, 0.7, every) for k in range(2)])
    yield Command("board", ("board", "board", "--benchmark", "b", "--out", "out/board", "--seeds", "2"), cost=20)
    yield from _audited(place)
    hard = bench()
    hard.save(place / "b-hard")
    for criterion in ("CE", "gist"):
        publish(place / "nooch", hard, criterion)
    write_logits(place / "m.csv", hard, model(hard))
    model(hard).save(place / "hard.parquet")
    sb.score(place / "b-hard", place / "hard.parquet", replicates=20).save(place / "hard.csv")
    yield Command("hardest", ("select", "hard.csv", "--hardest", "12", "--method", "hard"))
    yield Command("score --nooch", ("score", "m.csv", "--nooch", "nooch", "--replicates", "20"), cost=4)


def _audited(place: Path) -> Iterator[Command]:
    """The file of an audit, and contexts that were kept of it."""
    members = (Predicate("has:shelf", "yes", "tag", "with shelf"),)
    finding = Finding(members, 30, 170, 60, *(0.4, 0.3, 0.5, 0.2, 0.2, 0.1, 0.3, 2.0, 1.5, 3.0, 1e-4, 1e-3, 0.25))
    audit = Audit((finding,), (), {"loss": "error", "label": "class"})
    audit.save(place / "audit.json")
    keep(audit, place / "saved.toml")
    gate = ("gate", "p.parquet", "--data", "b", "--contexts", "saved.toml")
    card = {"loss": "error", "words": "the error", "unit": "share", "n": 200, "n_explore": 100, "n_confirm": 100,
            "looked_at": 9, "tested": 2, "fdr": 0.1, "seed": 0, "level": 0.95, "mean": 0.2, "notes": ["a note"]}
    Audit((finding,), (finding,), card).save(place / "page.json")
    Audit((finding,), (finding,), card).save(place / "page.parquet")
    yield Command("report audit", ("report", "page.json", "--out", "out/a.html"), cost=2)
    yield Command("report audit parquet", ("report", "page.parquet", "--out", "out/a.html"), cost=2)
    yield Command("gate", (*gate, "--floor", "worst_group_accuracy=0.1"), cost=2, finds=True)
    yield Command("gate --against", (*gate, "--against", "q.csv", "--budget", "60", "--json"), cost=2, finds=True)
    yield Command("build --from", ("build", "--from", "audit.json#1", "--collection", "toy", "--out", "out/b"), cost=2,
                  then=(("show", "out/b"),))


def _trained(place: Path) -> Iterator[Command]:
    """Runs with checkpoints, features and a store; a study."""
    settings = {"steps": 4, "batch_size": 8, "eval_every": 2, "device": "cpu", "collection": place / "toy"}
    for seed in range(2):
        done = sb.train(place / "b", "erm", place / "runs", model="linear", features="columns", seed=seed, **settings)
    facts = json.loads((done / "run.json").read_text())
    for path in (place / "runs").glob("*/run.json"):  # a relative path: the project is copied. No digests: as above
        facts = json.loads(path.read_text())
        facts["benchmark"]["path"] = "b"
        del facts["files"]
        path.write_text(json.dumps(facts, indent=1))
    failed = place / "runs" / "0123456789abcdef"
    failed.mkdir()
    (failed / "run.json").write_text(json.dumps(facts))
    (failed / "failed.json").write_text(json.dumps({"reason": "the disk was full", "when": "2024-01-01T00:00:00"}))
    shutil.copytree(place / "runs", place / "store")
    weights = sb.train(place / "b", "erm", place / "out-cnn", model="small-cnn", **settings)
    shutil.copy(weights / "checkpoint.safetensors", place / "weights.safetensors")
    shutil.rmtree(place / "out-cnn")
    sb.embed(place / "b", size=32, collection=place / "toy")
    yield Command("show runs", ("show", "runs"))
    yield Command("table of runs", ("table", "runs", "--format", "latex"), cost=4)
    yield Command("score runs by select", ("select", "runs"), cost=4)
    yield Command("gap", ("gap", "runs"), cost=2)
    yield Command("report", ("report", "runs", "--out", "out/r.html"), cost=60, finds=True, keeps=True)
    quick = ("--collection", "toy", "--device", "cpu", "--set", "steps=2", "--set", "batch_size=4", "--quiet")
    yield Command("train columns", ("train", "b", "--method", "erm", "--model", "linear", "--features", "columns",
                                    "--out", "out/runs", *quick), cost=10, keeps=True)
    yield Command("train found", ("train", "b", "--method", "erm", "--model", "linear", "--features", "columns",
                                  "--out", "runs", "--collection", "toy", "--device", "cpu", "--set", "steps=4",
                                  "--set", "batch_size=8", "--set", "eval_every=2"), cost=4, keeps=True)
    yield Command("train weights", ("train", "b", "--method", "erm", "--model", "small-cnn", "--weights",
                                    "weights.safetensors", "--out", "out/runs", *quick), cost=20, keeps=True)
    yield Command("train features", ("train", "b", "--method", "erm", "--model", "linear", "--features",
                                     "efficientnet-lite0@32", "--out", "out/runs", *quick), cost=30, keeps=True)
    yield Command("embed", ("embed", "b", "--size", "32", "--collection", "toy"), cost=30, keeps=True)
    (place / "map.csv").write_text("class,label\ndark,cat\nlight,dog\n")
    (place / "map.toml").write_text('dark = "cat"\nlight = "dog"\n')
    (place / "names.json").write_text('["dark", "light"]')
    (place / "parents.csv").write_text("parent,child\ncat,dark\ndog,light\n")
    predict = ("predict", "b", "--model", f"{Path(__file__).resolve()}:light", "--classes", "names.json",
               "--collection", "toy", "--out", "out/p.csv", "--map-out", "out/m.csv")
    yield Command("predict --map", (*predict, "--map", "map.csv"), cost=2, keeps=True)
    yield Command("predict --map toml", (*predict, "--map", "map.toml"), cost=2, keeps=True)
    yield Command("predict --hierarchy", (*predict, "--hierarchy", "parents.csv"), cost=2, keeps=True)
    yield Command("conflicts", ("conflicts", "b", "--model", "linear", "--features", "columns", "--steps", "20",
                                "--repeats", "2", "--collection", "toy", "--device", "cpu", "--out", "out/c"), cost=60)
    yield Command("fetch", ("fetch", f"file://{place.resolve()}/store", "--out", "out/runs"), cost=2, keeps=True)
    (place / "study.toml").write_text(
        'benchmarks = ["b"]\nseeds = 2\n[run]\nmodel = "linear"\nfeatures = "columns"\nlr = [1e-3, 1e-2]\n'
        'steps = 2\n[methods.erm]\n[methods.irm]\npenalty = [1.0, 10.0]\n'
        '[methods.group_dro]\nstep_size = {uniform = [0, 1]}\n')
    yield Command("study", call=lambda: Study.load("study.toml").jobs("out/runs"), cost=2)


def _others(place: Path) -> Iterator[Command]:
    """Hierarchies, people's answers, encoders of texts."""
    edges = [("root", "animal"), ("root", "thing"), ("animal", "cat"), ("animal", "dog"), ("thing", "cup"),
             ("thing", "sofa")]
    tree = place / "tree"
    tree.mkdir()
    (tree / "h.csv").write_text("child,parent,name\n" + "".join(f"{b},{a},the {b}\n" for a, b in edges))
    (tree / "pairs.json").write_text(json.dumps(edges))
    (tree / "down.json").write_text(json.dumps({"root": ["animal", "thing"], "animal": ["cat", "dog"]}))
    (tree / "h.txt").write_text("".join(f"{a}\t{b}\n" for a, b in edges))
    (tree / "classes.txt").write_text("cat\ndog\ncup\n")
    (tree / "edits.toml").write_text('tree = true\n[[edit]]\ninsert = "pets"\nabove = "dog"\nname = "all pets"\n'
                                     '[[edit]]\ncollapse = "thing"\n')
    noun(tree / "wordnet")
    breeds = tree / "breeds"
    breeds.mkdir()
    (breeds / "class_hierarchy.txt").write_text("".join(f"{a} {b}\n" for a, b in edges))
    (breeds / "node_names.txt").write_text("".join(f"{b}\tthe {b}\n" for _, b in edges))
    (breeds / "dataset_class_info.json").write_text(json.dumps([[0, "cat", "the cat"], [1, "dog", "the dog"],
                                                                [2, "cup", "the cup"], [3, "sofa", "the sofa"]]))
    for file in ("h.csv", "pairs.json", "down.json", "h.txt", "wordnet", "breeds"):
        yield Command(f"hierarchy {file}", ("hierarchy", f"tree/{file}"))
    yield Command("hierarchy edits", ("hierarchy", "tree/h.csv", "--edits", "tree/edits.toml", "--classes",
                                      "tree/classes.txt"))
    yield Command("hierarchy level", ("hierarchy", "toy", "--level", "0"))
    collection, made = creatures(place / "beasts", per=6)
    collection.save(place / "creatures")
    made.save(place / "b-creatures")
    design = {"examples": 2, "questions": 2, "size": 16, "rescale": 16}
    key = write_study(made, collection, place / "asked", Design(**design))
    (place / "answers.json").write_text(json.dumps(answered(key, "ann")))
    guesses(made, 0, 0.8, made.splits).save(place / "creatures.csv")
    yield Command("score answers", ("score", "b-creatures", "creatures.csv", "answers.json", "--study", "asked",
                                    "--replicates", "20"), cost=6)
    yield Command("study page", ("study", "b-creatures", "--collection", "creatures", "--examples", "2", "--questions",
                                 "2", "--size", "16", "--rescale", "16", "--out", "out/asked"), cost=20)
    tiny(place / "encoder")

    def encode() -> object:
        from shiftbench.text import encoder, encoders

        with mock.patch.object(encoders, "_has_package", return_value=False):  # that package draws bars of its own
            return encoder("encoder").encode(["a cab", "bad"])

    yield Command("encoder of texts", call=encode, cost=2)
