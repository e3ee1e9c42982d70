"""InitProducerId and the blocks of ids behind it."""

import pytest

from odradek.broker import effects as fx
from odradek.broker.handlers.init_producer_id import WAIT_MS
from odradek.broker.pending_calls import PendingCalls
from odradek.broker.producer_ids import RETRY_MS, ProducerIds
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.protocol.messages import allocate_producer_ids as apm
from odradek.protocol.messages import init_producer_id as ip
from tests.broker.world import Pending, World, told


@pytest.mark.behaviour("T1", "T5")
def test_producer_ids_come_from_blocks_asked_for_when_they_run_low(world: World) -> None:
    def init() -> Pending:
        return world.send(2, ip.InitProducerIdRequest(transactional_id=None), 4)

    waiting = [init(), init()]
    (effect,) = told(world, fx.SendToController, 2)
    assert (effect.api_key, effect.message.broker_id, effect.message.broker_epoch) == (67, 2, world[2].epoch)
    assert effect.max_version in apm.AllocateProducerIdsRequest.VERSIONS
    answered = apm.AllocateProducerIdsResponse(producer_id_start=1_000, producer_id_len=1_000)
    world[2].broker.answered(effect.request_id, answered, world.now_ms)
    world.settle()
    assert [p.message.producer_id for p in waiting] == [1_000, 1_001]
    assert [p.message.producer_epoch for p in waiting] == [0, 0]
    ids = [init().message.producer_id for _ in range(998)]
    assert ids == list(range(1_002, 2_000))
    (effect,) = told(world, fx.SendToController, 2)
    assert not init().is_answered
    answered = apm.AllocateProducerIdsResponse(producer_id_start=7_000, producer_id_len=1_000)
    world[2].broker.answered(effect.request_id, answered, world.now_ms)
    assert init().message.producer_id == 7_001


@pytest.mark.parametrize(
    ("size", "error", "is_used"),
    [
        (1, ErrorCode.NONE, True),
        (0, ErrorCode.NONE, False),
        (-1, ErrorCode.NONE, False),
        (1, ErrorCode.STALE_BROKER_EPOCH, False),
    ],
)
def test_a_block_has_one_id_at_least_and_what_is_none_is_asked_for_again(
    world: World, size: int, error: ErrorCode, is_used: bool
) -> None:
    asked = world.send(2, ip.InitProducerIdRequest(transactional_id=None), 4)
    (effect,) = told(world, fx.SendToController, 2)
    block = apm.AllocateProducerIdsResponse(error_code=error, producer_id_start=1_000, producer_id_len=size)
    world[2].broker.answered(effect.request_id, block, world.now_ms)
    world.settle()
    assert asked.is_answered == is_used and world[2].broker.producer_ids.due_ms == (
        None if is_used else world.now_ms + RETRY_MS
    )
    world.advance(RETRY_MS)
    assert len(told(world, fx.SendToController, 2)) == 1, "the same again, or the next one"
    assert world[2].broker.producer_ids.due_ms is None, "until there is an answer"


def test_a_controller_that_cannot_be_reached_is_asked_again_and_the_client_hears_to_retry(
    world: World,
) -> None:
    asked = world.send(2, ip.InitProducerIdRequest(transactional_id=None), 4)
    for _ in range(3):
        (effect,) = told(world, fx.SendToController, 2)
        world[2].broker.answered(effect.request_id, None, world.now_ms)
        world.advance(60)
    told(world, fx.SendToController, 2)
    world.advance(WAIT_MS - 3 * 60 - 1)
    assert not asked.is_answered
    world.advance(1)
    assert asked.message.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_whoever_asks_before_the_broker_is_registered_is_asked_for_when_it_is(world: World) -> None:
    """And not when something else is due, up to five seconds later."""
    broker = world[2].broker
    broker.broker_epoch = broker.producer_ids.broker_epoch = None
    world.send(2, ip.InitProducerIdRequest(transactional_id=None), 4)
    assert told(world, fx.SendToController, 2) == []
    broker.registered(500, world.now_ms)
    (effect,) = told(world, fx.SendToController, 2)
    assert effect.message.broker_epoch == 500


