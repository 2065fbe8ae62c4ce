"""A leaderboard that needs no server: a folder of submissions, verified and ranked here, as a page and two tables."""

from shiftbench.leaderboard.ranking import Board, Listed, holds_submissions, make_board, make_folds
from shiftbench.leaderboard.submission import MARKER, Entry, read_entry
from shiftbench.leaderboard.verify import REQUIRED, Verified, required_seeds, verify
from shiftbench.leaderboard.writing import write_board

__all__ = ["MARKER", "REQUIRED", "Board", "Entry", "Listed", "Verified", "holds_submissions", "make_board",
           "make_folds", "read_entry", "required_seeds", "verify", "write_board"]
