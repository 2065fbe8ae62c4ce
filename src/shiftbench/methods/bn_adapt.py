"""Batch norms that adapt: after training, each domain is normalised with some of its own statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import torch
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, Method, check_finite
from shiftbench.models.names import image_models

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.net import Net


@register(METHODS, "bn_adapt")
@dataclass(frozen=True)
class BNAdapt(Method):
    """Adapted batch norms (Schneider et al., 2020).

        mu <- (r mu_s + mu_t) / (r + 1),     var <- (r var_s + var_t) / (r + 1),     r = N / n

    Training is ERM's. mu_s and var_s are what a batch norm measured in training; mu_t and var_t are those of the items
    of one domain of one split, at the same place in the net. No weight changes. r is 10 in Wiles et al.: a source of N
    items against a target of n = N / 10.

    It looks at the inputs of the items it is tested on, many at a time, and knows which of them are of one domain; it
    sees no label. A method that predicts item by item does without both: mind this where they are compared.

    Our reading, where codes differ. All in one forward pass, from the first norm to the last: each normalises with its
    blended statistics before the next is measured, as published. At most 512 items of a domain are measured. The
    variance is about the domain's own mean and divides by n, as normalisation in training does, so r = 0 is a net in
    training mode. The spread between mu_s and mu_t does not enter. The released code of Wiles et al. computes the new
    statistics and throws them away, so that it predicts what ERM does.
    """

    ratio: float = 10.0  # r

    family: ClassVar[str] = "adaptive"
    needs: ClassVar[str] = "images"
    targets: ClassVar[tuple[str, ...]] = ("class", "number", "tasks")
    adapts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_finite(self, "ratio")

    def net(self, net: Net) -> Net:
        from shiftbench.models.net import MODELS

        if not net.norms():
            with torch.device("meta"):  # torch's device without memory: a net is cheap there
                able = sorted(name for name, model in image_models().items() if MODELS[name](2, model.side).norms())
            raise ShiftBenchError(f"bn_adapt: model '{net.name}' has no batch norms to adapt. Models that have: "
                                  f"{', '.join(able)}.")
        return net

    def adapted(self, net: Net, inputs: Tensor) -> Net:
        net.eval()
        hooks = [norm.register_forward_pre_hook(blend(self.ratio)) for norm in net.norms()]
        try:
            with torch.no_grad():
                net(inputs)
        finally:
            for hook in hooks:
                hook.remove()
        return net


def blend(ratio: float) -> Callable[[Any, tuple[Tensor, ...]], None]:
    """What a batch norm does before it normalises: takes its input's mean and variance into its own."""

    def take(norm: Any, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0].float().transpose(0, 1).flatten(1)  # channels × values
        var, mean = torch.var_mean(x, dim=1, correction=0)
        norm.running_mean.mul_(ratio).add_(mean).div_(ratio + 1)
        norm.running_var.mul_(ratio).add_(var).div_(ratio + 1)

    return take
