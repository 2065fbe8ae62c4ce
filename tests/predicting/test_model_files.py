"""Tiny random models of each library, made here: predictions are what the library itself computes."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from tests.predicting.test_predict import task


def onnx_file(path, layout="NCHW", batch="N", classes=None, softmax=False):
    """The mean of each channel is a class: a model whose answers are known."""
    from onnx import TensorProto, helper

    shape = [batch, 3, 16, 16] if layout == "NCHW" else [batch, 16, 16, 3]
    axes = [2, 3] if layout == "NCHW" else [1, 2]
    nodes = [helper.make_node("ReduceMean", ["image", "axes"], ["mean"], keepdims=0)]
    nodes += [helper.make_node("Softmax", ["mean"], ["out"], axis=1) if softmax else
              helper.make_node("Mul", ["mean", "ten"], ["out"])]
    graph = helper.make_graph(
        nodes, "means", [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [batch, 3])],
        [helper.make_tensor("axes", TensorProto.INT64, [2], axes), helper.make_tensor("ten", TensorProto.FLOAT, [1],
                                                                                      [-10.0])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    if classes:
        helper.set_model_props(model, {"classes": json.dumps(classes)})
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(("layout", "batch"), [("NCHW", "N"), ("NHWC", "N"), ("NCHW", 7)])
def test_an_onnx_file_says_its_input_and_its_classes(tmp_path, layout, batch):
    """Layout, a fixed number of items and the names of classes are the file's; mean and std are the user's."""
    collection, benchmark = task()
    file = onnx_file(tmp_path / "m.onnx", layout, batch, ["cat", "fox", "dog"])
    predictions = sb.predict(benchmark, file, collection=collection, batch_size=16, mean="0.5", std=[0.5, 0.25, 0.5])
    x = (collection.pixels.mean(axis=(1, 2)) / 255 - 0.5) / [0.5, 0.25, 0.5]
    logits = torch.from_numpy(-10 * x).log_softmax(dim=1).numpy()[:, [0, 2]]
    np.testing.assert_allclose(predictions.scores, logits, atol=1e-4)


def test_an_onnx_file_that_ends_in_a_softmax_gives_probabilities(tmp_path):
    """They are seen to sum to 1; the wrong number of outputs is one line."""
    collection, benchmark = task()
    file = onnx_file(tmp_path / "m.onnx", softmax=True)
    predictions = sb.predict(benchmark, file, collection=collection, classes=["cat", "dog", "x"])
    expected = torch.from_numpy(collection.pixels.mean(axis=(1, 2)) / 255).log_softmax(dim=1).numpy()[:, :2]
    np.testing.assert_allclose(predictions.scores, expected, atol=1e-5)
    with pytest.raises(ShiftBenchError, match=r"m\.onnx: has 3 outputs without names, but there are 2 labels"):
        sb.predict(benchmark, file, collection=collection)
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(ShiftBenchError, match=r"bad\.onnx: not a model that onnxruntime reads"):
        sb.predict(benchmark, tmp_path / "bad.onnx", collection=collection)


def test_a_timm_net_sees_what_timm_prepares(tmp_path):
    """The logits are those of timm's own evaluation; the batch size changes them by rounding alone."""
    import timm

    collection, benchmark = task(10)
    net = timm.create_model("test_resnet", pretrained=False).eval()
    torch.save(net.state_dict(), tmp_path / "w.pt")
    told = {"tench": "cat", "goldfish": "dog"}
    predictions = sb.predict(benchmark, "timm:test_resnet", collection=collection, weights=str(tmp_path / "w.pt"),
                             map=told, batch_size=4)
    transform = timm.data.create_transform(**timm.data.resolve_data_config({}, model=net))
    with torch.inference_mode():
        x = torch.stack([transform(Image.fromarray(pixels)) for pixels in collection.pixels])
        expected = net(x).log_softmax(dim=1)[:, :2].numpy()
    np.testing.assert_allclose(predictions.scores, expected, atol=1e-4)
    again = sb.predict(benchmark, "timm:test_resnet", collection=collection, weights=str(tmp_path / "w.pt"), map=told,
                       batch_size=4)
    np.testing.assert_array_equal(predictions.scores, again.scores)


