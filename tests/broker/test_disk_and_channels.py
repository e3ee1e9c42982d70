"""The broker between its disk, the controller's channel and the clock: effects out, outcomes in."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.handlers.produce import PATIENCE_MS
from odradek.broker.id_generator import IdGenerator
from odradek.broker.replica_manager import ReplicaManager, Stop
from odradek.broker.slices import Slices
from odradek.log import files
from odradek.log.errors import DiskFault, StorageError
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import (
    EPOCH_DURING_DELETE,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from odradek.protocol.messages import alter_partition as ap
from odradek.protocol.messages import leader_and_isr as lai
from odradek.replication.isr import IsrProposal
from odradek.replication.partition import Partition
from tests.broker.world import TOPIC_ID, World, live_broker
from tests.support import no_collector, open_under

T0 = TopicPartition("t", 0)


def taken(world: World, kind: type, broker: int = 1) -> list[Any]:
    return [effect for effect in world[broker].broker.take_effects() if isinstance(effect, kind)]


# -------------------------------------------------------------------------------------------------------- flushes


def test_a_follower_whose_disk_has_failed_asks_for_nothing_more(tmp_path: Path) -> None:
    """Each fetch would say that it has what its leader has, and keep its place in the ISR."""
    world = World(tmp_path, brokers=(1, 2))
    for index in (0, 1):
        world.lead(1, isr=(1, 2), replicas=(1, 2), index=index, is_new=True)
    world.produce(1, b"a")
    world.settle()
    world[2].broker.replicas.take_offline([T0], DiskFault("gone"))
    world.settle()
    heard_ms = world[1].partition().followers[BrokerId(2)].last_heard_ms
    world.advance(2_000)
    assert world[1].partition().followers[BrokerId(2)].last_heard_ms == heard_ms
    assert world[1].partition(index=1).followers[BrokerId(2)].last_heard_ms == world.now_ms


@pytest.fixture
def durable(tmp_path: Path) -> World:
    world = World(tmp_path, brokers=(1,))
    world.configs["topics", "t"] = {"flush.messages": "1"}
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    return world


@pytest.mark.parametrize("acks", [1, -1])
def test_with_flush_messages_1_nothing_is_acknowledged_before_it_is_on_the_disk(
    durable: World, acks: int
) -> None:
    asked = [durable.produce(1, b"%d" % n, acks=acks) for n in range(3)]
    (flush,) = taken(durable, fx.FlushLog)
    assert flush.topic_partition == T0
    late = durable.produce(1, b"late", acks=acks)
    assert not any(pending.is_answered for pending in asked)
    flush.plan.run()
    durable[1].broker.answered(flush.request_id, fx.Flushed(flush.plan, None), durable.now_ms)
    (second,) = taken(durable, fx.FlushLog)
    assert [durable.produced(pending) for pending in asked] == [(ErrorCode.NONE, n) for n in range(3)]
    assert not late.is_answered
    second.plan.run()
    durable[1].broker.answered(second.request_id, fx.Flushed(second.plan, None), durable.now_ms)
    assert taken(durable, fx.FlushLog) == []
    assert durable.produced(late) == (ErrorCode.NONE, 3)


def test_nothing_is_flushed_for_a_produce_that_was_answered_by_its_deadline(durable: World) -> None:
    first = durable.produce(1, b"a", acks=1)
    (flush,) = taken(durable, fx.FlushLog)
    second = durable.produce(1, b"b", acks=1)
    durable.advance(PATIENCE_MS + 10)
    assert [durable.produced(one)[0] for one in (first, second)] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    durable[1].broker.topic_config_changed("t", {}, durable.now_ms)

    flush.plan.run()
    durable[1].broker.answered(flush.request_id, fx.Flushed(flush.plan, None), durable.now_ms)

    assert durable[1].partition().log.recovery_point == 1
    assert taken(durable, fx.FlushLog) == []


@pytest.mark.parametrize("error", [None, "fsync t-0: Input/output error"])
def test_a_flush_of_a_deleted_log_says_nothing_about_the_next_one_of_that_name(
    durable: World, error: str | None
) -> None:
    """The thread was at it when the topic was deleted and made anew. Nothing of the new log is on the disk yet."""
    for n in range(3):
        durable.produce(1, b"%d" % n)
    (flush,) = taken(durable, fx.FlushLog)
    flush.plan.run()
    assert durable.stop_replica(1, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == 0
    del durable.leadership[T0]
    durable.lead(1, isr=(1,), replicas=(1,), topic_id=bytes([7] * 16), is_new=True)
    asked = durable.produce(1, b"new")
    (second,) = taken(durable, fx.FlushLog)

    durable[1].broker.answered(flush.request_id, fx.Flushed(flush.plan, error), durable.now_ms)

    assert durable[1].partition().log.recovery_point == 0
    assert not asked.is_answered and taken(durable, fx.FlushLog) == []
    second.plan.run()
    durable[1].broker.answered(second.request_id, fx.Flushed(second.plan, None), durable.now_ms)
    taken(durable, fx.FlushLog)
    assert durable.produced(asked) == (ErrorCode.NONE, 0)


def test_a_log_that_alone_cannot_be_flushed_is_taken_offline(durable: World) -> None:
    """Its directory was taken away, the log directory stands. Its flush is never tried again, so nobody may wait."""
    asked = durable.produce(1, b"a")
    (flush,) = taken(durable, fx.FlushLog)
    durable[1].broker.answered(
        flush.request_id, fx.Flushed(flush.plan, "fsync t-0: No such file or directory"), durable.now_ms
    )
    assert len(taken(durable, fx.LogDirectoryFailed)) == 1, "or the controller would leave it the leader"
    assert durable.produced(asked)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert durable.produced(durable.produce(1, b"b"))[0] == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_flush_that_fails_takes_the_directory_offline_and_everybody_is_told(durable: World) -> None:
    asked = durable.produce(1, b"a", acks=-1)
    (flush,) = taken(durable, fx.FlushLog)
    health = durable[1].logs.directories[0].root.health
    health.fail(DiskFault("fsync: Input/output error"))
    durable[1].broker.answered(
        flush.request_id, fx.Flushed(flush.plan, "fsync: Input/output error"), durable.now_ms
    )
    effects = durable[1].broker.take_effects()
    assert [e for e in effects if isinstance(e, fx.LogDirectoryFailed)] == [
        fx.LogDirectoryFailed(str(durable[1].path))
    ]
    durable[1].broker.take_effects()
    assert durable.produced(asked)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert durable.produced(durable.produce(1, b"b"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    row = durable.consume(1, 0).message.responses[0].partitions[0]
    assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("reason", [errno.ENOMEM, errno.EIO], ids=["ENOMEM", "EIO"])
def test_where_an_answer_cannot_be_read_for_want_of_memory_the_disk_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    """The kernel finds no page for it in a container that is full: nothing is wrong with what lies there. Its size has left by then,
    so the connection is closed (`Connection._write_outgoing`), and the client asks again."""
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    for value in (b"a", b"b"):
        world.produce(1, value)

    def refuse(*_: object) -> bytes:
        raise OSError(reason, os.strerror(reason))

    with monkeypatch.context() as disk:
        disk.setattr(files, "_pread", refuse)
        asked = world.consume(1, 1)
        with pytest.raises(StorageError):
            assert asked.body
        world.settle()
    is_well = reason == errno.ENOMEM
    assert bool(world[1].logs.offline_directories) is not is_well
    row = world.consume(1, 1).message.responses[0].partitions[0]
    assert row.error_code == (ErrorCode.NONE if is_well else ErrorCode.KAFKA_STORAGE_ERROR)
    if is_well:
        assert world.produced(world.produce(1, b"c")) == (ErrorCode.NONE, 2)


def test_of_a_directory_that_failed_nothing_is_kept_open(tmp_path: Path) -> None:
    """A person may unmount the disk and mend it, while the broker serves from the others. Those of the others stay."""
    world = World(tmp_path, brokers=(1,), directories="2")
    for index in (0, 1):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
        world.produce(1, b"a", index=index)
    logs = world[1].logs
    logs.claim(1)
    failed = Path(str(logs.directory_of(T0)))
    (other,) = {Path(path) for path in world[1].log_dirs} - {failed}
    before = open_under(other)
    with no_collector():
        assert open_under(failed) == [".lock", "t-0/00000000000000000000.log"]
        logs.directories[0].root.health.fail(DiskFault("fsync: Input/output error"))
        world.settle()
        assert open_under(failed) == []
    assert open_under(other) == before == [".lock", "t-1/00000000000000000000.log"]
    logs.release()


def test_a_deletion_the_disk_did_not_take_is_no_deletion(
    durable: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = DiskFault("fsync: Input/output error")
    synced: list[int] = []

    def sync_deletions() -> dict[TopicPartition, DiskFault]:
        synced.append(len(durable[1].logs.logs))
        return {T0: fault}

    monkeypatch.setattr(durable[1].logs, "sync_deletions", sync_deletions)
    manager = durable[1].broker.replicas
    stop = Stop(T0, EPOCH_DURING_DELETE, delete=True)
    errors = manager.commit_stops([stop], durable.now_ms) | manager.sync_stops()
    assert errors == {T0: ErrorCode.KAFKA_STORAGE_ERROR}
    assert synced == [0], "after all of them were renamed, and once"


def test_a_fetcher_that_waited_for_a_flush_of_a_partition_that_moves_away_goes_on(tmp_path: Path) -> None:
    """It asks for nothing while a follower's append is on its way to the disk. When that partition is led elsewhere
    before the flush ends, nobody else would wake it: the other partitions fell behind for ever (seed 633)."""
    world = World(tmp_path, brokers=(1, 2))
    world.configs["topics", "t"] = {"flush.messages": "1"}
    for index in (0, 1):
        world.lead(1, isr=(1, 2), replicas=(1, 2), index=index, is_new=True)
    world.settle()
    world[2].partition("t", 0).is_flushing = True

    world.lead(2, isr=(1, 2), replicas=(1, 2), index=0, settle=False)

    assert fx.WakeFetcher(1) in taken(world, fx.WakeFetcher, broker=2)


# ------------------------------------------------------------------------------------------------ a disk that dies


@pytest.fixture
def two_disks(tmp_path: Path) -> World:
    world = World(tmp_path, brokers=(1,))
    node = world[1]
    from odradek.log.files import OsDirectory
    from odradek.log.log_manager import LogDirectory

    second = LogDirectory(OsDirectory.create(str(tmp_path / "second")))
    second.root.health.on_failure = node.logs._failure_of(second)
    node.logs.directories.append(second)
    for index in (0, 1):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
    assert {node.logs.directory_of(TopicPartition("t", i)) for i in (0, 1)} == {
        str(node.path),
        str(tmp_path / "second"),
    }
    return world


def test_one_dead_disk_takes_only_its_own_partitions(two_disks: World) -> None:
    node = two_disks[1]
    dead = next(i for i in (0, 1) if node.logs.directory_of(TopicPartition("t", i)) == str(node.path))
    parked = two_disks.consume(1, 0, index=dead, max_wait_ms=60_000)
    node.logs.directories[0].root.health.fail(DiskFault("read: Input/output error"))
    two_disks.settle()
    assert two_disks.produced(two_disks.produce(1, b"a", index=dead))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert two_disks.produced(two_disks.produce(1, b"a", index=1 - dead))[0] == ErrorCode.NONE
    assert parked.message.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [e.directory for e in node.told if isinstance(e, fx.LogDirectoryFailed)] == [str(node.path)]
    key = TopicPartition("t", dead)
    two_disks.leadership[key]["leader_epoch"] += 1
    assert two_disks.tell_leader(1, key) == ErrorCode.KAFKA_STORAGE_ERROR, (
        "so the controller takes it offline"
    )
    assert two_disks.stop_replica(1, key, leader_epoch=-1) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_deletion_of_which_nobody_knows_whether_it_stays_is_not_told_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    root = world[1].logs.directories[0].root

    def sync() -> None:
        raise root.health.fail(DiskFault("fsync: Input/output error"))

    monkeypatch.setattr(type(root), "sync", lambda self: sync())
    assert world.stop_replica(1, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == (
        ErrorCode.KAFKA_STORAGE_ERROR
    )


def test_a_replica_that_is_not_new_is_not_made_anew_while_a_disk_is_missing(two_disks: World) -> None:
    """It may be on the disk that died before anybody looked at it: an empty copy would be taken for it."""
    two_disks[1].logs.left_out["/mnt/gone"] = DiskFault("no such device")
    key = TopicPartition("t", 5)
    two_disks.lead(1, isr=(1,), replicas=(1,), index=5, tell=())
    assert two_disks.tell_leader(1, key) == ErrorCode.KAFKA_STORAGE_ERROR
    two_disks.leadership[key]["leader_epoch"] += 1
    assert two_disks.tell_leader(1, key, is_new=True) == ErrorCode.NONE


# --------------------------------------------------------------------------------------- configurations on their way

NEW_ID = bytes([7] * 16)


def config_of(topic: str, **overrides: str) -> fx.ConfigsRead:
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    return fx.ConfigsRead({("topics", topic): fx.StoredConfig(named, 0)})


def lead_alone(world: World, topic_id: bytes = NEW_ID) -> fx.StoreRequest:
    """Broker 1 leads t-0; what it asks of the store."""
    world.lead(1, isr=(1,), replicas=(1,), topic_id=topic_id, is_new=True, settle=False)
    (question,) = taken(world, fx.StoreRequest)
    assert isinstance(question, fx.StoreRequest)
    return question


def test_the_configuration_read_for_a_deleted_topic_is_not_that_of_the_next_one_of_its_name(
    tmp_path: Path,
) -> None:
    """Nobody announces the configuration of a new topic, so it would keep the old one's until it is changed."""
    world = World(tmp_path, brokers=(1,))
    question = lead_alone(world, bytes([6] * 16))
    assert world.stop_replica(1, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == 0
    del world.leadership[T0]
    world.lead(1, isr=(1,), replicas=(1,), topic_id=NEW_ID, is_new=True, settle=False)
    assert taken(world, fx.StoreRequest) == [], "one question at a time"

    world[1].broker.answered(question.request_id, config_of("t", flush_messages="1"), world.now_ms)

    assert world[1].partition().min_insync_replicas is None, "nothing of it is known yet"
    (again,) = taken(world, fx.StoreRequest)
    world[1].broker.answered(again.request_id, config_of("t", min_insync_replicas="1"), world.now_ms)
    assert world[1].partition().min_insync_replicas == 1
    assert not world[1].partition().flushes_before_ack
    assert taken(world, fx.StoreRequest) == []


def test_a_configuration_that_was_told_meanwhile_is_newer_than_the_one_asked_for(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,))
    question = lead_alone(world)
    world[1].broker.topic_config_changed("t", {"flush.messages": "1"}, world.now_ms)
    world[1].broker.answered(question.request_id, config_of("t"), world.now_ms)
    assert world[1].partition().flushes_before_ack
    assert taken(world, fx.StoreRequest) == []


