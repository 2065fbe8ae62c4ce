"""Models that are not ours train as ours do: any method, exact resume, one line where something is wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Texts
from shiftbench.models import MODELS, build
from shiftbench.models.names import CATALOGUE, Model
from shiftbench.models.net import read_weights, weights_digest
from shiftbench.models.wrapped import check_named, draws, name_object, with_own_pooling
from shiftbench.sweeps.status import states
from shiftbench.training.batches import load
from shiftbench.training.lane import notes_of
from shiftbench.training.run import Run
from tests.models.test_published_nets import folders  # noqa: F401 - a fixture
from tests.toys import CPU, toy_rows
from tests.training.test_train import Stop, stop_at

TINY = "timm:test_resnet"
FEW = {"size": 32, "batch_size": 4, "eval_every": 3, "steps": 2, "device": "cpu"}


def trained(out, toy, method: str = "erm", **settings):
    collection, benchmark = toy
    return sb.train(benchmark, method, out, collection=collection, **{**FEW, **settings})


def weights_of(run):
    return read_weights(run / "checkpoint.safetensors")


@pytest.fixture(scope="module")
def toy():
    return toy_rows(48)


class Small(nn.Module):
    """A convolution whose maps are laid out in a row by `view`, and a first layer of as many outputs as classes."""

    def __init__(self, n_classes: int, side: int = 16) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.gate = nn.Linear(4, n_classes)
        self.drop = nn.Dropout(0.2)
        self.last = nn.Linear(4 * (side // 2) ** 2, n_classes)

    def forward(self, x):
        maps = torch.relu(self.conv(x))
        self.gate(maps.mean(dim=(2, 3)))
        return self.last(self.drop(maps.view(len(x), -1)))


@pytest.mark.parametrize("model", [TINY, *(pytest.param(name, marks=pytest.mark.slow) for name in (
    "timm:test_vit", "torchvision:shufflenet_v2_x0_5"))])
def test_a_stopped_run_of_a_library_goes_on_exactly(toy, tmp_path, model):
    """Six steps are three and three: the same weights, bit for bit."""
    whole = trained(tmp_path / "whole", toy, model=model, steps=6)
    collection, benchmark = toy
    run = Run(benchmark.digest, model=model, steps=6, size=32, batch_size=4, eval_every=3)
    assert run.id == whole.name
    from shiftbench.training.loop import train

    with pytest.raises(Stop):
        train(benchmark, collection, run, tmp_path / "broken", device="cpu", progress=stop_at(3), checkpoint_seconds=0)
    broken = trained(tmp_path / "broken", toy, model=model, steps=6)
    one, other = weights_of(whole), weights_of(broken)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("method", ["coral", "group_dro", *(pytest.param(name, marks=pytest.mark.slow) for name in (
    "dann", "irm", "mixup", "jtt", "lff"))])
def test_methods_that_use_features_or_groups_take_a_step_on_any_module(toy, tmp_path, method):
    """Features, groups, two stages and a second net: all of them need no more than features and head."""
    run = trained(tmp_path, toy, method, model=TINY)
    assert (run / "done").is_file()
    assert sb.score(toy[1], run / "predictions.parquet").where(split="test", metric="accuracy")


def test_a_module_in_memory_is_trained_and_left_as_it_is(toy, tmp_path):
    """The run starts from the module's weights; the module itself does not change; the id has its digest."""
    torch.manual_seed(0)
    module = Small(2)
    before = weights_digest(module)
    run = trained(tmp_path, toy, model=module, size=16)
    assert weights_digest(module) == before
    facts = json.loads((run / "run.json").read_text())
    assert facts["run"]["model"].startswith("object:Small@")
    assert "only the same object" in facts["model"]["note"]
    assert trained(tmp_path, toy, model=module, size=16) == run
    module.last.bias.data += 1
    assert trained(tmp_path, toy, model=module, size=16) != run
    assert weights_of(run)["head.weight"].shape == module.last.weight.shape


def test_a_function_that_builds_a_module_is_a_model(toy, tmp_path):
    """Its nets are drawn from the run's seed, and the features are the inputs of the last layer called."""
    run = trained(tmp_path, toy, model=Small, size=16)
    name = json.loads((run / "run.json").read_text())["run"]["model"]
    assert torch.equal(build(name, 2, 16, seed=3).head.weight, build(name, 2, 16, seed=3).head.weight)
    assert not torch.equal(build(name, 2, 16, seed=3).head.weight, build(name, 2, 16, seed=4).head.weight)
    net, x = build(name, 2, 16).eval(), torch.randn(3, 3, 16, 16)
    assert torch.equal(net(x), net.head(net.features(x)))


