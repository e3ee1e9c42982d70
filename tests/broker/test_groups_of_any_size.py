"""Groups that are larger than a record, a batch or what was committed: the error that is said, and the next request is served."""

from typing import Any

import pytest

from odradek.broker.answers import CloseConnection
from odradek.broker.request import Request
from odradek.model.error_codes import ErrorCode
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.test_group_shards import code_of, commit, fetched, go_on, led_by, ready
from tests.broker.world import Pending, World


def join(world: World, group: str, metadata: bytes) -> Pending:
    return world.send(
        1,
        JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        ),
        3,
    )


def synced(world: World, group: str, joined: Any, assignment: bytes) -> Any:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
    )
    return world.call(1, request, 3)


@pytest.mark.parametrize(("metadata", "assignment"), [(1 << 20, 0), (0, 1 << 20), (600_000, 600_000)])
def test_a_group_whose_metadata_fits_no_record_never_stabilises_and_is_told_so(
    world: World, metadata: int, assignment: int
) -> None:
    ready(world)
    large, small = join(world, "large", b"x" * metadata), join(world, "small", b"x")
    world.advance(3_000)

    refused = synced(world, "large", large.message, b"y" * assignment)
    served = synced(world, "small", small.message, b"y")

    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (served.error_code, served.assignment) == (0, b"y")
    again = join(world, "large", b"x")
    world.advance(30_000)
    assert again.message.error_code == 0, "with less to say it is a member as any other"
    assert synced(world, "large", again.message, b"y").error_code == 0


PARTITION = (
    b"\0\0\0\0" + b"\0" * 7 + b"\5" + b"\xff" * 4 + b"\1\0"
)  # index, offset, leader epoch, metadata, tags


def test_a_commit_of_400_000_partitions_is_refused_before_it_is_taken_apart(world: World) -> None:
    """Where there are so many, `rows-there-is-reason-for` lets it in, and what no batch takes is refused by its size."""
    ready(world)
    names = b"\2g" + b"\xff" * 4 + b"\1" + b"\0"  # group, generation, member, instance
    topics = b"\2" + b"\2t" + b"\x81\xb5\x18"  # one topic, 400,000 partitions
    body = names + topics + PARTITION * 400_000 + b"\0\0"
    connection = world.connection()
    request = Request(8, 8, 1, "many", memoryview(bytearray(body)), connection)

    answer = world[1].broker.handle(request, world.now_ms)

    assert isinstance(answer, CloseConnection) and "more elements" in answer.reason
    assert code_of(world.call(1, commit(5), 8)) == 0


def test_what_an_unclean_election_took_of_a_group_is_not_there_and_the_next_commit_is(world: World) -> None:
    ready(world)
    assert code_of(world.call(1, commit(5), 8)) == 0
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, isr=(1,), topic=GROUPS_TOPIC, topic_id=b"o" * 16)
    assert code_of(world.call(1, commit(9), 8)) == 0, "committed, as far as those in sync go"
    world.kill(1)

    world.lead(2, isr=(2,), replicas=(1, 2, 3), topic=GROUPS_TOPIC, topic_id=b"o" * 16)
    world.lead(2, isr=(2,))
    go_on(world, 2)

    assert fetched(world, 2, "g") == {"g": (0, [5])}
    assert code_of(world.call(2, commit(10), 8)) == 0
    assert fetched(world, 2, "g") == {"g": (0, [10])}


def test_a_larger_batch_that_is_allowed_while_the_coordinator_lives_counts_at_once(world: World) -> None:
    ready(world)
    for size, code in (("50", ErrorCode.INVALID_COMMIT_OFFSET_SIZE), ("5000", ErrorCode.NONE)):
        for broker in (1, 2, 3):
            changed = {"max.message.bytes": size}
            world[broker].broker.topic_config_changed(GROUPS_TOPIC, changed, world.now_ms)
        if code:
            led_by(world, 2)  # its coordinator begins with that size
            world.lead(2)
            go_on(world, 2)
        assert code_of(world.call(2, commit(5), 8)) == code