class OnlyLookedUp(dict[Any, Any]):
    """Nobody may go through all of it."""

    def __iter__(self) -> Any:
        raise AssertionError("went through all of them")

    def items(self) -> Any:
        raise AssertionError("went through all of them")

    values = keys = items


def test_a_configuration_costs_what_its_own_topic_has(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that starts with 10,000 topics reads 10,000 configurations, in one turn of the loop."""
    for index in (0, 1):
        world.lead(1, index=index, is_new=True)
    broker = world[1].broker
    monkeypatch.setattr(broker.replicas, "partitions", OnlyLookedUp(broker.replicas.partitions))
    monkeypatch.setattr(world[1].logs, "logs", OnlyLookedUp(world[1].logs.logs))
    broker.topic_config_changed("t", {"max.message.bytes": "77"}, world.now_ms)
    assert [world[1].partition("t", index).log.config.max_message_bytes for index in (0, 1)] == [77, 77]


def test_a_log_that_is_hosted_later_than_others_of_its_topic_has_the_settings_of_by_then(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, brokers=(1,))
    for index in (0, 1):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
    world.restart(1)
    world.lead(1, isr=(1,), replicas=(1,), index=0)
    world[1].broker.topic_config_changed("t", {"max.message.bytes": "77"}, world.now_ms)

    world.lead(1, isr=(1,), replicas=(1,), index=1)

    assert [world[1].partition("t", index).log.config.max_message_bytes for index in (0, 1)] == [77, 77]


@pytest.mark.parametrize("gone", [0, 1])
def test_a_topic_keeps_its_configuration_as_long_as_one_of_its_partitions_is_here(
    tmp_path: Path, gone: int
) -> None:
    """The other one was moved to another broker. By the defaults of the broker retention would take what the topic is to keep."""
    world = World(tmp_path, brokers=(1,))
    for index in (0, 1):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
    broker = world[1].broker
    broker.topic_config_changed("t", {"max.message.bytes": "77"}, world.now_ms)
    assert (
        world.stop_replica(1, TopicPartition("t", gone), leader_epoch=EPOCH_DURING_DELETE, delete=True) == 0
    )

    broker.broker_config_changed("1", {"log.retention.ms": "79"}, world.now_ms)

    config = world[1].partition("t", 1 - gone).log.config
    assert (config.max_message_bytes, config.retention_ms) == (77, 79)


@pytest.mark.parametrize("is_broker_changed", [False, True])
def test_very_many_partitions_are_told_of_a_configuration_some_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch, is_broker_changed: bool
) -> None:
    """Ten thousand took a twentieth of a second, in one turn. What comes to be hosted meanwhile has it as well."""
    for index in range(9):
        world.lead(1, index=index, is_new=True)
    broker = world[1].broker
    broker.topic_config_changed("t", {}, world.now_ms)
    monkeypatch.setattr("odradek.broker.replica_manager.CONFIGURED_AT_ONCE", 4)

    def told() -> list[tuple[int, int]]:
        partitions = [partition for _, partition in sorted(broker.replicas.partitions.items())]
        return [(one.min_insync_replicas, one.log.config.max_message_bytes) for one in partitions]

    broker.topic_config_changed("t", {"min.insync.replicas": "3", "max.message.bytes": "77"}, world.now_ms)
    assert told().count((3, 77)) == 4
    broker.topic_config_changed("t", {"min.insync.replicas": "2", "max.message.bytes": "78"}, world.now_ms)
    assert told().count((2, 78)) == 0, "in the same turn"
    world.lead(1, index=9, is_new=True)
    retention_ms = world[1].partition("t", 9).log.config.retention_ms
    if is_broker_changed:
        retention_ms = 79
        broker.broker_config_changed("1", {"log.retention.ms": "79"}, world.now_ms)
    while broker.go_on(world.now_ms):
        pass
    assert told() == [(2, 78)] * 10
    assert {log.config.retention_ms for log in world[1].logs.logs.values()} == {retention_ms}


def test_a_topic_that_can_never_be_configured_keeps_no_other_from_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a partition that can never be asked whether a replica lags."""
    for topic in ("t", "u"):
        world.lead(1, topic=topic, is_new=True)
    broker = world[1].broker
    really = ReplicaManager._configure

    def broken(manager: ReplicaManager, partition: Any, *args: Any) -> None:
        if partition.topic_partition.topic == "t":
            raise ZeroDivisionError("ours")
        really(manager, partition, *args)

    def lags(*_: Any) -> None:
        raise ZeroDivisionError("ours too")

    monkeypatch.setattr(ReplicaManager, "_configure", broken)
    monkeypatch.setattr(Partition, "shrink_if_lagging", lags)
    for topic in ("t", "u"):
        with pytest.raises(ZeroDivisionError):  # by that of the first
            broker.topic_config_changed(topic, {"min.insync.replicas": "3"}, world.now_ms)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            broker.replicas.shrink_lagging(world.now_ms)
    assert world[1].partition("u").min_insync_replicas == 3


def test_settings_of_a_topic_that_went_before_it_was_told_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each topic that ever was here something would be."""
    world = World(tmp_path, brokers=(1,))
    for index in (0, 1):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
    monkeypatch.setattr("odradek.broker.replica_manager.CONFIGURED_AT_ONCE", 1)
    world[1].broker.topic_config_changed("t", {"max.message.bytes": "77"}, world.now_ms)
    for index in (0, 1):
        where = TopicPartition("t", index)
        assert world.stop_replica(1, where, leader_epoch=EPOCH_DURING_DELETE, delete=True) == 0
    while world[1].broker.go_on(world.now_ms):
        pass
    assert world[1].logs._configs == {}


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_partitions_whose_configuring_ended_in_a_want_of_memory_are_configured_later(
    world: World, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """They kept the settings of before until the next change: acks=all went on with the smaller min.insync.replicas."""
    for index in range(4):
        world.lead(1, index=index, is_new=True)
    broker = world[1].broker
    broker.topic_config_changed("t", {}, world.now_ms)
    monkeypatch.setattr("odradek.broker.replica_manager.CONFIGURED_AT_ONCE", at_once)
    really, wants = ReplicaManager._configure, [2]

    def no_memory(manager: ReplicaManager, partition: Any, *args: Any) -> None:
        if partition.topic_partition.partition in wants:
            wants.clear()
            raise MemoryError
        really(manager, partition, *args)

    monkeypatch.setattr(ReplicaManager, "_configure", no_memory)
    with suppress(MemoryError):  # where it is not met in a slice
        broker.topic_config_changed("t", {"min.insync.replicas": "3"}, world.now_ms)
    while broker.go_on(world.now_ms):
        pass
    assert wants == [] and world[1].partition("t", 2).min_insync_replicas != 3

    world.advance(broker.settings.replica_lag_time_max_ms)

    assert [world[1].partition("t", index).min_insync_replicas for index in range(4)] == [3] * 4


@pytest.mark.parametrize("what", ["configure", "shrink"])
def test_a_slice_for_which_there_was_no_memory_is_begun_another_time(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It was taken for one that goes on: nobody was told of settings any more, and no ISR shrank."""
    for index in range(4):
        world.lead(1, index=index, is_new=True)
    broker = world[1].broker
    broker.topic_config_changed("t", {}, world.now_ms)
    monkeypatch.setattr("odradek.broker.replica_manager.CONFIGURED_AT_ONCE", 1)
    monkeypatch.setattr("odradek.broker.replica_manager.ASKED_AT_ONCE", 1)
    told: list[Partition] = []
    monkeypatch.setattr(Partition, "shrink_if_lagging", lambda one, now_ms: told.append(one))

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Slices, "begin", no_memory)
        with pytest.raises(MemoryError):
            if what == "configure":
                broker.topic_config_changed("t", {"min.insync.replicas": "3"}, world.now_ms)
            else:
                broker.replicas.shrink_lagging(world.now_ms)
    told.clear()
    world.advance(broker.settings.replica_lag_time_max_ms)
    while broker.go_on(world.now_ms):
        pass
    here = [world[1].partition("t", index) for index in range(4)]
    assert all(one in told for one in here)
    assert what == "shrink" or [one.min_insync_replicas for one in here] == [3] * 4


