"""How the runs were chosen: every rule side by side, and the scores of the runs that the page's tables show."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from shiftbench.core.arrays import Values
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Scores
from shiftbench.reporting.tables import Row, methods_in
from shiftbench.scoring import MEAN
from shiftbench.scoring.select import (
    DEFAULT,
    LABELS,
    RULES,
    TARGETS,
    Mean,
    Runs,
    Selection,
    chosen,
    over_benchmarks,
    over_seeds,
    select,
    setting_of,
)

HEADS = {"accuracy": "Average accuracy", "worst_group_accuracy": "Worst-group accuracy"}
MARKS = {"none": "", "shifted": "labels of other shifted domains", "unknown": "labels from after the shift",
         "target": "target labels"}
"""What a table says of the labels from after the shift that a rule used."""
REMEDY = ("write its runs down, shiftbench select RUNS --rule NAME --allow-target --out chosen.parquet, and report "
          "those: shiftbench report chosen.parquet")
"""A report shows no choice by target labels, beside that of the oracle in the section about rules."""
EMPTY = {"low": math.nan, "high": math.nan, "regret_low": math.nan, "regret_high": math.nan, "whose": ""}


def shown_scores(scores: Scores, benchmarks: Sequence[Benchmark] = (), rule: str = DEFAULT) -> Scores:
    """What the tables of a report are made from: one run per benchmark, method and seed, chosen by the rule.

    Where every method has one setting nothing is chosen and the scores stay as they are; the parts of benchmarks that
    leave out a domain are dropped. Where the rule cannot choose, each setting is a method of its own. Means over the
    chosen runs are kept where they were scored, which `setting_of(rule)` tells; other means came before the choice.
    """
    runs = Runs(scores)
    kept = _rows(scores, np.isin(scores["benchmark"], [runs.benchmarks[code] for code in runs.originals]))
    crowded = runs.several
    if not crowded:
        return kept
    made = chosen(_rows(scores, np.isin(scores["benchmark"], sorted(crowded))), rule, benchmarks=benchmarks,
                  remedy=REMEDY)
    decided = set(zip(made["benchmark"].tolist(), made["method"].tolist(), strict=True))
    is_mean = (kept["seed"] == -1) & np.char.startswith(kept["run"], MEAN)
    inside = np.isin(kept["benchmark"], sorted(crowded))
    scored = _rows(kept, inside & is_mean & (kept["setting"] == setting_of(rule)))
    open_rows = inside & ~is_mean & np.asarray(
        [pair not in decided for pair in zip(kept["benchmark"].tolist(), kept["method"].tolist(), strict=True)])
    undecided = _rows(kept, open_rows)
    words = [f"{method} ({setting or run})" for method, setting, run in zip(
        *(undecided[name].tolist() for name in ("method", "setting", "run")), strict=True)]
    undecided = Scores({**undecided.columns, "method": np.asarray(words, np.str_)})
    return Scores.join([_rows(kept, ~inside), made, scored, undecided])


def section(
    scores: Scores, benchmarks: Sequence[Benchmark] = (), rule: str = DEFAULT, order: Sequence[str] = ()
) -> Row | None:
    """What the page says of the choice; None where no method has several settings.

    `blocks`: the average over benchmarks, then each of them in `order`; in each a table per target: rows are methods,
    cells stand in the order of `rules`, and the last row is the mean over methods.
    """
    runs = Runs(scores)
    names = sorted(runs.several, key=lambda name: (order.index(name) if name in order else len(order), name))
    if not names:
        return None
    parts = [runs.benchmarks[part] for code in runs.originals for part in runs.parts(code)]
    made = select(_rows(scores, np.isin(scores["benchmark"], [*names, *parts])), benchmarks=benchmarks)
    means = over_seeds(made.choices)
    rules = [_head(name, means, len(names)) for name in RULES if any(mean.rule == name for mean in means)]
    by_benchmark = [("", over_benchmarks(means))] if len(names) > 1 else []
    by_benchmark += [(name, [mean for mean in means if mean.benchmark == name]) for name in names]
    columns = [one["name"] for one in rules]
    blocks = [{"benchmark": name, "tables": [_table(target, part, columns, 1 if name else len(names))
                                             for target in TARGETS]} for name, part in by_benchmark]
    settings = {mean.method: mean.among for mean in over_benchmarks(means) if mean.among > 1}
    used = next((one for one in rules if one["name"] == rule), None)
    return {"rule": RULES[rule].head, "by": used["by"] if used else "", "lower": RULES[rule].lower, "rules": rules,
            "blocks": blocks, "benchmarks": len(names), "figure": _regrets(blocks[0], rules),
            "settings": [(method, settings[method]) for method in methods_in(settings)],
            "seeds": _seeds({mean.seeds for mean in means}), "refused": _refusals(made, names),
            "open": sorted({one.benchmark for one in made.refused if one.rule == rule})}


def _seeds(counts: set[int]) -> str:
    least, most = min(counts, default=0), max(counts, default=0)
    return "" if most < 2 else f", mean over {most} seeds" if least == most else f", mean over {least} to {most} seeds"


def _rows(scores: Scores, keep: Values) -> Scores:
    return Scores({name: values[keep] for name, values in scores.columns.items()})


def _head(name: str, means: Sequence[Mean], benchmarks: int) -> Row:
    """The head of a rule's column: its criterion, what has to be known for it, and which labels it used."""
    mine = [mean for mean in over_benchmarks(means) if mean.rule == name]
    labels = max((mean.labels for mean in mine), key=LABELS.index)
    by = " / ".join(dict.fromkeys(mean.by for mean in means if mean.rule == name))
    on = max(mean.benchmarks for mean in mine)
    return {"name": name, "head": RULES[name].head, "best": "lowest" if RULES[name].lower else "highest", "by": by,
            "uses": RULES[name].uses, "labels": labels, "mark": MARKS[labels], "on": on if on < benchmarks else 0}


