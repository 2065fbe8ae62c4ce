"""Damaged files: whatever is wrong, a command ends with one message and exit code 1, never with a traceback."""

import json

import numpy as np
import pytest

VALUES = (None, 5, "x", [], {}, [1, 2], {"a": 1})


def damaged(data, name):
    """Versions of a file that no reader should trip over."""
    yield b""
    for keep in (1, 7, len(data) // 2, len(data) - 3):
        yield data[:keep]
    yield np.random.default_rng(0).bytes(300)
    yield bytes(byte ^ 0x55 if place % 97 == 5 else byte for place, byte in enumerate(data))
    if name.endswith(".json"):
        facts = json.loads(data)
        for key in facts:
            yield from (json.dumps({**facts, key: value}).encode() for value in VALUES)
            yield json.dumps({other: facts[other] for other in facts if other != key}).encode()
        yield from (b"[]", b"3", b"null")


@pytest.mark.slow
@pytest.mark.parametrize("file", ["toy/collection.json", "toy/items.parquet", "toy/tags.parquet", "toy/texts.parquet",
                                  "toy/parents.parquet", "b/benchmark.json", "b/rows.parquet", "recipe.toml"])
def test_no_damage_ends_in_a_traceback(shell, project, file):
    """Cut off, garbled, emptied or with wrong types inside: `show` and `build` end with 0 or with 1 and one line."""
    assert shell("build", "recipe.toml", "--out", "b", "--quiet")[0] == 0
    path = project / file
    sound = path.read_bytes()
    commands = [["build", "recipe.toml", "--out", "made", "--quiet"]]
    if file != "recipe.toml":
        commands.append(["show", path.parent])
    for content in damaged(sound, path.name):
        path.write_bytes(content)
        for words in commands:
            code, _, err = shell(*words)
            assert code in (0, 1), (words, content[:80], err)
            assert err.count("\n") == code, (words, content[:80], err)
    path.write_bytes(sound)
    assert shell(*commands[0])[0] == 0


@pytest.mark.parametrize("content", [b"\xff\xfe\x00i", "item,prediction\ni0000,caf\xe9\n".encode("latin-1"),
                                     b"item,cat,dog\ni0000,1e999,0\n", b"item,item\ni0000,i0001\n",
                                     b"item;prediction\ni0000;cat\n", b'item,prediction\n"i0000,cat\n'])
def test_strange_csv_files_are_one_message(shell, project, content):
    """Other encodings, other separators, infinite scores, open quotes."""
    shell("build", "recipe.toml", "--out", "b", "--quiet")
    (project / "p.csv").write_bytes(content)
    code, _, err = shell("score", "b", "p.csv")
    assert code == 1
    assert err.count("\n") == 1
    assert "p.csv" in err
