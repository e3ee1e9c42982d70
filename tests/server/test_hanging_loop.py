"""A broker whose event loop hangs answers nobody; others take over what it led, and it comes back as a new incarnation."""

import subprocess
import sys
from pathlib import Path

import pytest

from odradek.client.sync import SyncClient
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.testing.process_cluster import ProcessCluster
from tests.server.processes import create_topic
from tests.support import eventually

pytestmark = pytest.mark.process


def is_known_to(address: str, broker_id: int) -> bool:
    try:
        with SyncClient(address, bootstrap_timeout_s=5, request_timeout_s=5) as client:
            return broker_id in client.cluster([]).brokers
    except OdradekError:
        return False


def test_others_take_over_from_a_loop_that_hangs_and_it_returns(tmp_path: Path) -> None:
    # Far longer than a busy machine keeps the other one from its beats.
    cluster = ProcessCluster(tmp_path / "c", brokers=2, settings={"zookeeper.session.timeout.ms": "12000"})
    cluster.write_configurations()
    hangs = tmp_path / "hangs"
    script = Path(__file__).with_name("hanging_broker.py")
    first, second = cluster.brokers[1], cluster.brokers[2]
    with open(first.log_file, "ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(script), str(first.config_file), str(hangs)], stdout=log, stderr=log
        )
    try:
        second.start()

        def seen() -> dict[int, tuple[int, tuple[int, ...]]]:
            """Leader and ISR of both partitions, as broker 2 sees them."""
            try:
                with SyncClient(second.address, bootstrap_timeout_s=5, request_timeout_s=5) as client:
                    partitions = client.topic("t").partitions
                    return {n: (p.leader, tuple(sorted(p.isr))) for n, p in partitions.items()}
            except OdradekError:
                return {}

        cluster.wait_until(lambda: is_known_to(second.address, 1), "broker 2 knows of broker 1")
        create_topic(second.address, "t", replication_factor=2, partitions=2)
        both = (1, 2)
        found = eventually(
            lambda: sorted((now := seen()).values()) == [(1, both), (2, both)] and now,
            60,
            "each broker leads one of two",
        )
        assert found
        (index,) = (n for n, (leader, _) in found.items() if leader == 1)

        hangs.touch()
        eventually(lambda: seen().get(index) == (2, (2,)), 60, "broker 2 leads while the loop of 1 hangs")
        with SyncClient(second.address, bootstrap_timeout_s=20) as client:
            assert client.produce(TopicPartition("t", index), build_batch([NewRecord(None, b"on")])) == 0
        assert process.poll() is None

        hangs.unlink()
        eventually(lambda: seen().get(index) == (2, both), 60, "broker 1 follows, and is in sync again")
        assert "the session with the store has ended; registering again" in first.log_file.read_text()
    finally:
        hangs.unlink(missing_ok=True)
        process.kill()
        process.wait()
        cluster.stop(deadline_s=0)
