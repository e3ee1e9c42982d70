"""Three real broker processes for each test of this directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.testing.process_cluster import ProcessCluster

# What tests would only wait for: other members that may come before a new group's first rebalance, and the next heartbeat of
# a member (KIP-848). The defaults are those of the README's steps, which are tested as they stand.
SOON = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ProcessCluster]:
    """`SETTINGS` of the module are settings of its brokers."""
    settings = {**SOON, **getattr(request.module, "SETTINGS", {})}
    with ProcessCluster(tmp_path, brokers=3, settings=settings) as running:
        yield running
