"""Human baselines: what a study asks, and what answers are worth."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.tables import write_table
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.human import Design, Key, plan, read_answers, write_study
from shiftbench.human.answers import checksum
from tests.strategies import seeds

KINDS = ("Quokkadont", "Xylophagus", "Zwartjesbok", "Jubjubbird")
SPLITS = ("train", "id_test", "test")


def creatures(folder=None, per=20, kinds=KINDS, size=(20, 14)):
    """A benchmark of `per` items per superclass and split, with a subclass on each side, and images that tell.

    With a folder the images are files whose names, EXIF and comments say what they show.
    """
    n = len(kinds) * len(SPLITS) * per
    label = np.repeat(kinds, len(SPLITS) * per)
    split = np.tile(np.repeat(SPLITS, per), len(kinds))
    subclass = np.char.add(np.char.add(label, "-"), np.where(split == "test", "Novus", "Vetus"))
    items = np.asarray([f"{name}_{number:05d}" for number, name in enumerate(subclass)])
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (n, size[1], size[0], 3), dtype=np.uint8)
    if folder is not None:
        folder.mkdir(parents=True)
        for item, picture in zip(items, pixels, strict=True):
            exif = Image.Exif()
            exif[0x010E] = f"this is a {item}"
            Image.fromarray(picture).save(folder / f"{item}.jpg", exif=exif, comment=f"{item}")
        pixels = np.asarray([f"{item}.jpg" for item in items])
    collection = Collection("bestiary", items, {"kind": label, "subclass": subclass}, pixels=pixels,
                            **({} if folder is None else {"root": folder}))
    made = Benchmark.of(collection, None, 0, np.arange(n), split, label=label, domain=subclass)
    return collection, made


def part(collection, made, rows):
    """A benchmark of some rows of another."""
    items = collection.index(made.items[rows])
    return Benchmark.of(collection, None, 0, items, made.split[rows], label=collection.factor("kind")[items],
                        domain=collection.factor("subclass")[items])


def answered(key, annotator, right=1.0, seed=0, tasks=None, session="s1", saved="2024-01-01T10:00:00Z"):
    """A file as the page saves it, from someone who is right with some probability."""
    rng = np.random.default_rng(seed)
    entries = [{"task": task["id"], "position": place, "swapped": False, "seconds": 20.0, "changes": 0, "answers": [
        {"image": image, "group": asked["group"] if rng.random() < right else 1 - asked["group"], "seconds": 1.0}
        for image, asked in task["questions"].items()]} for place, task in enumerate(key.tasks[:tasks])]
    return checked({"format": "shiftbench answers", "version": 1, "study": key.id, "annotator": annotator,
                    "part": "1/1", "session": session, "started": "2024-01-01T09:00:00Z", "saved": saved,
                    "tasks": entries})


def checked(facts):
    listed = [(task["task"], [(one["image"], one["group"]) for one in task["answers"]]) for task in facts["tasks"]]
    return {**facts, "check": checksum(facts["study"], facts["annotator"], listed)}


@pytest.fixture
def study(tmp_path):
    """A saved benchmark with its study; gives the key."""
    collection, made = creatures()
    made.save(tmp_path / "b")
    return write_study(made, collection, tmp_path / "s", Design(examples=5, questions=6, size=16, rescale=16))


def saved(folder, *files):
    (folder / "answers").mkdir(exist_ok=True)
    paths = []
    for number, facts in enumerate(files):
        paths.append(folder / "answers" / f"{number}.json")
        paths[-1].write_text(facts if isinstance(facts, str) else json.dumps(facts))
    return paths


# What is asked

@given(seeds, st.integers(1, 5), st.integers(1, 8), st.integers(1, 4))
@settings(max_examples=40)
def test_a_plan_is_what_the_paper_says(seed, partners, examples, half):
    """Every superclass meets as many others as asked; examples are training items of their group, questions are half of
    each group, from the split of their condition; both conditions of a pair share examples and come in two rounds."""
    _, made = creatures(per=9)
    design = Design(partners=partners, examples=examples, questions=2 * half, seed=seed)
    tasks, notes = plan(made, design)
    assert not notes
    pairs = [tuple(sorted(task.labels)) for task in tasks]
    first = len(tasks) // 2
    assert len(set(pairs[:first])) == first
    assert sorted(pairs[:first]) == sorted(pairs[first:])
    for code in range(len(KINDS)):
        assert sum(code in pair for pair in pairs[:first]) >= min(partners, len(KINDS) - 1)
    by_pair = {}
    for task, pair in zip(tasks, pairs, strict=True):
        assert task.split == {"source": "id_test", "target": "test"}[task.condition]
        assert set(made.split[task.questions]) == {task.split}
        assert np.array_equal(made.label[task.questions], np.asarray(task.labels)[task.truth])
        assert np.bincount(task.truth).tolist() == [half, half]
        for side, code in zip(task.examples, task.labels, strict=True):
            assert len(set(side.tolist())) == examples
            assert set(made.label[side]) == {code}
            assert set(made.split[side]) == {"train"}
        by_pair.setdefault(pair, []).append(task)
    for one, other in by_pair.values():
        assert {one.condition, other.condition} == {"source", "target"}
        assert all(np.array_equal(a, b) for a, b in zip(one.examples, other.examples, strict=True))
    again, _ = plan(made, design)
    assert all(np.array_equal(a.questions, b.questions) for a, b in zip(tasks, again, strict=True))


def test_no_image_is_asked_twice_while_others_are_left():
    """Questions of a superclass are dealt until all have been asked, so that answers cover as many items as can be."""
    _, made = creatures(per=9)
    tasks, _ = plan(made, Design(examples=2, questions=6))
    rows = np.concatenate([task.questions for task in tasks if task.condition == "target"])
    times = np.unique(made.items[rows], return_counts=True)[1]
    assert times.max() == 1  # three pairs × three items of each superclass, of which there are nine


def test_what_cannot_be_asked_is_said(tmp_path):
    """A superclass with too few items is left out and noted; where fewer than two are left, the message says why."""
    collection, made = creatures(per=6)
    keep = np.ones(len(made), bool)
    keep[np.flatnonzero((made.split == "test") & (made.label == 0))[2:]] = False
    less = part(collection, made, np.flatnonzero(keep))
    tasks, notes = plan(less, Design(examples=3, questions=6))
    assert notes == ["1 superclass has too few and is left out: Jubjubbird (2 of 3 in test)."]
    assert all(less.names["label"].index("Jubjubbird") not in task.labels for task in tasks)
    with pytest.raises(ShiftBenchError, match=r"0 of 4 superclasses have enough.*Lower 'examples'"):
        plan(less, Design(examples=30))
    with pytest.raises(ShiftBenchError, match="no split test"):
        plan(part(collection, made, made.rows("train")), Design(examples=3, conditions=("target",)))
    for bad, said in (({"questions": 5}, "even number"), ({"examples": 0}, "1 at least"), ({"size": 300}, "rescale"),
                      ({"conditions": ("sorce",)}, "Did you mean 'source'")):
        with pytest.raises(ShiftBenchError, match=said):
            Design(**bad)


# Answers

def test_answers_become_scores(study, tmp_path):
    """Human accuracy per condition, over both and per pair counts what was right; models come with their accuracy on
    the same pairs, and the table survives its file."""
    made = Benchmark.load(tmp_path / "b")
    paths = saved(tmp_path / "s", *(answered(study, name, 0.8, seed) for seed, name in enumerate(("Ann", "Bo", "Cy"))))
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(len(made), 4)) + np.eye(4)[made.label] * np.where(made.split == "test", 1, 3)[:, None]
    write_table(tmp_path / "net.csv", pa.table({"item": made.items, **{
        f"score:{name}": logits[:, code] for code, name in enumerate(made.names["label"])}}))
    scores = sb.score(tmp_path / "b", tmp_path / "net.csv", *paths)
    facts = [json.loads(path.read_text()) for path in paths]
    for condition, split in study.splits.items():
        right = [one["group"] == study.by_id[task["task"]]["questions"][one["image"]]["group"]
                 for fact in facts for task in fact["tasks"] for one in task["answers"]
                 if study.by_id[task["task"]]["condition"] == condition]
        row = next(iter(scores.where(method="human", split=split, metric="pairwise_accuracy", group="all")))
        assert row["value"] == pytest.approx(np.mean(right))
        assert row["n"] == len(right)
        assert row["low"] < row["value"] < row["high"]
        pairs = [f"{a} / {b}" for a, b in study.pairs]
        each = scores.where(method="human", split=split, metric="pairwise_accuracy")
        assert sorted(set(each["group"]) - {"all"}) == pairs
        rows = made.rows(split)
        of_class = [logits[rows][made.label[rows] == code] for code in range(4)]
        expected = {(a, b): np.mean([(of_class[a][:, a] > of_class[a][:, b]).mean(),
                                     (of_class[b][:, b] > of_class[b][:, a]).mean()])
                    for a in range(4) for b in range(4) if a != b}
        codes = [tuple(made.names["label"].index(name) for name in pair) for pair in study.pairs]
        model = scores.where(method="net", split=split, metric="pairwise_accuracy")
        assert model.where(group="all")["value"][0] == pytest.approx(np.mean([expected[pair] for pair in codes]))
        for name, pair in zip(pairs, codes, strict=True):
            assert model.where(group=name)["value"][0] == pytest.approx(expected[pair])
        assert scores.where(method="human", split=split, metric="fleiss_kappa")["value"][0] < 0.7
        assert scores.where(method="human", split=split, metric="answered")["value"][0] == 1.0
    gap = next(iter(scores.where(method="human", split="id_test-test")))
    both = [scores.where(method="human", split=split, metric="pairwise_accuracy", group="all")["value"][0]
            for split in study.splits.values()]
    assert gap["value"] == pytest.approx(both[0] - both[1])
    assert gap["low"] < gap["value"] < gap["high"]
    assert len(scores.where(method="net", metric="accuracy"))  # the usual scores are there too
    assert sb.Scores.load(scores.save(tmp_path / "s.parquet")) == scores
    assert "net" in sb.report(tmp_path / "s.parquet", tmp_path / "r.html", benchmarks=[tmp_path / "b"]).read_text()


def test_perfect_agreement_has_kappa_one(study, tmp_path):
    """Two people with the same answers agree wholly whether they are right or not; one alone has no agreement."""
    one, two = (answered(study, name, 0.6, seed=4) for name in ("Ann", "Bo"))
    made = Benchmark.load(tmp_path / "b")
    found = sb.score(made, *saved(tmp_path / "s", one, two), study=tmp_path / "s")
    assert set(found.where(metric="agreement")["value"]) == {1.0}
    assert found.where(metric="fleiss_kappa")["value"].tolist() == pytest.approx([1.0, 1.0])
    alone = sb.score(made, *saved(tmp_path / "s", one), study=tmp_path / "s")
    assert not len(alone.where(metric="agreement"))


def test_what_is_missing_counts_as_missing(study, tmp_path):
    """Unsorted images lower neither accuracy nor vanish: they are counted, per split, and said."""
    facts = answered(study, "Ann", tasks=2)
    facts["tasks"][1]["answers"] = facts["tasks"][1]["answers"][:2]
    found = read_answers(saved(tmp_path / "s", checked(facts)), study)
    assert len(found) == 6 + 2
    assert sum(found.missing.values()) == 4
    assert found.notes[0].startswith("4 of 12 images in tasks that were begun are unsorted")
    scores = sb.score(tmp_path / "b", *saved(tmp_path / "s", checked(facts)))
    assert set(scores.where(metric="pairwise_accuracy")["value"]) == {1.0}
    assert min(scores.where(metric="answered")["value"]) < 1


def test_what_came_twice_counts_once(study, tmp_path):
    """The same file twice counts once; a later save of the same session replaces the earlier one, in any order; two
    sessions of one name that differ are refused, for they may be two people."""
    early = answered(study, "Ann", 0.5, seed=1, tasks=3)
    late = answered(study, "Ann", 0.5, seed=2, tasks=4, saved="2024-01-01T11:00:00Z")
    other = answered(study, "Ann", 0.5, seed=2, tasks=3, session="s2")
    alone = read_answers(saved(tmp_path / "s", late), study)
    for files in ((late, early), (early, late), (late, late)):
        found = read_answers(saved(tmp_path / "s", *files), study)
        assert np.array_equal(found.chosen, alone.chosen)
        assert found.notes
    with pytest.raises(ShiftBenchError, match=r"'Ann' answers task 't001' differently in .*0\.json"):
        read_answers(saved(tmp_path / "s", early, other), study)


def change(path, value):
    """An edit of a file of answers: where, and what to put there."""
    def edit(facts):
        place = facts
        for name in path[:-1]:
            place = place[name]
        if value is None:
            del place[path[-1]]
        else:
            place[path[-1]] = value
        return facts
    return edit


@pytest.mark.parametrize(("edit", "said"), [
    (change(["study"], "0" * 16), "answers to human study 0000000000000000, but the key is of"),
    (change(["format"], "something"), "not a file of answers"),
    (change(["version"], 7), "answers in format 7, this version reads 1"),
    (change(["annotator"], " "), "has no annotator's name"),
    (change(["annotator"], None), "'annotator' is missing"),
    (change(["tasks"], {}), "'tasks' is missing or not what it should be"),
    (change(["tasks", 0, "task"], "t0012"), r"No task named 't0012'. Did you mean 't0\d\d'\?"),
    (change(["tasks", 0, "task"], None), "a task has no 'task'"),
    (change(["tasks", 1, "task"], "t001"), "does not ask for image|has task 't001' twice"),
    (change(["tasks", 0, "answers", 0, "image"], "9999"), "task 't001' does not ask for image '9999'"),
    (change(["tasks", 0, "answers", 0, "image"], []), r"does not ask for image \[\]"),
    (change(["tasks", 0, "answers", 0, "group"], 2), "the group is 2, but must be 0 or 1"),
    (change(["tasks", 0, "answers", 0, "group"], True), "the group is True"),
    (change(["tasks", 0, "answers", 0], "x"), "does not ask for image None"),
])
def test_foreign_and_damaged_files_are_named(study, tmp_path, edit, said):
    """Each kind of damage has one message that names the file."""
    damaged = edit(json.loads(json.dumps(answered(study, "Ann"))))
    with pytest.raises(ShiftBenchError, match=said) as problem:
        read_answers(saved(tmp_path / "s", damaged), study)
    assert "0.json" in str(problem.value)


def test_changed_answers_do_not_pass_their_check(study, tmp_path):
    """An answer turned round after saving, an image twice, text that is no JSON, no file at all: all are refused."""
    facts = answered(study, "Ann", 0.0)
    facts["tasks"][0]["answers"][0]["group"] ^= 1
    with pytest.raises(ShiftBenchError, match="changed after the page saved them"):
        read_answers(saved(tmp_path / "s", facts), study)
    twice = answered(study, "Ann")
    twice["tasks"][0]["answers"].append(twice["tasks"][0]["answers"][0])
    with pytest.raises(ShiftBenchError, match="has an image twice"):
        read_answers(saved(tmp_path / "s", checked(twice)), study)
    with pytest.raises(ShiftBenchError, match="not valid JSON, line 1"):
        read_answers(saved(tmp_path / "s", "{"), study)
    with pytest.raises(ShiftBenchError, match="no such file"):
        read_answers([tmp_path / "nothing.json"], study)
    with pytest.raises(ShiftBenchError, match="no image was sorted"):
        read_answers(saved(tmp_path / "s", answered(study, "Ann", tasks=0)), study)


def test_a_key_and_a_benchmark_belong_together(study, tmp_path):
    """A key whose truth was edited, a benchmark that is not the study's, and answers without a key are refused."""
    (tmp_path / "elsewhere").mkdir()
    path, = saved(tmp_path / "elsewhere", answered(study, "Ann"))
    with pytest.raises(ShiftBenchError, match="Say with --study"):
        sb.score(tmp_path / "b", path)
    _, other = creatures(per=19)
    with pytest.raises(ShiftBenchError, match="was made of benchmark"):
        sb.score(other, path, study=tmp_path / "s")
    facts = study.facts()
    next(iter(facts["tasks"][0]["questions"].values()))["group"] ^= 1
    (tmp_path / "s" / "key.json").write_text(json.dumps(facts))
    with pytest.raises(ShiftBenchError, match="does not match its own id"):
        sb.score(tmp_path / "b", path, study=tmp_path / "s")


