"""Methods by name: learning rules, one file each. A new file is entered by adding its line here."""

import shiftbench.pixels.needs_torch  # noqa: F401
from shiftbench.methods.base import METHODS, Batch, Method, Task, Trained, facts
from shiftbench.methods.cdann import CDANN
from shiftbench.methods.coral import CORAL
from shiftbench.methods.cvar_dro import CVaRDRO
from shiftbench.methods.dann import DANN
from shiftbench.methods.eqrm import EQRM
from shiftbench.methods.erm import ERM
from shiftbench.methods.focal import Focal
from shiftbench.methods.group_dro import GroupDRO
from shiftbench.methods.irm import IRM
from shiftbench.methods.jtt import JTT
from shiftbench.methods.mmd import MMD
from shiftbench.methods.reweight import Reweight
from shiftbench.methods.space import RUN_SPACE, Choice, Power
from shiftbench.methods.spectral import SpectralDecoupling
from shiftbench.methods.vrex import VREx

__all__ = ["CDANN", "CORAL", "DANN", "EQRM", "ERM", "IRM", "JTT", "METHODS", "MMD", "RUN_SPACE", "Batch", "CVaRDRO",
           "Choice", "Focal", "GroupDRO", "Method", "Power", "Reweight", "SpectralDecoupling", "Task", "Trained",
           "VREx", "facts"]
