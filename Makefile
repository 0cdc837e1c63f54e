# All set-up is done by the targets themselves: a clone, make and Python 3.11 or later suffice.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
JOBS ?= 3

.PHONY: demo test lint bench docs docs-with-reports lock wheel clean

demo: $(STAMP)
	$(BIN)/heft demo --out demo-out

# One more job than cores: tests of networks and processes wait. Small matrices are no work for threads
# of their own. A file is one job's, so that what its tests share is made once; `tests/conftest.py`
# says which files come first.
# Bytecode is kept, whatever the surroundings ask for: else each process that a test starts compiles
# all of heft.
test: $(STAMP)
	$(BIN)/python -c 'from heft import compiled as c; c.ship(c.cache_folder(), [c.processor()])'
	OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python -m benchmarks.core --store
	$(BIN)/python -m benchmarks.real_data --store

docs: $(STAMP)
	$(BIN)/python -m mkdocs build --strict
	@echo "open site/index.html"

# With the report of each measured robot, made of the logs in HEFT_DATA. Reports hold curves of these
# logs: whether a site with them may be published is for the logs' licences to say.
docs-with-reports:
	HEFT_REPORTS=1 $(MAKE) docs

# What would be published, for this Python: kernels come compiled.
wheel: $(STAMP)
	$(BIN)/python -m build --wheel --no-isolation

# Every file that is installed is known by its hash; heft itself is built by what is locked, too. The
# lock is all that is needed, so nothing is resolved: whatever is released later cannot change it.
$(STAMP): pyproject.toml methods/pyproject.toml requirements.txt
	$(PYTHON) -c 'import sys; sys.exit("heft needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV) || { echo "install the venv module: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . --editable methods
	$(BIN)/python -m pip check
	touch $@

# Needs uv (https://docs.astral.sh/uv). Names no address of an index: pip asks the one it is set to.
lock:
	printf 'hatchling\neditables\n' | uv pip compile pyproject.toml - --extra dev --universal \
		--python-version 3.11.5 --constraint constraints.txt --generate-hashes --no-annotate \
		--no-emit-index-url --custom-compile-command "make lock" --output-file requirements.txt

clean:
	rm -rf $(VENV) demo-out identified dist site
