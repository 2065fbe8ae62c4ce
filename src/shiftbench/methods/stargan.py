"""Learned augmentation: train on images that a generator has translated to a domain drawn at random."""

from __future__ import annotations

from collections.abc import Generator as Generating
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shiftbench.core.backend import F, nn, torch
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import register
from shiftbench.methods.method import METHODS, Batch, Method, Number, Stage, Task, Trained, check_finite
from shiftbench.methods.space import Choice, Power, Space

if TYPE_CHECKING:
    from torch import Tensor

    from shiftbench.models.generative import Generator
    from shiftbench.models.net import Net


@register(METHODS, "stargan")
@dataclass(frozen=True)
class StarGAN(Method):
    """Augmentation by learned translation (Goel et al., 2020; Choi et al., 2018; as in Wiles et al., 2022, F.3).

        1. min over G, max over D   L_r + L_c - lambda L_a
           L_r = mean |x - G(G(x, v), d)|,     L_c = CE(C(G(x, v)), v),
           L_a = mean (D(x) - 1)^2 / 2 + mean D(G(x, v))^2 / 2
        2. min over f   E_{(x, y) ~ p_aug} l(f(x), y),     p_aug = (1 - alpha) p_reweight + alpha p_G(x | y, v) p(y, v)

    G(x, v) is image x as it would look in domain v, d its own domain, v uniform among those of the training items. D
    says how real an image looks at each place, and C, which shares its layers, of which domain it is; C learns from
    real images. In the second stage each image drawn by p_reweight is translated, G(x, v), with probability alpha
    (§2.1). At alpha = 1 it sees no real image, which is how the paper trains (F.3 writes "alpha = 0, using no real
    samples", §2.1 and E call it alpha = 1), at alpha = 0 it is ERM; what is scored later are real images.

    Our reading, where codes differ. G and D step together, in one backward pass, by one optimizer, the run's, with the
    learning rate `gan_lr`: D's part of the loss sees G's images without their history, and G's part sees D with its
    weights held fixed; StarGAN takes five steps of D for each of G. L_a has CycleGAN's squares, and G makes D(G(x, v))
    go to 1 instead of L_a go up; StarGAN has a Wasserstein distance with a gradient penalty. lambda weighs what D and G
    make of L_a alike, since C's loss of real images has weight 1 beside it. v may be d. The paper's one-hot code is of
    "the original attribute" in one sentence and of the wanted one in StarGAN, to which it refers; here it is the wanted
    one. The paper does not say how long the first stage lasts: `gan_share` of the run's steps.
    """

    adversarial: float = 1.0  # lambda
    gan_lr: float = 1e-4
    width: int = 64  # channels after the first layer of G and of D
    gan_share: float = 1.0
    alpha: float = 1.0  # share of translated images in the second stage

    family: ClassVar[str] = "learned augmentation"
    needs: ClassVar[str] = "images"
    shapes: ClassVar[tuple[str, ...]] = ("width", "alpha")
    space: ClassVar[Space] = {"adversarial": Power(10, -2, 1), "gan_lr": Choice((1e-3, 1e-4, 1e-5))}

    def __post_init__(self) -> None:
        check_finite(self, "adversarial")
        check_finite(self, "gan_lr", positive=True)
        check_finite(self, "gan_share", positive=True)
        if not 0 <= self.alpha <= 1:
            raise ShiftBenchError(f"stargan: 'alpha' is {self.alpha}, but must be a share from 0 to 1.")
        if self.width < 1:
            raise ShiftBenchError(f"stargan: 'width' is {self.width}, but must be at least 1.")

    def fit(self) -> Generating[Stage, Trained, Trained]:
        first = yield Stage(_Translation(self.adversarial, self.width), share=self.gan_share, lr=self.gan_lr,
                            select_on="last")
        return (yield Stage(_OnTranslated(first.state.generator.requires_grad_(False), self.alpha)))


