"""shiftbench studio [FOLDER…]"""

import signal
from pathlib import Path
from typing import Annotated

import typer

from shiftbench.cli.output import Quiet, say


def studio(
    folder: Annotated[list[Path] | None, typer.Argument(
        help="Folders that hold collections, benchmarks, runs, scores or audits; default: this one.")] = None,
    edit: Annotated[bool, typer.Option(
        "--edit", help="Let the page save recipes, benchmarks, audits and views below the first folder.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen at; one that other machines reach needs --token.")] = (
        "127.0.0.1"),
    token: Annotated[str, typer.Option(help="Word that the address must carry; default: a random one.")] = "",
    open: Annotated[bool, typer.Option("--open", help="Open the page in a browser of this machine.")] = False,
    quiet: Quiet = False,
) -> None:
    """Look at the data, the graph, the shift, the runs and the failures in a browser. Nothing leaves this machine.

    The command prints the address, and the ssh line that makes it work from another machine. Ctrl-C or SIGTERM stops
    it, with exit code 0.

    shiftbench studio demo

    shiftbench studio demo --edit --port 8000
    """
    from shiftbench.webapp.launch import start

    # Before anybody has the address. A shell in the background has them ignored. A handler that raised, or took a lock,
    # would do so wherever the program happens to be.
    signals: list[int] = []
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, lambda number, frame: signals.append(number))
    with start(folder or [Path()], edit=edit, port=port, host=host, token=token) as running:
        say(running.url)  # alone in its line, for scripts
        if not quiet:
            say(f"from another machine: {running.tunnel}", "stop with Ctrl-C")
        if open:
            import webbrowser

            webbrowser.open(running.url)
        running.wait(signals)
