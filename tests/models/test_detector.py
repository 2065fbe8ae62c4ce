"""Detectors: a loss for every image that is torchvision's, boxes inside their image, and squares that are found."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.models import get_model
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN
from torchvision.models.detection.roi_heads import RoIHeads
from torchvision.models.detection.rpn import RegionProposalNetwork
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.ops import MultiScaleRoIAlign, roi_align

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection, Tags
from shiftbench.data.prediction_lists import Answers
from shiftbench.methods import METHODS, Batch
from shiftbench.methods.method import Task
from shiftbench.models import MODELS, build
from shiftbench.models.detector import Sampler, by_products, regions
from shiftbench.models.net import load_into
from shiftbench.scoring.beyond_classes import detection_accuracy
from shiftbench.shifts.splits import Given
from shiftbench.training.loop import train
from shiftbench.training.run import Run

torch.set_num_threads(1)
SMALL = "faster-rcnn-small"
NAMES = [SMALL, "faster-rcnn"]


def squares(n: int, seed: int = 0, least: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of 64 px: at most one bright box in each quarter of a dark ground, and the boxes in pixels."""
    rng = np.random.default_rng(seed)
    x = rng.normal(-0.8, 0.1, (n, 3, 64, 64)).astype(np.float32)
    boxes = np.full((n, 4, 4), np.nan, np.float32)
    for image in range(n):
        for place, quarter in enumerate(rng.permutation(4)[:rng.integers(least, 4)]):
            height, width = rng.integers(8, 25, 2)
            top = quarter // 2 * 32 + rng.integers(0, 32 - height)
            left = quarter % 2 * 32 + rng.integers(0, 32 - width)
            x[image, :, top:top + height, left:left + width] = rng.uniform(0.4, 1, (3, 1, 1))
            boxes[image, place] = left, top, left + width, top + height
    return torch.from_numpy(x), torch.from_numpy(boxes)


