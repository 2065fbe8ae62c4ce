"""The sections of a page, in its order. Each says which benchmarks it is about; a page has those that apply."""

from importlib import import_module
from typing import NamedTuple

from shiftbench.data.benchmark import Benchmark
from shiftbench.reporting.results import Content, Results


class Section(NamedTuple):
    """A section of a page: its entry in the contents, and what a benchmark must have for the section to be about it.

    Its module is `sections.NAME`, with a function `content`, and is loaded where the section applies; its template is
    `sections/NAME.html`. The content is None where the scores lack what the section shows.
    """

    name: str
    anchor: str = ""
    head: str = ""
    shifts: tuple[str, ...] = ()  # one of these shifts; empty: any
    column: str = ""  # a further column of its rows
    classes: bool = False  # classes as its target

    def applies(self, benchmark: Benchmark) -> bool:
        return (not self.shifts or benchmark.card.get("shift") in self.shifts) and (
            not self.column or self.column in benchmark.extra) and (
            not self.classes or benchmark.target.has_classes)

    def content(self, results: Results) -> Content | None:
        if not any(map(self.applies, results.benchmarks)):
            return None
        content: Content | None = import_module(f"{__name__}.{self.name}").content(results)
        return content


SECTIONS = (
    Section("families", classes=True),  # compared by accuracy, which other targets do not have
    Section("fine_grained", "fine-grained", "Fine-grained analysis",
            shifts=("spurious", "low_data", "unseen", "given")),
    Section("breeds", "breeds", "Subpopulation shift (BREEDS)", shifts=("breeds",)),
    Section("nooch", "nooch", "Out-of-context challenge (NOOCh)", column="kind"),
    Section("selection", "selection", "How the runs were chosen"),
    Section("cards", "cards"),
)
