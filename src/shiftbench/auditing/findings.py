"""What an audit reports: findings, candidates that it could not decide, and the sentences that say both."""

import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from shiftbench.auditing.predicates import Predicate
from shiftbench.core.errors import ShiftBenchError, first_line, printable
from shiftbench.core.files import parse_json, read_json, write_json
from shiftbench.core.tables import FAULTS, Tabular, read_table, write_table

FORMAT, VERSION = "shiftbench audit", 1
KEY = FORMAT.encode()
"""The parquet file's key for format, version and card."""
STARTS = ("with ", "without ", "at ", "in ", "on ", "of ", "from ")
"""Words with which a phrase begins that needs no "where" before it."""
CLAUSES = (" is ", " are ", " has ", " have ", " lies ", " contains ")
CARD: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("loss", "words", "unit", "label", "against", "split", "dependence", "cluster", "digest", "reason"),
                    (str,)),
    **dict.fromkeys(("n", "n_explore", "n_confirm", "depth", "least", "seed", "predicates", "looked_at", "tested"),
                    (int,)),
    **dict.fromkeys(("mean", "sd", "confirm", "fdr", "level", "detectable", "detectable_better"), (int, float)),
    "notes": (list,)}
"""What a card says, and of which type."""
MANY = 100
"""An undecided context that takes more than so many times its items has no number of items in its sentence."""
GROUP = 100
"""The size of a group in the sentence that says what an audit without findings could have shown."""


@dataclass(frozen=True)
class Finding:
    """A context, and how the loss in it compares with the rest. All numbers are of the confirming items.

    `low` and `high`, like all ends of intervals here, are at the level that `card["level"]` says: they allow for the
    selection of the findings. NaN stands where a number is unknown, or where an interval has no end.
    """

    members: tuple[Predicate, ...]
    n: int  # confirming items inside
    n_rest: int  # confirming items elsewhere
    n_all: int  # items inside, exploring ones too
    loss: float
    low: float
    high: float
    rest: float  # the loss elsewhere
    difference: float
    difference_low: float
    difference_high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    p: float  # one-sided, of this context alone
    q: float  # the smallest false discovery rate at which it is reported
    explored: float  # the difference on the exploring items, which is too large: the context was chosen there
    parent: int = -1  # the position of the finding that holds all its items, -1: none
    adds: float = math.nan  # the loss inside less that of the parent's other items
    adds_low: float = math.nan
    adds_high: float = math.nan
    needed: int = 0  # an undecided context: items of it that it would take; 0: the data point the other way
    narrower: int = 0  # confirmed contexts within it that add nothing to it; they are counted, not listed
    corrected: bool = False  # whether the effect allows for the error rate of annotations
    checked: int = 0  # items by which that rate was estimated, where the intervals allow for that; 0: it is known

    @property
    def context(self) -> str:
        """The context in words: "where light is night and city is Oslo"."""
        return in_words(self.members)

    def __str__(self) -> str:
        return f"{self.context}: loss {self.loss:.3g} against {self.rest:.3g} elsewhere, {count_items(self.n)}"


NUMBERS = tuple(field.name for field in fields(Finding) if field.type is float)


