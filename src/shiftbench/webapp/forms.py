"""A form for the settings of any shift or condition: each field of its dataclass with type, help text and choices.

The help text is the comment behind the field. A user's own shift gets a form by the same rules.
"""

import ast
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from shiftbench.core.arrays import encode
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import parse_toml, parse_value
from shiftbench.data.collection import Collection
from shiftbench.metagraph.subsets import SUBJECT
from shiftbench.webapp.studio import Studio

MOST = 300
"""Values that a choice lists; a factor with more has its values typed."""
TAGS = 500
"""Tags that can be chosen as a class."""
LABELS = ("class", "label", "y", "category")
"""Names of factors that are probably the label."""
DATES = "date|time|year|taken"
"""A pattern for the names of factors that are probably dates."""
FACTORS = ("label", "factor", "domain", "date")
"""Settings that name a factor, whatever their comment says."""
VALUES = {"classes": "label", "others": "label", "values": "factor", "low": "factor", "unseen": "factor",
          "test": "domain", "val": "domain"}
"""Settings that list values, and the setting that names the factor they are values of."""

LISTS = (list, tuple)
WRITTEN: Mapping[str, tuple[Any, str]] = {
    "words": ((*LISTS, str), "a list of words"), "pairs": (Mapping, "a table"), "table": ((Mapping, str), "a table")}
"""The types that a setting may have in a request, by its kind, and their name. The shift checks the rest."""


class Values(NamedTuple):
    """The values of a factor, and how many items have each."""

    names: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def commonest(self) -> tuple[str, ...]:
        return tuple(self.names[code] for code in np.argsort(-np.asarray(self.counts), kind="stable").tolist())


@dataclass(frozen=True)
class Input:
    """One setting: kind is share, whole, number, yes, word, choice, words, pairs or table."""

    name: str
    kind: str
    doc: str
    required: bool
    default: Any
    options: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # of pairs: the label's values
    of: tuple[str, ...] = ()  # settings that say which options there are
    high: float = 1.0  # of a dial
    locked: bool = False  # it names a file, which a web page may not set
    closed: bool = False  # it may name a file or a factor: a web page may set a factor
    numeric: bool = False  # a word that may also be a number


class Form(NamedTuple):
    """The inputs of a shift's settings, with choices from a collection."""

    studio: Studio
    collection: Collection

    def values(self, factor: str) -> Values:
        """The values of a factor; none if there is no such factor or it has too many to choose from."""
        def compute() -> Values:
            try:
                codes, names = encode(self.collection.factor(factor).astype(np.str_))
            except ShiftBenchError:
                return Values((), ())
            return Values(names, tuple(np.bincount(codes, minlength=len(names)).tolist())) if len(
                names) <= MOST else Values((), ())

        return self.studio.once(("values", self.collection.digest, factor), compute) if factor else Values((), ())

    def inputs(self, cls: type, settings: Mapping[str, Any]) -> list[Input]:
        """The inputs of a dataclass, with the choices that follow from the present settings."""
        hints, notes = get_type_hints(cls), comments(cls)
        return [self._input(field, hints[field.name], notes.get(field.name, ""), settings)
                for field in fields(cls) if field.init]

    def _input(self, field: Any, hint: Any, doc: str, settings: Mapping[str, Any]) -> Input:
        required = field.default is MISSING and field.default_factory is MISSING
        default = None if required else field.default if field.default_factory is MISSING else field.default_factory()
        facts: dict[str, Any] = {"name": field.name, "doc": doc, "required": required, "default": default}
        locked = bool(field.metadata.get("file"))
        union = get_origin(hint) in (Union, UnionType)
        types = [variant for variant in get_args(hint) if variant is not type(None)] if union else [hint]
        if any(get_origin(variant) is tuple for variant in types):
            return self._words(facts, doc, settings)
        if any(isinstance(get_origin(variant), type) and issubclass(get_origin(variant), Mapping) for variant in types):
            if re.match(r"(class|label value) ->", doc):
                keys, options = (self.values(str(settings.get(name, ""))).names for name in ("label", "factor"))
                chosen = () if required else settings.get("classes")
                classes = tuple(chosen) if isinstance(chosen, LISTS) else ()
                return Input(kind="pairs", keys=classes or keys, options=options,
                             of=("label", "factor", *(() if required else ("classes",))), **facts)
            return Input(kind="table", **facts)
        if types == [bool]:
            return Input(kind="yes", **facts)
        if types == [int]:
            return Input(kind="whole", high=len(self.collection) if re.match(r"n(_|$)", field.name) else 0, **facts)
        if types == [float]:
            share = default is None or 0 <= default <= 1
            return Input(kind="share" if share else "number", **facts)
        is_factor = field.name in FACTORS or bool(re.search(r"\bfactor\b(?! value)", doc))
        options = tuple(class_tags(self.studio, self.collection)) if re.match(r"(a )?tag\b", doc) else tuple(
            self.collection.factors) if is_factor else ()
        return Input(kind="choice" if options and not (locked and not is_factor) else "word", options=options,
                     locked=locked and not is_factor, closed=locked and is_factor, numeric=len(types) > 1, **facts)

    def _words(self, facts: Mapping[str, Any], doc: str, settings: Mapping[str, Any]) -> Input:
        """A list of words: values of a factor, kinds of tags, factors, or free text."""
        name = facts["name"]
        of = VALUES.get(name) or ("label" if "label value" in doc else "factor" if "factor value" in doc else "")
        if of:
            return Input(kind="words", options=self.values(str(settings.get(of, ""))).names, of=(of,), **facts)
        options = sorted(set(self.collection.tags.kinds)) if name == "kinds" else (
            self.collection.factors if re.search(r"\bfactors\b", doc) else ())
        return Input(kind="words", options=tuple(options), **facts)

    def start(self, cls: type, settings: Mapping[str, Any], needed: bool = False) -> dict[str, Any]:
        """The settings, with a first choice for each that is missing, so that something can be built.

        With `needed`, choices are made only where there is no default.
        """
        chosen = dict(settings)
        inputs = {field.name: field for field in self.inputs(cls, chosen)}
        free = [name for name in self.collection.factors if len(self.values(name).names) > 1]
        if "label" in inputs and inputs["label"].options and not chosen.get("label") and (
                inputs["label"].required or not needed):
            tags = inputs["label"].options != tuple(self.collection.factors)
            chosen["label"] = inputs["label"].options[0] if tags else next(
                (name for name in (*LABELS, *free) if name in self.collection.factors), "")
        for name in ("factor", "domain", "date"):
            if name in inputs and inputs[name].required and not chosen.get(name):
                others = [factor for factor in free if factor != chosen.get("label")]
                if name == "date":
                    others = [factor for factor in self.collection.factors if re.search(DATES, factor.lower())]
                chosen[name] = min(others, key=lambda factor: len(self.values(factor).names), default="")
        return self._start_values(cls, chosen, needed)

    def _start_values(self, cls: type, chosen: dict[str, Any], needed: bool) -> dict[str, Any]:
        """Two classes where there are many, one value to move, a majority for each class."""
        classes = self.values(str(chosen.get("label", ""))).commonest
        for field in self.inputs(cls, chosen):
            if field.name in chosen or (needed and not field.required):
                continue
            if field.name == "classes" and len(classes) > 4 and field.options:
                chosen[field.name] = sorted(classes[:2])
            elif field.name in ("low", "unseen", "test") and field.kind == "words" and field.options:
                chosen[field.name] = [field.options[-1]]
            elif field.kind == "pairs" and field.required and field.options:
                values = field.options
                chosen[field.name] = {name: values[i % len(values)] for i, name in enumerate(sorted(classes[:2]))}
        return chosen


