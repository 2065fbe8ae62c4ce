"""shiftbench trust COLLECTION [--root FOLDER]"""

from pathlib import Path
from typing import Annotated

import typer

from shiftbench import api as verbs
from shiftbench.cli.output import Json, Quiet, print_json, say


def trust(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection that was made elsewhere.")],
    root: Annotated[Path | None, typer.Option(help="Folder of its images on this machine; default: the folder "
                                              "that it names.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Allow a collection that was made elsewhere to use image files of this machine.

    A collection names the folder of its images. One from a stranger could name any folder of yours, and an export would
    copy files from there. Collections that you read on this machine need no permission.

    shiftbench trust collections/coco --root /data/coco
    """
    folder = verbs.trust(collection, root)
    if json:
        print_json({"collection": str(collection), "root": str(folder)})
    elif not quiet:
        say(f"{collection}: files are taken from {folder}")
