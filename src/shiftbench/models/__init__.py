"""Models by name: nets with two parts, `features` and `head`."""

import shiftbench.pixels.needs_torch  # noqa: F401
from shiftbench.models.autoencoder import BetaVAE, Decoder, Encoder
from shiftbench.models.base import MODELS, Net, build
from shiftbench.models.causal import CodeTransformer
from shiftbench.models.detector import FasterRCNN, FasterRCNNSmall
from shiftbench.models.efficientnet_lite import EfficientNetLite0
from shiftbench.models.gin import GINSmall, GINVirtual
from shiftbench.models.heads import MLP, Linear
from shiftbench.models.multispectral import ResNet18MS
from shiftbench.models.pixel_mlp import PixelMLP
from shiftbench.models.resnet import ResNet18, ResNet34, ResNet50, ResNet101
from shiftbench.models.small_cnn import SmallCNN
from shiftbench.models.text import TextBag, TextTransformer
from shiftbench.models.torchvision_nets import VGG11, AlexNet, DenseNet121
from shiftbench.models.transformers_nets import Transformers, TransformersLM
from shiftbench.models.vit import ViT

__all__ = ["MLP", "MODELS", "VGG11", "AlexNet", "BetaVAE", "CodeTransformer", "Decoder", "DenseNet121",
           "EfficientNetLite0", "Encoder", "FasterRCNN", "FasterRCNNSmall", "GINSmall", "GINVirtual", "Linear", "Net",
           "PixelMLP", "ResNet18", "ResNet18MS", "ResNet34", "ResNet50", "ResNet101", "SmallCNN", "TextBag",
           "TextTransformer", "Transformers", "TransformersLM", "ViT", "build"]
