"""Presets: names for settings of a run, each with its paper and the source of its numbers. Read without torch.

There are two sorts. A *variant* is one method with one setting: `resnet50` is ERM with that model, `augmix` is ERM on
those augmentations. Papers list variants beside methods, so a run keeps the variant's name and is shown under it. A
*protocol* holds the settings that a paper trains every method with: `metashift`, `wilds-fmow`. The settings that a user
gives win over a protocol's.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import find
from shiftbench.images.augment import ONLY
from shiftbench.methods.method import METHODS
from shiftbench.methods.space import listed


@dataclass(frozen=True)
class Preset:
    """Settings of a run, by name."""

    settings: Mapping[str, Any]  # fields of a Run, or hyperparameters of the method
    paper: str
    source: str  # where each number stands
    summary: str
    method: str = ""  # of a variant: its method. Empty: a protocol, for any method
    family: str = ""  # of a variant, beside the families of methods
    by_method: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what single methods change of a protocol
    by_task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what single tasks of a paper change of it


# Variants

WILES = "Wiles et al. (2022)"
BREEDS = "Santurkar et al. (2021), BREEDS"
NOOCH = "Madras & Zemel (2021), NOOCh"


def _model(name: str, description: str, paper: str = WILES, source: str = "F.1") -> Preset:
    return Preset({"model": name}, paper, source, f"ERM with {description}.", "erm", "architecture")


def _augmented(name: str, description: str, paper: str = WILES, source: str = "F.2",
               family: str = "heuristic augmentation") -> Preset:
    return Preset({"augment": name}, paper, source, f"ERM on {description}.", "erm", family)


VARIANTS: Mapping[str, Preset] = {
    "resnet18": _model("resnet18", "a ResNet-18 (He et al., 2016): the baseline of the figures on synthetic data"),
    "resnet50": _model("resnet50", "a ResNet-50 (He et al., 2016)"),
    "resnet101": _model("resnet101", "a ResNet-101 (He et al., 2016)"),
    "alexnet": _model("alexnet", "AlexNet (Krizhevsky et al., 2012): the weakest model of the figures", BREEDS,
                      "Table 13"),
    "vgg11": _model("vgg11", "VGG-11 (Simonyan & Zisserman, 2015)", BREEDS, "Table 13"),
    "resnet34": _model("resnet34", "a ResNet-34 (He et al., 2016)", BREEDS, "Table 13"),
    "densenet121": _model("densenet121", "DenseNet-121 (Huang et al., 2017)", BREEDS, "Table 13"),
    "vit": _model("vit", "a vision transformer (Dosovitskiy et al., 2021) of the paper's sizes"),
    "pixel-mlp": _model("pixel-mlp", "four layers of 256 units on the pixels"),
    "imagenet_augment": _augmented("imagenet", "random crops with colour jitter, the usual augmentation of ImageNet "
                                   "training (He et al., 2016)"),
    "augmix": _augmented("augmix", "AugMix (Hendrycks et al., 2020), without its consistency loss"),
    "randaugment": _augmented("randaugment", "RandAugment (Cubuk et al., 2020): three random operations of one "
                              "strength"),
    "autoaugment": _augmented("autoaugment", "AutoAugment (Cubuk et al., 2019): the published policies for CIFAR-10 "
                              "or, from 128 pixels on, ImageNet"),
    **{name.replace("-", "_"): _augmented(name, f"images with RandAugment's operation {operation} alone", source="B.2",
                                          family="one augmentation")
       for name, (operation, _) in ONLY.items()},
    "gaussian_noise": _augmented("noise", "images with Gaussian noise, of 0.2 of the pixels' range", BREEDS, "Table 14",
                                 "robust training"),
    "random_erasing": _augmented("erase", "images of which half lose a rectangle (Zhong et al., 2020)", BREEDS,
                                 "Table 14", "robust training"),
    "texture_noise": _augmented("texture", "images with random textures instead of their own", "ours",
                                "it replaces Stylized ImageNet of BREEDS, Table 14", "robust training"),
    "adversarial": Preset({"attack": 0.5}, BREEDS, "Table 14", "ERM on images moved to where the net errs more, by up "
                          "to 0.5 (Madry et al., 2018): min over f of mean_i max_{|d| <= 0.5} l(f(x_i + d), y_i).",
                          "erm", "robust training"),
    "pretrained": Preset({"weights": "imagenet"}, WILES, "F.6; images keep the run's size, the paper's have 224 pixels",
                         "ERM from pretrained weights, all of them trained on; weights=FILE starts from others.", "erm",
                         "representation learning"),
    "reweight_label": Preset({"by": "label"}, NOOCH, "its Reweight; Reweight (Envs) is the method's default, by group",
                             "`reweight` by label.", "reweight", "reweighting"),
    "undersample_label": Preset({"by": "label"}, NOOCH, "its US; US (Envs) is the method's default, by group",
                                "`undersample` by label.", "undersample", "reweighting"),
}
"""Any method takes these settings too: --method irm --model resnet50 --set augment=randaugment."""

RENAMED = {"mlp": "pixel-mlp"}
"""Old names of variants."""

NINETEEN: Mapping[str, str] = {
    "resnet18": "ResNet18",
    "resnet50": "ResNet50",
    "resnet101": "ResNet101",
    "vit": "ViT",
    "pixel-mlp": "MLP",
    "imagenet_augment": "ImageNet augmentation",
    "augmix": "AugMix without JSD",
    "randaugment": "RandAugment",
    "autoaugment": "AutoAugment",
    "stargan": "CycleGAN",
    "irm": "IRM",
    "coral": "DeepCORAL",
    "mixup": "domain MixUp",
    "dann": "DANN",
    "sagnet": "SagNet",
    "jtt": "JTT",
    "bn_adapt": "BN-Adapt",
    "beta_vae": "β-VAE",
    "pretrained": "pretraining on ImageNet",
}
"""The nineteen methods of Wiles et al., methods and variants alike: name -> name in the paper, in the paper's order."""


