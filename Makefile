# make run: see it work. make test: see that it is right. Both make the environment first.
PYTHON ?= python3
BIN := .venv/bin

run: .venv/ready
	$(BIN)/segma train digits

test: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 8

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check src

# torch first and pinned: an unpinned one brings several GB of CUDA packages to machines without a GPU
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install -q --disable-pip-version-check torch==2.13.0
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install -q --disable-pip-version-check -e ".[test]"
	touch $@

.PHONY: run test lint
