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

bench: .venv/ready .bench/ready
	$(BIN)/python benchmarks/run.py

# torch first and pinned: an unpinned one brings several GB of CUDA packages to machines without a GPU
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install -q --disable-pip-version-check torch==2.13.0
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install -q --disable-pip-version-check -e ".[test,studio,export]"
	touch $@

# the peer, in an environment of its own; torch is named again so that pip cannot take another one
.bench/ready: Makefile
	$(PYTHON) -m venv .bench/pythae
	.bench/pythae/bin/pip install -q --disable-pip-version-check torch==2.13.0
	.bench/pythae/bin/pip install -q --disable-pip-version-check torch==2.13.0 pythae==0.1.2
	touch $@

.PHONY: run test lint bench
