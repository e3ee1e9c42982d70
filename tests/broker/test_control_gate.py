"""Control requests of somebody whom the store does not know. What the store says is answered by the test."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker import control_gate
from odradek.broker.answers import CloseConnection
from odradek.broker.effects import ControlEpochs, LogLine, ReadControlEpochs, StoreFailed, StoreRequest
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, ControllerEpoch
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import stop_replica as sr
from odradek.protocol.messages import update_metadata as um
from tests.broker.world import T0, Pending, World, live_broker, told

LARGEST = 2**31 - 1
ELECTED = ControllerEpoch(7)
NONE, STALE_CONTROLLER, STALE_BROKER = (
    ErrorCode.NONE,
    ErrorCode.STALE_CONTROLLER_EPOCH,
    ErrorCode.STALE_BROKER_EPOCH,
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Broker 1 of 1 leads t-0, and the store has told it that controller 1 was elected in epoch 7."""
    world = World(tmp_path, [1])
    world.controller_epoch = ELECTED
    world.lead(1, isr=(1,), replicas=(1,), epoch=5)
    world.produce(1, b"a")
    gate(world).known = ControlEpochs(ELECTED, BrokerId(1))
    world[1].broker.take_effects()
    return world


def gate(world: World) -> control_gate.ControlGate:
    return world[1].broker.control_gate


def requests(**claims: Any) -> list[tuple[Any, int]]:
    """One of each kind, and its version; each would harm t-0."""
    partition = lai.LeaderAndIsrPartitionState(
        partition_index=0, controller_epoch=LARGEST, leader=3, leader_epoch=1000, isr=[3], replicas=[1, 3]
    )
    told = um.UpdateMetadataPartitionState(
        partition_index=0, controller_epoch=LARGEST, leader=66, leader_epoch=1000, isr=[66], replicas=[66]
    )
    stopped = sr.StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
    return [
        (
            lai.LeaderAndIsrRequest(
                topic_states=[lai.LeaderAndIsrTopicState(topic_name="t", partition_states=[partition])],
                **claims,
            ),
            7,
        ),
        (
            sr.StopReplicaRequest(
                topic_states=[sr.StopReplicaTopicState(topic_name="t", partition_states=[stopped])], **claims
            ),
            4,
        ),
        (
            um.UpdateMetadataRequest(
                topic_states=[um.UpdateMetadataTopicState(topic_name="t", partition_states=[told])],
                live_brokers=[live_broker(1)],
                **claims,
            ),
            8,
        ),
    ]


def questions(world: World) -> list[StoreRequest]:
    return [e for e in world[1].broker.take_effects() if isinstance(e, StoreRequest)]


def store_says(world: World, question: StoreRequest, epoch: int, controller: int = 1) -> None:
    told = ControlEpochs(ControllerEpoch(epoch), BrokerId(controller))
    world[1].broker.answered(question.request_id, told, world.now_ms)


def is_unharmed(world: World) -> bool:
    told = world[1].broker.metadata.partition("t", 0)
    return (
        world[1].partition().leader_epoch == 5
        and world[1].values() == [b"a"]
        and told is not None
        and told.leader == 1
        and world[1].broker.replicas.controller_epoch == ELECTED
    )


