"""A function as a model: what it is given, what its outputs mean, resuming, and one line for each wrong thing."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection, Texts
from shiftbench.data.predictions import Predictions

FUNCTION = '''
import numpy as np
def brightness(images):
    light = images[:, :8].mean(axis=(1, 2, 3)) / 255
    return np.stack([np.zeros(len(light)), 20 * light - 5], axis=1)
brightness.classes = ["cat", "dog"]
'''


def task(n=40, texts=False):
    """Cats are dark, dogs are bright; as pictures, or as words."""
    label = np.arange(n) % 2
    split = np.where(np.arange(n) < n // 2, "id_test", "test")
    if texts:
        content = {"texts": Texts(np.arange(n), np.asarray([f"word{k} {'bright' if k else 'dark'}" for k in label]))}
    else:
        pixels = np.random.default_rng(0).integers(0, 90, (n, 16, 16, 3), dtype=np.uint8)
        pixels[label == 1] += 120
        content = {"pixels": pixels}
    collection = Collection("toy", np.asarray([f"i{k:03d}" for k in range(n)]), **content,
                            factors={"animal": np.asarray(["cat", "dog"])[label]})
    return collection, Benchmark.of(collection, None, 0, np.arange(n), split, label=np.asarray(["cat", "dog"])[label],
                                    domain=np.where(np.arange(n) % 3 == 0, "in", "out"))


def bright(images):
    light = images.astype(np.float64).mean(axis=(1, 2, 3)) / 255
    return np.stack([1 - light, light], axis=1)


def test_a_function_is_given_batches_of_images_and_its_probabilities_are_kept():
    """N × H × W × 3 uint8 in, log-probabilities out, for all items in the order of the benchmark."""
    collection, benchmark = task()
    shapes = []

    def model(images):
        shapes.append((images.shape, images.dtype))
        return bright(images)

    predictions = sb.predict(benchmark, model, collection=collection, batch_size=16)
    assert shapes == [((16, 16, 16, 3), np.uint8), ((16, 16, 16, 3), np.uint8), ((8, 16, 16, 3), np.uint8)]
    assert predictions.item.tolist() == benchmark.items.tolist()
    np.testing.assert_allclose(np.exp(predictions.scores), bright(collection.pixels), rtol=1e-6)
    accuracy = sb.score(benchmark, predictions).where(metric="accuracy", split="test", group="all", by="")
    assert accuracy["value"].tolist() == [1.0]


def test_logits_and_their_probabilities_predict_the_same():
    """Outputs outside 0 to 1 are logits; a tensor or list serves too; columns are put in order by name."""
    collection, benchmark = task()
    direct = sb.predict(benchmark, bright, collection=collection)
    logits = sb.predict(benchmark, lambda x: (np.log(bright(x)) - 3).tolist(), collection=collection)
    np.testing.assert_allclose(direct.scores, logits.scores, atol=1e-6)
    turned = sb.predict(benchmark, lambda x: bright(x)[:, ::-1], collection=collection, classes=["Dog", "cat"])
    np.testing.assert_array_equal(direct.scores, turned.scores)


def test_a_frame_that_a_function_gives_names_its_columns():
    """Columns dog and cat are taken by their names, whatever their order in a batch; numbers are no names."""
    collection, benchmark = task()
    direct, turns = sb.predict(benchmark, bright, collection=collection, batch_size=16), []

    def turning(images):
        turns.append(1)
        frame = pd.DataFrame(bright(images), columns=["cat", "dog"])
        return frame[["dog", "cat"]] if len(turns) % 2 else pl.DataFrame(frame)

    for classes in ((), ("cat", "dog")):
        turned = sb.predict(benchmark, turning, collection=collection, batch_size=16, classes=classes)
        np.testing.assert_array_equal(direct.scores, turned.scores)
    plain = sb.predict(benchmark, lambda x: pd.DataFrame(bright(x)), collection=collection)
    np.testing.assert_array_equal(direct.scores, plain.scores)
    own = sb.predict(collection, lambda x: {"dog": bright(x)[:, 1], "cat": bright(x)[:, 0]})
    assert own.classes == ("dog", "cat")


def test_columns_of_numbers_are_taken_by_their_names():
    """A benchmark with two tasks gets its own order."""
    collection = Collection("two", np.asarray(["a", "b"]), {"y0": np.asarray([0.0, 1.0]), "y1": np.asarray([1.0, 0.0])},
                            pixels=np.zeros((2, 8, 8, 3), np.uint8))
    benchmark = sb.Given("y?", target="tasks").build(collection)
    made = sb.predict(benchmark, lambda x: pd.DataFrame({"y1": [1.0] * len(x), "y0": 0.0}), collection=collection)
    assert made.scores.tolist() == [[0.0, 1.0], [0.0, 1.0]]
    with pytest.raises(ShiftBenchError, match="its columns are p, q, but the classes are y0, y1"):
        sb.predict(benchmark, lambda x: pd.DataFrame({"p": [1.0] * len(x), "q": 0.0}), collection=collection)


def test_classes_of_a_function_may_be_an_array():
    """As `classes_` of scikit-learn is one."""
    collection, benchmark = task()

    def turned(images):
        return bright(images)[:, ::-1]

    turned.classes_ = np.asarray(["dog", "cat"])
    np.testing.assert_array_equal(sb.predict(benchmark, turned, collection=collection).scores,
                                  sb.predict(benchmark, bright, collection=collection).scores)


def test_a_map_may_be_a_frame():
    """With the columns of its file."""
    collection, benchmark = task()
    names = {"classes": ["tabby", "hound"], "collection": collection}
    frame = pd.DataFrame({"class": ["tabby", "hound"], "label": ["cat", "dog"]})
    assert sb.predict(benchmark, bright, map=frame, **names) == sb.predict(
        benchmark, bright, map={"tabby": "cat", "hound": "dog"}, **names)


def test_a_function_is_given_texts_or_columns():
    """A list of strings where the items are texts; an array where they are rows of numbers."""
    collection, benchmark = task(texts=True)
    predictions = sb.predict(benchmark, lambda texts: [[5 * ("dark" in text), 5.0 * ("bright" in text)]
                                                       for text in texts], collection=collection)
    assert (predictions.predicted == benchmark.label).all()
    table = sb.Collection.from_frame({"id": ["a", "b"], "y": ["no", "yes"], "age": [1.0, 9.0]}, id="id", label="y",
                                     features="age")
    predictions = sb.predict(table, lambda rows: np.hstack([5 - rows, rows - 5]), label="y")
    assert predictions.classes == ("no", "yes")
    assert predictions.predicted.tolist() == [0, 1]


def test_of_a_collection_without_labels_the_classes_are_the_models():
    """Names are the model's own, or numbers."""
    collection, _ = task()
    assert sb.predict(collection, bright).classes == ("0", "1")
    assert sb.predict(collection, bright, classes=["dark", "light"]).classes == ("dark", "light")
    assert sb.predict(collection, bright, classes=["dog", "cat"], label="animal").classes == ("cat", "dog")


