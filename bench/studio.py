"""The studio's view of a large collection, in chromium: the first page, filters, the end of the wall, and memory.

Each collection has nine factors, tags and a caption per item; its images are files of the built-in world, used many
times over. A server of its own is started for it, as `shiftbench studio` does: once its address is printed it begins to
read the collection, and a browser is started. `first page` is from opening the address until tiles are there, and again
in a second window; then the counts. `server started` is from the command to the address. A filter is a click on a value
that nobody chose before; it is timed in the page until the new count is shown, and on the server alone (both requests
that it makes), on the clock and on the processor. `end of the wall` is from a jump to the last item until its picture
is there. The most memory is that of the server. The load of the machine stands beside the figures: on one that does
other work times on the clock are as many times longer.

    python bench/studio.py [--items 100000 1000000] [--json FILE] [--folder DIR]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
from PIL import Image

from shiftbench.core.files import write_json
from shiftbench.data.collection import Collection, Tags, Texts
from shiftbench.worlds.scenes import scenes

PICTURES, FILTERS = 500, 9
TOKEN = "bench"  # noqa: S105
SERVE = """
import sys
from shiftbench.webapp.launch import Running
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Studio

running = Running(Studio(Shelf([sys.argv[1]])), "127.0.0.1", 0, "bench")
print(running.port, flush=True)
running.wait()
"""
CLICK = """async ([name, number]) => {
  const facets = [...document.querySelectorAll("details.facet")];
  const facet = facets.find((one) => one.querySelector("summary span").textContent === name);
  const before = document.querySelector(".found").textContent;
  const start = performance.now();
  facet.querySelectorAll(".value")[number].click();
  while (document.querySelector(".found").textContent === before || document.querySelector(".panel [aria-busy=true]"))
    await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""


def make(folder: Path, n: int) -> None:
    """A collection of n items whose images are the same few hundred files."""
    rng, world = np.random.default_rng(0), scenes(items=PICTURES, seed=0)
    assert world.pixels is not None
    (folder / "pictures").mkdir()
    for row in range(PICTURES):
        Image.fromarray(world.pixels[row]).save(folder / "pictures" / f"{row}.png")
    source = rng.integers(0, PICTURES, n)
    day = np.datetime64("2015-01-01") + rng.integers(0, 3000, n)
    tag = rng.integers(0, 40, (n, 3))
    Collection(
        "large", np.char.add("item-", np.arange(n).astype(str)),
        {**{name: world.factors[name][source] for name in ("class", "breed", "place", "weather", "light")},
         "site": np.asarray([f"site {number}" for number in range(300)])[rng.integers(0, 300, n)],
         "camera": rng.integers(0, 12, n), "age": rng.normal(40, 15, n).round(1), "taken": day.astype(str)},
        Tags.of(np.repeat(np.arange(n), 3), tag.ravel(), [f"thing {number}" for number in range(40)]),
        Texts(np.arange(n), world.texts.text[world._first_text[source]]), parents=world.parents,
        pixels=np.char.add(source.astype(str), ".png"), root=folder / "pictures").save(folder / "studio/large")


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, float]]:
    """A studio over a folder, in a process of its own, its address, and the seconds until it had one."""
    start = time.perf_counter()
    server = subprocess.Popen([sys.executable, "-c", SERVE, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        yield server, f"http://127.0.0.1:{port}/", time.perf_counter() - start
    finally:
        server.terminate()
        server.wait()


def memory(process: int) -> float:
    """The most memory that a process has had, in MB."""
    line = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def processor(process: int) -> float:
    """Seconds of processors that a process has had."""
    facts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")


def first_page(page: Any, address: str) -> tuple[float, float]:
    """Seconds until the tiles of a collection are shown, and until its counts are."""
    page.set_default_timeout(300_000)
    start = time.perf_counter()
    page.goto(f"{address}?token={TOKEN}#collection?on=large")
    page.wait_for_selector(".long-wall .tile img")
    tiles = time.perf_counter() - start
    page.wait_for_selector(".facet .value")
    return tiles, time.perf_counter() - start


def seen(browser: Any, address: str, process: int, n: int) -> dict[str, float]:
    """What a person waits for."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    cold = first_page(page, address)
    spent = processor(process)
    warm = first_page(browser.new_page(viewport={"width": 1280, "height": 900}), address)
    clicks = [page.evaluate(CLICK, [name, number]) for number in range(FILTERS // 3)
              for name in ("class", "light", "place") if not _clear(page)]
    _clear(page)
    start = time.perf_counter()
    page.evaluate("() => { const wall = document.querySelector('.long-wall'); wall.scrollTop = wall.scrollHeight; }")
    page.wait_for_function("id => document.querySelector(`.long-wall button[title*='${id}'] img`)?.naturalWidth > 0",
                           arg=f"item-{n - 1}")
    return {"first page, s": cold[0], "with counts, s": cold[1], "the server's processor time, s": spent,
            "first page again, s": warm[0], "again with counts, s": warm[1],
            "filter in the page, ms": statistics.median(clicks), "slowest filter in the page, ms": max(clicks),
            "end of the wall, s": time.perf_counter() - start}


def _clear(page: Any) -> None:
    """Take every predicate away."""
    if page.locator(".filter .quiet").count():
        page.locator(".filter .quiet").click()
        page.wait_for_selector(".filter", state="detached")
        page.wait_for_selector(".panel [aria-busy=true]", state="detached")


def asked(address: str, process: int) -> dict[str, float]:
    """What the server takes for a filter, and for a picture that was not looked at before."""
    def get(name: str, **state: str) -> None:
        with urlopen(f"{address}api/{name}?{urlencode({**state, 'on': 'large', 'token': TOKEN})}") as response:  # noqa: S310
            response.read()

    clock, spent = [], []
    for number in range(3 * FILTERS):
        where = json.dumps([{"column": "site", "value": f"site {number}", "kind": "factor", "words": "a site"},
                            {"column": "has:thing 7", "value": "yes", "kind": "tag", "words": "with thing 7"}])
        start, before = time.perf_counter(), processor(process)
        get("counts", where=where)
        get("items", where=where)
        clock.append(1000 * (time.perf_counter() - start))
        spent.append(1000 * (processor(process) - before))
    start = time.perf_counter()
    for row in range(200):
        get("thumbnail", row=str(5000 + row))
    return {"filter on the server, ms": statistics.median(clock), "its processor time, ms": statistics.fmean(spent),
            "a picture, ms": 1000 * (time.perf_counter() - start) / 200}


def measure(n: int, folder: Path) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    make(folder, n)
    with serving(folder / "studio") as (server, address, seconds), sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        figures = {"server started, s": seconds, **seen(browser, address, server.pid, n), **asked(address, server.pid)}
        figures["most memory, MB"] = memory(server.pid)
        browser.close()
    return {**figures, "load of the machine": os.getloadavg()[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--folder", type=Path, help="where to make the collections")
    options = parser.parse_args()
    results = {}
    for n in options.items:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            os.environ["XDG_CONFIG_HOME"] = folder  # what is noted of this collection goes with it
            results[n] = measure(n, Path(folder))
    print(f"{'items':32}" + "".join(f"{n:>12,}" for n in results))
    for name in next(iter(results.values())):
        print(f"{name:32}" + "".join(f"{figures[name]:12.2f}" for figures in results.values()))
    if options.json:
        write_json(options.json, {str(n): figures for n, figures in results.items()})


if __name__ == "__main__":
    main()