def seeded(net, x, boxes, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return net.losses(x, boxes)


def accuracy(net, x, boxes) -> float:
    found = net.detect(x)
    return float(detection_accuracy([one[~np.isnan(one[:, 0])] for one in boxes.numpy()],
                                    [box.numpy() for box, _ in found], [score.numpy() for _, score in found]).mean())


def torchvision_of(net) -> GeneralizedRCNN:
    """torchvision's own detector, with its own losses, over the layers of a net of ours."""
    one, two = net.rpn, net.choice
    rpn = RegionProposalNetwork(one.anchor_generator, one.head, 0.7, 0.3, 1, 0.5, one._pre_nms_top_n,
                                one._post_nms_top_n, 0.7)
    rpn.fg_bg_sampler = one.fg_bg_sampler
    hidden = TwoMLPHead(net.features.hidden["fc6"].in_features, net.width)
    hidden.load_state_dict(net.features.hidden.state_dict())
    last = FastRCNNPredictor(net.width, 2)
    last.cls_score.weight.data = torch.cat([net.head.ground.weight, net.head.weight]).detach()
    last.cls_score.bias.data = torch.cat([net.head.ground.bias, net.head.bias]).detach()
    last.bbox_pred.load_state_dict(net.head.moves.state_dict())
    pool = MultiScaleRoIAlign(net.features.pooled, net.features.side, 2)
    heads = RoIHeads(pool, hidden, last, 0.5, 0.5, 1, 0.25, None, 0.05, 0.5, 100)
    heads.fg_bg_sampler = two.fg_bg_sampler
    same = GeneralizedRCNNTransform(64, 64, [0.0] * 3, [1.0] * 3, _skip_resize=True)  # which would draw a size
    return GeneralizedRCNN(net.features.body, rpn, heads, same)


# ------------------------------------------------------------------------------------------------------------- losses

@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_mean_of_the_losses_is_torchvisions(name):
    """Where every image gives as many anchors and proposals, torchvision's four losses of the batch add up to our mean
    over images; for one image always."""
    net = build(name, 1).train()
    net.rpn.fg_bg_sampler, net.choice.fg_bg_sampler = Sampler(32, 0.5), Sampler(8, 0.25)
    x, boxes = squares(3, least=1)
    truth = [{"boxes": one[~one.isnan().any(dim=1)], "labels": torch.ones(int((~one[:, 0].isnan()).sum())).long()}
             for one in boxes]
    theirs = torchvision_of(net).train()
    for part in (slice(0, 3), slice(1, 2)):
        torch.manual_seed(3)
        expected = sum(theirs(list(x[part]), truth[part]).values())
        torch.testing.assert_close(seeded(net, x[part], boxes[part], 3).mean(), expected)


def test_other_images_change_nothing():
    """The loss of an image is the same bit for bit beside any other images: nothing is shared but the weights."""
    net = build(SMALL, 1).train()
    x, boxes = squares(6)
    first = seeded(net, x[:3], boxes[:3])
    other = seeded(net, torch.cat([x[3:5], x[2:3]]), torch.cat([boxes[3:5], boxes[2:3]]))
    assert first[2] == other[2]
    assert (first[:2] != other[:2]).all()
    assert not torch.equal(seeded(net, x[:3], boxes[:3], 1), first)  # what is learnt from is drawn
    assert torch.equal(seeded(net.eval(), x[:3], boxes[:3]), first)


def test_an_image_may_be_empty():
    """Without boxes the loss is a finite number with a gradient; a box without an area is no box."""
    net = build(SMALL, 1).train()
    x, boxes = squares(2, least=2)
    nothing = torch.full_like(boxes, torch.nan)
    losses = seeded(net, x, nothing)
    assert losses.shape == (2,)
    assert torch.isfinite(losses).all()
    losses.sum().backward()
    assert all(torch.isfinite(one.grad).all() for one in net.parameters() if one.grad is not None)
    assert net.head.ground.weight.grad.abs().sum() > 0
    flat = nothing.clone()
    flat[:, 0] = torch.tensor([5.0, 5, 5, 30])
    assert torch.equal(seeded(net, x, flat), losses)
    assert torch.equal(seeded(net, x, torch.cat([nothing, boxes], dim=1)), seeded(net, x, boxes))


@pytest.mark.slow
@given(st.lists(st.sampled_from([-1, 0, 1, 2]), min_size=1, max_size=40), st.integers(1, 12), st.floats(0, 1))
def test_a_sample_is_as_large_as_it_can_be(kinds, n, share):
    """Of the things at most their share is drawn, of the rest what fills the number, never what is neither."""
    kind = torch.tensor(kinds)
    (things,), (others,) = Sampler(n, share)([kind])
    assert int(things.sum()) == min(int((kind >= 1).sum()), int(n * share))
    assert int(others.sum()) == min(int((kind == 0).sum()), n - int(things.sum()))
    assert (kind[things] >= 1).all()
    assert (kind[others] == 0).all()


def test_kinds_are_not_learnt():
    """Boxes do not say which kind they are of: with several kinds learning is an error, looking is not."""
    net = build(SMALL, 3)
    x, boxes = squares(2)
    with pytest.raises(ShiftBenchError, match=f"'{SMALL}' learns boxes of one kind; got 3 kinds"):
        net.losses(x, boxes)
    assert net(x).shape == (2, 3)
    assert len(net.detect(x)) == 2


# -------------------------------------------------------------------------------------------------------------- boxes

@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [(SMALL, (64, 64)), (SMALL, (50, 90)), ("faster-rcnn", (70, 40))])
def test_found_boxes_lie_in_the_image(name, size):
    """Boxes have an area inside the image, also where its sides are no multiple of 32; scores fall from below 1."""
    net = build(name, 1)
    with torch.inference_mode():
        found = net.detect(torch.randn(3, 3, *size, generator=torch.Generator().manual_seed(0)))
    assert len(found) == 3
    assert sum(len(boxes) for boxes, _ in found) > 0
    for boxes, scores in found:
        assert len(boxes) == len(scores) <= 100
        assert (boxes[:, :2] >= 0).all()
        assert (boxes[:, 2:] <= torch.tensor(size[::-1])).all()
        assert (boxes[:, 2:] > boxes[:, :2]).all()
        assert ((scores > 0.05) & (scores <= 1)).all()
        assert (scores.diff() <= 0).all()
    x, boxes = squares(1, least=1)
    net.losses(x, boxes).sum().backward()  # what was made while looking serves in learning


@pytest.mark.learning
def test_squares_are_found():
    """Sixty steps on drawn images bring the accuracy on new ones from nothing to nearly all, boxes and scores both."""
    net = build(SMALL, 1)
    x, boxes = squares(160)
    new = squares(40, seed=1)
    assert accuracy(net, *new) < 0.2
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for step in range(60):
        torch.manual_seed(step)
        chosen = torch.randint(len(x), (8,))
        optimizer.zero_grad()
        net.losses(x[chosen], boxes[chosen]).mean().backward()
        optimizer.step()
    assert accuracy(net, *new) > 0.8


