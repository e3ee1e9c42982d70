"""What `kill -9` costs: nothing where the kernel has kept all that the broker wrote (decisions/0074), else a doubt (0073)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.log.checkpoints import RUNNING, Running, running_to_bytes
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.testing.process_cluster import ProcessCluster
from tests.log.logs import keeps_marks
from tests.server.processes import leaders
from tests.support import eventually

pytestmark = pytest.mark.process
T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    if not keeps_marks(tmp_path / "probe"):
        pytest.skip("this kernel, or this file system, keeps no marks")
    with ProcessCluster(tmp_path, settings={"min.insync.replicas": "2"}) as running:
        yield running


def create(cluster: ProcessCluster, topic: str, *replicas: int) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    asked = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=[assignment])
    with SyncClient(cluster.bootstrap) as client:
        (answer,) = client.call(CONTROLLER, CreateTopicsRequest(topics=[asked], timeout_ms=30_000)).topics
        assert answer.error_code == 0, answer


def kill_both(cluster: ProcessCluster) -> tuple[int, int]:
    """An acknowledged record on two brokers, of which neither is controller: the follower is killed, then the leader."""
    with SyncClient(cluster.bootstrap) as client:
        controller = client.cluster([]).controller_id
        follower, leader = sorted(cluster.brokers.keys() - {controller})
        create(cluster, "t", leader, follower)
        create(cluster, "alone", leader)
        client.produce(T0, build_batch([NewRecord(None, b"acknowledged")]))
    cluster.kill(follower)
    eventually(lambda: leaders(cluster, "t")[0] == (leader, (leader,)), 60, "the follower has left the ISR")
    cluster.kill(leader)
    eventually(lambda: leaders(cluster, "t")[0][0] == -1, 60, "nobody leads")
    return leader, follower


def end(cluster: ProcessCluster) -> int:
    alive = ",".join(broker.address for broker in cluster.brokers.values() if broker.is_running)
    with SyncClient(alive) as client:
        return client.end_offsets([T0])[T0]


def test_the_last_member_of_the_isr_leads_again_at_once_after_it_was_killed(cluster: ProcessCluster) -> None:
    leader, follower = kill_both(cluster)
    cluster.restart(leader, wait=False)
    eventually(
        lambda: leaders(cluster, "t")[0] == (leader, (leader,)), 60, "it leads, and the other one is dead"
    )
    cluster.restart(follower, wait=False)
    eventually(lambda: leaders(cluster, "t")[0][1] == (follower, leader), 60, "both are in sync")
    assert end(cluster) == 1


@pytest.mark.parametrize("is_forged", [True, False], ids=["forged note", "another boot"])
def test_without_proof_it_waits_for_the_eligible_one(cluster: ProcessCluster, is_forged: bool) -> None:
    leader, follower = kill_both(cluster)
    note = cluster.brokers[leader].directory / "data" / RUNNING
    if is_forged:
        data = note.read_bytes()
        note.unlink()
        note.write_bytes(data)
    else:
        with open(note, "r+b") as file:
            file.truncate()
            file.write(running_to_bytes(Running(1, "0" * 36, 1, 2)))
    cluster.restart(leader, wait=False)
    eventually(lambda: leaders(cluster, "alone")[0][0] == leader, 60, "the controller knows that it is back")
    assert leaders(cluster, "t")[0] == (-1, (leader,))
    cluster.restart(follower, wait=False)
    eventually(lambda: leaders(cluster, "t")[0][1] == (follower, leader), 60, "both are in sync")
    assert end(cluster) == 1
