"""A benchmark as DomainBed's environments: domains, not mixed across the shift."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftbench.compat import run_script
from shiftbench.compat.domainbed import dataset_class, domainbed_modules, environments_of
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import SPLITS, Benchmark
from shiftbench.data.collection import Collection
from shiftbench.worlds.scenes import scenes

BEFORE = ("train", "id_val", "id_test")
torch.set_num_threads(1)


def rows_of(collection, split, domain):
    label = np.asarray(["cat", "dog"])[np.arange(len(collection)) % 2]
    return Benchmark.of(collection, None, 0, np.arange(len(collection)), np.asarray(split), label=label,
                        domain=np.asarray(domain))


@pytest.fixture(scope="module")
def world():
    return scenes(48, 0, 32)


@pytest.fixture(scope="module")
def held_out(world):
    """Two training domains, a third one after the shift."""
    return rows_of(world, ["train"] * 24 + ["id_val"] * 8 + ["test"] * 16, ["a", "b"] * 16 + ["c"] * 16)


@given(st.lists(st.tuples(st.sampled_from(SPLITS), st.sampled_from("abc")), min_size=1, max_size=30))
def test_every_row_is_in_one_environment_of_its_domain_and_side(drawn):
    """Environments share no row, leave out those without a label alone, and have one domain and one side of the shift
    each."""
    split, domain = zip(*drawn, ("train", "a"), strict=True)
    items = Collection("none", np.asarray([f"i{k:02d}" for k in range(len(split))]))
    benchmark = rows_of(items, split, domain)
    found = environments_of(benchmark)
    assert sorted(np.concatenate(list(found.values())).tolist()) == np.flatnonzero(
        benchmark.split != "unlabelled").tolist()
    for name, rows in found.items():
        side = np.isin(benchmark.split[rows], BEFORE)
        assert len(np.unique(benchmark.domain[rows])) == len(np.unique(side)) == 1
        word = benchmark.names["domain"][benchmark.domain[rows[0]]]
        own = (benchmark.domain == benchmark.domain[rows[0]]) & (benchmark.split != "unlabelled")
        both = len(np.unique(np.isin(benchmark.split[own], BEFORE))) == 2
        assert name == (f"{word} ({'before' if side[0] else 'after'})" if both else word)


def test_environments_have_what_the_trainer_asks_for(world, held_out):
    """Names, steps, shape, classes, and items (x, y) that are the images, normalised."""
    made = dataset_class(held_out, collection=world)
    assert (made.ENVIRONMENTS, made.TEST_ENVS, made.N_STEPS, made.INPUT_SHAPE) == (
        ["a", "b", "c"], [2], 5001, (3, 32, 32))
    environments = made(None, [2], {"data_augmentation": False})
    assert (len(environments), environments.num_classes, environments.input_shape) == (3, 2, (3, 32, 32))
    assert [len(one) for one in environments] == [16, 16, 16]
    for code, one in enumerate(environments):
        rows = np.flatnonzero(held_out.domain == code)
        x, y = one[5]
        pixels = torch.from_numpy(world.pixels[world.index(held_out.items)[rows[5]]]).permute(2, 0, 1) / 255
        spread = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
        assert torch.allclose(x * spread + torch.tensor([0.485, 0.456, 0.406])[:, None, None], pixels, atol=1e-5)
        assert one.targets == held_out.label[rows].tolist()
        assert y == held_out.label[rows[5]]
        assert one.classes == ["cat", "dog"]
    x, y = next(iter(torch.utils.data.DataLoader(environments[0], batch_size=4)))
    assert x.shape == (4, 3, 32, 32)
    assert y.tolist() == environments[0].targets[:4]


def test_only_training_environments_are_augmented(world, held_out):
    """With data_augmentation an image of a training environment differs from call to call, a tested one does not."""
    environments = dataset_class(held_out, collection=world)(None, [1], {"data_augmentation": True})
    torch.manual_seed(0)
    same = [torch.equal(one[0][0], one[0][0]) for one in environments]
    assert same == [False, True, False]
    assert environments[0][0][0].shape == (3, 32, 32)


def test_environments_need_images():
    """Without images there is nothing for DomainBed to train on, and it is said."""
    bare = Collection("bare", np.asarray(["a", "b"]))
    with pytest.raises(ShiftBenchError, match="has no images"):
        dataset_class(rows_of(bare, ["train", "test"], ["x", "y"]), collection=bare)


def test_a_script_finds_the_classes_by_name(world, held_out, tmp_path, capsys):
    """`from domainbed import datasets` is answered, with a class for each name in use; others raise as in DomainBed."""
    world.save(tmp_path / "world")
    facts = {**held_out.card, "collection": {**held_out.card["collection"], "path": "../world"}}
    Benchmark(held_out.items, held_out.split, held_out.label, held_out.domain, held_out.group, held_out.names, facts,
              held_out.extra).save(tmp_path / "pets")
    script = tmp_path / "trainer.py"
    script.write_text("import sys\nfrom domainbed import datasets\n"
                      "made = vars(datasets)[sys.argv[1]]('data', [0], {'data_augmentation': True})\n"
                      "print(datasets.num_environments('Pets'), [len(one) for one in made])\n"
                      "try:\n    datasets.get_dataset_class('PACS')\n"
                      "except NotImplementedError as problem:\n    print(problem)\n")
    before = sys.modules.get("domainbed.datasets")
    run_script(script, ["Pets"], domainbed_modules({"Pets": tmp_path / "pets"}))
    said = capsys.readouterr().out
    assert said.startswith("3 [16, 16, 16]\n")
    assert "--use PACS=FOLDER" in said
    assert sys.modules.get("domainbed.datasets") is before
