"""Training conflicts (MetaShift, §4.3): what a step on one subset does to the loss on every other."""

from shiftbench.conflict.matrix import Conflicts, Settings

__all__ = ["Conflicts", "Settings"]
