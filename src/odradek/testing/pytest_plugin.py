"""Fixtures for whoever tests with pytest; pytest finds them where `odradek` is installed.

    def test_orders(odradek_cluster):
        odradek_cluster.create_topic("orders", replication_factor=3)
        producer = Producer({"bootstrap.servers": odradek_cluster.bootstrap})

`odradek_cluster` is new for each test, `odradek_shared_cluster` one for the whole run, for tests that each use topics of their own
(`odradek_topic`). What they are is said in the configuration of pytest,

    [tool.pytest.ini_options]
    odradek_brokers = "1"
    odradek_settings = ["min.insync.replicas=1"]

or for a test: `@pytest.mark.odradek(brokers=3, settings={"min.insync.replicas": "2"})`, and for a class or a module of them: what is
nearer to the test counts, for each setting by itself.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    yield from _running(request.config, list(request.node.iter_markers("odradek")))


@pytest.fixture(scope="session")
def odradek_shared_cluster(request: pytest.FixtureRequest) -> "Iterator[RunningCluster]":
    """One for all tests of this run (of this worker of pytest-xdist), whatever a mark says. Whoever kills a broker of it starts it
    again."""
    yield from _running(request.config, [])


@pytest.fixture
def odradek_topic(odradek_shared_cluster: "RunningCluster", request: pytest.FixtureRequest) -> str:
    """The name of a topic of this test's own in `odradek_shared_cluster`, one partition on every broker. Brokers that a test before
    has left dead or paused, as one that failed may, are brought back."""
    from odradek.testing.topic_names import topic_name_for

    _bring_back(odradek_shared_cluster)
    name = topic_name_for(request.node.name)
    odradek_shared_cluster.create_topic(name, replication_factor=len(odradek_shared_cluster.cluster.ids))
    return name


def _bring_back(cluster: "RunningCluster") -> None:
    every = cluster.cluster
    for broker in every.ids:
        if every.links.is_silent(broker):
            cluster.resume(broker)
        if broker not in every.runtimes:
            cluster.start(broker)
    cluster.call(every.until(every.is_ready, "every broker knows those that were brought back"))


def _running(config: pytest.Config, marks: "Sequence[pytest.Mark]") -> "Iterator[RunningCluster]":
    from odradek.testing.running_cluster import running_cluster

    with running_cluster(**_wanted(config, marks)) as cluster:
        yield cluster


def _wanted(config: pytest.Config, marks: "Sequence[pytest.Mark]") -> dict[str, Any]:
    """`marks`: those of the test before those of its class."""
    brokers, who = config.getini("odradek_brokers"), "odradek_brokers"
    settings = {}
    for pair in config.getini("odradek_settings"):
        name, equals, value = pair.partition("=")
        if not equals:
            raise pytest.UsageError(
                f"odradek_settings: {pair!r}: expected NAME=VALUE, as in min.insync.replicas=1"
            )
        settings[name.strip()] = value.strip()
    for mark in reversed(marks):
        unknown = sorted(mark.kwargs.keys() - {"brokers", "settings"})
        if unknown or mark.args:
            raise pytest.UsageError(
                f"@pytest.mark.odradek({unknown[0] if unknown else '...'}): write brokers=, settings="
            )
        if "brokers" in mark.kwargs:
            brokers, who = mark.kwargs["brokers"], "@pytest.mark.odradek(brokers=...)"
        own = mark.kwargs.get("settings", {})
        if not isinstance(own, Mapping):
            raise pytest.UsageError(
                f"@pytest.mark.odradek(settings=...): {own!r} is no dict of names and values"
            )
        settings.update(own)
    try:
        count = int(brokers)
    except (TypeError, ValueError):
        raise pytest.UsageError(f"{who}: {brokers!r} is no number") from None
    return {"brokers": count, "settings": settings}