def test_the_command_line_makes_and_scores_a_study(shell, tmp_path, monkeypatch):
    """`study` says what to hand out and what to keep, `score` shows people beside models; a model alone is set against
    the pairs of a study that nobody has answered yet."""
    monkeypatch.chdir(tmp_path)
    collection, made = creatures()
    collection.save("c")
    made.save("b")
    words = ("study", "b", "--out", "s", "--collection", "c", "--examples", "4", "--questions", "6", "--size", "16",
             "--rescale", "16", "--partners", "2")
    code, out, err = shell(*words, "--json")
    assert code == 0, err
    assert json.loads(out)["tasks"] == 2 * len(json.loads(out)["pairs"])
    code, out, _ = shell(*words)
    assert code == 0
    assert "hand out  s/page" in out
    key = Key.load("s")
    same = sb.study("b", "s", collection="c", examples=4, questions=6, size=16, rescale=16, partners=2)
    assert same.id == key.id
    facts = answered(key, "Ann", 0.9)
    facts["tasks"][0]["answers"].pop()
    saved(tmp_path / "s", checked(facts), answered(key, "Bo", 0.9, seed=5))
    write_table("net.csv", pa.table({"item": made.items, "prediction": np.asarray(made.names["label"])[made.label]}))
    code, out, err = shell("score", "b", "net.csv", "s/answers/0.json", "s/answers/1.json", "--out", "scores.csv")
    assert code == 0, err
    for said in ("human", "pairwise accuracy", "fleiss kappa", "if independent", "worst-group accuracy",
                 "Quokkadont / Zwartjesbok", "count as missing"):
        assert said in out, said
    code, out, _ = shell("score", "b", "net.csv", "--study", "s", "--json")
    assert code == 0
    assert json.loads(out)["runs"][0]["splits"]["test"]["pairwise_accuracy"]["value"] == 1.0
    code, _, err = shell("study", "b", "--out", "t", "--collection", "c", "--condition", "sorce")
    assert code == 1
    assert "Did you mean 'source'" in err
