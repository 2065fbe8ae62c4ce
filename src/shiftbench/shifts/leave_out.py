"""Leave one domain out: a shift of the training data's own, to choose settings by without a look at the test."""

import json
import re
from typing import Any

import numpy as np

from shiftbench.core.arrays import Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark

MARK = "~"
"""Between the name of a benchmark and that of the domain it leaves out: `cat-dog~sofa`."""
KEPT = ("shift", "params", "conditions", "seed", "collection", "target", "groupings", "headline")
"""What the card of the original still says truly of its parts."""


def leave_out(benchmark: Benchmark) -> list[Benchmark]:
    """For each training domain d, the benchmark that trains without d and tests on it (DomainBed's protocol).

        train_d = {i ∈ train : domain(i) ≠ d},   test_d = {i ∈ train : domain(i) = d}

    `id_val` and `id_test` keep their items of the other domains. What was drawn after the shift, `val` and `test`, is
    in none of them. A domain without which training would lose a class is not left out; the cards of the others say so.
    Save each beside the original, `part.save(folder.parent / part.name)`, and the collection is found from there too.
    """
    train = benchmark.rows("train")
    domains = np.unique(benchmark.domain[train])
    if len(domains) < 2:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}' has {len(domains)} training domain"
                              f"{'' if len(domains) == 1 else 's'}; to leave one out takes at least 2. "
                              "Choose another selection rule.")
    lost = {int(code): _lost(benchmark, train, int(code)) for code in domains}
    words = [str(benchmark.names["domain"][code]) for code in domains]
    if all(lost.values()):
        raise ShiftBenchError(f"Benchmark '{benchmark.name}': no training domain ({', '.join(words)}) can be left out "
                              "without losing a class. Choose another selection rule.")
    notes = [f"Domain '{benchmark.names['domain'][code]}' is not left out: training would lose "
             f"{' and '.join(f'“{name}”' for name in names)}." for code, names in lost.items() if names]
    taken: set[str] = set()
    return [_without(benchmark, code, folder_word(benchmark.names["domain"][code], taken), notes)
            for code, names in lost.items() if not names]


def _lost(benchmark: Benchmark, train: Ints, domain: int) -> list[str]:
    """The classes that all stand in one training domain."""
    inside = benchmark.domain[train] == domain
    gone = np.setdiff1d(benchmark.label[train[inside]], benchmark.label[train[~inside]])
    return [benchmark.names["label"][code] for code in gone]


def _without(benchmark: Benchmark, domain: int, word: str, notes: list[str]) -> Benchmark:
    """The rows of one part: in the order of the original's splits, with all its names, so that classes keep theirs."""
    out = benchmark.domain == domain
    train = benchmark.split == "train"
    inside = np.isin(benchmark.split, ("train", "id_val", "id_test"))
    rows = np.concatenate([np.flatnonzero(inside & ~out), np.flatnonzero(train & out)])
    split = benchmark.split[rows].copy()
    split[out[rows]] = "test"
    name = str(benchmark.names["domain"][domain])
    facts: dict[str, Any] = {
        **{key: benchmark.card[key] for key in KEPT if key in benchmark.card},
        "name": f"{benchmark.name}{MARK}{word}", "distance": None,
        "left_out": {"benchmark": benchmark.name, "digest": benchmark.digest, "domain": name},
        "notes": [f"A part of '{benchmark.name}' ({benchmark.digest[:8]}) for choosing settings: trained without "
                  f"domain '{name}', tested on its training items.", *notes],
    }
    made = Benchmark(
        benchmark.items[rows], split, benchmark.label[rows], benchmark.domain[rows], benchmark.group[rows],
        benchmark.names, facts, {key: values[rows] for key, values in benchmark.extra.items()})
    # A deep copy by way of JSON: what is written onto one card must not show up on another.
    return Benchmark(made.items, made.split, made.label, made.domain, made.group, made.names,
                     json.loads(json.dumps({**facts, "counts": made.counts()})), made.extra)


def folder_word(domain: str, taken: set[str]) -> str:
    """Any words as part of a folder's name, unlike all others: `sofa / bench` becomes `sofa-bench`."""
    plain = re.sub(r"[^\w.+-]+", "-", domain)[:60].strip("-.") or "domain"
    word, number = plain, 2
    while word.lower() in taken:
        word, number = f"{plain}-{number}", number + 1
    taken.add(word.lower())
    return word
