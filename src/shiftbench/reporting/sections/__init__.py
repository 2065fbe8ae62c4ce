"""The sections of a page, in its order. Each selects its benchmarks; a page has the sections that apply."""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.registry import Registry, listed
from shiftbench.data.benchmark import Benchmark
from shiftbench.reporting.results import Content, Results


class Section(NamedTuple):
    """A section of a page: its entry in the contents, and what a benchmark must have for the section to be about it.

    Its module is `sections.NAME`, with a function `content`, and is loaded where the section applies; its template is
    `sections/NAME.html`. A user's section has a `function` in place of these, and the template `own.html` shows the
    texts, tables and figures that it gives. The content is None where the scores lack what the section shows.
    """

    name: str
    anchor: str = ""
    head: str = ""
    shifts: tuple[str, ...] = ()  # one of these shifts; empty: any
    column: str = ""  # a further column of its rows
    classes: bool = False  # classes as its target
    function: Callable[[Results], Content | None] | None = None

    def applies(self, benchmark: Benchmark) -> bool:
        return (not self.shifts or benchmark.card.get("shift") in self.shifts) and (
            not self.column or self.column in benchmark.extra) and (
            not self.classes or benchmark.target.has_classes)

    def content(self, results: Results) -> Content | None:
        if not any(map(self.applies, results.benchmarks)):
            return None
        if self.function is not None:
            return self._own(self.function(results))
        content: Content | None = import_module(f"{__name__}.{self.name}").content(results)
        return content

    @property
    def template(self) -> str:
        return f"{'own' if self.function else self.name}.html"

    def _own(self, content: Content | None) -> Content | None:
        """The content of a user's section, with empty values for whatever it leaves out."""
        if content is None:
            return None
        if not isinstance(content, dict):
            raise ShiftBenchError(f"Section '{self.name}' gives {type(content).__name__}, but must give a dict of "
                                  f"{', '.join(OWN)}, or None.")
        for key in content:
            if key not in OWN:
                raise unknown("entry", key, OWN, f"section '{self.name}'")
        return {"head": self.head, "text": listed(content.get("text", ())), "tables": list(content.get("tables", ())),
                "figures": list(content.get("figures", ()))}


OWN = ("text", "tables", "figures")
"""What the content of a user's section may have."""


SECTIONS: Registry[Section] = Registry((section.name, section) for section in (
    Section("families", classes=True),  # compared by accuracy, which other targets do not have
    Section("fine_grained", "fine-grained", "Fine-grained analysis",
            shifts=("spurious", "low_data", "unseen", "given")),
    Section("breeds", "breeds", "Subpopulation shift (BREEDS)", shifts=("breeds",)),
    Section("nooch", "nooch", "Out-of-context challenge (NOOCh)", column="kind"),
    Section("selection", "selection", "How the runs were chosen"),
    Section("cards", "cards"),
))