def test_a_module_in_memory_is_given_pixels_from_0_to_1():
    """mean and std are the user's; `classes` are an attribute."""
    collection, benchmark = task()

    class Net(torch.nn.Module):
        classes = ("dog", "cat")

        def forward(self, x):
            return torch.stack([x.mean(dim=(1, 2, 3)), -x.mean(dim=(1, 2, 3))], dim=1)

    predictions = sb.predict(benchmark, Net(), collection=collection, mean=0.4)
    assert (predictions.predicted == benchmark.label).all()


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A tiny BERT with a tiny tokenizer: a classifier of texts, and the same net as a model of inference."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "dark", "bright", "this", "example", "is", "cat", "dog", "."]
    marks = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), words, strict=False))
    cut = Tokenizer(models.WordLevel({word: code for code, word in enumerate(words)}, unk_token=marks["unk_token"]))
    cut.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    cut.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    for name, classes in (("texts", ["dog", "cat", "fox"]), ("nli", ["contradiction", "neutral", "entailment"])):
        config = BertConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                            intermediate_size=16, max_position_embeddings=32,
                            id2label=dict(enumerate(classes)), label2id={word: code for code, word in
                                                                         enumerate(classes)})
        BertForSequenceClassification(config).save_pretrained(folder / name)
        PreTrainedTokenizerFast(tokenizer_object=cut, model_max_length=32, **marks).save_pretrained(folder / name)
    return folder


def logits_of(folder, *texts):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    with torch.inference_mode():
        return AutoModelForSequenceClassification.from_pretrained(folder).eval()(
            **AutoTokenizer.from_pretrained(folder)(*texts, padding=True, return_tensors="pt")).logits


def test_a_text_classifier_gives_its_own_logits_by_class_name(bert):
    """Classes in another order are put in order by name; `fox` counts for no label."""
    collection, benchmark = task(texts=True)
    lines = []
    predictions = sb.predict(benchmark, f"hf:{bert / 'texts'}", collection=collection, batch_size=7, say=lines.append)
    expected = logits_of(bert / "texts", list(collection.texts.text)).log_softmax(dim=1)[:, [1, 0]].numpy()
    np.testing.assert_allclose(predictions.scores, expected, atol=1e-5)
    assert "classes that count for no label: fox" in lines


@pytest.mark.slow
def test_zero_shot_inference_is_a_softmax_over_entailment_logits(bert):
    """Of each hypothesis; a model without a class of entailment is refused."""
    collection, benchmark = task(texts=True)
    predictions = sb.predict(benchmark, f"hf-nli:{bert / 'nli'}", collection=collection, batch_size=7,
                             prompt="this is {}.")
    texts = list(collection.texts.text)
    columns = [logits_of(bert / "nli", texts, [f"this is {label}."] * len(texts))[:, 2] for label in ("cat", "dog")]
    expected = torch.stack(columns, dim=1).log_softmax(dim=1).numpy()
    np.testing.assert_allclose(predictions.scores, expected, atol=1e-5)
    with pytest.raises(ShiftBenchError, match=r"texts: none of its classes \(.*\) is entailment"):
        sb.predict(benchmark, f"hf-nli:{bert / 'texts'}", collection=collection)


def test_a_net_without_a_head_is_not_run(tmp_path):
    """It would get a random head; an unfinished run and one that kept no weights are refused too, in one line each."""
    from transformers import BertConfig, BertModel

    collection, benchmark = task(texts=True)
    BertModel(BertConfig(vocab_size=12, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                         intermediate_size=16)).save_pretrained(tmp_path / "bare")
    with pytest.raises(ShiftBenchError, match="bare: is BertModel, not a classifier of images or texts"):
        sb.predict(benchmark, f"hf:{tmp_path / 'bare'}", collection=collection)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(ShiftBenchError, match="run: the run is not finished"):
        sb.predict(benchmark, tmp_path / "run", collection=collection)
    (tmp_path / "run" / "done").write_text("")
    with pytest.raises(ShiftBenchError, match=r"run: has no checkpoint\.safetensors"):
        sb.predict(benchmark, tmp_path / "run", collection=collection)


