"""Class hierarchies: what is read is what the files say, edits keep it sound, and superclasses are cut as stated."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import shiftbench as sb
from shiftbench.core.errors import ShiftBenchError
from shiftbench.hierarchies.hierarchy import Hierarchy, best_cut, cuts, facts
from shiftbench.hierarchies.sides import by_kinship, child_groups, separation
from shiftbench.hierarchies.superclasses import TASKS, named_task, superclasses
from tests.strategies import seeds

quick = settings(max_examples=40, deadline=None)


@st.composite
def graphs(draw, most=24, parents=3):
    """Edges of a connected DAG whose ids say nothing about its order; with parents=1, of a tree."""
    n = draw(st.integers(2, most))
    names = draw(st.permutations([f"n{k:02d}" for k in range(n)]))
    edges = []
    for k in range(1, n):
        above = draw(st.sets(st.integers(0, k - 1), min_size=1, max_size=parents))
        edges += [(names[p], names[k]) for p in above]
    return edges


def wide(groups, per_group, superclass=("a", "b", "c")):
    """A tree of three levels: superclasses, child groups, subclasses."""
    edges = [("root", name) for name in superclass]
    for name in superclass:
        edges += [(name, f"{name}{g}") for g in range(groups)]
        edges += [(f"{name}{g}", f"{name}{g}{k}") for g in range(groups) for k in range(per_group)]
    return Hierarchy.of(edges)


def paths(edges):
    """Children and parents of every node as plain sets."""
    down, up = {}, {}
    for above, below in edges:
        down.setdefault(above, set()).add(below)
        up.setdefault(below, set()).add(above)
    return down, up


def leaves_under(node, down):
    return {node} if node not in down else set().union(*(leaves_under(child, down) for child in down[node]))


@given(graphs())
@quick
def test_levels_are_longest_paths_and_leaves_are_what_a_node_reaches(edges):
    """Arrays agree with the definitions: level = 1 + the highest parent's, leaves = terminal nodes below."""
    made = Hierarchy.of(edges)
    down, up = paths(edges)

    def level(node):
        return 1 + max(map(level, up[node])) if node in up else 0

    for code, node in enumerate(made.nodes.tolist()):
        assert made.levels[code] == level(node)
        assert set(made.nodes[made.leaves_below(code)]) == leaves_under(node, down)
        assert made.sizes[code] == len(leaves_under(node, down))
        assert set(made.nodes[made.children(code)]) == down.get(node, set())
        assert set(made.nodes[made.parents(code)]) == up.get(node, set())
    assert set(made.nodes[made.several_parents]) == {node for node in up if len(up[node]) > 1}


@given(graphs(), st.data())
@quick
def test_a_cycle_is_refused_and_shown(edges, data):
    """Closing any path gives an error that walks along edges and ends where it began."""
    down, _ = paths(edges)
    below, above = data.draw(st.sampled_from(edges))[::-1]
    chain = [below]
    while chain[-1] in down and data.draw(st.booleans()):
        chain.append(sorted(down[chain[-1]])[0])
    closed = {*edges, (chain[-1], above)}
    with pytest.raises(ShiftBenchError, match="cycle") as problem:
        Hierarchy.of(closed)
    ring = str(problem.value).partition("cycle, ")[2].partition(". Remove")[0].split(" → ")
    assert ring[0] == ring[-1]
    if len(ring) < 11:
        assert set(pairwise(ring)) <= closed


@given(graphs(), st.data())
@quick
def test_naming_the_leaves_keeps_them_and_what_is_above(edges, data):
    """Ancestors of the classes stay, all else goes, and classes without a node are listed."""
    whole = Hierarchy.of(edges)
    wanted = data.draw(st.sets(st.sampled_from(whole.nodes.tolist()), min_size=1))
    made = Hierarchy.of(edges, leaves=[*wanted, "elsewhere"])
    above = {str(node) for code, node in enumerate(whole.nodes) if wanted & set(whole.nodes[whole.below(code)])}
    assert made.missing == ("elsewhere",)
    assert set(made.nodes[made.is_leaf]) == wanted
    assert set(made.nodes) == above
    assert whole.only(wanted).digest == made.digest


@given(graphs(), seeds, st.sampled_from(["rand", "good", "bad", "none"]), st.booleans(),
       st.sampled_from(["", "breeds"]), st.integers(0, 6), st.data())
