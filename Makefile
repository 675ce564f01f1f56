# Every target works on a bare machine with Python 3.11 or newer, make and a C library, and leaves
# nothing behind outside this directory. `make` alone lists them.

# Which Python makes the virtual environment; found by tools/find-python unless given.
PYTHON ?=
# More arguments for the program behind a target: make test ARGS='-k cron'.
ARGS ?=
# Processes that share out the tests, by file. Twice the processors of a small machine: tests wait half of their time.
WORKERS ?= 4

BIN := .venv/bin
# The temporary files of the tests stay in the checkout, too.
TEST_ENV = PYTEST_DEBUG_TEMPROOT="$(CURDIR)/.cache"

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo up up-cluster test bench bench-peers check proto lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## Make the virtual environment in .venv with what Mainspring needs to run
	@python=$$(tools/find-python $(PYTHON)) && "$$python" tools/set_up.py runtime

setup-dev: ## The same with what the tests and checks need
	@python=$$(tools/find-python $(PYTHON)) && "$$python" tools/set_up.py dev

demo: setup ## Run a real scenario on a throw-away server and check every part of it
	@$(BIN)/mainspring demo $(ARGS)

up: setup ## Start everything on this machine: database, scheduler, worker
	@$(BIN)/mainspring up $(ARGS)

up-cluster: setup-dev ## Start a whole cluster on this machine; ARGS=--check breaks it under load and judges
	@$(BIN)/python -m tools.cluster $(ARGS)

bench: setup ## Measure this installation
	@$(BIN)/mainspring bench $(ARGS)

# Peers to measure beside, by name and separated by commas; all of them unless given. QUICK=1 plays
# one small round in a few minutes.
PEERS ?=
QUICK ?=

bench-peers: setup-dev ## Measure beside other task queues, each in its own environment
	@$(BIN)/python -m bench.against --peers '$(PEERS)' $(if $(QUICK),--quick) $(ARGS)

test: setup-dev ## Run the whole suite with every real server it needs
	@mkdir -p .cache
	@$(TEST_ENV) $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

check: setup-dev ## Formatting, lint, types, layers and the house rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@mkdir -p .cache
	@$(TEST_ENV) $(BIN)/pytest -q -p no:cacheprovider tests/test_tidy.py

proto: setup-dev ## Write the Python code of the protos anew
	@$(BIN)/python tools/generate_protos.py

lock: setup-dev ## Resolve pyproject.toml anew into requirements/*.lock
	@tools/lock

clean: ## Remove everything that the other targets made, except a database kept in .mainspring
	rm -rf .venv .cache bench/.venvs bench/.runs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
