# Everything on a fresh machine, environment included: make demo, make test.
VENV   ?= .venv
PYTHON ?= python3
PY     := $(VENV)/bin/python
EXTRAS ?= all,dev

.PHONY: env demo test check format bench mutations coverage docs build clean

env: $(VENV)/.installed

# torch first and pinned: an open range may bring gigabytes of CUDA packages.
$(VENV)/.installed: setup.py pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q -c constraints.txt torch
	$(PY) -m pip install -q -c constraints.txt -e '.[$(EXTRAS)]'
	touch $@

demo: env
	$(PY) -m senteval_runner.demo

test: env
	$(PY) -m pytest

check: env
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

format: env
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: env
	$(PY) -m benchmarks.run

# Every equation broken once in a copy; a test must fail each time (half an hour).
mutations: env
	$(PY) -m tools.mutations

# Lines covered, commands run by the tests included.
coverage: env
	$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest
	$(PY) -m coverage combine -q
	$(PY) -m coverage report --fail-under 90

docs: env
	$(PY) -m mkdocs build --strict

build: env
	$(PY) -m build

clean:
	rm -rf build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache
