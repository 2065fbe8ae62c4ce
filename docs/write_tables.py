"""Write what a command found into the page that tells of it.

    make demo; python docs/write_tables.py demo demo/tables.md                        docs/metashift.md
    make test-real; python docs/write_tables.py real build/real/found.md              docs/real_data.md
    python examples/fine_grained/tables.py R > f.md; python docs/write_tables.py five_seeds f.md
                                                                                      docs/studies/fine_grained.md
    python docs/distances.py d.md; python docs/write_tables.py sizes d.md             docs/metashift.md
    shiftbench conflicts … --leave-out …; python docs/write_tables.py left_out conflicts/conflicts.json
                                                                                      docs/conflicts.md
    shiftbench report R --figures F; python docs/write_tables.py interventions F      docs/breeds.md
    python examples/nooch/tables.py R > n.md; python docs/write_tables.py nooch n.md  docs/nooch.md
    python bench/audit_null.py 1000 a.md; python docs/write_tables.py audit_null a.md docs/audit_statistics.md
    python -m bench.arena … --out a.json; python docs/write_tables.py arena a.json    docs/audit.md
    python bench/audit.py --others P --out F; python docs/write_tables.py audit_speed F/audit_speed.md
                                                                                      docs/audit.md
    the same; python docs/write_tables.py audit_growth F/audit_growth.md              docs/audit.md
    make coverage; python docs/write_tables.py coverage build/coverage.json           docs/figures.md
    python bench/studio.py --json F; python docs/write_tables.py studio F             docs/studio.md
    make bench; python docs/write_tables.py benches build/bench                       docs/figures.md

`interventions` makes its table from those of BREEDS' figures in the folder F, and `benches` shows what each bench
printed. The file is copied to docs/studies and between the marks of the page; a test compares the two, so the page
shows what a run gave. The day on which the command wrote the file goes to docs/results.md. The JSON file of the arena
is kept beside its table.
"""

import ast
import csv
import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PAGES = {"demo": "metashift.md", "real": "real_data.md", "five_seeds": "studies/fine_grained.md",
         "nooch": "nooch.md", "sizes": "metashift.md", "left_out": "conflicts.md", "interventions": "breeds.md",
         "audit_null": "audit_statistics.md", "arena": "audit.md", "audit_speed": "audit.md",
         "audit_growth": "audit.md", "coverage": "figures.md", "studio": "studio.md", "benches": "figures.md"}
QUANTITIES = {"source": "source", "target": "target", "rt": "target-RT", "whole": "trained on the target",
              "relative": "relative"}
"""What the tables of BREEDS' figures call a number, and what the page does."""
KINDS = ("num_statements", "covered_lines", "num_branches", "covered_branches")
"""What coverage's JSON file counts of a source file."""


def quoted(text: str, name: str) -> str:
    """What stands in a document between `<!-- NAME -->` and `<!-- end NAME -->`."""
    return _around(text, name)[1]


def inserted(text: str, name: str, block: str) -> str:
    """The document with another text between the two marks."""
    before, _, after = _around(text, name)
    return f"{before}{block}{after}"


def dated(results: str, name: str, day: str) -> str:
    """The page of results with another day in the row of a study; the row names the study's file."""
    lines = results.splitlines(keepends=True)
    rows = [number for number, line in enumerate(lines) if f"| `{name}` |" in line]
    if len(rows) != 1:
        raise ValueError(f"docs/results.md must have one row with the file `{name}`.")
    lines[rows[0]] = re.sub(r"\b20\d\d-\d\d-\d\d\b|not on record", day, lines[rows[0]], count=1)
    return "".join(lines)


def _around(text: str, name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"A document must have the marks {begin.strip()} and {end} once each.")
    before, _, rest = text.partition(begin)
    block, _, after = rest.partition(end)
    return before + begin, block, end + after


def left_out(text: str) -> str:
    """The subsets that `conflicts --leave-out` tested, from its conflicts.json, as a table."""
    rows = [f"| `{row['name']}` | {row['items']} | {100 * row['accuracy']:.1f} | {100 * row['low']:.1f}–"
            f"{100 * row['high']:.1f} |" for row in json.loads(text)["left_out"]]
    return "\n".join(["| left out | items | accuracy, % | 95 % interval |", "|--|--|--|--|", *rows, ""])


