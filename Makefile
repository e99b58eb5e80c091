# The one door: every target builds what it needs in .venv. `demo` and `eval` need only what a user
# of surecall needs, so they have a small environment of their own.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUN := $(VENV)/run
RUN_READY := $(RUN)/.ready
PEERS := $(VENV)/peers
THIRD_PARTY := $(VENV)/third-party
THIRD_PARTY_READY := $(THIRD_PARTY)/.ready
SITE := $(VENV)/site
SITE_READY := $(SITE)/.ready
TIER ?= ci
SEED ?= 1
PROOF ?= proof-$(TIER).md
JOBS := $(shell getconf _NPROCESSORS_ONLN)
# Some tests wait for processes and browsers: one more of them than there are processors.
TESTERS := $(shell expr $(JOBS) + 1)

# Tests and proofs start hundreds of processes; each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help browser third-party quick test test-loaded check style types prove demo eval bench bench-long peers peers-proxy bfcl features docs site fmt clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'

# Made first: environments inside it may be created at the same time.
$(VENV):
	@mkdir -p $(VENV)

$(READY): pyproject.toml constraints.txt | $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt pip
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile -c constraints.txt -e . --group dev
	@touch $(READY)

$(RUN_READY): pyproject.toml constraints.txt | $(VENV)
	@echo "Installing surecall and what it needs in $(RUN), once."
	@$(PYTHON) -m venv $(RUN)
	@$(RUN)/bin/python -m pip install -q --disable-pip-version-check --no-compile -c constraints.txt -e .
	@$(RUN)/bin/python -m pip uninstall -qq -y setuptools pip  # half of its size, and nobody needs them there
	@touch $(RUN_READY)

browser:  ## install chromium and its driver for the tests that need one; asks apt-get, as root
	bash scripts/install_browser.sh

$(THIRD_PARTY_READY): tests/third_party/servers.txt tests/third_party/package.json | $(VENV)
	$(PYTHON) -m venv $(THIRD_PARTY)
	$(THIRD_PARTY)/bin/python -m pip install -q --disable-pip-version-check --no-compile --no-deps -r tests/third_party/servers.txt
	cp tests/third_party/package.json $(THIRD_PARTY)
	npm install --prefix $(THIRD_PARTY) --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel error
	@touch $(THIRD_PARTY_READY)

third-party: $(THIRD_PARTY_READY)  ## install third-party mock servers for the tests, with pip and npm

quick: $(READY)  ## run the tests without browser, processes, and slow tests, with few examples, in about a minute
	$(BIN)/pytest -q -n $(JOBS) -m "not browser and not processes and not slow" --hypothesis-profile quick

test: $(READY)  ## run all tests, with the coverage gates; those of the report need `make browser`, those with third-party servers `make third-party`
	$(BIN)/pytest -n $(TESTERS) --cov=surecall --cov-branch --cov-report=
	$(BIN)/python scripts/coverage_gate.py

test-loaded: $(READY)  ## run all tests beside sixteen busy processes, on a shifted clock
	$(BIN)/python scripts/loaded_tests.py --busy 16 -- -n $(JOBS) --clock-shift 1e7

check: style types  ## lint, types, import contracts, generated docs, spelling

types: $(READY)
	$(BIN)/mypy --num-workers $(JOBS)

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_docs.py --check
	$(BIN)/python scripts/check_language.py
	$(BIN)/python scripts/check_docs.py
	$(BIN)/codespell

prove: $(READY)  ## try to break every claim; TIER=ci (minutes), hour or release
	$(BIN)/python -m proof --tier $(TIER) --seed $(SEED) --write $(PROOF)

demo: $(RUN_READY)  ## bent replies for a plain loop and for surecall, side by side; no key, no network
	@$(RUN)/bin/surecall demo

eval: $(RUN_READY)  ## what breaks, and what each strategy gains, on simulated models; no key, no network
	$(RUN)/bin/surecall eval -m all --strategy raw,production,guided_contract

bench: $(READY)  ## cost against a hand-written loop and of a trial; growth, memory and blocks with hostile input; of OpenTelemetry
	$(BIN)/python bench/run.py
	$(BIN)/python bench/transport.py
	$(BIN)/python bench/linear.py
	$(BIN)/python bench/blocks.py
	$(BIN)/python bench/memory.py
	$(BIN)/python -m bench.proxy
	$(BIN)/python bench/trials.py
	$(BIN)/python bench/lanes.py
	$(BIN)/python bench/otel.py

bench-long: $(READY)  ## an evaluation of 100,000 trials, one of a million that is continued, and worker processes: some minutes, 4 GB of disk
	$(BIN)/python bench/trials.py --memory
	$(BIN)/python bench/trials.py --resume
	$(BIN)/python bench/engine.py --rounds 3
	$(BIN)/python bench/engine.py --kill

peers: $(RUN_READY)  ## the drift of the catalogue through agents of others and surecall, which it installs: a table
	$(RUN)/bin/python -m bench.peers.install
	$(RUN)/bin/python -m bench.peers $(PEERS_OPTIONS)

peers-proxy: $(RUN_READY)  ## agents of others with bent answers, direct and through the proxy: some minutes
	$(RUN)/bin/python -m bench.peers.install agents
	$(PEERS)/agents/bin/python bench/proxy_drift.py --misses

bfcl: $(READY)  ## download the Berkeley leaderboard's wheel, and hold our judges against its own checkers: a minute
	$(BIN)/python -m pip download -q --disable-pip-version-check --no-deps -d $(VENV)/bfcl bfcl-eval==2026.3.23
	$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade --target $(VENV)/bfcl/packages mpmath==1.3.0
	$(BIN)/python -m bench.bfcl_judge $(VENV)/bfcl/bfcl_eval-2026.3.23-py3-none-any.whl
	PYTHONPATH=$(VENV)/bfcl/packages $(BIN)/python -m bench.bfcl_turns $(VENV)/bfcl/bfcl_eval-2026.3.23-py3-none-any.whl
	$(BIN)/python -m bench.tool_search $(VENV)/bfcl/bfcl_eval-2026.3.23-py3-none-any.whl
	$(BIN)/python -m bench.false_stops $(VENV)/bfcl/bfcl_eval-2026.3.23-py3-none-any.whl
	$(BIN)/python -m bench.unsupported_claims

features: $(READY)  ## install five other libraries, and check what the table of features says of them: a quarter of an hour, 2 GB of disk
	$(BIN)/python -m scripts.features.install
	$(BIN)/python -m scripts.features

docs: $(READY)  ## write the generated parts of the documentation
	$(BIN)/python scripts/generate_docs.py

$(SITE_READY): pyproject.toml constraints.txt | $(READY)
	@echo "Installing what builds the site in $(SITE), once."
	@$(PYTHON) -m venv --without-pip $(SITE)
	@$(BIN)/python -m pip --python $(SITE)/bin/python install -q --disable-pip-version-check --no-compile -c constraints.txt --group site
	@touch $(SITE_READY)

site: $(SITE_READY)  ## build the documentation as pages with a search, in site/; every link is checked
	@$(SITE)/bin/python -m scripts.site

fmt: $(READY)  ## format the code and sort the imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove everything that was built
	rm -rf $(VENV) site proof-*.md .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -prune -exec rm -rf {} +
