# Each target sets up what it needs, from a clean clone: Python packages in .venv; Graphviz and Chromium by apt where
# this user may (see .ci/setup).
export PATH := $(CURDIR)/.venv/bin:$(PATH)
.NOTPARALLEL:
.PHONY: help setup demo test lint soak fmt clean

help: ## what the targets are
	@sed -n 's/^\([a-z]*\): .*## /  make \1\t/p' Makefile

setup: ## .venv with dashpot, tests and linters, so that `.venv/bin/dashpot` works
	@.ci/setup tests graphviz chromium etcd clients

demo: ## find a known bug in a controller, tell its story, draw it
	@.ci/setup product graphviz
	@.ci/demo

lint: ## ruff, mypy, pyright, import contracts
	@.ci/setup tests
	ruff check .
	ruff format --check .
	mypy
	pyright
	lint-imports --no-logo

test: setup lint ## everything that CI runs; PYTEST_ARGS="-k story" narrows
	pytest -n 2 $(PYTEST_ARGS)

soak: setup ## the full figures: long searches, many random examples
	pytest -m soak --hypothesis-profile=soak -rA $(PYTEST_ARGS)
	python bench/explore.py --rounds 5
	python bench/store.py
	python bench/api.py
	python bench/plane.py

fmt: ## lay out the Python code
	@.ci/setup tests
	ruff check --fix .
	ruff format .

clean: ## back to the clone
	rm -rf .venv .dashpot build dist src/*.egg-info .*_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
