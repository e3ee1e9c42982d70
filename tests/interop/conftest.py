"""Nothing here but WITHOUT_APACHE runs unless Apache Kafka's jars, Java and a ZooKeeper are there; the reason is told."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import zookeeper_server
from tests.interop import apache

WITHOUT_APACHE = ("test_replicas.py",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = apache.missing() or zookeeper_server.missing()
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here) and item.path.name not in WITHOUT_APACHE:
            item.add_marker(pytest.mark.process)
            item.add_marker(pytest.mark.slow)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def tools() -> Iterator[apache.Tools]:
    running = apache.Tools()
    yield running
    running.close()
