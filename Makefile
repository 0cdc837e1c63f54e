# All set-up is done by the targets themselves: a clone, make and Python 3.11 or later suffice.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
JOBS ?= 2

.PHONY: demo test lint bench docs clean

demo: $(STAMP)
	$(BIN)/heft demo --out demo-out

# The jobs share the cores: small matrices are no work for threads of their own.
test: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python -m benchmarks.core
	$(BIN)/python -m benchmarks.real_data

docs: $(STAMP)
	$(BIN)/python -m mkdocs build --strict
	@echo "open site/index.html"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("heft needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV) || { echo "install the venv module: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) demo-out identified dist site