@dataclass(frozen=True)
class Audit(Tabular):
    """Confirmed findings, wide ones first and each followed by those within it; undecided candidates; and the card."""

    findings: tuple[Finding, ...]
    undecided: tuple[Finding, ...]
    card: Mapping[str, Any]

    def __repr__(self) -> str:
        return "\n".join([*self.sentences(), *self._notes()])

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in [*self.sentences(), *self._notes()])
        return f"<ul>{lines}</ul>"

    def _notes(self) -> list[str]:
        return [f"note: {note}" for note in self.card.get("notes") or ()]

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def sentences(self) -> list[str]:
        """What the audit says, a sentence per finding; contexts within another one are indented below it."""
        return [line for _, line in self.numbered_sentences()]

    def numbered_sentences(self) -> list[tuple[int | None, str]]:
        """The sentences, each with the position of the finding that it is about; None where it is about none."""
        lines: list[tuple[int | None, str]] = [
            (number, line) for number, finding in enumerate(self.findings)
            for line in _lines(finding, self.findings, self.card)]
        lines += [(None, _none(self.card))] if not lines else []
        return lines + [(None, _undecided(candidate, self.card)) for candidate in self.undecided]

    def to_arrow(self) -> pa.Table:
        """A row per finding and per undecided candidate, which `confirmed` tells apart."""
        rows = [*self.findings, *self.undecided]
        columns: dict[str, Any] = {"confirmed": [number < len(self.findings) for number in range(len(rows))],
                                   "context": [finding.context for finding in rows]}
        kinds: dict[Any, Any] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
        columns["members"] = pa.array([[asdict(member) for member in finding.members] for finding in rows], pa.list_(
            pa.struct([(field.name, kinds[field.type]) for field in fields(Predicate)])))
        for field in fields(Finding)[1:]:
            columns[field.name] = pa.array([getattr(finding, field.name) for finding in rows], kinds[field.type])
        facts = {"version": VERSION, "card": dict(self.card)}
        return pa.table(columns).replace_schema_metadata({KEY: json.dumps(facts, ensure_ascii=False).encode()})

    def save(self, path: Path | str) -> Path:
        """Write a .json or a .parquet file; `load` reads both."""
        if Path(path).suffix == ".parquet":
            write_table(path, self.to_arrow())
        elif Path(path).suffix == ".json":
            write_json(path, {"format": FORMAT, "version": VERSION, "card": dict(self.card),
                              "findings": [_plain(finding) for finding in self.findings],
                              "undecided": [_plain(finding) for finding in self.undecided]})
        else:
            raise ShiftBenchError(f"{path}: an audit is saved as .json or .parquet. Choose such a name.")
        return Path(path)

    @staticmethod
    def load(path: Path | str) -> "Audit":
        """Read a file that `save` wrote."""
        facts = _parquet_facts(Path(path)) if Path(path).suffix == ".parquet" else read_json(path)
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise ShiftBenchError(f"{path}: is not an audit. Write one with `shiftbench audit … --out audit.json`.")
        if facts.get("version") != VERSION:
            raise ShiftBenchError(f"{path}: written in format {facts.get('version')}, and this shiftbench reads "
                                  f"{VERSION}. Audit again.")
        if not isinstance(facts.get("card"), dict):
            raise ShiftBenchError(f"{path}: has no card; the file was changed. Audit again.")
        for key, kinds in CARD.items():
            if not isinstance(facts["card"].get(key), (*kinds, type(None))):
                raise ShiftBenchError(f"{path}: '{key}' of the card is {facts['card'][key]!r}; the file was changed. "
                                      "Audit again.")
        lists = {name: tuple(_parse(path, row) for row in _rows(path, facts, name))
                 for name in ("findings", "undecided")}
        for number, finding in enumerate(lists["findings"]):
            if not -1 <= finding.parent < number:
                raise ShiftBenchError(f"{path}: finding {number + 1} lies within finding {finding.parent + 1}, which "
                                      "does not come before it; the file was changed. Audit again.")
        return Audit(lists["findings"], lists["undecided"], facts["card"])


def is_audit(source: Any) -> bool:
    """Whether this is an audit, or a file that looks like one: any .json, or a .parquet with the key of an audit."""
    if not isinstance(source, str | Path):
        return isinstance(source, Audit)
    if Path(source).suffix != ".parquet" or not Path(source).is_file():
        return Path(source).suffix == ".json"
    try:
        return KEY in (pq.read_schema(source).metadata or {})
    except (*FAULTS, OSError):
        return False  # whoever reads it says what is wrong


def _plain(finding: Finding) -> dict[str, Any]:
    """A finding as JSON has it: null where a number is unknown, and no end where an interval has none."""
    members = [member.facts() for member in finding.members]
    return {key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in asdict(finding).items()} | {"members": members}


