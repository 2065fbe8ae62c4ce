"""Edits of a hierarchy, and the files that one is read from."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.hierarchies.hierarchy import Hierarchy
from shiftbench.hierarchies.sources import edited, open_hierarchy
from tests.hierarchies.test_hierarchy import graphs, paths, quick, wide


@given(graphs(), st.lists(st.tuples(st.sampled_from(["collapse", "insert", "delete", "add"]), st.integers(0, 99),
                                    st.integers(0, 99)), max_size=5))
@quick
def test_edits_leave_a_sound_hierarchy_or_say_why_not(edges, moves):
    """Whatever the script: no cycle, no new root but one inserted above a root, no leaf that was not one, and every
    node above a leaf."""
    made = Hierarchy.of(edges)
    nodes = made.nodes.tolist()
    pick = [(verb, nodes[one % len(nodes)], nodes[other % len(nodes)]) for verb, one, other in moves]
    script = [{"insert": f"new{k}", "above": one} if verb == "insert" else {"add": one, "under": other}
              if verb == "add" else {verb: one} for k, (verb, one, other) in enumerate(pick)]
    try:
        found = edited(made, script)
    except ShiftBenchError:  # an orphan, a cycle, a root gone
        return
    assert (found.levels >= 0).all()
    assert set(found.nodes[found.is_leaf]) <= set(made.nodes[made.is_leaf])
    assert (found.sizes > 0).all()
    old_roots = set(made.nodes[made.roots])
    for node in found.nodes[found.roots].tolist():
        assert node in old_roots or node.startswith("new") or any(verb == "collapse" for verb, _, _ in pick)


def test_each_edit_does_what_the_paper_says(tmp_path):
    """Collapse joins parents and children, insert pushes a node down a level, delete and add move a child."""
    made = wide(2, 2)
    collapsed = edited(made, [{"collapse": "a0"}])
    assert {("a", "a00"), ("a", "a01")} <= set(collapsed.edges())
    assert "a0" not in collapsed.nodes
    pushed = edited(made, [{"insert": "dummy", "above": "b", "name": "a dummy"}])
    assert pushed.levels[pushed.code("b")] == 2
    assert pushed.levels[pushed.code("a")] == 1
    assert pushed.title("dummy") == "a dummy"
    (tmp_path / "edits.toml").write_text('tree = true\n[[edit]]\ndelete = "c1"\n[[edit]]\nadd = "c10"\nunder = "c0"\n'
                                         '[[edit]]\ndelete = "c11"\n')
    moved = edited(made, tmp_path / "edits.toml")
    assert ("c0", "c10") in moved.edges()
    assert set(made.nodes) - set(moved.nodes) == {"c1", "c11"}
    gone = edited(made, [{"delete": "a00"}, {"delete": "a01"}])
    assert "a0" not in gone.nodes  # a node without a class below it would pass for a class


@pytest.mark.parametrize(("script", "said"), [
    ([{"delete": "a0"}], "'a00' and 1 more would have no parent left"),
    ([{"delete": leaf} for leaf in wide(2, 2).nodes[wide(2, 2).is_leaf].tolist()], "no class would be left"),
    ([{"add": "root", "under": "a00"}], "'a00' is below 'root', so this edge would close a cycle"),
    ([{"collapse": "root"}], "is a root"),
    ([{"collapse": "a9"}], "edit 1: No node named 'a9'"),
    ([{"insert": "b", "above": "a"}], "there is a node 'b' already"),
    ([{"insert": "x"}], "'insert' needs 'above' as well"),
    ([{"collapse": "a", "delete": "b"}], "needs just one of collapse, insert, delete, add"),
    ([{"delete": "a", "under": "b"}], "No key named 'under'"),
    (["a"], "an edit is a table"),
])
def test_a_bad_edit_is_named_by_its_number(script, said):
    """What is wrong, in which edit, and what would do."""
    with pytest.raises(ShiftBenchError) as problem:
        edited(wide(2, 2), script)
    assert said in str(problem.value)


def test_a_tree_is_asked_for_and_checked():
    """With tree=True a second parent is refused."""
    with pytest.raises(ShiftBenchError, match="'a00' has the parents a0, b0"):
        edited(wide(2, 2), [{"add": "a00", "under": "b0"}], tree=True)


def test_every_file_format_says_the_same(tmp_path):
    """CSV, JSON in both forms, text and a saved collection give one hierarchy."""
    made = wide(2, 3)
    edges = made.edges()
    (tmp_path / "h.csv").write_text("child,parent,name\n" + "".join(f"{b},{a},the {b}\n" for a, b in edges))
    (tmp_path / "pairs.json").write_text(json.dumps(edges))
    down, up = paths(edges)
    (tmp_path / "down.json").write_text(json.dumps({node: sorted(below) for node, below in down.items()}))
    (tmp_path / "h.txt").write_text("".join(f"{a}\t{b}\n" for a, b in edges))
    Collection("c", np.asarray(["x"]), parents={node: tuple(sorted(above)) for node, above in up.items()}).save(
        tmp_path / "c")
    for name in ("h.csv", "pairs.json", "down.json", "h.txt", "c"):
        assert open_hierarchy(tmp_path / name).digest == made.digest
    assert open_hierarchy(tmp_path / "h.csv").title("a0") == "the a0"
    assert open_hierarchy(tmp_path / "h.csv").code("the a0") == made.code("a0")


@pytest.mark.parametrize(("name", "text", "said"), [
    ("h.csv", "parent,kid\na,b\n", "No column named 'child'"),
    ("h.csv", "parent,child\na,\n", "line 2 lacks"),
    ("h.json", '{"a": "b"}', "must be"),
    ("h.json", '[["a", 1]]', "must be"),
    ("h.json", '[["a"', "not valid JSON"),
    ("h.txt", "a b c\n", "line 1 is 'a b c'"),
    ("h.json", '[["a", ""]]', "must be"),
    ("h.txt", "a\t \n", "line 1 is"),
    ("h.txt", "", "has no edges"),
    ("h.txt", "a a\n", "cycle, a → a"),
    ("h.xml", "a b", "holds no hierarchy"),
])
def test_a_bad_file_is_named_with_its_place(tmp_path, name, text, said):
    """Malformed, empty and foreign files."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ShiftBenchError) as problem:
        open_hierarchy(tmp_path / name)
    assert said in str(problem.value)
    assert str(tmp_path / name) in str(problem.value)


