"""Write the demo's tables into docs/metashift.md: make demo, then python docs/write_tables.py demo

The demo leaves its tables in DEMO/tables.md. This copies that file to docs/studies/demo.md and between the marks of the
page; a test compares the two, so the page shows what a run gave.
"""

import sys
from pathlib import Path

from shiftbench.reporting.markdown_tables import inserted

DOCS = Path(__file__).parent


def main(demo: str) -> None:
    tables = (Path(demo) / "tables.md").read_text(encoding="utf-8")
    (DOCS / "studies" / "demo.md").write_text(tables, encoding="utf-8")
    page = DOCS / "metashift.md"
    page.write_text(inserted(page.read_text(encoding="utf-8"), "demo", tables), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("python docs/write_tables.py DEMO")
    main(sys.argv[1])
