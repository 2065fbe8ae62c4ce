"""Facts that others published: what BREEDS' public code chooses, and the superclasses of Huh, Agrawal and Efros.

`wordnet.csv` is WordNet 3.0 (© 2006 Princeton University, https://wordnet.princeton.edu/license-and-commercial-use)
above the thousand classes of ILSVRC 2012, with the first word of most synsets. `breeds_groups.json` has, for every
superclass of BREEDS' four tasks, which classes of ImageNet are below which of its children.
"""

import hashlib
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.hierarchies.hierarchy import Hierarchy, best_cut
from shiftbench.hierarchies.sides import child_groups
from shiftbench.hierarchies.sources import open_hierarchy
from shiftbench.hierarchies.superclasses import CLUSTERS, TASKS, clusters, named_task, superclasses
from tests.hierarchies.test_hierarchy import graphs, leaves_under, paths

HERE = Path(__file__).parent
REAL = HERE.parents[2] / "shared" / "data" / "breeds"
published = pytest.mark.skipif(not REAL.is_dir(), reason="needs the authors' files beside the checkout")


@pytest.fixture(scope="module")
def wordnet():
    return open_hierarchy(HERE / "wordnet.csv")


def digest(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]


# BREEDS' public code

GOLDEN = {
    "entity13": "3e3e527b eb9c4586 b6e54f85 2d77c204",
    "entity30": "c4a01ae7 23049e17 ec12f27c 66b40bb7",
    "living17": "05be28aa 21f23a77 88a6a092 2a395720",
    "nonliving26": "2a4d9585 36f394b7 08aa7c64 4dedccf1",
}
"""SHA-256 of [superclasses, source, target] as the public code gives them: rand, good, bad, none."""


def rebuilt(task):
    """A hierarchy in which the superclasses of a task have the authors' child groups, at the task's level."""
    groups = json.loads((HERE / "breeds_groups.json").read_text())[task]
    chain = ["n00001740", TASKS[task].root, *(f"d{level}" for level in range(TASKS[task].level))]
    chain = list(dict.fromkeys(chain))[: TASKS[task].level]
    edges = list(pairwise(chain))
    for node, below in groups.items():
        edges.append((chain[-1], node))
        for number, leaves in enumerate(below):
            child = f"{node} {number:03d}"  # groups of equal size are taken in the order of their ids
            edges += [(node, child), *((child, leaf) for leaf in leaves)]
    return Hierarchy.of(edges)


@pytest.mark.parametrize("task", TASKS)
def test_the_choice_is_that_of_the_public_code(task):
    """From the authors' child groups, compat chooses what their code gives, to the letter, for all four splits, and
    its random split is the built-in table."""
    hierarchy = rebuilt(task)
    chosen = [named_task(task, hierarchy, split, compat="breeds") for split in ("rand", "good", "bad", "none")]
    assert " ".join(digest([one.nodes, one.source, one.target]) for one in chosen) == GOLDEN[task]
    table = named_task(task)
    assert (chosen[0].nodes, chosen[0].source, chosen[0].target) == (table.nodes, table.source, table.target)


@pytest.mark.real
@published
def test_the_authors_files_have_the_published_numbers():
    """1,328 nodes in a tree of nine levels, 890 of ImageNet's classes."""
    hierarchy = open_hierarchy(REAL)
    assert (len(hierarchy), int(hierarchy.is_leaf.sum()), len(hierarchy.missing)) == (1328, 890, 110)
    assert np.bincount(hierarchy.levels).tolist() == [1, 2, 10, 29, 128, 466, 591, 98, 3]
    assert not len(hierarchy.several_parents)
    assert hierarchy.title("n00004258") == "living thing"
    assert best_cut(hierarchy).level == 4


