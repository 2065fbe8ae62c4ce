"""In-distribution references: the benchmark that shows what a method would reach without the shift (Koh et al., 2021).

The gap between a benchmark and its reference is what the shift costs: see `scoring.gaps`. References that train on
items of the test distribution keep the test and so isolate the shift; the others are for where there are too few of
them (§5.1). Which references can be made (`legal`) depends on the benchmark, and so does its problem (`kind_of`):

    P_train = Σ_d q_train(d) P_d,    P_test = Σ_d q_test(d) P_d,    D = {d : q(d) > 0} on each side
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from shiftbench.core.arrays import Bools, Ints, Strs, Values, child, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import make
from shiftbench.data.benchmark import SPLITS, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.data.groupings import grouping
from shiftbench.shifts.shift import deal, quota
from shiftbench.shifts.splits import Given

REFERENCES = ("test-to-test", "mixed-to-test", "train-to-train", "average", "random-split")
"""Those of §5.2, which the paper calls settings; the first two keep the distribution that is tested."""
GENERALIZATION, SUBPOPULATION, HYBRID = "domain generalization", "subpopulation shift", "hybrid"

LEAST = 30
"""Fewest items to test on: with fewer, an interval says nothing (`shiftbench check` draws the same line)."""
FEW = 10
"""Items of a class or domain of test below which half of them are too few to train on."""
SPARSE = 0.1
"""Share of test that may lie in such classes or domains."""
MANY = 10
"""Domains of training and of test from which on they count as interchangeable, if they were dealt at random."""
DROPPED = ("counts", "distance", "explanation", "name", "notes", "reference", "setting")
"""The card's entries about the benchmark's own rows."""


def reference(
    benchmark: Benchmark, name: str, seed: int = 0, *, moved: float = 0.5, unseen: bool = False,
    collection: Collection | None = None, given: str = "",
) -> Benchmark:
    """The in-distribution reference of a benchmark, by one of the names of §5.2.

        test-to-test    train and id_val are drawn from test, as many items as training had, or as there are
        mixed-to-test   that many training items give way to items of test, half of training at most
        train-to-train  id_test is the test: id_test − test of the same run. Drawn from train where there is none
        average         all rows as they are: average − worst group of the same run. With `unseen`, of new groups too
        random-split    all items change places at random; every split keeps its size

    What is drawn from test is at most the share `moved` of it, by the shares of its cells of label × domain × group;
    the rest is tested, so that both benchmarks have predictions of it. Items of `target_train` go first. Where the data
    set comes with the reference, `given` is the factor of the `collection` that holds its split: `split_mixed_to_test`.
    A reference that cannot be made is an error with the reason; what weakens the comparison is a note on the card.
    """
    if name not in REFERENCES:
        raise unknown("reference", name, REFERENCES)
    if not 0 < moved < 1:
        raise ShiftBenchError(f"moved = {moved}, but it is the share of test that goes to training: between 0 and 1.")
    if given:
        return _published(benchmark, name, collection, given)
    reason = legal(benchmark, unseen=unseen)[name]
    if reason:
        raise ShiftBenchError(f"Benchmark '{benchmark.name}', reference {name}: {reason}")
    stream = int(child(seed, "setting").integers(2**62))
    if name == "test-to-test":
        split, notes = _test_to_test(benchmark, stream, moved)
    elif name == "mixed-to-test":
        split, notes = _mixed_to_test(benchmark, stream, moved)
    elif name == "train-to-train":
        split, notes = _train_to_train(benchmark, stream)
    elif name == "average":
        split, notes = benchmark.split, ["Average over test against its worst group, on the same rows."]
        if legal(benchmark)[name]:
            notes.append("Groups of test are not all in training, so the average is of new groups too.")
    else:
        split = benchmark.split[child(stream, name).permutation(len(benchmark))]
        notes = ["All items were dealt anew: test is not that of the benchmark, and may be easier or harder. Items "
                 "that belong together (frames of one film, patches of one slide) may be on both sides."]
    return _with_split(benchmark, split, name, seed, notes)


def _test_to_test(benchmark: Benchmark, seed: int, moved: float) -> tuple[Strs, list[str]]:
    """Train and id_val from test, in the ratio that they had; what training was is left out."""
    train, inside = len(benchmark.rows("train")), len(benchmark.rows("id_val"))
    rows = _from_test(benchmark, train + inside, seed, moved)
    drawn = _draw(benchmark, rows, inside * len(rows) // (train + inside), seed + 1)
    split = np.where(np.isin(benchmark.split, ("train", "id_val", "id_test", "target_train")), "", benchmark.split)
    split[rows] = "train"
    split[drawn] = "id_val"
    n, count = len(rows) - len(drawn), np.bincount(benchmark.label[benchmark.rows("test")])
    notes = [] if n == train else [f"Trained on {n} items of test where the benchmark has {train}, which makes the gap "
                                   "smaller; for as many on both sides cut the benchmark (condition 'size')."]
    small = int(((count > 0) & (count < FEW)).sum())
    return split, notes + ([f"{small} classes of test have under {FEW} items."] if small else [])


def _mixed_to_test(benchmark: Benchmark, seed: int, moved: float) -> tuple[Strs, list[str]]:
    """Items of test take the places of as many training items; validation stays as it is."""
    train = benchmark.rows("train")
    rows = _from_test(benchmark, len(train) // 2, seed, moved)
    split = np.where(benchmark.split == "target_train", "", benchmark.split)
    split[_draw(benchmark, train, len(rows), seed)] = ""
    split[rows] = "train"
    return split, [f"{len(rows)} of {len(train)} training items ({len(rows) / len(train):.0%}) are of the test "
                   "distribution. A model that must fit both may fit test less well than one of test-to-test."]


def _train_to_train(benchmark: Benchmark, seed: int) -> tuple[Strs, list[str]]:
    """The rows as they are, with an id_test."""
    train, test, split = benchmark.rows("train"), benchmark.rows("test"), benchmark.split.astype("U12")
    domains = [len(np.unique(benchmark.domain[rows])) for rows in (train, test)]
    notes = [f"id_test and test are of different distributions ({domains[0]} and {domains[1]} domains). " + (
        "With this many domains, dealt at random, they may be taken as equally hard."
        if min(domains) >= MANY else
        "If test is harder in itself, part of the gap is not the shift's: see mixed-to-test.")]
    if "id_test" not in benchmark.splits:
        n = min(max(LEAST, len(train) // 10), len(train) // 2)
        split[_draw(benchmark, train, n, seed)] = "id_test"
        notes.append(f"There is no id_test: {n} of the {len(train)} training items were drawn for it, so train again.")
    return split, notes


def _from_test(benchmark: Benchmark, wanted: int, seed: int, moved: float) -> Ints:
    """Rows of the test distribution for training: of target_train first, then of test, which keeps LEAST items."""
    unused, test = benchmark.rows("target_train"), benchmark.rows("test")
    spares = _draw(benchmark, unused, min(wanted, len(unused)), seed)
    room = max(0, min(int(moved * len(test)), len(test) - LEAST))
    rows = np.concatenate([spares, _draw(benchmark, test, min(wanted - len(spares), room), seed)])
    if not len(rows):
        raise ShiftBenchError(f"moved = {moved:g} of {len(test)} items of test is not one item. Raise `moved`.")
    return rows


def _draw(benchmark: Benchmark, rows: Ints, n: int, seed: int) -> Ints:
    """n of some rows by the shares of their cells of label × domain × group."""
    if not n:
        return rows[:0]
    pair = benchmark.label[rows] * len(benchmark.names["domain"]) + benchmark.domain[rows]
    cell = np.unique(pair * len(benchmark.names["group"]) + benchmark.group[rows], return_inverse=True)[1]
    shares = np.bincount(cell) / len(rows)
    return deal(rows, cell, {"train": quota(n, shares)}, seed, tuple(map(str, range(len(shares)))))[0]


def _with_split(benchmark: Benchmark, split: Strs, name: str, seed: int, notes: list[str]) -> Benchmark:
    """The rows that have a split, in their usual order, with the names of the benchmark and a card of their own."""
    kept = np.flatnonzero(split != "")
    rows = kept[np.lexsort((kept, positions(split[kept], np.asarray(SPLITS))))]
    dealt = Benchmark(benchmark.items[rows], split[rows], benchmark.label[rows], benchmark.domain[rows],
                      benchmark.group[rows], benchmark.names, {}, _extra(benchmark, rows, split[rows]))
    return _with_card(dealt, benchmark, name, seed, notes, "")


def _extra(benchmark: Benchmark, rows: Ints, split: Strs) -> Mapping[str, Values]:
    """Further columns; how often an item is drawn is 1 for those that are new in training, and 1 on average."""
    extra = {key: values[rows] for key, values in benchmark.extra.items()}
    if "weight" in extra:
        train, stayed = split == "train", benchmark.split[rows] == "train"
        weight = np.where(train & stayed, extra["weight"].astype(np.float64), np.where(train, 1.0, 0.0))
        total = weight.sum()
        extra["weight"] = weight * (int(train.sum()) / total) if total else np.where(train, 1.0, 0.0)
    return extra


def _published(benchmark: Benchmark, name: str, collection: Collection | None, factor: str) -> Benchmark:
    """The reference that comes with the data set: the same shift `given`, with another column of splits."""
    if benchmark.card.get("shift") != "given" or collection is None:
        raise ShiftBenchError(f"Factor '{factor}' is for a benchmark of the shift 'given' and needs its collection; "
                              f"'{benchmark.name}' is of shift '{benchmark.card.get('shift')}'"
                              f"{'' if collection else ', and no collection was named'}. Leave `given` out to draw.")
    if benchmark.card.get("conditions"):
        raise ShiftBenchError(f"'{benchmark.name}' was made under conditions, which factor '{factor}' knows nothing of."
                              " Build it without them, or leave `given` out to draw.")
    params: dict[str, Any] = dict(benchmark.card["params"])
    ignore = sorted({*params.get("ignore", ()), "unused"})
    shift = make(Given, {**params, "split": factor, "ignore": ignore}, f"reference {name}")
    dealt = shift.build(collection, int(benchmark.card.get("seed", 0)))
    strange = int((positions(dealt.items[dealt.rows("test")], benchmark.items[benchmark.rows("test")]) < 0).sum())
    notes = [f"Split as factor '{factor}' has it."] + (
        [f"{strange} items of its test are not in the benchmark's; a gap is over the others."] if strange else [])
    return _with_card(dealt, benchmark, name, int(benchmark.card.get("seed", 0)), notes, factor)


def _with_card(
    dealt: Benchmark, shifted: Benchmark, name: str, seed: int, notes: list[str], factor: str
) -> Benchmark:
    """The reference with its card, which names it and the benchmark that it belongs to (see `reference_facts`)."""
    tested = "id_test" if name == "train-to-train" else "test"
    facts = {"name": name, "kind": kind_of(shifted), "seed": seed, "given": factor,
             "shifted": {"name": shifted.name, "digest": shifted.digest},
             "train": len(dealt.rows("train")), "tested": len(dealt.rows(tested))}
    card = {**{key: value for key, value in shifted.card.items() if key not in DROPPED},
            "name": f"{shifted.name}-{name}", "reference": facts, "distance": None, "counts": dealt.counts(),
            "notes": [f"In-distribution reference {name} of '{shifted.name}' ({shifted.digest[:8]}), whose "
                      f"problem is: {facts['kind']}.", *notes]}
    return replace(dealt, card=json.loads(json.dumps(card)))


def reference_facts(card: Mapping[str, Any]) -> dict[str, Any]:
    """What the card of a reference says of it: `name`, `kind`, and as `shifted` its benchmark; {} on other cards.

    Older cards have it under `setting`, the paper's word, with the benchmark as `reference`.
    """
    old = card.get("setting", {})
    return dict(card.get("reference") or {("shifted" if key == "reference" else key): old[key] for key in old})


def legal(benchmark: Benchmark, *, unseen: bool = False) -> dict[str, str]:
    """Every reference by name, with the reason why it cannot be made and what to do instead; empty where it can.

    With `unseen`, average is legal for groups that are not in training.
    """
    for split in ("train", "test"):
        if not len(benchmark.rows(split)):
            return dict.fromkeys(REFERENCES, f"There is no split '{split}', so there is nothing to compare. Build the "
                                             "benchmark with one.")
    if len(np.unique(benchmark.items)) < len(benchmark):
        return dict.fromkeys(REFERENCES, "Some items stand in two rows, so that training and test may share them. See "
                                         "shiftbench check.")
    noisy = ("would have wrong labels: those of training were made noisy. Make the reference without the condition "
             "'noise'.") if "true_label" in benchmark.extra else ""
    mixed = _too_small_to_mix(benchmark)
    return {"test-to-test": mixed or _too_sparse(benchmark), "mixed-to-test": mixed,
            "train-to-train": _without_id_test(benchmark, noisy), "average": _without_average(benchmark, unseen),
            "random-split": noisy and f"A test dealt from all items {noisy}"}


def _too_small_to_mix(benchmark: Benchmark) -> str:
    n = len(benchmark.rows("test"))
    if n < 2 * LEAST and not (n >= LEAST and len(benchmark.rows("target_train"))):
        return (f"Test has {n} items; if half of them go to training, under {LEAST} are left to test on. Build a "
                "larger test, or choose train-to-train.")
    return "Training has 1 item, and a mixture needs two." if len(benchmark.rows("train")) < 2 else ""


def _too_sparse(benchmark: Benchmark) -> str:
    rows = np.concatenate([benchmark.rows("test"), benchmark.rows("target_train")])
    for column, many in (("label", "classes"), ("domain", "domains")):
        codes = getattr(benchmark, column)[rows]
        count = np.bincount(codes)
        sparse = count[codes] < FEW
        if sparse.mean() > SPARSE:
            return (f"{int(((count > 0) & (count < FEW)).sum())} of the {int((count > 0).sum())} {many} of test have "
                    f"under {FEW} items, and hold {sparse.mean():.0%} of them: too few to train on as well. Choose "
                    "mixed-to-test, which keeps training items of the others, or train-to-train.")
    return ""


def _without_id_test(benchmark: Benchmark, noisy: str) -> str:
    n = len(benchmark.rows("train"))
    if len(benchmark.rows("id_test")):
        return ""
    if n < 2 * LEAST:
        return (f"There is no id_test, and training has {n} items: too few to draw {LEAST} from. Build the benchmark "
                "with an id_test, or with more training items.")
    return noisy and f"There is no id_test, and one drawn from training {noisy}"


def _without_average(benchmark: Benchmark, unseen: bool) -> str:
    groups = np.unique(benchmark.group[benchmark.rows("test")])
    if len(groups) < 2:
        return "Test has one group, so its average is its worst. Build the benchmark with groups."
    new = int((~_seen(benchmark.group, benchmark)).sum())
    if new and not unseen:
        return (f"{new} of the {len(groups)} groups of test are not in training: they are no subpopulations of it, and "
                "their average is not in distribution either. Choose another reference, or compare new groups with "
                "their average, as the paper does with Amazon's new users: --set unseen=true.")
    return ""


def kind_of(benchmark: Benchmark) -> str:
    """Which of the three problems of §3 it is, by the domains of training and test.

        domain generalization   D_test ∩ D_train = ∅
        subpopulation shift     D_test ⊆ D_train
        hybrid                  some test domains are seen in training and some are not, or none is and groups of
                                another factor are seen on both sides (FMoW: years are new, regions are not)

    The groups are the benchmark's own, and those by which its headline ranks.
    """
    seen = _seen(benchmark.domain, benchmark)
    if seen.all():
        return SUBPOPULATION
    rows = benchmark.rows("test")
    cells = np.unique(np.stack([benchmark.label[rows], benchmark.group[rows]]), axis=1).shape[1]
    crossed = cells > len(np.unique(benchmark.label[rows])) and _seen(benchmark.group, benchmark).any()
    if seen.any() or crossed:
        return HYBRID
    if benchmark.headline.by:
        groups = grouping(benchmark, benchmark.headline.by, strict=False)
        sides = [groups.group[benchmark.split[groups.rows] == split] for split in ("train", "test")]
        return HYBRID if np.isin(*sides).any() else GENERALIZATION
    return GENERALIZATION


def _seen(codes: Ints, benchmark: Benchmark) -> Bools:
    """Which of the codes of test are in training too."""
    return np.isin(np.unique(codes[benchmark.rows("test")]), codes[benchmark.rows("train")])
