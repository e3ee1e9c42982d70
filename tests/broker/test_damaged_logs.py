"""A replica whose log is not what was written: who notices, who is told, and how it comes back."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker import log_retries
from odradek.broker.pending_calls import PendingCalls
from odradek.broker.replica_manager import Stop
from odradek.log import files
from odradek.log.errors import CorruptLog, NoDescriptor, StorageError
from odradek.log.partition_log import PartitionLog
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import EPOCH_DURING_DELETE, NO_EPOCH, NO_TOPIC_ID, TopicPartition
from tests.broker.world import T0, World, batch, told


def turn_a_bit(world: World, broker: int, at: int = -3) -> None:
    path = world[broker].path / "t-0" / f"{0:020d}.log"
    with path.open("r+b") as file:
        file.seek(at, 2 if at < 0 else 0)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


def registered_again(world: World, broker: int) -> list[str]:
    asked = [effect.reason for effect in world[broker].told if isinstance(effect, fx.RegisterAgain)]
    world[broker].told = [e for e in world[broker].told if not isinstance(e, fx.RegisterAgain)]
    return asked


def said(world: World, broker: int) -> str:
    return "\n".join(effect.text for effect in world[broker].told if isinstance(effect, fx.LogLine))


def register(world: World, broker: int) -> None:
    node = world[broker]
    node.epoch = world.next_zxid()
    node.broker.registered(node.epoch, world.now_ms)


def strays(world: World, broker: int) -> list[Path]:
    return list(world[broker].path.glob("t-0.*-stray"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """1 leads 2 and 3, which have a and b."""
    world = World(tmp_path)
    world.lead(1, is_new=True)
    world.produce(1, b"a")
    world.produce(1, b"b")
    world.settle()
    return world


@pytest.fixture
def damaged(world: World) -> World:
    """The leader's batch c is damaged before anybody has it, and it has found that out."""
    world.cut |= {(2, 1), (3, 1)}
    world.produce(1, b"c")
    world.settle()
    turn_a_bit(world, 1)
    world.cut.clear()
    world.advance(5_000)
    return world


def test_a_follower_does_not_take_it_and_the_leader_finds_out(damaged: World) -> None:
    for follower in (2, 3):
        assert damaged[follower].values() == [b"a", b"b"]
        assert "from the leader is damaged" in said(damaged, follower)
    assert T0 not in damaged[1].broker.replicas.partitions
    assert registered_again(damaged, 1) == ["the log of t-0 is damaged"]
    assert "the CRC of the batch at offset 2 does not fit: this replica is not used any more" in said(
        damaged, 1
    )
    row = damaged.consume(1, 0).message.responses[0].partitions[0]
    assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_leader_whose_batch_is_good_goes_on(world: World) -> None:
    """What was damaged on the way is sent again."""
    world.cut |= {(2, 1), (3, 1)}
    world.produce(1, b"c")
    world.settle()
    turn_a_bit(world, 1)
    follower = world[2].broker.replicas.fetchers[1]
    world.cut.clear()
    world.settle()
    assert world[2].values() == [b"a", b"b"]
    turn_a_bit(world, 1)  # and back
    world.advance(5_000)
    assert world[2].values() == world[1].values() == [b"a", b"b", b"c"]
    assert registered_again(world, 1) == [] and follower.partitions


