"""The page of a study in a real browser: a person sorts images by clicks or keys, saves a file, and it is scored."""

import json
import os
import shutil

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.human import Design, Key, read_answers, write_study
from tests.human.test_human import creatures

if "SHIFTBENCH_BROWSER" not in os.environ:  # .ci/run sets it: then a missing one is a failure
    pytest.importorskip("playwright", reason="playwright is not installed (extra: dev)")
    if shutil.which("chromium") is None:
        pytest.skip("no chromium on the path (Debian: apt-get install chromium)", allow_module_level=True)
from playwright.sync_api import sync_playwright

pytestmark = pytest.mark.slow

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync")


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A saved benchmark and its study of three superclasses, opened from disk without a server."""
    folder = tmp_path_factory.mktemp("study")
    collection, made = creatures(per=8, kinds=("Quokkadont", "Xylophagus", "Zwartjesbok"))
    made.save(folder / "b")
    write_study(made, collection, folder / "s", Design(partners=1, examples=4, questions=6, size=48, rescale=48))
    return folder


class Person:
    """Somebody before the page: knows only what is on it, notes what the page asks of the network, and its errors."""

    def __init__(self, context, folder, part=""):
        context.set_default_timeout(120_000)  # of a machine that does much else
        self.context, self.page, self.asked, self.errors = context, context.new_page(), [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.key = Key.load(folder / "s")
        self.url = (folder / "s" / "page" / "index.html").as_uri() + part
        self.page.goto(self.url)

    def start(self, name):
        self.page.get_by_label("Name or alias").fill(name)
        self.page.get_by_label("agree to take part").check()
        self.page.get_by_role("button", name="Start").click()

    def shown(self):
        """The task on screen: found by its images, and whether group 1 of the key stands on the left."""
        images = {field.get_attribute("data-image") for field in self.page.locator(".question").all()}
        task = next(task for task in self.key.tasks if set(task["questions"]) == images)
        left = self.page.locator("#group0 img").first.get_attribute("src").split("/")[1].removesuffix(".jpg")
        data = json.loads(self.page.locator("#study").text_content())
        examples = next(one["examples"] for one in data["tasks"] if one["id"] == task["id"])
        return task, left in examples[1]

    def choice(self, image, side):
        return self.page.locator(f'[data-image="{image}"] label').nth(side)

    def sort(self, wrong=0):
        """Click every image into its group, the first `wrong` of them into the other one."""
        task, swapped = self.shown()
        for number, (image, asked) in enumerate(task["questions"].items()):
            self.choice(image, asked["group"] ^ swapped ^ (number < wrong)).click()
        return task

    def save(self, button, folder):
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name=button).click()
        path = folder / download.value.suggested_filename
        download.value.save_as(path)
        return path


@pytest.fixture
def context(browser):
    opened = browser.new_context(accept_downloads=True)
    yield opened
    opened.close()


def test_a_whole_study_is_done_by_clicks(context, place, tmp_path):
    """Every task is sorted, the file is saved and scored: the one wrong answer per task is found, nothing was asked of
    any network, and nothing went wrong in the page."""
    person = Person(context, place)
    assert person.page.locator("#task").is_hidden()
    person.start("Änn  O'Hara")
    n = len(person.key.tasks)
    for number in range(n):
        assert person.page.locator("#which").text_content() == f"Task {number + 1} of {n}"
        advance = person.page.get_by_role("button", name="Next task" if number + 1 < n else "Finish")
        assert advance.is_disabled()
        person.sort(wrong=1)
        assert person.page.locator("#left").text_content() == "All sorted"
        person.page.wait_for_function(
            "() => [...document.querySelectorAll('#task img')].every(image => image.naturalWidth === 48)")
        advance.click()
    path = person.save("Save answers", tmp_path)
    assert path.name == f"answers-{person.key.id}-1of1-Änn_O_Hara.json"
    facts = json.loads(path.read_text())
    assert {entry["task"] for entry in facts["tasks"]} == {task["id"] for task in person.key.tasks}
    assert all(0 <= one["seconds"] <= entry["seconds"] + 0.2 for entry in facts["tasks"] for one in entry["answers"])
    scores = sb.score(place / "b", path, study=place / "s")
    for split in ("id_test", "test"):
        row = next(iter(scores.where(split=split, metric="pairwise_accuracy", group="all")))
        assert row["value"] == pytest.approx(5 / 6)
        assert row["n"] == 3 * n
    assert set(read_answers([path], person.key).annotator) == {"Änn O'Hara"}
    assert all(url.startswith(("file:", "data:", "blob:")) for url in person.asked), person.asked
    assert not person.errors


def test_a_closed_tab_loses_nothing_and_minds_can_change(context, place, tmp_path):
    """Answers are there after the tab was closed; one that is changed, also in an earlier task, counts as changed; what
    was not sorted is missing from the file."""
    person = Person(context, place)
    person.start("Bo")
    first = person.sort(wrong=2)
    person.page.get_by_role("button", name="Next task").click()
    task, swapped = person.shown()
    image, asked = next(iter(task["questions"].items()))
    person.choice(image, asked["group"] ^ swapped).click()
    person.page.close()
    again = Person(context, place)
    assert "Bo has done 1 of" in again.page.locator("#resumed").text_content()
    again.page.get_by_role("button", name="Continue").click()
    assert again.shown() == (task, swapped)
    assert again.page.locator(f'[data-image="{image}"] input').nth(asked["group"] ^ swapped).is_checked()
    again.page.get_by_role("button", name="Back").click()
    assert again.shown()[0] == first
    again.sort()
    facts = json.loads(again.save("Save so far", tmp_path).read_text())
    entries = {entry["task"]: entry for entry in facts["tasks"]}
    assert set(entries) == {first["id"], task["id"]}
    assert entries[first["id"]]["changes"] == 2
    found = read_answers([next(tmp_path.glob("*.json"))], again.key)
    assert found.right.all()
    assert sum(found.missing.values()) == len(task["questions"]) - 1
    assert not again.errors


def test_the_keyboard_is_enough(context, place, tmp_path):
    """From the first image, one key per image sorts them all, and Enter goes on to the next task."""
    person = Person(context, place)
    person.start("Cy")
    keys = person.page.keyboard
    while not person.page.evaluate("document.activeElement.classList.contains('skip')"):
        keys.press("Tab")
    keys.press("Enter")
    before, _ = person.shown()
    for number in range(len(before["questions"])):
        keys.press("ab"[number % 2])
    assert person.page.evaluate("document.activeElement.id") == "next"
    keys.press("Enter")
    assert person.shown()[0] != before
    entry = json.loads(person.save("Save so far", tmp_path).read_text())["tasks"][0]
    shown_as = [one["group"] ^ entry["swapped"] for one in entry["answers"]]
    assert shown_as == [0, 1] * (len(shown_as) // 2)


def test_groups_and_images_are_dealt_anew_to_everyone(browser, place):
    """Between people the left group, the order of tasks and the order of images change."""
    seen = []
    for number in range(8):
        context = browser.new_context()
        person = Person(context, place)
        person.start(f"person {number}")
        state = next(iter(person.page.evaluate("Object.values(localStorage)")))
        seen.append(json.loads(state)["tasks"])
        context.close()
    assert len({tuple(task["task"] for task in tasks) for tasks in seen}) > 1
    assert len({tuple(task["order"]) for tasks in seen for task in tasks if task["task"] == "t001"}) > 1
    swapped = [task["swapped"] for tasks in seen for task in tasks]
    assert 0.15 < np.mean(swapped) < 0.85
    half = len(seen[0]) // 2
    assert all({task["task"] for task in tasks[:half]} == {f"t{k + 1:03d}" for k in range(half)} for tasks in seen)


def test_parts_share_out_the_tasks(browser, place, tmp_path):
    """index.html#1/2 and #2/2 have no task in common and all of them together; files of both parts join."""
    files, tasks = [], []
    for part in (1, 2):
        context = browser.new_context(accept_downloads=True)
        person = Person(context, place, f"#{part}/2")
        person.start("Di")
        while person.page.locator("#task").is_visible():
            tasks.append(person.sort()["id"])
            person.page.locator("#next").click()
        files.append(person.save("Save answers", tmp_path))
        context.close()
    assert sorted(tasks) == [task["id"] for task in person.key.tasks]
    assert read_answers(files, person.key).right.all()


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_follows_the_colour_scheme(browser, place, width, scheme):
    """Nothing sticks out at the side, what is to be tapped is big enough, and dark is dark."""
    context = browser.new_context(viewport={"width": width, "height": 740}, color_scheme=scheme, has_touch=width < 500)
    person = Person(context, place)
    for step in ("intro", "task"):
        assert person.page.evaluate("document.documentElement.scrollWidth") <= width, step
        if step == "intro":
            person.start("Ed")
    boxes = [label.bounding_box() for label in person.page.locator(".choice label").all()]
    assert min(min(box["width"], box["height"]) for box in boxes) >= 40
    ground = person.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in ground[4:-1].split(",")) < 200) == (scheme == "dark")
    context.close()
