"""Markers every room may use, the same examples in every run, and how brokers start."""

import contextlib
import gc
import importlib
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from odradek.client.sync import SyncClient
from odradek.testing.process_cluster import BrokerProcess
from tests import forked_brokers, frozen_heap, one_session
from tests.marked_files import MARKED_PART, REST, holds_none
from tests.open_descriptors import MOST_LEFT, MOST_LEFT_OF_SPARK, OpenDescriptors

HERE = Path(__file__).parent

# The files that take longest, longest first. Files are handed to the workers in this order (--no-loadscope-reorder): one
# that takes half a minute and comes last leaves a processor without work. `--junitxml` tells the times of all tests. Here are those
# of five seconds and more; the ones that wait stand between those that only compute: of three workers one waits, and two processors
# have work.
LONGEST_FILES = (
    "sim/test_further_faults.py",
    "mutants/museum/test_coordinators.py",
    "log/test_crash_enumeration.py",
    "sim/test_explore.py",
    "benchmarks/test_harness.py",
    "benchmarks/test_turns.py",
    "sim/test_transactions.py",
    "spark/test_upsert.py",
    "spark/test_tables.py",
    "sim/test_seeds.py",
    "spark/test_decode.py",
    "server/test_client_quotas.py",
    "sim/test_command.py",
    "sim/test_mixed_groups.py",
    "sim/test_coverage.py",
    "sim/test_scenarios.py",
    "server/test_cleaning.py",
    "sim/test_moment_faults.py",
    "testing/test_troubled_cluster.py",
    "sim/test_strangers.py",
    "spark/test_jobs_of_tables.py",
    "benchmarks/test_controller_scale.py",
    "mutants/museum/test_museum.py",
    "spark/test_evolution.py",
    "sim/test_slow_members.py",
    "spark/test_topic_sink.py",
    "spark/test_formats_of_tables.py",
    "mutants/test_drawn.py",
    "log/test_crash_states.py",
    "spark/test_task_memory.py",
    "cli/test_groups.py",
    "sim/test_explore_transactions.py",
    "testing/test_pytest_plugin.py",
    "sim/test_narrow_turns.py",
    "sim/test_large_fetches.py",
    "spark/test_fork_server.py",
    "log/test_failing_operations.py",
    "sim/test_pipelined_producer.py",
    "sim/test_predictions.py",
    "sim/test_damage.py",
    "store/test_loop_beat.py",
    "sim/test_explore_scenarios.py",
    "spark/test_record_positions.py",
    "cli/test_reassign.py",
    "server/test_moves.py",
    "server/test_outgoing.py",
    "sim/test_restart_checker.py",
    "spark/test_pack.py",
    "sim/test_client_faults.py",
    "sim/test_administration.py",
    "spark/test_fingerprint.py",
    "test_architecture.py",
    "spark/test_letters_in_a_topic.py",
    "sim/test_wants.py",
    "sim/test_groups.py",
    "sim/test_cleanings.py",
    "protocol/test_hostile_bytes.py",
    "server/test_coordinated_cleaning.py",
    "sim/test_quiescence.py",
    "sim/test_plan.py",
    "server/exporter/test_page.py",
)
# A worker that is given one test is given the next file as well, to be run after it.
LONGEST_WITH_PROCESSES = (
    "spark/test_random_kills.py",
    "spark/test_letters_in_a_topic.py",  # and with it all that share the session (`tests/one_session.py`)
    "spark/test_object_store_jobs.py",
    "spark/test_standalone.py",
    "spark/test_driver_kills.py",
    "spark/test_object_store.py",
    "spark/test_connect.py",
    "demo/test_run.py",
    "spark/test_transform_kills.py",
    "benchmarks/test_spark.py",
    "server/test_process.py",
    "cli/test_verbs.py",
    "clients/test_transactions.py",
    "examples/test_examples.py",
    "spark/test_shipped.py",
    "examples/test_wheel.py",
    "cli/test_up.py",
    "conformance/test_zookeeper_ensemble.py",
    "clients/test_twenty_kills.py",
    "clients/test_groups.py",
    "cli/test_test_cluster.py",
    "examples/test_readme.py",
    "clients/test_habits.py",
    "server/test_cleaning_process.py",
    "demo/test_page_in_a_browser.py",
    "pictures/test_pages_in_a_browser.py",
    "conformance/test_zookeeper_cluster.py",
    "nightly/test_nightly.py",
)

# Logs, stores and tables of tests are many small files, made and flushed and gone again within moments: on a disk that is a
# third of the processor time, and most of the waiting. TMPDIR names another place. How large a file system in memory may
# become says nothing of the memory there is: a container may have little of it, and beside it run JVMs.
MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 8 << 30
MEMINFO, MOST_MEMORY = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")