def _table(target: str, means: Iterable[Mean], rules: Sequence[str], benchmarks: int) -> Row:
    """Methods × rules for one target, and their mean over methods.

    A cell that averages over fewer than all the `benchmarks` has a regret but no value: means over other benchmarks
    cannot be compared, and one may even exceed the oracle's.
    """
    mine = [mean for mean in means if mean.target == target]
    rows: list[Row] = []
    for method in methods_in(mean.method for mean in mine):
        own = {mean.rule: mean for mean in mine if mean.method == method}
        any_one = next(iter(own.values()))
        rows.append({"method": method, "among": any_one.among, "blind": _blind(any_one),
                     "cells": [_cell(own[rule], benchmarks) if rule in own else None for rule in rules]})
    free = [row for row in rows if row["among"] > 1]  # with one setting there is nothing to regret
    cells = [_together([row["cells"][place] for row in free]) for place in range(len(rules))]
    total = {"cells": cells, "blind": _together([row["blind"] for row in free]), "of": len(free)}
    return {"target": target, "head": HEADS[target], "rows": rows, "total": total if len(free) > 1 else None}


def _cell(mean: Mean, benchmarks: int) -> Row:
    part = mean.benchmarks if mean.benchmarks < benchmarks else 0
    return {"value": mean.test, "low": mean.low, "high": mean.high, "regret": mean.regret,
            "regret_low": mean.regret_low, "regret_high": mean.regret_high, "part": part, "free": mean.among > 1,
            "whose": mean.whose}


def _blind(mean: Mean) -> Row:
    """What a setting taken without looking gives on average."""
    return {"value": mean.blind, "regret": mean.oracle - mean.blind, **EMPTY, "part": 0, "free": mean.among > 1}


def _together(cells: Sequence[Row | None]) -> Row | None:
    """The mean over methods, where the rule chose for all of them."""
    known = [cell for cell in cells if cell]
    if not known or len(known) < len(cells):
        return None
    return {**EMPTY, "part": max(cell["part"] for cell in known), "free": True,
            **{key: float(np.mean([cell[key] for cell in known])) for key in ("value", "regret")}}


def _regrets(block: Row, rules: Sequence[Row]) -> list[Row]:
    """A panel per target: for each rule the regret of every method as a place in per cent of a common axis from 0."""
    rows = [row for table in block["tables"] for row in table["rows"]]
    cells = [cell for row in rows for cell in (*row["cells"], row["blind"]) if cell]
    most = max((cell["regret"] for cell in cells if math.isfinite(cell["regret"])), default=0.0)
    end = next((step for step in (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8) if most <= step), 1.0)
    panels = []
    for table in block["tables"]:
        free, total = [row for row in table["rows"] if row["among"] > 1], table["total"]
        lines = [{**rule, "mean": total and total["cells"][place],
                  "dots": _dots([(row["method"], row["cells"][place]) for row in free], end)}
                 for place, rule in enumerate(rules) if rule["name"] != "oracle"]
        lines.append({"name": "", "head": "Any setting", "by": "no choice", "mark": "", "labels": "none", "on": 0,
                      "mean": total and total["blind"],
                      "dots": _dots([(row["method"], row["blind"]) for row in free], end)})
        for line in lines:
            line["at"] = 100 * line["mean"]["regret"] / end if line["mean"] else None
        panels.append({"head": table["head"], "rows": lines, "ticks": [
            {"at": 25.0 * k, "text": f"{25 * end * k:.3g}"} for k in range(5)]})
    return panels


def _dots(cells: Sequence[tuple[str, Row | None]], end: float) -> list[Row]:
    """A dot per method, each in a lane of its own so that equal regrets do not hide each other."""
    return [{"method": method, "regret": cell["regret"], "at": 100 * cell["regret"] / end,
             "lane": 100 * (place + 1) / (len(cells) + 1)}
            for place, (method, cell) in enumerate(cells) if cell and math.isfinite(cell["regret"])]


def _refusals(made: Selection, names: Sequence[str]) -> list[tuple[str, str, str]]:
    """A rule, where and why it chose nothing, each reason once."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for one in made.refused:
        found.setdefault((one.rule, one.method, one.why), []).append(one.benchmark)
    return [(RULES[rule].head, (f" to {method}" if method else "") + (
        "" if set(names) <= set(places) else f"{' on' if method else ' to'} {', '.join(places)}"), why)
            for (rule, method, why), places in found.items()]
