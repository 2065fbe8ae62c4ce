"""Pixels: from arrays and files to images, bad files, content hashes, augmentation."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.images import decode
from shiftbench.images.augment import PRESETS, augment, standardised
from shiftbench.images.decode import content_hashes, images

ZERO, ONE = torch.zeros(3), torch.ones(3)


@pytest.fixture
def folder(tmp_path):
    """Three pictures as PNG, of one size, and the collection of their names."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, 12, 10, 3), dtype=np.uint8)
    for number, picture in enumerate(pixels):
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
    names = np.asarray([f"{number}.png" for number in range(3)])
    return pixels, Collection("files", np.asarray(["a", "b", "c"]), pixels=names, root=tmp_path)


def test_files_and_arrays_give_the_same_images(folder):
    """An image is the same from a file and from an array, as it is and resized, in the order of the rows."""
    pixels, files = folder
    array = Collection("array", files.items, pixels=pixels)
    rows = np.asarray([2, 0, 0])
    for size in (None, 8, 12):
        from_files, from_array = images(files, rows, size), images(array, rows, size)
        assert from_files.shape == (3, size or 12, size or 10, 3)
        assert np.array_equal(from_files, from_array)
    assert np.array_equal(images(files, rows), pixels[rows])
    assert images(files, np.zeros(0, np.int64), 8).shape == (0, 8, 8, 3)


def test_images_that_do_not_fit_lie_in_a_file(folder, monkeypatch):
    """What would take too much memory is read from disk instead, the same to the last bit, and trained on as well."""
    pixels, files = folder
    monkeypatch.setattr("shiftbench.images.decode.SHARE", 0)
    found = images(files, np.asarray([2, 0, 1]))
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, pixels[[2, 0, 1]])
    assert torch.equal(torch.from_numpy(found)[[1]], torch.from_numpy(pixels[[0]]))


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    """Grey, palette, transparent and print images come out as three channels."""
    name = "x.tif" if mode == "CMYK" else "x.png"
    Image.fromarray(np.full((4, 4, 3), 255, np.uint8)).convert(mode).save(tmp_path / name)
    made = images(Collection("one", np.asarray(["x"]), pixels=np.asarray([name]), root=tmp_path), np.asarray([0]))
    assert made.shape == (1, 4, 4, 3)
    assert (made == 255).all()


def test_resizing_is_antialiased(folder):
    """Fine stripes shrink to an even grey, not to stripes."""
    stripes = np.zeros((1, 64, 64, 3), np.uint8)
    stripes[:, :, ::2] = 255
    small = images(Collection("stripes", np.asarray(["s"]), pixels=stripes), np.asarray([0]), 16)
    assert np.ptp(small[0, 4:12, 4:12]) < 16


@pytest.mark.parametrize("fault", ["absent", "text", "cut", "deep", "bomb", "empty"])
def test_an_unreadable_file_is_named(folder, fault, monkeypatch):
    """The error names the item and the file and says why, for each way in which a file can be bad."""
    _, files = folder
    path = files.root / "1.png"
    if fault == "absent":
        path.unlink()
    elif fault == "text":
        path.write_text("not a picture")
    elif fault == "empty":
        path.write_bytes(b"")
    elif fault == "cut":
        path.write_bytes(path.read_bytes()[:-60])
    elif fault == "deep":
        Image.fromarray(np.full((12, 10), 40_000, np.uint16)).save(path)
    else:
        monkeypatch.setattr(decode, "MAX_PIXELS", 100)
    with pytest.raises(ShiftBenchError, match=r"item '[ab]' cannot be read \(.+\)") as caught:
        images(files, np.asarray([0, 1, 2]))
    assert ".png" in str(caught.value)
    if fault == "bomb":
        assert "pixels, more than" in str(caught.value)


@pytest.mark.slow
def test_a_real_bomb_is_refused_before_it_is_decoded(tmp_path):
    """A small file that claims 30,000 × 30,000 pixels is refused by its header."""
    Image.new("1", (30_000, 30_000)).save(tmp_path / "bomb.png")
    files = Collection("bomb", np.asarray(["b"]), pixels=np.asarray(["bomb.png"]), root=tmp_path)
    with pytest.raises(ShiftBenchError, match=r"30000 × 30000|decompression bomb"):
        images(files, np.asarray([0]), 8)


