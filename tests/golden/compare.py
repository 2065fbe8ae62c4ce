"""What a processor has a say in, under two versions on one machine: the predictions of every method.

    python tests/golden/compare.py OLD [NEW] [--only erm irm]      two checkouts; NEW is this one where none is named

Trained nets differ between processors in their last bits, so their numbers are not recorded: both versions train the
same short runs here, and their predictions must be the same bytes. Ends with 1 where a method differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

DRIVER = '''
import hashlib, json, sys, warnings
from pathlib import Path
import numpy as np
import shiftbench as sb

warnings.simplefilter("ignore")
place, only = Path(sys.argv[1]), sys.argv[2:]
scenes = sb.read("world", "scenes", items=1500, size=32, out=place / "scenes")
shift = sb.Correlation("class", "location", rho=0.8, classes=("cat", "dog"))
(place / "recipe.toml").write_text("collection = 'scenes'\\\\nseed = 0\\\\n[shift.correlation]\\\\nlabel = 'class'\\\\n"
                                   "factor = 'location'\\\\nclasses = ['cat', 'dog']\\\\nrho = 0.8\\\\n")
sb.build(place / "recipe.toml", place / "b")
known = sorted(sb.METHODS)
for name in json.loads((place / "names.json").read_text()) if (place / "names.json").exists() else known:
    if only and name not in only:
        continue
    words = {"method": name} if name in sb.METHODS else {"preset": name}
    nets = {} if name in ("pretrained", "vit") or "net" in name or name in ("vgg11", "mlp") else {"model": "small-cnn"}
    try:
        short = {"steps": 6, "batch_size": 16, "eval_every": 3, "device": "cpu"}
        done = sb.train(place / "b", out=place / "runs", **short, **words, **nets)
        found = sb.Predictions.load(Path(done) / "predictions.parquet")
        digest = hashlib.sha256(np.ascontiguousarray(found.scores).tobytes()).hexdigest()[:16]
    except Exception as problem:
        digest = f"{type(problem).__name__}: {problem}"[:300]
    print(json.dumps([name, digest]), flush=True)
'''


def trained(checkout: Path, names: list[str] | None, only: list[str]) -> dict[str, str]:
    """Method -> a digest of what its short run predicts, in this version."""
    with tempfile.TemporaryDirectory() as folder:
        if names is not None:
            (Path(folder) / "names.json").write_text(json.dumps(names))
        done = subprocess.run([sys.executable, "-c", DRIVER.replace("\\\\", "\\"), folder, *only], text=True,
                              env={**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"},
                              stdout=subprocess.PIPE, check=True)
    return dict(json.loads(line) for line in done.stdout.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=Path(__file__).parents[2])
    parser.add_argument("--only", nargs="+", default=[])
    given = parser.parse_args()
    old = trained(given.old, None, given.only)
    new = trained(given.new, list(old), given.only)
    for name in old:
        same = old[name] == new.get(name)
        print(f"{name:<24} {'same' if same else 'DIFFERS'}  {old[name]}" + ("" if same else f"  {new.get(name)}"))
    differ = [name for name in old if old[name] != new.get(name)]
    print(f"{len(old)} methods, {len(differ)} differ")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
