"""From the bytes of a sound file to those of a damaged or hostile one, by what kind of file it is."""

import csv
import gzip
import io
import json
import pickle
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.random import Generator
from PIL import Image

from tests.fuzz.hostile import BYTES, NAMES, RAW, name, value

Mutation = Callable[[bytes, Generator], bytes]


def mutated(path: str, data: bytes, rng: Generator) -> bytes:
    """A mutation that knows the kind of the file, or one of its bytes; now and then both."""
    known = KINDS.get(PurePath(path).suffix.lower(), lines)
    if rng.random() < 0.7:
        data = known(data, rng)
        if rng.random() < 0.9:
            return data
    return damaged(data, rng)


def damaged(data: bytes, rng: Generator) -> bytes:
    """Flipped, inserted, deleted, doubled or missing bytes."""
    kind = rng.integers(9)
    if not data or kind == 0:
        return bytes(rng.bytes(int(rng.integers(0, 400))))
    at = int(rng.integers(len(data)))
    length = int(min(len(data) - at, 2 ** rng.integers(0, 10)))
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + data[at + length:]
    if kind == 3:
        return data[:at] + bytes(rng.bytes(length)) + data[at:]
    if kind == 4:
        return data[:at] + bytes(length) + data[at + length:]
    if kind == 5:
        return data[:at] + data[at:at + length] * int(rng.integers(2, 6)) + data[at + length:]
    if kind == 6:
        return data[:at] + BYTES[rng.integers(len(BYTES))] + data[at:]
    if kind == 7:
        return data + data[at:]
    changed = bytearray(data)
    for place in rng.integers(len(data), size=2 ** rng.integers(0, 6)):
        changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def lines(data: bytes, rng: Generator) -> bytes:
    """A text by its lines: one is lost, doubled, moved, or has another word in it."""
    rows = data.split(b"\n")
    at = int(rng.integers(len(rows)))
    kind = rng.integers(7)
    if kind == 0:
        del rows[at]
    elif kind == 1:
        rows.insert(at, rows[int(rng.integers(len(rows)))])
    elif kind == 2:
        rng.shuffle(rows)  # type: ignore[arg-type]
    elif kind == 3:
        rows[at] = _bytes(rng)
    elif kind == 4:
        return b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")
    else:
        words = re.split(rb"([\s,;:=\"]+)", rows[at])
        words[int(rng.integers(len(words)))] = _bytes(rng)
        rows[at] = b"".join(words)
    return b"\n".join(rows)


def _bytes(rng: Generator) -> bytes:
    if rng.random() < 0.2:
        return BYTES[rng.integers(len(BYTES))]
    if rng.random() < 0.2:
        return RAW[rng.integers(len(RAW))].encode()
    return name(rng).encode()


