"""A person watches a sweep: it goes, it is killed, its folder vanishes and comes back, in two tabs at once."""

import os
import signal
import subprocess
import sys
import time

import pytest
from playwright.sync_api import expect

from shiftbench.sweeps.status import states, status, summary
from shiftbench.webapp.runs_view import runs
from shiftbench.webapp.studio import Query
from tests.webapp.conftest import PATIENCE, Person, make_run, settled, until
from tests.webapp.test_access import fits

pytestmark = pytest.mark.slow

STUDY = """benchmarks = ["benchmarks/minority"]
seeds = 2

[run]
model = "small-cnn"
steps = 100_000
batch_size = 4
eval_every = 5

[methods.erm]
"""


@pytest.fixture
def sweep(edited):
    """A sweep in a process of its own, that would take hours."""
    (edited.folder / "study.toml").write_text(STUDY)
    process = subprocess.Popen(
        [sys.executable, "-m", "shiftbench", "sweep", "study.toml", "--out", "sweep", "--workers", "1"],
        cwd=edited.folder, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"})
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_sweep_is_watched_while_it_is_killed(editor, edited, sweep):
    """Both tabs show the run that goes and its losses, and the run as unfinished when the sweep was killed."""
    out = edited.folder / "sweep"
    end = time.monotonic() + 5 * PATIENCE
    while not list(out.glob("*/log.jsonl")):
        assert sweep.poll() is None
        assert time.monotonic() < end
        time.sleep(0.1)
    page = editor.open("runs?on=sweep")
    other = editor.context.new_page()
    other.goto(page.url)
    for tab in (page, other):
        expect(tab.get_by_role("button", name="running 1")).to_be_visible()
        expect(tab.get_by_text("study.toml asks for 2 runs: 1 running, 1 not started")).to_be_visible()
        expect(tab.get_by_role("figure").filter(has_text="Loss of training").locator("svg").first).to_be_visible()
    step = page.locator("table.settings tbody meter")
    seen = step.get_attribute("value")
    expect(step).not_to_have_attribute("value", seen)  # it moves on by itself
    os.killpg(sweep.pid, signal.SIGKILL)
    sweep.wait()
    for tab in (page, other):
        expect(tab.get_by_role("button", name="unfinished 1")).to_be_visible()
        expect(tab.locator(".summary")).to_have_text(summary(states(out).values()))


def test_a_folder_that_vanishes_is_a_sentence_until_it_is_back(editor, edited):
    """The page says that the runs are gone, keeps what it saw, and goes on when they are back."""
    page = editor.open("runs?on=runs")
    expect(page.locator(".summary")).to_have_text("4 runs: 4 done")
    (edited.folder / "runs").rename(edited.folder / ".away")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("runs")
    expect(page.locator(".summary")).to_have_text("4 runs: 4 done")
    (edited.folder / ".away").rename(edited.folder / "runs")
    expect(alert).to_have_count(0)
    editor.forgive()


def column(page, name):
    """The values of a column of the table."""
    return set(page.locator("table.settings").evaluate("""(table, name) => {
        const at = [...table.tHead.rows[0].cells].findIndex(cell => cell.innerText.trim() === name);
        return [...table.tBodies[0].rows].map(row => row.cells[at].innerText.trim());
    }""", name))


def test_settings_are_sorted_filtered_and_overlaid_by_clicks(editor, edited):
    """A click on a heading sorts, one on a value filters, one on a box lays a curve over the others; show agrees."""
    for k in range(60):
        make_run(edited.folder / "runs", k, "failed" if k < 3 else "done", lr=(0.001, 0.01)[k % 2],
                 reason="out of memory")
    page = editor.open("runs?on=runs")
    known = status(edited.folder / "runs")
    expect(page.locator(".summary")).to_have_text(summary(one.state for one in known))
    expect(page.locator(".failed-runs")).to_contain_text("out of memory")
    expect(page.locator(".failed-runs li li")).to_have_count(3)
    also = runs(edited.studio, Query({"on": "runs"}))["also"]  # what a saved page must carry
    expect(page.locator(".curve-keys li")).to_have_count(4)
    settled(page)
    assert all(any(f"api/{request}&token" in url for url in editor.asked) for request in also)
    page.get_by_role("button", name="failed 3").click()
    rows = page.locator("table.settings tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_role("button", name="failed 3").click()
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="loss", exact=True).click()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("loss")
    page.get_by_role("button", name="loss ↑").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("loss")
    expect(rows.first).to_contain_text(f"{59:08}")
    page.get_by_role("button", name="0.01", exact=True).first.click()
    expect(page.get_by_text("1–30 of 30 runs")).to_be_visible()
    until(page, lambda page: column(page, "lr"), {"0.01"})
    box = page.get_by_label(f"Curve of {51:08}")
    box.click()  # the page answers through its address; what follows waits for it
    expect(page.locator(".curve-keys li")).to_have_count(5)
    expect(page.get_by_label(f"Curve of {51:08}")).to_be_checked()
    page.reload()  # the state is in the address
    expect(page.locator(".curve-keys li")).to_have_count(5)
    expect(page.get_by_text("1–30 of 30 runs")).to_be_visible()


def test_studies_and_reasons_fit_a_phone(browser, edited):
    """What a study asks for with its command, and a reason without a space, are no wider than the screen."""
    text = f'benchmarks = ["{edited.folder}/benchmarks/minority"]\nseeds = 2\n[run]\nmodel = "small-cnn"\n' \
           "steps = 20\nbatch_size = 16\n[methods.erm]\n"
    (edited.folder / "study.toml").write_text(text)
    make_run(edited.folder / "runs", 1, "failed", reason="x" * 200)
    person = Person(browser, edited, viewport={"width": 390, "height": 800})
    page = person.open("runs?on=runs")
    expect(page.get_by_text("study.toml asks for 2 runs")).to_be_visible()
    expect(page.locator(".failed-runs")).to_contain_text("xxx")
    until(page, fits, True)
    person.close()
