# `make` alone lists the targets. Each target sets up its environment first.

ARGS ?=
# A sweep: a TOML file or the name of a shipped grid, and the file of its results.
GRID ?= first-look
FILE ?= results/$(basename $(notdir $(GRID))).sqlite
# Test processes; `auto` is one per processor.
JOBS ?= auto

# Figures are drawn into files and need no display.
export MPLBACKEND := Agg

# Tests start the program hundreds of times, so Python keeps its compiled files.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup ready ready-to-develop compare compare-quick reproduce reproduce-full reproduce-theory reproduce-ntp reproduce-reft reproduce-gemini reproduce-greyhound reproduce-mecefo reproduce-mecefo-convergence reproduce-recycle reproduce-recovery reproduce-step-time reproduce-collectives reproduce-operators sweep report publish bench bench-against doctor release-check test test-system check test-full lint docs format clean distclean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-26s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  Arguments are passed on with ARGS, as in: make reproduce ARGS=--help"
	@echo "  A sweep has a GRID and a FILE, as in: make sweep GRID=spare-full FILE=results/spare-full.sqlite"

setup: ## make .venv ready (compiles SimGrid the first time: 6 to 11 minutes)
	@bash .ci/setup --runtime

# Install the program's dependencies, and with ready-to-develop the developers' tools. Print nothing if
# they are installed.
ready:
	@bash .ci/setup --quiet --runtime

ready-to-develop:
	@bash .ci/setup --quiet

reproduce: ready ## reproduce the published SPARe results, the quick way
	@$(BIN)/faultline reproduce spare $(ARGS)

reproduce-full: ready ## reproduce the published SPARe results at full scale
	@$(BIN)/faultline reproduce spare --full $(ARGS)

reproduce-theory: ready ## closed forms against Monte Carlo and simulation
	@$(BIN)/faultline reproduce theory $(ARGS)

reproduce-ntp: ready ## nonuniform tensor parallelism: placement, traces, spare domains
	@$(BIN)/faultline reproduce ntp $(ARGS)

reproduce-reft: ready ## checkpoints in memory: REFT's numbers, and REFT under other schemes
	@$(BIN)/faultline reproduce reft $(ARGS)

reproduce-gemini: ready ## checkpoints in peers' memory: survival of lost nodes and domains
	@$(BIN)/faultline reproduce gemini $(ARGS)

reproduce-recovery: ready ## recovery times that operators measured, by phases of one model
	@$(BIN)/faultline reproduce recovery $(ARGS)

reproduce-step-time: ready ## step times of published runs: Megatron-LM, Llama 3, MegaScale and others
	@$(BIN)/faultline reproduce step-time $(ARGS)

reproduce-collectives: ready ## bus bandwidths of NCCL's all-reduce on published clusters
	@$(BIN)/faultline reproduce collectives $(ARGS)

reproduce-operators: ready ## reports of operators on long runs, compared with simulations
	@$(BIN)/faultline reproduce operators $(ARGS)

reproduce-greyhound: ready ## stragglers: micro-batches reassigned, nodes replaced, restarts by ski rental
	@$(BIN)/faultline reproduce greyhound $(ARGS)

reproduce-mecefo: ready ## neighbour take-over: MeCeFO, Bamboo, Oobleck
	@$(BIN)/faultline reproduce mecefo $(ARGS)

reproduce-mecefo-convergence: ready ## approximate gradients: a small language model trained under take-overs
	@$(BIN)/faultline reproduce mecefo-convergence $(ARGS)

reproduce-recycle: ready ## re-routed micro-batches: ReCycle, Oobleck, Bamboo
	@$(BIN)/faultline reproduce recycle $(ARGS)

compare: ready ## plan the same jobs in many circumstances, and draw maps of the best scheme (hours)
	@$(BIN)/faultline head-to-head $(ARGS)

compare-quick: ready ## a table and a map of a few cells (minutes)
	@$(BIN)/faultline head-to-head --quick -o results/head-to-head-quick $(ARGS)

sweep: ready ## run the grid GRID into FILE, or its missing runs
	@$(BIN)/faultline sweep $(GRID) -o $(FILE) $(ARGS)

report: ready ## write the report of the sweep in FILE
	@$(BIN)/faultline report $(FILE) $(ARGS)

publish: ready-to-develop ## regenerate results/published, or some recipes: make publish ARGS="spare ntp"
	@$(BIN)/python .ci/publish $(ARGS)

bench: ready-to-develop ## measure the speed of the simulator
	@$(BIN)/python -m pytest -q -o addopts="--import-mode=importlib" --benchmark-quiet tests/benchmarks/bench_speed.py $(ARGS)

bench-against: ready-to-develop ## compare the speed with that of a commit: make bench-against COMMIT=main
	@$(if $(COMMIT),,$(error bench-against needs a commit, as in: make bench-against COMMIT=main))
	@.ci/bench-against $(COMMIT) $(ARGS)

doctor: ready ## print versions, limits of this machine, and a self-test
	@$(BIN)/faultline doctor $(ARGS)

release-check: ready-to-develop ## build wheel and sdist, check them, and try the wheel in an empty environment
	@.ci/release-check

test: ready-to-develop ## run the tests of what the program computes and prints, in parallel
	@$(PYTEST) -m "not slow and not system" --hypothesis-profile=quick $(ARGS)

test-system: ready-to-develop ## run the tests of processes, kills, hostile files, the wheel, the pages' commands
	@$(PYTEST) -m "system and not slow" --hypothesis-profile=quick $(ARGS)

check: lint test test-system ## lint, then run all tests but the slow ones

test-full: lint ## lint, then run all tests, heavy reproductions included
	@$(PYTEST) $(ARGS)

lint: ready-to-develop ## check style, formatting, types, and the layers of imports
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/python -m mypy
	@report=$$(PYTHONPATH=.typing $(BIN)/lint-imports --no-logo) || { printf '%s\n' "$$report"; exit 1; }

docs: ready-to-develop ## build the documentation in build/site (python -m http.server -d build/site)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict -f .ci/mkdocs.yml
	@echo "build/site/index.html"

format: ready-to-develop ## format the code and apply the linter's fixes
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

clean: ## remove the output of runs and tools (published results and .venv stay)
	@find results -mindepth 1 -maxdepth 1 ! -name README.md ! -name published -exec rm -rf {} + 2>/dev/null || true
	@find platforms simulator strategies experiments tests -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
	@rm -rf build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .coverage

distclean: clean ## remove .venv too (the compiled SimGrid stays in the user's cache)
	@rm -rf .venv
