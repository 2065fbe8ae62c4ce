"""How the runs were chosen: every rule side by side, with its regret."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup, escape

from shiftbench.reporting.charts import Dot, Entry, Figure, Look, Panel, hundredths, legends, looks_of, rows, scale
from shiftbench.reporting.page import Block, Chapter, Content, Results
from shiftbench.reporting.score_tables import COLUMN, Row, enumeration, methods_in
from shiftbench.scoring.metrics import percent
from shiftbench.scoring.rules import LABELS, RULES, TARGETS, Runs
from shiftbench.scoring.select import Mean, Selection, over_benchmarks, over_seeds, select

HEADS = {"accuracy": "Average accuracy", "worst_group_accuracy": "Worst-group accuracy"}
MARKS = {"none": "", "shifted": "labels of other shifted domains", "unknown": "labels from after the shift",
         "target": "target labels"}
"""Words for the labels from after the shift that a rule used."""
PEEKED = ("target", "unknown")
"""Labels that nobody has before deployment: what used them is shaded."""
FOOT = ("A rule chooses per method and seed. Regret is the oracle’s value minus that of the chosen run on the same "
        "test items. The best of several runs is also the luckiest on these items, so a part of every regret is "
        "chance. “Any setting” is the mean of all settings: what a choice without looking gives on average.")
EMPTY = {"low": math.nan, "high": math.nan, "regret_low": math.nan, "regret_high": math.nan, "whose": ""}


def content(results: Results) -> Content | None:
    """Every rule's choices and regret, and the line about them at the top; None where no method has several settings.

    `blocks`: the average over benchmarks, then each of them in the page's order; in each a table per target: rows are
    methods, cells stand in the order of `rules`, and the last row is the mean over methods.
    """
    runs, rule = Runs(results.runs), results.rule
    order = [benchmark.name for benchmark in results.benchmarks]
    names = sorted(runs.several, key=lambda name: (order.index(name) if name in order else len(order), name))
    if not names:
        return None
    parts = [runs.benchmarks[benchmark] for code in runs.originals for benchmark in runs.parts(code)]
    selection = select(results.runs.take(np.isin(results.runs["benchmark"], [*names, *parts])),
                       benchmarks=results.known)
    means = over_seeds(selection.choices, results.level)
    rules = [_head(name, means, len(names)) for name in RULES if any(mean.rule == name for mean in means)]
    by_benchmark = [("", over_benchmarks(means))] if len(names) > 1 else []
    by_benchmark += [(name, [mean for mean in means if mean.benchmark == name]) for name in names]
    columns = [column["name"] for column in rules]
    blocks = [{"benchmark": name, "tables": [_table(target, chosen, columns, 1 if name else len(names))
                                             for target in TARGETS]} for name, chosen in by_benchmark]
    settings = {mean.method: mean.among for mean in over_benchmarks(means) if mean.among > 1}
    used = next((column for column in rules if column["name"] == rule), None)
    facts = {"rule": RULES[rule].head, "by": used["by"] if used else "", "lower": RULES[rule].lower, "rules": rules,
             "blocks": blocks, "benchmarks": len(names),
             "figures": [_regrets(blocks[0], rules, len(names), looks_of(results.methods))],
             "settings": [(method, settings[method]) for method in methods_in(settings)],
             "seeds": _seeds({mean.seeds for mean in means}), "refused": _refusals(selection, names),
             "open": sorted({refusal.benchmark for refusal in selection.refused if refusal.rule == rule})}
    words = _in_words(facts)
    return facts | {"short": words["short"], "chapters": [
        Chapter("selection", "How the runs were chosen", _blocks(facts, words["long"]))]}


def _blocks(selection: Content, text: str) -> "list[Block]":
    """The figure, a table per target over all benchmarks and, folded, for each of them, and what the rules are."""
    many, seeds = selection["benchmarks"], selection["seeds"]
    first, *others = ([("table", {"table": _drawn(table, selection), "form": "even rules", "caption": Markup(
        "<b>{} on test</b>, per cent{}; below it the interval and ↓ the regret").format(table["head"], seeds)})
        for table in block["tables"]] for block in selection["blocks"])
    blocks: list[Block] = [("under", {"text": text}), ("plot", {"figure": selection["figures"][0], "head": False})]
    if not selection["blocks"][0]["benchmark"]:
        blocks.append(("sub", {"text": f"Average over {many} benchmarks"}))
    blocks += first
    blocks += [("folded", {"summary": block["benchmark"], "form": "by-rule", "blocks": tables})
               for block, tables in zip(selection["blocks"][1:], others, strict=True)]
    blocks.append(("plain", {
        "form": "counts legend-table",
        "heads": ("Rule", "Takes the run with the", "Needs", "Labels from after the shift"), "rows": [
            (rule["head"], escape(f"{rule['best']} {rule['by']}") + (Markup(
                ' <span class="small">(on {} of {} benchmarks)</span>').format(rule["on"], many) if rule["on"] else ""),
             rule["uses"], _badge(rule) or "none") for rule in selection["rules"]]}))
    if selection["refused"]:
        blocks.append(("notes", {"form": "notes refused", "lines": [
            f"{head} does not apply{where}: {why}." for head, where, why in selection["refused"]]}))
    more = " A rule that applies to some of the benchmarks only has its regret averaged over those." if many > 1 else ""
    return [*blocks, ("foot", {"text": FOOT + more})]


def _drawn(table: Row, selection: Content) -> Row:
    """A table of one target as the page draws it: the regret below each value, and what used target labels marked."""
    many = selection["benchmarks"]
    columns = [{"head": rule["head"], "badge": _badge(rule), "form": "peek" if rule["labels"] in PEEKED else ""}
               for rule in selection["rules"]]
    columns.append({"head": "Any setting", "edge": True})
    total = [{**table["total"], "method": f"Mean of {table['total']['of']} methods", "form": "total"}
             ] if table["total"] else []
    return {"blocks": [], "columns": [{**COLUMN, "marks": False, **column} for column in columns], "rows": [{
        "method": row["method"], "form": row.get("form", ""),
        "under": "" if "of" in row else f"{row['among']} settings" if row["among"] > 1 else "one setting",
        "cells": [{**cell, "hidden": cell["part"], "below": _below(cell, many)}
                  if cell and (cell["free"] or not cell["part"]) else None
                  for cell in (*row["cells"], row["blind"])]} for row in [*table["rows"], *total]]}


def _below(cell: Row, benchmarks: int) -> Markup:
    """What stands below a value: its regret, the worst group, and over how many benchmarks it is a mean."""
    below = Markup("")
    if cell["free"]:
        ends = f", {percent(cell['regret_low'])} to {percent(cell['regret_high'])} over seeds" if math.isfinite(
            cell["regret_low"]) else ""
        regret = Markup('↓ <data value="{}">{}</data>').format(cell["regret"], percent(cell["regret"]))
        below += Markup('<small class="regret" title="regret: points behind the best run{}">{}</small>').format(
            ends, regret if cell["regret"] > 0.00049 else "best")
    if cell["part"]:
        return below + Markup("<small>on {} of {}</small>").format(cell["part"], benchmarks)
    return below + (Markup('<small class="which">{}</small>').format(cell["whose"]) if cell["whose"] else "")


def _badge(rule: Row) -> Markup:
    badge = Markup('<span class="badge {}">{}</span>')
    return badge.format(rule["labels"], rule["mark"]) if rule["mark"] else Markup("")


def _seeds(counts: set[int]) -> str:
    least, most = min(counts, default=0), max(counts, default=0)
    return "" if most < 2 else f", mean over {most} seeds" if least == most else f", mean over {least} to {most} seeds"


def _head(name: str, means: Sequence[Mean], benchmarks: int) -> Row:
    """The head of a rule's column: its criterion, what it needs to know, and which labels it used."""
    of_rule = [mean for mean in over_benchmarks(means) if mean.rule == name]
    labels = max((mean.labels for mean in of_rule), key=LABELS.index)
    by = " / ".join(dict.fromkeys(mean.by for mean in means if mean.rule == name))
    on = max(mean.benchmarks for mean in of_rule)
    return {"name": name, "head": RULES[name].head, "best": "lowest" if RULES[name].lower else "highest", "by": by,
            "uses": RULES[name].uses, "labels": labels, "mark": MARKS[labels], "on": on if on < benchmarks else 0}


