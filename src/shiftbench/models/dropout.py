"""Dropout without a random generator: the mask is a function of the net's own buffers.

A recorded step is replayed and a stopped run goes on from its checkpoint, with the same numbers as one that never
stopped. The state of a generator would have to be recorded, saved and restored too; buffers already are.
"""

import torch
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError

LEVELS = 1 << 16
PER_WORD = 4
"""A hash of 64 bits makes the masks of four elements, 16 bits each: a quarter of the work."""

STEP, ELEMENT = 0x6A09E667F3BCC909, 0x9E3779B97F4A7C15 - 2**64
MIXERS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)
"""Odd 64-bit numbers, written as the signed ones that torch multiplies modulo 2⁶⁴."""


class Dropout(nn.Module):
    """y_i = x_i · [h_i ≥ q 2¹⁶] / (1 − q) while training, y = x in evaluation, with q the rate in steps of 2⁻¹⁶.

    h_i are 16 of the 64 bits of mix(salt + count · STEP + ⌊i/4⌋ · ELEMENT), a splitmix-like hash; `salt` is drawn when
    the net is made, so that no two layers or seeds share masks, and `count` goes up by one at each training call. Both
    are saved with the weights: put back, they repeat the mask.
    """

    salt: Tensor
    count: Tensor

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ShiftBenchError(f"Dropout: the rate must be at least 0 and below 1, got {rate}.")
        self.level = min(round(rate * LEVELS), LEVELS - 1)
        self.register_buffer("salt", torch.randint(2**63 - 1, ()))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.level == 0:
            return x
        self.count.add_(1)
        return x * self._kept(x) * (LEVELS / (LEVELS - self.level))

    def _kept(self, x: Tensor) -> Tensor:
        """Which elements stay, by their number in row-major order, wherever they lie in memory."""
        n = x.numel()
        words = torch.arange(-(-n // PER_WORD), device=x.device)
        words = torch.add(torch.add(self.salt, self.count, alpha=STEP), words, alpha=ELEMENT)
        for mixer in MIXERS:
            # Ends with a product: >> repeats the sign, so that right after x ^ (x >> k) the top bit would always be 0.
            words.bitwise_xor_(words >> 32).mul_(mixer)
        # As signed 16-bit numbers the smallest h is −2¹⁵.
        return (words.view(torch.int16)[:n] >= self.level - LEVELS // 2).view(x.shape)

    def extra_repr(self) -> str:
        return f"rate={self.level / LEVELS:.5f}"


def with_own_dropout(module: nn.Module) -> nn.Module:
    """The module, with ours in place of torch's layers of dropout."""
    for above in list(module.modules()):
        for leaf, part in list(above.named_children()):
            if isinstance(part, nn.Dropout) and part.p:
                setattr(above, leaf, Dropout(part.p))
    return module
