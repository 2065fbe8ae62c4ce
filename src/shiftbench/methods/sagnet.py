"""SagNet: a net that reads the content of an image, not its style."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import F, nn, torch
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, Batch, Method, Task, per_item
from shiftbench.methods.mixup import draws_of, partner
from shiftbench.methods.space import Power, Space

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.net import Net


@register(METHODS, "sagnet")
@dataclass(frozen=True)
class SagNet(Method):
    """Style-agnostic nets (Nam et al., 2021), with the sizes of Wiles et al. (F.4).

        min over g, c   mean_i CE(c(SR(z_i)), y_i)                       z = g(x), the maps before they are pooled
        min over s      mean_i CE(s(CR(z_i)), y_i)
        min over g      lambda * mean_i CE(s(CR(z_i)), uniform)
        SR(z) = styled(z, a mu + (1 - a) mu', a sigma + (1 - a) sigma'),     a ~ U(0, 1)
        CR(z) = styled(z', mu, sigma),     styled(z, m, s) = s (z - mu(z)) / sigma(z) + m

    mu and sigma, an item's style, are mean and deviation of each channel over the places of its map; primed is another
    item of the batch, each as likely, drawn for SR and CR apart. c learns labels under any style, s from style alone,
    and g hides them from s. It needs to know neither domains nor groups.

    What goes where. The gradient of s's loss ends at CR(z), which is detached. That of g's adversary runs through the
    weights of s, detached, into mu and sigma alone: the content z' that CR lends is detached, as in the authors' code.
    So s is moved by its own loss only, g by no loss of s, and the adversary pulls at style and never at content.

    Our reading, where codes differ. The predictors work at each place of the map, and the mean over places follows. On
    pooled maps there would be nothing to tell apart: the mean over places of CR(z) is that of z, and of SR(z) a mix of
    two. The code released with Wiles et al. pools first and normalises over the features of one item. c is what
    predicts: its hidden layers belong to the net's features, its last one is the net's head. Their formula has
    -lambda CE(s, y) for the adversary, which has no lower bound. As in their formula and in DomainBed the adversary
    moves all of g, in the authors' code only the scales and shifts of its norms. As in the paper deviations are mixed,
    in the codes variances. lambda is Wiles et al.'s, the authors and DomainBed have 0.1; the law is DomainBed's.
    """

    penalty: float = 1.0  # lambda

    family: ClassVar[str] = "domain generalization"
    needs: ClassVar[str] = "maps"
    space: ClassVar[Space] = {"penalty": Power(10, -2, 1)}

    draws: ClassVar[int] = 3

    def net(self, net: Net) -> Net:
        from shiftbench.models.image_nets import by_place

        return by_place(net)

    def state(self, task: Task) -> nn.Module:
        twin: Any = task.twin()  # for a second predictor: its maps are let go
        state = nn.Module()
        state.style = nn.Sequential(twin.features.predictor, twin.head)
        return state

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        first, second, a = draws_of(batch)
        maps = net.maps(batch.x)
        eligible = ~torch.eye(len(maps), dtype=torch.bool, device=maps.device)
        content = per_item(net.head(net.pool(restyled(maps, partner(eligible, first), a))), batch).mean()
        swapped = recontented(maps, partner(eligible, second))
        style = F.cross_entropy(state.style(swapped.detach()), batch.label)
        fixed = {name: weight.detach() for name, weight in state.style.named_parameters()}
        guess = torch.func.functional_call(state.style, fixed, (swapped,))
        return content + style - self.penalty * F.log_softmax(guess.float(), dim=1).mean()


def style(maps: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation over places, items × channels × 1 × 1, in 32 bits; a channel without spread keeps a little."""
    maps = maps.float()
    variance, mean = torch.var_mean(maps, dim=(2, 3), correction=0, keepdim=True)
    return mean, torch.sqrt(variance + 1e-5)


def restyled(maps: Tensor, partners: Tensor, a: Tensor) -> Tensor:
    """Each item's maps in a style between its own (a = 1) and that of its partner (a = 0)."""
    mean, deviation = style(maps)
    a = a.view(-1, 1, 1, 1)
    return (maps - mean) / deviation * deviation.lerp(deviation[partners], 1 - a) + mean.lerp(mean[partners], 1 - a)


def recontented(maps: Tensor, partners: Tensor) -> Tensor:
    """Each item's style on the content of its partner, through which no gradient goes."""
    mean, deviation = style(maps)
    content = ((maps - mean) / deviation).detach()
    return content[partners] * deviation + mean
