"""Brokers with two log directories, and how a test sends a replica from one to the other."""

from pathlib import Path
from typing import Any

from odradek.broker import effects as fx
from odradek.broker.log_moves import data_of
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import alter_replica_log_dirs as arl
from odradek.protocol.messages import describe_log_dirs as dl
from tests.broker.world import T0, World, told


def a_world(path: Path, brokers: tuple[int, ...] = (1,), **settings: str) -> World:
    world = World(path, brokers=brokers, directories="2", **settings)
    world.lead(1, isr=brokers, replicas=brokers, is_new=True)
    return world


def five_records(tmp_path: Path) -> World:
    world = a_world(tmp_path)
    for n in range(5):
        world.produce(1, b"%d" % n)
    assert where(world) == first(world)
    return world


def first(world: World, broker: int = 1) -> str:
    return world[broker].log_dirs[0]


def second(world: World, broker: int = 1) -> str:
    return world[broker].log_dirs[1]


def where(world: World, broker: int = 1) -> str | None:
    return world[broker].logs.directory_of(T0)


def ask(
    world: World, path: str, *, topic: str = "t", index: int = 0, broker: int = 1, version: int = 2
) -> ErrorCode:
    request = arl.AlterReplicaLogDirsRequest(
        dirs=[
            arl.AlterReplicaLogDir(
                path=path, topics=[arl.AlterReplicaLogDirTopic(name=topic, partitions=[index])]
            )
        ]
    )
    (row,) = world.send(broker, request, version).message.results
    assert row.topic_name == topic
    (partition,) = row.partitions
    assert partition.partition_index == index
    return ErrorCode(partition.error_code)


def described(world: World, broker: int = 1) -> dict[str, list[tuple[str, int, bool]]]:
    """By directory: (partition, lag, is it a copy on its way)."""
    answer = world.send(broker, dl.DescribeLogDirsRequest(topics=None), 4).message
    return {
        row.log_dir: [
            (f"{topic.name}-{p.partition_index}", p.offset_lag, p.is_future_key)
            for topic in row.topics
            for p in topic.partitions
        ]
        for row in answer.results
    }


def steps(world: World, broker: int = 1) -> list[Any]:
    """What its copies wait for, with `world.copies = False`."""
    return [e for kind in (fx.ReadSlices, fx.FlushLog) for e in told(world, kind, broker)]


def do(world: World, effect: Any, broker: int = 1) -> None:
    if isinstance(effect, fx.ReadSlices):
        world[broker].broker.answered(effect.request_id, data_of(effect.slices), world.now_ms)
    else:
        effect.plan.run()
        world[broker].broker.answered(effect.request_id, fx.Flushed(effect.plan, None), world.now_ms)


def lines(world: World, broker: int = 1) -> str:
    return "\n".join(line.text for line in told(world, fx.LogLine, broker))


def under_way(world: World) -> fx.ReadSlices:
    world.copies = False
    ask(world, second(world))
    (read,) = steps(world)
    assert isinstance(read, fx.ReadSlices)
    return read


def futures(world: World) -> list[str]:
    return [p.name for path in world[1].log_dirs for p in Path(path).glob("*-future")]
