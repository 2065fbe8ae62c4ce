"""Published transformers by name or folder: any encoder for texts, any causal one for next tokens."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError, first_line
from shiftbench.models.net import SUFFIXES, Net, model, with_layers, with_own_dropout
from shiftbench.models.text_nets import NextToken, repeatable, seen

NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
AT_ONCE = 4096
"""Texts cut into word pieces together: their lists take more memory than the final table."""


@model("transformers")
class Transformers(Net):
    """A net of the package transformers for whole texts, from `weights`: a folder, or a name on the Hugging Face hub.

    The features are what the architecture's own classification head feeds to its last layer, which is ours, new unless
    the folder has one of as many classes. For DistilBERT that is relu(W h + b) of the first token's state h, as WILDS
    has it; for BERT its pooler, tanh(W h + b); for others what their authors chose. Texts are cut by the tokenizer of
    the same folder; x holds its tokens plus 1, since 0 is padding here and a word there.

    Dropout is ours where the net has it as a layer, so that a run that was stopped goes on as if it had not been; on
    attention weights there is none. The package's code looks at the data, so no step is recorded.
    """

    def __init__(self, n_classes: int, n_inputs: int = 0, source: str = "", pretrained: bool = True) -> None:
        super().__init__()
        model = load_net(self.name, source, "AutoModelForSequenceClassification", n_inputs, pretrained=pretrained,
                         num_labels=n_classes)
        linear = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
        last = [layer for layer in linear if layer.out_features == n_classes][-1]
        self.features = Reader(_up_to(model, last))
        self.head = last

    @classmethod
    def tokens(cls, texts: Sequence[str], length: int, weights: str) -> npt.NDArray[np.int32]:
        return cut_texts(cls.name, weights, texts, length)


def cut_texts(name: str, source: str, texts: Sequence[str], length: int) -> npt.NDArray[np.int32]:
    """Texts as the tokens of a source's tokenizer plus 1, N × length; 0 is padding."""
    tokenizer = of_package(name, source, "AutoTokenizer")
    if not 1 <= length <= tokenizer.model_max_length:
        raise ShiftBenchError(f"Model '{name}' with weights={source} reads texts of 1 to {tokenizer.model_max_length} "
                              f"tokens, not {length}. Set size.")
    tokens = np.zeros((len(texts), length), np.int32)
    for start in range(0, len(texts), AT_ONCE):
        batch = [str(text) for text in texts[start:start + AT_ONCE]]
        for row, pieces in enumerate(tokenizer(batch, truncation=True, max_length=length)["input_ids"], start):
            tokens[row, :len(pieces)] = np.asarray(pieces, np.int32) + 1
    return tokens