def _table(target: str, means: Iterable[Mean], rules: Sequence[str], benchmarks: int) -> Row:
    """Methods × rules for one target, and their mean over methods.

    A cell that averages over fewer than all the `benchmarks` has a regret but no value: means over other benchmarks
    cannot be compared, and one may even exceed the oracle's.
    """
    of_target = [mean for mean in means if mean.target == target]
    table_rows: list[Row] = []
    for method in methods_in(mean.method for mean in of_target):
        by_rule = {mean.rule: mean for mean in of_target if mean.method == method}
        first = next(iter(by_rule.values()))
        table_rows.append({"method": method, "among": first.among, "blind": _blind(first),
                           "cells": [_cell(by_rule[rule], benchmarks) if rule in by_rule else None for rule in rules]})
    free = [row for row in table_rows if row["among"] > 1]  # with one setting there is nothing to regret
    cells = [_together([row["cells"][number] for row in free]) for number in range(len(rules))]
    total = {"cells": cells, "blind": _together([row["blind"] for row in free]), "of": len(free)}
    return {"target": target, "head": HEADS[target], "rows": table_rows, "total": total if len(free) > 1 else None}


def _cell(mean: Mean, benchmarks: int) -> Row:
    covered = mean.benchmarks if mean.benchmarks < benchmarks else 0
    return {"value": mean.test, "low": mean.low, "high": mean.high, "regret": mean.regret,
            "regret_low": mean.regret_low, "regret_high": mean.regret_high, "part": covered, "free": mean.among > 1,
            "whose": mean.whose}


