"""What users rely on stays as it was recorded: rows, scores and what commands print."""

import json

import pytest

from tests.golden.record import FOLDER, differences, record


@pytest.fixture(scope="module")
def recorded():
    return record()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digests.json", "scores.json", "views.json"])
def test_nothing_has_changed_unnoticed(name, recorded):
    """Benchmarks have the same rows, predictions the same scores, commands the same output as were recorded."""
    golden = json.loads((FOLDER / name).read_text())
    lines = differences(json.loads(json.dumps(recorded[name])), golden)
    assert not lines, "\n".join([f"{len(lines)} differences in {name}", *lines[:20]])
