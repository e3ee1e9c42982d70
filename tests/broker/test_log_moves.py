"""AlterReplicaLogDirs: replicas on their way between log directories while they are read, written and cut."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker import log_moves
from odradek.broker.handlers.alter_replica_log_dirs import AT_ONCE
from odradek.broker.log_moves import LAST_BYTES, RETRY_MS, LogMoves, data_of
from odradek.log import flushing
from odradek.log.errors import DiskFault, NoDescriptor, StorageError
from odradek.log.files import OsDirectory, OsFile
from odradek.log.future_logs import FutureLogs
from odradek.log.log_directory import Lowering
from odradek.log.partition_log import PartitionLog
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import alter_replica_log_dirs as arl
from tests.broker.log_directories import (
    a_world,
    ask,
    described,
    do,
    first,
    five_records,
    lines,
    second,
    steps,
    under_way,
    where,
)
from tests.broker.world import T0, World, batch, told
from tests.support import no_collector, open_under


@pytest.fixture
def world(tmp_path: Path) -> World:
    return five_records(tmp_path)


# ---------------------------------------------------------------------------------------------------- it moves


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_moves_and_nobody_notices(world: World, version: int) -> None:
    before = world[1].values()
    assert ask(world, second(world), version=version) == ErrorCode.NONE
    world.settle()
    assert where(world) == second(world)
    assert world[1].values() == before
    assert described(world) == {first(world): [], second(world): [("t-0", 0, False)]}
    assert world.produced(world.produce(1, b"after")) == (ErrorCode.NONE, 5)
    assert world.consume(1, 0).message.responses[0].partitions[0].high_watermark == 6


def test_many_replicas_are_begun_with_a_few_in_a_turn(tmp_path: Path) -> None:
    """Each has a directory and files made for it."""
    many = 4 * AT_ONCE + 1
    world = World(tmp_path, brokers=(1,), directories="2")
    for index in range(many):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
    there = {index: world[1].logs.directory_of(TopicPartition("t", index)) for index in range(many)}
    to = [index for index in range(many) if there[index] == first(world)]
    world.copies = False
    topic = arl.AlterReplicaLogDirTopic(name="t", partitions=[*to, many])
    directory = arl.AlterReplicaLogDir(path=second(world), topics=[topic])
    pending = world.send(1, arl.AlterReplicaLogDirsRequest(dirs=[directory]), 2)
    broker, futures = world[1].broker, world[1].logs.futures.logs

    assert len(to) > 2 * AT_ONCE and len(futures) == AT_ONCE and not pending.is_answered
    while broker.go_on(world.now_ms):
        assert not pending.is_answered
    (answered,) = pending.message.results
    codes = [(row.partition_index, row.error_code) for row in answered.partitions]
    assert codes == [*((index, 0) for index in to), (many, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert list(futures) == [TopicPartition("t", index) for index in to]
    world.copies = True
    for effect in steps(world):
        do(world, effect)
    world.settle()
    world.advance(10)
    assert {world[1].logs.directory_of(TopicPartition("t", index)) for index in to} == {second(world)}


def test_who_waits_for_its_turn_to_move_is_not_looked_at_for_each_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, brokers=(1,), directories="2")
    for index in range(20):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
    world.copies = False
    looked: list[int] = []
    go_on = LogMoves.go_on

    def counted(moves: LogMoves, now_ms: int) -> None:
        looked.append(now_ms)
        go_on(moves, now_ms)

    monkeypatch.setattr(LogMoves, "go_on", counted)
    moves = world[1].broker.replicas.moves
    for index in range(20):
        moves.ask(TopicPartition("t", index), second(world), world.now_ms)

    assert 0 < len(looked) <= 2 and moves.due_ms == world.now_ms


@pytest.mark.parametrize("trouble", ["cannot be read", "is damaged", "no room"])
def test_a_move_that_cannot_go_on_is_looked_at_again_after_a_pause_and_not_in_every_turn(
    world: World, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    world.copies = False
    moves = world[1].broker.replicas.moves
    with monkeypatch.context() as patch:
        if trouble == "no room":
            patch.setattr(OsDirectory, "space", lambda directory: (1 << 40, 0))
        assert ask(world, second(world)) == ErrorCode.NONE
        for read in steps(world):
            data = data_of(read.slices)[:-1] + b"?" if trouble == "is damaged" else None
            world[1].broker.answered(read.request_id, data, world.now_ms)

    assert moves.due_ms == world.now_ms + RETRY_MS
    world.advance(RETRY_MS - 1)
    assert steps(world) == []
    world.advance(1)
    assert len(steps(world)) == 1


def test_a_copy_on_its_way_is_shown_with_what_it_lacks(world: World) -> None:
    world.copies = False
    assert ask(world, second(world)) == ErrorCode.NONE
    assert described(world) == {first(world): [("t-0", 0, False)], second(world): [("t-0", 5, True)]}
    (read,) = steps(world)
    world.produce(1, b"meanwhile")
    do(world, read)
    assert described(world)[second(world)] == [("t-0", 1, True)]


def test_what_is_written_meanwhile_comes_along(world: World) -> None:
    world.copies = False
    ask(world, second(world))
    seen = 0
    while where(world) == first(world):
        for effect in steps(world):
            world.produce(1, b"meanwhile %d" % seen)
            do(world, effect)
            seen += 1
        assert seen < 10
    assert seen == 2, "a read and a flush; the rest within the turn"
    values = world[1].values()
    assert values == [b"%d" % n for n in range(5)] + [b"meanwhile %d" % n for n in range(seen)]


def test_a_copy_has_as_much_on_the_disk_as_the_log_in_use_when_it_takes_its_place(world: World) -> None:
    world.copies = False
    ask(world, second(world))
    (read,) = steps(world)
    do(world, read)
    (flush,) = steps(world)
    world.produce(1, b"more")
    log = world[1].partition().log
    assert log.flush() == log.log_end_offset == 6
    do(world, flush)
    (flush,) = steps(world)
    assert where(world) == first(world), "the loop does not wait for the disk"
    do(world, flush)
    world.settle()
    assert where(world) == second(world)
    assert world[1].partition().log.recovery_point == 6


def test_flushes_of_the_log_in_use_wait_for_the_last_one_of_its_copy_and_nothing_is_synced_in_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would put the log in use ahead of the copy again, and that was synced in the turn of the swap."""
    world = World(tmp_path, brokers=(1,), directories="2")
    world.configs["topics", "t"] = {"flush.messages": "1"}
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world.copies = False
    ask(world, second(world))
    first_flush, *others = steps(world)
    assert isinstance(first_flush, fx.FlushLog) and others == []
    synced: list[str] = []

    def synced_by_the_loop(file: OsFile) -> None:
        synced.append(file.name)

    before = world.produce(1, b"a")
    (flush,) = steps(world)
    do(world, flush)
    world.settle()
    assert world.produced(before) == (ErrorCode.NONE, 0)
    do(world, first_flush)
    (read,) = steps(world)
    do(world, read)
    (last,) = steps(world)
    assert last.log is world[1].logs.futures.logs[T0].log
    meanwhile = world.produce(1, b"b")
    world.settle()
    assert steps(world) == [] and not meanwhile.is_answered
    last.plan.run()
    with monkeypatch.context() as loop:
        loop.setattr(OsFile, "sync", synced_by_the_loop)
        world[1].broker.answered(last.request_id, fx.Flushed(last.plan, None), world.now_ms)
        (flush,) = steps(world)
    assert where(world) == second(world) and synced == []
    assert flush.log is world[1].partition().log and not meanwhile.is_answered
    do(world, flush)
    world.settle()
    assert world.produced(meanwhile) == (ErrorCode.NONE, 1)
    assert world[1].partition().log.recovery_point == 2


