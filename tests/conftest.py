"""Markers every room may use, the same examples in every run, and how brokers start."""

import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from odradek.testing.process_cluster import BrokerProcess
from tests import forked_brokers

HERE = Path(__file__).parent

# The files that take longest, longest first. Files are handed to two workers in this order (--no-loadscope-reorder):
# one that takes half a minute and comes last leaves a processor without work. `pytest --durations=0` shows the order anew.
LONGEST_FILES = (
    "sim/test_scenarios.py",
    "mutants/museum/test_museum.py",
    "sim/test_explore.py",
    "sim/test_further_faults.py",
    "log/test_crash_enumeration.py",
    "protocol/test_compiled_equals_reference.py",
    "protocol/test_flat.py",
    "sim/test_seeds.py",
    "sim/test_command.py",
    "log/test_damage.py",
    "cli/test_main.py",
    "log/test_failing_operations.py",
    "sim/test_client_faults.py",
    "spark/test_random_kills.py",
    "spark/test_later_driver_kills.py",
    "spark/test_driver_kills.py",
    "clients/test_transactions.py",
    "benchmarks/test_spark.py",
    "spark/test_standalone.py",
    "spark/test_connect.py",
    "demo/test_run.py",
    "spark/test_transform_kills.py",
    "clients/test_groups.py",
    "clients/test_twenty_kills.py",
    "spark/test_shipped.py",
    "spark/test_jobs.py",
    "examples/test_examples.py",
    "examples/test_wheel.py",
)

# Logs, stores and tables of tests are many small files, made and flushed and gone again within moments: on a disk that is a
# third of the processor time, and most of the waiting. PYTEST_DEBUG_TEMPROOT, pytest's own variable, names another place.
MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 4 << 30

# A test that draws its examples anew each time fails by chance, in a run that has nothing to do with it; and one that
# looks at how long drawing took fails where the machine was busy. `settings(...)` of a test adds to these.
settings.register_profile(
    "tests", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(50_000, 50, 100)  # as a broker's process has them: a test makes much, and keeps little
    if "PYTEST_DEBUG_TEMPROOT" not in os.environ and has_room(MEMORY):
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)
    BrokerProcess._spawned = forked_brokers.launch  # type: ignore[method-assign,assignment]
    config.addinivalue_line(
        "markers",
        "behaviour(*rows): ticks off these numbered behaviours; docs/behaviours.md is written from it",
    )


def has_room(directory: Path) -> bool:
    return (
        directory.is_dir()
        and os.access(directory, os.W_OK)
        and shutil.disk_usage(directory).free >= ENOUGH_BYTES
    )


@pytest.fixture
def new_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers begin as users start them, each with a Python of its own."""
    monkeypatch.setattr(BrokerProcess, "_spawned", forked_brokers.new_python)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of `LONGEST_FILES` come first; the rest keeps its order."""
    rank = {HERE / name: place for place, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """The collector of cycles passes over what was collected: thousands of tests and all modules, which stay.

    A simulated run ends with a whole collection, so that nothing of one is found by the next; a quarter of
    its time was spent on what pytest holds.
    """
    gc.collect()
    gc.freeze()
