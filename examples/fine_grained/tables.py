"""Scores and takeaways of a fine-grained study as Markdown, by macro F1 and by accuracy.

    python examples/fine_grained/tables.py R > five_seeds.md
    python docs/write_tables.py five_seeds five_seeds.md          puts them into docs/studies/fine_grained.md

A study that was done in parts, on machines that are gone, is put together from their scores:

    python examples/fine_grained/tables.py R --scores part-1.parquet                     on each machine
    python examples/fine_grained/tables.py part-*.parquet --benchmarks R/benchmarks/*    anywhere
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from shiftbench.data.scores import ALL, RUN, Scores
from shiftbench.reporting.page import shown_scores
from shiftbench.reporting.sections.fine_grained_scores import (
    METRICS,
    Estimate,
    FineGrainedScores,
    estimate,
    fine_grained_scores,
)
from shiftbench.reporting.sections.takeaways import takeaways
from shiftbench.scoring.runs import scores_of

MARKS = {True: "✓", False: "✗", None: "?"}


def main(sources: Sequence[str], folders: Sequence[str] = (), out: str = "") -> str:
    """The tables of all finished runs in folders of runs and tables of scores; the scores are saved to `out`."""
    parts = [scores_of(source) for source in sources]
    scores, owners = scores_of(Scores.join([part for part, _ in parts]).where(stat=RUN), folders)
    benchmarks = list({(benchmark.name, benchmark.digest): benchmark
                       for benchmark, _ in [*owners, *(pair for _, pairs in parts for pair in pairs)]}.values())
    if out:
        scores.save(out)
    studies = {metric: (shown, study) for metric, rule in METRICS.items()
               for shown in [shown_scores(scores, benchmarks, rule)]
               for study in [fine_grained_scores(shown, benchmarks, metric)] if study is not None}
    if not studies:
        raise SystemExit(f"{' '.join(sources)}: no fine-grained study, which takes its benchmarks, the baseline and "
                         "four of the nineteen methods.")
    runs = len(set(scores["run"].tolist()))
    first = next(iter(studies.values()))[1]
    lines = [f"{runs} runs, {len(first.methods)} methods, {len(first.places)} benchmarks, {len(first.seeds)} seeds; "
             f"the baseline is {first.baseline}.", ""]
    for shown, study in studies.values():
        lines += [*score_table(shown, study), ""]
    return "\n".join([*lines, *takeaway_table([study for _, study in studies.values()])]) + "\n"


def score_table(shown: Scores, study: FineGrainedScores) -> list[str]:
    """A line per method: mean over seeds with its interval on each benchmark; the last column is on items like
    training's."""
    rows = study.where(condition="")
    heads = [study.places[row].benchmark for row in rows]
    table = {name: [estimate(study.values[row, at][None], [""]) for row in rows]
             for at, name in enumerate(study.methods)}
    if study.scratch is not None:
        table["erm"] = [estimate(study.scratch[row][None], [""]) for row in rows]
    best = [max((cells[at].value for cells in table.values() if cells[at].benchmarks), default=np.nan)
            for at in range(len(rows))]
    lines = [f"{study.words[:1].upper()}{study.words[1:]} on test, %: mean over seeds, Student's 95 % interval; "
             "`id_test` in the order of the benchmarks.", "",
             f"| method | {' | '.join(f'`{head}`' for head in heads)} | `id_test` |", f"|{'--|' * (len(heads) + 2)}"]
    for name, cells in table.items():
        inside = shown.where(stat=RUN, split="id_test", metric=study.metric, by="", group=ALL)
        means = [inside["value"][(inside.names == name) & (inside["benchmark"] == head)] for head in heads]
        home = " / ".join(f"{100 * values.mean():.0f}" if len(values) else "–" for values in means)
        written = " | ".join(cell(point, point.value == top) for point, top in zip(cells, best, strict=True))
        seeds = max(point.seeds for point in cells)
        fewer = f", {seeds} of {len(study.seeds)} seeds" if seeds < len(study.seeds) else ""
        lines.append(f"| `{name}`{fewer} | {written} | {home} |")
    return lines


def cell(point: Estimate, best: bool) -> str:
    """A mean with its interval, cut at 0 and 100; – without a run."""
    if not point.benchmarks:
        return "–"
    mean = f"**{100 * point.value:.1f}**" if best else f"{100 * point.value:.1f}"
    low, high = np.clip([100 * point.low, 100 * point.high], 0, 100)
    return f"{mean} [{low:.1f}, {high:.1f}]" if point.seeds > 1 else f"{mean} [one seed]"


def takeaway_table(studies: list[FineGrainedScores]) -> list[str]:
    """The paper's seven sentences, and what each metric makes of them."""
    lines = [f"| | the paper says | {' | '.join(f'by {study.words}' for study in studies)} |",
             f"|{'--|' * (len(studies) + 2)}"]
    for same in zip(*map(takeaways, studies), strict=True):
        cells = [f"**{one.verdict}**. " + " ".join(
            f"{MARKS[part.holds]} {' – '.join(filter(None, (part.text, part.why)))}." for part in one.parts)
            for one in same]
        lines.append(f"| {same[0].number} | {same[0].claim} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", help="folders of runs, or tables of scores")
    parser.add_argument("--benchmarks", nargs="*", default=[], help="folders of the benchmarks, for tables of scores")
    parser.add_argument("--scores", default="", help="where to save the scores of single runs")
    arguments = parser.parse_args()
    sys.stdout.write(main(arguments.sources, arguments.benchmarks, arguments.scores))