def about_to_read(tmp_path: Path) -> tuple[World, fx.Effect]:
    """A log that is flushed before each acknowledgement, of one record, and its copy, which is to read that."""
    world = World(tmp_path, brokers=(1,), directories="2")
    world.configs["topics", "t"] = {"flush.messages": "1"}
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world.copies = False
    ask(world, second(world))
    (first_flush,) = steps(world)
    world.produce(1, b"a")
    (flush,) = steps(world)
    do(world, flush)
    world.settle()
    do(world, first_flush)
    (read,) = steps(world)
    return world, read


def test_flushes_of_the_log_in_use_do_not_wait_for_one_of_its_copy_that_could_not_be_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again each second, and may fail for hours: for want of a descriptor, say."""
    world, read = about_to_read(tmp_path)

    def wants_a_descriptor(futures: FutureLogs, topic_partition: TopicPartition) -> None:
        raise NoDescriptor("no descriptor is left")

    monkeypatch.setattr(FutureLogs, "prepare", wants_a_descriptor)
    do(world, read)
    meanwhile = world.produce(1, b"b")
    world.settle()
    for flush in steps(world):
        do(world, flush)
    world.settle()

    assert world.produced(meanwhile) == (ErrorCode.NONE, 1)
    assert T0 in world[1].logs.futures.logs, "it goes on"


def test_flushes_of_the_log_in_use_do_not_wait_for_a_copy_behind_whose_last_one_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, read = about_to_read(tmp_path)
    do(world, read)
    (last,) = steps(world)
    meanwhile = world.produce(1, b"b")
    world.settle()
    assert steps(world) == []
    monkeypatch.setattr(OsDirectory, "space", lambda directory: (1 << 40, 0))
    do(world, last)
    world.settle()
    for flush in steps(world):
        do(world, flush)
    world.settle()

    assert where(world) == first(world)
    assert world.produced(meanwhile) == (ErrorCode.NONE, 1)


def cut_behind_its_copy(tmp_path: Path) -> tuple[World, PartitionLog, fx.Effect]:
    """A log of two records, its copy with five, and what that waits for."""
    world = five_records(tmp_path)
    do(world, under_way(world))
    (flush,) = steps(world)
    future = world[1].logs.futures.logs[T0].log
    world[1].partition().log.truncate_to(2, world.now_ms)
    return world, future, flush


def test_a_copy_that_is_cut_has_its_checkpoints_lowered_by_a_thread(
    tmp_path: Path, checkpoints_written: list[str]
) -> None:
    """The loop waited for two syncs of each file that calls committed, or flushed, what is cut."""
    world, future, flush = cut_behind_its_copy(tmp_path)
    checkpoints_written.clear()
    world.works = False
    do(world, flush)
    (waiting,) = told(world, fx.RunAside)
    assert isinstance(waiting.work, Lowering)
    assert future.log_end_offset == 5
    world[1].broker.answered(waiting.request_id, waiting.work.run(), world.now_ms)
    world.advance(2)
    assert future.log_end_offset == 2 and checkpoints_written == []


@pytest.mark.parametrize("came", [None, NoDescriptor("no descriptor is left")])
def test_a_copy_whose_cut_could_not_be_prepared_is_cut_after_a_pause(
    tmp_path: Path, came: StorageError | None
) -> None:
    world, future, flush = cut_behind_its_copy(tmp_path)
    world.works = False
    do(world, flush)
    (waiting,) = told(world, fx.RunAside)
    world.works = True
    world[1].broker.answered(waiting.request_id, came, world.now_ms)
    world.advance(RETRY_MS - 1)
    assert future.log_end_offset == 5
    world.advance(2)
    assert future.log_end_offset == 2 and world[1].partition().log is future


def test_a_cut_of_a_copy_that_no_thread_was_asked_to_prepare_is_begun_anew(
    tmp_path: Path, checkpoints_written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was no memory to ask. Gone on with, the loop itself would have written the checkpoints."""
    world, future, flush = cut_behind_its_copy(tmp_path)
    checkpoints_written.clear()
    world.works = False

    def no_memory(*_: object) -> fx.RunAside:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(log_moves, "RunAside", no_memory)
        with pytest.raises(MemoryError):
            do(world, flush)
    world.advance(RETRY_MS)
    assert future.log_end_offset == 5
    (waiting,) = told(world, fx.RunAside)
    assert isinstance(waiting.work, Lowering)
    world[1].broker.answered(waiting.request_id, waiting.work.run(), world.now_ms)
    world.advance(2)
    assert future.log_end_offset == 2 and checkpoints_written == []