def _rows(path: Path | str, facts: Mapping[str, Any], name: str) -> Sequence[Any]:
    rows = facts.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ShiftBenchError(f"{path}: '{name}' is not a list of findings; the file was changed. Audit again.")
    return rows


def _parse(path: Path | str, row: dict[str, Any]) -> Finding:
    known = {**row, **{name: math.nan for name in NUMBERS if row.get(name) is None and name in row}}
    try:
        return msgspec.convert(known, Finding)
    except msgspec.ValidationError as problem:
        raise ShiftBenchError(f"{path}: a finding is not as it was written ({first_line(problem)}). Audit again."
                              ) from problem


def _parquet_facts(path: Path) -> dict[str, Any]:
    table = read_table(path)
    facts = (table.schema.metadata or {}).get(KEY)
    if facts is None or "confirmed" not in table.column_names:
        return {}
    rows = table.to_pylist()
    known = parse_json(facts.decode(errors="replace"), str(path))
    return {"format": FORMAT, **(known if isinstance(known, dict) else {}),
            "findings": [row for row in rows if row["confirmed"]],
            "undecided": [row for row in rows if not row["confirmed"]]}


def in_words(members: Sequence[Predicate]) -> str:
    """A conjunction as a sentence says it: clauses after "where", then phrases such as "with a dog".

    >>> in_words([Predicate("light", "night", "factor", "light is night"), Predicate("dog", "dog", "tag", "with a dog"),
    ...           Predicate("age", "30", "number", "age from 30 to 45")])
    'where light is night, with a dog, for age from 30 to 45'
    """
    words = [printable(member.words) for member in members]
    phrases = [word for word in words if word.startswith(STARTS)]
    clauses = [word for word in words if word not in phrases and any(verb in word for verb in CLAUSES)]
    others = [word for word in words if word not in phrases and word not in clauses]
    parts = [f"where {' and '.join(clauses)}"] if clauses else []
    return ", ".join([*parts, *phrases, *([f"for {' and '.join(others)}"] if others else [])])


def _lines(finding: Finding, findings: Sequence[Finding], card: Mapping[str, Any]) -> Iterator[str]:
    """The sentence of a finding, indented by how many others it lies within, and how many within it add nothing."""
    depth, above = 0, finding
    while above.parent >= 0:
        depth, above = depth + 1, findings[above.parent]
    yield "  " * depth + _sentence(finding, findings, card)
    if finding.narrower:
        what = "1 narrower context adds" if finding.narrower == 1 else f"{finding.narrower:,} narrower contexts add"
        yield f"{'  ' * (depth + 1)}{what} nothing."


def _sentence(finding: Finding, findings: Sequence[Finding], card: Mapping[str, Any]) -> str:
    head = finding.context[:1].upper() + finding.context[1:]
    if math.isnan(finding.loss):
        return f"{head}, {_what(card)} differs, but its annotations are no more frequent than their errors would be."
    text = (f"{head}, {_what(card)} is {_number(finding.loss, card)} "
            f"{_interval(finding.low, finding.high, card)} against {_number(finding.rest, card)} elsewhere, "
            f"{count_items(finding.n)}{_tail(finding, card)}.")
    return text if finding.parent < 0 else f"{text} {_adds(finding, findings[finding.parent].context, card)}"


def _adds(finding: Finding, wider: str, card: Mapping[str, Any]) -> str:
    sign, word = (-1, "less") if finding.adds < 0 else (1, "more")
    ends = sorted((sign * finding.adds_low, sign * finding.adds_high))
    return (f"That is {_points(sign * finding.adds, card)} {_interval(ends[0], ends[1], card, points=True)} {word} "
            f"than the other items {wider}.")


def _tail(finding: Finding, card: Mapping[str, Any]) -> str:
    notes = []
    if card.get("against"):
        notes.append(_change(finding))
    if finding.corrected:
        sample = f" in {finding.checked:,} checked items, and the interval allows for their number"
        notes.append(f"corrected for the error rate of its annotations{sample if finding.checked else ''}")
    return "".join(f"; {note}" for note in notes if note)


