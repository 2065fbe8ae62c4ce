"""A table of millions of scores, put together from pieces in which nothing stands twice."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shiftbench.core.arrays import Values
from shiftbench.data.scores import COLUMNS, Scores
from shiftbench.scoring.listing import Finished
from shiftbench.scoring.many import Batch


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
    def of_batch(batch: Batch, runs: Sequence[Finished], benchmark: str, digest: str) -> "Piece":
        """The scores of `runs`, the cells of a run together; `digest` is that of the benchmark's rows."""
        group, n = (np.asarray([[getattr(cell, name) for cell in batch.cells]]) for name in ("group", "n"))
        if batch.worst:
            group = np.repeat(group.astype(np.result_type(group, *(names for names, _ in batch.worst.values()))),
                              len(runs), axis=0)
            n = np.repeat(n, len(runs), axis=0)
            for cell, (names, sizes) in batch.worst.items():
                group[:, cell], n[:, cell] = names, sizes
        return Piece(len(runs), len(batch.cells), {
            "run": np.asarray([[run.folder.name] for run in runs]),
            "benchmark": np.asarray([[benchmark]]), "digest": np.asarray([[digest]]),
            "method": np.asarray([[str(run.settings["method"])] for run in runs]),
            "setting": np.asarray([[run.setting] for run in runs]),
            "seed": np.asarray([[int(run.settings["seed"])] for run in runs]),
            "split": np.asarray([[cell.split for cell in batch.cells]]), "group": group, "n": n,
            "metric": np.asarray([[cell.metric for cell in batch.cells]]),
            "value": batch.value.T, "low": batch.low.T, "high": batch.high.T,
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
