"""Methods by name: learning rules, a file for each or for near relatives. A new file is entered by its line here.

Names, fields and docstrings are read without torch, which a file imports from `shiftbench.core.backend`.
"""

from shiftbench.methods.alignment import CDANN, CORAL, DANN, MMD
from shiftbench.methods.beta_vae import BetaVAE
from shiftbench.methods.bn_adapt import BNAdapt
from shiftbench.methods.dfr import DFR, LastLayer
from shiftbench.methods.eqrm import EQRM
from shiftbench.methods.erm import ERM, CVaRDRO, Focal, SpectralDecoupling
from shiftbench.methods.group_dro import GroupDRO
from shiftbench.methods.irm import IRM, VREx
from shiftbench.methods.jtt import JTT
from shiftbench.methods.lff import LfF
from shiftbench.methods.method import METHODS, Batch, Method, Task, Trained, facts
from shiftbench.methods.mixup import LISA, MixUp
from shiftbench.methods.reweight import Reweight, Undersample
from shiftbench.methods.sagnet import SagNet
from shiftbench.methods.space import RUN_SPACE, Choice, Power
from shiftbench.methods.stargan import StarGAN
from shiftbench.methods.swa import SWA
from shiftbench.methods.unlabelled import AFN, FixMatch, NoisyStudent, PseudoLabel

__all__ = ["AFN", "CDANN", "CORAL", "DANN", "DFR", "EQRM", "ERM", "IRM", "JTT", "LISA", "METHODS", "MMD", "RUN_SPACE",
           "SWA", "BNAdapt", "Batch", "BetaVAE", "CVaRDRO", "Choice", "FixMatch", "Focal", "GroupDRO",
           "LastLayer", "LfF", "Method", "MixUp", "NoisyStudent", "Power", "PseudoLabel", "Reweight", "SagNet",
           "SpectralDecoupling", "StarGAN", "Task", "Trained", "Undersample", "VREx", "facts"]