def test_images_of_different_sizes_need_a_size(folder):
    """Without a size, the first image that differs is named; with one, all fit."""
    _, files = folder
    Image.new("RGB", (5, 5)).save(files.root / "2.png")
    with pytest.raises(ShiftBenchError, match=r"item 'c' has 5 × 5 pixels, others have 10 × 12. Ask for one size"):
        images(files, np.arange(3))
    assert images(files, np.arange(3), 8).shape == (3, 8, 8, 3)


def test_no_images_and_paths_that_lead_out(folder, tmp_path):
    """A collection without images, a file outside its folder and an array of the wrong kind are errors."""
    _, files = folder
    with pytest.raises(ShiftBenchError, match="has no images"):
        images(Collection("none", files.items), np.arange(3))
    with pytest.raises(ShiftBenchError, match="leads out of its folder"):
        images(Collection("out", np.asarray(["x"]), pixels=np.asarray(["../../x.png"]), root=tmp_path), np.asarray([0]))
    with pytest.raises(ShiftBenchError, match="must be uint8"):
        images(Collection("float", files.items, pixels=np.zeros((3, 4, 4, 3))), np.arange(3))


def test_content_hashes_tell_equal_images(folder):
    """Two items with the same image have one hash, by file and by array; others differ; rows decide the order."""
    pixels, files = folder
    (files.root / "2.png").write_bytes((files.root / "0.png").read_bytes())
    found = content_hashes(files, np.asarray([2, 1, 0]))
    assert found[0] == found[2] != found[1]
    assert found[0] == hashlib.sha256((files.root / "0.png").read_bytes()).hexdigest()
    doubled = Collection("array", files.items, pixels=pixels[[0, 1, 0]])
    by_row = content_hashes(doubled, np.arange(3))
    assert by_row[0] == by_row[2] != by_row[1]
    (files.root / "2.png").unlink()
    with pytest.raises(ShiftBenchError, match="item 'c' cannot be read"):
        content_hashes(files, np.arange(3))


def test_decoding_needs_no_torch():
    """Checks and reports look at pixels on machines without torch."""
    script = "import shiftbench.images.decode, sys; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def draws(n: int, preset: str, seed: int) -> torch.Tensor:
    return torch.rand(n, PRESETS[preset], generator=torch.Generator().manual_seed(seed))


