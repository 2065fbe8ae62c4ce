"""python -m tests.fuzz --cases 20000 --seed 0: the whole round, with as many processes as there are cores.

It prints a table (target, cases, violations), writes the same as JSON, and ends with 1 where there was a violation. A
case is known by target, number and seed: --only 'score csv: q.csv' --case 17 does it again and shows what happened.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.fuzz.cases import case
from tests.fuzz.crew import Finding, made, round_of


def table(counts: dict[str, int], findings: Sequence[Finding]) -> list[tuple[str, int, int]]:
    """A row for each command: its cases and violations over all its targets."""
    cases: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for name, count in counts.items():
        cases[name.partition(":")[0]] += count
    for finding in findings:
        wrong[finding.target.partition(":")[0]] += 1
    return [(name, cases[name], wrong[name]) for name in sorted(cases)]


BEGIN, END = "<!-- figures: python -m tests.fuzz --docs -->\n", "<!-- end of figures -->"
DOCS = Path(__file__).parents[2] / "docs"


def block(facts: dict[str, Any]) -> str:
    """The figures of a round as the page in docs has them."""
    head = (f"{facts['date']}, seed {facts['seed']}: {facts['cases']:,} cases over {facts['targets']} targets, "
            f"{facts['violations']} violations.\n\n| command | cases | violations |\n|--|--:|--:|\n")
    return head + "".join(f"| {name} | {row['cases']:,} | {row['violations']} |\n"
                          for name, row in facts["commands"].items())


def to_docs(path: Path) -> None:
    """Copy the figures of a round to docs/fuzz.json and docs/hostile.md."""
    facts = json.loads(path.read_text())
    facts.pop("findings")
    (DOCS / "fuzz.json").write_text(json.dumps(facts, indent=1) + "\n")
    page = (DOCS / "hostile.md").read_text()
    before, _, rest = page.partition(BEGIN)
    (DOCS / "hostile.md").write_text(before + BEGIN + block(facts) + END + rest.partition(END)[2])


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("build/fuzz.json"))
    parser.add_argument("--only", default="", help="targets whose name holds this")
    parser.add_argument("--case", type=int, help="do this one case of the target --only again, here")
    parser.add_argument("--docs", type=Path, help="copy the figures of this file to docs, and do no round")
    given = parser.parse_args()
    notes = tempfile.TemporaryDirectory(prefix="fuzz-notes-")  # not those of whoever starts this
    os.environ["XDG_CONFIG_HOME"] = notes.name
    if given.docs:
        to_docs(given.docs)
        return
    if given.case is not None:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            whole, known = made(Path(folder))
            print(*case(whole, known[given.only], given.case, given.seed), sep="\n")
            os.chdir("/")
        return
    out, began = given.out.resolve(), time.monotonic()
    counts, findings = round_of(given.cases, given.seed, given.workers, given.only)
    rows = table(counts, findings)
    width = max(len(name) for name, _, _ in rows)
    print(f"{'command':<{width}} {'cases':>7} {'violations':>10}")
    for name, cases, wrong in rows:
        print(f"{name:<{width}} {cases:>7,} {wrong:>10}")
    places = Counter(finding.wrong for finding in findings)
    for wrong, times in places.most_common():
        first = next(finding for finding in findings if finding.wrong == wrong)
        print(f"\n{times} × {wrong}\n    --only '{first.target}' --case {first.case}")
    facts = {"date": datetime.now(UTC).date().isoformat(), "seed": given.seed, "targets": len(counts),
             "cases": sum(counts.values()), "violations": len(findings),
             "minutes": round((time.monotonic() - began) / 60, 1),
             "commands": {name: {"cases": cases, "violations": wrong} for name, cases, wrong in rows},
             "findings": [finding._asdict() for finding in findings]}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(facts, indent=1) + "\n")
    print(f"\n{facts['cases']:,} cases over {facts['targets']} targets, seed {given.seed}: {len(findings)} violations, "
          f"{facts['minutes']} minutes; {out}")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
