"""However often a request repeats one row, its answer grows by little more than a row each time: what stands behind a row,
thousands of partitions, offsets, members or producers, is told once. Every array of every request is tried.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.handlers.table import HANDLERS
from odradek.broker.row_limits import OF_CONTROLLERS
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.fields import Struct, fields_at
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import request_class
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tests.broker.test_row_limits import LAST, arrays
from tests.broker.world import World, batch

LARGE = 200  # partitions, offsets, members, producers
TIMES = 50
BYTES_OF_A_ROW = 250
# What the large things are called, by the names of fields.
BIG, GROUP, LED = "big", "g", "t"
NAMES = {
    "topic": LED,
    "name": LED,
    "topic_name": BIG,
    "group": GROUP,
    "group_id": GROUP,
    "groups": GROUP,
    "groups_names": GROUP,
    "group_ids": GROUP,
    "coordinator_keys": GROUP,
    "resource_name": LED,
}
OF_TOPICS = {ApiKey.METADATA: BIG, ApiKey.DESCRIBE_TOPIC_PARTITIONS: BIG}
WAYS = [
    (key, path)
    for key in sorted(HANDLERS)
    if key not in OF_CONTROLLERS
    for path in arrays(request_class(key), LAST[key])
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    path: Path = tmp_path_factory.mktemp("large")
    world = World(path, brokers=(1,), offsets_topic_replication_factor="1")
    world.coordinate_alone(LARGE)
    world.advance(20)
    rows = [OffsetCommitRequestPartition(partition_index=n, committed_offset=n) for n in range(LARGE)]
    commit = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name=BIG, partitions=rows)])
    world.call(1, commit, 8)
    for producer_id in range(LARGE):
        world.produce(1, records=batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0))
    for _ in range(LARGE):
        join = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m" * 20)],
        )
        world.send(1, join, 3)
    yield world


def repeated(cls: type[Struct], key: int, path: tuple[str, ...], count: int) -> Any:
    """A request with `count` equal rows at `path`, and one in each array above that; all of it about what is large."""
    message = cls()
    for line in fields_at(cls, LAST[key])[0]:
        if line.name in NAMES and line.kind == "string":
            setattr(message, line.name, OF_TOPICS.get(ApiKey(key), NAMES[line.name]))
        elif line.name == "resource_type":
            setattr(message, line.name, 2)
        elif line.name == "topics" and not path and cls is OffsetFetchRequestGroup:
            setattr(message, line.name, None)  # all that it has
        elif path and line.name == path[0]:
            if isinstance(line.of, type):
                times = count if len(path) == 1 else 1
                elements = [repeated(line.of, key, path[1:], count) for _ in range(times)]
            else:
                elements = [NAMES.get(line.name, "x") if line.of == "string" else 0] * count
                if line.of == "uuid":
                    elements = [bytes(16)] * count
            setattr(message, line.name, elements)
    return message


def answered(world: World, key: int, path: tuple[str, ...], count: int) -> int:
    """Bytes; 0 where there is no answer now."""
    body = repeated(request_class(key), key, path, count).encode(LAST[key])
    frame = encode_request(key, LAST[key], 1, "many", body)[4:]
    sizes: list[int] = []

    class Place:
        def put(self, result: Any) -> None:
            sizes.append(sum(map(len, getattr(result, "buffers", ()))))

    place: Any = Place()
    world.send_frame(1, frame, place, world.connection())
    world.settle()
    return sizes[0] if sizes else 0


@pytest.mark.parametrize(("key", "path"), WAYS, ids=lambda value: str(value))
def test_an_answer_grows_with_the_rows_and_not_with_what_stands_behind_them(
    world: World, key: int, path: tuple[str, ...]
) -> None:
    assert answered(world, key, path, TIMES) <= 2 * answered(world, key, path, 1) + TIMES * BYTES_OF_A_ROW


def test_large_things_are_behind_a_row(world: World) -> None:
    large = {
        (key, path) for key, path in WAYS if len(path) == 1 and answered(world, key, path, 1) > 5 * LARGE
    }
    assert {ApiKey(key) for key, _ in large} >= {
        ApiKey.METADATA,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
