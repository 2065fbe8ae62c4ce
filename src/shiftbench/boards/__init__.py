"""A leaderboard that needs no server: a folder of submissions, verified and ranked here, as a page and two tables."""

from shiftbench.boards.entries import MARKER, Entry, read_entry
from shiftbench.boards.folds import make_folds
from shiftbench.boards.page import write_board
from shiftbench.boards.ranking import Board, Listed, make_board
from shiftbench.boards.verify import REQUIRED, Verified, required_seeds, verify

__all__ = ["MARKER", "REQUIRED", "Board", "Entry", "Listed", "Verified", "make_board", "make_folds", "read_entry",
           "required_seeds", "verify", "write_board"]
