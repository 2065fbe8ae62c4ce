"""Plain data out of a pickle: dictionaries, lists, sets, words and whole numbers, and nothing else.

A pickle is a program for a small machine that can call whatever it can name. This machine can name `dict`,
`defaultdict`, `set`, `frozenset` and `list`, which it makes itself, and has no instruction that calls anything else.
What it makes is bounded by the length of the file: a few bytes can neither fill the memory nor run for ever.
"""

import pickletools
from pathlib import Path
from typing import Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import check_regular


class Name(NamedTuple):
    """Something that the pickle may call."""

    word: str


ADMITTED = {f"{home} {word}": Name(word) for home in ("builtins", "__builtin__")
            for word in ("dict", "set", "frozenset", "list")} | {"collections defaultdict": Name("defaultdict")}
IGNORED = {"PROTO", "FRAME"}
VALUES = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINSTRING", "SHORT_BINSTRING", "STRING",
          "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4"}
EMPTY: dict[str, type] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_SET": set, "EMPTY_TUPLE": tuple}
SHORT = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Machine:
    """The stack, the notes and how many values may still be copied from one container into another."""

    def __init__(self, room: int) -> None:
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.notes: dict[int, Any] = {}
        self.room = room

    def step(self, instruction: str, value: Any) -> None:
        stack = self.stack
        if instruction in VALUES:
            stack.append(_word(value) if isinstance(value, str) else _number(value))
        elif instruction in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.notes[int(value)])
        elif instruction in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.notes[int(value)] = stack[-1]
        elif instruction == "MEMOIZE":
            self.notes[len(self.notes)] = stack[-1]
        elif instruction == "MARK":
            self.marks.append(stack)
            self.stack = []
        elif instruction in EMPTY:
            stack.append(EMPTY[instruction]())
        elif instruction in ("APPENDS", "SETITEMS", "ADDITEMS", "LIST", "DICT", "TUPLE", "FROZENSET"):
            self.stack = self.marks.pop()
            self.gather(instruction, stack)
        elif instruction in ("APPEND", "SETITEM"):
            size = 1 if instruction == "APPEND" else 2
            values, stack[-size:] = stack[-size:], []
            self.gather(f"{instruction}S", values)
        elif instruction in SHORT:
            stack[-SHORT[instruction]:] = [tuple(stack[-SHORT[instruction]:])]
        elif instruction in ("GLOBAL", "STACK_GLOBAL"):
            name = value if instruction == "GLOBAL" else " ".join(_plain([stack.pop(-2), stack.pop()]))
            if name not in ADMITTED:
                raise ShiftBenchError(f"it asks for {name.replace(' ', '.')}, and nothing but dict, defaultdict, set "
                                      "and list is admitted")
            stack.append(ADMITTED[name])
        elif instruction == "REDUCE":
            values, name = stack.pop(), stack.pop()
            stack.append(self.made(name, values))
        elif instruction not in IGNORED:
            raise ShiftBenchError(f"it uses the instruction {instruction}, which plain data does not need")

    def gather(self, instruction: str, values: list[Any]) -> None:
        """Put the values since the last mark into the container below it, or into a new one."""
        stack = self.stack
        if instruction in ("LIST", "TUPLE"):
            stack.append(values if instruction == "LIST" else tuple(values))
        elif instruction == "FROZENSET":
            stack.append(set(_plain(values)))
        elif instruction == "DICT":
            stack.append(dict(zip(_plain(values[::2]), values[1::2], strict=True)))
        elif instruction == "APPENDS" and isinstance(stack[-1], list):
            stack[-1] += values
        elif instruction == "ADDITEMS" and isinstance(stack[-1], set):
            stack[-1].update(_plain(values))
        elif instruction == "SETITEMS" and isinstance(stack[-1], dict):
            stack[-1].update(zip(_plain(values[::2]), values[1::2], strict=True))
        else:
            raise ShiftBenchError(f"it puts values into a {type(stack[-1]).__name__}")

    def made(self, name: Any, values: Any) -> Any:
        """A container as the pickle asks for it; what would make the missing values of a defaultdict is left out."""
        if not isinstance(name, Name) or not isinstance(values, tuple):
            raise ShiftBenchError(f"it calls a {type(name).__name__}")
        if name.word in ("dict", "defaultdict"):
            return {}
        content = values[0] if values else []
        if not isinstance(content, list | set) or len(content) > self.room:
            raise ShiftBenchError(f"it makes a {name.word} from what is no list, or copies more values than it holds")
        self.room -= len(content)
        return list(content) if name.word == "list" else set(_plain(content))


def load(path: Path) -> Any:
    """The content of a pickle of plain data; anything else is an error that names the file and the byte."""
    if path.is_dir():
        raise ShiftBenchError(f"{path} is a folder. Give the pickle itself.")
    check_regular(path)
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise ShiftBenchError(f"{path}: cannot be read ({problem.strerror}).") from problem
    if not data:
        raise ShiftBenchError(f"{path} is empty.")
    machine, place = Machine(len(data)), 0
    try:
        for instruction, value, at in pickletools.genops(data):
            place = at or 0
            if instruction.name != "STOP":
                machine.step(instruction.name, value)
        [content] = machine.stack
    except ShiftBenchError as problem:
        raise ShiftBenchError(f"{path}: not read, byte {place}: {problem}.") from None
    except (ValueError, IndexError, KeyError, TypeError, UnicodeError, MemoryError) as problem:
        raise ShiftBenchError(f"{path}: cut off or no pickle, after byte {place}. "
                              "Copy or download it again.") from problem
    return content


def _plain(values: Any) -> Any:
    """Values that may be members of a set or keys: to compare them takes no time."""
    for value in values:
        if type(value) is not str and type(value) is not int:
            raise ShiftBenchError(f"a {type(value).__name__} stands where a word or a whole number belongs")
    return values


def _word(value: str) -> str:
    if not value.isascii():
        value.encode()  # half of a pair of code points is no text
    return value


def _number(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise ShiftBenchError("it holds a number of more than 64 bits")
    return value
