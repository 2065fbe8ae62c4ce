"""Classes of a model are mapped to labels by what is told, by name, by synonym and by hierarchy, and never guessed."""

import numpy as np
import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.hierarchies.hierarchy import Hierarchy
from shiftbench.predicting.class_names import by_position, map_classes, read_class_names, read_map

TREE = Hierarchy.of([("animal", "n1"), ("n1", "n11"), ("n1", "n12"), ("animal", "n2"), ("things", "n3"),
                     ("things", "n4")],
                    names={"n1": "dog, domestic dog", "n2": "cat", "n11": "beagle", "n12": "Norfolk terrier",
                           "n3": "crane", "n4": "crane, derrick"})


def mapped(classes, labels, **options):
    table = map_classes(classes, labels, model="net", **options)
    return {name: labels[code] if code >= 0 else None for name, code in zip(classes, table.code, strict=True)}


def test_names_are_equal_without_case_underscores_and_hyphens():
    """`Polar_Bear` is the label `polar-bear`; a class that is no label counts for none."""
    assert mapped(["Polar_Bear", "Cat", "fox"], ["cat", "polar-bear"]) == {
        "Polar_Bear": "polar-bear", "Cat": "cat", "fox": None}


def test_a_class_has_synonyms_between_commas():
    """One of its words is the label."""
    assert mapped(["tench, Tinca tinca", "tabby, cat"], ["tinca tinca", "cat"]) == {
        "tench, Tinca tinca": "tinca tinca", "tabby, cat": "cat"}


def test_a_class_counts_for_the_label_that_holds_it():
    """By the hierarchy; of nested labels the lowest; a word of two nodes says nothing."""
    assert mapped(["beagle", "norfolk_terrier", "cat", "crane"], ["dog", "animal"], hierarchy=TREE) == {
        "beagle": "dog", "norfolk_terrier": "dog", "cat": "animal", "crane": None}
    assert mapped(["crane, derrick", "n3"], ["things"], hierarchy=TREE) == {"crane, derrick": "things", "n3": "things"}


def test_a_map_wins_over_all():
    """A user's map moves a class, names a class by its number, and leaves one out."""
    table = map_classes(["cat", "crane", "crane", "dog"], ["cat", "dog"], model="net",
                        class_map={"cat": "Dog", "1": "cat", "dog": ""})
    assert table.code.tolist() == [1, 0, -1, -1]
    assert table.how == ("map", "map", "", "map")


def test_two_classes_of_one_name_count_for_none():
    """ImageNet has two cranes; neither is taken, and the message lists the label."""
    with pytest.raises(ShiftBenchError, match="net: no class of the model counts for crane"):
        map_classes(["crane", "crane", "cat"], ["crane", "cat"], model="net")


def test_a_label_without_a_class_is_an_error_unless_allowed():
    """With allow_unmapped its probability is 0 and it is listed; without any label mapped it stays an error."""
    with pytest.raises(ShiftBenchError, match=r"counts for dog\. Its classes: cat, fox.*--allow-unmapped"):
        map_classes(["cat", "fox"], ["cat", "dog"], model="net")
    table = map_classes(["cat", "fox"], ["cat", "dog"], model="net", allow_unmapped=True)
    assert table.unmapped_labels == ["dog"]
    assert table.unmapped_classes == ["fox"]
    assert "labels that no class counts for: dog" in table.notes()
    assert table.sum(np.log([[0.25, 0.75]])).tolist() == [[np.log(0.25), -np.inf]]
    with pytest.raises(ShiftBenchError, match="counts for wolf"):
        map_classes(["cat", "fox"], ["wolf"], model="net", allow_unmapped=True)


def test_probabilities_of_several_classes_are_added():
    """A label's probability is the sum over its classes."""
    table = map_classes(["beagle", "Norfolk terrier", "cat"], ["dog", "cat"], model="net", hierarchy=TREE)
    np.testing.assert_allclose(np.exp(table.sum(np.log([[0.2, 0.3, 0.5]]))), [[0.5, 0.5]])


def test_outputs_without_names_are_the_labels_in_order_and_it_is_said():
    """As many outputs as labels are taken by position, with a note; another number is an error."""
    assert "its outputs are taken as cat, dog, in this order" in by_position(2, ["cat", "dog"], "net").notes()[0]
    with pytest.raises(ShiftBenchError, match="net: has 3 outputs without names, but there are 2 labels"):
        by_position(3, ["cat", "dog"], "net")


def test_a_map_is_a_table_or_toml_and_what_it_names_must_be_there(tmp_path):
    """Both forms are read; the written map is one; an unknown class or label names the map."""
    (tmp_path / "a.csv").write_text("class,label\ntabby,cat\nfox,\n")
    (tmp_path / "a.toml").write_text('tabby = "cat"\nfox = ""\n')
    assert read_map(tmp_path / "a.csv") == read_map(tmp_path / "a.toml") == {"tabby": "cat", "fox": ""}
    table = map_classes(["tabby", "fox"], ["cat"], model="net", class_map=read_map(tmp_path / "a.csv"))
    table.save(tmp_path / "b.csv")
    assert read_map(tmp_path / "b.csv") == {"tabby": "cat", "fox": ""}
    with pytest.raises(ShiftBenchError, match="map: No class of the model named 'tiger'"):
        map_classes(["tabby"], ["cat"], model="net", class_map={"tiger": "cat"})
    with pytest.raises(ShiftBenchError, match="map: No label named 'lion'"):
        map_classes(["tabby"], ["cat"], model="net", class_map={"tabby": "lion"})
    (tmp_path / "c.csv").write_text("class,to\ntabby,cat\n")
    with pytest.raises(ShiftBenchError, match=r"c\.csv: has no column 'label'"):
        read_map(tmp_path / "c.csv")


def test_class_names_are_lines_or_json(tmp_path):
    """A list, or an object by number, in the order of the numbers."""
    (tmp_path / "a.txt").write_text("cat\ndog\n")
    (tmp_path / "a.json").write_text('{"10": "dog", "9": "cat"}')
    assert read_class_names(tmp_path / "a.txt") == read_class_names(tmp_path / "a.json") == ("cat", "dog")
