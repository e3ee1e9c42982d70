"""Fixtures for whoever tests with pytest; pytest finds them where `odradek` is installed.

    def test_orders(odradek_cluster):
        odradek_cluster.create_topic("orders", replication_factor=3)
        producer = Producer({"bootstrap.servers": odradek_cluster.bootstrap})

`odradek_cluster` is new for each test, `odradek_shared_cluster` one for the whole run, for tests that each use topics of their own
(`odradek_topic`). What they are is said in the configuration of pytest,

    [tool.pytest.ini_options]
    odradek_brokers = "1"
    odradek_settings = ["min.insync.replicas=1"]

or for a test: `@pytest.mark.odradek(brokers=3, settings={"min.insync.replicas": "2"})`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

# Nothing of ours here: every run of pytest in an environment that has us loads this file.
if TYPE_CHECKING:
    from odradek.testing.running_cluster import RunningCluster

BROKERS = "3"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "odradek_brokers", "Brokers of odradek_cluster and odradek_shared_cluster.", default=BROKERS
    )
    parser.addini(
        "odradek_settings", "Settings of their brokers, a NAME=VALUE each.", type="linelist", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "odradek(brokers=3, settings={}): what odradek_cluster is for this test; see odradek.testing",
    )


@pytest.fixture
def odradek_cluster(request: pytest.FixtureRequest) -> "Iterator[RunningCluster]":
    """A cluster of this test's own: whole brokers in this process, with what `RunningCluster` can do to them."""
    yield from _running(request.config, request.node.get_closest_marker("odradek"))


@pytest.fixture(scope="session")
def odradek_shared_cluster(request: pytest.FixtureRequest) -> "Iterator[RunningCluster]":
    """One for all tests of this run (of this worker of pytest-xdist). Whoever kills a broker of it starts it again."""
    yield from _running(request.config, None)


@pytest.fixture
def odradek_topic(odradek_shared_cluster: "RunningCluster", request: pytest.FixtureRequest) -> str:
    """The name of a topic of this test's own in `odradek_shared_cluster`, one partition on every broker."""
    from odradek.testing.topic_names import topic_name_for

    name = topic_name_for(request.node.name)
    odradek_shared_cluster.create_topic(name, replication_factor=len(odradek_shared_cluster.cluster.ids))
    return name


def _running(config: pytest.Config, mark: "pytest.Mark | None") -> "Iterator[RunningCluster]":
    from odradek.testing.running_cluster import running_cluster

    with running_cluster(**_wanted(config, mark)) as cluster:
        yield cluster


def _wanted(config: pytest.Config, mark: "pytest.Mark | None") -> dict[str, Any]:
    own = {} if mark is None else dict(mark.kwargs)
    unknown = sorted(own.keys() - {"brokers", "settings"})
    if unknown or (mark is not None and mark.args):
        raise pytest.UsageError(
            f"@pytest.mark.odradek({unknown[0] if unknown else '...'}): write brokers=, settings="
        )
    brokers = own.get("brokers", config.getini("odradek_brokers"))
    try:
        count = int(brokers)
    except ValueError:
        raise pytest.UsageError(f"odradek_brokers: {brokers!r} is no number") from None
    settings = {}
    for pair in config.getini("odradek_settings"):
        name, equals, value = pair.partition("=")
        if not equals:
            raise pytest.UsageError(
                f"odradek_settings: {pair!r}: expected NAME=VALUE, as in min.insync.replicas=1"
            )
        settings[name.strip()] = value.strip()
    return {"brokers": count, "settings": {**settings, **own.get("settings", {})}}
