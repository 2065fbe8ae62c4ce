"""Images of eight channels: read as they are, squeezed by means, refused when wrong; and the net that sees them."""

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.images.decode import channel_images
from shiftbench.models import build

torch.set_num_threads(1)
SHAPE = (8, 12, 12)


def arrays(n: int, shape: tuple[int, ...] = SHAPE, dtype: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(dtype) for _ in range(n)]


def collection(root: Path, listed: Sequence[np.ndarray]) -> Collection:
    for number, values in enumerate(listed):
        np.savez_compressed(root / f"{number}.npz", x=values)
    return of(root, [f"{number}.npz" for number in range(len(listed))])


def of(root: Path, names: Sequence[str]) -> Collection:
    return Collection("poor", np.asarray([f"i{number}" for number in range(len(names))]),
                      pixels=np.asarray(names), root=root)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_images_come_as_their_files_have_them(tmp_path: Path, dtype: type) -> None:
    """Any rows in any order, float32, with no scale of ours."""
    listed, rows = arrays(4, dtype=dtype), [2, 0, 2]
    found = channel_images(collection(tmp_path, listed), np.asarray(rows))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.stack([listed[row] for row in rows]).astype(np.float32))


def test_a_squeezed_pixel_is_a_mean(tmp_path: Path) -> None:
    """A pixel of a third of the size is the mean of nine; the same size changes nothing."""
    listed = arrays(2)
    one = collection(tmp_path, listed)
    blocks = np.stack(listed).reshape(2, 8, 4, 3, 4, 3).mean(axis=(3, 5))
    np.testing.assert_allclose(channel_images(one, np.arange(2), 4), blocks, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(channel_images(one, np.arange(2), 12), channel_images(one, np.arange(2)))


def test_no_rows_are_no_images(tmp_path: Path) -> None:
    """An empty list of items is an empty array of images, whatever size was asked for."""
    assert channel_images(collection(tmp_path, arrays(1)), np.zeros(0, np.int64), 4).shape[::2] == (0, 4)


def saved(**members: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **members)
    return stream.getvalue()


def longer(values: np.ndarray) -> bytes:
    """A header that promises more than the archive holds."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (8, 10**6, 10**6)})
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("x.npy", stream.getvalue() + values.tobytes())
    return whole.getvalue()


def flipped(values: np.ndarray) -> bytes:
    """One bit of the values is another."""
    whole = bytearray(saved(x=values))
    whole[len(whole) // 2] ^= 1
    return bytes(whole)


FAULTS = {
    "text": (b"no archive", "cannot be read"),
    "cut": (saved(x=arrays(1)[0])[:-40], "cannot be read"),
    "flipped": (flipped(arrays(1)[0]), "cannot be read .*CRC"),
    "long": (longer(arrays(1)[0]), "cannot be read"),
    "name": (saved(y=arrays(1)[0]), "has no array 'x', but y"),
    "flat": (saved(x=arrays(1)[0][0]), "is float64 of shape 12 × 12; it should be .*channels × height × width"),
    "empty": (saved(x=np.zeros((8, 0, 4))), "of shape 8 × 0 × 4; it should be"),
    "words": (saved(x=np.full(SHAPE, "a")), "is <U1 of shape"),
    "objects": (saved(x=np.asarray([{}], dtype=object)), "cannot be read .*[Oo]bject"),
    "gap": (saved(x=np.full(SHAPE, np.nan)), "not a finite number"),
    "other": (saved(x=arrays(1, (8, 6, 12))[0]), "has shape 8 × 6 × 12, others have 8 × 12 × 12"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_file_is_told(tmp_path: Path, fault: str) -> None:
    """Each way to be wrong is one error that names the file; nothing in it is ever run."""
    one = collection(tmp_path, arrays(3))
    content, message = FAULTS[fault]
    (tmp_path / "1.npz").write_bytes(content)
    with pytest.raises(ShiftBenchError, match=message) as caught:
        channel_images(one, np.arange(3))
    assert str(tmp_path.resolve() / "1.npz") in str(caught.value)


@pytest.mark.parametrize(("name", "message"), [
    ("gone.npz", "no such file"), ("../0.npz", "leads out of its folder"), ("0.png", "model of three channels")])
def test_a_wrong_name_is_told(tmp_path: Path, name: str, message: str) -> None:
    """A file that is missing, outside the folder, or an ordinary picture is an error that says so."""
    (tmp_path / "in").mkdir()
    collection(tmp_path, arrays(1))
    with pytest.raises(ShiftBenchError, match=message):
        channel_images(of(tmp_path / "in", [name]), np.arange(1))


def test_a_collection_without_files_is_told(tmp_path: Path) -> None:
    """Pixels kept in the collection have three channels; a size below one is none."""
    kept = Collection("kept", np.asarray(["a"]), pixels=np.zeros((1, 4, 4, 3), np.uint8))
    for one in (kept, Collection("bare", np.asarray(["a"]))):
        with pytest.raises(ShiftBenchError, match=r"has no image files.*\.npz"):
            channel_images(one, np.arange(1))
    with pytest.raises(ShiftBenchError, match="cannot be squeezed to 0 × 0"):
        channel_images(collection(tmp_path, arrays(1)), np.arange(1), 0)


def test_the_net_sees_every_channel() -> None:
    """resnet18-ms is resnet18 but for its first convolution, whose eight channels all reach the output."""
    net = build("resnet18-ms", 1).eval()
    assert (net.takes, net.channels, net.width) == ("images", 8, 512)
    x = torch.randn(2, 8, 32, 32, generator=torch.Generator().manual_seed(0), requires_grad=True)
    net(x).sum().backward()
    assert x.grad is not None
    assert bool((x.grad.abs().sum(dim=(0, 2, 3)) > 0).all())
    assert torch.equal(net.features(x), net.pool(net.maps(x)))
    plain = build("resnet18", 1).state_dict()
    shapes = {key: value.shape for key, value in net.state_dict().items()}
    assert {key: value.shape for key, value in plain.items()} | {
        "features.conv1.weight": torch.Size([64, 8, 7, 7])} == shapes
    # He's start counts what goes out, so that it is the same for three channels and for eight.
    deviation = [float(weights["features.conv1.weight"].std()) for weights in (net.state_dict(), plain)]
    assert deviation[0] == pytest.approx(deviation[1], rel=0.05)


def test_it_reads_torchvisions_names_and_has_no_imagenet(tmp_path: Path) -> None:
    """A file of WILDS, which has torchvision's names, loads; there are no ImageNet weights for eight channels."""
    net = build("resnet18-ms", 1, seed=1)
    named = {key.removeprefix("features.").replace("head.", "fc."): value for key, value in net.state_dict().items()}
    torch.save(named, tmp_path / "w.pth")
    again = build("resnet18-ms", 1, weights=str(tmp_path / "w.pth"), seed=2)
    for key, value in net.state_dict().items():
        assert torch.equal(again.state_dict()[key], value)
    with pytest.raises(ShiftBenchError, match="'resnet18-ms' has no ImageNet weights") as caught:
        build("resnet18-ms", 1, weights="imagenet")
    assert "resnet18-ms" not in str(caught.value).partition("Models that have:")[2]