def lead_again(world: World, *, epoch: int = ELECTED, controller: int = 1) -> Pending:
    world.leadership[T0]["leader_epoch"] = 6
    world.controller_epoch, world.controller_id = epoch, controller
    return world.send(1, world.leader_and_isr(T0, broker_epoch=world[1].epoch), 7)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_an_epoch_the_store_does_not_know_is_not_believed(world: World, kind: int) -> None:
    message, version = requests(controller_id=66, controller_epoch=LARGEST, broker_epoch=-1)[kind]
    forged = world.send(1, message, version)
    (question,) = questions(world)
    assert question.question == ReadControlEpochs(ControllerEpoch(LARGEST))
    assert not forged.is_answered and is_unharmed(world)
    store_says(world, question, ELECTED)
    assert forged.message.error_code == STALE_CONTROLLER
    assert is_unharmed(world)
    (line,) = [e for e in world[1].broker.take_effects() if isinstance(e, LogLine)]
    assert f"claims controller 66, controller epoch {LARGEST}" in line.text
    assert "the store knows controller 1, controller epoch 7" in line.text
    assert lead_again(world).message.error_code == NONE, "who was elected is obeyed as before"


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_broker_epoch_that_nobody_gave_us_is_not_believed(world: World, kind: int) -> None:
    """Obeyed, everything that names our true epoch would be late from then on (`control_order`)."""
    message, version = requests(controller_id=1, controller_epoch=ELECTED, broker_epoch=2**63 - 1)[kind]
    assert world.send(1, message, version).message.error_code == STALE_BROKER
    assert is_unharmed(world)
    assert lead_again(world).message.error_code == NONE


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_larger_broker_epoch_waits_until_we_have_registered_and_is_believed_if_it_is_ours(
    world: World, kind: int
) -> None:
    world[1].broker.registering()
    message, version = requests(controller_id=1, controller_epoch=ELECTED, broker_epoch=2**63 - 1)[kind]
    forged = world.send(1, message, version)
    world[1].epoch += 10
    rightful = lead_again(world)
    assert not forged.is_answered and not rightful.is_answered and is_unharmed(world)
    world[1].broker.registered(world[1].epoch, world.now_ms)
    assert forged.message.error_code == STALE_BROKER
    assert rightful.message.topics[0].partition_errors[0].error_code == NONE
    assert world[1].partition().leader_epoch == 6 and world[1].values() == [b"a"]


def test_while_we_register_our_former_epoch_is_obeyed_as_before(world: World) -> None:
    world[1].broker.registering()
    assert lead_again(world).message.error_code == NONE
    assert world[1].partition().leader_epoch == 6


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_the_epoch_that_leads_is_not_believed_of_another_broker(world: World, kind: int) -> None:
    message, version = requests(controller_id=2, controller_epoch=ELECTED, broker_epoch=-1)[kind]
    assert world.send(1, message, version).message.error_code == STALE_CONTROLLER
    assert is_unharmed(world) and questions(world) == []


def test_a_look_that_finds_no_controller_any_more_does_not_forget_who_was_elected(world: World) -> None:
    """It has given its place up: its epoch is the largest still, and nobody else's."""
    message, version = requests(controller_id=66, controller_epoch=LARGEST, broker_epoch=-1)[0]
    world.send(1, message, version)
    (question,) = questions(world)
    world[1].broker.answered(question.request_id, ControlEpochs(ELECTED, None), world.now_ms)
    assert lead_again(world, controller=66).message.error_code == STALE_CONTROLLER
    assert is_unharmed(world)
    assert lead_again(world, controller=1).message.error_code == NONE


def test_a_new_controller_waits_for_one_look_and_what_it_sent_is_obeyed_in_order(world: World) -> None:
    first = lead_again(world, epoch=8, controller=2)
    world.leadership[T0]["leader_epoch"] = 7
    second = world.send(1, world.leader_and_isr(T0, broker_epoch=world[1].epoch), 7)
    (question,) = questions(world)
    store_says(world, question, 8, controller=2)
    assert first.message.topics[0].partition_errors[0].error_code == NONE
    assert second.message.topics[0].partition_errors[0].error_code == NONE
    assert world[1].partition().leader_epoch == 7
    world.leadership[T0]["leader_epoch"] = 8
    assert world.send(1, world.leader_and_isr(T0, broker_epoch=world[1].epoch), 7).is_answered
    assert questions(world) == [], "an epoch that the store has told is not looked up again"


def test_who_comes_while_a_look_is_under_way_is_not_judged_by_it(world: World) -> None:
    """The look may have read before the election."""
    (message, version) = requests(controller_id=66, controller_epoch=LARGEST, broker_epoch=-1)[1]
    forged = world.send(1, message, version)
    (question,) = questions(world)
    rightful = lead_again(world, epoch=8, controller=2)
    store_says(world, question, ELECTED)
    assert forged.message.error_code == STALE_CONTROLLER
    assert not rightful.is_answered
    world.now_ms += control_gate.READ_INTERVAL_MS
    world[1].broker.tick(world.now_ms)
    (again,) = questions(world)
    store_says(world, again, 8, controller=2)
    assert rightful.message.error_code == NONE and world[1].partition().leader_epoch == 6


