"""The logs of a sweep in TensorBoard or MLflow, copied by a thread while it runs; log.jsonl stays authoritative.

The process that started the sweep copies them: no run fails because a server is down, workers need no further package,
and it works with every engine. The sink itself says which points it has, so that a resumed run, a second sweep or a
killed copy never writes a point twice.
"""

import io
import logging
import os
import re
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from shiftbench.core.errors import ShiftBenchError, first_line, unknown
from shiftbench.core.files import read_json
from shiftbench.data.scores import label_of
from shiftbench.scoring.listing import lines, name_in, points


class Mirror:
    """Inside `with Mirror(out, ["tensorboard"], runs):` the logs of these runs are copied as they grow.

    A sink that fails stops nothing: what it missed is tried again, at the latest when the block ends; what is missing
    then is named in `problem` and in a warning. Runs that were done before are copied too, so that a sweep that starts
    again with a sink, or after its copy was killed, ends with all of them.
    """

    def __init__(self, out: Path | str, names: Sequence[str], runs: Iterable[str], seconds: float = 5.0) -> None:
        self.out, self.seconds, self.problem = Path(out), seconds, ""
        self.sinks = open_sinks(names, self.out)
        self.open: dict[str, object] = dict.fromkeys(runs) if names else {}  # run -> how its files looked last time
        self._stop = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Mirror":
        if self.open:
            self._thread.start()
        return self

    def __exit__(self, error_type: type[BaseException] | None, *error: BaseException | TracebackType | None) -> None:
        if self._thread.is_alive():
            self._stop.set()
            self._thread.join()
        if self.problem:
            warnings.warn(f"Not all logs could be copied, from run {self.problem}. The runs and their log.jsonl are "
                          "whole; the same sweep started again copies the rest.", RuntimeWarning, stacklevel=2)

    def _watch(self) -> None:
        wait = 0.0
        while not self._stop.wait(wait):
            began = time.monotonic()
            self.look()
            # Many runs take long to look at; the sweep must not lose more than a twentieth of a core to this.
            wait = max(self.seconds, 20 * (time.monotonic() - began))
        self.look()

    def look(self) -> None:
        """Copy what has changed since the last look."""
        self.problem = ""
        for run, before in list(self.open.items()):
            folder = self.out / run
            now = _file_state(folder)
            if now is None or now == before:
                continue
            try:
                entry = read_entry(folder)
            except (ShiftBenchError, KeyError, TypeError, ValueError):
                continue  # its run.json is damaged, which training and scoring report
            try:
                for sink in self.sinks:
                    sink.copy(entry)
            except Exception as problem:  # any error of another package: the sweep goes on
                self.problem = f"{run}: {type(problem).__name__}: {first_line(problem)}"
                return  # the next run would fail in the same way, after as long a wait
            self.open[run] = now
            if entry.state == "done":
                del self.open[run]


def _file_state(folder: Path) -> tuple[int, int, bool] | None:
    """Size and time of the log, and whether the run has ended; None while there is nothing to copy."""
    ended = (folder / "done").is_file() or (folder / "failed.json").is_file()
    try:
        log = (folder / "log.jsonl").stat()
    except OSError:
        return (0, 0, ended) if ended else None
    return log.st_size, log.st_mtime_ns, ended


class Entry(NamedTuple):
    """A run as its folder describes it, for a sink."""

    run: str
    benchmark: str
    settings: Mapping[str, Any]  # flat
    started: float  # seconds since 1970
    lines: Sequence[Mapping[str, Any]]
    state: str  # running, done or failed


def read_entry(folder: Path) -> Entry:
    """Read a run's folder."""
    facts = read_json(folder / "run.json")
    run = dict(facts["run"])
    return Entry(folder.name, str(facts["benchmark"]["name"]), {**run.pop("params"), **run},
                 (folder / "run.json").stat().st_mtime, lines(folder / "log.jsonl"),
                 next((name for name, file in (("done", "done"), ("failed", "failed.json"))
                       if (folder / file).is_file()), "running"))


# Sinks: `copy` takes the whole log of a run, again and again as it grows, and writes each point once


class TensorBoard:
    """Event files below OUT/tensorboard/BENCHMARK/METHOD/RUN, for `tensorboard --logdir OUT/tensorboard`.

    An event file is a function of the log: its bytes are worked out and what differs is written, in place, so that a
    TensorBoard that is watching goes on reading.
    """

    def __init__(self, out: Path) -> None:
        _need("tensorboard", "tensorboard")
        self.folder = out / "tensorboard"

    def copy(self, entry: Entry) -> None:
        folder = self.folder / entry.benchmark.replace("/", "-") / label_of(entry.settings) / entry.run
        folder.mkdir(parents=True, exist_ok=True)
        path, content = folder / "events.out.tfevents.0.shiftbench", events(entry)
        present = path.read_bytes() if path.is_file() else b""
        agreed = _common_prefix(present, content)
        if agreed < len(content):  # else all is there, or the points of a log that was cut, which come again
            with path.open("r+b" if present else "wb") as handle:
                handle.seek(agreed)
                handle.truncate()
                handle.write(content[agreed:])


