"""A finished run of our own as a model for another benchmark or a collection."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from shiftbench.core.arrays import Floats, Ints
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from shiftbench.images.augment import augment, standardised
from shiftbench.images.decode import images
from shiftbench.models.names import COLUMNS, SENTENCES
from shiftbench.models.net import MODELS, Net, build
from shiftbench.models.weights import load_into, read_weights
from shiftbench.predicting.classifier import Classifier, Options, file_identity
from shiftbench.scoring.listing import read_run
from shiftbench.training.device import choose_device, full_precision
from shiftbench.training.features import embed
from shiftbench.training.folder import CHECKPOINT, is_done, load_run
from shiftbench.training.inputs import size_of
from shiftbench.training.run import Run, split_features


def open_run(folder: Path, options: Options) -> Classifier:
    """The net of a finished run, with the classes of the benchmark that it was trained on."""
    if not is_done(folder):
        raise ShiftBenchError(f"{folder}: the run is not finished. Start the same training again to finish it.")
    if not (folder / CHECKPOINT).is_file():
        raise ShiftBenchError(f"{folder}: has no {CHECKPOINT}, so that nothing can be run: an estimator of scikit-"
                              "learn is not kept. Predict with it in a function: FILE.py:FUNCTION.")
    run, file = load_run(folder), read_run(folder).checked(CHECKPOINT)
    model, device = MODELS[run.model], choose_device(options.device)
    if run.features in (COLUMNS, SENTENCES) or model.takes == "graphs" or model.channels != 3 or (
            model.per_place or model.own_loss or run.learner().adapts):
        raise ShiftBenchError(f"{folder}: a run of model '{run.model}'{f' on {run.features}' if run.features else ''} "
                              f"with method '{run.method}' predicts only the benchmark that it was trained on.")
    with safe_open(file, "pt") as opened:
        classes = tuple(json.loads((opened.metadata() or {}).get("classes", "[]")))

    @cache
    def net(n_inputs: int) -> Net:
        weights = run.weights if model.source else "none"
        whole = run.learner().net(build(run.model, len(classes), n_inputs, weights, run.seed))
        load_into(whole, read_weights(file), file)
        return whole.eval().to(device)

    def classify(batch: Any) -> Floats:
        x, own = torch.from_numpy(np.ascontiguousarray(batch)).to(device), net(batch.shape[1])
        with full_precision(device):
            if model.takes == "images":
                x = augment(x, "none", *torch.tensor([own.mean, own.std], device=device))
                x = standardised(x) if run.normalise else x
            return np.asarray(own(x).float().cpu().numpy())

    return Classifier(str(folder), lambda collection, rows: _read(run, collection, rows, options.device), classify,
                      classes, identity=file_identity(file))


def _read(run: Run, collection: Collection, rows: Ints, device: str) -> Any:
    """What the run's net takes of these items: features of its backbone, tokens or images."""
    model = MODELS[run.model]
    if model.takes == "features":
        backbone, size = split_features(run.features)
        return embed(collection, rows, backbone, size, folder=collection.home, device=device)
    if model.takes == "tokens":
        return model.tokens(collection.first_texts(rows), run.size or model.side, run.weights)
    return images(collection, rows, size_of(run) or None)