@pytest.mark.real
@published
@pytest.mark.parametrize("task", TASKS)
def test_the_authors_files_give_the_papers_tables(task):
    """Computed from the authors' files with compat, the random split is the built-in one with its names; the other
    splits are halves of as many subclasses without repairs, bad further apart than good; child groups are those kept
    here."""
    hierarchy = open_hierarchy(REAL)
    chosen = {split: named_task(task, hierarchy, split, compat="breeds") for split in ("rand", "good", "bad", "none")}
    table = named_task(task)
    assert (chosen["rand"].nodes, chosen["rand"].source, chosen["rand"].target, chosen["rand"].titles) == (
        table.nodes, table.source, table.target, table.titles)
    assert {one.nodes for one in chosen.values()} == {table.nodes}
    for split in ("good", "bad"):
        assert {len(side) for side in (*chosen[split].source, *chosen[split].target)} == {TASKS[task].subclasses // 2}
        assert not any("repaired" in note for note in chosen[split].notes)
    assert {len(side) for side in chosen["none"].source} == {TASKS[task].subclasses}
    assert np.mean(chosen["good"].separation) < np.mean(chosen["bad"].separation)
    assert " ".join(digest([one.nodes, one.source, one.target]) for one in chosen.values()) == GOLDEN[task]
    kept = json.loads((HERE / "breeds_groups.json").read_text())[task]
    assert kept == {node: child_groups(hierarchy, hierarchy.code(node)) for node in table.nodes}


@pytest.mark.real
@published
@pytest.mark.parametrize("split", ["rand", "good", "bad", "none"])
def test_a_task_from_the_authors_files_is_one_command(shell, split):
    """The command of the paper's tables."""
    code, out, _ = shell("hierarchy", str(REAL), "--task", "living17", "--split", split, "--compat", "breeds", "--json")
    facts = json.loads(out)
    assert code == 0
    assert len(facts["superclasses"]) == 17
    assert {len(side) for side in facts["source"]} == {4 if split == "none" else 2}


# WordNet, and the clusters of Huh et al.

def test_wordnet_has_the_overlap_that_the_paper_counts(wordnet):
    """Over ImageNet's classes: 1,860 nodes, 75 with several parents; covering and commodity share 49 classes (A.3)."""
    assert (len(wordnet), len(wordnet.several_parents), int(wordnet.is_leaf.sum())) == (1860, 75, 1000)
    both = [set(wordnet.leaves_below(wordnet.code(name)).tolist()) for name in ("covering", "commodity")]
    assert len(both[0] & both[1]) == 49


HUH = {
    "down-up": "1 512cae3e 2 776138fd 5 d13e8c78 9 d78c31cc 17 7f328191 36 a558bbc6 79 ceefb643 206 3cb6d82b "
               "345 ac88e7e1 486 4f539e5a 596 4be38114 694 28b86f0a 753 4848eca7 820 997b6075 877 08ebd578 "
               "918 49080bfe 977 a6db4d1b 999 b39a63d5",
    "up-down": "127 286474e6 10 5c3d77a3 2 776138fd",
}
"""Their published label sets, label_sets/hierarchy of github.com/minyoungg/wmigftl: how many clusters, and SHA-256 of
{node: classes}; down-up from level 0 on, up-down from level 1 on."""


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_clusters_of_wordnet_are_the_published_ones(wordnet, cluster):
    """All 21 label sets of Huh et al., class by class."""
    facts = HUH[cluster].split()
    for level, (count, published_digest) in enumerate(zip(facts[::2], facts[1::2], strict=True),
                                                      int(cluster == "up-down")):
        own = clusters(wordnet, cluster, level)
        assert len(own) == int(count)
        assert digest({str(wordnet.nodes[node]): leaves for node, leaves in sorted(own.items())}) == published_digest


def test_the_papers_baselines_have_about_as_many_superclasses_as_its_tasks(wordnet):
    """A.6: with four classes or more, DOWNUP-36, UPDOWN-127, living DOWNUP-753 and artifacts of DOWNUP-345 have 11, 28,
    15 and 21 superclasses; Table 7's largest are among the first."""
    baselines = [("down-up", 5, ""), ("up-down", 1, ""), ("down-up", 12, "living thing"), ("down-up", 8, "artifact")]
    chosen = [superclasses(wordnet, level, root, 4, cluster=cluster) for cluster, level, root in baselines]
    assert [len(one) for one in chosen] == [11, 28, 15, 21]
    assert {"instrumentality", "structure", "covering", "commodity", "organism", "produce"} <= {
        chosen[0].title(node) for node in chosen[0].nodes}
    assert {len(side) for one in chosen for side in (*one.source, *one.target)} == {2}


@given(graphs(), st.integers(0, 6))
@settings(max_examples=40, deadline=None)
def test_clusters_part_the_leaves(edges, level):
    """Every leaf is in one cluster, below its node; no cluster is within another of up-down; none of down-up is deeper
    than the level, and in a tree each is what a level's node reaches."""
    hierarchy = Hierarchy.of(edges)
    down, _ = paths(edges)
    for cluster in CLUSTERS:
        own = {str(hierarchy.nodes[node]): leaves for node, leaves in clusters(hierarchy, cluster, level).items()}
        every = [leaf for leaves in own.values() for leaf in leaves]
        assert sorted(every) == hierarchy.nodes[hierarchy.is_leaf].tolist()
        for node, leaves in own.items():
            assert set(leaves) <= leaves_under(node, down)
        if not len(hierarchy.several_parents):
            for node, leaves in own.items():
                assert set(leaves) == leaves_under(node, down)
                if cluster == "down-up":
                    depth = int(hierarchy.levels[hierarchy.code(node)])
                    assert depth == level or (depth < level and leaves == [node])


def test_the_first_parent_is_the_first_by_name():
    """Of several parents the one that is first in the alphabet counts, whatever its id."""
    hierarchy = Hierarchy.of([("r", "a"), ("r", "b"), ("a", "x"), ("b", "x"), ("a", "y"), ("b", "z")],
                             names={"a": "vehicle", "b": "Toy"})
    assert clusters(hierarchy, "up-down", 1) == {hierarchy.code("a"): ["y"], hierarchy.code("b"): ["x", "z"]}
    assert clusters(hierarchy, "down-up", 1) == clusters(hierarchy, "up-down", 1)


def test_clusters_are_a_command(shell, tmp_path):
    """--cluster goes with --level; what does not fit is one line."""
    (tmp_path / "h.txt").write_text("r a\nr b\na x\na y\nb z\nb c\nc v\nc w\n")
    code, out, _ = shell("hierarchy", str(tmp_path / "h.txt"), "--cluster", "up-down", "--level", "1", "--json")
    assert code == 0
    assert dict(zip(json.loads(out)["superclasses"], json.loads(out)["source"], strict=True)) == {
        "a": ["x", "y"], "b": ["v", "w", "z"]}
    for wrong, message in ((("--cluster", "sideways", "--level", "1"), "No cluster named 'sideways'"),
                           (("--cluster", "up-down"), "--cluster needs a level"),
                           (("--cluster", "up-down", "--task", "living17"), "has its own superclasses"),
                           (("--cluster", "up-down", "--level", "1", "--compat", "breeds"), "does not go with compat"),
                           (("--cluster", "down-up", "--level", "-1"), "0 or more steps"),
                           (("--cluster", "down-up", "--level", "1", "--root", "x"), "is under 'x'")):
        code, _, problem = shell("hierarchy", str(tmp_path / "h.txt"), *wrong)
        assert code == 1, wrong
        assert message in problem
    with pytest.raises(ShiftBenchError, match="No cluster named"):
        clusters(open_hierarchy(tmp_path / "h.txt"), "x", 1)
