"""Scores -> tables, figures, one HTML page that needs no network."""

from shiftbench.reporting.breeds_section import breeds_figures
from shiftbench.reporting.fine_grained import study
from shiftbench.reporting.fine_grained_section import figures
from shiftbench.reporting.fine_grained_takeaways import takeaways
from shiftbench.reporting.nooch_items import Compared, beaten, compared
from shiftbench.reporting.nooch_section import nooch_figures
from shiftbench.reporting.page import report
from shiftbench.reporting.selection import shown_scores
from shiftbench.reporting.selection_terminal import selection_table
from shiftbench.reporting.tables import distance_tables, families, family_table, pivot, share_tables
from shiftbench.reporting.terminal import as_table, scores_table

__all__ = [
    "Compared", "as_table", "beaten", "breeds_figures", "compared", "distance_tables", "families", "family_table",
    "figures", "nooch_figures", "pivot", "report", "scores_table", "selection_table", "share_tables", "shown_scores",
    "study", "takeaways",
]
