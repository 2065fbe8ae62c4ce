"""The MetaShift reader: subsets become tags, and a pickle is read as data and never run."""

import contextlib
import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.metagraph.catalogue import Terms, catalogue
from shiftbench.metagraph.subsets import candidates, paper_contexts, subset
from shiftbench.readers import READERS

REAL = Path(__file__).parents[3] / "shared" / "data" / "metashift" / "attributes-candidate-subsets.pkl"
metashift = READERS["metashift"]
in_folder = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

classes = st.sampled_from(["cat", "dog", "sofa"])
ids = st.sets(st.integers(1, 10**7).map(str) | st.just("n12"), max_size=8)
published = st.dictionaries(st.tuples(classes, st.sampled_from(["black", "wet", "light brown"])), ids, min_size=1)
full = st.dictionaries(st.tuples(classes, classes), ids, min_size=1)
protocols = st.integers(0, 5)


def written(path: Path, content: object, protocol: int = 3) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def carried(read) -> dict[str, set[str]]:
    """Kind and word of each tag -> ids of the items that carry it."""
    found = defaultdict(set)
    for item, tag in zip(read.tags.item.tolist(), read.tags.tag.tolist(), strict=True):
        found[f"{read.tags.kinds[tag]}:{read.tags.names[tag]}"].add(str(read.items[item]))
    return found


def flat(subsets: dict) -> dict:
    return {f"{cls}({word})": ids for (cls, word), ids in subsets.items()}


@pytest.mark.slow
@given(published, protocols, st.booleans(), st.sampled_from([set, list]))
@in_folder
def test_attribute_subsets_become_tags(tmp_path, subsets, protocol, default, inner):
    """Every item of cat(black) carries the subject cat and its attribute, whichever way the pickle was made."""
    content = {key: inner(members) for key, members in flat(subsets).items()}
    path = written(tmp_path / "a.pkl", defaultdict(set, content) if default else content, protocol)
    wanted = defaultdict(set)
    for (cls, word), members in subsets.items():
        wanted[f"subject:{cls}"] |= members
        wanted[f"attribute:{cls}({word})"] |= members
    read = metashift(path, contexts="attribute")
    assert carried(read) == {tag: members for tag, members in wanted.items() if members}
    everyone = sorted(set().union(*subsets.values()), key=lambda key: (key == "n12", int(key.strip("n"))))
    assert read.items.tolist() == everyone


@pytest.mark.slow
@given(full, protocols)
@in_folder
def test_object_subsets_are_exactly_the_files(tmp_path, subsets, protocol):
    """A class has the subsets that the file lists, with their items, and no other: also `man(man)`, also one way."""
    path = written(tmp_path / "f.pkl", defaultdict(set, flat(subsets)), protocol)
    read = metashift(path, contexts="object")
    listed = {pair: members for pair, members in subsets.items() if members}
    found = {(cls, word) for cls in {cls for cls, _ in listed} for word in candidates(read, cls, min_size=1).names}
    assert found == set(listed)
    for (cls, word), members in listed.items():
        assert set(read.items[subset(read, f"{cls}({word})")].tolist()) == members
        assert set(read.items[subset(read, f"{cls}(object:{word})")].tolist()) == members


def test_meeting_elsewhere_is_no_subset(tmp_path):
    """An image of cat(bed) and of sofa(lamp) is not in cat(sofa), which the file gives without it."""
    path = written(tmp_path / "f.pkl", {"cat(sofa)": {"1"}, "cat(bed)": {"2"}, "sofa(lamp)": {"2"}, "bed(sofa)": {"2"},
                                        "lamp(bed)": {"2"}})
    read = metashift(path)
    assert read.items[subset(read, "cat(sofa)")].tolist() == ["1"]
    summary = catalogue(read, Terms(min_size=1, more_than=0))
    assert (len(summary.classes), len(summary.sizes)) == (4, 5)


def test_what_the_contexts_are_is_told_by_the_words(tmp_path):
    """Words that are classes of the file too are objects; words that are not are attributes; one may say which."""
    objects = written(tmp_path / "f.pkl", {"cat(sofa)": {"1"}, "sofa(cat)": {"1"}, "cat(bed)": {"2"}})
    attributes = written(tmp_path / "a.pkl", {"cat(black)": {1, 2}, "sofa(red)": {2}})
    assert set(metashift(objects).tags.kinds) == {"subject", "object"}
    assert set(metashift(attributes).tags.kinds) == {"subject", "attribute"}
    assert "attribute" in metashift(objects, contexts="attribute").tags.kinds
    both = metashift(objects, attributes, name="both")
    assert carried(both)["attribute:cat(black)"] == {"1", "2"}
    assert len(subset(both, "cat(black)")) == 2
    with pytest.raises(ShiftBenchError, match="Did you mean 'attribute'"):
        metashift(objects, contexts="attribut")


