"""Tables of choices for the terminal."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from shiftbench.core.errors import printable
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Scores
from shiftbench.reporting.selection import HEADS
from shiftbench.reporting.tables import methods_in, percent
from shiftbench.scoring.metrics import in_words
from shiftbench.scoring.select import INSTEAD, LABELS, RULES, TARGETS, Choice, Mean, over_benchmarks, over_seeds, select

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

SIGNS = {"none": "", "shifted": " ?", "unknown": " ?", "target": " !"}
"""Behind the name of a rule: which labels from after the shift it used."""


def selection_table(
    scores: Scores, benchmarks: Iterable[Benchmark] = (), *, target: str = TARGETS[0],
    rules: Iterable[str] = tuple(RULES),
) -> "Table":
    """Every rule side by side for the terminal: what it gives on test and, after ↓, its regret."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    means = over_seeds(select(scores, rules, targets=[target], benchmarks=benchmarks).choices)
    used = [name for name in RULES if any(mean.rule == name for mean in means)]
    labels = {mean.rule: mean.labels for mean in sorted(means, key=lambda mean: LABELS.index(mean.labels))}
    there = set(scores["metric"].tolist())
    instead = [] if target in there or target != "accuracy" else [name for name in INSTEAD if name in there]
    if target in ("r", "worst_group_r"):
        instead = [target]
    head = HEADS.get(target) or in_words(target)
    if instead:
        head = " or ".join(in_words(name) for name in instead) + " × 100"
    head = printable(head[:1].upper() + head[1:])
    drawn = Table(title=Text(f"{head} on test{'' if instead else ', %'}, by rule of choice"), title_justify="left",
                  title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left",
                  caption="↓ regret: points behind the oracle   ! used target labels   ? used labels from after the "
                          "shift, of domains that are not the test's or not known")
    drawn.add_column("benchmark")
    drawn.add_column("method")
    drawn.add_column("settings", justify="right")
    for name in used:
        drawn.add_column(Text(name.replace("_", " ") + SIGNS[labels[name]]), justify="right")
    places = list(dict.fromkeys(mean.benchmark for mean in means))
    blocks = [(name, [mean for mean in means if mean.benchmark == name]) for name in places]
    if len(places) > 1:
        blocks.append((f"mean of {len(places)}", over_benchmarks(means)))
    for name, part in blocks:
        methods = methods_in(mean.method for mean in part)
        for method in methods:
            own = {mean.rule: mean for mean in part if mean.method == method}
            drawn.add_row(Text(printable(name) if method == methods[0] else ""), Text(printable(method)),
                          str(max(mean.among for mean in own.values())),
                          *(_short(own.get(rule), len(places)) for rule in used), end_section=method == methods[-1])
    return drawn


def choices_table(choices: Iterable[Choice]) -> "Table":
    """The chosen runs, one a row."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    listed = list(choices)
    worst = ["worst group", "n"] if any(one.group for one in listed) else []
    for name in ("benchmark", "method", "seed", "run", "of", "criterion", "test %", *worst, "regret"):
        left = name in ("benchmark", "method", "run", "worst group")
        drawn.add_column(name, justify="left" if left else "right")
    for one in listed:
        names = (one.benchmark, one.method, one.run, one.group)
        benchmark, method, run, group = (Text(printable(name)) for name in names)
        drawn.add_row(benchmark, method, str(one.seed), run, str(one.among), f"{one.criterion:.4f}", percent(one.test),
                      *((group, Text(f"{one.n:,}")) if worst else ()), percent(one.regret))
    return drawn


def _short(mean: Mean | None, places: int) -> "Text":
    from rich.text import Text

    if mean is None:
        return Text("–", "dim")
    regret = f"↓{percent(mean.regret)}" if mean.among > 1 and mean.rule != "oracle" else ""
    if not mean.benchmark and mean.benchmarks < places:  # other benchmarks, so not to be compared: see `_table`
        return Text(f"{regret} on {mean.benchmarks}" if regret else "–", "dim")
    whose = f"\n{printable(mean.whose)}" if mean.whose else ""
    return Text(percent(mean.test)).append((f" {regret}" if regret else "") + whose, "dim")