def test_it_is_learnt_by_methods():
    """ERM minimises the mean of the losses, Group DRO the groups' means by their weights: first all alike."""
    net = build(SMALL, 1)
    x, boxes = squares(4)
    code = torch.tensor([0, 1, 1, 1])
    batch = Batch(x, boxes, code, code, torch.arange(4), loss="")
    task = Task(1, 2, 2, net.width, torch.tensor([[1], [3]]), torch.tensor([1, 3]))
    losses = seeded(net, x, boxes)
    for name, expected in (("erm", losses.mean()), ("group_dro", (losses[0] + losses[1:].mean()) / 2)):
        method = METHODS[name](**({"step_size": 0.0} if name == "group_dro" else {}))
        torch.manual_seed(0)
        torch.testing.assert_close(method.loss(net, batch, method.state(task), 0), expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["erm", "group_dro"])
def test_a_run_ends_in_answers(method, tmp_path):
    """A run on boxes of a collection writes boxes as shares of the image for every item, and the same ones when it is
    run again."""
    x, boxes = squares(24)
    item, place = np.nonzero(~np.isnan(boxes[:, :, 0].numpy()))
    box = boxes.numpy()[item, place] / 64
    pixels = ((x.numpy().clip(-1, 1) + 1) * 127.5).astype(np.uint8).transpose(0, 2, 3, 1)
    collection = Collection(
        "squares", np.asarray([f"i{k:02d}" for k in range(24)]),
        factors={"split": np.repeat(["train", "id_val", "test"], 8), "field": np.tile(["north", "south"], 12)},
        tags=Tags.of(item, np.zeros(len(item), np.int64), ("square",),
                     boxes=np.concatenate([box[:, :2], box[:, 2:] - box[:, :2]], axis=1)),
        pixels=np.ascontiguousarray(pixels))
    benchmark = Given("square", domain="field", target="boxes").build(collection)
    run = Run(benchmark.digest, method, model=SMALL, steps=4, batch_size=4, eval_every=2)
    first, again = (Answers.load(train(benchmark, collection, run, tmp_path / name) / "predictions.parquet", benchmark)
                    for name in ("first", "again"))
    assert first == again
    assert first.item.tolist() == benchmark.items.tolist()
    row, found, _ = first.boxes()
    assert len(np.unique(row)) == 24
    assert ((found >= 0) & (found <= 1)).all()


def test_half_precision_keeps_places():
    """Under bfloat16 boxes are as exact as pixels need, and the losses near those of 32 bits."""
    net = build(SMALL, 1)
    x, boxes = squares(4, least=1)
    with torch.autocast("cpu", torch.bfloat16):
        half = seeded(net, x, boxes)
        found = net.detect(x)
    assert all(box.dtype == score.dtype == torch.float32 for box, score in found)
    torch.testing.assert_close(half, seeded(net, x, boxes), rtol=0.05, atol=0.05)


# ------------------------------------------------------------------------------------------------------------ regions

@settings(max_examples=25)
@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1.0, 0.5, 0.25]))
def test_regions_by_products(seed, height, width, scale):
    """Products of weights give what torchvision's kernel gives, and its gradient, also for boxes beyond the map."""
    rng = torch.Generator().manual_seed(seed)
    plane = torch.randn(2, 3, height, width, generator=rng, dtype=torch.float64)
    corner = torch.rand(5, 2, generator=rng, dtype=torch.float64) * 14 / scale - 3
    box = torch.cat([corner, corner + torch.rand(5, 2, generator=rng, dtype=torch.float64) * 8 / scale], dim=1)
    image = torch.tensor([0, 0, 1, 1, 1])
    mine, theirs = plane.clone().requires_grad_(), plane.clone().requires_grad_()
    first = by_products(mine, image, box, scale, 4)
    other = roi_align(theirs, torch.cat([image[:, None].double(), box], dim=1), 4, scale, 2)
    torch.testing.assert_close(first, other, rtol=0, atol=1e-9)
    weight = torch.randn(first.shape, generator=rng, dtype=torch.float64)
    (first * weight).sum().backward()
    (other * weight).sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad, rtol=0, atol=1e-9)


def test_a_region_is_seen_on_the_map_of_its_size():
    """Of four maps each box is looked at on that on which torchvision looks at it."""
    rng = torch.Generator().manual_seed(0)
    maps = {str(k): torch.randn(2, 3, 128 >> k, 128 >> k, generator=rng) for k in range(4)}
    side = 2 ** (torch.rand(60, generator=rng) * 6 + 3)
    corner = torch.rand(60, 2, generator=rng) * (512 - side[:, None]).clamp(min=0)
    boxes = list(torch.cat([corner, corner + side[:, None]], dim=1).split([25, 35]))
    expected = MultiScaleRoIAlign(list(maps), 7, 2)(maps, boxes, [(512, 512)] * 2)
    torch.testing.assert_close(regions(list(maps.values()), boxes, 512, 7), expected)


