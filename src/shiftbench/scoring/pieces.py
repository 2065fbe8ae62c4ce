"""A table of millions of scores, put together from pieces in which nothing stands twice."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Ints, Strs, Values
from shiftbench.data.scores import COLUMNS, DEFAULTS, Scores
from shiftbench.scoring.estimates import Measured
from shiftbench.scoring.listing import Finished


class Piece(NamedTuple):
    """Rows of a table as runs × cells: a column has one value per run, or per cell, or both."""

    runs: int
    cells: int
    columns: Mapping[str, Values]  # each can be broadcast to runs × cells

    @staticmethod
    def of(scores: Scores, benchmark: str) -> "Piece":
        """Any scores, on a benchmark by the name that its runs know, whatever its folder is called now."""
        columns = {name: column[:, None] for name, column in scores.columns.items()}
        return Piece(len(scores), 1, {**columns, "benchmark": np.asarray([[benchmark]])})

    @staticmethod
    def of_measured(
        measured: Mapping[str, Sequence[Measured]], runs: Sequence[Finished], benchmark: str, digest: str,
        level: float | None,
    ) -> "Piece":
        """What was measured of `runs`, each by itself, split by split; `digest` is that of the benchmark's rows."""
        cells = [(split, group, int(n), one.metric, one.by) for split, part in measured.items() for one in part
                 for group, n in ([("", 0)] if one.worst else zip(one.groups, one.n, strict=True))]
        values, lows, highs = [], [], []
        group, n = (np.asarray([[cell[place] for cell in cells]]) for place in (1, 2))
        worst: dict[int, tuple[Strs, Ints]] = {}  # of these cells, each run has its own group
        at = 0
        for one in (one for part in measured.values() for one in part):
            if one.worst is not None:
                worst[at] = np.asarray(one.groups)[one.worst.code], one.worst.n
            value = one.estimate.value
            low, high = one.estimate.ends(range(len(runs)), level) if level else (np.full_like(value, np.nan),) * 2
            values.append(value)
            lows.append(low)
            highs.append(high)
            at += value.shape[1]
        if worst:
            group = np.repeat(group.astype(np.result_type(group, *(names for names, _ in worst.values()))),
                              len(runs), axis=0)
            n = np.repeat(n, len(runs), axis=0)
            for cell, (names, sizes) in worst.items():
                group[:, cell], n[:, cell] = names, sizes
        heads = [run.head for run in runs]
        return Piece(len(runs), len(cells), {
            **{name: np.asarray([[value]]) for name, value in DEFAULTS.items()},
            **{name: np.asarray([[head[name]] for head in heads]) for name in heads[0]},
            "benchmark": np.asarray([[benchmark]]), "digest": np.asarray([[digest]]),
            "split": np.asarray([[cell[0] for cell in cells]]), "group": group, "n": n,
            "metric": np.asarray([[cell[3] for cell in cells]]), "by": np.asarray([[cell[4] for cell in cells]]),
            "value": np.concatenate(values, axis=1), "low": np.concatenate(lows, axis=1),
            "high": np.concatenate(highs, axis=1),
        })


def together(pieces: Sequence[Piece]) -> Scores:
    """The rows of all pieces. Every column is written once, into its place: gigabytes are not copied about."""
    stop = np.cumsum([piece.runs * piece.cells for piece in pieces], dtype=np.int64).tolist()
    columns = {}
    for name in COLUMNS:
        parts = [piece.columns[name] for piece in pieces]
        columns[name] = np.empty(stop[-1], np.result_type(*{part.dtype for part in parts}))
        for piece, part, end in zip(pieces, parts, stop, strict=True):
            columns[name][end - piece.runs * piece.cells:end].reshape(piece.runs, piece.cells)[...] = part
    return Scores(columns)
