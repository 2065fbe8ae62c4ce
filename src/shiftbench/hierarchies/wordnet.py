"""WordNet 3.0's noun database: the id n02084071 is the byte at which the line of that synset begins."""

import re
from collections.abc import Iterable
from pathlib import Path

from shiftbench.errors import ShiftBenchError
from shiftbench.files import read_text
from shiftbench.hierarchies.hierarchy import Hierarchy

DATA = "data.noun"
VERSION = re.compile(r"WordNet (\d+\.\d+)")
KNOWN = ("02084071", "dog")
"""A synset of 3.0 that stands elsewhere in 3.1: how a file without its licence is told."""
ABOVE = ("@", "@i")  # hypernym, instance hypernym


def wordnet(folder: Path, classes: Iterable[str] | None = None) -> Hierarchy:
    """Read `data.noun`: synsets become nodes, hypernyms parents; a person or a city hangs below its kind too.

    ImageNet's ids are offsets of version 3.0; in 3.1 the same number is another synset: other versions are refused.
    """
    path = folder / DATA
    lines = read_text(path).splitlines()
    _check_version(path, lines)
    names: dict[str, str] = {}
    edges: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        if line.startswith(" ") or not line.strip():  # the licence
            continue
        try:
            node, words, above = _synset(line)
        except (ValueError, IndexError) as problem:
            raise ShiftBenchError(f"{path}: line {number} is not a synset of WordNet's database. "
                                  "Copy the file again.") from problem
        names[node] = ", ".join(words)
        edges += [(parent, node) for parent in above]
    for parent, child in edges:
        if parent not in names:
            raise ShiftBenchError(f"{path}: '{child}' is below '{parent}', which is not in the file; it is cut off. "
                                  "Copy the file again.")
    return Hierarchy.of(edges, leaves=classes, names=names, name=str(folder))


def _synset(line: str) -> tuple[str, list[str], list[str]]:
    """`offset file type n word id … p symbol offset type places … | gloss`; n is written in base 16."""
    fields = line.partition("|")[0].split()
    offset, n = fields[0], int(fields[3], 16)
    if len(offset) != 8 or fields[2] != "n" or n < 1:
        raise ValueError(line)
    words = [word.replace("_", " ") for word in fields[4: 4 + 2 * n: 2]]
    count, rest = int(fields[4 + 2 * n]), fields[5 + 2 * n:]
    if len(words) != n or len(rest) < 4 * count:
        raise ValueError(line)
    above = [f"n{rest[k + 1]}" for k in range(0, 4 * count, 4) if rest[k] in ABOVE and rest[k + 2] == "n"]
    return f"n{int(offset):08d}", words, above


def _check_version(path: Path, lines: list[str]) -> None:
    licence = " ".join(line for line in lines[:60] if line.startswith(" "))
    stated = VERSION.search(licence)
    if stated:
        version = stated[1]
    else:
        known = any(line.startswith(KNOWN[0]) and f" {KNOWN[1]} " in line for line in lines)
        version = "3.0" if known else "unknown"
    if version != "3.0":
        raise ShiftBenchError(f"{path}: is WordNet {version}, but ImageNet's ids are offsets of WordNet 3.0 and mean "
                              "other synsets here. Give the database of 3.0 (Debian: package wordnet-base, folder "
                              "/usr/share/wordnet).")
