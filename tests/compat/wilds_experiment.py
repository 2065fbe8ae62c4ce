"""A training script for the package `wilds`, which imports what WILDS' own examples import and calls it in their order.

Nothing in it knows of shiftbench. Every number that it prints stands on a line of its own.
"""

import argparse

import numpy as np
import torch
import wilds
from torch import nn
from torchvision import transforms
from wilds.common.data_loaders import get_eval_loader, get_train_loader
from wilds.common.grouper import CombinatorialGrouper
from wilds.common.metrics.all_metrics import (
    MSE,
    Accuracy,
    MultiTaskAccuracy,
    MultiTaskAveragePrecision,
    binary_logits_to_pred,
    multiclass_logits_to_pred,
    pseudolabel_binary_logits,
    pseudolabel_detection,
    pseudolabel_detection_discard_empty,
    pseudolabel_identity,
    pseudolabel_multiclass_logits,
)
from wilds.common.metrics.loss import ElementwiseLoss, Loss, MultiTaskLoss
from wilds.common.metrics.metric import ElementwiseMetric, MultiTaskMetric
from wilds.common.utils import get_counts, numel, split_into_groups
from wilds.datasets.unlabeled.wilds_unlabeled_dataset import WILDSPseudolabeledSubset

UNUSED = (MSE, MultiTaskAccuracy, MultiTaskAveragePrecision, binary_logits_to_pred, pseudolabel_binary_logits,
          pseudolabel_detection, pseudolabel_detection_discard_empty, pseudolabel_identity,
          pseudolabel_multiclass_logits, Loss, MultiTaskLoss, WILDSPseudolabeledSubset)
LOADERS = {"ERM": {"loader": "standard", "uniform_over_groups": False},
           "groupDRO": {"loader": "standard", "uniform_over_groups": True},
           "IRM": {"loader": "group", "uniform_over_groups": True}}


class ERM:
    """The mean loss; keeps what it prints at the end of an epoch."""

    def __init__(self, net, grouper, in_train):
        self.net, self.grouper, self.weights = net, grouper, in_train / in_train.sum()
        self.loss = ElementwiseLoss(loss_fn=nn.CrossEntropyLoss(reduction="none", ignore_index=-100))
        self.metric = Accuracy(prediction_fn=multiclass_logits_to_pred)
        self.optimizer, self.updates = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9), 0

    def objective(self, outputs, y, g):
        return self.loss.compute(outputs, y, return_dict=False)

    def step(self, x, y, g, train):
        outputs = self.net(x)
        objective = self.objective(outputs, y, g)
        if train:
            self.optimizer.zero_grad()
            objective.backward()
            self.optimizer.step()
            self.updates += 1
        values, counts, worst = self.metric.compute_group_wise(outputs, y, g, self.grouper.n_groups, return_dict=False)
        losses = self.loss.compute_group_wise(outputs, y, g, self.grouper.n_groups)
        print(f"  {numel(y)} items, objective {objective.item():.6f}, worst {worst.item():.6f}, "
              f"{self.metric.compute(outputs, y)}")
        print(f"  {values.tolist()} {counts.tolist()} {losses}")
        return multiclass_logits_to_pred(outputs.detach())


class GroupDRO(ERM):
    def objective(self, outputs, y, g):
        losses, _, _ = self.loss.compute_group_wise(outputs, y, g, self.grouper.n_groups, return_dict=False)
        if self.net.training:
            weights = self.weights * torch.exp(0.01 * losses.detach())
            self.weights = weights / weights.sum()
        return losses @ self.weights


class IRM(ERM):
    scale = torch.tensor(1.0).requires_grad_()

    def objective(self, outputs, y, g):
        assert isinstance(self.loss, (ElementwiseMetric, MultiTaskMetric))
        total = penalty = 0.0
        groups, rows, _ = split_into_groups(g)
        for own in rows:
            losses, _ = self.loss.compute_flattened(self.scale * outputs[own], y[own], return_dict=False)
            total += losses.mean()
            if self.net.training:
                even, odd = (torch.autograd.grad(losses[at::2].mean(), [self.scale], create_graph=True)[0]
                             for at in (0, 1))
                penalty += even * odd
        return total / groups.numel() + (3.0 if self.updates >= 5 else 1.0) * penalty / groups.numel()


def run_epoch(algorithm, dataset, loader, train):
    algorithm.net.train(train)
    torch.set_grad_enabled(True)  # the penalty needs it, and nothing is updated while evaluating
    seen = [(algorithm.step(x, y, algorithm.grouper.metadata_to_group(metadata), train), y, metadata)
            for x, y, metadata in loader]
    results, text = dataset.eval(*(torch.cat(column) for column in zip(*seen, strict=True)))
    print(text, results, sep="\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", choices=wilds.supported_datasets, required=True)
    parser.add_argument("--algorithm", choices=list(LOADERS), required=True)
    parser.add_argument("--root_dir", required=True)
    parser.add_argument("--unlabeled_split", choices=wilds.unlabeled_splits)
    parser.add_argument("--frac", type=float, default=1.0)
    config = parser.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 -- the group loader draws from it
    full = wilds.get_dataset(dataset=config.dataset, version=None, root_dir=config.root_dir, download=False,
                             split_scheme="official")
    steps = [transforms.CenterCrop(min(full.original_resolution))] if len(set(full.original_resolution)) > 1 else []
    transform = transforms.Compose([*steps, transforms.Resize((8, 8)), transforms.ToTensor()])
    grouper = CombinatorialGrouper(dataset=full, groupby_fields=["hospital"])
    subsets, loaders = {}, {}
    for split in full.split_dict:
        subsets[split] = full.get_subset(split, frac=config.frac, transform=transform)
        if split == "train":
            loaders[split] = get_train_loader(dataset=subsets[split], batch_size=8, grouper=grouper,
                                              distinct_groups=True, n_groups_per_batch=2, **LOADERS[config.algorithm])
        else:
            loaders[split] = get_eval_loader(loader="standard", dataset=subsets[split], grouper=grouper, batch_size=8)
    for split, subset in subsets.items():
        _, counts = grouper.metadata_to_group(subset.metadata_array, return_counts=True)
        print(full.split_names[split], *(f"{grouper.group_str(group)}: n = {count:.0f}"
                                         for group, count in enumerate(counts.tolist())), sep="\n    ")
    train = subsets["train"]
    assert train.is_classification
    assert train.y_size == 1
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, train.n_classes))
    counts = get_counts(grouper.metadata_to_group(train.metadata_array), grouper.n_groups)
    algorithm = {"ERM": ERM, "groupDRO": GroupDRO, "IRM": IRM}[config.algorithm](net, grouper, (counts > 0).float())
    for epoch in range(2):
        print(f"Epoch [{epoch}]")
        run_epoch(algorithm, train, loaders["train"], True)
        for split in ("val", *(name for name in subsets if name not in ("train", "val"))):
            run_epoch(algorithm, subsets[split], loaders[split], False)
    print([f"{value:.4f}" for value in net[1].weight.flatten()[:4].tolist()])


if __name__ == "__main__":
    main()
