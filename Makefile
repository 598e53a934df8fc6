# Every target creates .venv and installs what it needs when that is missing or stale.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Agents hold BLAS to one thread by themselves; this keeps test helpers and the oracle to one as well.
export OPENBLAS_NUM_THREADS := 1
export LIM2_DATA ?= $(wildcard ../shared/data)

.PHONY: install demo test lint bench clean help

help:           ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(VENV)/.dev   ## .venv with lim2 (editable) and the development tools

$(VENV)/.dev: pyproject.toml requirements/dev.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements/dev.txt -e .
	@touch $@

$(VENV)/.bench: $(VENV)/.dev requirements/bench.txt
	$(BIN)/python -m pip install --quiet -r requirements/bench.txt
	@touch $@

# Personalizer's clients for Node, axe and a compiler; their tests are skipped where there is no npm.
NODE   := tests/serve/node
$(VENV)/.node: $(VENV)/.dev $(NODE)/package.json $(NODE)/package-lock.json
	@if command -v npm >/dev/null; then npm ci --silent --no-audit --no-fund --prefix $(NODE); \
	 else echo "npm is not installed: the clients for Node, and the page by axe, are not tested"; fi
	@touch $@

# Chromium, which shows the page; its tests are skipped where it is missing and cannot be installed.
BROWSER := chromium chromium-driver fonts-liberation
$(VENV)/.chromium: $(VENV)/.dev
	@if ! command -v chromedriver >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	 apt-get update -qq && apt-get install -y -qq --no-install-recommends $(BROWSER) >/dev/null; fi; \
	 command -v chromedriver >/dev/null || echo "Chromium is not installed: the page is not tested in a browser"
	@touch $@

demo: install   ## a minute or two of synthetic problems, ending in a report
	$(BIN)/lim2 bench --out results/demo

lint: install   ## ruff, mypy --strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint $(VENV)/.node $(VENV)/.chromium   ## everything that CI runs
	$(BIN)/pytest -n 2 --dist worksteal

bench: $(VENV)/.bench   ## speed: medians and ratios, written to benchmarks/results and docs/speed.md
	$(BIN)/python -m benchmarks.wide
	$(BIN)/python -m benchmarks.speed

clean:          ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
