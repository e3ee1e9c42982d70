"""Real processes that are stopped and continue, and topics that are made and led."""

from pathlib import Path

import pytest

from odradek.model.errors import ConfigurationError
from odradek.testing.process_cluster import ProcessCluster

pytestmark = pytest.mark.process


def test_a_stopped_leader_is_replaced_and_follows_when_it_continues(tmp_path: Path) -> None:
    settings = {"zookeeper.session.timeout.ms": "2000"}
    with ProcessCluster(tmp_path, brokers=2, settings=settings) as cluster:
        cluster.create_topic("orders", replication_factor=2)
        cluster.move_leader("orders", to=1)

        cluster.pause(1)
        cluster.wait_until(lambda: cluster.leader("orders") == 2, "the other one leads")
        assert cluster.isr("orders") == (2,)
        cluster.resume(1)
        cluster.wait_until(lambda: set(cluster.isr("orders")) == {1, 2}, "the first one is back")

        cluster.pause(1)
        cluster.kill(2)
        with pytest.raises(ConfigurationError, match="no broker can be asked"):
            cluster.leader("orders")
    assert not cluster.brokers[1].is_running
    assert cluster.brokers[1]._started.returncode == 0, "it was let go on, and stopped in order"
