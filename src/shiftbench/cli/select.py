"""shiftbench select SCORES|RUNS [--rule NAME]"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftbench.cli.output import (
    IgnoreExtra,
    Json,
    Names,
    Quiet,
    Seeds,
    Settings,
    console,
    print_json,
    print_table,
    say,
)
from shiftbench.core.errors import ShiftBenchError

if TYPE_CHECKING:
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.scores import Scores
    from shiftbench.scoring.outside_runs import Words


def select(
    source: Annotated[list[Path], typer.Argument(help="A table of scores, a folder of runs, or files of predictions, "
                                                 "with --benchmark.")],
    rule: Annotated[str, typer.Option(help="Choose by this rule; without one, all are compared.")] = "",
    target: Annotated[str, typer.Option(help="Judge by accuracy, worst_group_accuracy, macro_f1, … on test, also over "
                                                "a grouping: worst_group_accuracy[region].")] = "accuracy",
    benchmark: Annotated[list[Path] | None, typer.Option(
        help="Benchmark of the scores: it says whether val shares domains with test, and which headline `wilds` "
             "chooses by; may be repeated. Runs know theirs.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the scores of the chosen runs.")] = None,
    allow_target: Annotated[bool, typer.Option("--allow-target", help="Choose even by labels of the target.")] = False,
    hardest: Annotated[int, typer.Option(min=0, help="Choose tasks instead: rank this many by how much more --method "
                                         "loses on their hard items than on all items.")] = 0,
    split: Annotated[str, typer.Option(help="The split that --hardest compares.")] = "test",
    name: Names = None,
    method: Annotated[list[str] | None, typer.Option(
        help="Method that predicted, as in `score`; with --hardest the method to compare, by default erm.")] = None,
    setting: Settings = None,
    seed: Seeds = None,
    ignore_extra: IgnoreExtra = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose among runs that differ in their settings: compare all rules and their regret, or choose by one rule.

    Rules: id, leave_one_domain_out, worst_group, worst_class, nooch, f1, accuracy, ood, wilds, oracle. Rules that look
    at labels of the target are marked; to choose by one, say --allow-target.

    shiftbench select runs --rule worst_group --json

    shiftbench select runs --hardest 12
    """
    if hardest:
        _hardest(source[0], hardest, (method or ["erm"])[0], split, json)
        return
    from shiftbench.reporting.terminal import choices_table, rules_table
    from shiftbench.scoring.outside_runs import Words
    from shiftbench.scoring.select import RULES, chosen, over_seeds, refuse_target
    from shiftbench.scoring.select import select as apply

    words = Words(name or (), method or (), setting or (), seed or ())
    scores, benchmarks = _read(source, benchmark or [], words, ignore_extra)
    if out is not None and not rule:
        raise ShiftBenchError(f"--out writes the runs that one rule chooses. Name it with --rule: {', '.join(RULES)}.")
    selection = apply(scores, [rule] if rule else tuple(RULES), targets=[target], benchmarks=benchmarks)
    if rule:
        refuse_target(selection.choices, allow_target=allow_target)
    if out is not None:
        chosen(scores, rule, target=target, benchmarks=benchmarks, allow_target=allow_target).save(out)
    if json:
        print_json({"choices": [choice._asdict() | {"regret": choice.regret} for choice in selection.choices],
                    "means": [choice._asdict() for choice in over_seeds(selection.choices)],
                    "refused": [refusal._asdict() for refusal in selection.refused]})
    elif not quiet:
        console().print(choices_table(selection.choices) if rule else rules_table(selection, target))
        for reason in dict.fromkeys((refusal.rule, refusal.why, refusal.method) for refusal in selection.refused):
            places = [other.benchmark for other in selection.refused if (other.rule, other.why, other.method) == reason]
            say(f"{reason[0]} chose nothing on {', '.join(places)}{': ' + reason[2] if reason[2] else ''}: {reason[1]}")


def _read(
    source: list[Path], folders: list[Path], words: "Words", ignore_extra: bool
) -> "tuple[Scores, list[Benchmark]]":
    """The scores, and the benchmarks that are at hand."""
    from shiftbench.scoring.outside_runs import opened
    from shiftbench.scoring.runs import scores_of

    with opened(source, folders, words, ignore_extra=ignore_extra) as runs:
        scores, benchmarks = scores_of(runs, folders)
    return scores, [loaded for loaded, _ in benchmarks]


def _hardest(source: Path, n: int, method: str, split: str, json: bool) -> None:
    """The tasks whose hard items cost most, as NOOCh chose its twelve."""
    from shiftbench.api import hardest

    tasks = hardest(source, n, method=method, split=split)
    if json:
        print_json([ranked._asdict() for ranked in tasks])
    else:
        print_table("", ["task", "loss on hard", "on all", "difference"],
                    [[ranked.task, ranked.hard, ranked.all, ranked.gap] for ranked in tasks])
