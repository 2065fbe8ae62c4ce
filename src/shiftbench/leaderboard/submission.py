"""A submission: its description, `submission.toml`, and its files of predictions. Both are read as untrusted files.

No score is taken from the description, and pickles are never opened. Each file of predictions belongs to one seed. Ours
are tables with item ids, as `Predictions.load` and `Answers.load` read them, with `seed-0` in the name. Those of WILDS
are `camelyon17_split:test_seed:0_epoch:best_pred.csv`: one item per line, in the order of the split, a class or the
numbers that its benchmark asks for, separated by commas.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow.parquet as pq

from shiftbench.core.arrays import Floats, Ints, Strs, positions
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import check_regular, inside, read_toml
from shiftbench.core.tables import FAULTS
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.prediction_lists import Answers
from shiftbench.data.predictions import Predictions, read_predictions

MARKER = "submission.toml"
ELSEWHERE = "elsewhere"
"""The model was chosen on data outside the benchmark, as every model is if the benchmark has nothing to train on."""
CHOSEN = ("id_val", "val", "test", ELSEWHERE)
"""What the model may have been chosen on; test is against the rules, but an entry that declares it is listed."""
MOST_TOML = 64 * 1024
"""Largest `submission.toml`, in bytes."""
LONGEST = 400
"""Longest text in it, in letters."""

# The description

@dataclass(frozen=True)
class Entry:
    """A submission as it describes itself. `problems` says what is wrong with that, `notes` what was not read."""

    folder: str
    method: str = ""
    authors: tuple[str, ...] = ()
    paper: str = ""  # a link
    code: str = ""  # a link
    selected_on: str = ""  # what the model was chosen on: id_val, val or test, or data elsewhere
    external_data: str | None = None  # what else the model saw; "" if it declares none, None if it says nothing
    model: str = ""  # the architecture, where it is not the benchmark's default
    parameters: int | None = None
    benchmark: str = ""  # the digest
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def algorithm(self) -> bool:
        """Whether it is a training algorithm on the common data and model (§9.1); all others have another table."""
        return not (self.external_data or self.model)


def read_entry(root: Path, folder: str) -> Entry:
    """The submission in a folder of `root`. Problems are collected in the entry, so that one never hides others."""
    if not folder.isprintable():
        name = ascii(folder)
        return Entry(name, method=name, problems=("Its folder has a name that cannot be printed.",))
    try:
        path = inside(root, folder)
        facts = _facts(inside(path, MARKER), folder)
    except ValueError as problem:  # also a number with more digits than Python reads
        return Entry(folder, method=folder, problems=(message_for_page(problem, root),))
    others = sorted(set(facts) - ({field.name for field in fields(Entry)} - {"folder", "problems", "notes"}))
    notes = [f"{MARKER} also says {', '.join(map(_quoted, others))}: not read. Numbers on this page are recomputed "
             "from the predictions."] if others else []
    problems: list[str] = []

    def take(key: str, fits: Callable[[Any], bool], allowed: str, absent: Any = None) -> Any:
        """The value of a field, or None with a problem where it does not fit."""
        value = facts.get(key, absent)
        if fits(value):
            return value.strip() if isinstance(value, str) else value
        state = f"'{key}' is not {allowed}" if key in facts else f"'{key}' is missing: {allowed}"
        problems.append(f"{MARKER}: {state}.")
        return None

    text, link = f"a text of one line and at most {LONGEST} letters", "a link that begins with https:// or http://"
    method = take("method", _says, text)
    authors = take("authors", _are_names, 'a list of names, ["A. Author", "B. Author"]') or ()
    declared: dict[str, Any] = {
        "method": method or folder,
        "authors": tuple(name.strip() for name in ((authors,) if isinstance(authors, str) else authors)),
        "paper": take("paper", _is_link, link, "") or "", "code": take("code", _is_link, link, "") or "",
        "selected_on": take("selected_on", lambda value: isinstance(value, str) and value in CHOSEN,
                            f"the split that chose the model, one of {', '.join(CHOSEN)}") or "",
        # False or a description: silence would not distinguish undeclared data from none.
        "external_data": take("external_data", lambda value: value is False or _says(value),
                              "false, or a text that says which other data the model has seen"),
        "model": take("model", _plain, text, "") or "",
        "parameters": take("parameters", _is_count, "a number of parameters, such as 25_557_032"),
        "benchmark": take("benchmark", _says, text) or "",
    }
    if declared["external_data"] is False:
        declared["external_data"] = ""
    return Entry(folder, **declared, problems=tuple(problems), notes=tuple(notes))


def message_for_page(problem: Exception, root: Path) -> str:
    """The message of an error without the path of the board's folder, since others read the page."""
    text = " ".join(str(problem).encode("utf-8", "replace").decode().split())
    for prefix in sorted({str(root), str(root.resolve())}, key=len, reverse=True):
        text = text.replace(f"{prefix}/", "").replace(prefix, root.name)
    return text[:600]