@quick
def test_superclasses_share_nothing_and_have_equal_halves(edges, seed, split, balanced, compat, asked, data):
    """Of any DAG, level and split: subclasses lie under their superclass, halves are disjoint and equally large, and a
    seed fixes all."""
    made = Hierarchy.of(edges)
    level = data.draw(st.integers(0, int(made.levels.max())))
    terms = {"subclasses": asked or None, "split": split, "balanced": balanced, "seed": seed, "compat": compat}
    try:
        found = superclasses(made, level, **terms)
    except ShiftBenchError:  # too few leaves; what is said then has a test of its own
        return
    down, _ = paths(edges)
    assert found == superclasses(made, level, **terms)
    assert list(found.nodes) == sorted(found.nodes)
    for node, source, target in zip(found.nodes, found.source, found.target, strict=True):
        assert made.levels[made.code(node)] == level
        assert {*source, *target} <= leaves_under(node, down)
        assert len({*source, *target}) == len(source) + len(target)
        assert not target if split == "none" else len(source) == len(target)
    if balanced and not compat:
        assert len({len(side) for side in found.source}) == 1
    if not compat:
        used = [leaf for side in (*found.source, *found.target) for leaf in side]
        assert len(used) == len(set(used))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 12), seeds)
@quick
def test_adversariality_moves_the_sides_apart_without_changing_who_takes_part(groups, per_group, half, seed):
    """The separation never falls as adversariality rises, good is its least and bad its greatest value, and the
    subclasses are the same throughout."""
    half = min(half, groups * per_group // 2)
    assume(half)
    kin = child_groups(wide(groups, per_group), wide(groups, per_group).code("a"))
    steps = [by_kinship(kin, half, share, np.random.default_rng(seed)) for share in (0, 0.2, 0.4, 0.6, 0.8, 1)]
    apart = [separation(kin, sides) for sides in steps]
    assert all(one <= other + 1e-12 for one, other in pairwise(apart))
    assert len({frozenset([*source, *target]) for source, target in steps}) == 1
    assert all(len(source) == len(target) == half for source, target in steps)
    for group in kin:  # at 0 no group has two more on one side than on the other
        assert abs(len(set(group) & set(steps[0][0])) - len(set(group) & set(steps[0][1]))) <= 1
    if groups % 2 == 0 and half == groups * per_group // 2:
        assert apart[-1] == 1


def test_named_splits_are_the_ends_of_the_scale():
    """good is adversariality 0 and bad is 1; in between lies in between; they cannot be mixed."""
    made = wide(4, 4)
    ends = {share: superclasses(made, 1, subclasses=8, adversariality=share) for share in (0.0, 0.5, 1.0)}
    assert superclasses(made, 1, subclasses=8, split="good").source == ends[0.0].source
    assert superclasses(made, 1, subclasses=8, split="bad").source == ends[1.0].source
    assert [one.separation for one in ends.values()] == [(0.0,) * 3, (0.5,) * 3, (1.0,) * 3]
    for wrong in ({"split": "bad"}, {"compat": "breeds"}):
        with pytest.raises(ShiftBenchError, match="Leave one of the two out"):
            superclasses(made, 1, adversariality=0.5, **wrong)
    with pytest.raises(ShiftBenchError, match="between 0"):
        superclasses(made, 1, adversariality=1.5)


@given(seeds)
@quick
def test_a_superclass_draws_from_a_stream_of_its_own(seed):
    """Without one superclass the others keep their subclasses."""
    whole, part = wide(3, 3), wide(3, 3, ("a", "c"))
    first = dict(zip(superclasses(whole, 1, subclasses=6, seed=seed).nodes,
                     superclasses(whole, 1, subclasses=6, seed=seed).source, strict=True))
    second = superclasses(part, 1, subclasses=6, seed=seed)
    assert [first[node] for node in second.nodes] == list(second.source)


def test_what_cannot_be_halved_is_repaired_and_said():
    """Odd numbers, a subclass under two superclasses, and the public code's own failure: never an assertion."""
    made = wide(3, 3)
    odd = superclasses(made, 1, subclasses=7)
    assert {len(side) for side in odd.source} == {3}
    assert "7 subclasses cannot be halved; 6 are used." in odd.notes
    left = superclasses(made, 1, balanced=False)
    assert {len(side) for side in (*left.source, *left.target)} == {4}
    assert sum("one is left out so that both sides have 4" in note for note in left.notes) == 3
    shared = Hierarchy.of([*made.edges(), ("b0", "a00")])
    found = superclasses(shared, 1, balanced=False)
    assert "a00" not in found.subclasses
    assert "1 subclass is below two superclasses and left out: a00." in found.notes
    singles = Hierarchy.of([("root", "a"), ("root", "b"), *((x, f"{x}{k}") for x in "ab" for k in range(5)),
                            *((f"{x}0", f"{x}0{k}") for x in "ab" for k in range(2))])
    public = superclasses(singles, 1, balanced=False, split="good", compat="breeds")
    assert all(len(one) == len(other) for one, other in zip(public.source, public.target, strict=True))


@pytest.mark.parametrize(("asked", "said"), [
    ({"level": 9}, "level 9 has no nodes. Levels there: 0 to 3; the nearest is 3"),
    ({"level": 1, "root": "b0"}, "level 1 has no nodes under 'b0'. Levels there: 2 to 3; the nearest is 2"),
    ({"level": 1, "root": "rot"}, "No node named 'rot'. Did you mean 'root'"),
    ({"level": 1, "subclasses": 40}, "the largest has 9. With subclasses = 8 there are 3 superclasses"),
    ({"level": 3}, "no node of level 3 has 2 subclasses"),
    ({"level": 1, "subclasses": 1}, "needs at least 2"),
    ({"level": 1, "split": "random"}, "No split named 'random'. Did you mean 'rand'"),
    ({"level": 1, "compat": "breed"}, "No compat named 'breed'"),
])
def test_a_request_that_cannot_be_met_names_the_nearest_that_can(asked, said):
    """Missing root, unknown node, empty level, too few leaves."""
    with pytest.raises(ShiftBenchError) as problem:
        superclasses(wide(3, 3), **asked)
    assert said in str(problem.value)


def test_the_proposed_level_is_the_most_balanced():
    """A level of equal superclasses over all leaves has balance 1; where one has most of the leaves it is lower."""
    known = cuts(wide(4, 2))
    assert [cut.superclasses for cut in known] == [1, 3, 12, 0]
    assert [cut.nodes for cut in known] == [1, 3, 12, 24]
    assert known[1].balance == pytest.approx(1)
    assert best_cut(wide(4, 2)).level == 1
    lopsided = Hierarchy.of([*wide(2, 4).edges(), *(("a0", f"more{k}") for k in range(60))])
    assert cuts(lopsided)[1].balance < 0.7
    told = facts(lopsided)
    assert (told["nodes"], told["leaves"], told["tree"]) == (len(lopsided), 84, True)
    with pytest.raises(ShiftBenchError, match="nothing to cut"):
        best_cut(Hierarchy.of([("root", "a"), ("root", "b")]))


def test_named_tasks_are_built_in():
    """Tables 8 to 11: so many superclasses, so many subclasses on each side, none twice."""
    for name, task in TASKS.items():
        found = named_task(name)
        assert len(found) == int("".join(filter(str.isdigit, name)))
        assert {len(side) for side in (*found.source, *found.target)} == {task.subclasses // 2}
        assert len(found.subclasses) == len(found) * task.subclasses
        assert all(node.startswith("n") and len(node) == 9 for node in found.subclasses)
    first = named_task("LIVING-17")
    assert [first.title(node) for node in (first.nodes[0], *first.source[0], *first.target[0])] == [
        "salamander", "eft", "axolotl", "common newt", "spotted salamander"]
    with pytest.raises(ShiftBenchError, match="Did you mean 'living17'"):
        named_task("living18")
    with pytest.raises(ShiftBenchError, match="'bad' needs the hierarchy"):
        named_task("living17", split="bad")


def test_the_command_line_prints_superclasses(shell, tmp_path):
    """JSON as the contract has it, a table for people, facts of a hierarchy in `show`, and exit 1 on what is wrong."""
    made = wide(3, 3)
    (tmp_path / "h.txt").write_text("".join(f"{a} {b}\n" for a, b in made.edges()))
    code, out, _ = shell("hierarchy", str(tmp_path / "h.txt"), "--level", "1", "--subclasses", "6", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["superclasses"] == ["a", "b", "c"]
    assert told == sb.superclasses(tmp_path / "h.txt", level=1, subclasses=6).to_json()
    plain = json.loads(shell("hierarchy", str(tmp_path / "h.txt"), "--level", "1", "--json")[1])
    assert [len(side) for side in plain["source"]] == [9, 9, 9]
    assert plain["target"] == []
    assert json.loads(shell("show", str(tmp_path / "h.txt"), "--json")[1])["proposed_level"] == 1
    assert "most balanced superclasses are at level 1" in shell("hierarchy", str(tmp_path / "h.txt"))[1]
    code, out, _ = shell("hierarchy", "--task", "living17")
    assert code == 0
    assert "spotted salamander" in out
    (tmp_path / "edits.toml").write_text('[[edit]]\ncollapse = "a"\n')
    edits = ("--edits", str(tmp_path / "edits.toml"))
    assert json.loads(shell("hierarchy", str(tmp_path / "h.txt"), *edits, "--json")[1])["nodes"] == len(made) - 1
    for wrong in (("--level", "7"), ("--split", "rand"), ("--task", "living17"), ("--level", "1", "--root", "x")):
        code, _, problem = shell("hierarchy", str(tmp_path / "h.txt"), *wrong)
        assert code == 1
        assert problem.startswith("shiftbench: ")
    assert shell("hierarchy", str(tmp_path / "none"))[0] == 1
    assert shell("hierarchy")[0] == 2