def tree(data: bytes, rng: Generator) -> bytes:
    """JSON with another value, key or depth somewhere."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return lines(data, rng)
    mark = "\x01raw\x01"
    changed = _changed(content, rng, mark if rng.random() < 0.3 else None)
    text = json.dumps(changed, ensure_ascii=bool(rng.random() < 0.5))
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace(json.dumps(mark), RAW[rng.integers(len(RAW))]).encode("utf-8", "surrogatepass")


def _changed(content: Any, rng: Generator, new: Any = None) -> Any:
    """A tree of lists and dictionaries with one place changed."""
    places: list[tuple[Any, Any]] = []
    waiting = [content]
    while waiting:
        here = waiting.pop()
        entries = list(here.items()) if isinstance(here, dict) else list(enumerate(here))
        places += [(here, key) for key, _ in entries]
        waiting += [part for _, part in entries if isinstance(part, dict | list)]
    fresh = value(rng) if new is None else new
    if not places or rng.random() < 0.03:
        return fresh
    for _ in range(int(rng.integers(1, 3))):
        here, key = places[rng.integers(len(places))]
        kind = rng.integers(8)
        try:
            if kind == 0:
                del here[key]
            elif kind == 1 and isinstance(here, dict):
                here[name(rng)] = here.pop(key)
            elif kind == 1:
                here.append(here[key])
            elif kind == 2:
                here[key] = [here[key]]
            elif kind == 3:
                here[key] = str(here[key]) if not isinstance(here[key], str) else list(here[key])
            else:
                here[key] = fresh
        except (KeyError, IndexError):  # the first change has taken the place away
            continue
    return content


def json_lines(data: bytes, rng: Generator) -> bytes:
    rows = data.split(b"\n")
    at = int(rng.integers(len(rows)))
    rows[at] = tree(rows[at], rng) if rng.random() < 0.7 else lines(rows[at], rng)
    return b"\n".join(rows)


TOML = ("1979-05-27", "1979-05-27T07:32:00Z", "07:32:00", "inf", "nan", "-nan", "0xffffffffffffffffffff", "[[]]", "{}",
        "{a = {b = {c = 1}}}", "true", "'''a\nb'''", '"\\u0000"', '"\\u001b[31m"', '"[/bold]"', '""', "[]", "[1, 'a']",
        "9" * 5000, "1_0", "[" * 2000 + "]" * 2000, "{a=" * 2000 + "1" + "}" * 2000, "[" * 300 + "]" * 300, "1e400",
        '"a\\nb"', "-1", "0", "10000000000000000000000", "{power = [10, -400, 400]}", '{uniform = "x"}', "[[1], [2]]")


def toml(data: bytes, rng: Generator) -> bytes:
    """A line whose value, key or heading is another."""
    rows = data.decode(errors="surrogateescape").split("\n")
    with_value = [place for place, row in enumerate(rows) if "=" in row]
    kind = rng.integers(8)
    if not with_value or kind == 0:
        return lines(data, rng)
    at = with_value[rng.integers(len(with_value))]
    key, _, old = rows[at].partition("=")
    if kind == 1:
        rows[at] = f"{json.dumps(name(rng))} ={old}"
    elif kind == 2:
        rows.insert(at, rows[at])
    elif kind == 3:
        rows[at] = f"{key}= [{old}]"
    elif kind == 4:
        rows[at] = f"{key.strip()}." * int(rng.integers(1, 3000)) + f"a ={old}"
    elif kind == 5:
        rows[at] = f"{key}= {json.dumps(name(rng))}"
    else:
        rows[at] = f"{key}= {TOML[rng.integers(len(TOML))]}"
    return "\n".join(rows).encode(errors="surrogateescape")


def comma(data: bytes, rng: Generator) -> bytes:
    """A table of text with other cells, columns or names of columns."""
    text = data.decode(errors="surrogateescape")
    mark = max(",;\t", key=text.partition("\n")[0].count)
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=mark)]
    if not rows or not rows[0]:
        return lines(data, rng)
    at, kind = int(rng.integers(len(rows[0]))), rng.integers(11)
    row = rows[int(rng.integers(len(rows)))]
    if kind == 0:
        rows[0][at] = name(rng)
    elif kind == 1:
        rows[0][at] = rows[0][int(rng.integers(len(rows[0])))]
    elif kind == 2:
        rows = [one[:at] + one[at + 1:] for one in rows]
    elif kind == 3:
        rows = rows[:1]
    elif kind == 4:
        rows = [rows[0], *([[*one[:at], name(rng), *one[at + 1:]] for one in rows[1:]])]
    elif kind == 5:
        rows += [rows[int(rng.integers(len(rows)))]]
    elif kind == 6:
        return lines(data, rng)
    elif kind == 7 and at < len(row):
        row[at] = str(value(rng))[:6000]
    elif kind == 8:
        rows = [[*one, *(["x"] * 3000)] for one in rows]
    elif kind == 9 and at < len(row):
        row[at] = BYTES[rng.integers(len(BYTES))].decode(errors="surrogateescape")
    elif at < len(row):
        row[at] = name(rng)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark, lineterminator="\n", quoting=csv.QUOTE_MINIMAL, escapechar="\\")
    writer.writerows(rows)
    return out.getvalue().encode(errors="surrogateescape")


def parquet(data: bytes, rng: Generator) -> bytes:
    """A table with columns of other types, gaps, other names, doubled or dropped columns and rows."""
    try:
        table = pq.read_table(io.BytesIO(data))
    except Exception:  # it was damaged before
        return damaged(data, rng)
    kind = rng.integers(8)
    at = int(rng.integers(max(table.num_columns, 1)))
    if not table.num_columns or kind == 0:
        table = table.slice(0, int(rng.integers(table.num_rows + 1)))
    elif kind == 1:
        table = table.remove_column(at)
    elif kind == 2:
        names = list(table.column_names)
        names[at] = names[int(rng.integers(len(names)))] if rng.random() < 0.3 else name(rng)
        table = table.rename_columns(names)
    elif kind == 3:
        rows = rng.integers(0, max(table.num_rows, 1), table.num_rows)
        table = table.take(pa.array(rows)) if table.num_rows else table
    else:
        field = table.schema.field(at).name
        table = table.set_column(at, field, _column(table.column(at), rng))
    sink = io.BytesIO()
    try:
        pq.write_table(table, sink)
    except (pa.ArrowException, ValueError):  # what parquet cannot hold
        return damaged(data, rng)
    content = sink.getvalue()
    if kind == 2 and rng.random() < 0.3:  # the name of a column that is no UTF-8
        old = table.column_names[at].encode()
        return content.replace(old, (b"\xff\xfe" * len(old))[:len(old)]) if len(old) > 2 else content
    return content


def _column(old: pa.ChunkedArray, rng: Generator) -> pa.Array:
    """As many values of another type, or the same with a few of them replaced."""
    n = len(old)
    kind = rng.integers(18)
    if kind < 6 and n:  # a few others
        values = old.to_pylist()
        for place in rng.integers(n, size=int(rng.integers(1, 4))):
            values[place] = [name(rng), None, float("nan"), -1, 2**62, "", -0.5][rng.integers(7)]
        try:
            return pa.array(values, old.type)
        except (pa.ArrowException, TypeError, OverflowError):
            return pa.array([None if one is None else str(one) for one in values])
    words = [NAMES[k] for k in rng.integers(len(NAMES), size=n)]
    return [
        lambda: pa.nulls(n), lambda: pa.array(words), lambda: pa.array([one.encode() for one in words]),
        lambda: pa.array([BYTES[k] for k in rng.integers(len(BYTES), size=n)], pa.binary()),
        lambda: pa.Array.from_buffers(pa.string(), n, pa.array([b"\xff"] * n, pa.binary()).buffers()),
        lambda: pa.array(rng.integers(-3, 3, n)), lambda: pa.array(rng.normal(size=n)),
        lambda: pa.array([[1.0, 2.0]] * n), lambda: pa.array([{"a": 1}] * n), lambda: pa.array([True] * n),
        lambda: pa.array([0] * n, pa.timestamp("us")), lambda: pa.array(words).dictionary_encode(),
    ][kind - 6]()


def npy(data: bytes, rng: Generator) -> bytes:
    """An array of another type, shape or order, or one whose header promises something else."""
    kind = rng.integers(5)
    if kind < 2:
        head = (b"{'descr': '|u1', 'fortran_order': False, 'shape': (9000000000000,), }",
                b"{'descr': '|u1', 'fortran_order': False, 'shape': (-1,), }", b"{'descr': '|O', 'shape': (1,)}",
                b"[" * 9000, b"{" * 300 + b"}" * 300, b"{'descr': [('a', '<i4')], 'fortran_order': 0, 'shape': (1,)}",
                b"{'descr': '|u1', 'fortran_order': False, 'shape': (10**9,), }", b"'" * 100, b"\xff" * 64,
                b"{'descr': '<U99999999', 'fortran_order': False, 'shape': (2,), }", b"(" * 80)[rng.integers(11)]
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data[-100:]
    if kind == 2:
        return b"\x93NUMPY" + bytes(rng.integers(0, 4, 2).tolist()) + data[8:]
    try:
        old = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:  # it was damaged before
        return damaged(data, rng)
    changes: list[Callable[[], Any]] = [
        lambda: np.asfortranarray(old), lambda: old[..., None], lambda: old.reshape(-1), lambda: old[:0],
        lambda: old.astype(np.float64), lambda: old.astype(np.str_), lambda: old.astype(bool), lambda: np.array(1),
        lambda: old.astype(np.complex64), lambda: np.zeros(3, [("a", "i4")]), lambda: -old.astype(np.int64) - 1,
        lambda: old.astype(np.float64) * np.nan, lambda: np.array(["2020"], "M8[D]"),
        lambda: np.concatenate([old, old]), lambda: old[:1], lambda: old.astype(">i4"), lambda: old.astype("S3")]
    sink = io.BytesIO()
    try:
        with np.errstate(all="ignore"):
            np.save(sink, changes[rng.integers(len(changes))](), allow_pickle=False)
    except (ValueError, TypeError):
        return damaged(data, rng)
    return sink.getvalue()


def npz(data: bytes, rng: Generator) -> bytes:
    """An archive of which one member is another, is missing or lies about its length."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {one.filename: archive.read(one) for one in archive.infolist()}
    except Exception:  # it was damaged before
        return damaged(data, rng)
    chosen = list(members)[rng.integers(len(members))]
    kind = rng.integers(5)
    if kind == 0:
        del members[chosen]
    elif kind == 1:
        members[name(rng) or "x"] = members.pop(chosen)
    else:
        members[chosen] = npy(members[chosen], rng) if kind < 4 else damaged(members[chosen], rng)
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED if rng.random() < 0.5 else zipfile.ZIP_STORED) as archive:
        for key, content in members.items():
            archive.writestr(key, content)
    return sink.getvalue()


