"""Blocks of producer ids."""

import pytest

from odradek.controller.events import Conflict, Requested
from odradek.controller.producer_ids import LAST_PRODUCER_ID
from odradek.model.controller_requests import AllocateProducerIdsAnswer, AllocateProducerIdsAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import ProducerIdBlock, UnreadableNode
from odradek.model.ids import BrokerEpoch, BrokerId
from tests.controller.world import World, answer_of, three


def ask(world: World, broker: int = 2, epoch: int | None = None) -> AllocateProducerIdsAnswer:
    registered = world.registrations[broker].epoch if broker in world.registrations else 0
    event = Requested(
        1, AllocateProducerIdsAsked(BrokerId(broker), BrokerEpoch(registered if epoch is None else epoch))
    )
    answer = answer_of(world.step(event))
    assert isinstance(answer, AllocateProducerIdsAnswer)
    return answer


def test_blocks_of_a_thousand_follow_each_other() -> None:
    world = three()
    assert ask(world) == AllocateProducerIdsAnswer(ErrorCode.NONE, 0, 1000)
    assert ask(world, 3) == AllocateProducerIdsAnswer(ErrorCode.NONE, 1000, 1000)
    assert world.producer_ids == ProducerIdBlock(BrokerId(3), 1000, 1999, 2)


def test_the_successor_goes_on_after_the_last_block() -> None:
    world = three()
    ask(world)
    world.elect(2)
    assert ask(world).first_producer_id == 1000


def test_a_block_that_another_controller_gave_out_is_not_given_again() -> None:
    world = three()
    world.before_write = lambda writes: setattr(
        world, "producer_ids", ProducerIdBlock(BrokerId(3), 0, 999, 4)
    )
    assert ask(world).first_producer_id == 1000


def test_a_block_whose_answer_was_lost_is_skipped_never_doubled() -> None:
    world = three()
    world.lose_answers = True
    assert ask(world).first_producer_id == 1000


@pytest.mark.parametrize(
    ("broker", "epoch", "error"),
    [
        (9, 1, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (2, 1, ErrorCode.STALE_BROKER_EPOCH),
        (2, -1, ErrorCode.STALE_BROKER_EPOCH),  # the default of the wire is nobody's
        (2, 10_000, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_strangers_get_nothing(broker: int, epoch: int, error: ErrorCode) -> None:
    world = three()
    assert ask(world, broker, epoch) == AllocateProducerIdsAnswer(error)
    assert world.writes() == []


def test_when_ids_run_out_that_is_said() -> None:
    world = three()
    world.context.producer_ids = ProducerIdBlock(BrokerId(1), 0, LAST_PRODUCER_ID - 10, 0)
    assert ask(world).error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_where_the_last_block_cannot_be_read_none_is_given_out() -> None:
    """Rather none than one twice, and nobody resigns for it."""
    world = three()
    world.context.producer_ids = None
    assert ask(world).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.writes() == []


def test_a_block_that_was_damaged_under_us_ends_it() -> None:
    world = three()
    damaged = UnreadableNode("/latest_producer_id_block", "not JSON")
    world.answer_one = lambda write: Conflict(damaged)  # type: ignore[method-assign]
    assert ask(world).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.core.context is not None


def test_who_is_not_controller_gives_nothing_out() -> None:
    world = three()
    world.core.context = None
    assert ask(world).error is ErrorCode.NOT_CONTROLLER
