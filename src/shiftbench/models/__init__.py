"""Models by name: nets with two parts, `features` and `head`."""

import shiftbench.pixels.needs_torch  # noqa: F401
from shiftbench.models.autoencoder import BetaVAE, Decoder, Encoder
from shiftbench.models.base import MODELS, Net, build
from shiftbench.models.efficientnet_lite import EfficientNetLite0
from shiftbench.models.heads import MLP, Linear
from shiftbench.models.pixel_mlp import PixelMLP
from shiftbench.models.resnet import ResNet18, ResNet34, ResNet50, ResNet101
from shiftbench.models.small_cnn import SmallCNN
from shiftbench.models.torchvision_nets import VGG11, AlexNet, DenseNet121
from shiftbench.models.vit import ViT

__all__ = ["MLP", "MODELS", "VGG11", "AlexNet", "BetaVAE", "Decoder", "DenseNet121", "EfficientNetLite0", "Encoder",
           "Linear", "Net", "PixelMLP", "ResNet18", "ResNet34", "ResNet50", "ResNet101", "SmallCNN", "ViT", "build"]
