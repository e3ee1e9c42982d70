"""Real processes that are stopped and continue, and topics that are made and led."""

import subprocess
from pathlib import Path

import pytest

from odradek.model.errors import ConfigurationError
from odradek.testing.process_cluster import ProcessCluster

pytestmark = pytest.mark.process
# Far longer than a busy machine keeps a broker that goes on from its beats, and no longer than a test waits for an end of one.
SESSION = {"zookeeper.session.timeout.ms": "12000"}


@pytest.mark.parametrize("first", [0, -1, 65_534, 70_000])
def test_ports_that_there_are_not_are_refused_before_anything_starts(tmp_path: Path, first: int) -> None:
    with pytest.raises(ConfigurationError, match=f"first_port {first}: 3 brokers need ports from there on"):
        ProcessCluster(tmp_path, brokers=3, first_port=first)
    with pytest.raises(ConfigurationError, match=f"metrics_port {first}: 3 brokers need ports from there on"):
        ProcessCluster(tmp_path, brokers=3, metrics_port=first)
    assert ProcessCluster(tmp_path, brokers=3, first_port=65_533).bootstrap.endswith(":65535")


def test_a_stopped_leader_is_replaced_and_follows_when_it_continues(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, brokers=2, settings=SESSION) as cluster:
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


def test_a_broker_starts_again_beside_one_that_is_paused(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, brokers=3, settings=SESSION) as cluster:
        cluster.pause(2)
        cluster.kill(1)
        cluster.restart(1)
        cluster.create_topic("orders", replication_factor=2)


def test_a_paused_broker_that_was_to_end_and_starts_again_is_asked(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, brokers=1) as cluster:
        cluster.pause(1)
        with pytest.raises(subprocess.TimeoutExpired):
            cluster.terminate(1, deadline_s=0.1)
        cluster.restart(1)
        cluster.create_topic("orders")