def test_a_consumer_that_waits_and_one_in_the_middle_go_on(world: World) -> None:
    session_less = world.consume(1, 5, max_wait_ms=30_000)
    ask(world, second(world))
    world.settle()
    assert where(world) == second(world) and not session_less.is_answered
    world.produce(1, b"five")
    world.settle()
    assert session_less.message.responses[0].partitions[0].high_watermark == 6
    assert len(world.consume(1, 2).message.responses[0].partitions[0].records) > 0


def test_an_acknowledgement_that_waits_for_a_flush_comes_after_the_swap(tmp_path: Path) -> None:
    """The flush that was under way is of the former log, and its answer says nothing any more."""
    world = World(tmp_path, brokers=(1,), directories="2")
    world.configs["topics", "t"] = {"flush.messages": "1"}
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    asked = world.produce(1, b"a")
    (flush,) = told(world, fx.FlushLog)
    ask(world, second(world))
    world.settle()
    assert where(world) == second(world)
    world[1].broker.answered(
        flush.request_id, fx.Flushed(flush.plan, "fsync t-0: No such file or directory"), world.now_ms
    )
    world.settle()
    for effect in told(world, fx.FlushLog):
        do(world, effect)
    world.settle()
    assert world.produced(asked) == (ErrorCode.NONE, 0)
    assert world[1].partition().log.recovery_point == 1


