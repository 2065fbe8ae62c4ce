"""The files of a board: board.json with everything, board.csv with a line per submission, and a page."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shiftbench import __version__
from shiftbench.core.files import write_json, write_text
from shiftbench.core.tables import write_table
from shiftbench.data.groupings import spaced
from shiftbench.data.scores import Measure
from shiftbench.leaderboard.ranking import SPLITS, Board, Cell, Listed, further
from shiftbench.reporting.page import environment
from shiftbench.reporting.score_tables import Comparison, probability
from shiftbench.reporting.terminal import drawn_table
from shiftbench.scoring.intervals import LEVEL
from shiftbench.scoring.metrics import in_words, is_worst, metric_of

if TYPE_CHECKING:
    from rich.table import Table

NOTHING: Cell = {"value": math.nan, "std": math.nan, "tied": False, "group": "", "n": 0, "behind": None}
"""The cell of a submission that has no such number."""
PAGE, JSON, CSV = "index.html", "board.json", "board.csv"
FIELDS = ("method", "authors", "paper", "code", "selected_on", "external_data", "model", "parameters", "benchmark")
ZERO = "\u200b"
"""A zero-width space, where a line may break."""
UNDER = {"test": "test, after the shift", "val": "val, after the shift", "id_test": "id_test, before the shift"}


def write_board(board: Board, out: Path | str, *, title: str = "") -> Path:
    """Write the three files into a folder, and return the path of the page."""
    folder = Path(out)
    write_json(folder / JSON, plain(board))
    write_table(folder / CSV, _table(board))
    text = _page(board, title or f"Leaderboard: {board.title}")
    write_text(folder / PAGE, text)
    return folder / PAGE


def board_table(board: Board) -> "Table":
    """The board as the terminal and a notebook show it: a line per submission."""
    worst = is_worst(board.measure.metric)
    rows = []
    for listed in board.listed:
        cell, entry = listed.cell("test", board.measure) or NOTHING, listed.verified.entry
        pair: Comparison | None = cell["behind"]
        rows.append([str(listed.rank or "–"), "algorithms" if entry.algorithm else "beyond", entry.method,
                     *map(_number, (cell["value"], cell["std"], pair.difference if pair else math.nan)),
                     probability(pair.p) if pair else "–", "≈" if cell["tied"] and listed.rank else "",
                     *([cell["group"], f"{cell['n']:,}"] if worst else []),
                     str(len(listed.verified.predictions)), " ".join(listed.verified.reasons)])
    mean = ", mean over folds" if board.folds else ""
    heads = ["mean", "std", "behind best", "p", "", *(["group", "n"] if worst else []),
             "folds" if board.folds else "seeds", "why it does not count"]
    return drawn_table(f"{board.title}{mean}: {board.measure} on test", ["rank", "table", "method"], heads, rows)


def _number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "–"


def plain(board: Board) -> dict[str, Any]:
    """The board as nested plain data; NaN and infinity become null."""
    benchmark = board.benchmark
    return {
        "format": "shiftbench board", "version": 1, "benchmark": {"name": benchmark.name, "digest": benchmark.digest},
        **({"folds": [{"name": fold.name, "digest": fold.digest} for fold in board.folds]} if board.folds else {}),
        "metric": str(board.measure), "split": "test", "level": LEVEL, "required_seeds": board.required,
        "entries": [_entry(entry) for entry in board.listed],
    }


def _entry(listed: Listed) -> dict[str, Any]:
    entry = listed.verified.entry
    facts = {name: getattr(entry, name) for name in FIELDS}
    return {
        "folder": entry.folder, "rank": listed.rank, "valid": listed.verified.valid,
        "table": "algorithms" if entry.algorithm else "beyond", "reasons": list(listed.verified.reasons),
        "notes": list(listed.verified.notes), **facts, "authors": list(entry.authors),
        "rules": [rule._asdict() for rule in listed.verified.rules], "seeds": sorted(listed.verified.predictions),
        "scores": {split: {str(measure): _numbers(cell) for measure, cell in cells.items()}
                   for split, cells in listed.cells.items()},
    }


def _numbers(cell: Cell) -> dict[str, Any]:
    kept = {name: _finite(cell[name]) for name in ("value", "std", "low", "high")}
    return {**kept, "best": cell["best"], "tied": cell["tied"], "group": cell["group"], "n": cell["n"],
            "seeds": {seed: _finite(value) for seed, value in cell["seeds"].items()}, "behind": _paired(cell)}


def _paired(cell: Cell | None) -> dict[str, Any] | None:
    """How far a submission is behind the best of its table on the same items; None for the best itself."""
    pair: Comparison | None = cell["behind"] if cell else None
    return pair and {"best": pair.best, "difference": pair.difference, "low": _finite(pair.low),
                     "high": _finite(pair.high), "p": _finite(pair.p)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _table(board: Board) -> pa.Table:
    rows = [{
        "rank": listed.rank, "table": "algorithms" if listed.verified.entry.algorithm else "beyond",
        "folder": _safe(listed.verified.entry.folder),
        **{name: _safe(getattr(listed.verified.entry, name)) for name in FIELDS
           if name not in ("authors", "parameters")},
        "authors": _safe(", ".join(listed.verified.entry.authors)), "parameters": listed.verified.entry.parameters,
        "seeds": len(listed.verified.predictions), "valid": listed.verified.valid,
        "reason": _safe(" ".join(listed.verified.reasons)),
        **{f"{split}:{board.measure}:{name}": _finite(cell[name]) if cell else None for split in SPLITS
           for cell in [listed.cell(split, board.measure)] for name in ("value", "std", "low", "high")},
        **{f"test:{board.measure}:behind_{name}": pair[name] if pair else None
           for pair in [_paired(listed.cell("test", board.measure))] for name in ("difference", "low", "high", "p")},
    } for listed in board.listed]
    types = {"rank": pa.int64(), "parameters": pa.int64(), "seeds": pa.int64(), "valid": pa.bool_()}
    return pa.table({name: pa.array([row[name] for row in rows], types.get(
        name, pa.float64() if ":" in name else pa.string())) for name in rows[0]})


def _safe(word: str | None) -> str | None:
    """Untrusted text, escaped so that no spreadsheet reads it as a formula."""
    return f"'{word}" if word and word[0] in "=+-@\t" else word


def _page(board: Board, title: str) -> str:
    templates = environment(Path(__file__).parent)
    templates.filters["shown"] = _show
    # If a benchmark's card says how it is scored (CivilComments' sixteen groups), that worst group counts.
    worst = next(iter(further(board.benchmark)), Measure("worst_group_accuracy"))
    accuracy = Measure("accuracy")
    beside: Measure | None = worst if board.measure == accuracy else accuracy
    if not board.benchmark.target.has_classes:
        others = [Measure(metric) for metric in board.benchmark.target.ranking]
        beside = next((measure for measure in others if measure != board.measure), None)
    splits = [split for split in SPLITS if split in board.benchmark.splits]
    evaluation_only = "train" not in board.benchmark.splits
    under = {split: split for split in SPLITS} if evaluation_only else UNDER
    unit = "fold" if board.folds else "seed"
    cells = [(split, board.measure) for split in splits] + ([("test", beside)] if beside else [])
    columns = [{"split": split, "measure": measure, "head": _head(measure), "under": under[split],
                "worst": is_worst(measure.metric)} for split, measure in cells]
    tables: list[dict[str, Any]] = [
        {"id": "algorithms", "head": "Models" if evaluation_only else "Training algorithms", "rows": board.table(True),
         "paired": _has_pairs(board, True),
         "under": "Trained elsewhere; the benchmark has nothing to train on." if evaluation_only
         else "The benchmark’s own data and its default model."},
        {"id": "beyond", "head": "Models with declared extras" if evaluation_only else "Beyond training algorithms",
         "rows": board.table(False), "paired": _has_pairs(board, False),
         "under": "Other data or another architecture, as declared."}]
    return str(templates.get_template("board.html").render(
        title=title, version=__version__, level=f"{100 * LEVEL:g}", board=board, columns=columns, tables=tables,
        metric=in_words(*board.measure), counted=sum(len(table["rows"]) for table in tables),
        n=sum(len(benchmark.rows("test")) for benchmark in board.folds or (board.benchmark,)), unit=unit))


def _has_pairs(board: Board, algorithms: bool) -> bool:
    return any(_paired(listed.cell("test", board.measure)) for listed in board.table(algorithms))


def _head(measure: Measure) -> str:
    words = metric_of(measure.metric).words
    return words[:1].upper() + words[1:] + (f" by {spaced(measure.by, ZERO)}" if measure.by else "")


def _show(value: float, measure: Measure) -> str:
    """A cell of the table."""
    if not math.isfinite(value):
        return "–"
    return metric_of(measure.metric).show(value)
