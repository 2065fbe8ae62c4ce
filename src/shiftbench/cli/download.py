"""shiftbench download NAME --root FOLDER"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftbench.cli.output import Json, Quiet, print_json, print_table, progress, say, teller

if TYPE_CHECKING:
    from shiftbench.downloads.data_sets import Source


def download(
    name: Annotated[list[str] | None, typer.Argument(
        help="Name of the data set, as --list shows it: wilds camelyon17, waterbirds, coco, dsprites, ….")] = None,
    root: Annotated[Path, typer.Option(help="Folder of all data sets; each gets a folder in it.")] = Path("data"),
    origin: Annotated[str | None, typer.Option(
        "--from", help="Folder or address of your own that has the files under the same names.")] = None,
    accept_licence: Annotated[bool, typer.Option(
        "--accept-licence", help="Accept the licence, which is shown; without it a terminal asks.")] = False,
    keep_archives: Annotated[bool, typer.Option("--keep-archives", help="Keep archives after unpacking.")] = False,
    check: Annotated[bool, typer.Option(
        "--check", help="Fetch nothing; read every file and list those that are missing, half-downloaded or altered. "
                        "The exit code is 1 if there are any.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List every data set: size, licence, checksums.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fetch a published data set: from its makers or a mirror, resumed, checked and unpacked. --list shows them all.

    Proxies are taken from the environment (https_proxy, http_proxy, no_proxy).

    shiftbench download wilds camelyon17 --root data
    """
    from shiftbench.downloads.data_sets import SOURCES, find_source

    if list_:
        _list(list(SOURCES.values()), json)
        return
    if not name:
        raise typer.BadParameter("Name a data set, or use --list.", param_hint="NAME")
    source = find_source(*name)
    if check:
        _check(source, root, json, quiet)
    else:
        _download(source, root, origin, accept_licence, keep_archives, json, quiet)


def _download(
    source: "Source", root: Path, origin: str | None, accept_licence: bool, keep_archives: bool, json: bool, quiet: bool
) -> None:
    from shiftbench.downloads.fetching import Options, is_finished, licence_words
    from shiftbench.downloads.fetching import download as fetch

    asked = sys.stdin.isatty() and sys.stderr.isatty() and not json and not quiet
    if asked and not accept_licence and not source.login and not is_finished(source, root):
        typer.echo(f"{source.what}: {size_words(source)}. {licence_words(source)}", err=True)
        accept_licence = typer.confirm("Do you accept it?", err=True)
    with progress(source.words, quiet or json, in_bytes=True) as advance:
        folder, fetched = fetch(source, root, accept_licence, Options(
            origin, keep_archives, advance, teller(silent=quiet or json)))
    command = source.read.format(root=root)
    if json:
        print_json({"name": source.words, "folder": str(folder), "fetched": fetched, "next": command})
    elif not quiet:
        say(f"{folder}: {source.what}{'' if fetched else ', as it was downloaded before; nothing was fetched'}")
        say(f"Licence: {source.licence.name}, {source.licence.url}", f"Cite: {source.citation}")
        say(f"Next: {command}" if command else "ShiftBench has no reader for it.")


def _check(source: "Source", root: Path, json: bool, quiet: bool) -> None:
    from shiftbench.downloads.fetching import compare

    differences = compare(source, root)
    if json:
        print_json({"name": source.words, "root": str(root), "files": [
            {"path": path, "problem": problem} for path, problem in differences]})
    elif not quiet:
        if differences:
            print_table("", ["file", "problem"], differences)
        else:
            say(f"{root / source.folder}: every file of {source.words} is there as it was downloaded.")
    if differences:
        raise typer.Exit(1)


def _list(sources: "list[Source]", json: bool) -> None:
    if json:
        print_json([_facts(source) for source in sources])
        return
    print_table("", ["name", "size", "licence", "commercial use", "checksums", "what it is"], [
        [source.words, size_words(source), source.licence.name, source.licence.commercial,
         source.checksums, source.what + (" (needs a login)" if source.login else "")] for source in sources])


def _facts(source: "Source") -> dict[str, Any]:
    return {
        "name": source.words, "what": source.what, "folder": source.folder,
        "size": source.size if source.sized else None, "disk": source.disk,
        "licence": {"name": source.licence.name, "url": source.licence.url, "commercial": source.licence.commercial,
                    "note": source.licence.note},
        "citation": source.citation, "origin": source.origin, "next": source.read, "login": source.login,
        "files": [{
            "path": file.path, "urls": list(file.urls), "size": file.size, "exact": file.exact,
            "checksum": file.checksum and {"algorithm": file.checksum.algorithm, "value": file.checksum.value,
                                           "by": file.checksum.by}} for file in source.files]}


def size_words(source: "Source") -> str:
    """The size of what is fetched; "or more" where it is published of some files only."""
    if not source.size:
        return "not published"
    size = f"{source.size / 1e9:,.1f} GB" if source.size >= 1e9 else f"{max(1, round(source.size / 1e6))} MB"
    return size if source.sized else f"{size} or more"
