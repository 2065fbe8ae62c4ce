"""Questions that turn a factor into another one: numbers into bins, dates into years, months, seasons or hours.

    bins:age:30,60        under 30 · 30 to 60 · from 60: an edge belongs to the bin that it begins
    quantiles:age:4       four bins of equally many items, as far as ties allow: 1 of 4: 18 to 25 · …
    year:taken            2019
    month:taken           01 to 12, of any year
    season:taken          winter (December to February), spring, summer, autumn: those of the north
    hour:taken            00 to 23, as the date says it

Answers are words whose alphabetical order is their natural order; without a number or date the answer is `unknown`. The
factor may be a question itself: `bins:area:sofa:0.1,0.3`, `quantiles:year:taken:3`.
"""

import re
from collections.abc import Callable, Container
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shiftbench.core.arrays import Bools, Floats, Ints, Strs, Values
from shiftbench.core.errors import ShiftBenchError

UNKNOWN = "unknown"
MISSING = ("", UNKNOWN, "nan", "nat", "none", "null")
"""Words for a missing value, in lower case."""
MOST_QUANTILES = 100
SEASONS = ("winter", "spring", "summer", "autumn")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
ZONE = r"(Z|[+-]\d{2}(:?\d{2})?)"
DATE = rf"^\d{{4}}(-\d{{2}}(-\d{{2}}([T ]\d{{2}}(:\d{{2}}(:\d{{2}}([.,]\d{{1,9}})?)?)?{ZONE}?)?)?)?$"
"""ISO 8601 as files have it: a year, a month, a day, or a moment, with or without its zone."""
CUT = {"year": (0, 4), "month": (5, 7), "hour": (11, 13)}
"""The position of each unit in an ISO date."""
FORMS = {
    "has": "has:TAG", "area": "area:TAG", "which": "which:TAG|TAG", "bins": "bins:FACTOR:EDGE,EDGE",
    "quantiles": "quantiles:FACTOR:N", "year": "year:DATES", "month": "month:DATES", "season": "season:DATES",
    "hour": "hour:DATES",
}
"""All questions that `Collection.factor` answers, including those about tags."""
OF_FACTORS = ("bins", "quantiles", *CUT, "season")


class Asked(NamedTuple):
    """A parsed question: its form, its factor, and its edges or number."""

    question: str
    factor: str
    detail: str


def parse(name: str) -> Asked | None:
    """Parse a question about a factor; None if the name is not a question, or is one about tags.

    >>> parse("bins:area:sofa:0.1,0.3")
    Asked(question='bins', factor='area:sofa', detail='0.1,0.3')
    >>> parse("year:taken"), parse("has:sofa"), parse("taken")
    (Asked(question='year', factor='taken', detail=''), None, None)
    """
    question, _, rest = name.partition(":")
    if question not in OF_FACTORS or not rest:
        return None
    if question not in ("bins", "quantiles"):
        return Asked(question, rest, "")
    factor, colon, detail = rest.rpartition(":")
    if not colon or not factor or not detail:
        raise ShiftBenchError(f"'{name}' cannot be read. Write {FORMS[question]}, for example "
                              f"{'bins:age:30,60' if question == 'bins' else 'quantiles:age:4'}.")
    return Asked(question, factor, detail)


def base_of(name: str, known: Container[str] = ()) -> str:
    """The factor at the bottom of a question or of nested questions; a name in `known` is not a question.

    >>> base_of("quantiles:year:taken:3"), base_of("bins:area:sofa:0.1"), base_of("year:taken", ["year:taken"])
    ('taken', 'area:sofa', 'year:taken')
    """
    while name not in known and (asked := parse(name)) is not None:
        name = asked.factor
    return name


def resolve(name: str, look: Callable[[str], Values | None]) -> Values | None:
    """The values that `look` gives for a name, or the answers to a question about one; None if there are neither."""
    questions: list[Asked] = []
    while (values := look(name)) is None:
        question = parse(name)
        if question is None:
            return None
        questions.append(question)
        name = question.factor
    for question in reversed(questions):
        values = answered(question, values)
    return values


def about_tags(
    name: str, n: int, rows: Callable[[str], Ints], item: Ints, area: npt.NDArray[np.float32]
) -> Values | None:
    """The answer of each of n items to a question about tags; None where the name is no such question.

    `rows` gives the rows of a tag in the table of tags, whose columns are `item` and `area`.
    """
    question, _, tag = name.partition(":")
    if not tag or question not in ("has", "area", "which"):
        return None
    if question == "has":
        answer = np.full(n, "no", dtype="U3")
        answer[item[rows(tag)]] = "yes"
        return answer
    if question == "area":
        share: Floats = np.zeros(n)
        np.add.at(share, item[rows(tag)], area[rows(tag)])
        return share
    times, chosen = np.zeros(n, np.int64), np.zeros(n, np.int64)
    names = []
    for code, choice in enumerate(tag.split("|")):
        title, _, tags = choice.rpartition("=")
        names.append(title or tags)
        items = np.unique(np.concatenate([item[rows(member)] for member in tags.split("+")]))
        times[items] += 1
        chosen[items] = code
    return np.where(times == 1, np.asarray(names)[chosen], np.where(times == 0, "none", "several"))