@pytest.fixture
def saved(tmp_path):
    collection, _ = task()
    collection.save(tmp_path / "toy")
    sb.build(sb.IID("animal"), tmp_path / "bench", collection=sb.Collection.load(tmp_path / "toy"))
    (tmp_path / "mine.py").write_text(FUNCTION)
    return tmp_path


def test_a_killed_prediction_goes_on_and_ends_with_the_same_bytes(saved):
    """Finished batches are not computed again, half a batch is; the file is that of an unbroken call."""
    model = f"{saved / 'mine.py'}:brightness"
    sb.predict(saved / "bench", model, saved / "whole.parquet", batch_size=8)
    seen, lines = [], []

    def stop(done, total):
        seen.append(done)
        if done == 24:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sb.predict(saved / "bench", model, saved / "broken.parquet", batch_size=8, progress=stop)
    kept = saved / "broken.parquet.batches" / "scores.float32"
    assert kept.stat().st_size == 24 * 2 * 4
    with kept.open("ab") as file:
        file.write(b"half")
    assert not (saved / "broken.parquet").exists()
    seen.clear()
    sb.predict(saved / "bench", model, saved / "broken.parquet", batch_size=8,
               progress=lambda done, total: seen.append(done), say=lines.append)
    assert seen == [32, 40]
    assert "24 of 40 items were predicted before; going on" in lines
    assert (saved / "broken.parquet").read_bytes() == (saved / "whole.parquet").read_bytes()
    assert not (saved / "broken.parquet.batches").exists()


def test_batches_of_another_model_are_not_taken(saved):
    """A changed file of the function starts anew, and is run as it is now."""
    def stop(done, total):
        raise KeyboardInterrupt

    model = f"{saved / 'mine.py'}:brightness"
    with pytest.raises(KeyboardInterrupt):
        sb.predict(saved / "bench", model, saved / "a.csv", batch_size=8, progress=stop)
    before = sb.predict(saved / "bench", model)
    (saved / "mine.py").write_text(FUNCTION.replace("20 * light", "-20.0 * light"))
    seen = []
    after = sb.predict(saved / "bench", model, saved / "a.csv", batch_size=8,
                       progress=lambda done, total: seen.append(done))
    assert seen[0] == 8
    assert (before.scores[:, 1] > after.scores[:, 1]).all()


