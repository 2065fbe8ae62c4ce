"""The interface of the package `wilds`, on any benchmark: change the import, or run an unchanged script.

    from shiftbench.compat.wilds import CombinatorialGrouper, get_dataset, get_eval_loader, get_train_loader

    python -m shiftbench.compat.wilds [--use NAME=FOLDER] SCRIPT ARGS…
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shiftbench.compat.grouper import CombinatorialGrouper
from shiftbench.compat.loaders import GroupSampler, get_eval_loader, get_train_loader
from shiftbench.compat.wilds_eval import evaluate
from shiftbench.compat.wilds_options import Options
from shiftbench.compat.wilds_subset import WILDSDataset, WILDSSubset
from shiftbench.compat.wilds_ten import DATASETS
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import listed
from shiftbench.data.benchmark import MARKER, Benchmark, collection_folder
from shiftbench.data.collection import Collection

__all__ = ["CombinatorialGrouper", "GroupSampler", "WILDSDataset", "WILDSSubset", "evaluate", "get_dataset",
           "get_eval_loader", "get_train_loader"]

USED: dict[str, Path] = {}
"""What `--use` says: the folder of a benchmark by the name that a script has for its data set."""


def get_dataset(
    dataset: str | Path | Benchmark,
    version: str | None = None,
    unlabeled: bool = False,
    *,
    root_dir: str | Path = "data",
    download: bool = False,
    split_scheme: str = "official",
    collection: Collection | Path | str | None = None,
    groupby_fields: str | Sequence[str] = ("group",),
    groupings: str | Sequence[str] | None = None,
    compat: str | None = None,
    **options: Any,
) -> WILDSDataset:
    """A benchmark as a WILDS data set: its folder, or the folder's name below `root_dir`.

    `version` is ignored. As in the package, `download` changes nothing where the data is there; where it is not,
    nothing is fetched. A name of WILDS' ten takes the package's own options, on the benchmark that `build wilds` made:
    `fold`, `no_nl` and `use_ood_val` of poverty, `seed` and `use_ood_val` of fmow, and each `split_scheme` whose factor
    its collection has (`mixed-to-test`, …); any other benchmark has one scheme, the official one.
    `groupby_fields` are the columns whose groups `eval` judges, by default the benchmark's own groups; `groupings` are
    further ones, which may overlap, by default those of its card (docs/groups.md). `unlabeled` gives the items of the
    splits `unlabelled` and `target_train`, without labels. `compat="wilds-2.0"` is the
    package's behaviour, defects included; one of WILDS' ten then has the package's own keys and numbers of classes.
    """
    groupby_fields, groupings = listed(groupby_fields), None if groupings is None else listed(groupings)
    kind = WILDSDataset
    if unlabeled:
        from shiftbench.compat.wilds_unlabeled import WILDSUnlabeledDataset

        kind = WILDSUnlabeledDataset
    asked = Options.of(dataset if isinstance(dataset, str) else "", split_scheme, options)
    if isinstance(dataset, Benchmark):
        if not isinstance(collection, Collection):
            raise ShiftBenchError("A benchmark in memory does not know where its collection is. Give `collection`.")
        return kind(dataset, collection, groupby_fields=groupby_fields, groupings=groupings, compat=compat)
    names = (*asked.folders, dataset) if asked.is_apart else (dataset, *asked.folders)
    folder = folder_of(dataset, root_dir, names)
    benchmark = Benchmark.load(folder)
    if not isinstance(collection, Collection):
        collection = Collection.load(collection_folder(benchmark, folder, collection))
    return kind(asked.built(benchmark, collection), collection, groupby_fields=groupby_fields, groupings=groupings,
                compat=compat, options=asked)


def folder_of(name: str | Path, root: str | Path, names: Sequence[str | Path]) -> Path:
    """The folder of the benchmark that a script calls `name`: from `--use`, below the root, or the name itself.

    `names` are those under which it may lie below the root, the likeliest first.
    """
    if str(name) in USED:
        return USED[str(name)]
    below = [Path(root) / other for other in names]
    for folder in (below[0], Path(name), *below[1:]):
        if (folder / MARKER).is_file():
            return folder
    read = f" First: shiftbench read wilds {name} --root DIR, and shiftbench build." if name in DATASETS else ""
    raise ShiftBenchError(f"There is no benchmark at {Path(root) / name}, nor at {name}; nothing is downloaded.{read} "
                          f"Name its folder, or run the script with --use {name}=FOLDER.")


if __name__ == "__main__":
    from shiftbench.compat.run_script import main
    from shiftbench.compat.wilds_names import wilds_modules

    main(wilds_modules)