# Protocols of MetaShift and BREEDS

METASHIFT = Preset(
    {"model": "resnet18", "weights": "imagenet", "size": 224, "augment": "color", "batches": "domain_label",
     "batch_size": 16, "frozen_norms": True, "optimizer": "adam", "lr": 5e-5, "weight_decay": 0.0, "steps": 5000,
     "eval_every": 300, "select_on": "last"},
    "Liang & Zou (2022), MetaShift", "B.1: 32 items of a domain, here 16 of each of its two classes as the authors' "
    "loader draws equally many; DomainBed's 5,000 steps, an evaluation every 300, defaults of its methods",
    "A ResNet-18 from ImageNet weights with frozen batch norms, fine-tuned as DomainBed does it.",
    by_method={"group_dro": {"by": "domain", "step_size": 0.01}, "irm": {"penalty": 100.0, "anneal": 500 / 5000},
               "coral": {"penalty": 1.0}, "cdann": {"penalty": 1.0, "width": 256, "depth": 2, "alternate": 1}})

BREEDS_RATES = {"alexnet": 0.01, "vgg11": 0.01, "resnet18": 0.1, "resnet34": 0.1, "resnet50": 0.1, "densenet121": 0.1}
"""Models and learning rates of BREEDS, Table 13."""

BREEDS_EPOCHS = {"entity13": 300.0, "entity30": 300.0, "living17": 450.0, "nonliving26": 450.0}
"""Epochs; the learning rate drops to a tenth after each third of them (A.7.1)."""


def breeds(model: str) -> dict[str, Any]:
    """BREEDS, A.7.1, for a model of its Table 13.

    The paper names neither momentum nor augmentation: momentum is that of its training library, 0.9, as are random
    resized crops, flips and colour jitter, whose nearest is our `imagenet`. A benchmark that is none of the four tasks
    gets the 450 epochs of the smaller two. An evaluation every ten epochs of LIVING-17; the last weights are kept.
    """
    return {"model": model, "size": 224, "augment": "imagenet", "batch_size": 128, "optimizer": "sgd",
            "lr": BREEDS_RATES[model], "momentum": 0.9, "weight_decay": 1e-4, "schedule": "thirds", "epochs": 450.0,
            "eval_every": 3_450, "select_on": "last"}


# Protocols of WILDS


class Published(NamedTuple):
    """What WILDS says of a data set: training items, epochs, items and domains of a batch."""

    items: int
    epochs: int
    batch: int
    domains: int  # CORAL and IRM take batch / domains items of each
    coral: float  # penalty
    run: Mapping[str, Any]
    robust: tuple[int, int]  # Group DRO: items of each domain, and how many domains; 0: all of them

    @property
    def steps(self) -> int:
        return math.ceil(self.epochs * self.items / self.batch)


_TEXT = {"model": "transformers", "weights": "distilbert-base-uncased", "optimizer": "adamw", "lr": 1e-5,
         "weight_decay": 0.01, "decay_all": False, "max_grad_norm": 1.0, "schedule": "linear"}
_PER_EPOCH = {"schedule": "exponential", "drop": 0.96}

