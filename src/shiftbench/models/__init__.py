"""Models by name: nets with two parts, `features` and `head`."""

import shiftbench.pixels.needs_torch  # noqa: F401
from shiftbench.models.base import MODELS, Net, build
from shiftbench.models.efficientnet_lite import EfficientNetLite0
from shiftbench.models.heads import MLP, Linear
from shiftbench.models.resnet import ResNet18
from shiftbench.models.small_cnn import SmallCNN

__all__ = ["MLP", "MODELS", "EfficientNetLite0", "Linear", "Net", "ResNet18", "SmallCNN", "build"]
