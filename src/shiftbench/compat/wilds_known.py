"""What is published about WILDS' ten data sets and stays the same: columns, numbers of values, names.

Where a column's names are only in the data (Amazon's users), the caller gives them as `metadata_map`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shiftbench.readers.wilds.comments import IDENTITIES, OTHER_MARKS
from shiftbench.readers.wilds.wheat import SESSIONS


class Known(NamedTuple):
    """The columns of a data set, how many values they have in the whole data, and the names of those values."""

    fields: Sequence[str]
    sizes: Mapping[str, int] = {}
    names: Mapping[str, Sequence[object]] = {}


DATASETS: Mapping[str, Known] = {
    "amazon": Known(("user", "product", "category", "year", "y")),
    "camelyon17": Known(("hospital", "slide", "y"), {"hospital": 5, "slide": 50}),
    "civilcomments": Known((*IDENTITIES, *OTHER_MARKS, "y"), {**dict.fromkeys(IDENTITIES, 2), "y": 2}),
    "fmow": Known(("region", "year", "y"), {"region": 6, "year": 16}, {
        "region": ("Asia", "Europe", "Africa", "Americas", "Oceania", "Other"), "year": tuple(range(2002, 2018))}),
    "globalwheat": Known(("session", "country", "location", "stage"), {"session": 47}, {
        "session": SESSIONS}),
    "iwildcam": Known(("location", "sequence", "year", "month", "day", "hour", "minute", "second", "y")),
    "ogb-molpcba": Known(("scaffold",)),
    "poverty": Known(("urban", "y", "country"), {"urban": 2}),
    "py150": Known(("repo",)),
    "rxrx1": Known(("cell_type", "experiment", "plate", "well", "site", "y"), {"cell_type": 4}, {
        "cell_type": ("HEPG2", "HUVEC", "RPE", "U2OS")}),
}
