"""A small model of code that starts from nothing: it says at every place which token comes next."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from shiftbench.errors import ShiftBenchError
from shiftbench.models.base import Net, model
from shiftbench.models.text_blocks import WIDTH, Blocks, embedding


class NextToken(Net):
    """Features and outputs of place t are made of the tokens 0 … t alone; output t is about token t + 1.

    x are the benchmark's own tokens 0 … n_classes - 1 as they are, negative beyond the item's end. Padding has features
    too, of no meaning; no token sees it, since it comes after all of them.
    """

    @classmethod
    def tokens(cls, texts: Sequence[str], length: int, weights: str) -> npt.NDArray[np.int32]:
        raise ShiftBenchError(f"Model '{cls.name}' predicts the next token of a benchmark that comes with its tokens, "
                              "as Py150 does; plain texts have none. For texts with labels use text-bag, "
                              "text-transformer or transformers.")


@model("code-transformer")
class CodeTransformer(NextToken):
    """Token vectors, two pre-norm blocks of causal attention and MLP, and a norm: the blocks of text-transformer.

    No dropout. The head is a layer of its own, not the token vectors once more. With Py150's 50,001 tokens 13.25
    million parameters, all but 0.40 of them token vectors and head.
    """

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        self.features = _Writer(n_classes)
        self.head = nn.Linear(WIDTH, n_classes)


class _Writer(nn.Module):
    def __init__(self, n_tokens: int) -> None:
        super().__init__()
        self.token = embedding(n_tokens)
        self.blocks = Blocks()

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(self.token(x.clamp(min=0)), None)