def test_configurations_of_very_many_partitions_are_read_some_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read is taken in within one turn: topics with ten thousand partitions took up to a tenth of a second."""
    replicas, broker = world[1].broker.replicas, world[1].broker
    monkeypatch.setattr(
        ReplicaManager,
        "set_topic_overrides",
        lambda self, topic, overrides, now_ms: self.unread_topics.pop(topic),
    )
    sizes = {f"topic-{n}": 1 if n < 2_000 else 500 for n in range(2_010)}
    for name, size in sizes.items():
        replicas.unread_topics[name] = object()
        replicas._of_topic[name] = dict.fromkeys(range(size))  # type: ignore[assignment, arg-type]
    read: list[str] = []
    while questions := taken(world, fx.StoreRequest):
        (asked,) = questions
        topics = [topic for _, topic in asked.question.entities]
        assert sum(sizes[topic] for topic in topics) < 2_500
        read += topics
        found = {entity: fx.StoredConfig({}, -1) for entity in asked.question.entities}
        broker.answered(asked.request_id, fx.ConfigsRead(found), world.now_ms)
    assert read == [*sizes]


def test_a_replica_that_comes_later_has_the_configuration_its_topic_has_by_then(tmp_path: Path) -> None:
    """Its log lies here since before the start, and nobody has told whose it is yet."""
    world = World(tmp_path, brokers=(1,))
    for index in (0, 1):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
    world[1].start()
    world.lead(1, isr=(1,), replicas=(1,), index=0)
    world[1].broker.topic_config_changed("t", {"max.message.bytes": "77"}, world.now_ms)
    world.lead(1, isr=(1,), replicas=(1,), index=1)
    assert world[1].partition("t", 1).log.config.max_message_bytes == 77


def test_a_new_topic_does_not_begin_with_the_configuration_of_a_deleted_one(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    default = world[1].partition().log.config.max_message_bytes
    world[1].broker.topic_config_changed("t", {"max.message.bytes": "77"}, world.now_ms)
    assert world.stop_replica(1, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == 0
    del world.leadership[T0]
    lead_alone(world)
    assert world[1].partition().log.config.max_message_bytes == default


# ---------------------------------------------------------------------------------------- AlterPartition on its way


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, replica_lag_time_max_ms="10000")
    world.on_alter = "hold"
    return world


def test_one_request_is_in_flight_and_carries_all_partitions_that_wait(world: World) -> None:
    for index in range(3):
        world.lead(1, index=index, isr=(1, 2), is_new=True)
    node = world[1]
    assert len(node.alters) == 1
    assert [p.partition_index for t in node.alters[0][1].topics for p in t.partitions] == [0]
    world.answer_alter(node, "commit")
    world.settle()
    assert len(node.alters) == 1
    assert [p.partition_index for t in node.alters[0][1].topics for p in t.partitions] == [1, 2]
    world.answer_alter(node, "commit")
    world.settle()
    assert not node.alters
    assert all(world[1].partition(index=i).isr == (1, 2, 3) for i in range(3))


class Proposing:
    """A partition that is led here and wants another ISR until it was answered; None: it has nothing to ask any more."""

    def __init__(self, index: int, isr: tuple[int, ...] | None) -> None:
        self.topic_partition = TopicPartition("t", index)
        self.isr = isr

    def proposal(self, broker_epoch: BrokerEpoch) -> IsrProposal | None:
        if self.isr is None:
            return None
        new_isr = tuple((BrokerId(one), broker_epoch) for one in self.isr)
        return IsrProposal(
            self.topic_partition, TopicId(TOPIC_ID), LeaderEpoch(1), PartitionEpoch(1), new_isr
        )

    def isr_answered(self, proposal: IsrProposal, answer: Any, now_ms: int) -> None:
        assert self.topic_partition == proposal.topic_partition


def test_very_many_partitions_are_proposed_some_at_a_time(tmp_path: Path) -> None:
    """A follower that hangs lags in all that are led here, in the same moment."""
    world = World(tmp_path, brokers=(1,))
    broker = world[1].broker
    broker.registered(7, world.now_ms)
    broker.outbox.proposals += [
        Proposing(index, None if 2_000 <= index < 6_000 else (1,)) for index in range(10_000)
    ]
    asked = []
    broker.isr_channel.send_proposals()
    while sent := [one for one in broker.take_effects() if isinstance(one, fx.SendToController)]:
        ((request_id, _, message, _),) = sent
        (topic,) = message.topics
        asked.append([data.partition_index for data in topic.partitions])
        row = ap.AlterPartitionResponseTopicData(topic_id=TOPIC_ID)
        row.partitions = [
            ap.AlterPartitionResponsePartitionData(partition_index=index) for index in asked[-1]
        ]
        broker.answered(request_id, ap.AlterPartitionResponse(topics=[row]), world.now_ms)

    assert max(map(len, asked)) == 1_000
    assert [one for some in asked for one in some] == [*range(2_000), *range(6_000, 10_000)]


@pytest.mark.behaviour(159)
@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, None])
def test_a_request_refused_as_a_whole_or_lost_is_made_again_with_the_same_proposal(
    world: World, error: ErrorCode | None
) -> None:
    world.lead(1, isr=(1, 2), is_new=True)
    node = world[1]
    request_id, first = node.alters.popleft()
    response = None if error is None else ap.AlterPartitionResponse(error_code=error)
    node.broker.answered(request_id, response, world.now_ms)
    world.settle()
    assert not node.alters
    assert node.partition().state.maximal_isr == (1, 2, 3)
    world.advance(60)
    assert node.alters[0][1] == first


def test_a_topic_without_an_id_is_named_in_a_version_that_has_names(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From version 2 on a topic is its id, and an old tool gave it none."""
    sent: list[fx.SendToController] = []
    broker = world[1].broker
    take = broker.take_effects

    def take_and_note() -> list[fx.Effect]:
        effects: list[fx.Effect] = take()
        sent.extend(e for e in effects if isinstance(e, fx.SendToController) and e.api_key == 56)
        return effects

    monkeypatch.setattr(broker, "take_effects", take_and_note)
    world.lead(1, isr=(1, 2), topic_id=bytes(16), is_new=True)
    (asked,) = sent
    encoded = asked.message.encode(asked.max_version)
    read = ap.AlterPartitionRequest.decode(asked.max_version, encoded)
    assert [topic.topic_name for topic in read.topics] == ["t"]


