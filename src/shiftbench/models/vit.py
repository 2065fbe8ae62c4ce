"""A vision transformer with the sizes of Wiles et al., appendix F.1."""


import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.net import Dropout, Net, expect, model

WIDTH, INNER, HEADS, LAYERS, RATE = 256, 512, 8, 8, 0.1
PATCHES, TOKENS = (16, 12, 8, 4), 64


def patch_of(side: int) -> int:
    """The paper's patch where it names the side: 64 px: 4, 96 px: 12, 256 px: 16.

    Else the largest of 16, 12, 8 and 4 that divides the side and leaves at least 64 patches, which gives the paper's at
    96 and 256 px; where even 4 leaves fewer, it is 4.
    """
    if side < 1 or side % PATCHES[-1]:
        raise ShiftBenchError(f"Model 'vit' cuts images into patches of 4, 8, 12 or 16 px, so their side must be a "
                              f"multiple of 4; it is {side}. Choose another size, for example {max(4, side // 4 * 4)}.")
    if side == 64:
        return 4
    return next((patch for patch in PATCHES if side % patch == 0 and (side // patch)**2 >= TOKENS), PATCHES[-1])


@model("vit")
class ViT(Net):
    """Patches, a learnt position each, eight pre-norm blocks of attention and MLP, a norm, and the mean over patches.

    Width 256, MLP width 512, 8 heads, dropout 0.1 on the sum of patch and position, on each block's two results and
    inside its MLP; none on the attention weights. We take the mean over patches where Dosovitskiy et al. read off a
    class token, so that features are the mean of maps here as in the convolutional nets.

    4.30 million parameters at 64 px. The paper's Table 3 counts 85.66 million, which is not the net of its appendix but
    ViT-B/16 (width 768, MLP width 3072, 12 layers, patch 16, a class token) on images of 64 px, to the digit.
    """

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        self.features = _Body(n_inputs or self.side)
        self.head = nn.Linear(WIDTH, n_classes)

    def maps(self, x: Tensor) -> Tensor:
        return self.features.maps(x)

    def pool(self, maps: Tensor) -> Tensor:
        return self.features.pool(maps)


class _Body(nn.Module):
    def __init__(self, side: int) -> None:
        super().__init__()
        self.side, patch = side, patch_of(side)
        self.patches = nn.Conv2d(3, WIDTH, patch, stride=patch)
        self.position = nn.Parameter(0.02 * torch.randn(1, (side // patch)**2, WIDTH))
        self.drop = Dropout(RATE)
        self.blocks = nn.Sequential(*(_Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.maps(x))

    def maps(self, x: Tensor) -> Tensor:
        expect(x, self.side, ViT.name)
        tokens = self.drop(self.patches(x).flatten(2).mT + self.position)
        return self.norm(self.blocks(tokens)).mT.unsqueeze(3)

    def pool(self, maps: Tensor) -> Tensor:
        return maps.mean(dim=(2, 3))


class _Block(nn.Module):
    """t ← t + attention(norm(t)), then t ← t + MLP(norm(t))."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = _Attention()
        self.drop1 = Dropout(RATE)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(_linear(WIDTH, INNER), nn.GELU(), Dropout(RATE), _linear(INNER, WIDTH), Dropout(RATE))

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.drop1(self.attention(self.norm1(tokens)))
        return tokens + self.mlp(self.norm2(tokens))


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inputs = _linear(WIDTH, 3 * WIDTH, parts=3)
        self.output = _linear(WIDTH, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        parts = self.inputs(tokens).unflatten(2, (3, HEADS, WIDTH // HEADS))
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind()
        # Where algorithms that repeat are asked for with warnings only, as training does on a GPU, the fused kernels
        # still add up gradients in any order.
        fused = not torch.are_deterministic_algorithms_enabled()
        mixed = F.scaled_dot_product_attention(query, key, value) if fused else attention(query, key, value)
        return self.output(mixed.transpose(1, 2).flatten(2))


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax(q k' / sqrt(d)) v as plain products, which repeat. torch's own way of plain products would go to 32 bits
    whatever the run's precision is."""
    scores = (query * query.shape[-1]**-0.5) @ key.mT
    with torch.autocast(scores.device.type, enabled=False):
        shares = scores.softmax(dim=-1)
    return shares @ value


def _linear(below: int, above: int, parts: int = 1) -> nn.Linear:
    """A layer that starts as in the original: Glorot's uniform weights, drawn for each part by itself, and no bias."""
    layer = nn.Linear(below, above)
    for part in layer.weight.detach().chunk(parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(layer.bias)
    return layer
