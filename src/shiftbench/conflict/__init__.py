"""Training conflicts (MetaShift, §4.3): what a step on one subset does to the loss on every other."""

from shiftbench.conflict.result import Conflicts
from shiftbench.conflict.settings import Settings

__all__ = ["Conflicts", "Settings"]
