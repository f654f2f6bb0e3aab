# The only interface: each target sets up what it needs in .venv, says what it does, and is quick the second time.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The first tested interpreter that can make an environment, else any newer one; override with `make PYTHON=…`.
PYTHON ?= $(shell for newest in 13 99; do for p in python3 python3.13 python3.12 python3.11; do \
  "$$p" -c "import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $$newest))" >/dev/null 2>&1 \
  && { echo "$$p"; exit; }; done; done)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
WORKERS ?= auto
PROFILE ?= project
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
say = @printf '\033[36m==>\033[0m %s\n'

.PHONY: help run demo test soak fast versions check conformance bench docs schemas clean

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | while IFS= read -r line; do printf '  %-12s %s\n' "$${line%%:*}" "$${line##*## }"; done

$(VENV)/pyvenv.cfg:
	@[ -n "$(PYTHON)" ] || { echo "no usable Python: install Python 3.11 or newer with its venv module (Debian: python3-venv), or name one with make PYTHON=…" >&2; exit 1; }
	$(say) "making $(VENV) with $$($(PYTHON) --version)$$($(PYTHON) -c 'import sys; sys.version_info >= (3, 14) and print(", with which agenttool is not tested yet", end="")')"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.installed: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	$(say) "installing agenttool"
	@$(PIP) install -c constraints.txt -e '.[jwt,mcp,openapi,semantic]'
	@touch $@

$(VENV)/.developing: $(VENV)/.installed
	$(say) "installing what tests and checks need"
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

run: $(VENV)/.installed ## serve agenttool here, its calls kept in agenttool.db
	@$(BIN)/agenttool serve

demo: $(VENV)/.installed ## run governed calls, an approval and a crash, and check what happens
	@$(BIN)/agenttool demo

test: $(VENV)/.developing ## run the tests
	$(say) "running the tests"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q

soak: $(VENV)/.developing ## run the long crash, fuzz and property rounds
	$(say) "running the long rounds; this takes a while"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q -m 'soak or property' --hypothesis-profile soak

fast: $(VENV)/.developing ## run the tests that take no time
	$(say) "running the fast half of the tests"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q -m 'not slow and not soak' --hypothesis-profile $(PROFILE)

versions: $(VENV)/.developing ## run the fast tests with the other supported versions of Python that this machine has
	@for version in 3.11 3.12 3.13; do \
	  has_version='import sys, ensurepip, venv; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])'; \
	  ! $(BIN)/python -c "$$has_version" $$version 2>/dev/null || continue; \
	  for python in python$$version "$$HOME"/.pyenv/versions/$$version.*/bin/python; do \
	    "$$python" -c "$$has_version" $$version >/dev/null 2>&1 || continue; \
	    $(MAKE) fast VENV=.venv-$$version PYTHON="$$python" PROFILE=brief; continue 2; \
	  done; \
	  printf '\033[36m==>\033[0m no Python %s with its venv module here; left out\n' $$version; \
	done

check: $(VENV)/.developing ## format, lint, words, layers, types, documentation site
	$(say) "format and lint"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	$(say) "words"
	@$(BIN)/python tools/check_words.py
	$(say) "layers"
	@$(BIN)/lint-imports --no-cache | tail -n 8
	$(say) "types"
	@$(BIN)/basedpyright --project pyproject.toml
	$(say) "documentation site"
	@$(SITE)
	$(say) "$$(grep -rhoE '# (noqa|type: ignore|pyright: ignore)' src | wc -l) suppressions in src, each with its reason"

conformance: $(VENV)/.developing ## run the tests tied to requirements and print the table
	$(say) "running the tests that prove requirements"
	@status=0; $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q -m requirement --conformance-report=build/conformance.json || status=$$?; \
	[ ! -f build/conformance.json ] || $(BIN)/agenttool conformance build/conformance.json || status=1; exit $$status
	$(say) "running the official MCP suite on Node.js 22; both are installed in build on first use"
	@$(BIN)/python -m pytest -q -m soak tests/mcp_server/test_conformance.py tests/interop/mcp/test_client_conformance.py

bench: $(VENV)/.developing ## measure against peers in one run; BENCH="rap --million" measures what it names
	$(say) "measuring; the environments of the peers that are needed are made in .venv-bench on first use"
	@$(BIN)/python -m bench $(BENCH)

schemas: $(VENV)/.developing ## write schemas/ anew from the records
	$(say) "writing schemas/"
	@$(BIN)/python tools/write_schemas.py

docs: schemas ## regenerate the generated pages and figures, and build the documentation site
	$(say) "writing generated pages"
	@$(BIN)/python tools/write_docs.py
	$(say) "building the site"
	@$(SITE)
	$(say) "open site/index.html; for the search, run $(BIN)/python -m http.server -d site 8000 and open http://localhost:8000"

clean: ## remove everything that make made
	@rm -rf $(VENV) .venv-3.* .venv-bench .venv-frameworks build dist site .pytest_cache .ruff_cache .hypothesis