def test_whoever_finds_no_id_left_in_a_block_waits_for_the_next_one(world: World) -> None:
    waiting = [world.send(2, ip.InitProducerIdRequest(transactional_id=None), 4) for _ in range(3)]
    for start in (1_000, 7_000, 9_000):
        (effect,) = told(world, fx.SendToController, 2)
        block = apm.AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=1)
        world[2].broker.answered(effect.request_id, block, world.now_ms)
    assert [asked.message.producer_id for asked in waiting] == [1_000, 7_000, 9_000]


def test_a_broker_that_is_not_registered_yet_asks_for_ids_as_soon_as_it_is() -> None:
    effects: list[fx.Effect] = []
    ids = ProducerIds(BrokerId(2), effects, PendingCalls())
    ids.wait(lambda producer_id, now_ms: None)
    ids.ask_if_low()
    ids.tick(0)
    assert effects == []
    ids.broker_epoch = BrokerEpoch(50)
    ids.tick(1)
    (effect,) = effects
    assert isinstance(effect, fx.SendToController) and effect.message.broker_epoch == 50
    ids.tick(2)
    ids.ask_if_low()
    assert len(effects) == 1, "it is asked for"


def test_the_next_block_is_asked_for_once_when_nine_tenths_of_this_one_are_used() -> None:
    effects: list[fx.Effect] = []
    calls = PendingCalls()
    ids = ProducerIds(BrokerId(2), effects, calls)
    ids.broker_epoch = BrokerEpoch(50)

    def asked_for() -> bool:
        ids.ask_if_low()
        ids.tick(0)
        if not effects:
            return False
        (effect,) = effects
        assert isinstance(effect, fx.SendToController)
        effects.clear()
        block = apm.AllocateProducerIdsResponse(producer_id_start=1_000, producer_id_len=1_000)
        calls.answered(effect.request_id, block, 0)
        return True

    assert asked_for()
    for used in range(1, 1_001):
        assert ids.take() is not None
        assert asked_for() == (used == 901)


def test_an_id_is_not_given_to_whoever_was_told_to_try_again(world: World) -> None:
    late = world.send(2, ip.InitProducerIdRequest(transactional_id=None), 4)
    (effect,) = told(world, fx.SendToController, 2)
    world.advance(WAIT_MS)
    waiting = world.send(2, ip.InitProducerIdRequest(transactional_id=None), 4)
    block = apm.AllocateProducerIdsResponse(producer_id_start=1_000, producer_id_len=1_000)
    world[2].broker.answered(effect.request_id, block, world.now_ms)
    assert late.message.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert waiting.message.producer_id == 1_000


def test_clients_that_come_while_the_controller_cannot_be_reached_do_not_make_it_be_asked_more_often(
    world: World,
) -> None:
    def init() -> list[fx.SendToController]:
        world.send(2, ip.InitProducerIdRequest(transactional_id=None), 4)
        return told(world, fx.SendToController, 2)

    (effect,) = init()
    world[2].broker.answered(effect.request_id, None, world.now_ms)
    assert [init() for _ in range(3)] == [[], [], []]
    world.advance(RETRY_MS - 1)
    assert told(world, fx.SendToController, 2) == []
    world.advance(1)
    assert len(told(world, fx.SendToController, 2)) == 1


@pytest.mark.parametrize(
    ("name", "timeout", "error"),
    [
        ("tx", 60_000, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("tx", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("tx", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("", 60_000, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_transactional_producer_hears_what_is_wrong_with_its_request(
    world: World, name: str, timeout: int, error: ErrorCode
) -> None:
    request = ip.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout)
    answer = world.call(1, request, 4)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)


@pytest.mark.parametrize("named", [{"producer_id": 5}, {"producer_epoch": 5}])
def test_a_producer_names_its_id_and_its_epoch_or_neither_also_without_transactions(
    world: World, named: dict[str, int]
) -> None:
    """As Apache 3.9.1."""
    answer = world.call(1, ip.InitProducerIdRequest(transactional_id=None, **named), 4)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (
        ErrorCode.INVALID_REQUEST,
        -1,
        -1,
    )
