"""The models of Wiles et al.: sizes, feature maps, the transformer, its dropout, and the β-VAE."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.generative import BetaVAE, Decoder, Encoder
from shiftbench.models.image_nets import HEADS, INNER, WIDTH, patch_of
from shiftbench.models.names import image_models
from shiftbench.models.net import LEVELS, MODELS, Dropout, build

torch.set_num_threads(1)
WITH_MAPS = ["densenet121", "efficientnet-lite0", "resnet101", "resnet18", "resnet18-ms", "resnet34", "resnet50",
             "small-cnn", "vit"]
IMAGES = sorted(image_models())
SIDES = {name: 64 if name == "alexnet" else 32 for name in MODELS}


def images(n: int = 2, side: int = 32) -> torch.Tensor:
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(0))


def size(net: nn.Module) -> int:
    return sum(value.numel() for value in net.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "millions"), [
    ("resnet18", 11.18), ("resnet50", 23.51), ("resnet101", 42.51), ("pixel-mlp", 3.34), ("vit", 4.30)])
def test_parameters_are_those_of_table_3(name, millions):
    """At 64 px and three classes the nets are as large as the paper's Table 3 and our docstrings say."""
    assert round(size(build(name, 3, 64)) / 1e6, 2) == millions


def test_table_3_counts_another_transformer():
    """The 85.66 million of Table 3 are those of ViT-B/16 at 64 px, as the docstring of ours has it."""
    width, inner, layers, tokens = 768, 3072, 12, (64 // 16)**2 + 1
    block = 4 * width + 4 * (width**2 + width) + 2 * width * inner + inner + width
    whole = layers * block + (16**2 * 3 + 1) * width + (tokens + 1) * width + 2 * width + 3 * (width + 1)
    assert round(whole / 1e6, 2) == 85.66


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(WITH_MAPS) & set(IMAGES)))
def test_features_are_pooled_maps(name):
    """features(x) = pool(maps(x)), and maps keep the places apart that pooling joins."""
    net, x = build(name, 2, 64).eval(), images(side=64)
    with torch.inference_mode():
        maps = net.maps(x)
        assert torch.equal(net.pool(maps), net.features(x))
    assert maps.shape[:2] == (2, net.width)
    assert maps.shape[2] * maps.shape[3] == {"small-cnn": 16, "vit": 256}.get(name, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({"linear", "mlp", *IMAGES} - set(WITH_MAPS)))
def test_a_net_without_maps_names_those_that_have(name):
    """Where features belong to no place, asking for maps is an error that lists the models with maps."""
    net = build(name, 2, SIDES[name])
    assert not net.has_maps
    for ask in (net.maps, net.pool):
        with pytest.raises(ShiftBenchError, match=f"'{name}' has no feature maps.* have: {', '.join(WITH_MAPS)}"):
            ask(images())


@pytest.mark.slow
def test_norms_are_the_batch_norms():
    """`norms` gives every module that keeps running statistics, and nothing where there is none."""
    counts = {name: len(build(name, 2, SIDES[name]).norms()) for name in ("linear", "mlp", *IMAGES)}
    assert counts == {"resnet18": 20, "resnet34": 36, "resnet50": 53, "resnet101": 104, "small-cnn": 4,
                      "efficientnet-lite0": 49, "densenet121": 121, "alexnet": 0, "vgg11": 0, "vit": 0, "pixel-mlp": 0,
                      "beta-vae": 0, "linear": 0, "mlp": 0}
    net = build("small-cnn", 2)
    before = [norm.running_mean.clone() for norm in net.norms()]
    net.train()(images())
    assert not any(torch.equal(norm.running_mean, old) for norm, old in zip(net.norms(), before, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in IMAGES if name not in ("resnet101", "vgg11")])
def test_a_net_can_be_copied_and_laid_out_anew(name):
    """A deep copy shares no tensor with its original, and channels-last memory changes no result."""
    net = build(name, 2, SIDES[name]).eval()
    twin = copy.deepcopy(net).to(memory_format=torch.channels_last)
    with torch.inference_mode():
        x = images(side=SIDES[name])
        expected = net(x)
        torch.testing.assert_close(twin(x.contiguous(memory_format=torch.channels_last)), expected,
                                   rtol=1e-3, atol=1e-4)
        for value in twin.parameters():
            value.zero_()
        assert torch.equal(net(x), expected)


