"""The brush: a stencil is put at its place in one colour channel of a black picture."""

from numba import njit

from shiftbench.core.arrays import Images, Ints


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def paint(codes: Ints, stencils: Images, zoom: int, images: Images) -> None:
    """Paint one picture per row of codes (colour, shape, scale, orientation, x, y): red is channel 0, blue 2.

    Images come black: fresh memory is, and what is not touched costs nothing.
    """
    side = stencils.shape[3]
    for item in range(len(codes)):
        channel, shape, scale, orientation = codes[item, 0], codes[item, 1], codes[item, 2], codes[item, 3]
        left, top = codes[item, 4] * zoom, codes[item, 5] * zoom
        stencil, image = stencils[shape, scale, orientation], images[item]
        for row in range(side):
            for column in range(side):
                image[top + row, left + column, channel] = stencil[row, column]


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def halve(images: Images, halves: Images) -> None:
    """Every pixel of a half is the mean of 2 × 2 of the whole, rounded."""
    n, height, width, channels = halves.shape
    for item in range(n):
        for row in range(height):
            for column in range(width):
                for channel in range(channels):
                    total = 2
                    for k in range(4):
                        total += images[item, 2 * row + (k >> 1), 2 * column + (k & 1), channel]
                    halves[item, row, column, channel] = total >> 2
