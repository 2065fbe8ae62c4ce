"""Room for the images of a benchmark: in memory, or in a file where they would not fit there."""

import math
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftbench.readers.room import mapped

SHARE = 0.5
"""Of this machine's memory, what images may take."""


def room(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An array to fill, as iWildCam's 122 GB at 448 px need it as much as a toy's.

    The file has no name and goes with the process; it lies where TMPDIR says, and needs as much room there.
    """
    if math.prod(shape) * dtype.itemsize <= SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        return np.empty(shape, dtype)
    return mapped(shape, dtype, f"{shape[0]:,} images")
