# The commands of the house. `make` alone lists them. Each one first sets up what it needs (scripts/setup).

# What to show a newcomer, and what to run for hours. `make deep` goes on where it was interrupted.
DEMO := .venv/bin/hwmark demo
DEEP := .venv/bin/hwmark check --suite deep --resume
STORM := .venv/bin/python scripts/crash_storm.py --runs 10000
COMPACTION := HWMARK_COMPACTION_SEEDS=60 .venv/bin/python -m pytest -q tests/storage/compaction/test_crashes.py -k "crash"
FUZZ := .venv/bin/python scripts/fuzz.py

# `make setup LOCK=locks/spark.lock` adds Spark, which no room uses yet.
LOCK ?= locks/dev.lock

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick deep bench performance docs tables lock clean

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

setup: ## prepare .venv, the locked packages and Java; nothing else
	@scripts/setup $(LOCK)

demo: setup ## watch the main job: TLC checks the replication protocol
	@$(DEMO)

test: setup ## everything that must hold: lint, types, contracts, tests, models
	@.venv/bin/python scripts/stages.py test

quick: setup ## the inner loop, under five minutes: all of it except slow tests
	@.venv/bin/python scripts/stages.py quick

deep: setup ## the long checks; run it again to go on where it stopped
	@$(STORM)
	@$(COMPACTION)
	@$(FUZZ) --target batch --runs 1000000
	@$(FUZZ) --target log --runs 100000
	@$(DEEP)

bench: setup ## run every benchmark and print its figures
	@.venv/bin/python scripts/stages.py bench

performance: setup ## run every benchmark and write docs/performance.md
	@.venv/bin/python scripts/performance.py

docs: setup ## rewrite the generated parts of docs/, show the changelog to come
	@.venv/bin/python scripts/architecture.py
	@.venv/bin/python scripts/action_table.py
	@.venv/bin/python scripts/api_table.py
	@.venv/bin/python scripts/setting_table.py
	@.venv/bin/towncrier build --draft --version next

tables: setup ## check everything and rewrite docs/tables/: sizes, times, counterexamples
	@.venv/bin/hwmark check --markdown docs/tables/models.md
	@.venv/bin/hwmark check --mutants --markdown docs/tables/mutants.md
	@.venv/bin/hwmark conform --markdown docs/tables/conformance.md
	@.venv/bin/hwmark conform --mutants --markdown docs/tables/both.md
	@$(DEEP) --markdown docs/tables/deep.md

lock: ## resolve pyproject.toml into locks/ anew; LOCKFLAGS="--upgrade" for newer versions
	@scripts/lock $(LOCKFLAGS)

clean: ## remove what the other commands made, .venv included
	@rm -rf .venv .setup.lock build dist *.egg-info .coverage .coverage.* htmlcov \
		.mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