def test_a_buffer_of_a_module_says_nothing_of_its_pixels(toy, tmp_path):
    """A module may normalise by itself: only numbers and tuples are facts about what it is fed."""
    module = Small(2)
    module.register_buffer("mean", torch.full((1, 3, 1, 1), 0.4))
    assert build(name_object(module, 2), 2, 16).mean == (127.5, 127.5, 127.5)
    module = Small(2)
    module.mean = [0.4, 0.4, 0.4]
    assert build(name_object(module, 2), 2, 16).mean == (102.0, 102.0, 102.0)


def test_a_module_on_columns_is_given_features(tmp_path):
    """With features= a module takes rows of numbers."""
    collection, plain = toy_rows(48)
    wide = replace(collection, factors={"feature:a": plain.label * 1.0, "feature:b": plain.domain * 1.0})
    words = {"label": np.asarray(["cat", "dog"])[plain.label], "domain": np.asarray(["in", "out"])[plain.domain]}
    benchmark = Benchmark.of(wide, None, 0, np.arange(48), plain.split, **words)
    mlp = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    run = sb.train(benchmark, "erm", tmp_path, collection=wide, model=mlp, features="columns", steps=2, device="cpu")
    assert weights_of(run)["head.weight"].shape == (2, 8)


def test_a_file_with_a_function_is_a_model(toy, tmp_path):
    """`my_file.py:build` is run; a file that has changed is not the same model."""
    file = tmp_path / "mine.py"
    file.write_text("from torch import nn\n\n\ndef build(n_classes):\n"
                    "    return nn.Sequential(nn.Flatten(), nn.Linear(768, 5), nn.ReLU(), nn.Linear(5, n_classes))\n\n"
                    "build.side, build.mean, build.std = 16, 0.5, (0.2, 0.2, 0.2)\n")
    run = trained(tmp_path / "runs", toy, model=f"{file}:build", size=0)
    assert weights_of(run)["head.weight"].shape == (2, 5)
    assert build(f"{file}:build", 2).std == (51.0, 51.0, 51.0)
    file.write_text(file.read_text().replace("5", "6"))
    with pytest.raises(ShiftBenchError, match=r"mine.py:build has changed since this run"):
        trained(tmp_path / "runs", toy, model=f"{file}:build", size=0)


def test_a_file_that_only_a_runs_folder_names_is_not_run(tmp_path):
    """Whoever gets a folder of runs from someone else does not run that one's code."""
    file = tmp_path / "theirs.py"
    file.write_text("raise SystemExit('I was run')\n")
    with pytest.raises(ShiftBenchError, match=r"is code, which is run only where you name it: --import .*theirs.py"):
        check_named(f"{file}:build", tmp_path)


def test_pretrained_weights_come_from_the_library_s_cache(tmp_path, monkeypatch):
    """A file in torch's cache is taken; for other classes than its own the head is new."""
    from torchvision.models import ShuffleNet_V2_X0_5_Weights, get_model

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    theirs = get_model("shufflenet_v2_x0_5").eval()
    file = tmp_path / "hub" / "checkpoints" / ShuffleNet_V2_X0_5_Weights.DEFAULT.url.rpartition("/")[2]
    file.parent.mkdir(parents=True)
    torch.save(theirs.state_dict(), file)
    net, x = build("torchvision:shufflenet_v2_x0_5", 2, 64, "pretrained").eval(), torch.randn(2, 3, 64, 64)
    whole = build("torchvision:shufflenet_v2_x0_5", 1000, 64, "pretrained").eval()
    assert torch.equal(whole(x), theirs(x))
    assert torch.equal(net.features(x), whole.features(x))
    assert net(x).shape == (2, 2)


def test_a_registered_builder_is_a_model(toy, tmp_path, monkeypatch):
    """A model of the catalogue with a builder is built by it."""
    monkeypatch.setitem(CATALOGUE, "mine", Model("", outside=True, builder=Small))
    assert weights_of(trained(tmp_path, toy, model="mine", size=16))["head.weight"].shape == (2, 256)


