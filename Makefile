# make demo   the whole flow on the built-in world, ends in demo/report.html
# make test   lint, types, layers, tests
# make bench  ratios against a reference, measured in the same run
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test bench clean
.DEFAULT_GOAL := demo

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[train,ray,tensorboard,mlflow,dev]"
	touch $(READY)

demo: $(READY)
	$(BIN)/shiftbench demo --out demo

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

bench: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[bench]"
	for file in bench/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:
	rm -rf demo .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