def test_what_is_appended_and_moved_in_one_turn_is_flushed_once(tmp_path: Path) -> None:
    """A client may send Produce and AlterReplicaLogDirs together. Two flushes of one log at once would count what they have
    synced twice."""
    world = World(tmp_path, brokers=(1,), directories="2")
    world.configs["topics", "t"] = {"flush.messages": "1"}
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world.produce(1, b"a")
    for effect in told(world, fx.FlushLog):
        do(world, effect)
    read = under_way(world)
    do(world, read)
    (flush,) = steps(world)
    broker = world[1].broker
    world[1].partition().append(memoryview(bytearray(batch(b"b"))), acks=1, now_ms=world.now_ms)
    flush.plan.run()
    broker.answered(flush.request_id, fx.Flushed(flush.plan, None), world.now_ms)
    assert where(world) == second(world)
    assert sum(isinstance(effect, fx.FlushLog) for effect in broker.take_effects()) == 1


def test_a_follower_moves_while_it_follows(tmp_path: Path) -> None:
    world = a_world(tmp_path, (1, 2))
    world.produce(1, b"a")
    world.settle()
    world.copies = False
    assert ask(world, second(world, 2), broker=2) == ErrorCode.NONE
    (read,) = steps(world, 2)
    world.produce(1, b"b")
    world.settle()
    do(world, read, 2)
    world.copies = True
    for effect in steps(world, 2):
        do(world, effect, 2)
    world.settle()
    assert where(world, 2) == second(world, 2)
    pending = world.produce(1, b"c")
    world.settle()
    assert world.produced(pending) == (ErrorCode.NONE, 2)
    assert world[2].values() == [b"a", b"b", b"c"] and world[2].raw() == world[1].raw()


def test_a_fetcher_that_waits_for_the_flush_of_the_former_log_is_woken(tmp_path: Path) -> None:
    """With flush.messages=1 it fetches on when the last records are on the disk, and that flush is never told of."""
    world = World(tmp_path, brokers=(1, 2), directories="2")
    world.configs["topics", "t"] = {"flush.messages": "1"}
    world.lead(1, isr=(1, 2), replicas=(1, 2), is_new=True)
    world.produce(1, b"a")
    world.settle()
    (_,) = told(world, fx.FlushLog, 2)
    world.copies = False
    ask(world, second(world, 2), broker=2)
    (read,) = steps(world, 2)
    do(world, read, 2)
    (flush,) = steps(world, 2)
    flush.plan.run()
    world[2].broker.answered(flush.request_id, fx.Flushed(flush.plan, None), world.now_ms)
    assert where(world, 2) == second(world, 2)
    assert fx.WakeFetcher(1) in world[2].broker.take_effects()  # type: ignore[arg-type]


