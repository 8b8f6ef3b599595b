# One definition of every command; CI calls the same targets. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find fastnode rust_ext/src -name '*.pyx' -o -name '*.pxd' -o -name '*_ref.py' -o -name '*.rs') \
           $(shell $(PYTHON) -c 'import runpy; print(*("fastnode/" + one.replace(".", "/") + ".py" for one in runpy.run_path("fastnode/_ways.py")["WAYS"]))') \
           setup.py rust_ext/Cargo.toml rust_ext/Cargo.lock $(wildcard build_backend/*.py)
# Pins live in pyproject.toml alone: the tools are read from there.
PINS = $(shell $(PYTHON) -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb")); print(*$(1))')
BUILD_TOOLS = $(call PINS,project["build-system"]["requires"])
DEV_TOOLS = $(call PINS,project["project"]["optional-dependencies"]["dev"])
CYTHON := _keys _core _md5 _plan _plain _reads _send _http _entry _occ _held _landed _query _sha256 _sigv4 _deliver _filed _fifo _meter
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help run build dev lint test test-unit test-integration test-crash bench annotate format clean tools

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | sort | awk -F'\t' '{printf "  make %-18s %s\n", $$1, $$2}'

run: build ## build what changed and start one durable node on loopback (ARGS="--listen ...")
	@exec $(BIN)/fastnode run $(ARGS)

.PHONY: cluster
cluster: build ## build what changed and start three nodes on loopback, to see one fail (ARGS="--nodes 5 ...")
	@exec $(BIN)/fastnode cluster dev $(ARGS)

build: $(VENV)/.built ## create .venv, install the pinned dependencies, compile Cython and Rust

test: lint test-rust test-unit test-sim test-integration conformance test-crash test-cluster test-docs test-load bench-smoke ## everything CI runs: lint, types, Rust and Python tests

lint: $(VENV)/.dev $(VENV)/.spark ## ruff, mypy, stubtest, clippy, rustfmt
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest $(addprefix fastnode.,$(CYTHON) _raftlog)
	cd rust_ext && cargo fmt --check && cargo clippy --quiet --locked --all-targets -- -D warnings
	cd bench/loadgen && cargo fmt --check && cargo clippy --quiet --locked --all-targets -- -D warnings

.PHONY: test-rust bench-smoke bench-storage debug-check
test-rust: | tools ## cargo test of the Raft log extension
	cd rust_ext && cargo test --quiet --locked
	cd bench/loadgen && cargo test --quiet --locked

# About as long as all the others together: two cores, two processes.
UNIT_HALF := tests/unit/queue tests/unit/cluster
test-unit: $(VENV)/.dev ## pure code: no sockets, no sleeps
	@$(BIN)/pytest -q $(UNIT_HALF) & half=$$!; \
	$(BIN)/pytest -q tests/unit tests/fuzz tests/spec $(addprefix --ignore=,$(UNIT_HALF)); rest=$$?; \
	wait $$half && exit $$rest

test-integration: $(VENV)/.dev ## one real node, real sockets and disk, boto3
	$(BIN)/pytest -q tests/integration

.PHONY: conformance
conformance: $(VENV)/.dev ## every row of the SQS contract by both protocols; fails on a row without a case
	$(BIN)/pytest -q tests/conformance --whole-contract

test-crash: $(VENV)/.dev ## real nodes killed with -9, damaged logs
	$(BIN)/pytest -q tests/crash

.PHONY: test-cluster
test-cluster: $(VENV)/.dev ## three real nodes: killed, paused, cut off, refused, replaced; histories checked
	$(BIN)/pytest -q tests/cluster

.PHONY: test-docs docs docs-check
test-docs: $(VENV)/.dev ## the README's tour and the commands of docs/, against real nodes; links, generated pages
	$(BIN)/pytest -q tests/docs -m "not long"

docs: $(VENV)/.dev ## write anew the pages that are drawn from the code's tables
	$(BIN)/python -m tests.docs.generated

docs-check: $(VENV)/.dev ## the slow commands of docs/ too: they install SDKs (Node.js, Go, Java with Maven)
	$(BIN)/pytest -q tests/docs

SPARK_TOOLS = $(call PINS,project["project"]["optional-dependencies"]["spark"])
.PHONY: test-load test-spark test-standalone load
# On a busy machine a JVM may take minutes to start, and its first query as long again.
PATIENT := -o timeout=900
test-load: $(VENV)/.dev $(VENV)/.spark ## the load pipeline in a minute: its rules and checks, and once through Spark
	$(BIN)/pytest -q tests/spark tests/chaos -m "not long" $(PATIENT)

test-spark: $(VENV)/.dev $(VENV)/.spark ## all tests of the load pipeline on this machine
	$(BIN)/pytest -q tests/spark $(PATIENT)

.PHONY: test-planted
test-planted: $(VENV)/.dev $(VENV)/.spark ## faults planted among a million rows of a history, found by Spark
	$(BIN)/pytest -q tests/spark/test_verify.py --rows 1000000 -o timeout=1800

test-standalone: $(VENV)/.dev $(VENV)/.spark ## the load pipeline on a Spark cluster of a master and two workers
	$(BIN)/pytest -q tests/standalone

LOAD_DIR ?=
load: $(VENV)/.classes ## a node, the smoke workload against it, verdict and report (LOAD_DIR=where)
	@$(BIN)/python -m bench.load_run $(if $(LOAD_DIR),--directory $(LOAD_DIR))

.PHONY: load-failover
load-failover: $(VENV)/.classes ## three nodes, the leader killed in the middle, verdict and report (LOAD_DIR=where)
	@$(BIN)/python -m bench.load_failover $(if $(LOAD_DIR),--directory $(LOAD_DIR))

SEED ?= 1
SEEDS ?= 1
.PHONY: sim sim-mutants test-sim
test-sim: $(VENV)/.dev ## the simulator itself, and 500 of its seeds
	$(BIN)/pytest -q tests/sim
	$(BIN)/python -m tests.sim --seed 1 --seeds 500

sim: $(VENV)/.dev ## whole clusters in virtual time, everything going wrong by seed (SEED=7, SEEDS=500)
	$(BIN)/python -m tests.sim --seed $(SEED) --seeds $(SEEDS)

sim-mutants: $(VENV)/.dev ## deliberate bugs, and how many seeds find each; the table goes into docs/testing.md
	$(BIN)/python -m tests.sim.mutation --write docs/testing.md

.PHONY: browser
browser: $(VENV)/.dev $(VENV)/.spark ## the console and a report in a headless Chromium of the system; screenshots in build/browser
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { echo "fastnode: Chromium is missing: install it, such as by apt install chromium"; exit 1; }
	@$(PIP) install $(call PINS,project["project"]["optional-dependencies"]["browser"])
	$(BIN)/pytest -q tests/browser

.PHONY: wheel wheel-check
wheel: $(VENV)/.built ## a wheel of the package in dist/, for this Python and machine
	@$(PIP) wheel --no-build-isolation --no-deps --wheel-dir dist .
	@ls dist/*.whl

wheel-check: wheel $(VENV)/.dev ## the wheel in a fresh environment, and a node that runs from there
	$(BIN)/pytest -q tests/packaging

.PHONY: clients fuzz
clients: $(VENV)/.dev ## eleven real clients against a node, from boto3 to Spring; the table in docs/clients.md
	$(BIN)/python -m tests.clients.run

SECONDS ?= 120
FUZZERS := http json query tokens sigv4 records peers snapshot log config
fuzz: $(VENV)/.dev ## the fuzzers, each for SECONDS (120), and the lines they reach (FUZZERS="sigv4 log")
	@$(PIP) install $(call PINS,project["project"]["optional-dependencies"]["fuzz"])
	for name in $(FUZZERS); do $(BIN)/python -m tests.fuzz.run $$name $(SECONDS) || exit 1; done
	for name in $(FUZZERS); do FASTNODE_PURE=1 $(BIN)/python -m tests.fuzz.reach $$name || exit 1; done

bench-smoke: $(VENV)/.dev
	$(BIN)/pytest -q bench --benchmark-disable

bench: $(VENV)/.dev ## ratios of one run (compiled against twin, node against echo) against the committed baseline
	$(BIN)/python -m bench.suite

.PHONY: bench-full bench-flat bench-gate
bench-full: $(VENV)/.dev ## every performance target with its verdict; half an hour (ARGS="--only send,drain ...")
	$(BIN)/python -m bench.full $(ARGS)

bench-flat: $(VENV)/.dev ## plots of the cost of a message over backlog, messages processed, in flight, queues
	$(BIN)/python -m bench.flat $(ARGS)

bench-gate: $(VENV)/.dev ## a minute of ratios: fails if one is twice as bad as the baseline
	$(BIN)/python -m bench.gate

debug-check: $(VENV)/.dev ## the compiled modules with every bounds check on, against their tests
	FASTNODE_BUILD=debug $(BIN)/python setup.py -q build --build-base build/debug-base --build-lib build/debug
	cp fastnode/_raftlog*.so build/debug/fastnode/
	$(BIN)/pytest -q -o pythonpath='build/debug .' tests/unit/native
	rm build/cython-profile

# Python's own allocator would hide what is beyond a block; its leaks at exit are no news. A finding
# ends the process at once: pytest must not hold back what it wrote.
.PHONY: sanitize sanitize-rust
sanitize: $(VENV)/.dev ## the compiled modules under AddressSanitizer and UBSan, against their tests and the fuzzers' inputs
	FASTNODE_BUILD=sanitize $(BIN)/python setup.py -q build --build-base build/sanitize-base --build-lib build/sanitize
	cp fastnode/_raftlog*.so build/sanitize/fastnode/
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc \
	$(BIN)/pytest -q --capture=sys -p no:cacheprovider -o timeout=600 -o pythonpath='build/sanitize .' tests/unit/native tests/fuzz
	rm build/cython-profile

sanitize-rust: | tools ## cargo test of the log extension under AddressSanitizer (needs a nightly toolchain)
	cd rust_ext && RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 cargo +nightly test --quiet --locked --target x86_64-unknown-linux-gnu --target-dir target/sanitize

.PHONY: miri
miri: | tools ## the log extension's decoders, books and rules under Miri (needs a nightly toolchain with miri)
	cd rust_ext && MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --quiet --locked --target-dir target/miri --lib

.PHONY: bench-scale
bench-scale: $(VENV)/.dev ## 10,000 idle long polls; pages of ListQueues with 100,000 queues; a scrape of 1,000
	$(BIN)/python -m bench.idle_polls
	$(BIN)/python -m bench.list_queues
	$(BIN)/python -m bench.scrape

.PHONY: bench-overload
bench-overload: $(VENV)/.dev ## three times the load that a node can carry: goodput, latency, memory, recovery
	$(BIN)/python -m bench.overload

.PHONY: bench-workers
bench-workers: $(VENV)/.dev ## two workers against one process: 16 queues, rate and CPU per request
	$(BIN)/python -m bench.workers

.PHONY: bench-cluster
bench-cluster: $(VENV)/.dev ## three nodes on one machine: replicated sends, forwarding, idle groups, snapshots, failover
	$(BIN)/python -m bench.cluster

.PHONY: bench-peers
bench-peers: $(VENV)/.dev ## the same load on ElasticMQ, fauxqs and goaws (Java and Maven, npm, Go where installed)
	$(BIN)/python -m bench.peers $(ARGS)

bench-storage: $(VENV)/.dev ## disk space and latency after many messages, purge beside load, engine options
	$(BIN)/python -m bench.storage

WORKLOAD ?= send
.PHONY: profile soak
profile: $(VENV)/.dev ## CPU of a request by stage, flame graph in build/profile.svg (WORKLOAD=send|batch|receive|fifo|forward)
	$(BIN)/python -m bench.budget --workload $(WORKLOAD)

MINUTES ?= 30
soak: $(VENV)/.dev ## steady mixed load for MINUTES (30): history checked, memory, latency and disk flat (ARGS="--nodes 3")
	$(BIN)/python -m bench.soak --minutes $(MINUTES) $(ARGS)

.PHONY: chaos
chaos: $(VENV)/.dev $(VENV)/.spark ## real nodes and faults by SEED for MINUTES, history judged, timeline (ARGS="--nodes 5")
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(filter-out file,$(origin SEED)),--seed $(SEED)) $(ARGS)

annotate: $(VENV)/.dev ## Cython's annotated sources in build/annotate: look for yellow in the hot path
	mkdir -p build/annotate
	for name in $(CYTHON); do $(BIN)/cython --annotate-fullc -3 -o build/annotate/$$name.c fastnode/$$name.pyx; done

format: $(VENV)/.dev ## rewrite Python and Rust sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd rust_ext && cargo fmt
	cd bench/loadgen && cargo fmt

clean: ## remove everything that was built; data directories stay
	rm -rf build dist .venv rust_ext/target bench/loadgen/target .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf fastnode/*.so fastnode.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

tools:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "fastnode: Python 3.11 or newer is missing: install it, or name it with make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "fastnode: the Python venv module is missing: install python3-venv"; exit 1; }
	@$(PYTHON) -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || { echo "fastnode: the C headers of Python are missing: install python3-dev"; exit 1; }
	@command -v cc >/dev/null || { echo "fastnode: a C compiler is missing: install gcc or clang"; exit 1; }
	@command -v cargo >/dev/null || { echo "fastnode: the Rust toolchain is missing: install cargo (Rust 1.85 or newer)"; exit 1; }

$(VENV)/.venv: | tools
	@echo "fastnode: creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) && touch $@

$(VENV)/.tools: pyproject.toml | $(VENV)/.venv
	@echo "fastnode: installing the build tools"
	@$(PIP) install $(BUILD_TOOLS) && touch $@

$(VENV)/.built: $(VENV)/.tools $(SOURCES)
	@echo "fastnode: building (the first time takes a few minutes: Cython modules, Raft log extension)"
	@$(PIP) install --no-build-isolation --editable . && touch $@

$(VENV)/.dev: $(VENV)/.built pyproject.toml
	@echo "fastnode: installing the development tools"
	@$(PIP) install $(DEV_TOOLS) && touch $@

$(VENV)/.spark: $(VENV)/.built pyproject.toml
	@echo "fastnode: installing Spark"
	@$(PIP) install $(SPARK_TOOLS) && touch $@

# Spark's classes in a form that the JVM loads in half the time; all works without it.
$(VENV)/.classes: $(VENV)/.spark
	@echo "fastnode: preparing Spark"
	@$(BIN)/python -m bench.load_run --classes || true
	@touch $@