def noun(folder, version="3.0", licence=True):
    """A data.noun of WordNet's format: every offset is the byte at which its line begins."""
    synsets = [("entity", (), "@"), ("living_thing", ("entity",), "@"), ("artifact", ("entity",), "@"),
               ("dog", ("living_thing",), "@"), ("cat", ("living_thing",), "@"), ("Laika", ("dog",), "@i"),
               ("poodle", ("dog",), "@"), ("cup", ("artifact",), "@"), ("toy_poodle", ("poodle", "artifact"), "@")]
    head = f"  1 This software and database is being provided to you  \n  2 WordNet {version} Copyright 2006  \n"
    text, offsets = (head if licence else ""), {}
    for word, above, symbol in synsets:
        offsets[word] = len(text.encode())
        pointers = "".join(f" {symbol} {offsets[one]:08d} n 0000" for one in above) + " ~ 00000000 n 0000"
        text += (f"{offsets[word]:08d} 03 n 02 {word} 0 other_{word} a {len(above) + 1:03d}{pointers} | a gloss with @ "
                 f"{offsets['entity']:08d} n\n")
    folder.mkdir(exist_ok=True)
    (folder / "data.noun").write_text(text)
    return {word: f"n{place:08d}" for word, place in offsets.items()}


def test_wordnet_is_read_by_its_pointers(tmp_path):
    """Hypernyms and instance hypernyms become edges, words names, byte offsets ids; a gloss says nothing."""
    ids = noun(tmp_path / "wn")
    made = open_hierarchy(tmp_path / "wn")
    assert set(made.nodes) == set(ids.values())
    assert len(made.edges()) == 9
    assert (ids["dog"], ids["Laika"]) in made.edges()
    assert made.names[ids["toy_poodle"]] == "toy poodle, other toy poodle"
    assert made.levels[made.code(ids["toy_poodle"])] == 4
    assert made.nodes[made.several_parents].tolist() == [ids["toy_poodle"]]
    only = open_hierarchy(tmp_path / "wn", [ids["cat"], ids["cup"]])
    assert set(only.nodes) == {ids[word] for word in ("entity", "living_thing", "artifact", "cat", "cup")}


def test_another_wordnet_is_refused(tmp_path):
    """3.1 by its licence, and a file without one whose dog is not where 3.0 has it."""
    noun(tmp_path / "new", "3.1")
    with pytest.raises(ShiftBenchError, match=r"is WordNet 3\.1, but ImageNet's ids are offsets of WordNet 3\.0"):
        open_hierarchy(tmp_path / "new")
    noun(tmp_path / "bare", licence=False)
    with pytest.raises(ShiftBenchError, match="WordNet unknown"):
        open_hierarchy(tmp_path / "bare")


def test_a_damaged_wordnet_is_named_by_its_line(tmp_path):
    """Cut off in a line, or a parent that is not there."""
    noun(tmp_path / "wn")
    file = tmp_path / "wn" / "data.noun"
    text = file.read_text()
    file.write_text(text[: text.rindex("poodle 0 other")])
    with pytest.raises(ShiftBenchError, match=r"data\.noun: line 11 is not a synset"):
        open_hierarchy(tmp_path / "wn")
    file.write_text("\n".join(line for line in text.splitlines() if " dog 0 " not in line))
    with pytest.raises(ShiftBenchError, match="not in the file"):
        open_hierarchy(tmp_path / "wn")
