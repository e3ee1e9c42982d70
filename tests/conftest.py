"""Markers every room may use, and the same examples in every run."""

import gc

import pytest
from hypothesis import HealthCheck, settings

# A test that draws its examples anew each time fails by chance, in a run that has nothing to do with it; and one that
# looks at how long drawing took fails where the machine was busy. `settings(...)` of a test adds to these.
settings.register_profile(
    "tests", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "behaviour(*rows): ticks off these numbered behaviours; docs/behaviours.md is written from it",
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """The collector of cycles passes over what was collected: thousands of tests and all modules, which stay.

    A simulated run ends with a whole collection, so that nothing of one is found by the next; a quarter of
    its time was spent on what pytest holds.
    """
    gc.collect()
    gc.freeze()
