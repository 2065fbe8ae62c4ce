"""Scores -> tables, figures, one HTML page that needs no network."""

from shiftbench.reporting.page import report, shown_scores
from shiftbench.reporting.score_tables import pivot
from shiftbench.reporting.sections.families import distance_tables, families, family_table, share_tables
from shiftbench.reporting.terminal import as_table, rules_table, scores_table

__all__ = [
    "as_table", "distance_tables", "families", "family_table", "pivot", "report", "rules_table",
    "scores_table", "share_tables", "shown_scores",
]
