# Every target creates .venv and installs what it needs when that is missing or stale.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Agents hold BLAS to one thread by themselves; this keeps test helpers and the oracle to one as well.
export OPENBLAS_NUM_THREADS := 1
# Where Python is told to keep no bytecode, each of hundreds of processes would compile everything anew.
export PYTHONDONTWRITEBYTECODE :=
export LIM2_DATA ?= $(abspath $(wildcard ../shared/data))

.PHONY: install prepare demo test unit test-busy attack lint bench docs release-check clean help

help:           ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(VENV)/.dev   ## .venv with lim2 (editable) and the development tools

$(VENV)/.dev: pyproject.toml requirements/dev.txt hatch_build.py $(wildcard src/lim2/_kernels/*.[ch])
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements/dev.txt -e '.[bench,serve]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev requirements/bench.txt
	$(BIN)/python -m pip install --quiet -r requirements/bench.txt
	@touch $@

$(VENV)/.release: $(VENV)/.dev requirements/release.txt
	$(BIN)/python -m pip install --quiet -r requirements/release.txt
	@touch $@

# Personalizer's clients for Node, axe and a compiler; their tests are skipped where there is no npm.
NODE   := tests/serve/node
$(VENV)/.node: $(NODE)/package.json $(NODE)/package-lock.json
	@if command -v npm >/dev/null; then npm ci --silent --no-audit --no-fund --prefix $(NODE); \
	 else echo "npm is not installed: the clients for Node, and the page by axe, are not tested"; fi
	@mkdir -p $(VENV) && touch $@

# Chromium, which shows the page; its tests are skipped where it is missing and cannot be installed.
BROWSER := chromium chromium-driver fonts-liberation
$(VENV)/.chromium:
	@if ! command -v chromedriver >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	 apt-get update -qq && apt-get install -y -qq --no-install-recommends $(BROWSER) >/dev/null; fi; \
	 command -v chromedriver >/dev/null || echo "Chromium is not installed: the page is not tested in a browser"
	@mkdir -p $(VENV) && touch $@

demo: install   ## a minute or two of synthetic problems, ending in a report
	$(BIN)/lim2 bench --out results/demo

prepare:        # what the tests need, from three registries at once
	@$(MAKE) --no-print-directory -j3 install $(VENV)/.node $(VENV)/.chromium

lint: install   ## ruff, mypy --strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: prepare   ## everything that CI runs
	@$(MAKE) --no-print-directory -j2 lint unit

unit:           # on two cores: some tests wait for Ray, a browser or a disk
	$(BIN)/pytest -n 4 --dist worksteal

test-busy: prepare   ## the tests on a busy machine: four busy loops per core beside them
	$(BIN)/python -m tools.busy $(BIN)/pytest -n 4 --dist worksteal

# Kills and cases that `make test` has few of. The plays are compared with the kernels that they were recorded with.
attack: prepare ## the long forms of the attacks and fuzzes, one after another: more than half an hour
	LIM2_KILLS=200 $(BIN)/pytest tests/log/attack tests/persistence/test_killed_save.py
	LIM2_SERVE_KILLS=50 LIM2_SERVE_CASES=2000 $(BIN)/pytest tests/serve/test_killed.py tests/serve/test_openapi.py
	LIM2_REPLICA_KILLS=50 LIM2_RAY_BANDITS=200 $(BIN)/pytest tests/serve/test_replicas.py tests/serve/test_on_ray.py
	LIM2_FUZZ=1 LIM2_STATLOG=1 $(BIN)/pytest -n 2 tests/persistence tests/bandit/test_files.py tests/test_statlog.py
	LIM2_VARIANTS=1 $(BIN)/pytest -n 2 tests/agent tests/algorithms tests/log/test_every_agent.py tests/test_state.py
	LIM2_GOLDEN=1 LIM2_REPLAYS=1 OPENBLAS_CORETYPE=Haswell $(BIN)/pytest -n 2 tests/golden tests/test_statements.py

bench: $(VENV)/.bench   ## speed: medians and ratios, written to benchmarks/results and docs/research/speed.md
	$(BIN)/python -m benchmarks.round_time --instructions
	$(BIN)/python -m benchmarks.wide
	$(BIN)/python -m benchmarks.speed

# Each Python that is here: `make release-check PYTHONS="3.11 3.12"` for some.
PYTHONS ?= 3.11 3.12 3.13
release-check: $(VENV)/.release   ## build wheel and sdist, try them in fresh environments, and the lowest versions
	$(BIN)/python -m tools.release_check $(PYTHONS)

docs: install   ## the documentation, strictly and without the network, into site/
	PYTHONPATH=src:. $(BIN)/zensical build --clean --strict
	$(BIN)/python -m tools.links site

clean:          ## remove .venv and caches
	rm -rf $(VENV) site .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