def copied(world: World, end_offset: int) -> fx.Effect:
    """All of it, up to this offset; what is left is its flush."""
    world.copies = False
    ask(world, second(world))
    for effect in steps(world):
        do(world, effect)
    assert world[1].logs.futures.logs[T0].log.log_end_offset == end_offset
    (flush,) = steps(world)
    assert isinstance(flush, fx.FlushLog)
    return flush


def arrives(world: World, flush: fx.Effect, values: list[bytes]) -> None:
    world.copies = True
    do(world, flush)
    world.settle()
    assert where(world) == second(world)
    assert world[1].values() == values and world[1].raw() == world[2].raw()


def test_a_copy_of_a_log_that_is_cut_is_cut_too(tmp_path: Path) -> None:
    """A follower behind a new leader: what was copied of the tail it loses must not be in the copy that replaces it."""
    world = a_world(tmp_path, (1, 2, 3))
    world.produce(1, b"a")
    world.settle()
    world.cut |= {(2, 1), (3, 1)}
    world.produce(1, b"lost", acks=1)
    world.produce(1, b"lost too", acks=1)
    world.settle()
    flush = copied(world, 3)
    world.cut.clear()
    world.lead(2, isr=(2, 3), replicas=(1, 2, 3))
    world.produce(2, b"kept", acks=1)
    world.produce(2, b"kept too", acks=1)
    world.settle()
    assert world[1].values() == [b"a", b"kept", b"kept too"]
    arrives(world, flush, [b"a", b"kept", b"kept too"])
    assert "the copy is cut from 3 to 1" in lines(world)


def test_a_copy_is_cut_too_where_older_records_have_taken_the_place_of_what_was_cut(tmp_path: Path) -> None:
    """The next leader's log goes on in an epoch before that of the lost tail, and of that one the log in use knows nothing
    any more. What has come instead is committed by the time that the copy is looked at."""
    world = World(tmp_path, brokers=(1, 2, 3), directories="2")
    world.lead(2, isr=(1, 2, 3), replicas=(1, 2, 3), is_new=True)
    world.produce(2, b"a")
    world.settle()
    world.cut |= {(1, 2), (3, 2), (2, 1), (3, 1)}
    world.produce(2, b"b", acks=1)
    world.produce(2, b"c", acks=1)
    world.lead(1, isr=(1, 2, 3), replicas=(1, 2, 3))
    world.produce(1, b"lost", acks=1)
    flush = copied(world, 2)
    world.cut.clear()
    world.lead(2, isr=(1, 2, 3), replicas=(1, 2, 3))
    world.advance(600)
    assert world[1].values() == [b"a", b"b", b"c"] and world[1].partition().high_watermark == 3
    arrives(world, flush, [b"a", b"b", b"c"])


def test_what_was_read_before_a_cut_is_not_appended_after_it(tmp_path: Path) -> None:
    world = a_world(tmp_path, (1, 2, 3))
    world.produce(1, b"a")
    world.settle()
    world.cut |= {(2, 1), (3, 1)}
    world.produce(1, b"lost", acks=1)
    world.copies = False
    ask(world, second(world))
    (read,) = steps(world)
    data = data_of(read.slices)
    world.cut.clear()
    world.lead(2, isr=(2, 3), replicas=(1, 2, 3))
    world.produce(2, b"kept", acks=1)
    world.settle()
    world.copies = True
    world[1].broker.answered(read.request_id, data, world.now_ms)
    world.settle()
    assert where(world) == second(world)
    assert world[1].values() == [b"a", b"kept"]