PUBLISHED: Mapping[str, Published] = {
    "iwildcam": Published(129_809, 12, 16, 2, 10.0, {
        "model": "resnet50", "weights": "imagenet", "size": 448, "optimizer": "adam", "lr": 3e-5}, (1, 16)),
    "camelyon17": Published(302_436, 10, 32, 2, 0.1, {
        "model": "densenet121", "size": 96, "optimizer": "sgd", "momentum": 0.9, "lr": 1e-3, "weight_decay": 0.01},
        (11, 0)),
    "rxrx1": Published(40_612, 90, 72, 9, 0.1, {
        "model": "resnet50", "weights": "imagenet", "size": 256, "optimizer": "adam", "lr": 1e-3,
        "weight_decay": 1e-5, "schedule": "cosine", "warmup": 5_415, "normalise": "image",
        "augment": "rotate-flip"}, (2, 0)),
    "molpcba": Published(350_343, 100, 32, 4, 0.1, {"model": "gin-virtual", "optimizer": "adam", "lr": 1e-3}, (1, 32)),
    "globalwheat": Published(2_943, 12, 4, 0, math.nan, {
        "model": "faster-rcnn", "weights": "imagenet", "size": 1024, "optimizer": "adam", "lr": 1e-5,
        "weight_decay": 1e-3}, (1, 4)),
    "civilcomments": Published(269_038, 5, 16, 1, 10.0, {**_TEXT, "size": 300}, (4, 0)),
    "fmow": Published(76_863, 60, 32, 8, 0.1, {
        "model": "densenet121", "weights": "imagenet", "size": 224, "optimizer": "adam", "lr": 1e-4,
        **_PER_EPOCH}, (3, 0)),
    "poverty": Published(9_797, 200, 64, 8, 0.1, {
        "model": "resnet18-ms", "size": 224, "optimizer": "adam", "lr": 1e-3, **_PER_EPOCH}, (5, 0)),
    "amazon": Published(245_502, 3, 8, 2, 1.0, {**_TEXT, "size": 512}, (1, 8)),
    "py150": Published(79_866, 3, 6, 2, 1.0, {
        "model": "transformers-lm", "weights": "microsoft/CodeGPT-small-py", "optimizer": "adamw", "lr": 8e-5,
        "max_grad_norm": 1.0, "schedule": "linear"}, (1, 6)),
}
"""Models and hyperparameters of WILDS (Koh et al., 2021, appendix E), as its package 2.0 has them. The items of
PovertyMap are those of fold A.

Our reading. Text models clip gradients at length 1, and biases and layer norms do not decay; the package looks for the
latter by a name that few of DistilBERT's have, so that the others decay there. RxRx1 standardises each channel of each
image, and turns and flips those that it trains on. PovertyMap's ERM has no augmentation in the
package. The detector starts from COCO there and from ImageNet here (or any file). The weights with the best headline on
`val` are kept, which is out of distribution: FMoW's worst region, Amazon's user at the tenth percentile, and so on, as
there."""

GROUPED = ("civilcomments",)
"""Data sets whose methods take the cells of label × identity; all others take domains."""

WILDS_RUNS: Mapping[str, tuple[str, ...]] = {
    name: ("erm", "group_dro") if name == "globalwheat" else ("erm", "coral", "irm", "group_dro") for name in PUBLISHED}
"""Methods of the paper's Table 2; CORAL and IRM "do not port straightforwardly to detection"."""


def _wilds_method(name: str, method: str) -> dict[str, Any]:
    """What a method changes of its data set's protocol: its own hyperparameters, and how batches are made.

    The authors tuned the penalties of CORAL and IRM (§6.3); IRM's is 1 on all, in full after 500 steps. Their Group DRO
    draws items so that every domain comes equally often; here a batch has as many items of each, and about as many in
    all.
    """
    published = PUBLISHED[name]
    unit = "group" if name in GROUPED else "domain"
    if method == "group_dro":
        items, domains = published.robust
        return {"step_size": 0.01, "by": unit, "batches": unit, "batch_size": items, "domains_per_batch": domains}
    params = {"penalty": published.coral} if method == "coral" else {"penalty": 1.0, "anneal": 500 / published.steps}
    return {**params, "batches": unit, "batch_size": published.batch // published.domains,
            "domains_per_batch": published.domains}


def _wilds(name: str) -> Preset:
    published = PUBLISHED[name]
    epoch = math.ceil(published.steps / published.epochs)
    settings = {"batch_size": published.batch, "steps": published.steps, "eval_every": epoch, "weight_decay": 0.0,
                "select_on": "headline", "select_split": "val", **published.run}
    if settings.get("schedule") == "exponential":
        settings["drop_every"] = epoch
    return Preset(settings, "Koh et al. (2021), WILDS", "appendix E and package 2.0; see PUBLISHED for our reading",
                  f"{published.run['model']} for {published.epochs} epochs, as the paper trains on {name}.",
                  by_method={method: _wilds_method(name, method) for method in WILDS_RUNS[name] if method != "erm"})