@pytest.fixture(scope="module")
def eyes(tmp_path_factory):
    """The folder of a tiny random encoder of images, without a head."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("eyes")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=8, **sizes)).save_pretrained(folder)
    looks = {"size": {"height": 16, "width": 16}, "image_mean": [0.4] * 3, "image_std": [0.2] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "ViTImageProcessor", **looks}))
    return folder


@pytest.mark.slow
def test_an_encoder_of_images_trains_from_its_folder(toy, tmp_path, eyes):
    """Side and normalisation are the image processor's; features are what the library's own head is fed."""
    import transformers

    run = trained(tmp_path, toy, model=f"hf:{eyes}", weights="pretrained", size=0)
    assert weights_of(run)["head.weight"].shape == (2, 16)
    net = build(f"hf:{eyes}", 2, 16, "pretrained").eval()
    assert (net.side, net.mean, net.std) == (16, (102.0,) * 3, (51.0,) * 3)
    x = torch.randn(2, 3, 16, 16)
    theirs = transformers.ViTModel.from_pretrained(eyes, add_pooling_layer=False).eval()
    assert torch.allclose(net.features(x), theirs(x).last_hidden_state[:, 0], atol=1e-6)
    assert not torch.equal(build(f"hf:{eyes}", 2, 16).eval().features(x), net.features(x))


def test_an_encoder_of_texts_trains_from_its_folder(tmp_path, folders):  # noqa: F811
    """Texts are cut by the folder's tokenizer, as many tokens as it and the model read; a method on features works."""
    collection, plain = toy_rows(24)
    texts = Texts(np.arange(24), np.asarray(["a good film", "the bad film"])[plain.label])
    worded = replace(collection, pixels=None, texts=texts)
    words = {"label": np.asarray(["cat", "dog"])[plain.label], "domain": np.asarray(["in", "out"])[plain.domain]}
    benchmark = Benchmark.of(worded, None, 0, np.arange(24), plain.split, **words)
    run = sb.train(benchmark, "coral", tmp_path, collection=worded, model=f"hf:{folders / 'bert'}", steps=2,
                   weights="pretrained", batch_size=4, device="cpu")
    assert weights_of(run)["head.weight"].shape == (2, 16)
    assert MODELS[f"hf:{folders / 'bert'}"].side == 20


def test_images_have_the_side_of_the_model_unless_the_run_says_another(toy):
    """A library's model is fed images of its own side; ours take them as they are."""
    collection, benchmark = toy
    sides = [load(benchmark, collection, Run(benchmark.digest, model=model, size=size), CPU, None).n_inputs
             for model, size in ((TINY, 0), (TINY, 32), ("small-cnn", 0))]
    assert sides == [160, 32, 16]


def test_pretrained_and_imagenet_are_one_word():
    """Both mean the weights that the library has, and give one id."""
    assert Run("", model=TINY, weights="imagenet") == Run("", model=TINY, weights="pretrained")
    assert Run("", model="resnet18", weights="pretrained") == Run("", model="resnet18", weights="imagenet")
    assert Run("", model=TINY, weights="imagenet").weights == "pretrained"


def test_a_file_of_the_library_s_own_weights_is_taken(tmp_path):
    """Tensors under the library's names become those of features and head; the head is new for other classes."""
    import timm

    theirs = timm.create_model("test_resnet", num_classes=3).eval()
    torch.save(theirs.state_dict(), tmp_path / "theirs.pth")
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(build(TINY, 3, 32, str(tmp_path / "theirs.pth")).eval()(x), theirs(x))
    net = build(TINY, 5, 32, str(tmp_path / "theirs.pth")).eval()
    assert torch.equal(net.features(x), theirs.forward_head(theirs.forward_features(x), pre_logits=True))


def test_a_run_from_random_weights_says_so(toy):
    """Whoever names a published model may expect its weights."""
    run = Run(toy[1].digest, model=TINY)
    stage = next(run.learner().fit())
    task = load(toy[1], toy[0], Run(toy[1].digest, model=TINY, size=32), CPU, None).task(8)
    assert [note for note in notes_of(run, stage, task, 0, toy[1]) if "starts from random weights" in note]
    assert not notes_of(Run(toy[1].digest, model=TINY, weights="pretrained"), stage, task, 0, toy[1])


def test_a_net_that_draws_random_numbers_is_not_recorded():
    """Steps of a net with stochastic depth are not recorded, and the reason is a sentence; dropout layers are ours."""
    assert build(TINY, 2, 32).recordable
    net = build("torchvision:efficientnet_b0", 2, 32)
    assert (net.recordable, net.unrecordable) == (False, "it draws random numbers as it learns")
    net = build(name_object(Small, 2, 16), 2, 16)
    assert not draws(net, net.example())
    assert "may look at the data" in net.unrecordable


def test_a_net_whose_recording_fails_takes_plain_steps(toy, tmp_path, monkeypatch):
    """A run does not end because its net's code cannot be recorded; its log says why the steps are plain."""
    from shiftbench.training import loop

    class Failing:
        def __init__(self, lanes) -> None:
            raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(loop, "Graphed", Failing)
    monkeypatch.setattr(loop, "_stepper_of", lambda lane: Failing if lane.net.recordable else loop.Plain)
    run = trained(tmp_path, toy, model=TINY)
    assert "not permitted when stream is capturing" in (run / "log.jsonl").read_text()


