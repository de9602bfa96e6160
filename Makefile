# Every target works on a fresh checkout: what it needs is set up first. `make demo` and `make test` are the two to know.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STATIC := src/stepward/server/static/index.html
UI_SOURCES := $(shell find ui -path ui/node_modules -prune -o -type f -print 2>/dev/null)
WORKERS ?= 2

.PHONY: setup system demo test test-full check lint types imports story bench ui docs lock clean

setup: $(VENV)/.ready $(STATIC)

$(VENV)/.ready: requirements.lock pyproject.toml
	sh deploy/system_packages.sh python3-venv git
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --editable .
	touch $@

$(STATIC): $(UI_SOURCES)
	cd ui && npm ci --no-audit --no-fund && npm run build
	touch $@

ui:
	rm -f $(STATIC)
	$(MAKE) $(STATIC)

# A whole Slurm with accounting and REST, for clusters on this host. The JWT plugin is a package of its own.
SLURM_PACKAGES := slurmctld slurmd slurmdbd slurm-client slurmrestd slurm-wlm-basic-plugins slurm-wlm-jwt-plugin munge \
  mariadb-server

# What the integration tests use beside: a browser, a compiler for small victims, Slurm, and torch with the trainers in an
# environment of their own. A test whose piece could not be installed says so when it is skipped.
system: setup $(VENV)-frameworks/.ready
	sh deploy/system_packages.sh chromium gcc
	sh deploy/system_packages.sh $(SLURM_PACKAGES)

$(VENV)-frameworks/.ready: tests/integration/frameworks-requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)-frameworks
	-$(VENV)-frameworks/bin/pip install --quiet --requirement $<
	$(VENV)-frameworks/bin/pip install --quiet --editable '.[agent]'
	touch $@

demo: setup
	$(BIN)/stepward demo

test: system
	$(BIN)/pytest -n $(WORKERS) --dist loadfile

# What does more at full scale (200 kills, 500 jobs), and the tests of the UI; `make test` has run all the rest.
test-full: system
	STEPWARD_TEST_SCALE=full $(BIN)/pytest -n $(WORKERS) --dist loadfile
	cd ui && npm test

check: setup
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd ui && npm run check

# A real Slurm lab loses a node under a training job; STORY_N=20 tells it twenty times.
story: system
	$(BIN)/python -m tests.e2e.story

bench: system
	$(BIN)/python bench/run.py

docs: setup
	$(BIN)/pytest tests/contract/test_docs.py

lock: setup
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --no-header --no-annotate \
	  --no-emit-index-url --upgrade -o requirements.lock

clean:
	rm -rf $(VENV) $(VENV)-frameworks ui/node_modules src/stepward/server/static .pytest_cache .mypy_cache .ruff_cache
