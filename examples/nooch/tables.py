"""AUC on hard items of a NOOCh study as Markdown, task by task and on average, by the paper's rule.

    shiftbench sweep examples/nooch/world.toml --out R
    python examples/nooch/tables.py R > nooch.md
    python docs/write_tables.py nooch nooch.md                     puts them into docs/nooch.md
"""

import sys
from typing import Any

from shiftbench.data.scores import RUN
from shiftbench.reporting.page import read_source, shown_scores
from shiftbench.reporting.sections.nooch import cells, mean, nooch_in, tasks
from shiftbench.reporting.sections.nooch_items import criterion
from shiftbench.scoring.hard_items import EASY

Cell = dict[str, Any] | None


def main(source: str) -> str:
    """A table per criterion; the setting of each method is chosen on validation by the worse hard side's loss."""
    results = read_source(source, rule="nooch")
    benchmarks = sorted(nooch_in(results.benchmarks), key=lambda one: one.name)
    shown = shown_scores(results.scores, benchmarks, "nooch")
    lines = [f"{len(set(results.scores.where(stat=RUN)['run'].tolist()))} runs, {len(benchmarks)} benchmarks.", ""]
    for name in dict.fromkeys(criterion(benchmark) for benchmark in benchmarks):
        own = [benchmark for benchmark in benchmarks if criterion(benchmark) == name]
        table = tasks(shown, own)
        easy = [cells(shown, benchmark, "auc", EASY) for benchmark in own]
        *tasks_, average = table["rows"]
        heads = [row["method"].partition("-")[2] for row in tasks_]
        lines += [f"AUC on hard items, {name}: mean over seeds with its 95 % interval", "",
                  f"| method | {' | '.join(heads)} | average | average, easy items |", f"|{'--|' * (len(heads) + 3)}"]
        methods = [column["head"] for column in table["columns"]]
        for at in sorted(range(len(methods)), key=lambda at: -value(average["cells"][at])):
            method = methods[at]
            usual = mean([one[method] for one in easy]) if all(method in one for one in easy) else None
            columns = [words(row["cells"][at]) for row in table["rows"]]
            lines.append(f"| {method} | {' | '.join([*columns, words(usual)])} |")
        lines.append("")
    return "\n".join(lines)


def value(cell: Cell) -> float:
    return cell["value"] if cell else float("-inf")


def words(cell: Cell) -> str:
    if not cell:
        return "–"
    number = f"{cell['value']:.3f} <sub>{cell['low']:.3f}–{cell['high']:.3f}</sub>"
    return f"**{number}**" if cell.get("best") else number


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("python examples/nooch/tables.py R")
    print(main(sys.argv[1]), end="")
