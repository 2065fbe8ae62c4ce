"""The rasteriser: scenes of placed sprites become pixels, visible areas and boxes. Whole numbers only.

Every polygon is filled by scanlines (even-odd) at twice the asked size, into colours and into an owner per pixel; the
owners give the visible area and extent of each instance after occlusion. Integer arithmetic makes the outcome the same
on every machine; threads work on separate items.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from shiftbench.core.arrays import Images, Ints
from shiftbench.worlds.scenes.pen import FRAME

SPRITE, X, Y, WIDE, HIGH, MAIN_RGB, ACCENT_RGB, SLOT = 0, 1, 2, 3, 4, 5, 8, 11  # columns of a placed sprite
ROLE, RGB, SHADE, ALPHA, CLIP, STUFF = 0, 1, 4, 5, 6, 7  # columns of a polygon's ink
COS, SIN = 0, 1  # columns of a look, the rest is `develop`'s
THING, BACKGROUND, SKY = 1, 0, -1  # slots: sky is painted only over the place's sky; what is below 0 owns no pixel
MOST_CROSSINGS, MOST_POINTS = 32, 512
HALF = FRAME // 2
SOLID = 256

Packed = npt.NDArray[Any]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def paint(lo: int, hi: int, size: int, first: Ints, placed: Ints, look: Ints, sheet_first: Ints, start: Ints, ink: Ints,
          points: Ints, images: Images, area: Ints, box: Ints, stuff: Ints) -> None:
    """Paint items lo..hi: `images[i]`; per instance `area` (pixels) and `box` (x0, y0, x1, y1); per item `stuff` areas.

    Areas and boxes are counted in pixels of the supersampled grid, 2 * size across.
    """
    side = 2 * size
    colour = np.zeros((side, side), np.uint32)
    owner = np.zeros((side, side), np.int16)
    crossing = np.zeros((side, MOST_CROSSINGS), np.int64)
    count = np.zeros(side, np.int64)
    px, py = np.zeros(MOST_POINTS, np.int64), np.zeros(MOST_POINTS, np.int64)
    for item in range(lo, hi):
        owner[:] = 0
        for k in range(first[item], first[item + 1]):
            instance = placed[k]
            sprite, slot = instance[SPRITE], instance[SLOT]
            for p in range(sheet_first[sprite], sheet_first[sprite + 1]):
                n = start[p + 1] - start[p]
                top, bottom = project(points, start[p], n, instance, look[item], side, px, py)
                row0, row1 = max(0, (top + 127) >> 8), min(side - 1, (bottom - 129) >> 8)
                if row1 < row0:
                    continue
                cross(px, py, n, row0, row1, crossing, count)
                mark = k - first[item] + 1 if slot == THING else -ink[p, STUFF]
                clip = ink[p, CLIP] == 1 or slot == SKY
                fill(colour, owner, crossing, count, row0, row1, mixed(ink[p], instance), ink[p, ALPHA], clip,
                     slot >= BACKGROUND, mark)
        measure(owner, first[item], area, box, stuff[item])
        develop(colour, owner, look[item], images[item])


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def mixed(ink: Ints, instance: Ints) -> int:
    """The ink's colour on this instance, packed as red << 16 | green << 8 | blue."""
    packed = 0
    for channel in range(3):
        base = ink[RGB + channel]
        if ink[ROLE] == 0:
            base = instance[MAIN_RGB + channel]
        elif ink[ROLE] == 1:
            base = instance[ACCENT_RGB + channel]
        shade = ink[SHADE]
        base = base * shade >> 8 if shade <= 256 else base + ((255 - base) * (shade - 256) >> 8)
        packed = packed << 8 | base
    return packed


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def project(points: Ints, start: int, n: int, instance: Ints, look: Ints, side: int, px: Ints,
            py: Ints) -> tuple[int, int]:
    """Points of a sprite onto the grid of 256ths of a pixel, through instance and camera; their top and bottom."""
    top, bottom = side << 8, -1
    for j in range(n):
        x = instance[X] + (points[start + j, 0] * instance[WIDE] >> 10) - HALF
        y = HALF - instance[Y] - (points[start + j, 1] * instance[HIGH] >> 10)
        px[j] = (HALF + ((x * look[COS] - y * look[SIN]) >> 12)) * side >> 6
        py[j] = (HALF + ((x * look[SIN] + y * look[COS]) >> 12)) * side >> 6
        top, bottom = min(top, py[j]), max(bottom, py[j])
    return top, bottom


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def cross(px: Ints, py: Ints, n: int, row0: int, row1: int, crossing: Ints, count: Ints) -> None:
    """Where the outline crosses the middle of each row, from left to right."""
    for row in range(row0, row1 + 1):
        count[row] = 0
    for j in range(n):
        j2 = j + 1 if j + 1 < n else 0
        x0, y0, x1, y1 = px[j], py[j], px[j2], py[j2]
        if y0 > y1:
            x0, y0, x1, y1 = x1, y1, x0, y0
        edge0, edge1 = max(row0, (y0 + 127) >> 8), min(row1, (y1 - 129) >> 8)
        if edge1 < edge0:
            continue
        slope = ((x1 - x0) << 16) // (y1 - y0)
        at = (x0 << 16) + slope * ((edge0 << 8) + 128 - y0)
        for row in range(edge0, edge1 + 1):
            c = count[row]
            if c < MOST_CROSSINGS:
                x = at >> 16
                while c > 0 and crossing[row, c - 1] > x:
                    crossing[row, c] = crossing[row, c - 1]
                    c -= 1
                crossing[row, c] = x
                count[row] += 1
            at += slope << 8


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def fill(colour: Packed, owner: Packed, crossing: Ints, count: Ints, row0: int, row1: int, packed: int, alpha: int,
         clip: bool, owns: bool, own: int) -> None:
    """Paint the spans between crossings; translucent paint leaves the owner as it was."""
    side = len(colour)
    for row in range(row0, row1 + 1):
        for c in range(0, count[row] - 1, 2):
            left = max(0, (crossing[row, c] + 127) >> 8)
            right = min(side, (crossing[row, c + 1] + 127) >> 8)
            if right <= left:  # outside the picture: a negative end would count from the right
                continue
            if alpha == SOLID and not clip and owns:
                colour[row, left:right] = np.uint32(packed)
                owner[row, left:right] = np.int16(own)
                continue
            for x in range(left, right):
                if not clip or owner[row, x] == own:
                    under, blend = np.int64(colour[row, x]), np.int64(0)
                    for shift in (16, 8, 0):
                        below = under >> shift & 255
                        blend |= below + (((packed >> shift & 255) - below) * alpha >> 8) << shift
                    colour[row, x] = np.uint32(blend)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def measure(owner: Packed, base: int, area: Ints, box: Ints, stuff: Ints) -> None:
    """Count what is visible: owner m > 0 is the item's instance m - 1, owner -s is stuff s of the place."""
    side = len(owner)
    for row in range(side):
        x = 0
        while x < side:
            mark = owner[row, x]
            end = x + 1
            while end < side and owner[row, end] == mark:
                end += 1
            if mark > 0:
                k = base + mark - 1
                if area[k] == 0:
                    box[k, 0], box[k, 1], box[k, 2] = x, row, end
                area[k] += end - x
                box[k, 0], box[k, 2], box[k, 3] = min(box[k, 0], x), max(box[k, 2], end), row + 1
            else:
                stuff[-mark] += end - x
            x = end


# From the supersampled drawing to the picture: drawing style, light and camera, in whole numbers.

GAIN, LIFT, STYLE, VIGNETTE, NOISE, KEY = 2, 5, 8, 9, 10, 11  # columns of a look
FLAT, OUTLINED, TEXTURED, PASTEL, NOCTURNE = range(5)  # in the order of scene.STYLE
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
