"""From the supersampled drawing to the picture: drawing style, light and camera, in whole numbers."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from shiftbench.arrays import Images, Ints

GAIN, LIFT, STYLE, VIGNETTE, NOISE, KEY = 2, 5, 8, 9, 10, 11  # columns of a look
FLAT, OUTLINED, TEXTURED, PASTEL, NOCTURNE = range(5)  # in the order of themes.STYLE
OUTER, INNER = 70, 150  # what an outline keeps of the light, in 256ths: between objects, within one
CONTRAST = 70  # a change of colour this large is an inner line


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def develop(colour: npt.NDArray[Any], owner: npt.NDArray[Any], look: Ints, image: Images) -> None:
    """Average 2 × 2 pixels, then apply the style, the light's and camera's gain and lift, vignette and noise."""
    size = len(image)
    style, seed = look[STYLE], np.uint32(look[KEY])
    if style == OUTLINED:
        outline(colour, owner)
    for row in range(size):
        for x in range(size):
            a, b = np.int64(colour[2 * row, 2 * x]), np.int64(colour[2 * row, 2 * x + 1])
            c, d = np.int64(colour[2 * row + 1, 2 * x]), np.int64(colour[2 * row + 1, 2 * x + 1])
            odd = (a & 0xFF00FF) + (b & 0xFF00FF) + (c & 0xFF00FF) + (d & 0xFF00FF)
            green = ((a & 0xFF00) + (b & 0xFF00) + (c & 0xFF00) + (d & 0xFF00)) >> 10
            red, blue = odd >> 18, (odd & 0xFFFF) >> 2
            grain = np.int64(0)
            if style == TEXTURED or look[NOISE] > 0:
                mixed = (np.uint32(row * 4099 + x) ^ seed) * np.uint32(2654435761)
                mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(2246822519)
                grain = np.int64((mixed ^ (mixed >> np.uint32(13))) & np.uint32(255)) - 128
            if style == TEXTURED:
                shade = 256 + grain // 5 - (26 if (row + x) * 64 // size % 4 == 0 else 0)
                red, green, blue = red * shade >> 8, green * shade >> 8, blue * shade >> 8
            elif style == PASTEL:
                red, green, blue = 86 + (red * 170 >> 8), 82 + (green * 170 >> 8), 88 + (blue * 170 >> 8)
            elif style == NOCTURNE:
                gray = (red * 77 + green * 151 + blue * 28) >> 8
                red, green = (red * 3 + gray) * 44 >> 8, (green * 3 + gray) * 50 >> 8
                blue = 26 + ((blue * 3 + gray) * 58 >> 8)
            dim = 256
            if look[VIGNETTE] > 0:
                far = ((2 * row - size) * (2 * row - size) + (2 * x - size) * (2 * x - size)) * 128 // (size * size)
                dim -= far * look[VIGNETTE] >> 8
            speck = grain * look[NOISE] >> 8
            image[row, x, 0] = min(255, max(0, (((red * look[GAIN] >> 8) + look[LIFT]) * dim >> 8) + speck))
            image[row, x, 1] = min(255, max(0, (((green * look[GAIN + 1] >> 8) + look[LIFT + 1]) * dim >> 8) + speck))
            image[row, x, 2] = min(255, max(0, (((blue * look[GAIN + 2] >> 8) + look[LIFT + 2]) * dim >> 8) + speck))


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def outline(colour: npt.NDArray[Any], owner: npt.NDArray[Any]) -> None:
    """Darken, in place, where what lies right or below belongs to another object or has another colour.

    A pixel is compared with pixels that are visited later, so nothing is compared with a darkened one.
    """
    side = len(colour)
    reach = max(1, side // 128)
    for row in range(side):
        for x in range(side):
            here = np.int64(colour[row, x])
            below, right = min(side - 1, row + reach), min(side - 1, x + reach)
            keep = 256
            if owner[row, x] != owner[row, right] or owner[row, x] != owner[below, x]:
                keep = OUTER
            else:
                change = np.int64(0)
                for shift in (16, 8, 0):
                    value = here >> shift & 255
                    change += abs(value - (np.int64(colour[row, right]) >> shift & 255))
                    change += abs(value - (np.int64(colour[below, x]) >> shift & 255))
                if change > CONTRAST:
                    keep = INNER
            if keep < 256:
                red, green, blue = (here >> 16) * keep >> 8, (here >> 8 & 255) * keep >> 8, (here & 255) * keep >> 8
                colour[row, x] = np.uint32(red << 16 | green << 8 | blue)
