#!/usr/bin/env bash
# The first minute with an installed shiftbench, without torch: a world, its meta-graph, a shift, a model from elsewhere, its
# failures and a page. `make release` runs it on every Python that is supported.  Usage: first_minute.sh FOLDER
set -euo pipefail
mkdir -p "$1" && cd "$1"
shiftbench --version
shiftbench read world scenes --items 2000 --out scenes
shiftbench graph scenes --class dog --min-size 10 --json > graph.json
cat > recipe.toml <<'RECIPE'
collection = "scenes"
seed = 0

[shift.subpopulation]
label = "class"
factor = "location"
majority = {cat = "indoors", dog = "outdoors"}
p = 0.12
n_train = 200
n_test = 160
n_val = 60
n_ood = 40
RECIPE
shiftbench build recipe.toml --out bench
shiftbench check bench
python - <<'MODEL'
import shiftbench as sb

bench = sb.Benchmark.load("bench")  # this model knows nothing of cats that are outdoors
names = bench.names["label"]
guess = ["dog" if "outdoors" in bench.names["group"][code] else names[label]
         for code, label in zip(bench.group.tolist(), bench.label.tolist())]
with open("model.csv", "w") as file:
    file.write("item,prediction\n" + "".join(f"{item},{word}\n" for item, word in zip(bench.items.tolist(), guess)))
MODEL
shiftbench score bench model.csv --out scores.parquet
shiftbench audit model.csv --data bench --out audit.html
shiftbench report scores.parquet --benchmark bench --out report.html
test -s report.html && test -s audit.html