def test_a_model_of_the_user_takes_images_as_they_are(toy, tmp_path, monkeypatch):
    """Without a side of its own, and without the run's size, nothing is resized."""
    monkeypatch.setitem(CATALOGUE, "mine", Model(outside=True, builder=Small))
    assert weights_of(trained(tmp_path, toy, model="mine", size=0))["head.weight"].shape == (2, 256)


def test_a_library_s_net_makes_cached_features(toy, tmp_path):
    """They are those of its own side and normalisation, and lie in a folder whose name any disk bears."""
    from shiftbench.training.inputs import embed

    values = embed(toy[0], np.arange(3), TINY, 0, tmp_path, weights="none", device="cpu")
    net = build(TINY, 1, 160).eval()
    data = load(toy[1], toy[0], Run(toy[1].digest, model=TINY), CPU, None)
    assert np.allclose(values, data.outputs(net, np.arange(3), part=net.features).numpy(), atol=1e-5)
    assert (tmp_path / "features").is_dir()
    assert next((tmp_path / "features").iterdir()).name.startswith("timm_test_resnet@160-")


def test_layers_that_are_exchanged_compute_the_same():
    """Pooling to a grid is ours, and gives what torch's gives; to one place it is torch's, which repeats."""
    pools, x = nn.Sequential(nn.AdaptiveAvgPool2d((3, 3)), nn.AdaptiveAvgPool2d(1)), torch.randn(2, 4, 7, 8)
    theirs = pools[0](x)
    ours = with_own_pooling(pools)
    assert [type(part) is nn.AdaptiveAvgPool2d for part in ours] == [False, True]
    assert torch.allclose(ours[0](x), theirs, atol=1e-6)


def bad(n_classes: int) -> nn.Module:
    raise RuntimeError("no such width")


@pytest.mark.parametrize(("model", "settings", "words"), [
    (Small(3), {}, r"Model 'object:Small@\w+' gives 3 outputs, but there are 2 classes"),
    (bad, {}, r"Model 'bad': its builder fails for 2 outputs \(RuntimeError: no such width\)"),
    (lambda n: n, {}, "its builder gives int, not an nn.Module"),
    (nn.Sequential(nn.Flatten(), nn.Linear(768, 2), nn.Softmax(1)), {}, "does not end in an nn.Linear"),
    (nn.Sequential(nn.Linear(5, 2)), {}, r"fails on a batch of shape \(2, 3, 16, 16\)"),
    (3.5, {}, "model: float is neither a name, nor an nn.Module"),
    ("timm:resnet1t", {}, "No timm model named 'resnet1t'. Nearest: resnet14t, resnet10t"),
    ("no_such.py:build", {}, "Model 'no_such.py:build': there is no file"),
    ("object:Gone@123", {}, "was a module in memory, which this process does not have"),
    (TINY, {"features": "columns"}, "takes images, so features='columns' has no use"),
    (TINY, {"method": "sagnet"}, "does not have. Models that do"),
    (Small(2), {"weights": "pretrained"}, "has no pretrained weights of its own"),
])
def test_a_model_that_cannot_be_trained_is_one_clear_line(toy, tmp_path, model, settings, words):
    """The line names what the user passed and what is wrong with it."""
    with pytest.raises(ShiftBenchError, match=words):
        trained(tmp_path, toy, model=model, **{"size": 16, **settings})


def test_a_library_that_is_not_installed_is_one_line(monkeypatch):
    """The line says which package to install."""
    import sys

    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ShiftBenchError, match=r"Model 'timm:test_vit2' needs the package timm.*pip install timm"):
        build("timm:test_vit2", 2)


REFUSED = {
    "a name that timm has not": ("timm:resnt18", "resnt18"),
    "too many outputs": (lambda n_classes: nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, n_classes + 3)),
                         "5 outputs, but there are 2 classes"),
    "another side": (lambda n_classes: nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, n_classes)),
                     "fails on a batch of shape"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_refused_model_leaves_no_run(toy, tmp_path, fault):
    """Nothing was trained, so nothing is unfinished: the folder of runs has no run."""
    model, message = REFUSED[fault]
    with pytest.raises(ShiftBenchError, match=message):
        trained(tmp_path, toy, model=model)
    assert states(tmp_path) == {}


def test_a_run_that_breaks_after_a_checkpoint_stays(toy, tmp_path):
    """It resumes, so it is unfinished."""
    collection, benchmark = toy
    run = Run(benchmark.digest, model="pixel-mlp", steps=6, size=16, batch_size=4, eval_every=3)
    from shiftbench.training.loop import train

    with pytest.raises(Stop):
        train(benchmark, collection, run, tmp_path, device="cpu", progress=stop_at(3), checkpoint_seconds=0)
    assert states(tmp_path) == {run.id: "unfinished"}
