"""shiftbench select SCORES|RUNS [--rule NAME]"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftbench.cli.output import Json, Plugins, Quiet, console, print_json, print_table, say
from shiftbench.core.errors import ShiftBenchError

if TYPE_CHECKING:
    from shiftbench.data.benchmark import Benchmark
    from shiftbench.data.scores import Scores


def select(
    source: Annotated[Path, typer.Argument(help="A table of scores, or a folder of runs.")],
    rule: Annotated[str, typer.Option(help="Choose by this rule; without one, all are compared.")] = "",
    target: Annotated[str, typer.Option(help="Judge by accuracy, worst_group_accuracy, macro_f1, … on test, also over "
                                                "a grouping: worst_group_accuracy[region].")] = "accuracy",
    benchmark: Annotated[list[Path] | None, typer.Option(
        help="Says whether val shares domains with test, and by which number `wilds` chooses; may be "
             "repeated. Runs know theirs.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the scores of the chosen runs.")] = None,
    allow_target: Annotated[bool, typer.Option("--allow-target", help="Choose even by labels of the target.")] = False,
    hardest: Annotated[int, typer.Option(min=0, help="Choose tasks instead: rank this many by how much more --method "
                                         "loses on their hard items than on all items.")] = 0,
    method: Annotated[str, typer.Option(help="The method that --hardest compares.")] = "erm",
    split: Annotated[str, typer.Option(help="The split that --hardest compares.")] = "test",
    plugins: Plugins = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose among runs that differ in their settings: compare all rules and their regret, or choose by one rule.

    Rules: id, leave_one_domain_out, worst_group, worst_class, nooch, f1, ood, wilds, oracle. Rules that look at
    labels of the target are marked; to choose by one, say --allow-target.

    shiftbench select runs --rule worst_group --json

    shiftbench select runs --hardest 12
    """
    if hardest:
        _hardest(source, hardest, method, split, json)
        return
    from shiftbench.reporting.terminal import choices_table, selection_table
    from shiftbench.scoring.select import RULES, chosen, over_seeds, refuse_target
    from shiftbench.scoring.select import select as apply

    scores, made = _read(source, benchmark or [])
    if out is not None and not rule:
        raise ShiftBenchError(f"--out writes the runs that one rule chooses. Name it with --rule: {', '.join(RULES)}.")
    found = apply(scores, [rule] if rule else tuple(RULES), targets=[target], benchmarks=made)
    if rule:
        refuse_target(found.choices, allow_target=allow_target)
    if out is not None:
        chosen(scores, rule, target=target, benchmarks=made, allow_target=allow_target).save(out)
    if json:
        print_json({"choices": [one._asdict() | {"regret": one.regret} for one in found.choices],
                    "means": [one._asdict() for one in over_seeds(found.choices)],
                    "refused": [one._asdict() for one in found.refused]})
    elif not quiet:
        console().print(choices_table(found.choices) if rule else selection_table(scores, made, target=target))
        for one in dict.fromkeys((one.rule, one.why, one.method) for one in found.refused):
            places = [other.benchmark for other in found.refused if (other.rule, other.why, other.method) == one]
            say(f"{one[0]} chose nothing on {', '.join(places)}{': ' + one[2] if one[2] else ''}: {one[1]}")


def _read(source: Path, folders: list[Path]) -> "tuple[Scores, list[Benchmark]]":
    """The scores, and the benchmarks that are at hand."""
    from shiftbench.api.judging import scores_of

    scores, benchmarks = scores_of(source, folders)
    return scores, [one for one, _ in benchmarks]


def _hardest(source: Path, n: int, method: str, split: str, json: bool) -> None:
    """The tasks whose hard items cost most, as NOOCh chose its twelve."""
    from shiftbench.api.judging import hardest

    tasks = hardest(source, n, method=method, split=split)
    if json:
        print_json([one._asdict() for one in tasks])
    else:
        print_table("", ["task", "loss on hard", "on all", "difference"],
                    [[one.task, one.hard, one.all, one.gap] for one in tasks])
