"""The command line: one page per panel of `--help`, the same words as in Python.

A verb parses its options, calls the function of its name in `shiftbench.api` and prints. What verbs share is in
`command`; `read` has a command per format.
"""

from shiftbench.cli.command import RENAMED, app, main
from shiftbench.cli.data import download, export, show, trust
from shiftbench.cli.judging import audit, conflicts, gap, gate, score, select, table
from shiftbench.cli.read import read
from shiftbench.cli.sharing import board, demo, report, studio, study
from shiftbench.cli.shifts import build, check, graph, hierarchy, power
from shiftbench.cli.training import embed, fetch, methods, predict, pretrain, retrain, sweep, train

__all__ = ["PANELS", "RENAMED", "app", "main"]

PANELS = {
    "Data": (download, show, export, trust),
    "Shifts": (graph, hierarchy, build, check, power),
    "Training": (methods, embed, train, pretrain, retrain, sweep, fetch, predict),
    "Judging": (score, audit, gate, select, gap, table, conflicts),
    "Sharing": (report, studio, board, study),
}
"""The verbs as `--help` groups them, in the order in which people need them."""

app.command()(demo)
app.add_typer(read, name="read", rich_help_panel="Data")
for panel, verbs in PANELS.items():
    for verb in verbs:
        app.command(rich_help_panel=panel)(verb)