def test_the_structured_file_keeps_its_types_of_attribute(tmp_path):
    """Type -> subject -> attribute -> ids gives the subsets of the flat file, and each tag its type as its kind."""
    flat = metashift(written(tmp_path / "flat.pkl", {"cat(black)": {"1"}, "dog(sitting)": {"2"}, "cat(dark)": {"3"}}))
    deep = metashift(written(tmp_path / "deep.pkl", {
        "color": {"cat": {"black": {"1"}, "dark": {"3"}}}, "activity": {"dog": {"sitting": ["2"]}}}))
    assert dict(zip(deep.tags.names, deep.tags.kinds, strict=True)) == {
        "cat": "subject", "dog": "subject", "cat(black)": "color", "cat(dark)": "color", "dog(sitting)": "activity"}
    for name in flat.tags.names:
        assert (subset(flat, name) == subset(deep, name)).all()
    assert candidates(deep, "cat", kinds=["color"], min_size=1).names == ("black", "dark")
    assert paper_contexts(deep).tags.names == deep.tags.names
    with pytest.raises(ShiftBenchError, match="cannot be the name of a type"):
        metashift(written(tmp_path / "bad.pkl", {"subject": {"cat": {"black": {"1"}}}}))


class Evil:
    """What a hostile pickle would like to be called."""

    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_calls_anything_is_refused_by_name(tmp_path, protocol):
    """Nothing is called: the message names what the pickle asked for, and no file appears."""
    trace = tmp_path / "trace"
    for evil, name in ((Evil(eval, f"open({str(trace)!r}, 'w')"), "builtin.*eval"), (Evil(Path, "x"), "Path"),
                       (Evil(getattr, "x", "upper"), "builtin.*getattr")):
        path = written(tmp_path / "evil.pkl", {"cat(black)": evil}, protocol)
        with pytest.raises(ShiftBenchError, match=rf"evil\.pkl: not read: it asks for .*{name}"):
            metashift(path)
    assert not trace.exists()


HOSTILE = {
    "a note beyond memory": b"\x80\x03}r\xff\xff\xff\xff.",
    "an unknown note": b"\x80\x03h\x07.",
    "a state": b"\x80\x03}}b.",
    "a persistent id": b"\x80\x03K\x01Q.",
    "an extension": b"\x80\x03\x82\x01.",
    "a class to be made": b"\x80\x03cbuiltins\nset\n)\x81.",
    "a set of sets": b"\x80\x04\x8f(\x8f\x90.",
    "a call of a number": b"\x80\x03K\x01)R.",
    "too many values": b"\x80\x03K\x01K\x02.",
    "nothing": b"\x80\x03.",
    "a mark that was never set": b"\x80\x03]e.",
    "half a word": b"\x80\x03X\x05\x00\x00\x00ab",
    "half a surrogate": b"\x80\x03X\x03\x00\x00\x00\xed\xa0\x80.",
    "tuples of tuples as a key": b"\x80\x03})q\x00" + b"".join(
        b"h%ch%c\x86q%c" % (k, k, k + 1) for k in range(60)) + b"h\x3cK\x01s.",
    "tuples from calls as a key": b"\x80\x03}cbuiltins\nset\n)q\x00R0" + b"".join(
        b"cbuiltins\nset\n(h%ch%ctq%cR0" % (k, k, k + 1) for k in range(60)) + b"h\x3cK\x01s.",
    "sets that are keys": b"\x80\x04(K\x01\x91.",
    "bytes beyond memory": b"\x80\x05\x96\xff\xff\xff\xff\xff\x00\x00\x00.",
    "lists without end": b"\x80\x03" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "a long number": b"\x80\x03\x8a\xff" + b"\x7f" * 255 + b".",
}


@pytest.mark.parametrize("what", sorted(HOSTILE))
def test_absurd_pickles_are_refused_at_once(tmp_path, what):
    """Programs that would fill the memory, call or never end are one clear error that names the file and the byte."""
    path = tmp_path / "x.pkl"
    path.write_bytes(HOSTILE[what])
    with pytest.raises(ShiftBenchError, match=r"x.pkl: (not read: |cut off or no pickle|it holds |holds )"):
        metashift(path)