@pytest.mark.behaviour(159)
def test_an_answer_that_leaves_a_partition_out_counts_as_lost_for_it(world: World) -> None:
    world.lead(1, isr=(1, 2), is_new=True)
    node = world[1]
    request_id, _ = node.alters.popleft()
    node.broker.answered(request_id, ap.AlterPartitionResponse(), world.now_ms)
    world.advance(60)
    assert len(node.alters) == 1


@pytest.mark.behaviour(159)
def test_a_repeat_of_a_committed_change_is_answered_with_success_and_taken(world: World) -> None:
    """The first answer was lost; the controller says: that is what I have (KAFKA-14144)."""
    world.lead(1, isr=(1, 2), is_new=True)
    node = world[1]
    world.leadership[T0]["isr"] = [1, 2, 3]
    world.leadership[T0]["partition_epoch"] += 1
    world.answer_alter(node, "lost")
    world.advance(60)
    (_, message) = node.alters[0]
    assert message.topics[0].partitions[0].partition_epoch == 0, "it does not know better yet"
    request_id, _ = node.alters.popleft()
    state = world.leadership[T0]
    row = ap.AlterPartitionResponsePartitionData(
        partition_index=0,
        leader_id=1,
        leader_epoch=0,
        isr=[1, 2, 3],
        partition_epoch=state["partition_epoch"],
        eligible_leader_replicas=[4],
    )
    topic = ap.AlterPartitionResponseTopicData(topic_id=state["topic_id"], partitions=[row])
    node.broker.answered(request_id, ap.AlterPartitionResponse(topics=[topic]), world.now_ms)
    assert node.partition().isr == (1, 2, 3)
    assert node.partition().partition_epoch == 1
    assert node.partition().has_eligible