def _change(finding: Finding) -> str:
    """What a change means that differs from the change elsewhere: it may still be one for the better."""
    if finding.low > 0:
        return "the new model is worse here"
    if finding.high < 0:
        return "the new model is better here" if finding.difference < 0 else "better than before, but by less"
    return "whether the new model is worse here than the old one cannot be told"


def _undecided(finding: Finding, card: Mapping[str, Any]) -> str:
    text = (f"Undecided: {finding.context}, {_what(card)} is {_number(finding.loss, card)} "
            f"{_interval(finding.low, finding.high, card)} against {_number(finding.rest, card)} elsewhere, "
            f"{count_items(finding.n)}")
    if finding.needed > MANY * finding.n_all:
        return f"{text}. More than {MANY} times as many items would be needed to tell so small a difference."
    if finding.needed:
        return f"{text}. It would take about {finding.needed:,} items of this context; there are {finding.n_all:,}."
    return f"{text}. The confirming items do not point the same way as the exploring ones."


def _none(card: Mapping[str, Any]) -> str:
    """What was not found, and what could have been: worse contexts and, if these were looked for, better ones."""
    n = int(card.get("n", 0))
    if card.get("reason") or card.get("sd") == 0:
        return f"Nothing was found: {card.get('reason') or 'every item has the same loss'}."
    if n <= GROUP:
        return f"Nothing was found; {count_items(n)} {'is' if n == 1 else 'are'} too few to show much."
    sides = {"worse": card.get("detectable")}
    if card.get("better") or card.get("against"):
        sides["better"] = card.get("detectable_better", card.get("detectable"))
    known = {word: _points(size, card) for word, size in sides.items()
             if isinstance(size, int | float) and not math.isnan(size)}
    text = f"Nothing was found that {n:,} items could show"
    if not known:
        return f"{text}; not even a group of {GROUP} that always fails could be told from the rest."
    by_size: dict[str, list[str]] = {}
    for word, size in known.items():
        by_size.setdefault(size, []).append(word)
    sizes = " or ".join(f"{size} {' or '.join(words)}" for size, words in by_size.items())
    text = f"{text}; a group of {GROUP} would have to be {sizes}."
    if "better" in sides and "better" not in known:
        text += f" Not even a group of {GROUP} without errors could be shown to be better."
    return text


def count_items(n: int) -> str:
    """How many items, in words.

    >>> count_items(1), count_items(1200)
    ('1 item', '1,200 items')
    """
    return f"{n:,} item{'' if n == 1 else 's'}"


def with_minus(number: str) -> str:
    """A number as prose writes it, with a minus sign in place of a hyphen.

    >>> with_minus("-3"), with_minus("+3")
    ('−3', '+3')
    """
    return number.replace("-", "−")


def _what(card: Mapping[str, Any]) -> str:
    words = str(card.get("words") or f"the {card.get('loss', 'loss')}")
    return f"the change of {words}" if card.get("against") else words


def _number(value: float, card: Mapping[str, Any]) -> str:
    if math.isnan(value):
        return "unknown"
    if card.get("against"):
        return _points(value, card, sign=True)
    return with_minus(f"{100 * value:.0f} %" if card.get("unit") == "share" else f"{value:.3g}")


def _points(value: float, card: Mapping[str, Any], sign: bool = False) -> str:
    mark = "+" if sign else ""
    if card.get("unit") != "share":
        return with_minus(f"{value:{mark}.3g}")
    rounded = with_minus(f"{100 * value:{mark}.0f}")
    rounded = "0" if rounded in ("+0", "−0") else rounded
    return f"{rounded} point{'' if rounded.lstrip('+−') == '1' else 's'}"


def _interval(low: float, high: float, card: Mapping[str, Any], points: bool = False) -> str:
    scale = 100 if card.get("unit") == "share" else 1
    form = ".0f" if scale == 100 else ".3g"
    ends = ["…" if math.isnan(end) else with_minus(
        f"{scale * end:{'+' if card.get('against') and not points else ''}{form}}") for end in (low, high)]
    return f"[{', '.join(ends)}]"
