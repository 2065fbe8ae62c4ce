"""DomainBed's environments from any benchmark: a list of data sets of (x, y), one per domain.

    from shiftbench.compat.domainbed import dataset_class
    Dogs = dataset_class("benchmarks/dogs")
    environments = Dogs(None, test_envs=Dogs.TEST_ENVS, hparams={"data_augmentation": True})

    python -m shiftbench.compat.domainbed --use Dogs=benchmarks/dogs SCRIPT ARGS…
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from shiftbench.compat.wilds import get_dataset
from shiftbench.compat.wilds_metadata import SOURCE
from shiftbench.compat.wilds_subset import WILDSDataset
from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import UNLABELLED, Benchmark

SIDE = 224
"""Image files are brought to this size, as DomainBed does; images that a collection keeps have the size they have."""
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class MultipleDomainDataset:
    """Environments by number, and what DomainBed's trainer asks of a data set."""

    N_STEPS: ClassVar[int] = 5001
    CHECKPOINT_FREQ: ClassVar[int] = 300
    N_WORKERS: ClassVar[int] = 8
    ENVIRONMENTS: ClassVar[Sequence[str]] = ()
    INPUT_SHAPE: ClassVar[tuple[int, int, int]] = (3, SIDE, SIDE)
    TEST_ENVS: ClassVar[Sequence[int]] = ()

    datasets: list["Environment"]
    input_shape: tuple[int, int, int]
    num_classes: int

    def __getitem__(self, index: int) -> "Environment":
        return self.datasets[index]

    def __len__(self) -> int:
        return len(self.datasets)


class Environment:
    """The items (x, y) of one environment, as torchvision's ImageFolder has them."""

    def __init__(self, name: str, data: WILDSDataset, rows: Ints, transform: Any) -> None:
        self.name, self.data, self.rows, self.transform = name, data, rows, transform
        self.classes = list(data.benchmark.names["label"])
        self.class_to_idx = {word: code for code, word in enumerate(self.classes)}
        self.targets: list[int] = data.benchmark.label[rows].tolist()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.transform(self.data.get_input(self.rows[index])), self.targets[index]


def environments_of(benchmark: Benchmark) -> dict[str, Ints]:
    """Rows by environment: those of a domain, over all splits but `unlabelled`, which have no label to learn.

    DomainBed splits an environment itself, so a domain on both sides of the shift would mix them; it becomes two
    environments, `indoors (before)` with train, id_val and id_test, and `indoors (after)` with the others.
    """
    before = np.isin(benchmark.split, SOURCE)
    environments: dict[str, Ints] = {}
    for code, name in enumerate(benchmark.names["domain"]):
        in_domain = (benchmark.domain == code) & (benchmark.split != UNLABELLED)
        sides = {"before": np.flatnonzero(in_domain & before), "after": np.flatnonzero(in_domain & ~before)}
        present = {side: rows for side, rows in sides.items() if len(rows)}
        environments |= {name if len(present) == 1 else f"{name} ({side})": rows for side, rows in present.items()}
    return environments


def dataset_class(folder: Path | str | Benchmark, **options: Any) -> type[MultipleDomainDataset]:
    """A class like those of `domainbed.datasets`: called with (root, test_envs, hparams), it gives the environments.

    `TEST_ENVS` are the numbers of the environments after the shift. With `data_augmentation` among the hparams, images
    of the environments that are not tested on are cropped, flipped, jittered and greyed at random, as DomainBed does.
    The root is ignored: the class knows its folder. Options go to `compat.wilds.get_dataset`.
    """
    data = get_dataset(folder, root_dir=".", **options)
    if not data.benchmark.target.has_classes:
        raise ShiftBenchError(f"Benchmark '{data.dataset_name}' asks for {data.benchmark.target.words}, but "
                              "DomainBed's algorithms learn classes alone. Build one with a class for its label, or "
                              "use shiftbench.compat.wilds.")
    pixels = data.collection.pixels
    if pixels is None:
        raise ShiftBenchError(f"Collection '{data.collection.name}' has no images, which DomainBed's environments are "
                              "made of. Read it with its image files.")
    height, width = (SIDE, SIDE) if pixels.dtype.kind == "U" else pixels.shape[1:3]
    rows = environments_of(data.benchmark)
    after = [code for code, members in enumerate(rows.values()) if data.benchmark.split[members[0]] not in SOURCE]

    class Environments(MultipleDomainDataset):
        ENVIRONMENTS: ClassVar[Sequence[str]] = list(rows)
        INPUT_SHAPE = (3, int(height), int(width))
        TEST_ENVS = after

        def __init__(
            self, root: Path | str | None = None, test_envs: Sequence[int] = after,
            hparams: Mapping[str, Any] | None = None,
        ) -> None:
            plain, changed = _transforms((int(height), int(width)))
            augment = bool((hparams or {}).get("data_augmentation", False))
            self.input_shape, self.num_classes = self.INPUT_SHAPE, len(data.benchmark.names["label"])
            self.datasets = [Environment(name, data, members, changed if augment and code not in test_envs else plain)
                             for code, (name, members) in enumerate(rows.items())]

    Environments.__name__ = Environments.__qualname__ = data.dataset_name
    return Environments


def _transforms(size: tuple[int, int]) -> tuple[Any, Any]:
    """Without augmentation, and with DomainBed's."""
    from torchvision import transforms

    last = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    return transforms.Compose([transforms.Resize(size), *last]), transforms.Compose([
        transforms.RandomResizedCrop(size, scale=(0.7, 1.0)), transforms.RandomHorizontalFlip(),
        transforms.ColorJitter(0.3, 0.3, 0.3, 0.3), transforms.RandomGrayscale(), *last])


def domainbed_modules(use: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """`domainbed.datasets` with a class for each name in use; the rest of DomainBed stays itself where it is installed.

    A script that takes its class by name, as DomainBed's trainer does, finds the names of `--use`.
    """
    classes = {name: dataset_class(folder) for name, folder in use.items()}

    def get_dataset_class(dataset_name: str) -> type[MultipleDomainDataset]:
        if dataset_name not in classes:
            raise NotImplementedError(f"No data set is called {dataset_name}. Name its folder with "
                                      f"--use {dataset_name}=FOLDER.")
        return classes[dataset_name]

    def num_environments(dataset_name: str) -> int:
        return len(get_dataset_class(dataset_name).ENVIRONMENTS)

    ours = {"DATASETS": list(classes), "MultipleDomainDataset": MultipleDomainDataset, **classes,
            "get_dataset_class": get_dataset_class, "num_environments": num_environments}
    return {**({} if find_spec("domainbed") else {"domainbed": {}}), "domainbed.datasets": ours}


if __name__ == "__main__":
    # Not this module, which is called __main__: workers must find its classes.
    from shiftbench.compat import domainbed, main

    main(domainbed.domainbed_modules)
