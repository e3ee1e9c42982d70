"""What a controller tells a broker: LeaderAndIsr, StopReplica, UpdateMetadata, and what is refused of it."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker.effects import RegisterAgain
from odradek.log.errors import StorageError
from odradek.log.files import OsDirectory
from odradek.log.log_manager import LogManager
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import EPOCH_DURING_DELETE, NO_TOPIC_ID, TopicId, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import stop_replica as sr
from odradek.protocol.messages import update_metadata as um
from tests.broker.world import T0, TOPIC_ID, World, told
from tests.log.logs import batch, produce


@pytest.mark.behaviour(148)
def test_stop_replica_by_epoch(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1,), epoch=5)
    world.produce(1, b"a")
    assert world.stop_replica(1, T0, leader_epoch=4, delete=True) == ErrorCode.FENCED_LEADER_EPOCH
    assert world[1].values() == [b"a"], "a late request deletes nothing (KIP-570)"
    assert world.stop_replica(1, TopicPartition("u", 3), leader_epoch=0, delete=True) == ErrorCode.NONE
    assert world.stop_replica(1, T0, leader_epoch=5) == ErrorCode.NONE
    assert not world[1].partition().is_leader
    assert world[1].values() == [b"a"]
    assert world.stop_replica(1, T0, leader_epoch=-1, delete=True) == ErrorCode.NONE
    assert T0 not in world[1].broker.replicas.partitions
    assert not (world[1].path / "t-0").exists()


def test_a_request_for_an_earlier_life_of_this_broker_is_refused(world: World) -> None:
    """KIP-380: sent before we restarted; it could delete what we have now."""
    node = world[1]
    request = world.leader_and_isr(T0, broker_epoch=node.epoch - 1)
    assert world.call(1, request, 7).error_code == ErrorCode.STALE_BROKER_EPOCH
    metadata_request = um.UpdateMetadataRequest(controller_epoch=1, broker_epoch=node.epoch - 1)
    assert world.call(1, metadata_request, 8).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert world[1].broker.metadata.brokers, "and changed nothing"
    world.leadership[T0]["leader_epoch"] += 1
    node.broker.registering()
    later = world.leader_and_isr(T0, broker_epoch=node.epoch + 1)
    waits = world.send(1, later, 7)
    assert not waits.is_answered, "the controller may know our registration before we do"
    node.broker.registered(node.epoch + 1, world.now_ms)
    assert waits.message.error_code == ErrorCode.NONE


def test_a_kraft_controller_is_refused(world: World) -> None:
    request = world.leader_and_isr(T0)
    request.is_k_raft_controller = True
    assert world.call(1, request, 7).error_code == ErrorCode.INVALID_REQUEST
    metadata_request = um.UpdateMetadataRequest(is_k_raft_controller=True, controller_epoch=9)
    assert world.call(1, metadata_request, 8).error_code == ErrorCode.INVALID_REQUEST
    assert world[1].broker.replicas.controller_epoch == 1


def test_another_topic_of_the_same_name_does_not_get_the_old_ones_replica(world: World) -> None:
    world.leadership[T0]["topic_id"] = bytes([8] * 16)
    world.leadership[T0]["leader_epoch"] = 9
    assert world.tell_leader(1, T0) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert world[1].partition().topic_id == TOPIC_ID
    assert world[1].partition().leader_epoch == 0


def test_who_is_refused_is_sent_to_whoever_leads_in_the_newest_epoch_that_is_known(tmp_path: Path) -> None:
    """LeaderAndIsr comes before UpdateMetadata, which names the former leader until then: this broker."""
    world = World(tmp_path)
    world.lead(1, is_new=True)
    replicas = world[1].broker.replicas
    world.leadership[T0] |= {"leader": 2, "leader_epoch": 1}
    assert world.tell_leader(1, T0) == ErrorCode.NONE
    assert world[1].broker.metadata.topics["t"][0].leader == 1
    assert replicas.current_leader("t", 0) == replicas.current_leader(TOPIC_ID, 0) == (2, 1)
    world.leadership[T0] |= {"leader": 3, "leader_epoch": 2}
    world.notify_metadata([1])
    assert replicas.current_leader("t", 0) == (3, 2)


def test_a_reader_of_a_topic_made_again_is_not_given_the_records_of_the_former_one(world: World) -> None:
    """UpdateMetadata names the new one while the old one is still hosted here."""
    made_again = bytes([8] * 16)
    world.leadership[T0]["topic_id"] = made_again
    world.notify_metadata([1])
    replicas = world[1].broker.replicas
    assert replicas.wanted(TOPIC_ID, 0) is world[1].partition()
    with pytest.raises(ProtocolError) as caught:
        replicas.wanted(made_again, 0)
    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


@pytest.fixture
def of_two_topics(tmp_path: Path) -> World:
    """The two directories of a broker hold logs of one name and of different topics, and it was told to lead without a topic id."""
    world = World(tmp_path, brokers=(1,), directories="2")
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world.produce(1, b"a")
    world.kill(1)
    world[1].logs.release()
    other = LogManager([OsDirectory.create(world[1].log_dirs[1])], BrokerSettings({}))
    other.load(world.now_ms)
    other.get_or_create(T0, TopicId(b"o" * 16), now_ms=world.now_ms)
    other.close({})
    world.restart(1)
    world.lead(1, isr=(1,), replicas=(1,), topic_id=NO_TOPIC_ID)
    assert list(world[1].broker.replicas.offline) == [T0]
    return world


def test_a_controller_that_names_the_topic_after_one_that_did_not_is_obeyed(of_two_topics: World) -> None:
    of_two_topics.lead(1, isr=(1,), replicas=(1,))
    assert of_two_topics[1].values() == [b"a"] and of_two_topics[1].partition().is_leader


def test_logs_of_which_nobody_knows_the_topic_are_deleted_after_an_order_that_named_none(
    of_two_topics: World,
) -> None:
    assert of_two_topics.stop_replica(1, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == ErrorCode.NONE
    of_two_topics.lead(1, isr=(1,), replicas=(1,), is_new=True)
    assert of_two_topics[1].values() == []


@pytest.mark.parametrize("holds", [0, 1])
def test_of_two_logs_of_one_topic_none_leads_unless_the_other_was_never_used(
    tmp_path: Path, holds: int
) -> None:
    """The one in the first directory did, whatever it held: here what was acknowledged lies in the second."""
    world = World(tmp_path, brokers=(1,), directories="2")
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world.produce(1, b"a")
    world.kill(1)
    world[1].logs.release()
    first, second = map(Path, world[1].log_dirs)
    (first / "t-0").rename(second / "t-0")
    other = LogManager([OsDirectory.create(str(first))], BrokerSettings({}))
    other.load(world.now_ms)
    log = other.get_or_create(T0, TOPIC_ID, now_ms=world.now_ms)
    for _ in range(holds):
        produce(log, batch())
    other.close({})

    world.restart(1)

    world.leadership[T0]["leader_epoch"] = 1
    assert world.tell_leader(1, T0) == (ErrorCode.KAFKA_STORAGE_ERROR if holds else ErrorCode.NONE)
    assert world[1].broker.replicas.logs.offline_directories == {}
    if not holds:
        assert world[1].values() == [b"a"] and world[1].partition().is_leader
    assert world.stop_replica(1, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == ErrorCode.NONE
    world.kill(1)
    world[1].logs.release()
    world.restart(1)
    assert T0 not in {*world[1].broker.replicas.logs.logs, *world[1].broker.replicas.logs.ambiguous}


def test_logs_that_could_not_be_deleted_are_still_those_of_a_disk_that_is_gone(of_two_topics: World) -> None:
    of_two_topics[1].logs.directories[1].root.health.fail(StorageError("read: Input/output error"))
    told = of_two_topics.stop_replica(1, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True)
    assert told == ErrorCode.KAFKA_STORAGE_ERROR
    assert list(of_two_topics[1].broker.replicas.offline) == [T0]


@pytest.fixture
def of_two_directories(tmp_path: Path) -> World:
    """One of the two fails while the broker runs, t-0 in it."""
    world = World(tmp_path, brokers=(1,), directories="2")
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world[1].logs.directories[0].root.health.fail(StorageError("read: Input/output error"))
    world.settle()
    assert list(world[1].broker.replicas.offline) == [T0]
    return world


def test_a_replica_that_was_never_here_is_made_beside_a_directory_that_failed_since(
    of_two_directories: World,
) -> None:
    """The request that told of it as new was for a former registration of this broker and was refused; the next one is about a
    replica that came back. What lies in the directory that failed is known: it was read when the broker started."""
    world = of_two_directories
    world.lead(1, isr=(1,), replicas=(1,), index=1)
    assert world[1].partition(index=1).is_leader
    assert world[1].logs.directory_of(TopicPartition("t", 1)) == world[1].log_dirs[1]
    world.lead(1, isr=(1,), replicas=(1,))
    assert list(world[1].broker.replicas.offline) == [T0]


def test_who_led_what_was_in_a_directory_that_failed_says_so_when_it_is_asked_and_does_not_register_anew(
    of_two_directories: World,
) -> None:
    """The controller asks in the epoch that it led in. Registered anew, it would leave the ISRs of all that it has on good disks."""
    world = of_two_directories
    assert world.tell_leader(1, T0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert told(world, RegisterAgain) == []


@pytest.mark.parametrize("epoch", ["the same epoch", "the next epoch"])
def test_a_replica_without_a_topic_id_is_given_one(world: World, epoch: str) -> None:
    """KIP-516: of a topic made by an old tool. A controller may tell it with the epoch the broker has; that once it is no
    stale request (`ReplicaManager.becomeLeaderOrFollower` of Apache 3.9 answers NONE and writes partition.metadata)."""
    key = TopicPartition("old", 0)
    world.lead(1, topic="old", topic_id=bytes(16))
    world.produce(1, b"a", topic="old")
    world.leadership[key]["topic_id"] = TOPIC_ID[::-1]
    if epoch == "the next epoch":
        world.leadership[key]["leader_epoch"] += 1
    assert [world.tell_leader(b, key) for b in (1, 2, 3)] == [ErrorCode.NONE] * 3
    world.notify_metadata((1, 2, 3))
    for broker in (1, 2, 3):
        partition = world[broker].broker.replicas.partitions[key]
        assert partition.topic_id == partition.log.topic_id == TOPIC_ID[::-1]
        assert b"topic_id: " in (world[broker].path / "old-0" / "partition.metadata").read_bytes()
        fetchers = world[broker].broker.replicas.fetchers.values()
        assert [known for f in fetchers for known, _ in f._by_id if known == bytes(16)] == []
        assert world.tell_leader(broker, key) == ErrorCode.STALE_CONTROLLER_EPOCH, (
            "told again it is news no more"
        )
    world.produce(1, b"b", topic="old")
    world.settle()
    assert [world[b].values(topic="old") for b in (1, 2, 3)] == [[b"a", b"b"]] * 3


def test_an_older_epoch_gives_no_topic_id(world: World) -> None:
    key = TopicPartition("old", 0)
    world.lead(1, topic="old", topic_id=bytes(16), epoch=5)
    world.leadership[key].update(topic_id=TOPIC_ID[::-1], leader_epoch=4)
    assert world.tell_leader(2, key) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert world[2].broker.replicas.partitions[key].topic_id == bytes(16)


def test_a_partition_this_broker_has_no_replica_of_is_refused(world: World) -> None:
    world.leadership[T0]["replicas"] = [2, 3]
    world.leadership[T0]["leader_epoch"] = 9
    assert world.tell_leader(1, T0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("version", "is_told"), [(3, False), (4, True), (7, True)])
def test_a_leader_hears_who_is_eligible_where_the_version_has_tags(
    world: World, version: int, is_told: bool
) -> None:
    """Else it would commit alone what an eligible replica, which may be elected, does not have (decisions/0011)."""
    world.leadership[T0].update(leader_epoch=9, isr=[1])
    request = world.leader_and_isr(T0)
    request.topic_states[0].partition_states[0].eligible_leader_replicas = [2]
    world.call(1, request, version)
    assert world[1].partition().leader_epoch == 9
    assert world[1].partition().is_under_min_isr is is_told


@pytest.mark.parametrize("version", range(8))
def test_every_version_of_leader_and_isr_makes_a_leader(tmp_path: Path, version: int) -> None:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), tell=())
    request = world.leader_and_isr(T0)
    if version < 2:
        (state,) = request.topic_states[0].partition_states
        state.topic_name = "t"
        request.topic_states, request.ungrouped_partition_states = [], [state]
    request.live_leaders = [lai.LeaderAndIsrLiveLeader(broker_id=1, host_name="h", port=1)]
    answer = world.call(1, request, version)
    errors = answer.partition_errors if version < 5 else answer.topics[0].partition_errors
    assert [(e.partition_index, e.error_code) for e in errors] == [(0, 0)]
    assert world[1].partition().is_leader


@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("version", range(5))
def test_every_version_of_stop_replica_stops_two_and_deletes_them_where_asked_to(
    tmp_path: Path, version: int, delete: bool
) -> None:
    world = World(tmp_path, brokers=(1,))
    for index in (0, 1):
        world.lead(1, index=index, isr=(1,), replicas=(1,), is_new=True)
    fields: dict[str, Any] = {"delete_partitions": delete}
    if version == 0:
        fields["ungrouped_partitions"] = [
            sr.StopReplicaPartitionV0(topic_name="t", partition_index=index) for index in (0, 1)
        ]
    elif version < 3:
        fields["topics"] = [sr.StopReplicaTopicV1(name="t", partition_indexes=[0, 1])]
    else:
        states = [
            sr.StopReplicaPartitionState(partition_index=index, delete_partition=delete) for index in (0, 1)
        ]
        fields["topic_states"] = [sr.StopReplicaTopicState(topic_name="t", partition_states=states)]
    request = sr.StopReplicaRequest(
        controller_id=1, controller_epoch=1, broker_epoch=world[1].epoch if version else -1, **fields
    )

    pending = world.send(1, request, version)
    world.settle()

    rows = [(row.topic_name, row.partition_index, row.error_code) for row in pending.message.partition_errors]
    assert (pending.message.error_code, rows) == (0, [("t", 0, 0), ("t", 1, 0)])
    assert [TopicPartition("t", index) in world[1].logs.logs for index in (0, 1)] == [not delete] * 2
    assert not any(partition.is_leader for partition in world[1].broker.replicas.partitions.values())


def test_a_full_request_is_one_of_a_controller_that_leaves_zookeeper_and_changes_nothing(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,))
    epoch = world.leadership[TopicPartition("t", 0)]["leader_epoch"]
    world.leadership[TopicPartition("t", 0)]["leader_epoch"] = epoch + 1
    full = world.leader_and_isr(TopicPartition("t", 0))
    full.type = 2
    answer = world.call(1, full, 7)
    assert (answer.error_code, list(answer.topics)) == (ErrorCode.INVALID_REQUEST, [])
    assert world[1].partition().leader_epoch == epoch
    full.type = 0
    assert world.call(1, full, 7).error_code == ErrorCode.NONE
    assert world[1].partition().leader_epoch == epoch + 1
