"""The presets of WILDS: each is a run that can be made, for every method that the paper runs on its data set."""

from dataclasses import fields

import pytest

from shiftbench.core.errors import ShiftBenchError
from shiftbench.methods import METHODS
from shiftbench.models import MODELS
from shiftbench.training.presets import PRESETS, preset_of
from shiftbench.training.run import Run
from shiftbench.training.wilds_presets import PUBLISHED, WILDS_METHODS, WILDS_PRESETS, WILDS_RUNS, wilds

CASES = [(name, method) for name, methods in WILDS_RUNS.items() for method in methods]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_every_run_of_the_paper_can_be_made(name, method):
    """Every key is a field of a run or of the method, and together they are a run that its checks let pass."""
    given = wilds(name, method)
    own = {part.name for part in fields(METHODS[method])}
    of_run = {part.name for part in fields(Run)}
    assert set(given) <= own | of_run
    run = Run.of({"benchmark": "0", "method": method, "params": {key: given[key] for key in own & set(given)},
                  **{key: value for key, value in given.items() if key not in own}})
    assert run.model in MODELS
    assert preset_of(f"wilds-{name}", method) == given


def test_ten_data_sets_have_presets_that_erm_takes_as_they_are():
    """`--preset wilds-NAME` names fields of a run alone."""
    assert len(WILDS_PRESETS) == 10
    assert all(set(PRESETS[name]) <= {part.name for part in fields(Run)} for name in WILDS_PRESETS)


@pytest.mark.parametrize("name", PUBLISHED)
def test_passes_become_steps(name):
    """As many items are drawn in all steps as in the passes of the paper, and a look is taken once a pass."""
    told, given = PUBLISHED[name], wilds(name)
    assert 0 <= given["steps"] * given["batch_size"] - told.epochs * told.items < given["batch_size"]
    assert abs(given["eval_every"] - told.items / told.batch) <= 1


@pytest.mark.parametrize(("name", "method"), [case for case in CASES if case[1] in ("coral", "irm")])
def test_batches_of_domains_have_the_items_of_plain_ones(name, method):
    """Items of each domain times domains of a batch are the paper's batch."""
    given = WILDS_METHODS[name][method]
    assert given["batch_size"] * given["domains_per_batch"] == PUBLISHED[name].batch


def test_what_the_paper_does_not_run_is_refused():
    """No CORAL on detection, and no eleventh data set."""
    with pytest.raises(ShiftBenchError, match="No method named 'coral'"):
        wilds("globalwheat", "coral")
    with pytest.raises(ShiftBenchError, match="No data set named"):
        wilds("celeba")
