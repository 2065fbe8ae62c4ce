"""Train on all domains but one, test on that one: as a shift, and among the training domains of a benchmark."""

import json
import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from shiftbench.core.arrays import Ints, encode
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.registry import Lists, register
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.shifts.shift import SHIFTS, Names, pick
from shiftbench.shifts.splits import TEST, TRAIN, VAL, deal_sides, kept_items

Domains = str | tuple[str, ...]


@register(SHIFTS, "leave_one_domain_out")
@dataclass(frozen=True)
class LeaveOneDomainOut(Lists):
    """Test on the items of one domain, train on those of all others (DomainBed: Gulrajani & Lopez-Paz, 2021).

        test = {i : d_i ∈ E},     train ∪ id_val ∪ id_test = {i : d_i ∉ E ∪ V},     val = {i : d_i ∈ V}

    Every item is in the benchmark, with the shares that the data have: nothing is balanced. Without `test` it stands
    for one benchmark per domain, each named after what it leaves out; in all of them the same items are held out.
    `unseen` is the shift for a test that is uniform over the cells of label × factor.
    """

    label: str
    domain: str  # factor whose values are the domains: a hospital, `year:taken`, `bins:age:30,60`
    test: Domains = ()  # E, one or several, by name or place (#3); none: one benchmark per domain
    val: Domains = ()  # V, to choose among runs on domains that are neither trained on nor tested
    held: float = 0.1  # share of the training domains' items for id_val, and for id_test
    ood: float = 0.0  # share of the test domain's items for val
    classes: tuple[str, ...] = ()  # label values to keep; default: all
    target: str = "class"  # what is predicted, as in `given`

    moves: ClassVar[str] = "domain to test on"

    def build(self, collection: Collection, seed: int = 0) -> Benchmark:
        rows, codes, names, notes = self._domains(collection)
        if self.several:
            raise ShiftBenchError(f"leave_one_domain_out: 'test' names no domain, so it stands for {len(names)} "
                                  f"benchmarks, one per value of '{self.domain}'. Build all of them with `shiftbench "
                                  "build RECIPE` or sb.suite, or name one of them: "
                                  f"{', '.join(names[:8])}{', …' if len(names) > 8 else ''}.")
        tested, chosen = (pick(_listed(domains), names, self.domain) for domains in (self.test, self.val))
        both = np.intersect1d(tested, chosen)
        if len(both):
            raise ShiftBenchError(f"leave_one_domain_out: '{names[both[0]]}' is in 'test' and in 'val'. Name it once.")
        side = np.where(np.isin(codes, tested), TEST, np.where(np.isin(codes, chosen), VAL, TRAIN))
        return deal_sides(self, collection, seed, rows, side, np.asarray(names, np.str_)[codes], notes)

    @property
    def several(self) -> bool:
        """Whether the shift describes one benchmark per domain."""
        return not _listed(self.test)

    def each(self, collection: Collection) -> dict[str, "LeaveOneDomainOut"]:
        """Folder name -> the shift that leaves out one domain; domains of `val` are never tested."""
        names = self._domains(collection)[2]
        spared = pick(_listed(self.val), names, self.domain)
        used: set[str] = set()
        return {folder_word(f"{self.domain[:30]}-{name}", used): replace(self, test=(name,))
                for code, name in enumerate(names) if code not in spared}

    def _domains(self, collection: Collection) -> tuple[Ints, Ints, Names, list[str]]:
        rows, notes = kept_items(self, collection)
        codes, names = encode(collection.factor(self.domain)[rows])
        if len(names) < 2:
            raise ShiftBenchError(f"Factor '{self.domain}' has {len(names)} of the 2 values or more that it takes to "
                                  f"leave one out, among {len(rows)} items.")
        return rows, codes, names, notes


def _listed(domains: Domains) -> tuple[str, ...]:
    return ((domains,) if domains else ()) if isinstance(domains, str) else domains


MARK = "~"
"""Between the name of a benchmark and that of the domain it leaves out: `cat-dog~sofa`."""
KEPT = ("shift", "params", "conditions", "seed", "collection", "target", "groupings", "headline")
"""The entries of the original's card that also hold for its parts."""


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
    used: set[str] = set()
    return [_without(benchmark, code, folder_word(benchmark.names["domain"][code], used), notes)
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
    part = Benchmark(
        benchmark.items[rows], split, benchmark.label[rows], benchmark.domain[rows], benchmark.group[rows],
        benchmark.names, facts, {key: values[rows] for key, values in benchmark.extra.items()})
    # A deep copy by way of JSON: what is written onto one card must not show up on another.
    return replace(part, card=json.loads(json.dumps({**facts, "counts": part.counts()})))


def folder_word(domain: str, used: set[str]) -> str:
    """A domain as part of a folder's name that is not yet used: `sofa / bench` becomes `sofa-bench`."""
    plain = re.sub(r"[^\w.+-]+", "-", domain)[:60].strip("-.") or "domain"
    word, number = plain, 2
    while word.lower() in used:
        word, number = f"{plain}-{number}", number + 1
    used.add(word.lower())
    return word