def _facts(path: Path, folder: str) -> dict[str, Any]:
    if not path.is_file():
        raise ShiftBenchError(f"{folder} has no {MARKER}.")
    if path.stat().st_size > MOST_TOML:
        raise ShiftBenchError(f"{path}: {path.stat().st_size:,} bytes, but at most {MOST_TOML:,} are read.")
    try:
        return read_toml(path)
    except RecursionError as problem:
        raise ShiftBenchError(f"{path}: nested too deep.") from problem


def _quoted(word: str) -> str:
    return f"'{word[:40]}'"


def _plain(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST and (not value.strip() or value.strip().isprintable())


def _says(value: Any) -> bool:
    return _plain(value) and bool(value.strip())


def _are_names(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and 0 < len(names) <= 100 and all(map(_says, names))


def _is_count(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**15)


def _is_link(value: Any) -> bool:
    """Whether it is a link, or nothing."""
    try:
        parts = urlsplit(value) if _plain(value) else None
        return value == "" or (parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
                               and not any(map(str.isspace, value)))
    except ValueError:
        return False


# The predictions

Y = "y"
"""The column of a benchmark with the class numbers of WILDS."""
WILDS = re.compile(r".+?_split[:=-](?P<split>(?:id_)?(?:train|val|test))_(?:seed[:=-](?P<seed>\d{1,9})|"
                   r"fold[:=-](?P<fold>[A-E]))(?!\d).*\.csv", re.DOTALL)
SEED = re.compile(r"(?:^|[^a-zA-Z])seed[:=_-]?(\d{1,9})(?!\d)")
FOLD = re.compile(r"(?:^|[^a-zA-Z])fold[:=_-]?([A-Z])(?![a-zA-Z])")
PICKLES = (".pth", ".pt", ".pkl", ".pickle", ".npy", ".npz")
MOST_FILES = 500
MOST_BYTES = 1 << 30
"""Largest file, in bytes; a parquet file also when unpacked."""


class SeedFile(NamedTuple):
    """A file of predictions of one seed; `split` is empty unless it holds bare lines of that split."""

    path: Path
    seed: int
    split: str


def find_files(folder: Path, fold: str = "") -> dict[int, list[SeedFile]]:
    """The files of every seed, in the order of the seeds. Other files (a README) and other folds are skipped."""
    files: dict[int, list[SeedFile]] = {}
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if len(names) > MOST_FILES:
        raise ShiftBenchError(f"{len(names):,} files, but at most {MOST_FILES} are read.")
    for name in names:
        suffix = Path(name).suffix.lower()
        if suffix in PICKLES:
            raise ShiftBenchError(f"{name}: a file that may hold code is not opened. Save the predictions as CSV or "
                                  "parquet.")
        if suffix not in (".csv", ".parquet"):
            continue
        path = inside(folder, name)
        if not path.is_file():
            raise ShiftBenchError(f"{name} is not a file.")
        if path.stat().st_size > MOST_BYTES:
            raise ShiftBenchError(f"{name}: {path.stat().st_size:,} bytes, but at most {MOST_BYTES:,} are read.")
        letter = FOLD.search(name)
        if letter and not fold:
            raise ShiftBenchError(f"{name}: every fold has its own items, and this benchmark is not a fold. A fold is "
                                  "built from a split whose name ends in its letter: split_A.")
        if not letter or letter[1] == fold:
            file = _seed_file(path, name)
            files.setdefault(file.seed, []).append(file)
    return dict(sorted(files.items()))


def fold_of(benchmark: Benchmark) -> str:
    """The letter of a benchmark's fold, from its split (split_A); "" where it is no fold."""
    params = benchmark.card.get("params")
    match = re.fullmatch(r".*_([A-Z])", str(params.get("split", ""))) if isinstance(params, Mapping) else None
    return match[1] if match else ""


def _seed_file(path: Path, name: str) -> SeedFile:
    theirs, ours = WILDS.fullmatch(name), SEED.search(name)
    if theirs is not None:
        return SeedFile(path, int(theirs["seed"] or 0), theirs["split"])
    if ours is None:
        raise ShiftBenchError(f"{name}: its name does not say which seed it is of. Name it seed-0.parquet, or as WILDS "
                              "does: camelyon17_split:test_seed:0_pred.csv.")
    return SeedFile(path, int(ours[1]), "")


def load(files: Sequence[SeedFile], benchmark: Benchmark) -> Predictions | Answers:
    """The predictions of one seed, from all its files; every split must be there once and complete."""
    loaded = [_lines(file, benchmark) if file.split else _table(file.path, benchmark) for file in files]
    splits = [split for predictions in loaded for split in np.unique(predictions.split).tolist()]
    double = next((split for split in splits if splits.count(split) > 1), None)
    if double is not None:
        raise ShiftBenchError(f"Seed {files[0].seed} has split '{double}' in more than one file. Give it once.")
    if len(loaded) == 1:
        return loaded[0]
    item = np.concatenate([predictions.item for predictions in loaded])
    split = np.concatenate([predictions.split for predictions in loaded])
    lists = [predictions for predictions in loaded if isinstance(predictions, Answers)]
    if lists:
        return Answers.of(item, split, {name: [values for predictions in lists for values in predictions.lists(name)]
                                        for name in lists[0].values})
    tables = [predictions.scores for predictions in loaded if isinstance(predictions, Predictions)]
    return Predictions(item, split, np.concatenate(tables), benchmark.names["label"])


def _table(path: Path, benchmark: Benchmark) -> Predictions | Answers:
    """A table with item ids; a parquet file that unpacks to more than a prediction per item is refused."""
    if path.suffix.lower() == ".parquet":
        try:
            facts = pq.read_metadata(path)
        except (*FAULTS, OSError) as problem:
            raise ShiftBenchError(f"{path}: not a readable parquet table.") from problem
        size = sum(facts.row_group(number).total_byte_size for number in range(facts.num_row_groups))
        if facts.num_rows > len(benchmark) or size > MOST_BYTES:
            raise ShiftBenchError(f"{path}: {facts.num_rows:,} rows and {size:,} bytes unpacked, but the benchmark has "
                                  f"{len(benchmark):,} rows and at most {MOST_BYTES:,} bytes are read.")
    return read_predictions(path, benchmark)


def _lines(file: SeedFile, benchmark: Benchmark) -> Predictions:
    """One class per line, by name or by code; or the numbers of an item."""
    if benchmark.target.lists:
        raise ShiftBenchError(f"{file.path}: {benchmark.target.kind} are read from tables with item ids. Name them "
                              "seed-0.parquet, or seed-0.csv.")
    if file.split not in benchmark.splits:
        raise ShiftBenchError(f"{file.path}: the benchmark has no split '{file.split}'. Its splits: "
                              f"{', '.join(benchmark.splits)}.")
    check_regular(file.path)
    try:
        text = file.path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        raise ShiftBenchError(f"{file.path}: not a text file.") from problem
    lines = np.asarray([line.strip() for line in text.splitlines()], np.str_)
    rows = benchmark.rows(file.split)
    if len(lines) != len(rows):
        raise ShiftBenchError(f"{file.path}: {len(lines):,} lines, but split '{file.split}' has {len(rows):,} items. "
                              "Give one prediction per line, in the order of the split, without a header.")
    if benchmark.target.has_classes:
        codes = _codes(lines, benchmark.names["label"], file.path, _by_y(benchmark))
        scores = np.full((len(rows), len(benchmark.names["label"])), -np.inf, np.float32)
        scores[np.arange(len(rows)), codes] = 0.0
    else:
        scores = _numbers(lines, len(benchmark.names["label"]), file.path).astype(np.float32)
    return Predictions(benchmark.items[rows], benchmark.split[rows], scores, benchmark.names["label"])


def _numbers(lines: Strs, n: int, path: Path) -> Floats:
    lists = [line.split(",") for line in lines.tolist()]
    for row in (row for row, numbers in enumerate(lists) if len(numbers) != n):
        raise ShiftBenchError(f"{path}: line {row + 1} has {len(lists[row])} numbers, but an item has {n}.")
    try:
        values = np.asarray(lists, np.float64).reshape(len(lists), n)
    except ValueError as problem:
        raise ShiftBenchError(f"{path}: a line must hold {n} numbers, separated by commas ({problem}).") from problem
    for row in np.flatnonzero(~np.isfinite(values).all(axis=1))[:1]:
        raise ShiftBenchError(f"{path}: line {row + 1} is '{str(lines[row])[:40]}', which is no number.")
    return values


def _by_y(benchmark: Benchmark) -> Strs | None:
    """The number of each class in WILDS, if the rows have it as `y` (build wilds)."""
    if Y not in benchmark.extra:
        return None
    numbers = np.full(len(benchmark.names["label"]), "", "U20")
    numbers[benchmark.label] = np.asarray(benchmark.extra[Y]).astype(np.str_)
    return numbers


def _codes(lines: Strs, classes: tuple[str, ...], path: Path, numbers: Strs | None = None) -> Ints:
    codes = positions(lines, np.asarray(classes, np.str_) if numbers is None else numbers)
    if numbers is not None and (codes < 0).all():
        codes = positions(lines, np.asarray(classes, np.str_))
    if numbers is None and (codes < 0).all() and np.isin(lines, [str(code) for code in range(len(classes))]).all():
        return lines.astype(np.int64)
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise ShiftBenchError(f"{path}: line {row + 1} is '{str(lines[row])[:40]}', which is no class. Give a name, "
                              f"or a number from 0 to {len(classes) - 1}.")
    return codes


def only(predictions: Predictions | Answers, split: str) -> Predictions | Answers:
    """The predictions of one split, its items in the order of their ids."""
    rows = np.flatnonzero(predictions.split == split)
    rows = rows[np.argsort(predictions.item[rows], kind="stable")]
    if isinstance(predictions, Answers):
        return predictions.take(rows)
    return Predictions(predictions.item[rows], predictions.split[rows], predictions.scores[rows], predictions.classes)


def numbered(benchmark: Benchmark) -> bool:
    """Whether bare numbers in a file are this benchmark's codes, not names of its classes."""
    return (benchmark.target.has_classes and Y not in benchmark.extra
            and not any(name.isdigit() for name in benchmark.names["label"]))
