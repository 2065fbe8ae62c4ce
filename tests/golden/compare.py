"""What a processor has a say in, under two versions on one machine: the predictions of every method.

    python tests/golden/compare.py OLD [NEW] [--only erm irm]      two checkouts; NEW is this one where none is named

Trained nets differ between processors in their last bits, so their numbers are not recorded: both versions train the
same short runs here, and their predictions must be the same bytes. A method that cannot be trained so ends it, and it
ends with 1 where a method differs. Presets of one method are compared too; versions up to d73cf47 have them as methods,
with `pixel-mlp` under the name `mlp`.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

MODEL = {"pretrained": "efficientnet-lite0"}
"""Of methods that ask for one; others learn with a small net, or bring their own."""
SHORT = {"steps": 6, "batch_size": 16, "eval_every": 3, "device": "cpu"}
RECIPE = """
collection = "scenes"
[shift.correlation]
label = "class"
factor = "location"
classes = ["cat", "dog"]
rho = 0.8
"""


def train(folder: Path, only: list[str]) -> None:
    """Print method and digest of its predictions, line by line, with the version that this process imports."""
    import shiftbench as sb

    warnings.simplefilter("ignore")
    sb.read("world", "scenes", items=1500, size=64, out=folder / "scenes")
    (folder / "recipe.toml").write_text(RECIPE)
    sb.build(folder / "recipe.toml", folder / "b")
    variants = _variants()
    for name in only or sorted({*sb.METHODS, *variants} - {"last_layer", "mlp"}):  # last_layer learns from other items
        if name in variants:
            words, own = {"preset": name}, variants[name].settings
        else:
            old = "mlp" if name == "pixel-mlp" else name
            method = sb.METHODS[old]
            words, own = {"method": old}, getattr(method, "settings", {"model": getattr(method, "model", "")})
        if getattr(sb.METHODS.get(name), "unlabelled", ""):  # the benchmark has no items without labels
            words["params"] = {"unlabelled": "id_val"}
        net = {} if own.get("model") else {"model": MODEL.get(name, "small-cnn")}
        done = sb.train(folder / "b", out=folder / "runs", **words, **SHORT, **net)
        predictions = (Path(done) / "predictions.parquet").read_bytes()
        print(json.dumps([name, hashlib.sha256(predictions).hexdigest()[:16]]), flush=True)


def _variants() -> dict[str, Any]:
    """The presets of one method, by name; none in a version that has them as methods."""
    try:
        from shiftbench.methods.presets import VARIANTS
    except ImportError:
        return {}
    return dict(VARIANTS)


def trained(checkout: Path, only: list[str]) -> dict[str, str]:
    """Method -> a digest of what its short run predicts, in this version."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, "--train", folder, *(["--only", *only] if only else [])]
        done = subprocess.run(words, text=True, stdout=subprocess.PIPE, check=True, env={
            **os.environ, "PYTHONPATH": str(checkout.resolve() / "src"), "OMP_NUM_THREADS": "1"})
    return dict(json.loads(line) for line in done.stdout.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("new", type=Path, nargs="?", default=Path(__file__).parents[2])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        train(given.train, given.only)
        return
    old, new = trained(given.old, given.only), trained(given.new, given.only)
    differ = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    for name in sorted({*old, *new}):
        print(f"{name:<24} {'DIFFERS' if name in differ else 'same'}")
    print(f"{len(old)} methods, {len(differ)} differ")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