# ---------------------------------------------------------------------------------------------------- side of images

@pytest.mark.parametrize(("side", "patch"), [(64, 4), (96, 12), (256, 16)])
def test_patches_of_the_paper(side, patch):
    """Appendix F.1 names the patch of three sides."""
    assert patch_of(side) == patch
    assert build("vit", 2, side).features.position.shape == (1, (side // patch)**2, WIDTH)


@given(st.integers(1, 100).map(lambda k: 4 * k))
def test_every_multiple_of_four_has_a_patch(side):
    """A patch divides the side, and leaves 64 patches wherever patches of 4 px would."""
    patch = patch_of(side)
    assert side % patch == 0
    assert (side // patch)**2 >= min(64, (side // 4)**2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit", "pixel-mlp"])
def test_another_side_is_told(name, tmp_path):
    """A net made for one side says so when it gets images, or weights, of another; without a side it is the class's."""
    net = build(name, 2, 32)
    with pytest.raises(ShiftBenchError, match=rf"'{name}' was built for images of 32 × 32 px, but got 64 × 64"):
        net(images(side=64))
    save_file(net.state_dict(), tmp_path / "of32.safetensors")
    with pytest.raises(ShiftBenchError, match=r"has shape .* images of one side, here 64 px"):
        build(name, 2, weights=str(tmp_path / "of32.safetensors"))
    assert build(name, 2)(images(side=MODELS[name].side)).shape == (2, 2)


def test_a_side_that_cannot_be_cut_is_told():
    """Sides that are no multiple of 4 have no patch, and the error names one that has."""
    with pytest.raises(ShiftBenchError, match=r"multiple of 4; it is 30\. .* for example 28"):
        build("vit", 2, 30)


# ------------------------------------------------------------------------------------------------------- transformer

def test_a_block_is_torchs_pre_norm_encoder_layer():
    """With the same weights torch's own encoder layer computes the same tokens and gradients."""
    net = build("vit", 2, 32).double().eval()
    ours = net.features.blocks[3]
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0, "gelu", batch_first=True, norm_first=True).double()
    pairs = [(theirs.self_attn.in_proj_weight, ours.attention.inputs.weight),
             (theirs.self_attn.in_proj_bias, ours.attention.inputs.bias)]
    for above, below in ((theirs.self_attn.out_proj, ours.attention.output), (theirs.norm1, ours.norm1),
                         (theirs.norm2, ours.norm2), (theirs.linear1, ours.mlp[0]), (theirs.linear2, ours.mlp[3])):
        pairs += [(above.weight, below.weight), (above.bias, below.bias)]
    with torch.no_grad():
        for to, of in pairs:
            of.add_(0.1 * torch.randn(of.shape, generator=torch.Generator().manual_seed(1), dtype=of.dtype))
            to.copy_(of)
    tokens = torch.randn(2, 9, WIDTH, dtype=torch.float64, requires_grad=True)
    found = [torch.autograd.grad(block(tokens).sin().sum(), tokens)[0] for block in (ours, theirs)]
    torch.testing.assert_close(ours(tokens), theirs(tokens))
    torch.testing.assert_close(*found)


def test_repeating_algorithms_change_no_result():
    """The plain attention used where algorithms must repeat computes what the fused one does."""
    net, x = build("vit", 2, 32).eval(), images()
    expected = net(x)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        torch.testing.assert_close(net(x), expected, rtol=1e-4, atol=1e-5)
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_transformer_knows_where_a_patch_is():
    """Exchanging two patches changes the features; without positions it would not."""
    net, x = build("vit", 2, 32).eval(), images()
    swapped = x.clone()
    swapped[..., :4, :4], swapped[..., :4, 4:8] = x[..., :4, 4:8], x[..., :4, :4]
    with torch.inference_mode():
        assert (net.features(x) - net.features(swapped)).abs().max() > 1e-4
        net.features.position.zero_()
        torch.testing.assert_close(net.features(x), net.features(swapped), rtol=1e-4, atol=1e-5)


def steps(net, n: int) -> list[float]:
    optimizer, x, label = torch.optim.SGD(net.parameters(), 0.01), images(4, 16), torch.tensor([0, 1, 0, 1])
    losses = []
    for _ in range(n):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), label)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
