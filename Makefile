# Needs a Python of 3.11 or newer (scripts/find-python looks for one) and nothing else.

VENV    ?= .venv
PORT    ?= 8080
# A folder of savepoints to serve: any of yours, too.
ROOT    ?= tests/data/flink/2.3.0/wordcount-rocksdb-savepoints/native
# ONCE=1: `make run` stops after the first answers.
ONCE    ?=
# The savepoints that `make fidelity` and `make roundtrip` read.
DIR     ?= tests/data/flink
# The tests of `make test-slow`; CI has run those of random cases already, with fewer of them.
SLOW    ?= slow or hypothesis
# If empty, tests of random cases take a quarter of them.
ALL_EXAMPLES ?= 1
# Processes of `make test` and `make test-slow`: one more than there are processors, as tests wait for servers to start.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
# More arguments for pytest: make test ARGS='-k kafka -x'
ARGS    ?=

PY        := $(VENV)/bin/python
PIP       := $(PY) -m pip --disable-pip-version-check --quiet
RUNNABLE  := $(VENV)/.runnable
INSTALLED := $(VENV)/.installed
export PYTHON

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install run test test-slow test-spark test-web test-flink test-all lint format web bench bench-growth bench-load bench-lists bench-peers bench-storage bench-spark bench-encode bench-write fidelity roundtrip rewritten compat support reference docs release fixtures lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(INSTALLED) ## make .venv with everything locked, and savepointdb itself, editable

run: $(RUNNABLE) ## serve the sample savepoints and show the first answers (PORT=8080, ROOT=folder)
	@$(PY) examples/first_answers.py --root "$(ROOT)" --port $(PORT) $(if $(filter 1,$(ONCE)),--once)

test: $(INSTALLED) ## run the tests, without those marked slow, spark, flink or browser
	$(PY) -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

test-slow: $(INSTALLED) ## run the tests marked slow, and those of random cases with more of them
	SAVEPOINTDB_ALL_EXAMPLES=$(ALL_EXAMPLES) $(PY) -m pytest -n $(WORKERS) --dist worksteal -m "($(SLOW)) and not (spark or flink or browser)" $(ARGS)

# Two processes with a Spark each: one waits most of its time. A file stays in one, and the cluster's, the longest, is the first.
test-spark: $(INSTALLED) ## run the tests marked spark, those on a cluster of three processes among them (needs Java 17 or newer)
	$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m spark $(ARGS) || [ $$? -eq 5 ] # 5: there was none to run

test-web: $(INSTALLED) ## run the tests of the page in Chromium
	$(PY) -m pytest -n auto --dist worksteal -m browser $(ARGS)

test-flink: $(INSTALLED) ## restore written savepoints in real Flink (needs Java 17 and Maven; fifteen minutes)
	$(PY) -m pytest -m flink $(ARGS)

test-all: $(INSTALLED) ## run every test
	$(PY) -m pytest -m '' $(ARGS)

lint: $(INSTALLED) ## check format, style and types
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

format: $(INSTALLED) ## format the code and mend what can be mended safely
	$(PY) -m ruff check --fix-only --quiet .
	$(PY) -m ruff format .

web: ## build the page from web/ into service/doors/page/static (needs Node 20 and npm)
	cd web && npm ci --ignore-scripts && npm run build

bench: $(INSTALLED) ## run the benchmarks
	$(PY) -m benchmarks $(ARGS)

bench-growth: $(INSTALLED) ## measure works on savepoints of 1, 10 and 100 million keys (20 GB of disk; an hour)
	$(PY) -m benchmarks.growth $(ARGS)

bench-storage: $(INSTALLED) ## run the benchmarks of small questions about large savepoints in an object store
	$(PY) -m benchmarks.objectstore $(ARGS)

bench-peers: $(INSTALLED) ## run the benchmarks beside Flink's own readers (needs Java 17 and Maven; an hour)
	$(PY) -m benchmarks.peers $(ARGS)

bench-load: $(INSTALLED) ## run 200 clients at once, some of them hostile, while workers are killed
	$(PY) -m benchmarks.load $(ARGS)