# A test makes much, and keeps little. Ten thousand young objects are collected while the processor's cache still holds them,
# and what they leave is used again: fifty thousand, as a broker's process waits for, cost a quarter more where logs are made
# by the thousand (`log/test_crash_enumeration.py`).
GC_THRESHOLDS = (10_000, 50, 100)

# A person wants to see after eight seconds that nobody answers. A broker of a test is there, and on a busy machine it may stand
# still for longer.
PATIENCE_S = 30.0

OPEN_DESCRIPTORS = OpenDescriptors() if Path("/proc/self/fd").exists() else None
# Of which some test that runs here needs a session: the last one of the file need not be it.
FILES_OF_SPARK: set[Path] = set()

# A test that draws its examples anew each time fails by chance, in a run that has nothing to do with it; and one that
# looks at how long drawing took fails where the machine was busy. `settings(...)` of a test adds to these.
settings.register_profile(
    "tests", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(*GC_THRESHOLDS)
    if "TMPDIR" not in os.environ and has_room(MEMORY):
        os.environ["TMPDIR"], tempfile.tempdir = str(MEMORY), None  # for processes that tests start as well
    assert SyncClient.__init__.__kwdefaults__ is not None
    SyncClient.__init__.__kwdefaults__["bootstrap_timeout_s"] = PATIENCE_S
    BrokerProcess._spawned = forked_brokers.launch  # type: ignore[method-assign,assignment]
    config.addinivalue_line(
        "markers",
        "behaviour(*rows): ticks off these numbered behaviours; docs/behaviours.md is written from it",
    )


def has_room(directory: Path) -> bool:
    return (
        directory.is_dir()
        and os.access(directory, os.W_OK)
        and min(shutil.disk_usage(directory).free, free_memory()) >= ENOUGH_BYTES
    )


def free_memory() -> int:
    """Bytes, as far as the kernel says; of a container at most what it may have."""
    try:
        found = re.search(r"^MemAvailable: +(\d+) kB$", MEMINFO.read_text(), re.MULTILINE)
    except OSError:
        return 0
    limit = MOST_MEMORY.read_text().strip() if MOST_MEMORY.exists() else "max"
    free = int(found[1]) << 10 if found else 0
    return min(free, int(limit)) if limit.isdigit() else free


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, where it is at work
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    is_without_spark = config.option.markexpr == REST
    return (
        one_session.scheduling(config, log)
        if config.getvalue("dist") == "loadfile" and not is_without_spark
        else None
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if OPEN_DESCRIPTORS is not None:
        OPEN_DESCRIPTORS.test_begins(item.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    is_last_of_file = nextitem is None or nextitem.path != item.path
    if is_last_of_file:
        frozen_heap.freeze_again()
    if OPEN_DESCRIPTORS is not None:
        getattr(item, "funcargs", {}).clear()  # what fixtures gave it; pytest lets go of that a moment later
        OPEN_DESCRIPTORS.test_ended()
        if is_last_of_file:
            # Also those that start none: Delta's library keeps ten descriptors from its first table on.
            is_of_spark = item.path in FILES_OF_SPARK or item.path.parent.name == "spark"
            OPEN_DESCRIPTORS.file_ended(MOST_LEFT_OF_SPARK if is_of_spark else MOST_LEFT)


@pytest.fixture
def new_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers begin as users start them, each with a Python of its own."""
    monkeypatch.setattr(BrokerProcess, "_spawned", forked_brokers.new_python)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Each of several workers imports other files first. For every file pytest makes asserts that explain themselves; where it
    has not yet, in a new checkout, that is two thirds of all collecting, and here one worker finds what another has made.
    """
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker is not None and config.args_source is not pytest.Config.ArgsSource.ARGS:
        files = [file for file in HERE.rglob("test_*.py") if not holds_none(file, config.option.markexpr)]
        for file in sorted(files)[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
            name = ".".join(file.relative_to(HERE.parent).with_suffix("").parts)
            with warnings.catch_warnings(), contextlib.suppress(Exception, pytest.skip.Exception):
                warnings.simplefilter("ignore")
                importlib.import_module(name)  # where it fails, collecting it says so


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_test and holds_none(collection_path, config.option.markexpr) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those that take longest come first; the rest keeps its order."""
    longest = LONGEST_WITH_PROCESSES if config.option.markexpr == MARKED_PART else LONGEST_FILES
    rank = {HERE / name: place for place, name in enumerate(longest)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """The collector of cycles passes over what was collected: thousands of tests and all modules, which stay.

    A simulated run ends with a whole collection, so that nothing of one is found by the next; a quarter of
    its time was spent on what pytest holds.
    """
    frozen_heap.freeze()
    FILES_OF_SPARK.update(item.path for item in session.items if item.get_closest_marker("spark") is not None)
