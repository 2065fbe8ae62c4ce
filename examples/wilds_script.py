"""A training script written for the package `wilds`: nothing in it knows of shiftbench.

It runs unchanged on a benchmark of yours,

    python -m shiftbench.compat.wilds examples/wilds_script.py --dataset cat-dog --root_dir benchmarks --loader group

or by itself, with each `from wilds… import` changed to `from shiftbench.compat.wilds import`.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torchvision import transforms
from wilds import get_dataset
from wilds.common.data_loaders import get_eval_loader, get_train_loader
from wilds.common.grouper import CombinatorialGrouper


def small_net(n_classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, n_classes))


def train(net, loader, grouper, epochs, lr):
    """The mean over the groups of a batch of their mean losses."""
    optimizer = torch.optim.Adam(net.parameters(), lr)
    for epoch in range(epochs):
        total = 0.0
        for x, y, metadata in loader:
            losses = nn.functional.cross_entropy(net(x), y, reduction="none")
            group = grouper.metadata_to_group(metadata)
            loss = torch.stack([losses[group == one].mean() for one in group.unique()]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}")


@torch.no_grad()
def predict(net, loader):
    seen = [(net(x).argmax(1), y, metadata) for x, y, metadata in loader]
    return [torch.cat(part) for part in zip(*seen, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--root_dir", default="data")
    parser.add_argument("--loader", choices=["standard", "group"], default="standard")
    parser.add_argument("--groupby_fields", nargs="+", default=["domain"])
    parser.add_argument("--n_groups_per_batch", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    np.random.seed(args.seed)  # noqa: NPY002 -- the group loader draws from it
    torch.manual_seed(args.seed)
    dataset = get_dataset(dataset=args.dataset, root_dir=args.root_dir, download=False)
    transform = transforms.Compose([transforms.Resize((args.size, args.size)), transforms.ToTensor()])
    grouper = CombinatorialGrouper(dataset, args.groupby_fields)
    train_data = dataset.get_subset("train", transform=transform)
    if args.loader == "group":
        loader = get_train_loader("group", train_data, batch_size=args.batch_size, grouper=grouper,
                                  n_groups_per_batch=args.n_groups_per_batch)
    else:
        loader = get_train_loader("standard", train_data, batch_size=args.batch_size)

    net = small_net(dataset.n_classes)
    train(net, loader, grouper, args.epochs, args.lr)
    net.eval()
    for split, name in dataset.split_names.items():
        data = dataset.get_subset(split, transform=transform)
        results, told = dataset.eval(*predict(net, get_eval_loader("standard", data, batch_size=args.batch_size)))
        print(f"{name}\n{told}")
    print(f"{split}: acc_wg {results['acc_wg']:.4f}")


if __name__ == "__main__":
    main()
