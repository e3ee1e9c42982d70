"""A thread of a store that dies is a failure of the test that ran it; one ZooKeeper serves all tests."""

from collections.abc import Iterator

import pytest

from tests.conformance import zookeeper_server
from tests.conformance.zookeeper_server import ZooKeeperServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/conformance/" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning"))


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    reason = zookeeper_server.missing()
    if reason is not None:
        pytest.skip(reason)
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    try:
        server.start()
        yield server
    finally:
        server.kill()