def test_training_goes_on_from_its_tensors_alone():
    """A net with another's state does the same further steps, dropout included, whatever torch drew in between."""
    whole = build("vit", 2, 16).train()
    steps(whole, 2)
    saved = {key: value.clone() for key, value in whole.state_dict().items()}
    expected = steps(whole, 2)
    torch.manual_seed(99)
    other = build("vit", 2, 16, seed=5).train()
    other.load_state_dict(saved)
    assert steps(other, 2) == expected


# ----------------------------------------------------------------------------------------------------------- dropout

def dropped(drop: Dropout, *shape: int) -> torch.Tensor:
    return (drop(torch.ones(shape)) == 0).double()


def made(rate: float, seed: int = 0) -> Dropout:
    torch.manual_seed(seed)
    return Dropout(rate)


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 0.99), st.integers(0, 2**31))
def test_the_rate_is_right(rate, seed):
    """The part of elements dropped is the rate, and those kept are scaled so that the mean stays."""
    drop, n = made(rate, seed), 400_000
    y = drop(torch.ones(n))
    assert abs(float((y == 0).double().mean()) - rate) < 5 * (rate * (1 - rate) / n)**0.5 + 1 / LEVELS
    kept = y[y != 0]
    assert torch.allclose(kept, torch.tensor(1 / (1 - drop.level / LEVELS)))


def test_masks_are_uncorrelated():
    """Masks of different steps, layers, rows, columns and neighbours have no more in common than chance would give."""
    rows, width = 2000, 256
    first, second = made(0.1, 0), made(0.1, 1)
    one, next_step, other_layer = dropped(first, rows, width), dropped(first, rows, width), dropped(second, rows, width)
    pairs = [(one, next_step), (one, other_layer), (one[1:], one[:-1]), (one[256:], one[:-256])]
    pairs += [(one[:, lag:], one[:, :-lag]) for lag in (1, 2, 3, 4, 8, 64)]
    for a, b in pairs:
        correlation = ((a - 0.1) * (b - 0.1)).mean() / 0.09
        assert abs(float(correlation)) < 4.5 / a.numel()**0.5
    for axis, n in ((0, rows), (1, width)):  # no row or column is dropped more than another
        spread = one.mean(dim=axis).var() / (0.09 / n)
        assert 0.7 < float(spread) < 1.35


def test_buffers_are_the_whole_state():
    """Put back, the buffers repeat a mask; torch's own stream plays no part; every call has a mask of its own."""
    drop, x = made(0.3), torch.ones(64, 33)
    state = copy.deepcopy(drop.state_dict())
    stream = torch.get_rng_state()
    masks = [drop(x) for _ in range(3)]
    assert torch.equal(torch.get_rng_state(), stream)
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 3
    torch.manual_seed(7)
    drop.load_state_dict(state)
    assert all(torch.equal(drop(x), mask) for mask in masks)
    assert {key: value.dtype for key, value in state.items()} == {"salt": torch.int64, "count": torch.int64}


def test_the_mask_belongs_to_elements_not_to_memory():
    """The same numbers in another memory layout or precision lose the same elements."""
    x = torch.rand(4, 5, 6, 7) + 1
    masks = [made(0.4)(y) != 0 for y in (x, x.contiguous(memory_format=torch.channels_last), x.bfloat16())]
    assert torch.equal(masks[0], masks[1])
    assert torch.equal(masks[0], masks[2])
    assert made(0.4)(x.bfloat16()).dtype == torch.bfloat16