bench-lists: $(INSTALLED) ## list the tables of 3,000 savepoints, cold and after a restart
	$(PY) -m benchmarks.lists $(ARGS)

bench-encode: $(INSTALLED) ## measure decoding and encoding, a type a row, side by side
	$(PY) -m benchmarks.encode $(ARGS)

bench-write: $(INSTALLED) ## measure writing beside Flink's SavepointWriter (Flink needs Java 17 and Maven)
	$(PY) -m benchmarks.write $(ARGS)

bench-spark: $(INSTALLED) ## run the benchmarks of Spark on one and two workers (needs Java 17 or newer)
	$(PY) -m benchmarks.spark $(ARGS)

fidelity: $(INSTALLED) ## scan every table of every savepoint in a folder, and tell what decodes (DIR=folder)
	$(PY) -m tools.fidelity $(ARGS) "$(DIR)"

roundtrip: $(INSTALLED) ## decode and encode every entry of every savepoint in a folder, and compare the bytes (DIR=folder)
	$(PY) -m tools.roundtrip $(ARGS) "$(DIR)"

rewritten: $(INSTALLED) ## write all keyed state of every savepoint in a folder anew, and compare the rows (DIR=folder)
	$(PY) -m tools.rewritten $(ARGS) "$(DIR)"

compat: $(INSTALLED) ## measure savepointdb check on labelled restores of real Flink (ARGS='--mode none --misses')
	$(PY) -m tools.compat $(ARGS)

support: $(INSTALLED) ## write the tables that come from the code into the pages that have their markers
	$(PY) -m tools.support README.md docs/guides/storage.md $(addprefix docs/reference/,formats.md rules.md stateinfo.md upstream.md)

reference: $(INSTALLED) ## write the reference of the documentation
	$(PY) -m tools.reference docs/reference

docs: $(INSTALLED) ## build the documentation into dist/site
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build

release: $(INSTALLED) ## build the wheel and the sdist into dist/, and try them on each Python that is here (ARGS='--tag v0.2.0')
	$(PY) scripts/try-release $(ARGS)

fixtures: ## write tests/data anew with real Flink (needs Java and Maven)
	tests/flink/generate.sh $(ARGS)

lock: $(INSTALLED) ## resolve the dependencies anew (UPGRADE=1: to their newest versions)
	$(LOCK) --output-file requirements.lock pyproject.toml
	$(LOCK) --output-file requirements-dev.lock --extra connect --extra delta --extra iceberg --extra mcp --extra oidc --extra s3 --extra spark --group dev --group docs --constraint requirements.lock pyproject.toml

LOCK = $(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)

clean: ## remove the environment, caches and built files
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find savepointdb service catalog doctor writers readers tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# uv installs in half the time; pip does it where uv cannot, as behind an index that only pip is told of.
UV = $(PY) -m uv pip install --quiet
install = $(UV) $(1) 2>/dev/null || $(PIP) install $(2) $(1)

# One stamp a step, so that a change repeats what follows from it and no more.
$(VENV)/.made:
	@echo "Making $(VENV)"
	@scripts/make-venv $(VENV)
	@awk '/^uv==/ { found = 1 } found && /^ *#/ { exit } found' requirements-dev.lock >$(VENV)/uv.lock
	@$(PIP) install --require-hashes --requirement $(VENV)/uv.lock || true
	@touch $@

# What the service needs, without Spark and the tools of development: the first answers come in half the time.
$(RUNNABLE): requirements.lock pyproject.toml $(VENV)/.made
	@echo "Installing the locked dependencies"
	@$(call install,--require-hashes --requirement requirements.lock)
	@$(call install,--no-deps --editable .)
	@echo "Compiling the decoder, once: some 20 seconds"
	@$(PY) -m service.cli compile
	@touch $@

$(VENV)/.locked: requirements-dev.lock $(RUNNABLE)
	@echo "Installing the locked dependencies of development; Spark is the large one"
	@$(call install,--require-hashes --requirement requirements-dev.lock,--use-pep517)
	@touch $@

$(INSTALLED): pyproject.toml $(VENV)/.locked
	@$(call install,--no-deps --no-build-isolation --editable .)
	@touch $@