def _blind(mean: Mean) -> Row:
    """The mean over settings: what a blind choice gives."""
    return {"value": mean.blind, "regret": mean.oracle - mean.blind, **EMPTY, "part": 0, "free": mean.among > 1}


def _together(cells: Sequence[Row | None]) -> Row | None:
    """The mean over methods, where the rule chose for all of them."""
    present = [cell for cell in cells if cell]
    if not present or len(present) < len(cells):
        return None
    return {**EMPTY, "part": max(cell["part"] for cell in present), "free": True,
            **{key: float(np.mean([cell[key] for cell in present])) for key in ("value", "regret")}}


def _regrets(block: Row, rules: Sequence[Row], benchmarks: int, looks: dict[str, Look]) -> Figure:
    """A panel per target: for each rule the regret of every method, and their mean, on a common axis from 0."""
    cells = [cell for table in block["tables"] for row in table["rows"] for cell in (*row["cells"], row["blind"])
             if cell and math.isfinite(cell["regret"])]
    x = scale([0.0, max((cell["regret"] for cell in cells), default=0.0) or 0.01], write=hundredths, least=0.0)
    panels: list[Panel] = []
    numbers: list[tuple[str, str, str, float]] = []
    any_setting = {"name": "any", "head": "Any setting", "mark": "", "labels": "none", "on": 0}
    for table in block["tables"]:
        free, total, drawn = [row for row in table["rows"] if row["among"] > 1], table["total"], []
        for number, rule in enumerate([*rules, any_setting]):
            if rule["name"] == "oracle":
                continue
            last = number == len(rules)
            by_method = [(row["method"], row["blind"] if last else row["cells"][number]) for row in free]
            regrets = [(method, cell["regret"]) for method, cell in by_method if cell and math.isfinite(cell["regret"])]
            mean = total and (total["blind"] if last else total["cells"][number])
            text = ", ".join(f"{method} {percent(regret)}" for method, regret in regrets)
            on = f"on {rule['on']} of {benchmarks} benchmarks" if rule["on"] else ""
            drawn.append(Entry(
                rule["head"], dots=[Dot(regret, f"{method}: {percent(regret)}", looks.get(method, Look()))
                                    for method, regret in regrets],
                title=f"{rule['head']}: {text} points", under=rule["mark"] or on,
                median=mean["regret"] if mean else None, warned=rule["labels"] in PEEKED))
            numbers += [(table["target"], rule["name"], method, regret) for method, regret in regrets]
        panels.append(rows(f"{table['head']}: regret of each rule", drawn, x, width=440, left=160, height=43, spread=7))
    names = methods_in(method for _, _, method, _ in numbers)
    return Figure(
        "regret-by-rule", "Regret of each rule", "Points behind the best run there was to choose; 0 is the oracle.",
        tuple(panels), ("target", "rule", "method", "regret"), tuple(numbers),
        legends=legends([*((name, looks.get(name, Look())._replace(marker=0)) for name in names),
                         *([("mean of the methods", "median")] if len(names) > 1 else [])]))


def _refusals(selection: Selection, names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Which rules chose nothing, where and why, each reason once."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for refusal in selection.refused:
        reasons.setdefault((refusal.rule, refusal.method, refusal.why), []).append(refusal.benchmark)
    return [(RULES[rule].head, (f" to {method}" if method else "") + (
        "" if set(names) <= set(places) else f"{' on' if method else ' to'} {', '.join(places)}"), why)
            for (rule, method, why), places in reasons.items()]


def _in_words(selection: Content) -> dict[str, str]:
    """How the runs of the page were chosen: in a line for its top, and in full."""
    counts: dict[int, list[str]] = {}
    for method, n in selection["settings"]:
        counts.setdefault(n, []).append(method)
    trained = enumeration([f"{enumeration(methods)} with {n}" for n, methods in sorted(counts.items())]) + " settings"
    best = "lowest" if selection["lower"] else "highest"
    at = enumeration(selection["open"])
    open_too = f" {selection['rule']} cannot choose on {at}: there each setting is a row of its own." if at else ""
    if not selection["by"]:
        return {"short": f"Methods have several settings.{open_too}", "long": f"There are runs of {trained}.{open_too}"}
    return {
        "short": f"Where a method has several settings, the tables show one run per seed: the one with the {best} "
                 f"{selection['by']}.",
        "long": f"There are runs of {trained}. The tables of this page show, for each method and seed, the run with "
                f"the {best} {selection['by']}{_labels_used(selection)}. Another rule takes other runs: this is what "
                f"each would give on test, and how far that is behind the best run there was.{open_too}"}


def _labels_used(selection: Content) -> str:
    labels = next(rule["labels"] for rule in selection["rules"] if rule["head"] == selection["rule"])
    return "; it uses no label from after the shift" if labels == "none" else (
        "; its labels are from after the shift, but of no domain of the test")