def label_values(form: Form) -> set[str]:
    """The values of the factors that are probably labels."""
    return {value for name in LABELS if name in form.collection.factors for value in form.values(name).names}


def class_tags(studio: Studio, collection: Collection) -> dict[str, int]:
    """Tags that may be a class and the items that carry each: values of a label first, then objects, then the rest.

    Tags that no item carries are left out.
    """
    def compute() -> dict[str, int]:
        tags = collection.tags
        n = np.bincount(tags.tag, minlength=len(tags.names))
        form = Form(studio, collection)
        values = label_values(form)
        order = sorted(np.flatnonzero(n).tolist(), key=lambda code: (
            tags.names[code] not in values, tags.kinds[code] not in ("object", SUBJECT), -n[code], tags.names[code]))
        names: dict[str, int] = {}
        for code in order:
            names.setdefault(tags.names[code], int(n[code]))
        return dict(list(names.items())[:TAGS])

    return studio.once(("classes", collection.digest), compute)


def checked(inputs: Sequence[Input], settings: Mapping[str, Any], on_disk: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from a page: None restores the default; text in place of a number or a table is read as TOML.

    A setting that names a file is taken from `on_disk`, the settings of a recipe, and never from the page.
    """
    by_name = {field.name: field for field in inputs}
    result: dict[str, Any] = {}
    for name, value in settings.items():
        field = by_name.get(name)
        if field is None:
            result[name] = value  # the shift reports that it has no such setting
            continue
        if value is None:
            continue
        allowed = [on_disk.get(name), field.default, *(field.options if field.closed else ())]
        if (field.locked or field.closed) and value not in allowed:
            raise ShiftBenchError(f"'{name}' names a file. Write it into the recipe by hand, and open that.")
        types, expected = WRITTEN.get(field.kind, (object, ""))
        inner = value if field.kind == "words" and isinstance(value, LISTS) else ()
        if not isinstance(value, types) or not all(isinstance(word, str | int | float) for word in inner):
            raise ShiftBenchError(f"'{name}' is {value!r}, but it must be {expected}.")
        if field.kind == "table" and isinstance(value, str):
            value = parse_toml(value, name)
        elif field.numeric and isinstance(value, str):
            value = parse_value(value, name) if re.fullmatch(r"[-+0-9.e]+", value) else value
        result[name] = value
    return result


@cache
def comments(cls: type) -> Mapping[str, str]:
    """The comment behind each field of a dataclass and of those it inherits from; none where there is no source."""
    notes: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        try:
            source = textwrap.dedent(inspect.getsource(base))
            body = ast.parse(source).body[0]
            by_line = {token.start[0]: token.string.lstrip("# ") for token in tokenize.generate_tokens(
                io.StringIO(source).readline) if token.type == tokenize.COMMENT}
        except (OSError, TypeError, SyntaxError, IndexError, tokenize.TokenError):
            continue
        for line in getattr(body, "body", ()):
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.end_lineno in by_line:
                notes[line.target.id] = by_line[line.end_lineno]
    return notes


def summary(thing: Any) -> str:
    """The docstring of a shift, without its indentation."""
    return inspect.getdoc(thing) or ""
