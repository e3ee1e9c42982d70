"""DescribeLogDirs: what stands on the disks of one broker."""

from pathlib import Path

import pytest

from odradek.broker.handlers import describe_log_dirs
from odradek.log import segments
from odradek.log.errors import MissingFile, StorageError
from odradek.log.files import OsDirectory
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import describe_log_dirs as dl
from tests.broker.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    return world


def test_every_replica_is_listed_with_its_size_and_its_lag(world: World) -> None:
    world.produce(1, b"one", b"two")
    answer = world.call(1, dl.DescribeLogDirsRequest(topics=None), 4)
    (directory,) = answer.results
    assert directory.error_code == 0
    assert directory.log_dir == str(world[1].path)
    assert 0 < directory.usable_bytes <= directory.total_bytes
    (topic,) = directory.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index) == ("t", 0)
    assert partition.partition_size == len(world[1].raw()) > 0
    assert (partition.offset_lag, partition.is_future_key) == (0, False)


def test_only_what_was_asked_for_is_listed(world: World) -> None:
    other = [dl.DescribableLogDirTopic(topic="t", partitions=[1])]
    (directory,) = world.call(1, dl.DescribeLogDirsRequest(topics=other), 4).results
    assert directory.error_code == 0 and directory.topics == []
    here = [dl.DescribableLogDirTopic(topic="t", partitions=[0])]
    (directory,) = world.call(1, dl.DescribeLogDirsRequest(topics=here), 4).results
    assert [p.partition_index for topic in directory.topics for p in topic.partitions] == [0]


def test_a_log_that_is_not_hosted_has_no_lag(world: World) -> None:
    del world[1].broker.replicas.partitions[TopicPartition("t", 0)]
    (directory,) = world.call(1, dl.DescribeLogDirsRequest(topics=None), 4).results
    assert [p.offset_lag for topic in directory.topics for p in topic.partitions] == [-1]


def test_an_offline_directory_says_so_and_lists_nothing(world: World) -> None:
    world[1].logs.directories[0].root.health.fail(StorageError("the disk is gone"))
    (directory,) = world.call(1, dl.DescribeLogDirsRequest(topics=None), 4).results
    assert directory.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert directory.topics == [] and directory.total_bytes == -1


def test_a_directory_that_could_not_be_opened_at_the_start_is_named(world: World) -> None:
    world[1].logs.left_out["/mnt/gone"] = StorageError("no such device")
    good, gone = world.call(1, dl.DescribeLogDirsRequest(topics=None), 4).results
    assert (good.error_code, gone.error_code) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
    assert gone.log_dir == "/mnt/gone"


def test_the_segments_of_one_log_are_looked_at_so_many_in_a_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their sizes are asked of the disk once."""
    monkeypatch.setattr(segments, "SIZES_AT_ONCE", 3)
    log = world[1].logs.logs[TopicPartition("t", 0)]
    for _ in range(8):
        world.produce(1, b"one")
        log.roll(world.now_ms)
    log.flush(world.now_ms)
    size_bytes = log.size_bytes
    log.segments.close_handles()
    for segment in log.segments:
        segment._size_bytes = -1
    asked = []
    size = OsDirectory.size
    monkeypatch.setattr(OsDirectory, "size", lambda here, name: asked.append(name) or size(here, name))
    world[1].broker.take_effects()
    for turns_wanted in (3, 1):
        pending = world.send(1, dl.DescribeLogDirsRequest(topics=None), 4)
        turns = 1
        while not pending.is_answered:
            world[1].broker.go_on(world.now_ms)
            turns += 1
        ((partition,),) = [topic.partitions for topic in pending.message.results[0].topics]
        assert partition.partition_size == size_bytes
        assert len(asked) == 9
        assert turns == turns_wanted


def test_a_log_of_which_a_file_is_missing_is_left_out_and_the_others_are_listed(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1,), index=1, is_new=True)
    log = world[1].logs.logs[TopicPartition("t", 0)]
    world.produce(1, b"one")
    log.roll(world.now_ms)
    log.flush(world.now_ms)
    (world[1].path / "t-0" / log.segments[0].name()).unlink()
    log.segments[0]._size_bytes = -1
    (directory,) = world.call(1, dl.DescribeLogDirsRequest(topics=None), 4).results
    assert [p.partition_index for topic in directory.topics for p in topic.partitions] == [1]
    assert isinstance(log.failure, MissingFile)


def test_segments_are_looked_at_so_many_in_a_turn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that nobody reads the sizes are asked of the disk."""
    monkeypatch.setattr(describe_log_dirs, "SEGMENTS_AT_ONCE", 3)
    for index in range(1, 8):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
    world[1].broker.take_effects()
    pending = world.send(1, dl.DescribeLogDirsRequest(topics=None), 4)
    broker, turns = world[1].broker, 1
    world[1].logs.delete(TopicPartition("t", 7), world.now_ms)
    while broker.go_on(world.now_ms):
        turns += 1
    assert turns == 2 and pending.is_answered
    (directory,) = pending.message.results
    assert [p.partition_index for topic in directory.topics for p in topic.partitions] == list(range(7))