def test_an_ineligible_replica_is_asked_for_again_after_a_while(world: World) -> None:
    world.lead(1, isr=(1, 2), is_new=True)
    node = world[1]
    world.answer_alter(node, ErrorCode.INELIGIBLE_REPLICA)
    world.settle()
    assert node.partition().isr == (1, 2)
    assert not node.alters
    world.advance(300)
    assert len(node.alters) == 1
    world.answer_alter(node, "commit")
    assert node.partition().isr == (1, 2, 3)


def test_of_two_that_are_asked_for_again_the_sooner_one_decides_when(world: World) -> None:
    for index in (0, 1):
        world.lead(1, index=index, isr=(1, 2), is_new=True)
    node = world[1]
    world.answer_alter(node, ErrorCode.INELIGIBLE_REPLICA)  # of partition 0: again after a while
    world.settle()
    request_id, _ = node.alters.popleft()  # of partition 1
    node.broker.answered(request_id, ap.AlterPartitionResponse(), world.now_ms)
    world.advance(60)
    assert [p.partition_index for t in node.alters[0][1].topics for p in t.partitions] == [1]


def test_a_leader_that_is_not_registered_asks_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    node = world[1]
    node.broker.isr_channel.broker_epoch = None
    world.on_alter = "hold"
    world.lead(1, isr=(1, 2), is_new=True)
    assert not node.alters
    node.broker.registered(500, world.now_ms)
    world.settle()
    assert node.alters[0][1].broker_epoch == 500


