"""Nonsense to every handler: an answer or a closed connection, never an exception, and nothing is lost by it."""

import random
from pathlib import Path

import pytest

from odradek.broker.answers import CloseConnection, NoReply, Park, Reply
from odradek.broker.request import Request
from odradek.model.error_codes import ErrorCode
from odradek.protocol.api_keys import SERVED, ApiKey
from tests.broker.world import World
from tests.support import golden_lines

KEYS = sorted(map(int, SERVED))
ROUNDS = 40


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world.produce(1, b"before")
    world[1].broker.controller_status(True, 1, world.now_ms)
    return world


def give(world: World, key: int, version: int, body: bytes) -> object:
    connection = world.connection()  # its number serves as correlation id: those of a controller must rise
    request = Request(key, version, connection.id, "fuzz", memoryview(bytearray(body)), connection)
    answer = world[1].broker.handle(request, world.now_ms)
    assert isinstance(answer, Reply | Park | NoReply | CloseConnection)
    if isinstance(answer, Reply):
        for buffer in answer.buffers:
            assert isinstance(buffer, bytes | bytearray | memoryview) or buffer.size_bytes >= 0
    world[1].broker.take_effects()
    return answer


def still_serves(world: World) -> None:
    """What was acknowledged before is there, and a well-formed request is served as ever."""
    values = world[1].values()
    assert values[0] == b"before"
    assert world.produced(world.produce(1, b"after"))[0] == ErrorCode.NONE


def golden(key: int) -> list[tuple[int, bytes]]:
    return [
        (line["version"], bytes.fromhex(line["hex"]))
        for line in golden_lines("wire.jsonl.gz")
        if line["key"] == key and line["type"] == "request"
    ]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: ApiKey(key).name.lower())
def test_random_bytes(world: World, key: int) -> None:
    dice = random.Random(key)
    first, last = SERVED[ApiKey(key)]
    for version in range(first, last + 1):
        for _ in range(ROUNDS):
            give(world, key, version, dice.randbytes(dice.randrange(0, 80)))
    still_serves(world)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: ApiKey(key).name.lower())
def test_well_formed_requests_cut_short_or_with_bytes_turned(world: World, key: int) -> None:
    dice = random.Random(key)
    for version, body in golden(key):
        first, last = SERVED[ApiKey(key)]
        if not first <= version <= last:
            continue
        for _ in range(4):
            cut = body[: dice.randrange(len(body))] if body else b""
            if cut != body:
                assert not isinstance(give(world, key, version, cut), NoReply) or key == ApiKey.PRODUCE
            turned = bytearray(body)
            for _ in range(dice.randrange(1, 4)):
                if turned:
                    turned[dice.randrange(len(turned))] = dice.randrange(256)
            give(world, key, version, bytes(turned))
    # A turned byte may have been a word of command in the right place; only look that the broker lives.
    world[1].broker.tick(world.now_ms + 1_000)
    world[1].broker.take_effects()


@pytest.mark.parametrize("key", KEYS, ids=lambda key: ApiKey(key).name.lower())
def test_requests_of_apaches_classes_with_arbitrary_values(world: World, key: int) -> None:
    """The golden vectors: every field set, extremes, nulls. They mean nothing here, and that must be said."""
    first, last = SERVED[ApiKey(key)]
    served = 0
    for version, body in golden(key):
        if first <= version <= last:
            answer = give(world, key, version, body)
            if isinstance(answer, CloseConnection):
                assert key == ApiKey.PRODUCE, f"version {version} could not be read: {answer.reason}"
            served += 1
    assert served >= 1
    world.advance(120_000, settle=False)
    assert len(world[1].broker.purgatory) == 0, "whatever was parked has been answered"
    if key not in (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA):
        assert world[1].values()[0] == b"before"


@pytest.mark.parametrize("count", [0x7FFFFFFF, 0xFFFFFFFE, 1_000_000])
def test_an_absurd_count_is_refused_before_anything_is_made_room_for(world: World, count: int) -> None:
    body = b"\xff\xff" + b"\0\1" + b"\0\0\0\x05" + count.to_bytes(4, "big") + b"\0\1t"
    assert isinstance(give(world, 0, 3, body), CloseConnection)
    body = (
        b"\xff\xff\xff\xff" + b"\0" * 4 + b"\0" * 4 + b"\0" * 4 + b"\0" + b"\0" * 8 + count.to_bytes(4, "big")
    )
    assert isinstance(give(world, 1, 10, body), CloseConnection)
    still_serves(world)


def test_every_cut_of_a_produce_request_is_noticed_and_appends_nothing(world: World) -> None:
    from odradek.protocol.messages import produce as pm
    from tests.broker.world import batch

    body = pm.ProduceRequest(
        acks=1,
        topic_data=[
            pm.TopicProduceData(
                name="t", partition_data=[pm.PartitionProduceData(index=0, records=batch(b"abc"))]
            )
        ],
    ).encode(9)
    for end in range(len(body)):
        assert isinstance(give(world, 0, 9, body[:end]), CloseConnection)
    assert world[1].values() == [b"before"]
    assert isinstance(give(world, 0, 9, body), Reply)


def test_every_bit_of_a_batch_counts(world: World) -> None:
    """Wrong CRC, magic, length, attributes, count: refused with a code, and the log stays as it was."""
    from tests.broker.world import batch

    good = batch(b"abc")
    dice = random.Random(1)
    for _ in range(300):
        bad = bytearray(good)
        place = dice.randrange(len(bad))
        if place < 8 or 12 <= place < 16:
            continue  # base offset and leader epoch are the leader's to write
        bad[place] ^= 1 << dice.randrange(8)
        assert world.produced(world.produce(1, records=bytes(bad)))[0] != ErrorCode.NONE
    assert world[1].values() == [b"before"]
