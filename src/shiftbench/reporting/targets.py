"""What a card shows of a benchmark whose target is no class: which numbers, and what its task is called."""

from shiftbench.data.benchmark import Benchmark
from shiftbench.scoring import GAP

WORDS = {
    "r": "Pearson’s r × 100", "worst_group_r": "worst group’s r × 100", "mean_ap": "average precision",
    "detection_accuracy": "detection accuracy", "detection_accuracy_by_domain": "detection accuracy by domain",
    "worst_group_detection_accuracy": "worst group", "accuracy": "class and method tokens",
    "overall_accuracy": "all tokens", "worst_group_accuracy": "worst group",
}
Column = tuple[str, str, str, str]


def columns(benchmark: Benchmark) -> list[Column]:
    """Of a card's table: metric, split, head and what stands under it; classes have `page._class_columns`."""
    first = benchmark.headline
    words = WORDS.get(first, first.replace("_", " "))
    made = [(first, "id_test", over_all(benchmark, "id_test"), f"{words}, id_test"),
            (first, "test", over_all(benchmark, "test"), f"{words}, test"), (f"{first}_gap", GAP, "Gap", "points lost")]
    return made + [(name, "test", WORDS[name].capitalize(), "test") for name in benchmark.target.ranking
                   if name != first]


def over_all(benchmark: Benchmark, split: str) -> str:
    """The head of the number over all items; where nothing is trained on there is no shift to speak of."""
    heads = {"id_test": "Before the shift", "test": "After the shift"}
    return heads[split] if trains(benchmark) else "Average"


def trains(benchmark: Benchmark) -> bool:
    """Whether a benchmark has training items; of one that was not given nobody knows, and it counts as one that has."""
    return not len(benchmark) or "train" in benchmark.splits


def task(benchmark: Benchmark) -> str:
    """The task in words, where it is not to tell classes apart."""
    kind, many = benchmark.target.kind, len(benchmark.names["label"])
    said = {"number": "number", "tasks": "yes/no task"}
    if kind in said:
        return f"{many} {said[kind]}{'' if many == 1 else 's'}"
    return f"boxes around {', '.join(benchmark.names['label'])}" if kind == "boxes" else "the next token"
