"""A gate for a pull request: a table in GitHub's Markdown, and JUnit XML with a test case per check."""

import math
from xml.etree import ElementTree

from shiftbench.auditing.gate import CHANGE, FAIL, FLOOR, PASS, UNSURE, WARN, Check, Gate
from shiftbench.core.errors import printable
from shiftbench.reporting.score_tables import markdown
from shiftbench.scoring.metrics import in_unit

SIGNS = {"pass": "✅ pass", "fail": "❌ fail", "unsure": "❔ too few items"}
CLASSES = {"change": "contexts", "level": "contexts", "floor": "floors"}


def gate_markdown(gate: Gate) -> str:
    """The outcome, a table of the checks, and how to read it."""
    many = len(gate.open)
    head = {PASS: "✅ The model may be released", FAIL: "❌ The model may not be released",
            WARN: f"⚠️ The model may be released, but {many} of {len(gate.checks)} checks "
                  f"{'has' if many == 1 else 'have'} too few items to tell"}[gate.outcome]
    rows = [_line([SIGNS[check.verdict], markdown(check.name), _value(check), f"{check.n:,}", _limit(check),
                   "" if check.verdict != UNSURE or not math.isfinite(check.needed) else f"{check.needed:,.0f}"])
            for check in gate.checks]
    unsure = {"fail": "fails the gate", "warn": "is a warning", "pass": "passes"}[gate.unsure]
    foot = [f"A check passes where its interval lies on the right side of the limit. All intervals hold at once with "
            f"{100 * gate.level:g} % (Bonferroni). A check with too few items to tell {unsure}."]
    columns = _line(["", "check", "value", "items", "limit", "items that would do"])
    foot += ["", *(markdown(line) for line in gate.scope())]
    return "\n".join([f"### {head}", "", gate.headline(), "", columns, "|--" * 6 + "|", *rows, "",
                      *(f"- {markdown(note)}" for note in gate.notes), *([""] if gate.notes else []), *foot, ""])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _value(check: Check) -> str:
    if check.is_empty:
        return "no item is in it"
    unit = {"unit": check.unit}
    low, high = (in_unit(end, unit) for end in (check.low, check.high))
    sign = "+" if check.kind == CHANGE and check.value > 0 else ""
    return f"{sign}{in_unit(check.value, unit)} <sub>{low} – {high}</sub>"


def _limit(check: Check) -> str:
    what = {"share": " points" if check.kind == CHANGE else " %", "number": ""}[check.unit]
    return f"{'≤' if check.lower else '≥'} {in_unit(check.limit, {'unit': check.unit})}{what}"


def gate_junit(gate: Gate, suite: str = "shiftbench gate") -> str:
    """JUnit XML: a check that blocks is a failure, one that is unsure and does not block is skipped."""
    blocking = [check for check in gate.checks if gate.blocks(check)]
    skipped = [check for check in gate.checks if check.verdict == UNSURE and not gate.blocks(check)]
    counts = {"tests": str(len(gate.checks)), "failures": str(len(blocking)), "errors": "0",
              "skipped": str(len(skipped))}
    top = ElementTree.Element("testsuites", {"name": suite, **counts})
    cases = ElementTree.SubElement(top, "testsuite", {"name": suite, **counts})
    for check in gate.checks:
        case = ElementTree.SubElement(cases, "testcase", {
            "classname": f"{suite}.{CLASSES[check.kind]}", "name": printable(check.name), "time": "0"})
        sentence = printable(check.sentence())
        if check in blocking:
            short = "below the floor" if check.kind == FLOOR else "worse"
            reason = "too few items" if check.verdict == UNSURE else short
            ElementTree.SubElement(case, "failure", {"type": reason, "message": sentence}).text = sentence
        elif check in skipped:
            ElementTree.SubElement(case, "skipped", {"message": sentence})
        ElementTree.SubElement(case, "system-out").text = f"{check.verdict}: {sentence}"
    ElementTree.indent(top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(top, encoding="unicode") + "\n"