def breeds_table(figures: Path) -> str:
    """A line per benchmark and model: per cent with intervals, from the tables of Figures 5 and 6 of BREEDS."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for name in ("breeds-source-target.csv", "breeds-relative.csv"):
        with (figures / name).open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                value, low, high = (f"{100 * float(row[key]):.1f}" for key in ("value", "low", "high"))
                cells.setdefault((row["benchmark"], row["model"]), {})[row["quantity"]] = f"{value} [{low}, {high}]"
    columns = [key for key in QUANTITIES if any(key in row for row in cells.values())]
    lines = [["split", "model", *(QUANTITIES[key] for key in columns)], ["--"] * (2 + len(columns))]
    lines += [[*key, *(row.get(column, "–") for column in columns)] for key, row in cells.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("| -- ", "|--").replace("-- |", "--|")


def arena_tables(text: str) -> str:
    """Who reports noise, recall and precision at an equal rate and as they come, from the file of `bench.arena`."""
    rows = json.loads(text)["rows"]
    tools = [tool for tool in TOOLS if any(row["tool"] == tool for row in rows)]
    cases: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["tool"]] = row
    planted = {name: row for name, row in cases.items() if row[OURS]["planted"]}

    def table(title: str, lines: dict[str, list[str]]) -> str:
        head = f"| | {' | '.join(TOOLS[tool] for tool in tools)} |\n{'|--' * (1 + len(tools))}|\n"
        return f"{title}\n\n{head}" + "".join(f"| {name} | {' | '.join(line)} |\n" for name, line in lines.items())

    def cells(names: Iterable[str], spelled: Callable[[dict[str, Any], dict[str, Any]], str]) -> dict[str, list[str]]:
        return {name: [spelled(cases[name][tool], cases[name][OURS]) if tool in cases[name] else "" for tool in tools]
                for name in names}

    def spans(key: str, spelled: Callable[[Any], str] = str) -> list[str]:
        columns = [sorted(row[tool][key] for row in planted.values() if tool in row) for tool in tools]
        return ["–".join(dict.fromkeys([spelled(column[0]), spelled(column[-1])])) for column in columns]

    noise = cells([name for name in cases if name not in planted], lambda row, ours: percent(row["reports"]))
    plain = cells(planted, lambda row, ours: " / ".join(percent(row[key]) for key in ("recall", "precision", "fdr")))
    return "\n".join([
        table("**Nothing to find**: tables with a report, in per cent.",
              noise | {"the tables below, errors permuted": spans("null_reports", percent)}),
        table("**At an equal rate of false reports**: recall / precision, in per cent; ▲ above ours, ▼ below ours.",
              cells(planted, _against) | {"*tables of a case*": spans("draws"), "*permuted tables*": spans("nulls")}),
        table("**As they come**: recall / precision / false, in per cent.", plain)])


OURS = "shiftbench"
TOOLS = {"shiftbench": "ours", "sliceline": "sliceline", "divexplorer": "DivExplorer", "pysubgroup": "pysubgroup",
         "giskard": "Giskard", "giskard_test": "Giskard, threshold 0", "deepchecks": "deepchecks"}
"""What the page calls a tool, in the order of its columns."""


def percent(share: float | None) -> str:
    """A share in per cent; – where there is none."""
    return "–" if share is None else f"{100 * share:.0f}"


def _against(row: dict[str, Any], ours: dict[str, Any]) -> str:
    """Recall and precision at an equal rate, each with a mark where it differs from ours by two standard errors."""
    return " / ".join(percent((row["at_equal"] or {}).get(key)) + mark(row, ours, key)
                      for key in ("recall", "precision"))


def mark(row: dict[str, Any], ours: dict[str, Any], key: str) -> str:
    """▲ or ▼ where a tool is above or below ours at an equal rate by two standard errors of the difference."""
    its, own = row["at_equal"] or {}, ours["at_equal"] or {}
    if its.get(key) is None or own.get(key) is None:
        return ""
    difference = its[key] - own[key]
    clear = abs(difference) > 2 * math.hypot(its[f"{key}_error"], own[f"{key}_error"])
    return "" if not clear else " ▲" if difference > 0 else " ▼"


def speed_line(text: str) -> str:
    """The line of docs/figures.md on the speed of an audit, from the table audit_speed.md."""
    head, _, *lines = (_cells(line) for line in text.splitlines() if line.startswith("|"))
    size, _, contexts = head[0].split(", ")
    rows, columns = size.split(" × ")
    ours, others = lines[0], lines[-2:]
    slower = "; ".join(f"{row[0]}: {row[2]} s, {row[3]} GB" for row in others)
    return (f"| `sb.audit` of {rows} rows × {columns} columns of four values, from two tables in memory: join, "
            f"predicates, all {contexts} of up to three predicates, tests | {ours[2]} s of processors, {ours[3]} GB | "
            f"{slower}, their searches alone | {'; '.join(row[5] for row in others)} | "
            "`python bench/audit.py --others PYTHON` ([tables](audit.md#speed-and-size)) |")


def growth_line(text: str) -> str:
    """The line of docs/figures.md on large tables, from the table audit_growth.md."""
    lines = [_cells(line) for line in text.splitlines() if line.startswith("|")][2:]
    (small, _), (errors, losses) = lines[:2], lines[-2:]
    rows, columns = errors[0].split(" × ")
    per_row = [float(line[4]) / float(line[0].split(" × ")[0].replace(",", "")) for line in (small, errors)]
    return (f"| `sb.audit` of all pairs, {rows} rows × {columns} columns from two parquet files: {errors[2]} contexts; "
            f"a row of it against one of {small[0].split(' × ')[0]} | {errors[3]} s, {errors[6]} GB; real losses: "
            f"{losses[3]} s, {losses[6]} GB | linear time is 1.0 | {per_row[1] / per_row[0]:.1f} | "
            "`python bench/audit.py` |")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


FIGURES: dict[str, Callable[[str], str]] = {"audit_speed": speed_line, "audit_growth": growth_line}
"""Tables of which docs/figures.md has a line, and what makes it of them."""


def with_line(page: str, line: str) -> str:
    """docs/figures.md with another line of the same bench: the one whose command is the same."""
    command = _cells(line)[4]
    lines = [line if _cells(old)[4:] == [command] else old for old in page.splitlines()]
    if line not in lines:
        raise ValueError(f"The table of figures has no line with the command {command}.")
    return "".join(f"{line}\n" for line in lines)


def coverage_table(text: str) -> str:
    """A line per room of src: its statements and branches, and the share of them that a test runs."""
    rooms: dict[str, list[int]] = {}
    for file, facts in json.loads(text)["files"].items():
        room = Path(file).relative_to("src/shiftbench").parts[0]
        counts = [facts["summary"][key] for key in KINDS]
        rooms[room] = [sum(pair) for pair in zip(rooms.get(room, [0] * len(KINDS)), counts, strict=True)]
    rooms["all"] = [sum(column) for column in zip(*rooms.values(), strict=True)]
    lines = ["| folder or file | statements | run, % | branches | taken, % |", "|--|--|--|--|--|"]
    for room, (statements, run, branches, taken) in rooms.items():
        shares = [f"{100 * part / whole:.1f}" if whole else "–" for part, whole in
                  ((run, statements), (taken, branches))]
        lines.append(f"| {room} | {statements:,} | {shares[0]} | {branches:,} | {shares[1]} |")
    return "\n".join([*lines, ""])


def studio_table(text: str) -> str:
    """A column per size of a collection, from the JSON file of bench/studio.py."""
    sizes = json.loads(text)
    lines = [f"| items | {' | '.join(f'{int(n):,}' for n in sizes)} |", "|--" * (1 + len(sizes)) + "|"]
    for quantity in next(iter(sizes.values())):
        digits = 0 if quantity.endswith(("ms", "MB")) else 1
        cells = [f"{figures[quantity]:,.{digits}f}" for figures in sizes.values()]
        lines.append(f"| {quantity} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def bench_logs(folder: Path) -> str:
    """A table of ratios, and then what each bench printed last, from the files NAME.txt that `make bench` writes."""
    logs = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in sorted(folder.glob("*.txt"))}
    titles = {name: ast.get_docstring(ast.parse((DOCS.parent / "bench" / f"{name}.py").read_text(encoding="utf-8")))
              .splitlines()[0].rstrip(".") for name in logs}
    rows = [f"| {titles[name]} | {lines[-1].removeprefix('ratio: ')} | `python bench/{name}.py` |"
            for name, lines in logs.items()]
    shown = ["\n".join([f"### {titles[name]}", "", "```text", *lines[-LAST_LINES:], "```", ""])
             for name, lines in logs.items()]
    return "\n".join(["| what | ratio | command |", "|--|--|--|", *rows, "", *shown])


LAST_LINES = 12
"""The most lines of a bench that the page shows: some print a line per case before them."""


def main(name: str, source: str) -> None:
    page = DOCS / PAGES[name]
    whole = {"interventions": breeds_table, "benches": bench_logs}
    block = whole[name](Path(source)) if name in whole else Path(source).read_text(encoding="utf-8")
    block = left_out(block) if name == "left_out" else block
    block = coverage_table(block) if name == "coverage" else block
    block = studio_table(block) if name == "studio" else block
    if name == "arena":
        (DOCS / "studies" / "arena.json").write_text(block, encoding="utf-8")
        block = arena_tables(block)
    (DOCS / "studies" / f"{name}.md").write_text(block, encoding="utf-8")
    page.write_text(inserted(page.read_text(encoding="utf-8"), name, block), encoding="utf-8")
    if name in FIGURES:
        figures = DOCS / "figures.md"
        figures.write_text(with_line(figures.read_text(encoding="utf-8"), FIGURES[name](block)), encoding="utf-8")
    results, day = DOCS / "results.md", date.fromtimestamp(Path(source).stat().st_mtime)
    results.write_text(dated(results.read_text(encoding="utf-8"), name, day.isoformat()), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in PAGES:
        raise SystemExit(f"python docs/write_tables.py {'|'.join(PAGES)} FILE|FOLDER")
    main(*sys.argv[1:])