# ------------------------------------------------------------------------------------------- fetchers and the clock


def test_a_leader_that_moves_to_another_address_is_connected_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.lead(1, is_new=True)
    node = world[2]
    node.broker.metadata.brokers[1].endpoints["PLAINTEXT"]
    from odradek.protocol.messages import update_metadata as um

    request = um.UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=node.epoch,
        live_brokers=[live_broker(1, host="elsewhere", port=7777), live_broker(2)],
    )
    assert world.send(2, request, 8).message.error_code == 0
    effects = [e for e in node.broker.take_effects() if isinstance(e, fx.StopFetcher | fx.StartFetcher)]
    assert [type(e) for e in effects] == [fx.StopFetcher, fx.StartFetcher]
    assert (effects[1].endpoint.host, effects[1].endpoint.port) == ("elsewhere", 7777)
    assert effects[1].fetcher.next_request(world.now_ms) is not None, "nobody answers what was under way"


def test_a_fetcher_is_woken_once_for_all_partitions_of_a_turn(tmp_path: Path) -> None:
    """Each time it looks at all that wait: with thousands of partitions a LeaderAndIsr took seconds."""
    world = World(tmp_path, brokers=(1, 2))
    for index in range(3):
        world.lead(1, isr=(1, 2), replicas=(1, 2), index=index, is_new=True)
    world.settle()
    for _ in range(2):
        for index in range(3):
            world.lead(1, isr=(1, 2), replicas=(1, 2), index=index, settle=False)
        assert taken(world, fx.WakeFetcher, broker=2) == [fx.WakeFetcher(1)]


