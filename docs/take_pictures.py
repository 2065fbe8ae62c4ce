"""Take the pictures of the docs from the real pages, so that they show what is there.

    make pictures, which is: make demo; .venv/bin/python docs/take_pictures.py demo

It needs chromium on the path, and writes docs/images/report.png and docs/images/studio_*.png. docs/images/pictures.json
keeps a digest of the studio's page: `make docs` says when the page has changed since.
"""

import json
import shutil
import sys
from pathlib import Path

from build_site import PICTURES, digest  # beside this file
from PIL import Image
from playwright.sync_api import sync_playwright

import shiftbench as sb

IMAGES = Path(__file__).parent / "images"
WIDE = {"width": 1280, "height": 840}
TALL = {"width": 1280, "height": 1200}  # down to the end of the first chart
VIEWS = {
    "collection": "collection?on=collections/scenes-0&colour=location",
    "graph": "graph?on=collections/scenes-0&cls=dog",
    "design": "design?recipe=recipes/minority-6.toml",
    "runs": "runs?on=runs",
    "compare": "compare?on=scores.parquet",
    "failures": "failures?audit=audit.json",
}
SHORTER = """folder => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(folder, "demo")
}"""
"""Where the demo lies on this machine is no part of a picture."""
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")


def main(demo: Path) -> None:
    """Photograph the report and every view of the studio."""
    with sync_playwright() as driver, sb.studio(demo) as running:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        page = browser.new_page(viewport=TALL)
        page.goto((demo / "report.html").resolve().as_uri())
        _save(page, "report")
        page.set_viewport_size(WIDE)
        for name, view in VIEWS.items():
            page.goto(f"{running.url}#{view}")
            page.reload()
            page.wait_for_load_state("networkidle")
            page.wait_for_selector("main :not(.wait)")
            page.wait_for_timeout(1500)  # pictures fade in
            page.evaluate(SHORTER, str(demo.resolve()))
            _save(page, f"studio_{name}")
        browser.close()
    PICTURES.write_text(json.dumps({"studio": digest()}, indent=1) + "\n", encoding="utf-8")


def _save(page: object, name: str) -> None:
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)  # type: ignore[attr-defined]
    octree = Image.Quantize.FASTOCTREE  # a palette in which small marks keep their hue
    Image.open(path).convert("RGB").quantize(256, octree).save(path, optimize=True)  # a third of the bytes


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