def test_the_file_feeds_score(saved):
    """What predict writes, score reads; the object and the file score the same."""
    predictions = sb.predict(saved / "bench", f"{saved / 'mine.py'}:brightness", saved / "a.csv", split="test")
    assert set(predictions.split) == {"test"}
    loaded = Predictions.load(saved / "a.csv", sb.Benchmark.load(saved / "bench"))
    np.testing.assert_allclose(loaded.scores, predictions.scores, rtol=1e-6)
    with pytest.raises(ShiftBenchError, match=r"a\.csv: is there already.*--overwrite"):
        sb.predict(saved / "bench", f"{saved / 'mine.py'}:brightness", saved / "a.csv")


def test_the_command_line_writes_the_file_and_lists_what_counts_for_nothing(saved, capsys):
    """`shiftbench predict` prints the next step; with --json the notes; a second call asks for --overwrite."""
    from shiftbench.cli import app

    (saved / "names.txt").write_text("cat\nhound\n")
    command = ["predict", str(saved / "bench"), "--model", f"{saved / 'mine.py'}:brightness", "--out",
               str(saved / "cli.csv"), "--classes", str(saved / "names.txt"), "--json"]
    with pytest.raises(ShiftBenchError, match="no class of the model counts for dog"):
        app(command, standalone_mode=False)
    app([*command, "--allow-unmapped", "--map-out", str(saved / "map.csv")], standalone_mode=False)
    printed = json.loads(capsys.readouterr().out)
    assert printed["items"] == 40
    assert printed["notes"][1:] == ["classes that count for no label: hound", "labels that no class counts for: dog"]
    (saved / "map.csv").write_text((saved / "map.csv").read_text().replace('"hound",""', "hound,dog").replace(
        "hound,,", "hound,dog,"))
    app([*command, "--map", str(saved / "map.csv"), "--overwrite"], standalone_mode=False)
    assert "note" in capsys.readouterr().out
    predictions = Predictions.load(saved / "cli.csv", sb.Benchmark.load(saved / "bench"))
    assert np.isfinite(predictions.scores).all()


def raising(images):
    raise TypeError("no\nsuch thing")


@pytest.mark.parametrize(("model", "options", "message"), [
    (lambda x: np.ones((len(x), 2)) * 0.4, {}, r"<lambda>: its outputs lie between 0 and 1, but those of item 'i000' "
     r"sum to 0\.8.*--outputs"),
    (lambda x: np.ones((len(x), 2)) * 0.4, {"outputs": "probabilities"}, "probabilities of item 'i000' sum to 0.8"),
    (lambda x: np.ones((len(x), 3)), {"outputs": "logits"}, "has 3 outputs without names, but there are 2 labels"),
    (lambda x: np.ones((len(x), 3)), {"classes": ["cat", "dog"]}, "has 3 outputs, but 2 classes are named"),
    (lambda x: pd.DataFrame(bright(x), columns=["car", "bus"]), {}, "no class of the model counts for cat, dog. Its "
     "classes: car, bus"),
    (lambda x: pd.DataFrame(bright(x), columns=["cat", "dog"] if len(x) == 16 else ["a", "b"]),
     {"batch_size": 16}, "calls its columns a, b from item 'i032' on, but cat, dog before"),
    (lambda x: np.ones((1, 2)), {}, r"gives an array of shape \(1, 2\) for 40 items"),
    (lambda x: np.full((len(x), 2), np.nan), {}, "gives a number that is not finite for item 'i000'"),
    (raising, {}, r"raising: fails on the batch of 40 items from 'i000' on \(TypeError: no"),
    ("model.pkl", {}, r"model\.pkl: a pickle may hold any code"),
    ("nothing", {}, "nothing: not a model that can be run. Name timm:NAME"),
    (object(), {}, "object is not a model"),
    (bright, {"takes": "sounds"}, "takes is 'sounds'"),
    (bright, {"split": "train"}, "has no split 'train'"),
    (bright, {"outputs": "odds"}, "outputs is 'odds'"),
    (bright, {"mean": "a,b"}, "mean is 'a,b'"),
    ("timm:resnet18", {"prompt": "a {}"}, "prompts have no use"),
    ("openclip:x", {"prompt": "a photo"}, r"prompt: 'a photo' must have \{\} once"),
])
def test_wrong_input_is_one_line_that_names_it(model, options, message):
    """Each names the object that was passed and what to do."""
    collection, benchmark = task()
    with pytest.raises(ShiftBenchError, match=message):
        sb.predict(benchmark, model, collection=collection, **options)


def test_a_bad_image_is_one_line_that_names_the_item(tmp_path):
    """A file that is no image, wherever it stands."""
    (tmp_path / "a.jpg").write_bytes(b"nothing")
    collection = Collection("bad", np.asarray(["a"]), pixels=np.asarray(["a.jpg"]), root=tmp_path)
    with pytest.raises(ShiftBenchError, match=r"a\.jpg: the image of item 'a' cannot be read"):
        sb.predict(collection, bright)
