"""Write what a command found into the page that tells of it.

    make demo; python docs/write_tables.py demo demo/tables.md                        docs/metashift.md
    make test-real; python docs/write_tables.py real build/real/found.md              docs/real_data.md

The file is copied to docs/studies and between the marks of the page; a test compares the two, so the page shows what a
run gave.
"""

import sys
from pathlib import Path

from shiftbench.reporting.markdown_tables import inserted

DOCS = Path(__file__).parent
PAGES = {"demo": "metashift.md", "real": "real_data.md"}


def main(name: str, source: str) -> None:
    found, page = Path(source).read_text(encoding="utf-8"), DOCS / PAGES[name]
    (DOCS / "studies" / f"{name}.md").write_text(found, encoding="utf-8")
    page.write_text(inserted(page.read_text(encoding="utf-8"), name, found), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in PAGES:
        raise SystemExit(f"python docs/write_tables.py {'|'.join(PAGES)} FILE")
    main(*sys.argv[1:])
