"""shiftbench trust COLLECTION [--root FOLDER]"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, print_json, say


def trust(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection that was made elsewhere.")],
    root: Annotated[Path | None, typer.Option(help="Where its files lie on this machine; default: where it says "
                                              "itself.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Let a collection from elsewhere use image files of this machine. Those that you read here need no such word.

    A collection says itself where its files lie; one from a stranger could name any folder of yours, and an export
    would copy files from there.

    shiftbench trust collections/coco --root /data/coco
    """
    folder = verbs.trust(collection, root)
    if json:
        print_json({"collection": str(collection), "root": str(folder)})
    elif not quiet:
        say(f"{collection}: files are taken from {folder}")