def answered(asked: Asked, values: Values) -> Strs:
    """The answer for every item, from the values of the factor."""
    if asked.question == "bins":
        return bins(values, asked.detail, asked.factor)
    if asked.question == "quantiles":
        return quantiles(values, asked.detail, asked.factor)
    text = dates(values, asked.factor).text
    start, stop = CUT.get(asked.question, CUT["month"])
    unit = np.ascontiguousarray(text.astype(f"U{stop}")).view("U1").reshape(len(text), stop)[:, start:]
    unit = np.ascontiguousarray(unit).view(f"U{stop - start}").ravel()
    if asked.question != "season":
        return np.where(unit == "", UNKNOWN, unit)
    names = np.asarray([UNKNOWN, *(SEASONS[number % 12 // 3] for number in range(1, 13))])
    return names[np.where(unit == "", "0", unit).astype(np.int64)]


def bins(values: Values, edges: str, name: str) -> Strs:
    """Bins between increasing edges: item i is in bin k where edge k ≤ x_i < edge k + 1. Every item has a bin.

    >>> bins(np.asarray([12, 30, 59.5, 60, np.nan]), "30,60", "age").tolist()
    ['under 30', '30 to 60', '30 to 60', 'from 60', 'unknown']
    """
    words = [word.strip() for word in edges.split(",")]
    if not all(NUMBER.fullmatch(word) for word in words):
        raise ShiftBenchError(f"'bins:{name}:{edges}': edges are numbers with commas between, for example "
                              f"bins:{name}:30,60.")
    cuts = np.asarray(words, np.float64)
    if not np.isfinite(cuts).all() or (np.diff(cuts) <= 0).any():
        raise ShiftBenchError(f"'bins:{name}:{edges}': edges must be finite, each larger than the one before.")
    x = numbers(values, name)
    between = [f"{low} to {high}" for low, high in pairwise(words)]
    names = np.asarray([f"under {words[0]}", *between, f"from {words[-1]}"])
    return np.where(np.isnan(x), UNKNOWN, names[np.searchsorted(cuts, x, side="right").clip(max=len(words))])


def quantiles(values: Values, count: str, name: str) -> Strs:
    """Bins of equally many items; equal numbers share a bin. A bin is named by its smallest and largest number.

    With q_k the smallest number that k / n of the items do not exceed, item i is in bin k where q_(k−1) < x_i ≤ q_k.

    >>> quantiles(np.asarray([1, 2, 3, 3, 3, 9]), "3", "age").tolist()
    ['1 of 3: 1 to 2', '1 of 3: 1 to 2', '2 of 3: 3 to 3', '2 of 3: 3 to 3', '2 of 3: 3 to 3', '3 of 3: 9 to 9']
    """
    if not count.strip().isdecimal() or not 2 <= int(count[:9]) <= MOST_QUANTILES:
        raise ShiftBenchError(f"'quantiles:{name}:{count}': give a number of bins from 2 to {MOST_QUANTILES}, for "
                              f"example quantiles:{name}:4.")
    n, x = int(count), numbers(values, name)
    rising = np.sort(x[~np.isnan(x)])
    if not len(rising):
        return np.full(len(x), UNKNOWN)
    ends = rising[np.ceil(np.arange(1, n) * len(rising) / n - 1e-9).astype(np.int64).clip(min=1) - 1]
    bounds = [0, *np.searchsorted(rising, ends, side="right").tolist(), len(rising)]
    names = np.asarray([f"{k:0{len(str(n))}} of {n}: {rising[low]:.6g} to {rising[high - 1]:.6g}" if high > low else ""
                        for k, (low, high) in enumerate(pairwise(bounds), 1)])
    return np.where(np.isnan(x), UNKNOWN, names[np.searchsorted(ends, x, side="left").clip(max=n - 1)])


def numbers(values: Values, name: str) -> Floats:
    """A factor as numbers, NaN where there is none; words that spell numbers are read as numbers."""
    column = np.asarray(values)
    if column.dtype.kind in "biuf":
        x = column.astype(np.float64)
        return np.where(np.isfinite(x), x, np.nan)
    words, codes = _distinct(column)
    is_number = pc.match_substring_regex(words, f"^(?:{NUMBER.pattern})$", ignore_case=True)
    for word in words.filter(pc.and_(pc.invert(is_number), pc.not_equal(words, ""))).to_pylist()[:1]:
        raise ShiftBenchError(f"Factor '{name}' holds '{word}', which is not a number, so it cannot be binned.")
    return np.asarray([float(word or "nan") for word in words.to_pylist()], np.float64)[codes]


class Dates(NamedTuple):
    """A column of dates, one per item: as ISO text without its zone, and as moments that can be compared."""

    text: Strs  # "" where there is none
    moment: Ints  # microseconds since 1970, UTC; a date without a zone counts as UTC

    @property
    def known(self) -> Bools:
        return np.asarray(self.text != "", np.bool_)


def dates(values: Values, name: str) -> Dates:
    """A factor that holds ISO dates or timestamps, as words, or years, as words or whole numbers.

    >>> dates(np.asarray(["2019-03-04", "2019", "", "2019-03-04 12:30:00Z"]), "taken").text.tolist()
    ['2019-03-04', '2019', '', '2019-03-04T12:30:00']
    """
    column = np.asarray(values)
    if column.dtype.kind == "M":
        column = np.datetime_as_string(column, unit="auto")
    if column.dtype.kind in "iuf":
        odd = ~np.isnan(column) & (column % 1 != 0) if column.dtype.kind == "f" else np.zeros(len(column), np.bool_)
        gap = np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), np.bool_)
        odd |= ~gap & ~((column >= 1000) & (column <= 9999))
        for value in column[odd][:1]:
            raise _no_date(name, str(value))
        column = np.where(gap, "", np.where(gap, 0, column).astype(np.int64).astype(np.str_))
    words, codes = _distinct(column)
    valid = pc.or_(pc.match_substring_regex(words, DATE), pc.equal(words, ""))
    for word in words.filter(pc.invert(valid)).to_pylist()[:1]:
        raise _no_date(name, word)
    words = pc.replace_substring(words, " ", "T")
    text = pc.replace_substring_regex(words, f"(T.*?){ZONE}$", r"\1")
    zone = pc.not_equal(words, text).to_numpy(zero_copy_only=False)
    gap = pc.equal(words, "").to_numpy(zero_copy_only=False)
    moment = np.full(len(words), np.iinfo(np.int64).min)
    for rows, dtype in ((~gap & ~zone, pa.timestamp("us")), (~gap & zone, pa.timestamp("us", "UTC"))):
        moment[rows] = _moments(words.filter(pa.array(rows)), dtype, name)
    return Dates(np.asarray(text.to_pylist(), np.str_)[codes], moment[codes])


def moment(text: str, name: str) -> int:
    """One date as a moment: the first of its year, month or day. `name` is the setting that holds it."""
    word = str(text).strip()
    if not re.match(DATE, word):
        raise ShiftBenchError(f"{name} = '{text}' is no date. Write a year, a month or a day: 2019, 2019-03, "
                              "2019-03-04.")
    return int(dates(np.asarray([word]), name).moment[0])


def _moments(words: pa.Array, dtype: pa.DataType, name: str) -> Ints:
    """ISO text as microseconds; a date without a month, day or hour means the first one."""
    full_dates = pc.replace_substring_regex(words, r"^(\d{4})$", r"\1-01")
    full_dates = pc.replace_substring_regex(full_dates, r"^(\d{4}-\d{2})$", r"\1-01")
    full_dates = pc.replace_substring_regex(full_dates, r"(T\d{2})($|Z|[+-])", r"\1:00\2")
    full_dates = pc.replace_substring_regex(full_dates, r"[.,](\d{1,6})\d*", r".\1")
    try:
        return np.asarray(full_dates.cast(dtype).cast(pa.int64()), np.int64)
    except pa.ArrowInvalid:
        for word, date in zip(words.to_pylist(), full_dates.to_pylist(), strict=True):
            try:
                pa.scalar(date).cast(dtype)
            except pa.ArrowInvalid as problem:
                raise _no_date(name, word) from problem
        raise


def _no_date(name: str, word: str) -> ShiftBenchError:
    return ShiftBenchError(f"Factor '{name}' holds '{word}', which is no date. Dates are ISO text (2019-03-04, "
                           "2019-03-04T12:30, 2019-03) or years (2019).")


def _distinct(column: Values) -> tuple[pa.Array, Ints]:
    """The distinct words of a column, stripped, "" for a gap, and for each item the index of its word."""
    chunks = pa.chunked_array([pa.array(column.astype(np.str_), pa.string())]).combine_chunks()
    coded = chunks.dictionary_encode()
    words = pc.utf8_trim_whitespace(coded.dictionary)
    gap = pc.is_in(pc.utf8_lower(words), value_set=pa.array(MISSING))
    return pc.if_else(gap, "", words), coded.indices.to_numpy().astype(np.int64)
