"""A request with more rows than there can be reasons for is refused before it is taken apart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import core, row_limits
from odradek.broker.answers import Answer, CloseConnection, Reply
from odradek.broker.handlers.table import HANDLERS
from odradek.broker.produce_names import bytes_of_names
from odradek.broker.request import Request
from odradek.broker.row_limits import FEW_BYTES, LEAST_ROWS, LEAST_ROWS_OF_NEW, OF_CONTROLLERS
from odradek.broker.topic_creation import MOST_TOPICS
from odradek.model.error_codes import ErrorCode
from odradek.model.settings import BrokerSettings
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.protocol.api_keys import SERVED, ApiKey
from odradek.protocol.fields import FIXED, Struct, fields_at
from odradek.protocol.messages import create_topics as ct
from odradek.protocol.messages import list_offsets as lo
from odradek.protocol.messages import offset_for_leader_epoch as ofle
from odradek.protocol.messages import produce as pm
from odradek.protocol.messages import request_class
from odradek.protocol.messages import update_metadata as um
from odradek.protocol.primitives import ELEMENT_BUDGET, OBJECT_COST
from tests.broker.world import World

LAST = {key: SERVED[ApiKey(key)][1] for key in HANDLERS}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    return world


def give(world: World, key: int, version: int, body: bytes) -> Answer:
    connection = world.connection()
    request = Request(key, version, connection.id, "many", memoryview(bytearray(body)), connection)
    return world[1].broker.handle(request, world.now_ms)


def arrays(cls: type[Struct], version: int, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where its arrays are, however deep."""
    for line in fields_at(cls, version)[0]:
        if line.kind == "array":
            yield (*path, line.name)
            if isinstance(line.of, type):
                yield from arrays(line.of, version, (*path, line.name))


def filled(cls: type[Struct], version: int, path: tuple[str, ...], count: int) -> Any:
    """One of it with `count` elements in the array at `path`, and one in each array above that."""
    message = cls()
    line = next(line for line in fields_at(cls, version)[0] if line.name == path[0])
    if len(path) > 1:
        elements = [filled(line.struct, version, path[1:], count)]
    elif isinstance(line.of, type):
        elements = [line.of()] * count
    else:
        elements = [{"string": "x", "uuid": bytes(16)}.get(line.of or "", 0)] * count
    setattr(message, line.name, elements)
    return message


WAYS = [
    (key, path)
    for key in sorted(HANDLERS)
    if key not in OF_CONTROLLERS
    for path in arrays(request_class(key), LAST[key])
]


@pytest.mark.parametrize(("key", "path"), WAYS, ids=lambda value: str(value))
def test_too_many_rows_in_any_array_of_any_request_are_refused(
    world: World, key: int, path: tuple[str, ...]
) -> None:
    world[1].broker.controller_status(True, 1, world.now_ms)
    cls = request_class(key)
    line: Any = None
    holder: type[Struct] = cls
    for name in path:
        line = next(line for line in fields_at(holder, LAST[key])[0] if line.name == name)
        holder = line.of
    # Numbers count one each, anything else four.
    each = 1 if isinstance(line.of, str) and line.of in FIXED else OBJECT_COST
    count = LEAST_ROWS_OF_NEW * OBJECT_COST // each + 1
    answer = give(world, key, LAST[key], filled(cls, LAST[key], path, count).encode(LAST[key]))
    assert isinstance(answer, CloseConnection) and "more elements" in answer.reason


def test_there_are_such_requests() -> None:
    keys = {key for key, _ in WAYS}
    assert {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.METADATA,
        ApiKey.DELETE_RECORDS,
        ApiKey.ALTER_CONFIGS,
    } <= keys


def epochs(count: int) -> bytes:
    rows = [ofle.OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(count)]
    topic = ofle.OffsetForLeaderTopic(topic="t", partitions=rows)
    return ofle.OffsetForLeaderEpochRequest(topics=[topic]).encode(4)


