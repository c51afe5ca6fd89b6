# Two commands: `make demo` trains on the King James Bible and asks it, `make test` runs the tests.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test check lint types install install-dev clean

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

install: .venv/installed
install-dev: .venv/installed-dev

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[offline]'
	touch $@

.venv/installed-dev: .venv/installed
	$(PIP) install -c constraints.txt -e '.[dev,offline]'
	touch $@

clean:
	rm -rf .venv runs build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
