"""A round: its cases are dealt to processes, and a process that dies or falls silent is a finding of its own."""

import math
import multiprocessing
import os
import sys
import tempfile
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.cases import Project, Target, case, prepare, targets
from tests.fuzz.project import project

PATIENCE = 240
"""Seconds after which a process that does not answer is ended: nothing in it looks at the clock any more."""


class Finding(NamedTuple):
    """A violation: where it was found, by which case, what is wrong and what happened."""

    target: str
    case: int
    wrong: str
    detail: str


def made(place: Path) -> tuple[Project, dict[str, Target]]:
    """A sound project in a new folder, which becomes the current one, and its targets by name."""
    os.chdir(place)
    prepare()
    commands = project(place)
    whole = Project(place)
    return whole, {str(target): target for target in targets(whole, commands)}


def work(pipe: Connection, seed: int) -> None:
    """Do the cases that come through the pipe."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        whole, known = made(Path(folder))
        pipe.send({name: target.command.cost for name, target in known.items()})
        while (asked := pipe.recv()) is not None:
            name, number = asked
            pipe.send(case(whole, known[name], number, seed, memory=True))
        os.chdir("/")


class Worker:
    """A process with a project of its own."""

    def __init__(self, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, seed), daemon=True)
        self.process.start()
        theirs.close()
        self.costs: dict[str, int] = {}
        self.doing: tuple[str, int] | None = None
        self.since = time.monotonic()

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def shares(costs: dict[str, int], cases: int) -> dict[str, int]:
    """So many cases for each target: as many more as it is quicker, at least a few."""
    unit = cases / sum(1 / cost for cost in costs.values())
    return {name: max(3, math.ceil(unit / cost)) for name, cost in costs.items()}


def round_of(cases: int, seed: int, workers: int, only: str = "") -> tuple[dict[str, int], list[Finding]]:
    """Do every case; gives the cases of each target, and the violations."""
    crew = [Worker(seed) for _ in range(workers)]
    costs: dict[str, int] = {}
    for worker in crew:
        worker.costs = costs = worker.pipe.recv()
    costs = {name: cost for name, cost in costs.items() if only in name}
    counts = shares(costs, cases)
    todo = [(name, number) for number in range(max(counts.values())) for name in sorted(counts)
            if number < counts[name]]
    total, findings, began = len(todo), [], time.monotonic()
    todo.reverse()
    told = 0.0
    while todo or any(worker.doing for worker in crew):
        for worker in crew:
            if worker.doing is None and worker.costs and todo:
                worker.doing, worker.since = todo.pop(), time.monotonic()
                worker.pipe.send(worker.doing)
        wait([worker.pipe for worker in crew], timeout=1.0)
        for place, worker in enumerate(crew):
            wrong, detail = "", ""
            try:
                if not worker.pipe.poll():
                    if time.monotonic() - worker.since < PATIENCE or worker.doing is None:
                        continue
                    wrong = f"no answer for {PATIENCE} s"
                elif not worker.costs:
                    worker.costs = worker.pipe.recv()
                    continue
                else:
                    wrong, detail = worker.pipe.recv()
            except (EOFError, ConnectionResetError):
                wrong = "the process died"
            if wrong in ("the process died", f"no answer for {PATIENCE} s"):
                worker.end()
                crew[place] = Worker(seed)
            if wrong and worker.doing:
                findings.append(Finding(*worker.doing, wrong, detail))
                sys.stderr.write(f"--only '{worker.doing[0]}' --case {worker.doing[1]}: {wrong}\n")
            worker.doing = None
        if time.monotonic() - told > 10:
            told = time.monotonic()
            done = total - len(todo)
            sys.stderr.write(f"{done:,} of {total:,} cases, {len(findings)} violations, {told - began:.0f} s\n")
    for worker in crew:
        if worker.costs:
            worker.pipe.send(None)
            worker.process.join(20)
        worker.end()
    return counts, findings