# ------------------------------------------------------------------------------------------------------------ weights

def old_names(key: str) -> str:
    """As in the file that torchvision publishes."""
    return key.replace("rpn.head.conv.0.0.", "rpn.head.conv.") if "blocks" not in key else key.replace(".0.weight",
        ".weight").replace(".0.bias", ".bias")


@pytest.mark.slow
def test_a_file_of_torchvision_finds_what_torchvision_finds(tmp_path):
    """A detector's file gives torchvision's own boxes; names as published are those of now; of a file with other kinds
    all is taken but the head."""
    theirs = get_model("fasterrcnn_resnet50_fpn", weights=None, weights_backbone=None, num_classes=2, min_size=96,
                       max_size=96, image_mean=[0.0] * 3, image_std=[1.0] * 3).eval()
    with torch.no_grad():
        for part in theirs.modules():
            if hasattr(part, "bn3"):
                part.bn3.weight.fill_(0.3)
    x = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    state = theirs.state_dict()
    torch.save(state, tmp_path / "now.pth")
    net = build("faster-rcnn", 1, weights=str(tmp_path / "now.pth"), seed=1)
    with torch.inference_mode():
        for (boxes, scores), other in zip(net.detect(x), theirs(list(x)), strict=True):
            torch.testing.assert_close(boxes, other["boxes"])
            torch.testing.assert_close(scores, other["scores"])
    assert [net.rename(old_names(key)) for key in state] == [net.rename(key) for key in state]
    assert any(old_names(key) != key for key in state)
    assert sum(one.numel() for one in net.parameters()) == sum(
        one.numel() for name, one in theirs.named_parameters() if "bn" not in name and "downsample.1" not in name)
    before = net.head.moves.weight.clone()
    coco = {key: value.repeat_interleave(4, dim=0) if "box_predictor" in key else value + 1
            for key, value in state.items()}
    load_into(net, net.completed({net.rename(key): value for key, value in coco.items()}), Path("coco"))
    assert torch.equal(net.head.moves.weight, before)
    assert torch.equal(net.rpn.head.cls_logits.weight, state["rpn.head.cls_logits.weight"] + 1)


@pytest.mark.slow
def test_a_resnet_is_a_beginning():
    """Of a ResNet-50's file, torchvision's or ours, the body is taken and the rest stays fresh; its first layers then
    no longer learn."""
    source = build("resnet50", 5, seed=7).features.state_dict()
    net = build("faster-rcnn", 1, seed=1)
    fresh = {key: value.clone() for key, value in net.state_dict().items()}
    for before, extra in (("", "fc.weight"), ("features.", "head.weight")):
        net.load_state_dict(fresh)
        file = {f"{before}{key}": value for key, value in source.items()} | {extra: torch.zeros(5, 2048)}
        load_into(net, net.completed({net.rename(key): value for key, value in file.items()}), Path("file"))
        for key, value in net.state_dict().items():
            name = key.removeprefix("features.body.body.")
            assert torch.equal(value, source[name] if name != key else fresh[key]), key
    x, boxes = squares(1, least=1)
    net.losses(x, boxes).sum().backward()
    learns = {name: one.grad is not None for name, one in net.features.body.body.named_parameters()}
    assert learns == {name: not name.startswith(("conv1", "layer1")) for name in learns}


@pytest.mark.slow
def test_without_weights_all_layers_learn():
    """A net without a file starts with values of moderate size, and each of its layers has a gradient."""
    net = build("faster-rcnn", 1)
    x, boxes = squares(2, least=2)
    assert net.features.body(x)["0"].std() < 10
    losses = net.losses(x, boxes)
    assert (losses < 10).all()
    losses.sum().backward()
    assert all(one.grad is not None and torch.isfinite(one.grad).all() for one in net.parameters())
    assert sum(one.numel() for one in net.parameters()) / 1e6 == pytest.approx(41.30, abs=0.005)
    assert MODELS["faster-rcnn"].mean == MODELS["resnet50"].mean


@pytest.mark.slow
def test_another_file_is_told(tmp_path):
    """A file of another net, and a ResNet that lacks a layer, are errors that name the file."""
    net = build("faster-rcnn", 1)
    for source, drop in (("small-cnn", "no such"), ("resnet50", "layer3.0.conv1")):
        tensors = {key: value for key, value in build(source, 2).state_dict().items() if drop not in key}
        with pytest.raises(ShiftBenchError, match=r"file\.pth: does not belong to this model"):
            load_into(net, net.completed({net.rename(key): value for key, value in tensors.items()}), Path("file.pth"))
