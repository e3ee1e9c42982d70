"""Requests of a broker to another one that is gone before it has answered."""

from typing import Any

from odradek.broker import effects as fx
from odradek.model.ids import BrokerId
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.broker.world import World


def asked(world: World, broker: int, answers: list[Any]) -> int:
    """Under which id broker 1 has asked this one, which says nothing."""
    hub = world[1].broker
    assert hub.peers.ask(
        BrokerId(broker), WriteTxnMarkersRequest(markers=[]), 1, lambda result, now_ms: answers.append(result)
    )
    effect = hub.effects.pop()
    assert isinstance(effect, fx.SendToBroker)
    return effect.request_id


def test_what_a_broker_was_asked_is_given_up_when_it_is_not_live_any_more_and_not_by_its_silent_connection(
    world: World,
) -> None:
    world.lead(1)
    of_two: list[Any] = []
    of_three: list[Any] = []
    to_two, to_three = asked(world, 2, of_two), asked(world, 3, of_three)

    world.kill(2)
    world.notify_metadata([1])
    assert (of_two, of_three) == ([None], [])

    late = WriteTxnMarkersResponse(markers=[])
    for request_id in (to_two, to_three):
        world[1].broker.answered(request_id, late, world.now_ms)
    assert (of_two, of_three) == ([None], [late])
    world.notify_metadata([1])
    assert (of_two, of_three) == ([None], [late])
