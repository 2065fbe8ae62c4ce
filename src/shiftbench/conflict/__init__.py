"""Training conflicts (MetaShift, §4.3): what a step on one subset does to the loss on every other."""

from shiftbench.conflict.matrix_sides import Settings
from shiftbench.conflict.result import Conflicts

__all__ = ["Conflicts", "Settings"]
