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

`interventions` makes its table from those of BREEDS' figures in the folder F. The file is copied to docs/studies and
between the marks of the page; a test compares the two, so the page shows what a run gave.
"""

import csv
import json
import sys
from pathlib import Path

DOCS = Path(__file__).parent
PAGES = {"demo": "metashift.md", "real": "real_data.md", "five_seeds": "studies/fine_grained.md",
         "nooch": "nooch.md", "sizes": "metashift.md", "left_out": "conflicts.md", "interventions": "breeds.md"}
QUANTITIES = {"source": "source", "target": "target", "rt": "target-RT", "whole": "trained on the target",
              "relative": "relative"}
"""What the tables of BREEDS' figures call a number, and what the page does."""


def quoted(text: str, name: str) -> str:
    """What stands in a document between `<!-- NAME -->` and `<!-- end NAME -->`."""
    return _around(text, name)[1]


def inserted(text: str, name: str, block: str) -> str:
    """The document with another text between the two marks."""
    before, _, after = _around(text, name)
    return f"{before}{block}{after}"


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


def main(name: str, source: str) -> None:
    page = DOCS / PAGES[name]
    block = breeds_table(Path(source)) if name == "interventions" else Path(source).read_text(encoding="utf-8")
    block = left_out(block) if name == "left_out" else block
    (DOCS / "studies" / f"{name}.md").write_text(block, encoding="utf-8")
    page.write_text(inserted(page.read_text(encoding="utf-8"), name, block), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in PAGES:
        raise SystemExit(f"python docs/write_tables.py {'|'.join(PAGES)} FILE|FOLDER")
    main(*sys.argv[1:])
