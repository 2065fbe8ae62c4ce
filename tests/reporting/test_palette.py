"""Everybody can tell the colours of methods apart, and sees them on the page."""

from itertools import combinations

import numpy as np
import pytest

from shiftbench.reporting.charts import COLOURS, DARK, LIGHT, PRINT

LEAST = 18.0
"""Distance in CIELAB; 2 is a difference that one just sees between large patches side by side."""
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""What becomes of linear red, green and blue, after Machado, Oliveira and Fernandes (2009), at full severity."""
TO_XYZ = np.asarray([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                     [0.0193339, 0.1191920, 0.9503041]])
METHODS = tuple(f"m{number}" for number in range(COLOURS))


def linear(colour):
    """Linear red, green and blue of a colour like "#0277ca"; "#fff" is short for "#ffffff"."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    share = np.frombuffer(bytes.fromhex(digits), np.uint8) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / TO_XYZ.sum(axis=1)
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.asarray([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one, other):
    """As WCAG 2 defines it."""
    low, high = sorted(TO_XYZ[1] @ linear(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK, PRINT], ids=["light", "dark", "print"])
@pytest.mark.parametrize("vision", VISIONS)
def test_any_two_methods_are_told_apart(palette, vision):
    """The colours of two methods differ to every kind of eye."""
    seen = {name: lab(np.asarray(VISIONS[vision]) @ linear(palette[name])) for name in METHODS}
    near = {pair: round(float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])), 1) for pair in combinations(METHODS, 2)}
    assert {pair: distance for pair, distance in near.items() if distance < LEAST} == {}


@pytest.mark.parametrize("palette", [LIGHT, DARK, PRINT], ids=["light", "dark", "print"])
def test_every_method_is_seen_on_the_page(palette):
    """Marks stand out from both grounds by 3 to 1, as WCAG 2.1 asks; the first five, which colour words too, by 4.5."""
    for ground in ("paper", "sheet"):
        ratios = [contrast(palette[name], palette[ground]) for name in METHODS]
        assert min(ratios) >= 3
        assert min(ratios[:5]) >= 4.5


def test_the_simulation_is_right():
    """Grey stays grey; red and green of one lightness look alike to a deuteranope; blue and yellow do not."""
    for matrix in VISIONS.values():
        assert np.asarray(matrix) @ np.ones(3) == pytest.approx(np.ones(3), abs=1e-5)
    deutan = np.asarray(VISIONS["deuteranopia"])

    def apart(one, other):
        return np.linalg.norm(lab(deutan @ linear(one)) - lab(deutan @ linear(other)))

    assert apart("#c2540a", "#a87400") < 3 < 60 < apart("#0277ca", "#ba820d")
    assert lab(linear("#ff0000")) == pytest.approx([53.24, 80.09, 67.20], abs=0.05)
    assert contrast("#000000", "#fff") == pytest.approx(21)