def test_backward_uses_the_mask_of_forward():
    """The gradient is the mask and its scale, and it may be differentiated again."""
    drop, x = made(0.25), torch.rand(50, 9).add(1).requires_grad_()
    y = drop(x)
    (gradient,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    scale = y.detach() / x.detach()
    torch.testing.assert_close(gradient, 2 * scale**2 * x)
    torch.testing.assert_close(torch.autograd.grad(gradient.sum(), x)[0], 2 * scale**2)


def test_evaluation_leaves_everything_alone():
    """In evaluation dropout gives back its very input and counts nothing."""
    drop, x = made(0.5).eval(), torch.ones(5)
    assert drop(x) is x
    assert int(drop.count) == 0


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2])
def test_a_wrong_rate_is_told(rate):
    """Everything dropped is no net."""
    with pytest.raises(ShiftBenchError, match="at least 0 and below 1"):
        Dropout(rate)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_replayed_recording_drops_what_a_cpu_does():
    """Each replay of a recorded call has the next mask, bit for bit that of a CPU."""
    there, here, x = made(0.1).cuda(), made(0.1), torch.rand(300, 70) + 1
    still = x.cuda()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        there(still)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y = there(still)
    here(x)
    for _ in range(3):
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y.cpu() != 0, here(x) != 0)


# ------------------------------------------------------------------------------------------------------------- β-VAE

def test_the_spatial_sizes_are_the_papers():
    """An image of 64 px becomes 60, 29, 27, 13, 10, 4 and 1, and the decoder goes back the same way."""
    encoder, decoder = Encoder(6), Decoder(6)
    seen: list[tuple[int, int]] = []
    for convs in (encoder.convs, decoder.convs):
        for layer in convs:
            if not isinstance(layer, nn.ReLU):
                layer.register_forward_hook(lambda _, __, y: seen.append((y.shape[1], y.shape[2])))
    mean, log_variance = encoder(images(side=64))
    down = [(16, 60), (32, 29), (64, 27), (128, 13), (256, 10), (512, 4), (512, 1)]
    assert seen == down
    assert mean.shape == log_variance.shape == (2, 6)
    seen.clear()
    assert decoder(mean).shape == (2, 3, 64, 64)
    assert seen == [*down[-2::-1], (3, 64)]


def test_the_image_reaches_code_and_back():
    """At the start different images have clearly different codes, and codes of unit size give logits near unit size."""
    torch.manual_seed(0)
    encoder, decoder, x = Encoder(10), Decoder(10), images(8, 64)
    with torch.inference_mode():
        assert encoder(x)[0].std(dim=0).mean() > 0.05
        assert 0.1 < decoder(torch.randn(8, 10)).std() < 3


def test_features_are_an_mlp_on_the_mean_code():
    """The variance has no part in the features, and the encoder gets images of any side at 64 px."""
    net = build("beta-vae", 3, 96).eval()
    x = images(side=96)
    expected = net.features.hidden(net.features.encoder(x)[0])
    assert torch.equal(net.features(x), expected)
    with torch.no_grad():
        net.features.encoder.code.weight[net.latent:].fill_(3.0)
        small = nn.functional.interpolate(x, (64, 64), mode="bilinear", align_corners=False)
    assert torch.equal(net.features(x), expected)
    assert torch.equal(net.features(small), expected)
    assert [layer.out_features for layer in net.features.hidden if isinstance(layer, nn.Linear)] == [256] * 4


def test_another_latent_size_is_a_fresh_net():
    """`with_latent` keeps the classes, changes the code, and draws from torch's present stream."""
    net = build("beta-vae", 5)
    assert net.latent == 10
    torch.manual_seed(3)
    first, second = net.with_latent(24), net.with_latent(24)
    torch.manual_seed(3)
    again = net.with_latent(24)
    assert isinstance(first, BetaVAE)
    assert first.latent == 24
    assert first(images()).shape == (2, 5)
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, second.head.weight)
    with pytest.raises(ShiftBenchError, match="at least one number"):
        net.with_latent(0)


@pytest.mark.slow
def test_encoder_and_decoder_learn_to_reproduce():
    """A few steps on the reconstruction alone bring it below the best that one picture for all images can have."""
    torch.manual_seed(0)
    encoder, decoder = Encoder(4), Decoder(4)
    pixels = torch.zeros(2, 3, 64, 64)
    pixels[0, 0, 8:40, 16:48] = pixels[1, 2, 30:60, 4:40] = 1
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-3, fused=True)
    for _ in range(36):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(decoder(encoder(2 * pixels - 1)[0]), pixels)
        loss.backward()
        optimizer.step()
    average = pixels.mean(dim=0)
    assert loss < nn.functional.binary_cross_entropy(average.expand_as(pixels), pixels)