def test_a_follower_told_of_a_leader_nobody_knows_yet_connects_when_it_is_known(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.kill(1)
    world.notify_metadata()
    world.lead(1, tell=(), is_new=True)
    assert world.tell_leader(2, T0) == ErrorCode.NONE
    assert taken(world, fx.StartFetcher, 2) == []
    world.restart(1)
    world.notify_metadata()
    (start,) = taken(world, fx.StartFetcher, 2)
    assert start.leader == 1


def test_a_follower_connects_where_leader_and_isr_says_until_metadata_names_the_leader(
    tmp_path: Path,
) -> None:
    """The controller sends LeaderAndIsr first: what it says of a leader's address stands until the next UpdateMetadata."""
    world = World(tmp_path)
    world.kill(1)
    world.notify_metadata()
    world.lead(1, tell=(), is_new=True)
    request = world.leader_and_isr(T0, broker_epoch=world[2].epoch)
    request.live_leaders = [lai.LeaderAndIsrLiveLeader(broker_id=1, host_name="hinted", port=7)]
    world.send(2, request, 7)
    (start,) = taken(world, fx.StartFetcher, 2)
    assert (start.leader, start.endpoint.host, start.endpoint.port) == (1, "hinted", 7)
    world.restart(1)
    world.notify_metadata()
    (start,) = taken(world, fx.StartFetcher, 2)
    assert (start.leader, start.endpoint.host) == (1, "localhost")


def test_where_a_leader_was_said_to_be_counts_no_more_once_metadata_does_not_name_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.kill(1)
    world.lead(1, tell=(), is_new=True)
    request = world.leader_and_isr(T0, broker_epoch=world[2].epoch)
    request.live_leaders = [lai.LeaderAndIsrLiveLeader(broker_id=1, host_name="hinted", port=7)]
    world.send(2, request, 7)
    world.lead(3, settle=False)
    taken(world, fx.StartFetcher, 2)

    world.lead(1, settle=False)

    assert taken(world, fx.StartFetcher, 2) == []


def test_a_broker_that_has_nothing_to_do_says_when_it_will(tmp_path: Path) -> None:
    world = World(tmp_path, replica_high_watermark_checkpoint_interval_ms="5000")
    broker = world[1].broker
    broker.take_effects()
    due = broker.next_deadline_ms()
    assert world.now_ms < due <= world.now_ms + 5_000
    broker.tick(due)
    assert taken(world, fx.CheckpointHighWatermarks) == [fx.CheckpointHighWatermarks({}, 0)]
    assert broker.next_deadline_ms() > due


def test_draws_are_the_same_for_the_same_seed_and_topic_ids_look_as_they_should() -> None:
    one, two, other = IdGenerator(b"a" * 16), IdGenerator(b"a" * 16), IdGenerator(b"a" * 15 + b"b")
    assert [one.below(1000) for _ in range(5)] == [two.below(1000) for _ in range(5)]
    ids = [one.topic_id() for _ in range(500)]
    assert len(set(ids)) == 500
    assert ids[0] != other.topic_id()
    from odradek.model.ids import topic_id_to_text

    assert not any(topic_id_to_text(topic_id).startswith("-") for topic_id in ids)
    assert all(0 < one.session_id() < 2**31 for _ in range(100))