class Reader(nn.Module):
    """A net of texts that is given our tokens, and answers with its logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        real = x > 0
        ids = torch.where(real, x - 1, self.model.config.pad_token_id)
        with repeatable():
            return self.model(input_ids=ids, attention_mask=seen(real).long()).logits


@model("transformers-lm")
class TransformersLM(NextToken):
    """A causal net of the package transformers (GPT-2, CodeGPT), from `weights`: a folder, or a name on the hub.

    Its tokens are the benchmark's, so the benchmark's must come from its tokenizer. The features are the last states;
    the head starts as the net's own, which mostly is its table of token vectors, and learns by itself from there (WILDS
    keeps the two one). Dropout as in model transformers.
    """

    def __init__(self, n_classes: int, n_inputs: int = 0, source: str = "") -> None:
        super().__init__()
        model = load_net(self.name, source, "AutoModelForCausalLM", n_inputs)
        last = model.get_output_embeddings()
        if not isinstance(last, nn.Linear):
            raise ShiftBenchError(f"Model '{self.name}' with weights={source}: its net does not end in a layer of "
                                  "tokens.")
        if n_classes > last.out_features:
            raise ShiftBenchError(f"Model '{self.name}' with weights={source} knows {last.out_features} tokens, but "
                                  f"the benchmark's run to {n_classes - 1}: they are another tokenizer's.")
        self.features = _Writer(_up_to(model, last))
        self.head = nn.Linear(last.in_features, n_classes, bias=last.bias is not None)
        self.head.load_state_dict({key: value[:n_classes] for key, value in last.state_dict().items()})
        if not self._is_causal(n_classes):
            raise ShiftBenchError(f"Model '{self.name}' with weights={source}: its net sees the tokens that it is to "
                                  "predict. Choose a causal one, such as GPT-2, or model transformers for texts.")

    @torch.no_grad()
    def _is_causal(self, n_tokens: int) -> bool:
        """Whether the features at the first of two positions do not depend on the token at the second."""
        x = torch.tensor([[0, 0], [0, n_tokens - 1]])
        first, second = self.eval().features(x)[:, 0]
        self.train()
        return n_tokens == 1 or bool(torch.isclose(first, second, rtol=1e-4, atol=1e-5).all())


class _Writer(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        ids = x.clamp(min=0)
        with repeatable():
            return self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


def load_net(name: str, source: str, auto_class: str, length: int, *, pretrained: bool = True, own_head: bool = False,
             **settings: Any) -> nn.Module:
    """The net at a source, whole, in 32 bits, with our dropout; with random weights where it is not `pretrained`. It
    may lack its last layer, unless that is to be its own."""
    config = of_package(name, source, "AutoConfig", **settings)
    longest = getattr(config, "max_position_embeddings", None)
    if longest is not None and length > longest:
        raise ShiftBenchError(f"Model '{name}' with weights={source} has positions for {longest} tokens, but the items "
                              f"have {length}. Set size={longest} or less.")
    for key in vars(config):
        if "drop" in key and ("attn" in key or "attention" in key):
            setattr(config, key, 0.0)
    config.use_cache = False
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = int(np.ravel(getattr(config, "eos_token_id", None) or 0)[0])  # as GPT-2's users do
    if not pretrained:
        return with_own_dropout(_random(name, auto_class, config)).train()
    model, report = of_package(name, source, auto_class, config=config, dtype=torch.float32, weights_only=True,
                               ignore_mismatched_sizes=True, output_loading_info=True)
    inside = f"{model.base_model_prefix}."
    absent = [*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])]
    missing = sorted(key for key in absent if key.startswith(inside) and ".pooler." not in key)
    if missing:
        raise ShiftBenchError(f"{source}: the weights are not those of its config.json: {len(missing)} tensors are "
                              f"missing or of another shape (first: {missing[0]}). Save the model again.")
    if absent and own_head:
        raise ShiftBenchError(f"{source}: is not a finished classifier: it lacks {len(absent)} tensors of its head "
                              f"(first: {min(absent)}). Train it first, or name a model that has a head.")
    return with_own_dropout(model).train()


def _random(name: str, auto_class: str, config: Any) -> nn.Module:
    import transformers

    config.dtype = torch.float32
    try:
        net: nn.Module = getattr(transformers, auto_class).from_config(config)
    except ValueError as problem:
        raise ShiftBenchError(f"Model '{name}' cannot be built ({first_line(problem)}).") from problem
    return net


def _up_to(model: nn.Module, last: nn.Linear) -> nn.Module:
    """The net without its last layer: its output is that layer's input."""
    return with_layers(model, lambda layer: nn.Identity() if layer is last else None)


def of_package(name: str, source: str, auto_class: str, **settings: Any) -> Any:
    """Load a source with a class of the package; code that comes with the source is never run.

    A name is looked for on this disk, and fetched where it is not there.
    """
    try:
        import huggingface_hub
        import transformers
    except ImportError as problem:
        raise ShiftBenchError(f"Model '{name}' needs the package transformers. Install it with: "
                              "pip install transformers") from problem
    if source in ("", "none", "imagenet"):
        raise ShiftBenchError(f"Model '{name}' is defined by its weights, and weights={source or 'none'} names "
                              "none. Name a folder that has config.json, or a net of the Hugging Face hub.")
    folder = Path(source).is_dir()
    if not folder and (Path(source).suffix in SUFFIXES or not NAME.fullmatch(source)):
        raise ShiftBenchError(f"{source}: no such folder. Model '{name}' takes as weights a folder with config.json, "
                              "model.safetensors and tokenizer.json, or a name on the Hugging Face hub.")
    load = partial(getattr(transformers, auto_class).from_pretrained, source, trust_remote_code=False, **settings)
    try:
        with _quiet(transformers.utils.logging, huggingface_hub.utils.logging):
            try:
                return load(local_files_only=True)
            except OSError:
                if folder:
                    raise
                return load()
    except Exception as problem:  # it may raise anything: of files, JSON, the net, its own
        message = " ".join(str(problem).split())
        raise ShiftBenchError(f"Model '{name}': cannot load weights={source} ({type(problem).__name__}: "
                              f"{message[:160]}). Give a folder with config.json, model.safetensors and "
                              "tokenizer.json, or a name of the Hugging Face hub that is on this disk or can be "
                              "fetched.") from problem


@contextmanager
def _quiet(library: Any, hub: Any) -> Iterator[None]:
    """Without progress bars, reports that a head is new, and messages on failed attempts to fetch."""
    levels, bars = [log.get_verbosity() for log in (library, hub)], library.is_progress_bar_enabled()
    library.disable_progress_bar()
    for log in (library, hub):
        log.set_verbosity_error()
    try:
        yield
    finally:
        for log, level in zip((library, hub), levels, strict=True):
            log.set_verbosity(level)
        if bars:
            library.enable_progress_bar()