def test_a_copy_that_is_cut_in_steps_goes_on_a_millisecond_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests come in between."""
    monkeypatch.setattr("odradek.log.truncation.MOST_SEGMENTS_CUT", 2)
    world = World(tmp_path, brokers=(1,), directories="2")
    world.configs["topics", "t"] = {"segment.bytes": str(len(batch(b"0")))}
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    for n in range(6):
        world.produce(1, b"%d" % n)
    do(world, under_way(world))
    (flush,) = steps(world)
    future = world[1].logs.futures.logs[T0].log
    world[1].partition().log.truncate_to(2, world.now_ms)
    do(world, flush)
    world.settle()  # checkpoints are lowered
    moves, ends = world[1].broker.replicas.moves, []
    while moves.due_ms is not None:
        ends.append(future.log_end_offset)
        assert moves.due_ms == world.now_ms + 1
        world.advance(1)
    assert ends == [4, 3]
    assert future.log_end_offset == 2


def test_records_deleted_meanwhile_are_deleted_there_as_well(world: World) -> None:
    world.copies = False
    ask(world, second(world))
    (read,) = steps(world)
    world[1].partition().delete_records(3)
    world.copies = True
    do(world, read)
    world.settle()
    assert where(world) == second(world)
    log = world[1].partition().log
    assert (log.log_start_offset, log.log_end_offset) == (3, 5)


def test_a_copy_that_begins_anew_behind_what_was_deleted_is_flushed_once_more(world: World) -> None:
    """What was flushed of it before says nothing of the files that took the place of those."""
    world.copies = False
    ask(world, second(world))
    (read,) = steps(world)
    do(world, read)
    (flush,) = steps(world)
    world.produce(1, b"5")
    world[1].partition().delete_records(6)
    do(world, flush)
    (again,) = steps(world)
    assert isinstance(again, fx.FlushLog) and where(world) == first(world)
    do(world, again)
    world.settle()
    assert where(world) == second(world)
    assert world[1].partition().log.log_start_offset == 6


def test_large_logs_are_copied_in_parts_and_the_last_one_within_the_turn(tmp_path: Path) -> None:
    world = a_world(tmp_path, replica_fetch_max_bytes=str(1 << 17))
    for n in range(12):
        world.produce(1, bytes([n]) * (LAST_BYTES // 8))
    world.copies = False
    ask(world, second(world))
    reads = 0
    while not isinstance((effect := steps(world)[0]), fx.FlushLog):
        assert sum(part.size_bytes for part in effect.slices) <= 1 << 17
        do(world, effect)
        reads += 1
    assert reads >= 3
    world.produce(1, b"last")
    do(world, effect)
    assert where(world) == second(world) and steps(world) == []
    assert world[1].values()[-1] == b"last"


def test_of_very_many_batches_that_were_read_some_are_appended_in_a_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A MiB of small ones took 70 ms."""
    monkeypatch.setattr("odradek.broker.log_moves.MOST_BATCHES", 2)
    ends: list[int] = []
    append = PartitionLog.append_as_follower

    def noted(log: PartitionLog, records: memoryview, **options: Any) -> Any:
        result = append(log, records, **options)
        ends.append(log.log_end_offset)
        return result

    monkeypatch.setattr(PartitionLog, "append_as_follower", noted)
    assert ask(world, second(world)) == ErrorCode.NONE
    world.settle()
    assert ends == [2, 4, 5]
    assert where(world) == second(world)


