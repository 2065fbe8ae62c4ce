"""The rasteriser: scenes of placed sprites become pixels, visible areas and boxes. Whole numbers only.

Every polygon is filled by scanlines (even-odd) at twice the asked size, into colours and into an owner per pixel; the
owners give the visible area and extent of each instance after occlusion. Integer arithmetic makes the outcome the same
on every machine; threads work on separate items.
"""

import numpy as np
from numba import njit

from shiftbench.arrays import Images, Ints

SPRITE, X, Y, WIDE, HIGH, MAIN_RGB, ACCENT_RGB, SLOT = 0, 1, 2, 3, 4, 5, 8, 11
COS, SIN, GAIN, LIFT, STYLE, VIGNETTE, NOISE, KEY = 0, 1, 2, 5, 8, 9, 10, 11
FLAT, OUTLINED, TEXTURED, PASTEL, NOCTURNE = range(5)
MOST_CROSSINGS = 32
UNIT = 1024  # of an instance's scale
TURN = 4096  # of a camera's cosine and sine
THING, BACKGROUND, SKY, AIR = 1, 0, -1, -2  # slots: sky is painted only over the place's sky; sky and air own nothing


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def paint(lo: int, hi: int, size: int, first: Ints, placed: Ints, look: Ints, sheet_first: Ints, start: Ints, ink: Ints,
          points: Ints, images: Images, area: Ints, box: Ints, stuff: Ints) -> None:
    """Paint items lo..hi: `images[i]`; per instance `area` (pixels) and `box` (x0, y0, x1, y1); per item `stuff` areas.

    Areas and boxes are counted in pixels of the supersampled grid, 2 * size across.
    """
    side = 2 * size
    colour = np.zeros((side, side, 3), np.uint8)
    owner = np.zeros((side, side), np.int16)
    crossing = np.zeros((side, MOST_CROSSINGS), np.int64)
    count = np.zeros(side, np.int64)
    px = np.zeros(512, np.int64)
    py = np.zeros(512, np.int64)
    rgb = np.zeros(3, np.int64)
    for item in range(lo, hi):
        camera = look[item]
        owner[:] = 0
        for k in range(first[item], first[item + 1]):
            instance = placed[k]
            sprite = instance[SPRITE]
            mark = k - first[item] + 1
            for p in range(sheet_first[sprite], sheet_first[sprite + 1]):
                tint = ink[p]
                for channel in range(3):
                    base = tint[1 + channel]
                    if tint[0] == 0:
                        base = instance[MAIN_RGB + channel]
                    elif tint[0] == 1:
                        base = instance[ACCENT_RGB + channel]
                    if tint[4] <= 256:
                        rgb[channel] = base * tint[4] >> 8
                    else:
                        rgb[channel] = base + ((255 - base) * (tint[4] - 256) >> 8)
                n = start[p + 1] - start[p]
                top, bottom = side * 256, -1
                for j in range(n):
                    x = instance[X] + (points[start[p] + j, 0] * instance[WIDE] >> 10) - 8192
                    y = 8192 - instance[Y] - (points[start[p] + j, 1] * instance[HIGH] >> 10)
                    px[j] = (8192 + ((x * camera[COS] - y * camera[SIN]) >> 12)) * side >> 6
                    py[j] = (8192 + ((x * camera[SIN] + y * camera[COS]) >> 12)) * side >> 6
                    top, bottom = min(top, py[j]), max(bottom, py[j])
                row0, row1 = max(0, (top + 127) >> 8), min(side - 1, (bottom - 128) >> 8)
                if row1 < row0:
                    continue
                for row in range(row0, row1 + 1):
                    count[row] = 0
                for j in range(n):
                    j2 = j + 1 if j + 1 < n else 0
                    x0, y0, x1, y1 = px[j], py[j], px[j2], py[j2]
                    if y0 == y1:
                        continue
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
                slot = instance[SLOT]
                alpha, clip = tint[5], tint[6] == 1 or slot == SKY
                writes = alpha == 256 and slot >= BACKGROUND
                own = np.int16(mark if slot == THING else -tint[7])
                red, green, blue = np.uint8(rgb[0]), np.uint8(rgb[1]), np.uint8(rgb[2])
                for row in range(row0, row1 + 1):
                    for c in range(0, count[row] - 1, 2):
                        left = max(0, (crossing[row, c] + 127) >> 8)
                        right = min(side, (crossing[row, c + 1] + 127) >> 8)
                        if writes and not clip:
                            for x in range(left, right):
                                colour[row, x, 0] = red
                                colour[row, x, 1] = green
                                colour[row, x, 2] = blue
                                owner[row, x] = own
                        else:
                            for x in range(left, right):
                                if clip and owner[row, x] != own:
                                    continue
                                for channel in range(3):
                                    under = np.int64(colour[row, x, channel])
                                    colour[row, x, channel] = under + ((rgb[channel] - under) * alpha >> 8)
        measure(owner, first[item], area, box, stuff[item])
        develop(colour, owner, camera, images[item])


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def measure(owner: Ints, base: int, area: Ints, box: Ints, stuff: Ints) -> None:
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
                box[k, 0], box[k, 2] = min(box[k, 0], x), max(box[k, 2], end)
                box[k, 3] = row + 1
            else:
                stuff[-mark] += end - x
            x = end


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def develop(colour: Images, owner: Ints, camera: Ints, image: Images) -> None:
    """From the supersampled drawing to the picture: style, light, camera."""
    size = len(image)
    side = 2 * size
    style = camera[STYLE]
    reach = max(1, side // 128)
    seed = np.uint32(camera[KEY])
    for row in range(size):
        for x in range(size):
            red, green, blue = 0, 0, 0
            for dy in range(2):
                for dx in range(2):
                    sy, sx = 2 * row + dy, 2 * x + dx
                    r, g, b = np.int64(colour[sy, sx, 0]), np.int64(colour[sy, sx, 1]), np.int64(colour[sy, sx, 2])
                    if style == OUTLINED:
                        ey, ex = min(side - 1, sy + reach), min(side - 1, sx + reach)
                        keep = 256
                        if owner[sy, sx] != owner[sy, ex] or owner[sy, sx] != owner[ey, sx]:
                            keep = 70
                        else:
                            change = (abs(r - colour[sy, ex, 0]) + abs(g - colour[sy, ex, 1]) + abs(b - colour[sy, ex, 2])
                                      + abs(r - colour[ey, sx, 0]) + abs(g - colour[ey, sx, 1]) + abs(b - colour[ey, sx, 2]))
                            if change > 70:
                                keep = 150
                        r, g, b = r * keep >> 8, g * keep >> 8, b * keep >> 8
                    red += r
                    green += g
                    blue += b
            red, green, blue = red >> 2, green >> 2, blue >> 2
            grain = 0
            if style == TEXTURED or camera[NOISE] > 0:
                mixed = (np.uint32(row * 4099 + x) ^ seed) * np.uint32(2654435761)
                mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(2246822519)
                mixed = mixed ^ (mixed >> np.uint32(13))
                grain = np.int64(mixed & np.uint32(255)) - 128
            if style == TEXTURED:
                weave = (row + x) * 64 // size % 4
                shade = 256 + grain // 5 - (26 if weave == 0 else 0)
                red, green, blue = red * shade >> 8, green * shade >> 8, blue * shade >> 8
            elif style == PASTEL:
                red, green, blue = 86 + (red * 170 >> 8), 82 + (green * 170 >> 8), 88 + (blue * 170 >> 8)
            elif style == NOCTURNE:
                gray = (red * 77 + green * 151 + blue * 28) >> 8
                red, green, blue = (red * 3 + gray) * 44 >> 8, (green * 3 + gray) * 50 >> 8, 26 + ((blue * 3 + gray) * 58 >> 8)
            far = ((2 * row - size) * (2 * row - size) + (2 * x - size) * (2 * x - size)) * 256 // (2 * size * size)
            dim = 256 - (far * camera[VIGNETTE] >> 8)
            speck = grain * camera[NOISE] >> 8
            red = ((red * camera[GAIN] >> 8) + camera[LIFT]) * dim // 256 + speck
            green = ((green * camera[GAIN + 1] >> 8) + camera[LIFT + 1]) * dim // 256 + speck
            blue = ((blue * camera[GAIN + 2] >> 8) + camera[LIFT + 2]) * dim // 256 + speck
            image[row, x, 0] = min(255, max(0, red))
            image[row, x, 1] = min(255, max(0, green))
            image[row, x, 2] = min(255, max(0, blue))
