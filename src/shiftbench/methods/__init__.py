"""Methods by name: learning rules, one file each. A new file is entered by adding its line here."""

import shiftbench.pixels.needs_torch  # noqa: F401
from shiftbench.methods.base import METHODS, Batch, Method, Task, Trained, facts
from shiftbench.methods.cdann import CDANN
from shiftbench.methods.coral import CORAL
from shiftbench.methods.erm import ERM
from shiftbench.methods.group_dro import GroupDRO
from shiftbench.methods.irm import IRM
from shiftbench.methods.space import RUN_SPACE, Choice, Power

__all__ = ["CDANN", "CORAL", "ERM", "IRM", "METHODS", "RUN_SPACE", "Batch", "Choice", "GroupDRO", "Method", "Power",
           "Task", "Trained", "facts"]
