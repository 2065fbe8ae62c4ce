"""The sections of a page, in its order. Each says which benchmarks it is about; a page has those that apply."""

from shiftbench.reporting.results import Section
from shiftbench.reporting.sections import breeds, cards, families, fine_grained, nooch, selection

SECTIONS: tuple[Section, ...] = (
    families.SECTION, fine_grained.SECTION, breeds.SECTION, nooch.SECTION, selection.SECTION,
    cards.SECTION,
)