def test_as_many_as_there_are_partitions_are_answered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice: a row for each of them, and one for its topic where that has no other."""
    monkeypatch.setattr(row_limits, "LEAST_ROWS", 10)
    monkeypatch.setattr(core, "FEW_BYTES", 0)
    broker = world[1].broker

    def is_answered(count: int) -> bool:
        return not isinstance(give(world, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, epochs(count)), CloseConnection)

    assert is_answered(9) and not is_answered(10), "the topic is a row too"
    states = [um.UpdateMetadataPartitionState(partition_index=index, leader=1) for index in range(20)]
    topic = um.UpdateMetadataTopicState(topic_name="t", topic_id=bytes(16), partition_states=states)
    broker.metadata.commit_update(um.UpdateMetadataRequest(controller_id=1, topic_states=[topic]), 0)
    assert is_answered(39) and not is_answered(40)


def test_few_bytes_are_not_counted_and_a_controller_is_not_bounded(world: World) -> None:
    limits = world[1].broker.row_limits
    connection = world.connection()

    def budget(key: int, size: int) -> int:
        return limits.budget(Request(key, 0, 1, None, memoryview(bytes(size)), connection))

    request = Request(ApiKey.PRODUCE, 9, 1, None, memoryview(bytes(FEW_BYTES - 1)), connection)
    world[1].broker.handle(request, world.now_ms)
    assert request.budget == ELEMENT_BUDGET and FEW_BYTES <= 2 * LEAST_ROWS
    assert budget(ApiKey.PRODUCE, 2 * LEAST_ROWS) == LEAST_ROWS * OBJECT_COST
    assert budget(ApiKey.CREATE_TOPICS, 1 << 20) == LEAST_ROWS_OF_NEW * OBJECT_COST
    for key in OF_CONTROLLERS:
        assert budget(key, 1 << 20) == ELEMENT_BUDGET


def test_a_row_that_is_refused_is_refused_as_ever(world: World) -> None:
    rows = [lo.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(1, LEAST_ROWS)]
    request = lo.ListOffsetsRequest(replica_id=-1, topics=[lo.ListOffsetsTopic(name="t", partitions=rows)])
    answer = world.send(1, request, 6)
    world.settle()
    assert {row.error_code for row in answer.message.topics[0].partitions} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


def test_so_many_topics_are_not_made_at_once(world: World) -> None:
    """Each that is taken costs ten times what one that is refused does."""
    world[1].broker.controller_status(True, 1, world.now_ms)
    topics = [
        ct.CreatableTopic(name=f"n{number}", num_partitions=1, replication_factor=1)
        for number in range(MOST_TOPICS + 1)
    ]
    world.notify_metadata()
    answer = world.send(1, ct.CreateTopicsRequest(topics=topics, timeout_ms=1000), 5)
    assert not answer.is_answered, "a thread refuses them: a row takes longer to write than to read"
    world.settle()
    assert {row.error_code for row in answer.message.topics} == {ErrorCode.POLICY_VIOLATION}


LARGE = 20_000


@pytest.mark.parametrize("key", sorted(set(HANDLERS) - row_limits.OF_ANY_SIZE))
def test_more_bytes_than_there_is_a_reason_for_are_refused_before_they_are_read(
    world: World, key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ninety megabytes of long names, in no more rows than there may be, took a third of a second of the loop."""
    for module in (core, row_limits):
        monkeypatch.setattr(module, "LEAST_BYTES", LARGE)
    broker = world[1].broker
    broker.broker_settings_changed(BrokerSettings({"message.max.bytes": "0"}), world.now_ms)
    version = LAST[key]

    def decode(*arguments: object, **named: object) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(request_class(key), "decode", decode)
    with_partitions = LARGE + row_limits.BYTES_OF_A_PARTITION * broker.metadata.partition_count
    answer = give(world, key, version, bytes(with_partitions + 1))
    assert isinstance(answer, CloseConnection) and "more than there is a reason for" in answer.reason


