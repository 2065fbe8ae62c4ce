"""A small folder with one of everything, a studio over it, and a person before a browser."""

import fcntl
import json
import os
import shutil
import time
from contextlib import contextmanager
from itertools import product
from threading import Thread

import numpy as np
import pytest

import shiftbench as sb
from shiftbench.core.arrays import child
from shiftbench.core.files import read_json, write_json
from shiftbench.reporting.page import read_source

pytest.importorskip("starlette", reason="starlette is not installed (extra: studio)")
import uvicorn

from shiftbench.webapp.server import application
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Studio

TOKEN = "a-token-of-the-tests"  # noqa: S105
PATIENCE = 120  # seconds that a look at a page may take on a machine that does much else
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync")
RECIPE = """collection = "../collections/scenes"
seed = 0

[shift.subpopulation]
label = "class"
factor = "location"
majority = {cat = "indoors", dog = "outdoors"}
p = 0.12
n_train = 200
n_test = 160
n_val = 60
n_ood = 40
"""


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A folder with a collection, a recipe, a benchmark, four runs, their scores and an audit. Nobody changes it.

    The workers of one run of pytest share it: the first makes it, the others wait.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with (shared / "studio.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock.fileno()).st_size == 0:  # the first one in: whoever is done writes a word into the file
            make_world(shared / "studio-world")
            lock.write("done")
    return shared / "studio-world"


def make_world(out):
    sb.read("world", "scenes", items=1500, seed=0, out=out / "collections/scenes")
    (out / "recipes").mkdir()
    (out / "recipes/minority.toml").write_text(RECIPE)
    sb.build(out / "recipes/minority.toml", out=out / "benchmarks/minority")
    runs = [sb.train(out / "benchmarks/minority", method, out / "runs", model="small-cnn", steps=20, batch_size=16,
                     seed=seed) for method in ("erm", "group_dro") for seed in (0, 1)]
    sb.score(out / "benchmarks/minority", *runs).save(out / "scores.parquet")
    sb.audit(runs[0], out / "benchmarks/minority", depth=2).save(out / "audit.json")


def make_run(out, number, state="done", reason="", **settings):
    """The files of a run, with nothing trained: its run.json, a line of its log, and the mark of its state."""
    folder = out / f"{number:08}"
    run = {"method": "irm", "params": {"penalty": 1.5}, "model": "mlp", "steps": 20, "lr": 0.001, "seed": 0, **settings}
    write_json(folder / "run.json", {"run": run, "benchmark": {"name": "minority", "digest": "x", "path": None}})
    line = {"stage": 0, "step": 10, "loss": 0.5 if state != "done" else number / 64, "seconds": 1.0}
    (folder / "log.jsonl").write_text(json.dumps(line) + "\n")
    if state == "failed":
        write_json(folder / "failed.json", {"reason": reason})
    if state == "done":
        (folder / "done").touch()
    return folder


@pytest.fixture(scope="session")
def several(world, tmp_path_factory):
    """A folder in which two methods have two settings each, of two seeds: eight runs that predict by a rule of thumb.

    The lower learning rate is better on items like those of training, the higher one in the smallest group of these.
    """
    out = tmp_path_factory.mktemp("several")
    for name in ("collections", "benchmarks"):
        shutil.copytree(world / name, out / name)
    benchmark = sb.Benchmark.load(out / "benchmarks/minority")
    rare = np.isin(benchmark.group, [k for k, name in enumerate(benchmark.names["group"])
                                     if name in ("cat, outdoors", "dog, indoors")])
    for number, (method, lr, seed) in enumerate(product(("erm", "irm"), (0.001, 0.01), (0, 1))):
        right = np.where(rare, 0.3 + 30 * lr, 0.95 - 20 * lr) + (0.1 if method == "irm" else 0.0)
        says = np.where(child(seed, method, str(lr)).random(len(benchmark)) < right, benchmark.label,
                        1 - benchmark.label)
        logits = np.where(says[:, None] == np.arange(2), 2.0, -1.0)
        folder = make_run(out / "runs", number, method=method, params={}, lr=lr, seed=seed)
        facts = read_json(folder / "run.json")
        write_json(folder / "run.json", facts | {"benchmark": {
            "name": "minority", "digest": benchmark.digest, "path": str(out / "benchmarks/minority")}})
        sb.Predictions.of(benchmark, benchmark.items, logits=logits).save(folder / "predictions.parquet")
    read_source(out / "runs").scores.save(out / "scores.parquet")
    return out


@pytest.fixture(scope="session")
def shown(world):
    """The world on a shelf, without a server."""
    return Studio(Shelf([world]))


@pytest.fixture(scope="session")
def scenes(world):
    return sb.Collection.load(world / "collections/scenes")


class Server:
    """A studio in a thread of this process, at an address of its own."""

    def __init__(self, *folders, edit=False):
        self.studio = Studio(Shelf(folders), edit=edit)
        config = uvicorn.Config(application(self.studio, TOKEN), port=0, log_level="warning", lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.root = f"http://127.0.0.1:{self.port}/"
        self.url = f"{self.root}?token={TOKEN}"

    def stop(self):
        self.server.should_exit = True
        self.thread.join()


@pytest.fixture(scope="session")
def studio(world):
    """A read-only studio over the world."""
    server = Server(world)
    yield server
    server.stop()


@pytest.fixture
def edited(world, tmp_path):
    """A studio that may write, over a copy of the world."""
    shutil.copytree(world, tmp_path / "work")
    server = Server(tmp_path / "work", edit=True)
    server.folder = tmp_path / "work"
    yield server
    server.stop()


@pytest.fixture(scope="session")
def browser():
    if "SHIFTBENCH_BROWSER" not in os.environ:  # .ci/run sets it: then a missing one is a failure
        pytest.importorskip("playwright", reason="playwright is not installed (extra: dev)")
        if shutil.which("chromium") is None:
            pytest.skip("no chromium on the path (Debian: apt-get install chromium)")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=1000 * PATIENCE)
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        yield opened
        opened.close()


class Person:
    """Somebody before the page, who notes what it asks of the network and what goes wrong."""

    def __init__(self, browser, server, **context):
        self.server, self.asked, self.errors = server, [], []
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.context.set_default_timeout(1000 * PATIENCE)
        self.page = self.context.new_page()
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)

    def open(self, route=""):
        """Open a view: open("collection?on=collections/scenes")."""
        self.page.goto(f"{self.server.url}#{route}")
        return self.page

    def forgive(self):
        """Leave the page, and forget the refusals that the browser noted: they were provoked."""
        self.page.goto("about:blank")
        self.errors.clear()

    def close(self):
        self.context.close()
        assert self.errors == []
        assert [url for url in self.asked if not url.startswith((self.server.root, "data:", "blob:"))] == []


def settled(page):
    """The page, once it shows what its address says and waits for no answer."""
    page.wait_for_function(
        "() => document.body?.dataset.address === location.hash && document.body.dataset.tasks === '0'")
    return page


def until(page, look, wanted):
    """Look until the page shows what is wanted: playwright's `expect`, for what it has no word for."""
    end = time.monotonic() + PATIENCE
    while (seen := look(settled(page))) != wanted and time.monotonic() < end:
        page.wait_for_timeout(50)
    assert seen == wanted


@contextmanager
def serving(server):
    """A server of the standard library in a thread; gives its port."""
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def person(browser, studio):
    """A person before the read-only studio; at the end nothing went wrong and no request left this machine."""
    somebody = Person(browser, studio)
    yield somebody
    somebody.close()


@pytest.fixture
def editor(browser, edited):
    """A person before the studio that may write."""
    somebody = Person(browser, edited)
    yield somebody
    somebody.close()