def test_of_many_small_segments_some_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each a descriptor is held until it is read."""
    monkeypatch.setattr("odradek.broker.log_moves.MOST_SEGMENTS_READ", 3)
    world = a_world(tmp_path)
    for n in range(20):
        world.produce(1, b"%d" % n)
        world[1].logs.logs[T0].roll(world.now_ms)
    world.copies = False
    ask(world, second(world))
    reads = []
    while not isinstance((effect := steps(world)[0]), fx.FlushLog):
        reads.append(len(effect.slices))
        do(world, effect)
    assert reads == [3] * 6 + [2]
    world.copies = True
    do(world, effect)
    world.settle()
    assert where(world) == second(world) and world[1].values() == [b"%d" % n for n in range(20)]


@pytest.mark.parametrize("flushed_up_to", [0, 5])
def test_a_copy_of_many_segments_is_flushed_by_a_thread_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushed_up_to: int
) -> None:
    """So many in a flush; what is left before the swap is synced within the turn, and is to be little."""
    monkeypatch.setattr(flushing, "MOST_SEGMENTS", 2)
    world = a_world(tmp_path, log_segment_bytes="100")
    for n in range(5):
        world.produce(1, b"%d" % n)
    log = world[1].logs.logs[T0]
    if flushed_up_to:
        log.flush(world.now_ms)
    assert len(log.segments) == 5 and log.recovery_point == flushed_up_to
    within_turn = []
    flush = PartitionLog.flush

    def counted(log: PartitionLog, now_ms: int = -1) -> int:
        within_turn.append(log.recovery_point)
        return flush(log, now_ms)

    monkeypatch.setattr(PartitionLog, "flush", counted)
    assert ask(world, second(world)) == ErrorCode.NONE
    world.settle()
    assert where(world) == second(world) and world[1].logs.logs[T0].recovery_point == 5
    assert within_turn == []


def test_a_flush_is_not_repeated_for_the_little_that_comes_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under steady writes something always comes: a move that counted what is flushed would never end."""
    monkeypatch.setattr("odradek.broker.log_moves.LAST_UNFLUSHED_BYTES", LAST_BYTES)
    world = a_world(tmp_path, replica_fetch_max_bytes=str(1 << 17))
    for n in range(12):
        world.produce(1, bytes([n]) * (LAST_BYTES // 8))
    world.copies = False
    ask(world, second(world))
    flushes = 0
    while where(world) != second(world):
        (effect,) = steps(world)
        if isinstance(effect, fx.FlushLog):
            flushes += 1
            assert flushes == 1
            world.produce(1, b"meanwhile")
        do(world, effect)
    assert steps(world) == [] and world[1].values()[-1] == b"meanwhile"


def test_only_so_many_are_copied_at_once_in_the_order_asked(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,), directories="2", num_replica_alter_log_dirs_threads="1")
    for index in range(3):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
        world.produce(1, b"x", index=index)
    logs = world[1].logs
    world.copies = False
    for index in range(3):
        here = logs.directory_of(TopicPartition("t", index))
        there = next(path for path in world[1].log_dirs if path != here)
        assert ask(world, there, index=index) == ErrorCode.NONE
    order = []
    while effects := steps(world):
        (effect,) = effects
        order.append(effect.topic_partition.partition)
        do(world, effect)
    assert order == [0, 0, 1, 1, 2, 2] and logs.futures.logs == {}


def test_those_that_wait_for_room_are_looked_at_when_the_first_is_due_and_as_many_as_may_be_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, brokers=(1,), directories="2", num_replica_alter_log_dirs_threads="3")
    for index in range(5):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
        world.produce(1, b"x", index=index)
    logs, moves = world[1].logs, world[1].broker.replicas.moves
    world.copies = False
    begun_ms = world.now_ms
    with monkeypatch.context() as patch:
        patch.setattr(OsDirectory, "space", lambda directory: (1 << 40, 0))
        for index in range(5):
            here = logs.directory_of(TopicPartition("t", index))
            ask(world, next(path for path in world[1].log_dirs if path != here), index=index)
            world.advance(10)
    assert steps(world) == [] and moves.due_ms == begun_ms + RETRY_MS
    moves.go_on(begun_ms + 2 * RETRY_MS)
    assert [read.topic_partition.partition for read in steps(world)] == [0, 1, 2]


def test_the_place_of_one_that_is_cancelled_goes_to_the_next(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,), directories="2", num_replica_alter_log_dirs_threads="1")
    for index in range(3):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
        world.produce(1, b"x", index=index)
    logs = world[1].logs
    homes = [logs.directory_of(TopicPartition("t", index)) or "" for index in range(3)]
    world.copies = False
    for index, home in enumerate(homes):
        ask(world, next(path for path in world[1].log_dirs if path != home), index=index)
    world.advance(10)
    assert world[1].broker.replicas.moves.due_ms is None, "the others wait for the first"
    ask(world, homes[0])
    world.copies = True
    world.advance(10)
    assert [logs.directory_of(TopicPartition("t", index)) == homes[index] for index in range(3)] == [
        True,
        False,
        False,
    ]


