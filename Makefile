# Everything happens in a local virtual environment; nothing outside this directory is changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STATE ?= .kubeskew
EXPLORED ?= report/explore
.DEFAULT_GOAL := run
# Bytecode is kept, also where it should not be: tests start many interpreters, which would all compile the sources.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help run matrix schemas catalogue check-catalogue site explore planted explored-bugs outcomes test tests test-slow test-people test-postgresql test-real test-random power-loss mutants twice coverage check up down kubectl node bench clean

help:  ## List these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: $(STAMP)  ## The main job: the matrix, with a report in report/
	$(BIN)/kubeskew matrix --profile first --report report

matrix: $(STAMP)  ## Every cell of every scenario, held against the recorded outcomes
	$(BIN)/kubeskew matrix --profile full --compare --report report

# For longer: make explore EXPLORE_FLAGS="--seconds 3600"; after a change of kubeskew, name another directory, EXPLORED=DIR.
explore: $(STAMP)  ## Every cell in simulations with faults, for ten minutes; again goes on where it ended
	$(BIN)/kubeskew explore '*' --seconds 600 --report $(EXPLORED) $(EXPLORE_FLAGS)

# One alone: make planted PLANTED_FLAGS="--only lease-twice".
planted: $(STAMP)  ## Plant defects, one at a time, and see an exploration find each
	$(BIN)/python hack/checks/planted.py $(PLANTED_FLAGS)

# One alone: make explored-bugs BUGS_FLAGS="--only k8s-134445".
explored-bugs: $(STAMP)  ## Have explorations come upon known bugs, and see that fixed releases do not have them
	$(BIN)/python hack/checks/explored_bugs.py $(BUGS_FLAGS)

schemas: $(STAMP)  ## Write docs/schemas and the pages made of the code again, after a change of what they say
	$(BIN)/python hack/documents/schemas.py
	$(BIN)/python hack/documents/known_bugs_page.py
	$(BIN)/python hack/documents/invariants_page.py
	$(BIN)/python hack/documents/time_page.py
	$(BIN)/python hack/documents/truth_page.py
	$(BIN)/python hack/documents/limits_page.py

catalogue: $(STAMP)  ## Make the data files of the catalogue again from the facts in hack/catalogue/facts/
	$(BIN)/python hack/catalogue/generate_catalogue.py

check-catalogue: $(STAMP)  ## Fail if a data file of the catalogue is not what the facts make
	$(BIN)/python hack/catalogue/generate_catalogue.py --check

# Documents and the pages of commands and operations; any warning is an error. Open report/site/index.html.
site: $(STAMP)  ## Build the documentation into report/site, which works without network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q

outcomes: $(STAMP)  ## Record the outcomes of every cell again; look at what changed before you commit it
	$(BIN)/kubeskew matrix --profile full --record --report report

test: kubectl node  ## Static checks and the whole test suite
	+$(MAKE) --no-print-directory -j 2 check tests

# Three at a time on two cores, for some tests wait: for processes, for timeouts of upstream's.
tests: $(STAMP)
	$(BIN)/pytest -q -n 3 --dist loadgroup -m "not slow and not people and not postgresql"

test-people: $(STAMP) kubectl  ## What users do: click in a headless Chromium (Debian's), install the wheel, run the examples
	$(BIN)/pytest -q -n 2 --dist loadgroup -m "people and not postgresql"

# Debian: apt-get install postgresql; where it cannot be had, the tests are skipped and say so.
test-postgresql: $(STAMP)  ## Logs in PostgreSQL, which the suite starts
	$(BIN)/pytest -q -m postgresql

# make test-real BINARIES=DIR, with DIR/1.36/kube-scheduler and so on; other runs of the suite skip these tests.
test-real: $(STAMP)  ## Real schedulers and controller managers, of BINARIES=DIR
	@test -n "$(BINARIES)" || { echo "name the folder of real programs: make test-real BINARIES=DIR"; exit 2; }
	KUBESKEW_BINARIES=$(abspath $(BINARIES)) $(BIN)/pytest -q -m real

# Fuzzing every group of the API takes as long again: hack/checks/test-random --slow -k fuzzing.
test-slow: $(STAMP) kubectl  ## The long tests
	$(BIN)/pytest -q -n 2 --dist loadgroup -m "slow and not postgresql and not random" --timeout 900

# For longer: make test-random RANDOM_FLAGS="--seconds 600 --examples 1000"; --seed N repeats a round.
test-random: $(STAMP)  ## The tests that draw their cases, with other ones each time
	hack/checks/test-random $(RANDOM_FLAGS)

# Other ones: make power-loss POWER_LOSS_FLAGS="--first 1000 --crashes 100000 -o json".
power-loss: $(STAMP)  ## Cut the power 10,000 times, and see that nothing acknowledged is lost
	$(BIN)/python hack/powerloss/run $(POWER_LOSS_FLAGS)

# One alone: make mutants MUTANTS_FLAGS="--only scheduler".
mutants: $(STAMP)  ## Plant defects, one at a time, and see the matrix find each
	$(BIN)/python hack/checks/mutants.py $(MUTANTS_FLAGS)

# Some alone: make twice TWICE_FLAGS="--only 'dra/*'".
twice: $(STAMP)  ## Every simulated cell twice, with faults and without: the first step that differs
	$(BIN)/python hack/checks/twice.py $(TWICE_FLAGS)

# Without the tests that start processes: what runs in those is not counted.
coverage: $(STAMP)  ## Which lines and branches the tests reach; report/coverage/index.html
	$(BIN)/pytest -q -n 2 --dist loadgroup -m "not slow and not cluster and not kubectl and not people and not postgresql" \
		--cov --cov-report=term:skip-covered --cov-report=html:report/coverage

check: $(STAMP)  ## Formatting, lint, types, layers
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

up: $(STAMP)  ## Start a cluster in .kubeskew (or STATE=DIR)
	$(BIN)/kubeskew --state-dir $(STATE) up

down: $(STAMP)  ## Stop it and remove its data
	$(BIN)/kubeskew --state-dir $(STATE) down --purge

kubectl: $(STAMP)  ## Fetch kubectl 1.20, 1.32 and 1.36 into .kubectl
	hack/tools/fetch-kubectl .kubectl

node:  ## Install the JavaScript client of the tests into .node
	hack/tools/fetch-node-client .node

bench: $(STAMP)  ## The table of numbers, measured on this machine
	$(BIN)/python -m benchmarks

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	touch $@

clean:  ## Remove the environment and what was fetched and reported
	rm -rf $(VENV) .kubectl .node report
