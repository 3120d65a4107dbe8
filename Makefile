# What is run often. `make` lists the targets; `make -n TARGET` shows the commands of one.
BIN := .venv/bin
T ?= tests

.DEFAULT_GOAL := help
.PHONY: help setup test check types limits docs pictures all

help: ## List the targets
	@grep -E '^[a-z]+: .*##' Makefile | sed -E 's/: [^#]*## /\t/' | expand -t 12

setup: ## Install the checkout and all tools into .venv
	python3 -m venv .venv
	$(BIN)/pip install -q uv
	$(BIN)/uv sync -q --group dev

test: ## Run the quick tests of T=folder
	$(BIN)/pytest -q -n auto -m "not slow" $(T)

check: types ## Check formatting, import rules and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=plugins $(BIN)/lint-imports

types: ## Check types with mypy and pyright
	$(BIN)/python -P tests/typing/check.py

limits: ## Check the limits of size and instructions
	$(BIN)/pytest -q -rs tests/limits

docs: ## Test the pages
	$(BIN)/pytest -q -n auto tests/docs

pictures: ## Draw the pictures of the documentation again
	$(BIN)/python docs/render_pictures.py

all: ## Run everything that every change must pass, on a wheel
	$(BIN)/tox