NOOCH_RUN = Preset(
    {"model": "resnet50", "weights": "imagenet", "size": 321, "augment": "none", "batches": "plain", "batch_size": 32,
     "optimizer": "sgd", "momentum": 0.9, "lr": 1e-4, "weight_decay": 1e-4, "epochs": 500.0, "eval_epochs": 1.0,
     "patience": 2, "select_on": "loss"},
    NOOCH, "appendix B and the defaults of the authors' code; an evaluation after each epoch",
    "A ResNet-50 from ImageNet weights, SGD, until the loss on validation has not fallen for two epochs.",
    by_method={"irm": {"by": "group", "unbiased": False, "anneal": 0.0, "penalty": 10_000.0},
               "group_dro": {"hard": True, "adjustment": 1.0}})
"""Our reading: images are normalised as ImageNet's weights want them; theirs are not."""


PRESETS: Mapping[str, Preset] = {
    **VARIANTS,
    "nooch": NOOCH_RUN,
    "metashift": METASHIFT,
    **{f"breeds-{model}": Preset(breeds(model), BREEDS, "A.7.1 and Table 13; momentum and augmentation are those of "
                                 "its library", f"{model} from scratch, SGD in thirds: 300 epochs of an ENTITY task, "
                                 "450 of others.",
                                 by_task={task: {"epochs": epochs} for task, epochs in BREEDS_EPOCHS.items()})
       for model in BREEDS_RATES},
    **{f"wilds-{name}": _wilds(name) for name in PUBLISHED},
}


def preset_settings(name: str, method: str, task: str = "") -> dict[str, Any]:
    """The settings of a preset for a method: fields of a run and, where the paper gives them, the method's own."""
    preset = find(PRESETS, "preset", name)
    return {**preset.settings, **preset.by_method.get(method, {}), **preset.by_task.get(task, {})}


def expand(names: Iterable[str], method: str = "", task: str = "") -> tuple[str, str, dict[str, Any]]:
    """What presets stand for: the method, the name of the variant, and the settings of protocols.

    A run is of one variant at most, and the variant's settings win over those of protocols. Among protocols the first
    wins. Without a method, and without a variant that has one, the method is ERM. `task` is the name of the benchmark's
    task in its paper, where it has one.
    """
    presets = {name: find(PRESETS, "preset", name) for name in names}
    variants = [name for name, preset in presets.items() if preset.method]
    if len(variants) > 1:
        raise ShiftBenchError(f"Presets {' and '.join(variants)} cannot be one run: each stands for one method with "
                              "one setting. Choose one, and give the settings of the other.")
    variant = variants[0] if variants else ""
    method = method or (presets[variant].method if variant else "erm")
    settings: dict[str, Any] = {}
    for name in (*variants, *(name for name in presets if name != variant)):
        settings = {**preset_settings(name, method, task), **settings}
    return method, variant, {key: value for key, value in settings.items()
                             if not variant or key not in presets[variant].settings}


def variant_of(name: str) -> str:
    """The variant that a name which no method has stands for, perhaps its old name; empty where there is none."""
    return RENAMED.get(name, name if name in VARIANTS else "")


def unknown_method(name: str, where: str = "") -> ShiftBenchError:
    """The error for a name that no method has; for the name of a preset it says how presets are given."""
    variant = variant_of(name)
    if not variant:
        return unknown("method", name, METHODS, where)
    return ShiftBenchError(f"{where}{': ' if where else ''}'{name}' is a preset: --preset {variant}, or preset = "
                           f"\"{variant}\" in the table [methods.{VARIANTS[variant].method}] of a study.")


def preset_facts(name: str) -> dict[str, Any]:
    """What a list of presets shows for each. `wiles` is the grid of Wiles et al. for a variant."""
    preset = find(PRESETS, "preset", name)
    return {"name": name, "method": preset.method or "any", "family": preset.family, "settings": dict(preset.settings),
            "by_method": {method: dict(settings) for method, settings in preset.by_method.items()},
            "by_task": {task: dict(settings) for task, settings in preset.by_task.items()}, "paper": preset.paper,
            "source": preset.source, "wiles": listed(name, "wiles") if preset.method else {}, "summary": preset.summary}


def family(name: str) -> str:
    """The family of a method or a variant."""
    return VARIANTS[name].family if name in VARIANTS else find(METHODS, "method", name).family