def test_clip_compares_an_image_with_the_mean_of_its_prompts(tmp_path):
    """Text embeddings of length 1 are averaged over prompts and scaled to length 1 again, as CLIP's authors do."""
    import open_clip
    from safetensors.torch import save_model

    collection, benchmark = task(12)
    config = {"embed_dim": 8, "vision_cfg": {"image_size": 32, "layers": 1, "width": 16, "head_width": 8,
                                             "patch_size": 16},
              "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 8, "heads": 1, "layers": 1}}
    (tmp_path / "tiny-clip.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / "tiny-clip.json")
    torch.manual_seed(0)
    net, _, transform = open_clip.create_model_and_transforms("tiny-clip")
    save_model(net, tmp_path / "w.safetensors")
    prompts = ["a photo of a {}", "a drawing of a {}"]
    predictions = sb.predict(benchmark, f"openclip:tiny-clip/{tmp_path / 'w.safetensors'}", collection=collection,
                             prompt=prompts, batch_size=5)
    cut = open_clip.get_tokenizer("tiny-clip")
    with torch.inference_mode():
        net = net.eval()
        text = torch.stack([net.encode_text(cut([prompt.format(name) for prompt in prompts]), normalize=True).mean(0)
                            for name in ("cat", "dog")])
        text /= text.norm(dim=-1, keepdim=True)
        image = net.encode_image(torch.stack([transform(Image.fromarray(one)) for one in collection.pixels]),
                                 normalize=True)
        expected = (net.logit_scale.exp() * image @ text.T).log_softmax(dim=1).numpy()
    np.testing.assert_allclose(predictions.scores, expected, atol=1e-4)
    with pytest.raises(ShiftBenchError, match="openclip:tiny-clip: names no weights that exist"):
        sb.predict(benchmark, "openclip:tiny-clip", collection=collection)
    with pytest.raises(ShiftBenchError, match=r"chooses among labels.*--label NAME"):
        sb.predict(collection, "openclip:tiny-clip/x")


def test_an_image_classifier_of_transformers_sees_what_its_processor_prepares(tmp_path):
    """The logits are those of the library's own processor and net."""
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    collection, benchmark = task(6)
    torch.manual_seed(0)
    net = ViTForImageClassification(ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=16,
        id2label={0: "dog", 1: "cat"}, label2id={"dog": 0, "cat": 1})).eval()
    net.save_pretrained(tmp_path)
    processor = ViTImageProcessor(size={"height": 32, "width": 32})
    processor.save_pretrained(tmp_path)
    predictions = sb.predict(benchmark, f"hf:{tmp_path}", collection=collection, batch_size=4)
    with torch.inference_mode():
        x = processor(images=[Image.fromarray(one) for one in collection.pixels], return_tensors="pt")
        expected = net(**x).logits.log_softmax(dim=1)[:, [1, 0]].numpy()
    np.testing.assert_allclose(predictions.scores, expected, atol=1e-4)


def test_a_finished_run_predicts_its_own_benchmark_as_it_did(tmp_path):
    """And another benchmark with the same names of classes."""
    collection, _ = task(40)
    collection.save(tmp_path / "toy")
    sb.build(sb.IID("animal"), tmp_path / "bench", collection=sb.Collection.load(tmp_path / "toy"))
    run = sb.train(tmp_path / "bench", "erm", tmp_path / "runs", model="small-cnn", steps=3, batch_size=8)
    benchmark = sb.Benchmark.load(tmp_path / "bench")
    own = sb.Predictions.load(run / "predictions.parquet", benchmark)
    predictions = sb.predict(tmp_path / "bench", run, batch_size=40)
    order = np.argsort(predictions.item)[np.argsort(np.argsort(own.item))]
    expected = torch.from_numpy(own.scores).log_softmax(dim=1).numpy()
    np.testing.assert_allclose(predictions.scores[order], expected, atol=1e-4)
