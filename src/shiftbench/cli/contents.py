"""The contents of a collection, a folder of runs or a run, as tables on a terminal."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shiftbench.cli.output import print_table, say, say_titled
from shiftbench.data.collection import Collection
from shiftbench.data.collection_contents import COLUMNS, collection_facts, contents_rows, contents_title
from shiftbench.sweeps.status import STATES, describe, summary


def show_collection(collection: Collection) -> None:
    facts = collection_facts(collection)
    say_titled(facts["name"], contents_title(facts))
    print_table("", COLUMNS, contents_rows(collection, facts))


def show_runs(folder: Path, runs: Mapping[str, str]) -> None:
    """How many runs are in each state, the failed ones with their reasons, then the others, done ones last."""
    say_titled(folder, summary(runs.values()))
    failed = [run for run, state in runs.items() if state == "failed"]
    others = sorted((run for run in runs if runs[run] != "failed"), key=lambda run: STATES.index(runs[run]))
    for listed, most, columns in ((failed, 20, ("run", "benchmark", "method", "seed", "reason")),
                                  (others, 40, ("run", "state", "benchmark", "method", "model", "seed", "seconds"))):
        if listed:
            rows = [describe(folder / run, runs[run])._asdict() for run in listed[:most]]
            print_table("\nfailed" if listed is failed else "", columns,
                        [[row[column] for column in columns] for row in rows])
        if len(listed) > most:
            say(f"… and {len(listed) - most:,} more; --json lists all")
    if failed:
        say("", "To try the failed ones again, start the sweep with --retry-failed.")


def run_facts(folder: Path, data: Path | None, against: Path | None, where: str) -> dict[str, Any]:
    """How a run does on the open items that fulfil a filter, and elsewhere: the numbers of the Failures page."""
    from shiftbench.webapp.failures_view import map_counts, numbers_inside
    from shiftbench.webapp.outcomes import outcomes_in
    from shiftbench.webapp.query import Query

    held = outcomes_in(folder, data, against)
    return {**numbers_inside(held, Query({"where": where}).where()), "maps": map_counts(held)}


def show_run(facts: Mapping[str, Any]) -> None:
    percent = facts["unit"] == "share"

    def number(value: float | None) -> str:
        return "–" if value is None or value != value else f"{100 * value:.1f}" if percent else f"{value:.3g}"

    say_titled(facts["name"], f"{facts['n']:,} of {facts['n_open']:,} open items")
    print_table("", ["", f"{facts['words']}{' in %' if percent else ''}", "low", "high"],
                [[side, *map(number, facts[side])] for side in ("inside", "outside", "difference") if facts[side]])
    if facts["pairs"]:
        print_table("\nItems that a run gets right", list(facts["pairs"]), [list(facts["pairs"].values())])
    if (table := facts["confusion"]) is not None:
        rest = [f"{table['others']} others"] if table["others"] else []
        names = [row["value"] for row in table["rows"]] + rest
        print_table("\nConfusion: labels down, predictions across", ["", *names],
                    [[name, *cells] for name, cells in zip(names, table["cells"], strict=True)])
    if facts["calibration"] is not None:
        print_table("\nCalibration", ["side", "confidence", "right", "low", "high", "items"],
                    [[side, *(f"{100 * bin[name]:.1f}" for name in ("confidence", "right", "low", "high")), bin["n"]]
                     for side, bins in facts["calibration"].items() for bin in bins])
    if facts["maps"]:
        print_table("\nEmbedding maps", ["features", "open items", "failing"],
                    [[name, sizes["n"], sizes["fail"]] for name, sizes in facts["maps"].items()])
