# Everything on a fresh machine, environment included: make demo, make test.
# A target installs what it uses; with EXTRAS=all,dev each installs that instead.
VENV   ?= .venv
PYTHON ?= python3
PY     := $(VENV)/bin/python

EVERYTHING := all,bench,dev,triton
DEMO  := $(VENV)/.has-$(or $(EXTRAS),report)
TEST  := $(VENV)/.has-$(or $(EXTRAS),test)
DEV   := $(VENV)/.has-$(or $(EXTRAS),dev)
DOCS  := $(VENV)/.has-$(or $(EXTRAS),docs)
BENCH := $(VENV)/.has-$(or $(EXTRAS),bench)
WHOLE := $(VENV)/.has-$(or $(EXTRAS),$(EVERYTHING))

.PHONY: env demo test test-isa check format bench mutations coverage docs build clean

env: $(WHOLE)

# torch first and pinned: an open range may bring gigabytes of CUDA packages; by pip, whose settings may name an
# index of CPU builds. The rest by uv, which takes a tenth of pip's time, or by pip where uv cannot reach an index.
# What runs compiled is compiled now.
COMPILE ?= $(PY) -m multiview.warm_up
$(VENV)/.has-%: setup.py pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --no-compile -c constraints.txt torch
	$(PY) -m pip install -q uv && $(VENV)/bin/uv pip install -q --python $(PY) -c constraints.txt -e '.[$*]' \
	  || $(PY) -m pip install -q -c constraints.txt -e '.[$*]'
	$(COMPILE)
	touch $@

demo: $(DEMO)
	$(PY) -m senteval_runner.demo

# What behaves; ALL=1 is everything but gpu.
WORKERS ?= auto
SELECT := $(if $(ALL),not gpu,not slow and not repo and not process and not data and not gpu)
test: $(TEST)
	$(PY) -m pytest -n $(WORKERS) --dist worksteal -m "$(SELECT)"

# What other processors compute: SSE4 alone, AVX2 on two threads, this one's own on two.
SSE4 := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 OPENBLAS_CORETYPE=Nehalem MKL_CBWR=COMPATIBLE \
  NUMBA_CPU_NAME=x86-64 NUMBA_CPU_FEATURES= OMP_NUM_THREADS=1
AVX2 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell MKL_CBWR=AVX2 \
  NUMBA_CPU_NAME=haswell NUMBA_CPU_FEATURES= OMP_NUM_THREADS=2
OWN  := OMP_NUM_THREADS=2
ISA  := SSE4 AVX2 OWN
ISA_TESTS := tests/test_goldens.py tests/parsing/networks tests/parsing/test_text_parser.py \
  tests/multiview/engines tests/senteval_runner/protocol
test-isa: $(TEST) $(ISA:%=isa-%)
isa-%: $(TEST)
	env $($*) $(PY) -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not gpu" $(ISA_TESTS)

check: $(DEV)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) -m tools.budgets

format: $(DEV)
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .
	$(PY) -m tools.budgets --mend

# Each in a process of its own; MULTIVIEW_DATA is the folder of the real data.
BENCHMARKS := benchmarks.encoding benchmarks.tree_engine benchmarks.structure benchmarks.opposites \
  tests.speed.parsing tests.speed.senteval
bench: $(BENCH) $(BENCHMARKS:%=bench-%)
bench-%: $(BENCH)
	$(PY) -m $*

# Lines of the equations' modules broken one by one, in a copy; each time a test should fail (hours).
mutations: $(DEV)
	$(VENV)/bin/mutmut run

# Lines covered, commands run by the tests included.
coverage: $(TEST)
	$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest
	$(PY) -m coverage combine -q
	$(PY) -m coverage report --fail-under 90

docs: $(DOCS)
	$(PY) -m mkdocs build --strict

build: $(DEV)
	$(PY) -m build

clean:
	rm -rf build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache
