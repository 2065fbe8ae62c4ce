"""Names and values that someone who means harm, or a broken program, writes into a file."""

from numpy.random import Generator

NAMES = (
    "", " ", "\n", "a\nb", "a\r\nshiftbench: all is well", "\t", "\x00", "a\x00b", "\x07\x08\x0c",
    "[/bold]", "dog [indoor]", "[bold]", "[link=https://example.org]x[/link]", "\\[", "[/]",
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b31m", "\u202egod", "\u2028", "\u2066", "\ufeff", "e\u0301", "\u0969",
    "../../etc/passwd", "/etc/passwd", "..", ".", "~", "a/b", "a\\b", "con", "-", "--help", "-x",
    "=1+1", "@SUM(A1)", "+1", "<script>alert(1)</script>", "</script>", "<b>&amp;", "{x}", "{", "%s", "${HOME}", "`ls`",
    "nan", "NaN", "inf", "None", "null", "true", "-1", "1e999", "0x10", "1_000", "007", "all", "item", "label", "split",
    ":", "|", "+", ",", ";", "has:", "which:|", "which:=", "area:", "object:", "a:b:c", "'", '"', '""', "a,b", "a;b",
    "a|b", "(", "dog(", "dog()", ")", "dog(shelf", "x" * 5000, "é" * 300, "\U0001f4a9", "train", "test", "cat", "dog",
)
"""Text that is valid Unicode."""

BYTES = (b"\xff\xfe", b"\x80", b"\xc3(", b"\xed\xa0\x80", b"caf\xe9", b"\x00", b"\xf8\x88\x80\x80\x80")
"""Text that is no UTF-8."""

DIGITS = "9" * 5000
"""More than Python turns into a number."""

DEEP = 100_000
"""Brackets within brackets."""

RAW = (
    DIGITS, "-" + DIGITS, "1" + "0" * 400, "1e999", "-1e999", "NaN", "Infinity", "1e-400", "0." + "3" * 5000,
    "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * DEEP, "[" * 300 + "]" * 300, '"\\ud800"',
    '{"a":' * 300 + "1" + "}" * 300, '["]",' * 300 + "1" + "]" * 300, "01", "+1", "'x'", "[1,]", "\x00",
    '{"a":1,"a":2}',
)
"""Spellings of a value in JSON that no encoder writes."""

NUMBERS = (0, -1, 1, 2, 7, 255, 256, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63),
           -(2**63) - 1, 10**30, 10**400, 0.5, -0.5, 1.5, -0.0, 1e-300, 1e300, float("nan"), float("inf"),
           float("-inf"))


def name(rng: Generator) -> str:
    return NAMES[rng.integers(len(NAMES))]


def value(rng: Generator) -> object:
    """Any value of JSON, most often small."""
    kind = rng.integers(10)
    if kind < 3:
        return name(rng)
    if kind < 6:
        return NUMBERS[rng.integers(len(NUMBERS))]
    plain: tuple[object, ...] = (None, True, False, [], {}, [[]], [None], {"": None}, [1, "a", None, [2]],
                                 {"a": {"b": [1]}})
    return plain[rng.integers(len(plain))]