def batch(n: int = 64, side: int = 16) -> torch.Tensor:
    return torch.randint(0, 256, (n, side, side, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("preset", PRESETS)
def test_augmentation_repeats_and_stays_in_range(preset):
    """The numbers handed in fix the outcome; values stay on the 0..255 scale before they are normalised."""
    x = batch()
    once, again, other = (augment(x, preset, ZERO, ONE, draws(64, preset, seed)) for seed in (1, 1, 2))
    assert torch.equal(once, again)
    assert torch.equal(once, other) == (preset == "none")
    assert once.shape == (64, 3, 16, 16)
    assert once.min() >= -1e-3
    assert once.max() <= 255.001
    scaled = augment(x, preset, torch.full((3,), 127.0), torch.full((3,), 128.0), draws(64, preset, 1))
    torch.testing.assert_close(scaled, (once - 127) / 128)


def test_crops_move_and_mirror_but_keep_an_even_image():
    """Half the images are mirrored, crops show at least 0.7 of the area, and an image of one colour stays it."""
    ramp = torch.arange(16, dtype=torch.uint8).mul(16).view(1, 1, 16, 1).expand(400, 16, 16, 3)
    out = augment(ramp, "standard", ZERO, ONE, draws(400, "standard", 0))
    rises = (out[:, 0, :, -1] > out[:, 0, :, 0]).all(dim=1)
    assert 0.4 < rises.float().mean() < 0.6
    width = (out[:, 0, 8, -1] - out[:, 0, 8, 0]).abs() / 240
    assert width.min() > 0.7 * 0.85  # area 0.7 at aspect 3/4 is a width of 0.72
    even = torch.full((8, 16, 16, 3), 77, dtype=torch.uint8)
    moved = augment(even, "standard", ZERO, ONE, draws(8, "standard", 0))
    torch.testing.assert_close(moved, torch.full((8, 3, 16, 16), 77.0))


def test_color_keeps_grey_grey():
    """Hue and saturation do not move a grey image, and about one image in ten loses its colour."""
    grey = torch.full((32, 8, 8, 3), 100, dtype=torch.uint8)
    out = augment(grey, "color", ZERO, ONE, draws(32, "color", 0))
    assert (out - out.mean(dim=1, keepdim=True)).abs().max() < 1e-2
    assert out.std() > 1  # brightness did move
    red = torch.zeros(2000, 2, 2, 3, dtype=torch.uint8)
    red[..., 0] = 120
    colorless = augment(red, "color", ZERO, ONE, draws(2000, "color", 0)).std(dim=1).amax(dim=(1, 2)) < 1e-3
    assert 0.06 < colorless.float().mean() < 0.14


def test_unknown_preset_suggests():
    """A misspelt augmentation is an error with the nearest known one."""
    with pytest.raises(ShiftBenchError, match="Did you mean 'standard'"):
        augment(batch(), "standart", ZERO, ONE)


def test_a_standardised_image_has_mean_0_and_deviation_1():
    """Each channel of each image, whatever scale its pixels were on; a constant channel is 0, and no image depends on
    its neighbours."""
    x = batch(5, 16)
    x[1, :, :, 2] = 200  # one channel
    x[4] = 77  # a whole image
    out = standardised(augment(x, "none", ZERO, ONE))
    constant = torch.zeros(5, 3, dtype=torch.bool)
    constant[1, 2] = constant[4] = True
    assert (out[constant] == 0).all()
    torch.testing.assert_close(out.mean(dim=(2, 3)), torch.zeros(5, 3), rtol=0, atol=1e-5)
    torch.testing.assert_close(out.std(dim=(2, 3)), (~constant).float(), rtol=0, atol=1e-5)
    scaled = augment(x, "none", torch.full((3,), 127.0), torch.full((3,), 57.0))
    torch.testing.assert_close(standardised(scaled), out, rtol=0, atol=1e-5)
    torch.testing.assert_close(standardised(scaled[2:3])[0], out[2], rtol=0, atol=1e-5)
    torch.testing.assert_close(standardised(torch.randn(2, 8, 6, 6)).std(dim=(2, 3)), torch.ones(2, 8))


def test_a_crop_of_a_constant_image_stays_0_when_it_is_standardised():
    """Resampling leaves rounding errors, which are no structure that a division may blow up."""
    x = torch.full((50, 32, 32, 3), 201, dtype=torch.uint8)
    cropped = augment(x, "standard", torch.full((3,), 127.0), torch.full((3,), 57.0), draws(50, "standard", 0))
    out = standardised(cropped)
    assert out.abs().max() < 1e-4


def test_rotations_and_flips_are_the_eight_of_a_square():
    """Each of the four turns comes a quarter of the time, half of them mirrored, by the draws handed in; no pixel
    changes. Images that are not square are refused."""
    picture = batch(1, 6)
    n = 800
    out = augment(picture.expand(n, -1, -1, -1), "rotate-flip", ZERO, ONE, draws(n, "rotate-flip", 0)).numpy()
    upright = picture[0].permute(2, 0, 1).float().numpy()
    views = [np.rot90(upright, turns, (1, 2))[:, :, ::step] for turns in range(4) for step in (1, -1)]
    counts = [int((out == view).all(axis=(1, 2, 3)).sum()) for view in views]
    assert sum(counts) == n
    assert min(counts) > n / 8 * 0.7
    with pytest.raises(ShiftBenchError, match="must be square, not 8 × 6"):
        augment(torch.zeros(1, 6, 8, 3, dtype=torch.uint8), "rotate-flip", ZERO, ONE, draws(1, "rotate-flip", 0))