def _common_prefix(a: bytes, b: bytes) -> int:
    """How many bytes are the same from the start."""
    n = min(len(a), len(b))
    differs = np.frombuffer(a[:n], np.uint8) != np.frombuffer(b[:n], np.uint8)
    return int(differs.argmax()) if differs.any() else n


def events(entry: Entry) -> bytes:
    """The records of an event file: its version, the settings as hyperparameters, and one per line of the log."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb
    from tensorboard.summary.writer.record_writer import RecordWriter

    settings = {key: value if isinstance(value, bool | int | float | str) else str(value)
                for key, value in entry.settings.items()}
    events = [Event(wall_time=entry.started, file_version="brain.Event:2"),
              Event(wall_time=entry.started,
                    summary=hparams_pb(settings, trial_id=entry.run, start_time_secs=entry.started))]
    events += [Event(wall_time=entry.started + float(line.get("seconds", 0.0)), step=line["step"],
                     summary=Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in points(line)]))
               for line in entry.lines]
    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    for event in events:
        writer.write(event.SerializeToString(deterministic=True))
    return buffer.getvalue()


_FORBIDDEN = re.compile(r"[^\w\-./: ]")
"""Characters that MLflow refuses in names, such as the brackets of worst_group_accuracy[region!Other]."""


class MLflow:
    """Runs of the experiment that is named as the folder, on MLFLOW_TRACKING_URI, else in OUT/mlflow.db.

    A run of ours is found by its tag `shiftbench.run`. `loss` is the last number of a line to be sent, so that a line
    counts as sent when its loss is there.
    """

    def __init__(self, out: Path) -> None:
        database = out.resolve() / "mlflow.db"
        self.uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{database}"
        for module in ("mlflow", *(["sqlalchemy", "alembic"] if self.uri.startswith("sqlite") else [])):
            _need(module, "mlflow")
        self.name = out.resolve().name
        self.artifacts = None if "MLFLOW_TRACKING_URI" in os.environ else database.with_name("mlflow").as_uri()
        self.client: Any = None
        self.runs: dict[str, str] = {}  # ours -> theirs
        self.sent: dict[str, dict[int, int]] = {}  # ours -> stage -> last step

    def copy(self, entry: Entry) -> None:
        from mlflow.entities import Metric, Param

        client = self._connect()
        if entry.run not in self.runs:
            name = f"{label_of(entry.settings)} on {entry.benchmark}, seed {entry.settings['seed']}"
            created = client.create_run(self.experiment, start_time=int(entry.started * 1000), run_name=name,
                                        tags={"shiftbench.run": entry.run, "shiftbench.benchmark": entry.benchmark})
            self.runs[entry.run] = created.info.run_id
        if entry.run not in self.sent:
            client.log_batch(self.runs[entry.run], params=[  # the same again changes nothing
                Param(key, str(value)) for key, value in entry.settings.items()])
            self.sent[entry.run] = self._last(entry)
        sent = self.sent[entry.run]
        for line in entry.lines:
            if line["step"] > sent.get(line["stage"], -1):
                timestamp = int((entry.started + float(line.get("seconds", 0.0))) * 1000)
                last = name_in(line["stage"], "loss")
                ordered = sorted(points(line), key=lambda point: point[0] == last)
                client.log_batch(self.runs[entry.run], [Metric(_FORBIDDEN.sub(" ", key).strip(), value, timestamp,
                                                               line["step"]) for key, value in ordered])
                sent[line["stage"]] = line["step"]
        if entry.state != "running":
            client.set_terminated(self.runs[entry.run], "FINISHED" if entry.state == "done" else "FAILED")

    def _connect(self) -> Any:
        if self.client is None:
            os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
            from mlflow import MlflowClient

            for name in ("mlflow", "alembic"):
                logging.getLogger(name).setLevel(logging.WARNING)
            client = MlflowClient(self.uri)
            stored = client.get_experiment_by_name(self.name)
            self.experiment = stored.experiment_id if stored else client.create_experiment(self.name, self.artifacts)
            token: str | None = ""
            while token is not None:
                page = client.search_runs([self.experiment], "tags.`shiftbench.run` != ''", page_token=token or None)
                self.runs |= {run.data.tags.get("shiftbench.run", ""): run.info.run_id for run in page}
                token = page.token or None
            self.client = client
        return self.client

    def _last(self, entry: Entry) -> dict[int, int]:
        """The last step that was sent, per stage."""
        history = {stage: self.client.get_metric_history(self.runs[entry.run], name_in(stage, "loss"))
                   for stage in {line["stage"] for line in entry.lines}}
        return {stage: max(metric.step for metric in metrics) for stage, metrics in history.items() if metrics}


SINKS: Mapping[str, type[TensorBoard] | type[MLflow]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


def open_sinks(names: Sequence[str], out: Path) -> list[TensorBoard | MLflow]:
    """Sinks by name; an error where the package of one is not installed."""
    for name in names:
        if name not in SINKS:
            raise unknown("log", name, SINKS, "--log")
    return [SINKS[name](out) for name in dict.fromkeys(names)]


def _need(module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise ShiftBenchError(f"--log {extra} needs the package {module}, which is not installed. "
                              f"Install it: pip install 'shiftbench[{extra}]'.")
