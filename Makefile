# Each target sets up all that it needs; a fresh machine needs only make and Python 3.11 or later.
#   make PYTHON=python3.12 test     chooses the interpreter
#   make test SAMPLE=1234           repeats the sample of tests that a failure named; make test-all takes every test
#   make bench ARGS=--markdown      passes options to the benchmarks
#   make fuzz SECONDS=600 SEED=1    says how long and which programs; ARGS='--program 12' runs one of them

PYTHON ?= python3
TORCH  ?= torch==2.13.0
ARGS   ?=
SECONDS ?= 600
SEED   ?= 0
# Which of the tests that are taken by turns run in `make test`: others with every commit. See tests/sampling.py.
SAMPLE ?= $(or $(shell git rev-list --count HEAD 2>/dev/null),$(shell date +%Y%j))

VENV  := .venv
BENCH := .venv-bench
BIN   := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
PIP   := python -m pip --disable-pip-version-check install --quiet
# Compiles again what changed since it was installed; where there is no compiler, the sources run as they are.
NATIVE := python tools/build_native.py --if-possible

# Two test processes on two cores: BLAS threads beside them would only get in the way. What Python compiles is kept, since
# tests start many processes.
one_thread := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

# What is compiled must also work as it is: these run a second time, on the sources, and so do the doctests.
core_tests := $(patsubst %,tests/test_%.py,\
	tape tensor memory modes errors hooks function inplace func_reverse func_forward func_vmap func_closures seam)

# Loops over memory, and what is compiled around them.
sanitized_tests := $(patsubst %,tests/test_%.py,\
	native arithmetic loops attention_kernels recurrent_kernels channel_kernels threads optim ops)

.PHONY: help test test-all test-sanitize demo native bench fuzz parity parity-report porting coverage-table format clean

help:
	@echo "make test            linters, types, and the tests with a sample of the longest ones, which changes by itself"
	@echo "make test-all        the same with every test: before a release"
	@echo "make test-sanitize   the compiled loops under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make demo            a short tour, on the sources as they are unless they were compiled before"
	@echo "make native          compiles the hot paths for this processor"
	@echo "make bench | fuzz | parity | parity-report | porting | coverage-table | format | clean"

test: export LUCID_TEST_SAMPLE := $(SAMPLE)
test-all: export LUCID_TEST_SAMPLE :=
test test-all: $(VENV)/installed-dev
	$(VENV)/$(BIN)/$(NATIVE)
	$(VENV)/$(BIN)/ruff check .
	$(VENV)/$(BIN)/ruff format --check .
	$(VENV)/$(BIN)/mypy
	$(one_thread) $(VENV)/$(BIN)/python -m pytest -n 2
	LUCID_PURE=1 $(one_thread) $(VENV)/$(BIN)/python -m pytest -n 2 $(core_tests)
	LUCID_PURE=1 $(one_thread) $(VENV)/$(BIN)/python -m pytest -n 2 --doctest-modules lucid sorix

# Compiled with bounds checks, AddressSanitizer and UndefinedBehaviorSanitizer, beside the usual build. The library of
# C++ must be loaded with that of the sanitizer: SciPy throws exceptions. A finding ends the process: what pytest had
# captured of the file of errors would end with it, so that is not captured.
test-sanitize: $(VENV)/installed-dev
	$(VENV)/$(BIN)/python tools/build_native.py --sanitize
	$(one_thread) LUCID_NATIVE=build/sanitized/modules \
		LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		$(VENV)/$(BIN)/python -X faulthandler -m pytest -p no:faulthandler --capture=sys $(sanitized_tests)

# A first look waits for no compiler: the sources run as they are, unless something before has compiled them.
demo: $(VENV)/installed-examples
	$(VENV)/$(BIN)/python examples/demo.py

native: $(VENV)/compilers $(VENV)/installed-examples
	$(VENV)/$(BIN)/$(NATIVE)

bench: $(BENCH)/installed
	$(BENCH)/$(BIN)/$(NATIVE)
	$(BENCH)/$(BIN)/python -m benchmarks $(ARGS)

# Random programs in every mode, against each other, finite differences and, where it is installed, PyTorch.
fuzz: $(VENV)/installed-dev
	$(VENV)/$(BIN)/$(NATIVE)
	$(one_thread) PYTHONPATH=tests $(VENV)/$(BIN)/python -m fuzz --seconds $(SECONDS) --seed $(SEED) $(ARGS)

# Lucid against PyTorch, in the environment of the benchmarks; PyTorch's own samples need the package expecttest.
parity: $(BENCH)/installed-parity
	$(one_thread) $(BENCH)/$(BIN)/python -m pytest -n 2 tests/test_*parity.py

# How much of PyTorch's own table of operations is there, and what is missing.
parity-report: $(BENCH)/installed-parity
	$(BENCH)/$(BIN)/python tools/parity_report.py

# Programs in PyTorch's style, under PyTorch and under lucid.torch, must agree.
porting: $(BENCH)/installed-parity
	$(one_thread) $(BENCH)/$(BIN)/python -m pytest -n 2 tests/test_porting.py tests/test_torch_*.py

# docs/coverage.md: what is tested for every operation, and the reason for every hole.
coverage-table: $(VENV)/installed-dev
	$(VENV)/$(BIN)/python tools/coverage_table.py

format: $(VENV)/installed-dev
	$(VENV)/$(BIN)/ruff check --fix .
	$(VENV)/$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(BENCH) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define new_environment
@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
	{ echo "Lucid needs Python 3.11 or later; choose one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
$(PYTHON) -m venv $(1)
endef

# With what builds the package, so that pip need not put it into an environment of its own for each time it builds;
# hatchling asks for `editables` besides.
$(VENV)/ready: pyproject.toml
	$(call new_environment,$(VENV))
	$(VENV)/$(BIN)/$(PIP) hatchling editables
	@touch $@

# What compiles, of the versions that pyproject.toml asks for.
$(VENV)/compilers: $(VENV)/ready
	$(VENV)/$(BIN)/python -c "import tomllib as t; print(*t.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')" \
		| grep -E '^(cython|setuptools|numpy)' > $@-with
	$(VENV)/$(BIN)/$(PIP) --requirement $@-with
	@touch $@

# LUCID_PURE=1 keeps pip from compiling.
$(VENV)/installed-examples: $(VENV)/ready
	LUCID_PURE=1 $(VENV)/$(BIN)/$(PIP) --no-build-isolation --editable ".[examples]"
	@touch $@

# Compiles while pip gets the other packages, of which the pack of common kernels needs some.
$(VENV)/installed-dev: $(VENV)/compilers
	LUCID_PURE=1 $(VENV)/$(BIN)/$(PIP) --no-build-isolation --editable ".[dev]" & \
		$(VENV)/$(BIN)/$(NATIVE) --without-pack; wait $$! && $(VENV)/$(BIN)/$(NATIVE)
	@touch $@

$(BENCH)/installed-parity: $(BENCH)/installed
	$(BENCH)/$(BIN)/$(PIP) --editable ".[test]" expecttest
	@touch $@

# Peers are optional: the table has a column for each one that is there.
$(BENCH)/installed: pyproject.toml
	$(call new_environment,$(BENCH))
	$(BENCH)/$(BIN)/$(PIP) --editable . cython setuptools
	@for peer in "$(TORCH)" jax autograd mygrad; do \
		echo "installing $$peer for comparison"; \
		$(BENCH)/$(BIN)/$(PIP) "$$peer" || echo "skipped: $$peer cannot be installed here"; \
	done
	@touch $@
