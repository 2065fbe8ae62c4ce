"""One of each: a method, a shift, a reader, a metric, a model and a section, for everyone who installs this package.

docs/extend.md explains them.
"""

from pathlib import Path
from typing import Annotated

import numpy as np

import shiftbench as sb
from shiftbench.methods import Power
from shiftbench.methods.method import means_by, memory, risks


@sb.register.method("worst_domain")
class WorstDomain(sb.Method):
    """The domain with the highest risk has a weight of its own: (1 - a) mean_i l_i + a max_d R_d."""

    weight: float = 0.5  # a
    batches = "domain"  # as many items of each domain
    space = {"weight": Power(10, -2, 0)}  # what a sweep draws it from

    def state(self, task):
        return memory(n=task.n_domains)

    def loss(self, net, batch, state, step):
        losses = risks(net, batch)  # one per item
        domains, _ = means_by(losses, batch.domain, state.n)
        return (1 - self.weight) * losses.mean() + self.weight * domains.max()


@sb.register.shift("crowded")
class Crowded:
    """Train on items with few tags, test on those with many."""

    label: str
    most: int = 12  # tags of a training item
    held: float = 0.1  # share of those for id_val, and for id_test

    def build(self, collection, seed=0):
        tags = np.bincount(collection.tags.item, minlength=len(collection))
        draw = np.random.default_rng(seed).random(len(collection))
        seen = np.where(draw < self.held, "id_val", np.where(draw < 2 * self.held, "id_test", "train"))
        split, domain = np.where(tags > self.most, "test", seen), np.where(tags > self.most, "crowded", "sparse")
        return sb.Benchmark.of(collection, self, seed, np.arange(len(collection)), split,
                               label=collection.factor(self.label), domain=domain)


@sb.register.reader("lines")
def lines(folder, *, ending: Annotated[str, "How the names of the files end."] = "txt", name: str = "lines"):
    """A folder with a file per class: one text on every line."""
    files = sorted(Path(folder).glob(f"*.{ending}"))
    texts = [(file.stem, line) for file in files for line in file.read_text().splitlines()]
    columns = {"id": [f"{number:06d}" for number in range(len(texts))], "label": [label for label, _ in texts],
               "text": [text for _, text in texts]}
    return sb.Collection.from_frame(columns, id="id", label="label", text="text", name=name)


@sb.register.metric("cost", words="cost of errors", better="lower", unit="number")
def cost(label, scores, weight=None):
    """A missed case (class 0) costs ten, a false alarm one."""
    wrong = scores.argmax(axis=1) != label
    return float(np.average(wrong * np.where(label == 0, 10.0, 1.0), weights=weight))


@sb.register.model("tiny", side=32)
def tiny(n_classes):
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, n_classes))


@sb.register.section("spread", "How far the worst group is behind")
def spread(results):
    rows = []
    for worst in results.shown.where(split="test", metric="worst_group_accuracy", stat="run", by=""):
        same = {key: worst[key] for key in ("run", "split", "stat", "by")}
        average = results.shown.where(metric="accuracy", group="all", **same)["value"]
        if len(average):
            behind = 100 * (average[0] - worst["value"])
            rows.append([worst["benchmark"], worst["method"], worst["group"], f"{behind:.1f}"])
    return {"tables": [("Points on test", ["benchmark", "method", "group", "behind"], rows)]} if rows else None
