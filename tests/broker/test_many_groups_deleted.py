"""DeleteGroups of very many: in slices, so that nobody else waits for all of them."""

from pathlib import Path

from odradek.broker import coordinator_calls
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.broker.world import World


def test_each_is_answered_and_no_turn_asks_about_many(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,), offsets_topic_replication_factor="1")
    world.coordinate_alone(0)
    world.advance(20)
    names = [f"group-{number}" for number in range(3 * coordinator_calls.NAMES_AT_ONCE)]

    pending = world.send(1, DeleteGroupsRequest(groups_names=[*names, *names[:10]]), 2)
    assert not pending.is_answered
    slices = 1
    while world[1].broker.go_on(world.now_ms):
        assert not pending.is_answered
        slices += 1
    world.settle()

    assert slices == 3
    assert {row.group_id: row.error_code for row in pending.message.results} == dict.fromkeys(
        names, ErrorCode.GROUP_ID_NOT_FOUND
    )