def packed(data: bytes, rng: Generator) -> bytes:
    """What is inside a gzip file, changed."""
    try:
        inner = gzip.decompress(data)
    except (OSError, EOFError):
        return damaged(data, rng)
    return gzip.compress(comma(inner, rng) if inner[:1].isascii() and rng.random() < 0.7 else damaged(inner, rng), 1)


def safetensors(data: bytes, rng: Generator) -> bytes:
    """Another header before the same numbers."""
    length = int.from_bytes(data[:8], "little")
    if length > len(data):
        return damaged(data, rng)
    header = tree(data[8:8 + length], rng)
    said = len(header) if rng.random() < 0.8 else int(rng.integers(0, 2**62))
    return said.to_bytes(8, "little") + header + data[8 + length:]


def pickled(data: bytes, rng: Generator) -> bytes:
    """Another content, in any protocol. The sound file is our own, so it may be loaded."""
    try:
        content = pickle.loads(data)  # noqa: S301
        plain = {key: sorted(members) for key, members in content.items()}
        return pickle.dumps(_changed(plain, rng), int(rng.integers(0, 6)))
    except Exception:  # it was damaged before, or cannot be sorted
        return damaged(data, rng)


def picture(data: bytes, rng: Generator) -> bytes:
    """An image of another mode or size, or one whose header promises more than there is."""
    kind = rng.integers(4)
    if kind == 0:
        return damaged(data, rng)
    if kind == 1:
        at = data.find(b"IHDR")
        size = struct.pack(">II", *(int(side) for side in rng.choice([0, 1, 60_000, 2**31 - 1], 2)))
        return data[:at + 4] + size + data[at + 12:] if at > 0 else damaged(data, rng)
    mode = ("1", "L", "LA", "P", "RGBA", "CMYK", "I;16", "F", "I")[rng.integers(9)]
    sides = tuple(int(side) for side in rng.choice([1, 3, 16, 500], 2))
    sink = io.BytesIO()
    try:
        Image.new(mode, sides).save(sink, ("PNG", "JPEG", "TIFF", "GIF", "BMP")[rng.integers(5)])
    except (OSError, KeyError, ValueError):
        return damaged(data, rng)
    return sink.getvalue()


KINDS: dict[str, Mutation] = {
    ".json": tree, ".jsonl": json_lines, ".toml": toml, ".csv": comma, ".tsv": comma, ".parquet": parquet, ".npy": npy,
    ".npz": npz, ".gz": packed, ".safetensors": safetensors, ".pkl": pickled, ".h5": damaged, ".mat": damaged,
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".JPEG".lower()), picture),
}
