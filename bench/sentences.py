"""Captions per second of our numpy forward of all-MiniLM-L6-v2, against torch's of the same weights, one thread each.

    python bench/sentences.py [--captions 1000]

torch does what sentence-transformers does: captions sorted by length, 32 at a time, padded and masked. It runs twice,
written out with its fused attention and as torch's own TransformerEncoder; the ratio is to the faster. Both start from
text, with the same tokenizer. Times are the process's own, so that others at work on the machine count less.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["TOKENIZERS_PARALLELISM"] = "1"

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.text import encoder
from shiftbench.text.bert import Linear, Norm
from shiftbench.text.sentence_model import SentenceModel

WORDS = """a a a the of on in with and at next to man woman people person dog cat horse bird bus train truck
airplane boat bench table plate food pizza street field grass beach water snow kitchen room sitting standing holding
riding wearing walking playing eating looking large small white black red green old young two three group several top
side front baseball tennis surfboard skateboard umbrella giraffe elephant zebra bathroom"""
TIMES = 5


def captions(n: int) -> list[str]:
    """As long as COCO's: 8 words at least, 10.5 in the mean."""
    rng, words = np.random.default_rng(0), WORDS.split()
    return [" ".join(rng.choice(words, 8 + rng.poisson(2.5))) + "." for _ in range(n)]


def linear(ours: Linear) -> nn.Linear:
    layer = nn.Linear(*ours.weight.shape)
    layer.load_state_dict({"weight": torch.from_numpy(ours.weight.T.copy()), "bias": torch.from_numpy(ours.bias)})
    return layer


def norm(ours: Norm) -> nn.LayerNorm:
    layer = nn.LayerNorm(len(ours.scale), ours.epsilon)
    layer.load_state_dict({"weight": torch.from_numpy(ours.scale), "bias": torch.from_numpy(ours.shift)})
    return layer


class Reference:
    """The same encoder in torch, on padded batches."""

    def __init__(self, model: SentenceModel, fused: bool) -> None:
        net = model.net
        self.model, self.heads = model, net.heads
        self.words, self.places = torch.from_numpy(net.words), torch.from_numpy(net.places)
        self.norm = norm(net.norm)
        self.layers = [[linear(part) if isinstance(part, Linear) else norm(part) for part in one] for one in net.layers]
        self.encoder = self._fused() if fused else None

    def _fused(self) -> nn.TransformerEncoder:
        width = self.words.shape[1]
        root = (width // self.heads) ** 0.5
        one = nn.TransformerEncoderLayer(width, self.heads, self.layers[0][3].out_features, 0.0, F.gelu, 1e-12, True)
        stack = nn.TransformerEncoder(one, len(self.layers)).eval()
        scale = torch.cat([torch.full((width,), root), torch.ones(2 * width)])
        for layer, (gather, after, first, widen, narrow, last) in zip(stack.layers, self.layers, strict=True):
            layer.self_attn.in_proj_weight.data = gather.weight.data * scale[:, None]
            layer.self_attn.in_proj_bias.data = gather.bias.data * scale
            layer.self_attn.out_proj, layer.norm1, layer.norm2 = after, first, last
            layer.linear1, layer.linear2 = widen, narrow
        return stack

    def _plain(self, x: Tensor, mask: Tensor) -> Tensor:
        for gather, after, first, widen, narrow, last in self.layers:
            q, k, v = gather(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, mask[:, None, None], scale=1.0)
            x = first(x + after(y.transpose(1, 2).flatten(2)))
            x = last(x + narrow(F.gelu(widen(x))))
        return x

    def encode(self, texts: list[str]) -> np.ndarray:
        pieces = [torch.tensor(one.ids) for one in self.model.tokenizer.encode_batch_fast(texts)]
        out = torch.empty(len(texts), self.words.shape[1])
        order = sorted(range(len(texts)), key=lambda k: -len(pieces[k]))
        for chosen in (order[start:start + 32] for start in range(0, len(order), 32)):
            ids = nn.utils.rnn.pad_sequence([pieces[k] for k in chosen], True)
            mask = torch.arange(ids.shape[1]) < torch.tensor([len(pieces[k]) for k in chosen])[:, None]
            x = self.norm(self.words[ids] + self.places[:ids.shape[1]])
            x = self.encoder(x, src_key_padding_mask=~mask) if self.encoder else self._plain(x, mask)
            out[chosen] = F.normalize((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))
        return out.numpy()


def rate(what: str, n: int, work: Callable[[], object]) -> float:
    """The middle one of several runs after one to warm up."""
    seconds = []
    for _ in range(TIMES + 1):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    middle = sorted(seconds[1:])[TIMES // 2]
    print(f"{what:<44} {middle:7.2f} s for {n} captions  {n / middle:>7.0f} captions/s", flush=True)
    return n / middle


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--captions", type=int, default=1000)
    texts = captions(parser.parse_args().captions)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="The PyTorch API of nested tensors")
    ours = encoder()
    assert isinstance(ours, SentenceModel)
    plain, fused = Reference(ours, False), Reference(ours, True)
    found = ours.encode(texts)
    apart = max(float(np.abs(found - other.encode(texts)).max()) for other in (plain, fused))
    print(f"largest difference between the vectors: {apart:.1e}")
    assert apart < 1e-5
    mine = rate("ours, numpy", len(texts), lambda: ours.encode(texts))
    theirs = max(rate("torch, written out, fused attention", len(texts), lambda: plain.encode(texts)),
                 rate("torch, TransformerEncoder", len(texts), lambda: fused.encode(texts)))
    print(f"ratio: {mine / theirs:.1f}")


if __name__ == "__main__":
    main()