# ---------------------------------------------------------------------------------------------------- throttled


def test_it_is_no_faster_than_it_may_be(tmp_path: Path) -> None:
    world = a_world(tmp_path, replica_fetch_max_bytes="70000")
    world[1].broker.broker_config_changed(
        "1", {"replica.alter.log.dirs.io.max.bytes.per.second": "100000"}, world.now_ms
    )
    for n in range(40):
        world.produce(1, bytes([n]) * 30_000)
    size = len(world[1].raw())
    began = world.now_ms
    ask(world, second(world))
    world.watch(lambda: where(world) == second(world), within_ms=60_000)
    took_s = (world.now_ms - began) / 1000
    # What is left at last goes at once, and is paid for by nobody.
    assert 0.7 * (size - LAST_BYTES) / 100_000 <= took_s <= 1.2 * size / 100_000


def test_a_rate_that_is_raised_counts_at_once(tmp_path: Path) -> None:
    world = a_world(tmp_path, replica_fetch_max_bytes="70000")
    broker = world[1].broker
    broker.broker_config_changed("1", {"replica.alter.log.dirs.io.max.bytes.per.second": "1"}, world.now_ms)
    for n in range(20):
        world.produce(1, bytes([n]) * 30_000)
    ask(world, second(world))
    world.advance(5_000)
    assert where(world) == first(world)
    broker.broker_config_changed("1", {}, world.now_ms)
    world.settle()
    assert where(world) == second(world)


# --------------------------------------------------------------------------------------------------- refused


def test_where_it_cannot_go_and_what_cannot_go_there(world: World) -> None:
    assert ask(world, "/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
    assert ask(world, second(world), topic="unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(world, second(world), topic="x" * 220) == ErrorCode.INVALID_TOPIC_EXCEPTION
    world[1].logs.left_out["/mnt/gone"] = DiskFault("no such device")
    assert ask(world, "/mnt/gone") == ErrorCode.KAFKA_STORAGE_ERROR
    assert ask(world, second(world)) == ErrorCode.KAFKA_STORAGE_ERROR, (
        "its copy may lie on the one that is gone"
    )
    assert world[1].logs.futures.logs == {}
    world[1].logs.left_out.clear()
    world[1].logs.directories[1].root.health.fail(DiskFault("gone"))
    assert ask(world, second(world)) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_move_goes_on_where_another_in_its_place_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,), directories="3")
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world.produce(1, b"x")
    under_way(world)
    world[1].logs.left_out["/mnt/gone"] = DiskFault("no such device")
    assert ask(world, world[1].log_dirs[2]) == ErrorCode.KAFKA_STORAGE_ERROR
    assert world[1].logs.futures.logs[T0].directory.path == second(world)
    assert ask(world, first(world)) == ErrorCode.NONE, "it may be cancelled"
    assert world[1].logs.futures.logs == {}


def test_a_replica_that_is_not_here_yet_is_made_there(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1, 2), directories="2")
    for index in range(4):
        key = TopicPartition("t", index)
        world.lead(2, isr=(2,), replicas=(2,), index=index, is_new=True)
        wanted = world[1].log_dirs[1]
        assert ask(world, wanted, index=index) == ErrorCode.REPLICA_NOT_AVAILABLE
        world.lead(2, isr=(2,), replicas=(2, 1), index=index)
        assert world[1].logs.directory_of(key) == wanted
    assert world[1].logs.futures.preferred == {}


def test_a_copy_on_its_way_into_a_directory_that_failed_is_not_kept_open(world: World) -> None:
    """As of its other logs, nothing is: the disk can be unmounted."""
    under_way(world)
    failed = Path(second(world))
    with no_collector():
        assert len(open_under(failed)) == 1
        world[1].logs.directories[1].root.health.fail(DiskFault("gone"))
        world.settle()
        assert open_under(failed) == []


def test_a_replica_on_a_failed_disk_goes_nowhere(world: World) -> None:
    world[1].logs.directories[0].root.health.fail(DiskFault("gone"))
    world.settle()
    assert ask(world, second(world)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert world[1].logs.futures.preferred == {}