def test_a_stranger_makes_a_broker_neither_ask_without_end_nor_keep_without_end(world: World) -> None:
    (message, version) = requests(controller_id=66, controller_epoch=LARGEST, broker_epoch=-1)[1]
    reads, lines = 0, 0
    began_ms = world.now_ms
    while world.now_ms < began_ms + 1000:
        sent = [world.send(1, message, version) for _ in range(control_gate.MOST_HELD + 5)]
        closed = [p for p in sent if isinstance(p.result, CloseConnection)]
        assert len(closed) >= 5 and len(gate(world).held) <= control_gate.MOST_HELD
        effects = world[1].broker.take_effects()
        lines += sum(isinstance(effect, LogLine) for effect in effects)
        for question in effects:
            if isinstance(question, StoreRequest):
                reads += 1
                store_says(world, question, ELECTED)
        world.now_ms += 10
        world[1].broker.tick(world.now_ms)
    assert reads <= 1000 / control_gate.READ_INTERVAL_MS + 1
    assert lines == 1
    assert is_unharmed(world)


def test_requests_of_connections_that_are_gone_take_no_room_from_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that hears nothing for long sends them again over another one."""
    monkeypatch.setattr(control_gate, "MOST_HELD", 3)
    for _ in range(3):
        lead_again(world, epoch=ELECTED + 1)
    assert len(gate(world).held) == 2, "the first waits for a look that is under way"
    for held in gate(world).held:
        held.place.abandon()
    again = lead_again(world, epoch=ELECTED + 1)
    assert not again.is_answered and len(gate(world).held) == 1


def test_while_the_store_is_away_an_unknown_epoch_waits(world: World) -> None:
    """And what came meanwhile waits behind it: by its number the controller's first would else come late."""
    waiting = [lead_again(world, epoch=8, controller=2)]
    for again in range(3):
        (question,) = questions(world)
        world.leadership[T0]["leader_epoch"] = 7 + again
        waiting.append(world.send(1, world.leader_and_isr(T0, broker_epoch=world[1].epoch), 7))
        world[1].broker.answered(question.request_id, StoreFailed("away"), world.now_ms)
        assert not any(one.is_answered for one in waiting)
        deadline_ms = world[1].broker.next_deadline_ms()
        assert deadline_ms <= world.now_ms + control_gate.READ_INTERVAL_MS
        world.now_ms = deadline_ms
        world[1].broker.tick(world.now_ms)
    (question,) = questions(world)
    assert question.question == ReadControlEpochs(ControllerEpoch(8))
    store_says(world, question, 8, controller=2)
    errors = [one.message.topics[0].partition_errors[0].error_code for one in waiting]
    assert errors == [NONE] * 4 and world[1].partition().leader_epoch == 9


def test_the_controller_of_this_process_needs_no_look(world: World) -> None:
    world[1].broker.controller_status(True, 8, world.now_ms)
    assert lead_again(world, epoch=8, controller=1).message.error_code == NONE
    assert questions(world) == []


@pytest.mark.parametrize("version", range(9))
def test_metadata_in_which_this_broker_is_not_live_is_no_controllers(world: World, version: int) -> None:
    """Found by requests drawn at random: with the right epochs, which before version 5 are small numbers, one without brokers
    left clients of the broker without any address."""
    broker = world[1].broker
    known = broker.metadata.brokers
    elsewhere = live_broker(1)
    elsewhere.endpoints[0].listener = "OTHER"
    unnamed = [[], [live_broker(2)], *([[elsewhere]] if version >= 3 else [])]
    # An address that nobody can connect to is none either, and of two that are told the last one counts.
    nowhere = [live_broker(1, port=2**31 - 1), live_broker(1, port=-1), live_broker(1, host="")]
    unnamed += [*([one] for one in nowhere), *([live_broker(1), one] for one in nowhere)]
    for live in unnamed:
        message = um.UpdateMetadataRequest(controller_id=1, controller_epoch=ELECTED, live_brokers=live)
        assert world.send(1, message, version).message.error_code == ErrorCode.INVALID_REQUEST
        assert broker.metadata.brokers == known and known[1].endpoints
    (line,) = told(world, LogLine)
    assert "this one does not name broker 1" in line.text
    named = um.UpdateMetadataRequest(
        controller_id=1, controller_epoch=ELECTED, live_brokers=[live_broker(1), live_broker(2)]
    )
    assert world.send(1, named, version).message.error_code == ErrorCode.NONE
    assert list(broker.metadata.brokers) == [1, 2]
