"""A person makes shifts by clicks and keys, on the meta-graph and with dials; the command line makes the same."""

import math
import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect
from typer.testing import CliRunner

import shiftbench as sb
from shiftbench.cli import app
from shiftbench.data.benchmark import Benchmark
from shiftbench.metagraph.graph import distances
from shiftbench.metagraph.picture import draw_html
from tests.webapp.conftest import PATIENCE, Person, settled, until
from tests.webapp.test_access import fits

pytestmark = pytest.mark.slow


def same_on_the_command_line(folder, name, tmp_path):
    """`shiftbench build` makes of the saved recipe what the studio built, row by row and with the same card."""
    out = tmp_path / "cli" / name
    result = CliRunner().invoke(app, ["build", str(folder / f"recipes/{name}.toml"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    built, expected = Benchmark.load(folder / f"benchmarks/{name}"), Benchmark.load(out)
    assert built.digest == expected.digest
    assert {**built.card, "collection": {}} == {**expected.card, "collection": {}}
    return built


def save_and_build(page, name):
    settled(page)
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Save recipe").click()
    expect(page.get_by_text(f"recipes/{name}.toml").first).to_be_visible()
    page.get_by_role("button", name="Build benchmark").click()
    expect(page.get_by_role("status").get_by_role("link", name=f"benchmarks/{name}")).to_be_visible()


def cells(table):
    """The texts of a table's body, row by row, in one look."""
    return table.evaluate("e => [...e.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.innerText.trim()))")


def shown_counts(page):
    """The table of counts as the page shows it: split -> group -> items."""
    (_, *splits), *rows, _ = page.locator("table.split-counts").evaluate(
        "table => [...table.rows].map(row => [...row.cells].map(cell => cell.innerText.trim()))")
    return {split: {row[0]: int(row[1 + k].replace(",", "")) for row in rows if row[1 + k] != "–"}
            for k, split in enumerate(splits)}


def test_a_shift_is_made_on_the_meta_graph(editor, edited, tmp_path):
    """Choose a test subset, see the others by distance, put subsets of two classes on both sides, save and build."""
    page = editor.open()
    page.get_by_role("link", name="Meta-graph").click()
    page.get_by_role("combobox", name="Class").select_option("dog")
    page.get_by_role("button", name=re.compile(r"^dog\(shelf\), \d+ items$")).click()
    card = page.get_by_label("Chosen subset")
    expect(card.get_by_role("heading")).to_have_text("dog(shelf)")
    settled(page).wait_for_function("() => document.querySelector('.subset img').naturalWidth > 0")
    card.get_by_role("button", name="dog(shelf) in test").click()
    expect(page.get_by_role("combobox", name="Colour")).to_have_value("distance")

    graph = sb.graph(edited.folder / "collections/scenes", "dog", kinds=("object",))
    far = dict(zip(graph.names, distances(graph, "shelf").tolist(), strict=True))
    table = page.get_by_role("region", name="Subsets").locator("table")
    expect(table.locator("tbody th").first).to_have_text("shelf")
    until(page, lambda page: [(name, distance) for name, _, distance, _ in cells(table)], [
        (name, f"{far[name]:.3f}") for name in sorted(far, key=lambda one: (far[one], -graph.sizes[
            graph.names.index(one)]))])

    page.get_by_role("button", name="dog(cabinet) in train").click()
    leak = page.locator(".leakage b")
    expect(leak).to_have_text(re.compile(r"\d+ items"))
    expect(page.get_by_role("region", name="Tags that differ").locator("tbody tr").first).to_contain_text("shelf")
    expect(page.get_by_text("Add subsets of a second one")).to_be_visible()

    sofa = page.get_by_role("button", name=re.compile(r"^dog\(sofa\), "))
    sofa.focus()
    page.keyboard.press("t")
    expect(sofa).to_have_attribute("aria-label", re.compile("in train"))
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("Chosen subset").get_by_role("heading")).not_to_have_text("dog(sofa)")

    page.get_by_role("combobox", name="Class").select_option("cat")
    page.get_by_role("button", name="cat(sofa) in train").click()
    page.get_by_role("button", name="cat(shelf) in test").click()
    expect(page.locator("table.split-counts")).to_be_visible()
    save_and_build(page, "by-hand")
    built = same_on_the_command_line(edited.folder, "by-hand", tmp_path)
    assert built.card["params"]["train"] == ["dog(cabinet + sofa)", "cat(sofa)"]
    assert built.card["params"]["test"] == ["dog(shelf)", "cat(shelf)"]
    until(page, shown_counts, built.counts())
    page.reload()  # the address holds the state
    until(page, shown_counts, built.counts())

    page.get_by_label("Name").fill("../out")
    page.get_by_role("button", name="Save recipe").click()
    expect(page.get_by_text("Choose such a name")).to_be_visible()
    editor.forgive()


def test_the_graph_is_dragged_and_zoomed(person):
    """A disc goes where it is dragged, with its lines; the buttons zoom and bring the whole graph back."""
    page = settled(person.open("graph?" + urlencode({"on": "collections/scenes", "cls": "dog"})))
    disc = page.locator("[data-name=shelf]")
    start = disc.get_attribute("transform")
    box = disc.locator("circle").last.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 50, steps=4)
    page.mouse.up()
    expect(disc).not_to_have_attribute("transform", start)
    page.get_by_role("button", name="Closer").click()
    expect(page.locator(".drawing > svg > g")).to_have_attribute("transform", re.compile(r"scale\(1\.5"))
    page.get_by_role("button", name="Whole graph").click()
    expect(disc).to_have_attribute("transform", start)


def test_a_shift_is_made_with_dials(editor, edited, tmp_path):
    """Move p by the keyboard, see the table follow and what is impossible, add noise, save and build."""
    page = editor.open()
    page.get_by_role("link", name="Shift", exact=True).click()
    page.get_by_role("combobox", name="Shift").select_option("subpopulation")
    expect(page.get_by_label("label *")).to_have_value("class")
    dial = page.get_by_role("slider", name="p", exact=True)
    before = settled(page).locator("table.split-counts").inner_text()
    dial.focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#subpopulation-p")).to_have_value("0.2")
    expect(page.locator("table.split-counts")).not_to_have_text(before)

    page.get_by_text("Sizes", exact=True).click()
    sizes = page.locator("#subpopulation-n_train")
    sizes.fill("9000")
    expect(page.locator(".setting.wrong .impossible")).to_contain_text("Lower the sizes")
    expect(page.get_by_role("button", name="Save recipe")).to_be_disabled()
    sizes.fill("120")
    expect(page.locator(".impossible")).to_have_count(0)
    page.get_by_role("checkbox", name=re.compile("^noise")).click()
    page.locator("#noise-p").fill("0.25")
    expect(page.get_by_text("training labels are wrong (noise p = 0.25)")).to_be_visible()
    save_and_build(page, "dials")
    built = same_on_the_command_line(edited.folder, "dials", tmp_path)
    assert (built.card["params"]["p"], built.card["params"]["n_train"]) == (0.2, 120)
    assert built.card["conditions"] == [{"name": "noise", "p": 0.25}]
    until(page, shown_counts, built.counts())
    power = page.get_by_role("region", name="Smallest difference per group").locator("table")
    until(page, lambda page: cells(power), [
        [row["group"], f"{row['items']:,}", "–" if math.isnan(row["smallest"]) else f"{100 * row['smallest']:.1f}"]
        for row in sb.power(built)])

    page.get_by_role("link", name="shiftbench studio").click()
    page.get_by_role("link", name="recipes/dials.toml").click()
    expect(page.locator("#subpopulation-p")).to_have_value("0.2")
    expect(page.get_by_text(f"digest {built.digest[:12]}")).to_be_visible()


def test_a_read_only_studio_shows_the_text_to_copy(browser, studio):
    """On a phone, without --edit: no button writes, nothing is too wide, a dial and the counts are seen together."""
    person = Person(browser, studio, viewport={"width": 390, "height": 800}, color_scheme="dark")
    page = person.open("design?" + urlencode({"on": "collections/scenes", "shift": "correlation"}))
    expect(page.get_by_text("This studio is read-only")).to_be_visible()
    expect(page.get_by_label("Recipe as TOML")).to_contain_text("[shift.correlation]")
    expect(page.get_by_role("button", name="Save recipe")).to_have_count(0)
    dial = settled(page).get_by_role("slider", name="rho", exact=True)
    dial.focus()
    expect(dial).to_be_in_viewport()
    expect(page.locator("table.split-counts tbody")).to_be_in_viewport(ratio=0.5)  # both are seen while the dial moves
    until(page, fits, True)
    person.open("graph?" + urlencode({"on": "collections/scenes", "cls": "dog", "test": '["dog(shelf)"]'}))
    expect(page.get_by_role("region", name="Subsets")).to_be_visible()
    until(page, fits, True)
    person.close()


def test_the_file_of_a_graph_answers_a_pointer(browser, world, tmp_path):
    """The HTML file of `shiftbench graph --out` shows facts and pictures of the disc that is pointed at."""
    collection = sb.Collection.load(world / "collections/scenes")
    draw_html(sb.graph(collection, "dog", kinds=("object",)), tmp_path / "dog.html", collection)
    page, errors = browser.new_page(), []
    page.set_default_timeout(1000 * PATIENCE)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((tmp_path / "dog.html").as_uri())
    page.locator("g.node circle").first.hover()
    expect(page.locator("#card")).to_be_visible()
    expect(page.locator("#card img").first).to_be_visible()
    assert errors == []
    page.close()