@pytest.mark.parametrize(
    ("key", "limit"), [(ApiKey.PRODUCE, 0), (ApiKey.LEADER_AND_ISR, 0), (ApiKey.JOIN_GROUP, 2 * LARGE)]
)
def test_what_has_a_reason_is_read_however_large(
    world: World, key: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (core, row_limits):
        monkeypatch.setattr(module, "LEAST_BYTES", LARGE)
    world[1].broker.broker_settings_changed(BrokerSettings({"message.max.bytes": str(limit)}), world.now_ms)
    answer = give(world, key, LAST[key], b"\xff" * (2 * LARGE))
    assert isinstance(answer, CloseConnection) and "reason for" not in answer.reason


def test_partitions_that_are_known_are_a_reason(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (core, row_limits):
        monkeypatch.setattr(module, "LEAST_BYTES", LARGE)
    broker = world[1].broker
    broker.broker_settings_changed(BrokerSettings({"message.max.bytes": "0"}), world.now_ms)
    world.notify_metadata()
    most = LARGE + row_limits.BYTES_OF_A_PARTITION * broker.metadata.partition_count
    assert most > LARGE
    answer = give(world, ApiKey.JOIN_GROUP, LAST[ApiKey.JOIN_GROUP], b"\xff" * most)
    assert isinstance(answer, CloseConnection) and "reason for" not in answer.reason


@pytest.mark.parametrize("version", [8, 9])
def test_a_produce_may_be_large_and_its_names_may_not(
    world: World, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ninety megabytes of names took 60 to 70 ms of a turn; of records nothing is made."""
    monkeypatch.setattr(row_limits, "LEAST_BYTES", LARGE)
    monkeypatch.setattr(core, "LEAST_BYTES", LARGE)

    def asked(names: int, records: int) -> CloseConnection | Reply:
        data = pm.PartitionProduceData(index=7, records=bytes(records))
        topics = [
            pm.TopicProduceData(name=f"{n}".ljust(1_000, "x"), partition_data=[data, data])
            for n in range(names)
        ]
        request = pm.ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics)
        answer = give(world, ApiKey.PRODUCE, version, request.encode(version))
        assert isinstance(answer, CloseConnection | Reply)
        return answer

    assert isinstance(asked(19, 2 * LARGE), Reply)
    refused = asked(21, 0)
    assert isinstance(refused, CloseConnection) and "of names" in refused.reason


def test_names_are_not_looked_for_behind_more_than_a_decoder_reads() -> None:
    """Each of so many partitions may have 127 tagged fields, of two bytes."""
    tag = bytes((100, 0))
    name = bytes((4,)) + b"abc"
    head = bytes((0, 0, 1, 0, 0, 0, 9, 3))  # no transactional id, acks, timeout, two topics
    partition = bytes((0, 0, 0, 0, 0))
    body = memoryview(
        head + name + bytes((2,)) + partition + bytes((9,)) + tag * 9 + bytes((0,)) + name + bytes((1, 0, 0))
    )
    for rows, named in ((0, 0), (1, 3), (11, 3), (12, 6), (100, 6)):
        assert bytes_of_names(9, body, rows) == named, rows


def test_a_name_that_is_none_takes_nothing_from_those_before_it() -> None:
    """Ninety megabytes of names, and as many lengths below zero behind them, were read after all."""
    name, none = bytes((0, 3)) + b"abc" + bytes(4), b"\x80\x00" + bytes(4)
    head = b"\xff\xff" + bytes((0, 1, 0, 0, 0, 9, 0, 0, 0, 3))
    assert bytes_of_names(8, memoryview(head + name + none + name), 100) == 6


def test_a_group_brings_as_much_as_the_topic_of_groups_takes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large groups have their bound raised there, with `max.message.bytes` of that topic, and nowhere else."""
    for module in (core, row_limits):
        monkeypatch.setattr(module, "LEAST_BYTES", LARGE)
    broker = world[1].broker
    broker.broker_settings_changed(BrokerSettings({"message.max.bytes": "0"}), world.now_ms)

    def reason(size: int) -> str:
        answer = give(world, ApiKey.SYNC_GROUP, LAST[ApiKey.SYNC_GROUP], b"\xff" * size)
        assert isinstance(answer, CloseConnection)
        return answer.reason

    assert "reason for" in reason(2 * LARGE)
    broker.replicas.topic_configs.set(GROUPS_TOPIC, {"max.message.bytes": str(2 * LARGE)})
    assert "reason for" not in reason(2 * LARGE)
    assert "reason for" in reason(3 * LARGE)


def test_partitions_that_are_here_are_a_reason_before_metadata_tell_of_them(world: World) -> None:
    """LeaderAndIsr comes first, and followers ask for all of them then."""
    limits = world[1].broker.row_limits
    assert not limits.has_reason(100_000)
    limits._hosted = range(100_000)
    assert limits.has_reason(100_000)