@dataclass(frozen=True)
class _Translation(Method):
    """The first stage. The run's net only says how its images are normalised; it does not learn."""

    adversarial: float
    width: int

    shapes: ClassVar[tuple[str, ...]] = ("width",)

    draws: ClassVar[int] = 1

    def state(self, task: Task) -> nn.Module:
        if task.n_domains < 2:
            raise ShiftBenchError("stargan: all training items are of one domain, so there is nothing to translate to. "
                                  "Choose a benchmark with several training domains, or another method.")
        from shiftbench.models.generative import Discriminator, Generator

        state = nn.Module()
        state.generator = Generator(task.n_domains, self.width)
        state.discriminator = Discriminator(task.n_domains, self.width)
        return state

    def loss(self, net: Net, batch: Batch, state: Any, step: int | Tensor) -> Tensor:
        x = to_unit(batch.x, net)
        target = target_domains(batch, state.generator)
        translated = state.generator(x, target)
        restored = state.generator(translated, batch.domain)
        return (F.l1_loss(restored, x) + convincing(state.discriminator, translated, target, self.adversarial)
                + telling(state.discriminator, x, translated, batch.domain, self.adversarial))


def convincing(discriminator: nn.Module, translated: Tensor, target: Tensor, adversarial: Number) -> Tensor:
    """G's part: its images look real and are of the target domain. D's weights are constants here."""
    fixed = {name: parameter.detach() for name, parameter in discriminator.named_parameters()}
    real, domain = torch.func.functional_call(discriminator, fixed, translated)
    return F.cross_entropy(domain, target) + adversarial * ((real.float() - 1) ** 2).mean()


def telling(discriminator: nn.Module, x: Tensor, translated: Tensor, source: Tensor, adversarial: Number) -> Tensor:
    """D's part: what is real, and of which domain it is. G's images are constants here."""
    real, domain = discriminator(torch.cat([x, translated.detach().to(x.dtype)]))
    on_real, on_translated = real.float().chunk(2)
    return (F.cross_entropy(domain[:len(x)], source)
            + adversarial * (((on_real - 1) ** 2).mean() + (on_translated ** 2).mean()) / 2)


@dataclass(frozen=True)
class _OnTranslated(Method):
    """The second stage. The generator is not part of its state: it does not change, and a resumed run has it from the
    first stage's."""

    generator: Generator
    alpha: float = 1.0

    draws: ClassVar[int] = 1

    def loss(self, net: Net, batch: Batch, state: nn.Module, step: int | Tensor) -> Tensor:
        return super().loss(net, batch._replace(x=self.augmented(net, batch)), state, step)

    def augmented(self, net: Net, batch: Batch) -> Tensor:
        """Images of p_aug: below alpha, the number that is drawn for an image also says into which domain it goes."""
        assert batch.u is not None
        if not self.alpha:
            return batch.x
        share = batch._replace(u=(batch.u / self.alpha).clamp(max=1))
        with torch.no_grad():
            translated = normalised(self.generator(to_unit(batch.x, net), target_domains(share, self.generator)), net)
        if self.alpha == 1:
            return translated
        return torch.where((batch.u[:, 0] < self.alpha)[:, None, None, None], translated.to(batch.x.dtype), batch.x)


def target_domains(batch: Batch, generator: Generator) -> Tensor:
    """The domain that each image is translated to."""
    assert batch.u is not None
    return (batch.u[:, 0] * generator.n_domains).long().clamp(max=generator.n_domains - 1)


def to_unit(x: Tensor, net: Net) -> Tensor:
    """Images in [-1, 1], whatever the net's own scale is. By channel: a recorded step cannot fetch a tensor of scales
    from the host."""
    return torch.stack([channel * (std / 127.5) + (mean / 127.5 - 1)
                        for channel, mean, std in zip(x.unbind(1), net.mean, net.std, strict=True)], dim=1)


def normalised(x: Tensor, net: Net) -> Tensor:
    """Images in [-1, 1] on the net's own scale."""
    return torch.stack([(channel - (mean / 127.5 - 1)) * (127.5 / std)
                        for channel, mean, std in zip(x.unbind(1), net.mean, net.std, strict=True)], dim=1)
