"""Satellite images of eight channels: the ResNet of WILDS' PovertyMap."""


from torch import nn

from shiftbench.models.base import model
from shiftbench.models.resnet import Residual


@model("resnet18-ms")
class ResNet18MS(Residual):
    """ResNet-18 whose first convolution sees eight channels: 512 features, 11.19 million parameters; from nothing.

    Images come as float32 on the scale of their files (PovertyMap's have mean 0 and deviation 1 per channel), so `mean`
    and `std` are not used. A file with torchvision's names fits where its first convolution has eight channels.
    """

    def body(self) -> nn.Module:
        from torchvision.models import resnet18

        net = resnet18()
        old = net.conv1
        net.conv1 = nn.Conv2d(self.channels, old.out_channels, old.kernel_size, old.stride, old.padding, bias=False)
        nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")  # as torchvision starts it
        return net