def test_nothing_is_begun_anew_on_the_word_of_the_old_epoch(damaged: World) -> None:
    """The leader may be asking to take it in on the strength of what it had (KIP-903)."""
    damaged.lead(2, isr=(2, 3))
    assert damaged.tell_leader(1, T0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert strays(damaged, 1) == []


def test_it_is_fetched_anew_once_nobody_counts_on_it(damaged: World) -> None:
    before = (damaged[1].path / "t-0" / f"{0:020d}.log").read_bytes()
    register(damaged, 1)
    damaged.lead(2, isr=(2, 3))
    damaged.produce(2, b"d")
    damaged.advance(1_000)

    assert damaged[1].values() == damaged[2].values() == [b"a", b"b", b"d"]
    assert damaged.leadership[T0]["isr"] == [2, 3, 1]
    (kept,) = strays(damaged, 1)
    assert (kept / f"{0:020d}.log").read_bytes() == before
    assert f"set aside as {kept}" in said(damaged, 1) and "Fetched again from broker 2" in said(damaged, 1)


def test_it_is_fetched_anew_though_another_directory_is_offline(tmp_path: Path) -> None:
    """It was not in that one, so nothing of it can be there."""
    world = World(tmp_path, directories="2")
    world.lead(1, is_new=True)
    world.produce(1, b"a")
    world.settle()
    world.cut |= {(2, 1), (3, 1)}
    world.produce(1, b"b")
    world.settle()
    turn_a_bit(world, 1)
    world.cut.clear()
    world.advance(5_000)
    world[1].logs.directories[1].root.health.fail(StorageError("read: Input/output error"))
    world.settle()

    register(world, 1)
    world.lead(2, isr=(2, 3))
    world.produce(2, b"c")
    world.advance(1_000)
    assert world[1].values() == world[2].values() == [b"a", b"c"]
    assert len(strays(world, 1)) == 1


@pytest.mark.parametrize(("leader", "isr"), [(1, (1,)), (-1, (1,)), (-1, (2,)), (2, (2, 1))])
def test_what_may_be_the_last_copy_stays_where_it_is(
    damaged: World, leader: int, isr: tuple[int, ...]
) -> None:
    register(damaged, 1)
    damaged.lead(leader, isr=isr)
    assert damaged.tell_leader(1, T0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert strays(damaged, 1) == []
    assert f"it stays offline, as it lies in {damaged[1].path}" in said(damaged, 1)


def test_who_is_out_of_the_isr_after_all_registers_again_to_be_told(damaged: World) -> None:
    """LeaderAndIsr goes to those that are online, which it is not; UpdateMetadata goes to everybody."""
    register(damaged, 1)
    registered_again(damaged, 1)
    damaged.lead(2, isr=(2, 1))
    assert registered_again(damaged, 1) == []
    damaged.lead(2, isr=(2,), tell=(2, 3))
    damaged.notify_metadata()
    damaged.notify_metadata()
    damaged.settle()
    assert registered_again(damaged, 1) == ["t-0 is damaged here, and broker 2 leads it"]
    register(damaged, 1)
    assert damaged.tell_leader(1, T0) == ErrorCode.NONE
    assert len(strays(damaged, 1)) == 1


def test_of_a_damaged_log_that_was_deleted_nothing_is_remembered(damaged: World) -> None:
    """The replica is made anew, and falls behind like any other: that is no reason for its broker to register again."""
    register(damaged, 1)
    registered_again(damaged, 1)
    damaged.lead(2, isr=(2, 1))
    assert damaged.stop_replica(1, T0, leader_epoch=-2, delete=True) == ErrorCode.NONE
    damaged.lead(2, isr=(2, 1), is_new=True)
    damaged.lead(2, isr=(2,))
    assert damaged[1].partition().leader == 2
    assert registered_again(damaged, 1) == []


def test_of_a_damaged_log_that_was_fetched_anew_nothing_is_remembered(damaged: World) -> None:
    register(damaged, 1)
    damaged.lead(2, isr=(2, 1))
    damaged.lead(2, isr=(2, 3))
    assert len(strays(damaged, 1)) == 1
    registered_again(damaged, 1)
    damaged.lead(3, isr=(2, 3))
    damaged.notify_metadata()
    damaged.settle()
    assert registered_again(damaged, 1) == []


def test_a_damaged_log_can_be_deleted(damaged: World) -> None:
    assert damaged.stop_replica(1, T0, leader_epoch=5) == ErrorCode.KAFKA_STORAGE_ERROR
    assert damaged.stop_replica(1, T0, leader_epoch=-2, delete=True) == ErrorCode.NONE
    assert len(list(damaged[1].path.glob("t-0.*-delete"))) == 1
    damaged.lead(1, isr=(1,), is_new=True)
    assert damaged[1].values() == []


def test_a_later_topic_of_the_name_of_a_damaged_one_is_none_to_register_again_for(damaged: World) -> None:
    """Else it would end its session whenever it is not in the ISR and somebody is elected, and leave all other ISRs."""
    register(damaged, 1)
    damaged.lead(2, isr=(2, 1))
    registered_again(damaged, 1)
    assert damaged.stop_replica(1, T0, leader_epoch=-2, delete=True) == ErrorCode.NONE
    damaged.lead(1, isr=(1,), is_new=True)
    damaged.lead(2, isr=(2, 3))
    damaged.notify_metadata()
    damaged.settle()
    assert registered_again(damaged, 1) == []
    of_damaged = damaged[1].broker.replicas.damaged
    assert not of_damaged._declined and not of_damaged._found_in


def test_a_damaged_log_whose_disk_has_died_since_is_not_deleted_and_not_said_to_be(damaged: World) -> None:
    node = damaged[1]
    node.logs.directories[0].root.health.fail(StorageError("read: Input/output error"))
    assert damaged.stop_replica(1, T0, leader_epoch=-2, delete=True) == ErrorCode.KAFKA_STORAGE_ERROR
    assert (node.path / "t-0").exists() and T0 in node.broker.replicas.offline


def test_a_topic_made_again_without_a_word_to_a_broker_with_a_damaged_log_is_followed_there(
    damaged: World,
) -> None:
    """The damaged log was of the topic before. The controller tells what is not new to it, the broker having been away."""
    register(damaged, 1)
    damaged.lead(1, isr=(1,), topic_id=b"another-topic-id", tell=(1,), settle=False)
    assert T0 in damaged[1].broker.replicas.partitions
    assert len(strays(damaged, 1)) == 1


def test_of_a_damaged_log_of_a_former_topic_nothing_is_remembered(damaged: World) -> None:
    """The topic was deleted and made again while its broker was away."""
    register(damaged, 1)
    damaged.lead(2, isr=(2, 1))
    registered_again(damaged, 1)
    damaged.lead(1, isr=(1,), topic_id=b"another-topic-id", tell=(1,), is_new=True)
    assert len(strays(damaged, 1)) == 1
    damaged.lead(2, isr=(2,), topic_id=b"another-topic-id", tell=(1,))
    assert damaged[1].partition().leader == 2
    assert registered_again(damaged, 1) == []


def test_a_damaged_log_whose_disk_has_died_since_is_none_to_register_again_for(damaged: World) -> None:
    """It could not be set aside, and each registration takes all leaderships from this broker."""
    register(damaged, 1)
    damaged.lead(2, isr=(2, 1))
    registered_again(damaged, 1)
    damaged[1].logs.directories[0].root.health.fail(StorageError("read: Input/output error"))
    damaged.settle()
    damaged.lead(2, isr=(2,))
    assert registered_again(damaged, 1) == []


def test_a_log_that_is_deleted_in_the_turn_in_which_it_is_found_damaged_is_none_to_register_again_for(
    world: World,
) -> None:
    world[2].partition().log.give_up(CorruptLog("the CRC does not fit"))
    assert world.stop_replica(2, T0, leader_epoch=-2, delete=True) == ErrorCode.NONE
    world.settle()
    assert registered_again(world, 2) == []
    assert "not used any more" not in said(world, 2)
    assert not world[2].broker.replicas.damaged._found_in


@pytest.mark.parametrize("is_new", [False, True])
def test_a_replica_whose_disk_dies_in_the_turn_in_which_it_is_to_be_deleted_is_offline(
    tmp_path: Path, is_new: bool
) -> None:
    """To whoever wants it back as well: else it would be told to be online, and take nothing that it fetches."""
    world = World(tmp_path, directories="2")
    world.lead(1, is_new=True)
    world[2].logs.directories[0].root.health.fail(StorageError("read: Input/output error"))
    assert world.stop_replica(2, T0, leader_epoch=-2, delete=True) == ErrorCode.KAFKA_STORAGE_ERROR
    world.settle()
    assert world.tell_leader(2, T0, is_new=is_new) == ErrorCode.KAFKA_STORAGE_ERROR
    assert T0 in world[2].broker.replicas.offline


def test_a_replica_whose_disk_is_gone_is_not_made_of_its_log_there(tmp_path: Path) -> None:
    """By a controller that takes it for new: it was to be deleted, and could not be."""
    world = World(tmp_path, directories="2")
    world.lead(1, is_new=True)
    world[2].logs.directories[0].root.health.fail(StorageError("read: Input/output error"))
    world.settle()
    assert world.stop_replica(2, T0, leader_epoch=-2, delete=True) == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.tell_leader(2, T0, is_new=True) == ErrorCode.KAFKA_STORAGE_ERROR


def test_one_found_damaged_at_the_start_is_fetched_anew(world: World) -> None:
    node = world[2]
    node.partition().log.flush()
    node.logs.checkpoint_recovery_points()
    node.is_up = False
    turn_a_bit(world, 2)
    node.start()
    assert list(node.logs.refused) == [T0] and node.logs.clean_epoch == -1
    world.lead(1, isr=(1, 3))
    world.settle()
    assert node.values() == [b"a", b"b"] and len(strays(world, 2)) == 1


def test_a_follower_of_which_a_cold_batch_is_damaged_leaves_and_returns(world: World) -> None:
    """Nobody reads it there; the walk over all logs finds it."""
    turn_a_bit(world, 3)
    world[3].logs.maintain(world.now_ms, 1 << 20)
    world[3].logs.scrubber.judge()
    world.settle()
    assert registered_again(world, 3) == ["the log of t-0 is damaged"]
    register(world, 3)
    world.lead(1, isr=(1, 2))
    world.advance(1_000)
    assert world[3].values() == [b"a", b"b"] and world.leadership[T0]["isr"] == [1, 2, 3]


# ---------------------------------------------------------------------------- a directory that was taken away


def taken_away(world: World, broker: int) -> None:
    shutil.rmtree(world[broker].path / "t-0")


@pytest.fixture
def rolling(tmp_path: Path) -> World:
    """1 leads 2 and 3; every second batch begins a new segment."""
    world = World(tmp_path, log_segment_bytes=str(2 * len(batch(b"a"))))
    world.lead(1, is_new=True)
    world.produce(1, b"a")
    world.produce(1, b"b")
    world.settle()
    return world


def test_a_leader_whose_directory_was_taken_away_leads_no_more_and_is_fetched_anew(rolling: World) -> None:
    taken_away(rolling, 1)
    refused = rolling.produce(1, b"c")
    rolling.settle()
    assert rolling.produced(refused)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert T0 not in rolling[1].broker.replicas.partitions
    assert registered_again(rolling, 1) == ["the log of t-0 is damaged"]

    register(rolling, 1)
    rolling.lead(2, isr=(2, 3))
    rolling.produce(2, b"d")
    rolling.advance(1_000)
    assert rolling[1].values() == rolling[2].values() == [b"a", b"b", b"d"]
    assert rolling.leadership[T0]["isr"] == [2, 3, 1]
    assert "there was nothing left of it to set aside" in said(rolling, 1)


def test_a_follower_whose_directory_was_taken_away_is_fetched_anew(rolling: World) -> None:
    taken_away(rolling, 2)
    rolling.produce(1, b"c")
    rolling.settle()
    assert T0 not in rolling[2].broker.replicas.partitions
    assert registered_again(rolling, 2) == ["the log of t-0 is damaged"]

    register(rolling, 2)
    rolling.lead(1, isr=(1, 3))
    rolling.advance(1_000)
    assert rolling[2].values() == rolling[1].values() == [b"a", b"b", b"c"]
    assert rolling.leadership[T0]["isr"] == [1, 3, 2]


def test_a_replica_whose_directory_was_taken_away_is_out_of_service_when_it_is_to_lead(
    rolling: World,
) -> None:
    taken_away(rolling, 2)
    rolling.lead(2, isr=(1, 2, 3))
    assert rolling.tell_leader(2, T0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert registered_again(rolling, 2) == ["the log of t-0 is damaged"]


def test_a_flush_that_finds_no_directory_is_the_end_of_that_replica_alone(rolling: World) -> None:
    taken_away(rolling, 1)
    log = rolling[1].partition().log
    with pytest.raises(StorageError):
        log.flush()
    rolling[1].broker.tick(rolling.now_ms)
    rolling.settle()
    assert registered_again(rolling, 1) == ["the log of t-0 is damaged"]
    assert not rolling[1].logs.offline_directories


def test_a_log_that_is_gone_with_its_disk_is_none_to_register_again_for(rolling: World) -> None:
    """Its replicas alone are offline. Registering again would take this broker out of every ISR, those of its good disks as well."""
    node = rolling[1]
    shutil.rmtree(node.path.rename(node.path.with_name("gone")))
    node.logs.maintain(rolling.now_ms, 1 << 20)  # the walk over all logs comes first
    node.logs.scrubber.judge()
    rolling.settle()
    assert T0 not in node.broker.replicas.partitions and T0 in node.broker.replicas.offline
    assert list(node.logs.offline_directories) == [str(node.path)]
    assert fx.LogDirectoryFailed(str(node.path)) in node.told
    assert registered_again(rolling, 1) == []


def test_a_replica_that_cannot_begin_an_epoch_for_want_of_a_descriptor_is_not_offline_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptor(*arguments: object, **options: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", no_descriptor)
        world.lead(2, isr=(1, 2, 3), tell=(2,))
        assert T0 not in world[2].broker.replicas.partitions
        for _ in range(2):
            pass_time(world, 2)
            assert registered_again(world, 2) == [], "not as long as the want lasts"
    pass_time(world, 2)
    assert registered_again(world, 2) == ["t-0 could not be used at first"]
    register(world, 2)
    world.lead(1, isr=(1, 3))
    (flush,) = told(world, fx.FlushLog, 2)  # before it has read how it is configured, it flushes what it has
    flush.plan.run()
    world[2].broker.answered(flush.request_id, fx.Flushed(flush.plan, None), world.now_ms)
    world.advance(1_000)
    assert world[2].values() == world[1].values() == [b"a", b"b"]
    assert world.leadership[T0]["isr"] == [1, 3, 2]


def pass_time(world: World, broker: int) -> None:
    """Until it does something by itself that has to do with logs it could not use."""
    due_ms = world[broker].broker.replicas.retries.due_ms
    assert due_ms is not None and due_ms > world.now_ms
    world.now_ms = due_ms
    world[broker].broker.tick(world.now_ms)
    world.settle()


def test_the_last_member_of_an_isr_leads_again_once_there_are_descriptors(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else has what it holds. Its log is as it was, so it is not given up, and nothing of it is set aside."""

    def no_descriptor(*arguments: object, **options: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", no_descriptor)
        world.lead(2, isr=(2,), tell=(2,))
        assert T0 in world[2].broker.replicas.offline
        (line,) = told(world, fx.LogLine, 2)
        assert (
            line.text.startswith("t-0: LeaderAndIsr refused:")
            and "raise the limit of open files" in line.text
        )
        assert line.key, "of a thousand partitions that a broker cannot open one line is enough"
    pass_time(world, 2)
    assert registered_again(world, 2) == ["t-0 could not be used at first"]
    register(world, 2)
    world.lead(2, isr=(2,))
    assert world.produced(world.produce(2, b"c", acks=1))[0] == ErrorCode.NONE
    assert world[2].values() == [b"a", b"b", b"c"] and strays(world, 2) == []


def test_a_want_that_comes_back_is_looked_at_ever_more_rarely(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One descriptor is enough to look and too few to lead: registering anew is not free for anybody."""

    def no_descriptor(*arguments: object, **options: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    waited = []
    for _ in range(8):
        with monkeypatch.context() as patch:
            patch.setattr(files.os, "open", no_descriptor)
            world.lead(2, isr=(2,), tell=(2,))
        before = world.now_ms
        pass_time(world, 2)
        waited.append(world.now_ms - before)
        assert registered_again(world, 2) == ["t-0 could not be used at first"]
        register(world, 2)
    assert waited == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


@pytest.mark.parametrize("first", [0, 1])
def test_a_log_that_cannot_be_made_for_want_of_a_descriptor_is_made_later_and_its_broker_registers_anew(
    world: World, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    opened = 0
    open_ = files.os.open

    def no_descriptor(*arguments: Any, **options: Any) -> int:
        nonlocal opened
        opened += 1
        if opened > first:
            raise OSError(errno.EMFILE, "Too many open files")
        return open_(*arguments, **options)

    world[2].broker.replicas.commit_stops([Stop(T0, NO_EPOCH, True)], world.now_ms)
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", no_descriptor)
        world.lead(1, isr=(1, 3), tell=(2,))
        assert T0 in world[2].broker.replicas.offline
        # What a controller tells a replica that is offline to it.
        world[2].broker.replicas.commit_stops([Stop(T0, NO_EPOCH, False)], world.now_ms)
        pass_time(world, 2)
        assert registered_again(world, 2) == [], "not as long as the want lasts"
    pass_time(world, 2)
    assert registered_again(world, 2) == ["t-0 could not be used at first"]
    register(world, 2)
    world.lead(1, isr=(1, 3))
    world.advance(1_000)
    assert world[2].values() == world[1].values() == [b"a", b"b"]
    assert world.leadership[T0]["isr"] == [1, 3, 2]
    metadata = (world[2].path / "t-0" / "partition.metadata").read_text()
    assert metadata.count("topic_id") == 1


def test_a_log_that_cannot_be_made_for_want_of_a_descriptor_is_made_later_though_a_directory_is_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptor(*arguments: object, **options: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    world = World(tmp_path, brokers=(1,), directories="2")
    world[1].logs.directories[1].root.health.fail(StorageError("read: Input/output error"))
    world.settle()
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", no_descriptor)
        world.lead(1, isr=(1,), replicas=(1,), is_new=True)
        assert T0 in world[1].broker.replicas.offline
    pass_time(world, 1)
    assert registered_again(world, 1) == ["t-0 could not be used at first"]
    register(world, 1)
    world.lead(1, isr=(1,), replicas=(1,))
    assert world[1].partition().is_leader


def test_a_log_that_could_not_be_made_and_not_be_deleted_for_an_offline_directory_is_deleted_once_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it might lie in that directory as well. Else the topic would wait for a restart."""

    def no_descriptor(*arguments: object, **options: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    world = World(tmp_path, brokers=(1,))
    world[1].logs.left_out["/mnt/gone"] = StorageError("no such device")
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", no_descriptor)
        world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    assert (
        world.stop_replica(1, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True)
        == ErrorCode.KAFKA_STORAGE_ERROR
    )
    pass_time(world, 1)
    assert registered_again(world, 1) == ["t-0 could not be used at first"]
    assert world.stop_replica(1, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == ErrorCode.NONE
    assert T0 not in world[1].broker.replicas.offline and T0 not in world[1].logs.logs


def test_a_log_that_could_not_be_made_and_is_told_of_again_is_like_any_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptor(*arguments: object, **options: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    world[2].broker.replicas.commit_stops([Stop(T0, NO_EPOCH, True)], world.now_ms)
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", no_descriptor)
        world.lead(1, isr=(1, 3), tell=(2,))
    world.lead(1, isr=(1, 3))
    assert world.stop_replica(2, T0, leader_epoch=NO_EPOCH) == ErrorCode.NONE


def test_a_log_that_could_not_be_made_and_is_deleted_is_not_made_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptor(*arguments: object, **options: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    replicas = world[2].broker.replicas
    replicas.commit_stops([Stop(T0, NO_EPOCH, True)], world.now_ms)
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", no_descriptor)
        world.lead(1, isr=(1, 3), tell=(2,))
    assert replicas.commit_stops([Stop(T0, NO_EPOCH, True)], world.now_ms) == {T0: ErrorCode.NONE}
    world.now_ms += 2_000
    world[2].broker.tick(world.now_ms)
    assert T0 not in world[2].logs.logs and T0 not in replicas.offline
    assert registered_again(world, 2) == []


@pytest.fixture
def unopened(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Broker 2 has started again and had no descriptor for its log; there are some by now, and no thread has run yet."""
    world.kill(2)
    with monkeypatch.context() as patch:
        # With the slash: the first run of pytest on a machine writes below pytest-0.
        patch.setattr(files.os, "open", without_descriptors(files.os.open, "/t-0"))
        world.restart(2)
    world.works = False
    return world


def without_descriptors(really_open: Callable[..., int], name: str) -> Callable[..., int]:
    def opens(path: str, *arguments: Any, **options: Any) -> int:
        if name in str(path):
            raise OSError(errno.EMFILE, "Too many open files")
        return really_open(path, *arguments, **options)

    return opens


def run_thread(world: World, broker: int) -> None:
    """What it was asked for last."""
    (asked,) = told(world, fx.RunAside, broker)
    world[broker].broker.answered(asked.request_id, asked.work.run(), world.now_ms)
    world.settle()


def test_the_last_member_of_an_isr_that_started_without_descriptors_leads_with_all_it_had(
    unopened: World,
) -> None:
    """Found by seed 1329 of the simulator: it was offline until its next start."""
    unopened.lead(2, isr=(2,), tell=(2,))
    assert T0 in unopened[2].broker.replicas.offline
    pass_time(unopened, 2)
    assert registered_again(unopened, 2) == [], "not before the thread has opened it"
    run_thread(unopened, 2)
    assert registered_again(unopened, 2) == ["t-0 could not be used at first"]
    register(unopened, 2)
    unopened.lead(2, isr=(2,))
    assert unopened.produced(unopened.produce(2, b"c", acks=1))[0] == ErrorCode.NONE
    assert unopened[2].values() == [b"a", b"b", b"c"] and strays(unopened, 2) == []
    assert unopened[2].logs.refused == {}


def test_who_started_without_descriptors_and_left_the_isr_follows_with_the_log_it_has(
    unopened: World,
) -> None:
    """All of it was thrown aside and fetched again."""
    unopened.lead(1, isr=(1, 3))
    assert T0 in unopened[2].broker.replicas.offline and strays(unopened, 2) == []
    pass_time(unopened, 2)
    run_thread(unopened, 2)
    register(unopened, 2)
    unopened.lead(1, isr=(1, 3))
    unopened.advance(1_000)
    assert unopened[2].values() == [b"a", b"b"] and strays(unopened, 2) == []
    assert unopened.leadership[T0]["isr"] == [1, 3, 2]


def test_a_log_is_not_deleted_while_a_thread_opens_it(unopened: World) -> None:
    unopened.lead(1, isr=(1, 3))
    pass_time(unopened, 2)
    refused = unopened.stop_replica(2, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True)
    assert refused == ErrorCode.KAFKA_STORAGE_ERROR and (unopened[2].path / "t-0").is_dir()
    run_thread(unopened, 2)
    assert registered_again(unopened, 2) == ["t-0 could not be used at first"], (
        "so the deletion is tried again"
    )
    assert unopened.stop_replica(2, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == ErrorCode.NONE
    assert not (unopened[2].path / "t-0").exists() and unopened[2].logs.logs == {}


def test_a_log_that_nobody_has_begun_to_open_is_deleted_at_once(unopened: World) -> None:
    unopened.lead(1, isr=(1, 3))
    assert unopened.stop_replica(2, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == ErrorCode.NONE
    assert not (unopened[2].path / "t-0").exists() and unopened[2].logs.refused == {}
    unopened.advance(5_000)
    assert told(unopened, fx.RunAside, 2) == [] and registered_again(unopened, 2) == []


def test_a_thread_that_finds_no_descriptor_either_tries_again_ever_more_rarely(
    unopened: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    unopened.lead(2, isr=(2,), tell=(2,))
    waited = []
    for _ in range(4):
        before = unopened.now_ms
        pass_time(unopened, 2)
        waited.append(unopened.now_ms - before)
        with monkeypatch.context() as patch:
            patch.setattr(files.os, "open", without_descriptors(files.os.open, ".log"))
            run_thread(unopened, 2)
        assert registered_again(unopened, 2) == []
    assert waited == [1_000, 2_000, 4_000, 8_000]
    pass_time(unopened, 2)
    run_thread(unopened, 2)
    assert registered_again(unopened, 2) == ["t-0 could not be used at first"]


def test_a_log_that_no_thread_can_open_does_not_stand_before_others(
    unopened: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes more descriptors, or more memory, than there are; or a mistake of ours in it."""
    retries = unopened[2].broker.replicas.retries
    unopened.lead(2, isr=(2,), tell=(2,))
    pass_time(unopened, 2)
    other = TopicPartition("other", 0)
    logs = unopened[2].logs
    logs._hosted.refuse(other, logs.directories[0], NoDescriptor("too many"))
    retries.later(other, NO_TOPIC_ID, unopened.now_ms)
    (asked,) = told(unopened, fx.RunAside, 2)
    unopened[2].broker.answered(asked.request_id, None, unopened.now_ms)
    unopened.settle()
    pass_time(unopened, 2)
    (asked,) = told(unopened, fx.RunAside, 2)
    assert asked.work.topic_partition == other


@pytest.mark.parametrize("what", ["adopt", "get_or_create", "load_late"])
def test_a_want_of_memory_as_logs_are_tried_again_does_not_end_the_trying(
    unopened: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The replica was offline until the next start."""
    unopened.lead(2, isr=(2,), tell=(2,))
    other = TopicPartition("other", 0)
    unopened[2].broker.replicas.retries.later(other, NO_TOPIC_ID, unopened.now_ms)

    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(unopened[2].logs), what, no_memory)
        with pytest.raises(MemoryError):
            pass_time(unopened, 2)
            run_thread(unopened, 2)
    for _ in range(2):
        if unopened[2].broker.replicas.retries.due_ms is not None:
            pass_time(unopened, 2)
    run_thread(unopened, 2)
    assert unopened[2].logs.refused == {} and unopened[2].broker.replicas.retries.wanted == {}
    assert {T0, other} == unopened[2].logs.logs.keys()


def test_a_want_of_memory_for_the_next_log_that_is_opened_ends_its_round_alone(
    unopened: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody heard of those that could be used by then, and the others were offline until the next start."""
    unopened.lead(2, isr=(2,), tell=(2,))
    logs, retries = unopened[2].logs, unopened[2].broker.replicas.retries
    other = TopicPartition("other", 0)
    logs._hosted.refuse(other, logs.directories[0], NoDescriptor("too many"))
    retries.later(other, NO_TOPIC_ID, unopened.now_ms)
    pass_time(unopened, 2)

    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(logs), "load_late", no_memory)
        with pytest.raises(MemoryError):
            run_thread(unopened, 2)
    unopened.settle()
    assert len(registered_again(unopened, 2)) == 1 and retries.wanted.keys() == {other}
    pass_time(unopened, 2)
    assert [asked.work.topic_partition for asked in told(unopened, fx.RunAside, 2)] == [other]


def test_a_want_of_memory_to_say_what_can_be_used_again_loses_nothing_of_it(
    unopened: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller never heard of them, and counted them as offline until the next start."""
    unopened.lead(2, isr=(2,), tell=(2,))
    pass_time(unopened, 2)
    (asked,) = told(unopened, fx.RunAside, 2)
    result = asked.work.run()
    wants = 0

    def no_memory(*_: object) -> str:
        nonlocal wants
        wants += 1
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(log_retries, "first_of", no_memory)
        with pytest.raises(MemoryError):
            unopened[2].broker.answered(asked.request_id, result, unopened.now_ms)
    assert wants > 1, "not the first time alone"
    assert registered_again(unopened, 2) == []
    unopened.advance(log_retries.FIRST_MS)
    assert len(registered_again(unopened, 2)) == 1


def test_a_want_of_another_day_is_met_as_soon_as_the_first_was() -> None:
    class NoDescriptors:
        offline_directories: dict[str, StorageError] = {}

        def is_unopened(self, topic_partition: TopicPartition) -> bool:
            return False

        def get_or_create(self, *_: object, **__: object) -> PartitionLog:
            raise NoDescriptor("too many")

    wanted = TopicPartition("t", 0)
    retries = log_retries.LogRetries(NoDescriptors(), {}, [], PendingCalls())  # type: ignore[arg-type]
    now_ms = 0
    retries.later(wanted, NO_TOPIC_ID, now_ms)
    while retries.wait_ms < log_retries.MOST_MS:
        assert retries.due_ms is not None
        now_ms = retries.due_ms
        retries.tick(now_ms)
    assert retries.due_ms is not None
    retries.forget(wanted)
    retries.tick(retries.due_ms)
    now_ms = retries._wanted_at_ms + 2 * log_retries.MOST_MS + 1
    retries.later(wanted, NO_TOPIC_ID, now_ms)
    assert retries.due_ms == now_ms + log_retries.FIRST_MS


def test_replicas_that_can_be_used_do_not_wait_for_logs_that_take_long_to_recover(unopened: World) -> None:
    """They were offline until the last one was opened, which of thousands takes minutes. Nor does each of those have the broker
    register anew."""
    unopened.lead(2, isr=(2,), tell=(2,))
    logs, retries = unopened[2].logs, unopened[2].broker.replicas.retries
    for number in range(40):
        other = TopicPartition("other", number)
        logs._hosted.refuse(other, logs.directories[0], NoDescriptor("too many"))
        retries.later(other, NO_TOPIC_ID, unopened.now_ms)
    pass_time(unopened, 2)
    (asked,) = told(unopened, fx.RunAside, 2)
    unopened[2].broker.answered(asked.request_id, asked.work.run(), unopened.now_ms)
    began_ms, told_at_ms = unopened.now_ms, []
    for _ in range(40):
        unopened.settle()
        (asked,) = told(unopened, fx.RunAside, 2)
        for _ in range(5):  # half a second for each
            unopened.now_ms += 100
            unopened[2].broker.tick(unopened.now_ms)
        unopened.settle()
        told_at_ms += [unopened.now_ms - began_ms for _ in registered_again(unopened, 2)]
        unopened[2].broker.answered(asked.request_id, asked.work.run(), unopened.now_ms)
    unopened.settle()
    assert told_at_ms == [1_000, 3_000, 7_000, 15_000]
    assert len(registered_again(unopened, 2)) == 1 and retries.wanted == {} and retries.due_ms is None


def test_a_log_that_a_thread_finds_damaged_is_fetched_anew_from_its_leader(unopened: World) -> None:
    unopened.lead(1, isr=(1, 3))
    pass_time(unopened, 2)
    (asked,) = told(unopened, fx.RunAside, 2)
    unopened[2].logs.directories[0].recovery_points.offsets[T0] = 9  # of which all is lost
    unopened[2].broker.answered(asked.request_id, asked.work.run(), unopened.now_ms)
    unopened.settle()
    assert "records that" in said(unopened, 2)
    assert registered_again(unopened, 2) == ["t-0 could not be used at first"]
    register(unopened, 2)
    unopened.works = True
    unopened.lead(1, isr=(1, 3))
    unopened.advance(1_000)
    assert unopened[2].values() == [b"a", b"b"] and len(strays(unopened, 2)) == 1


@pytest.mark.parametrize("is_after", [False, True])
def test_a_directory_that_fails_while_a_thread_opens_a_log_in_it_is_told_of_alone(
    unopened: World, is_after: bool
) -> None:
    unopened.lead(2, isr=(2,), tell=(2,))
    pass_time(unopened, 2)
    (asked,) = told(unopened, fx.RunAside, 2)
    came = asked.work.run() if is_after else None
    unopened[2].logs.directories[0].root.health.fail(StorageError("read: Input/output error"))
    came = came if is_after else asked.work.run()
    unopened[2].broker.answered(asked.request_id, came, unopened.now_ms)
    unopened.settle()
    assert registered_again(unopened, 2) == [] and T0 not in unopened[2].logs.logs
    unopened.advance(120_000)
    assert told(unopened, fx.RunAside, 2) == [] and registered_again(unopened, 2) == []
    assert "offline" in unopened[2].broker.replicas.offline[T0]