def test_copies_of_copies_are_bounded_by_the_length_of_the_file(tmp_path):
    """A list of a thousand values copied a thousand times is refused, whatever container asks for the copy."""
    values = b"(" + b"K\x01" * 1000 + b"lq\x00"
    for name in (b"list", b"set"):
        copies = b"(" + (b"cbuiltins\n" + name + b"\nh\x00\x85R") * 1000 + b"l"
        path = tmp_path / "x.pkl"
        path.write_bytes(b"\x80\x03(" + values + copies + b"l.")
        with pytest.raises(ShiftBenchError, match="copies more values than it holds"):
            metashift(path)


pickles = published.map(flat).map(pickle.dumps)


@given(st.binary(max_size=60) | pickles, st.integers(0, 200), st.integers(0, 255))
@in_folder
def test_any_bytes_are_read_or_refused(tmp_path, data, place, byte):
    """A pickle with a changed byte, or no pickle at all, gives a collection or our error, and nothing else."""
    spoiled = bytearray(data)
    if spoiled:
        spoiled[place % len(spoiled)] = byte
    path = tmp_path / "x.pkl"
    path.write_bytes(bytes(spoiled))
    with contextlib.suppress(ShiftBenchError):
        assert isinstance(metashift(path), Collection)


@pytest.mark.parametrize(("content", "message"), [
    ({}, "holds no subsets"), ([1], "holds a list, not a dictionary"),
    ({"cat": {"1"}}, r"the key 'cat' is not of the form"), ({"cat()": {"1"}}, "is not of the form"),
    ({7: {"1"}}, "the key '7' is not of the form"), ({"cat(black)": "123"}, r"cat\(black\) holds a str, not a set"),
    ({"cat(black)": [[1]]}, r"cat\(black\) holds a list that is not the id"), ({"a": {"cat": [1]}}, "a.cat holds a"),
    ({"cat(black)": [""]}, "that is not the id of an image"), ({"cat(black)": [1.5]}, "BINFLOAT"),
])
def test_what_is_wrong_is_said_with_file_and_key(tmp_path, content, message):
    """Wrong shapes are named by their key."""
    with pytest.raises(ShiftBenchError, match=rf"x.pkl: .*({message})"):
        metashift(written(tmp_path / "x.pkl", content))


def test_every_cut_is_refused_and_folders_too(tmp_path):
    """A file that stops anywhere, an empty one, a folder and nothing at all are refused."""
    path = written(tmp_path / "x.pkl", defaultdict(set, {"cat(black)": {"1", "2"}, "dog(wet)": {"3"}}))
    data = path.read_bytes()
    for size in range(1, len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(ShiftBenchError, match=r"x\.pkl: cut off or no pickle"):
            metashift(path)
    path.write_bytes(b"")
    for source, message in ((path, "is empty"), (tmp_path, "is a folder"), (tmp_path / "y.pkl", "No such file")):
        with pytest.raises(ShiftBenchError, match=message):
            metashift(source)


def test_images_are_named_by_their_ids(tmp_path):
    """ID.jpg below the folder; an id that would lead elsewhere is refused."""
    assert metashift(written(tmp_path / "x.pkl", {"cat(black)": {7}}), images=tmp_path).pixels.tolist() == ["7.jpg"]
    with pytest.raises(ShiftBenchError, match="leads out"):
        metashift(written(tmp_path / "x.pkl", {"cat(black)": {"../7"}}), images=tmp_path)


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.skipif(not REAL.is_file(), reason="the published sample is not beside the checkout")
def test_the_published_file_is_read_whole():
    """All 4,962 subsets of 337 classes over 59,663 images, each with its published members."""
    with REAL.open("rb") as file:
        truth = pickle.load(file)  # noqa: S301 -- the published file, against which ours is checked
    read = metashift(REAL)
    assert (len(read), len(truth)) == (59_663, 4_962)
    assert sum(kind == "attribute" for kind in read.tags.kinds) == 4_962
    assert sum(kind == "subject" for kind in read.tags.kinds) == 337
    assert set(read.items.tolist()) == set().union(*truth.values())
    for name in list(truth)[::50]:
        assert set(read.items[subset(read, name)].tolist()) == truth[name]
    assert candidates(read, "cat", kinds=["attribute"]).names[:3] == ("black", "brown", "gray")
    assert np.isnan(read.tags.area).all()
