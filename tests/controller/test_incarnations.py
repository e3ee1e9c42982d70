"""Whose copy a new controller may count on: those that lived on, or came back after a clean stop (KIP-966, KIP-903)."""

from dataclasses import replace

import pytest

from odradek.controller.effects import WritePartitionState
from odradek.model.cluster import LeaderAndIsr
from odradek.model.facts import StoredPartitionState
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch
from tests.controller.world import World, registration, tp

NOW = {1: 101, 2: 102, 3: 103}  # the broker epochs of those that are registered


def left(
    isr: dict[int, int],
    elr: dict[int, int],
    *,
    leader: int,
    dead: tuple[int, ...] = (),
    clean: dict[int, int] | None = None,
) -> World:
    """e-0 on 2 and 3, min.insync.replicas 2, as the last controller left it: who was in the ISR, or eligible, in which
    life. `clean`: of those that came back after a clean stop, the life that stopped."""
    world = World().brokers(*(b for b in NOW if b not in dead))
    for broker, life in (clean or {}).items():
        world.registrations[broker] = registration(broker, NOW[broker], clean=life)
    world.store_topic("e", [[2, 3]])
    world.configs["e"] = {"min.insync.replicas": "2"}
    state = LeaderAndIsr(
        BrokerId(leader), LeaderEpoch(4), tuple(map(BrokerId, isr)), elr=tuple(map(BrokerId, elr))
    )
    world.states[tp("e-0")] = StoredPartitionState(
        state,
        ControllerEpoch(1),
        tuple(map(BrokerEpoch, isr.values())),
        elr_broker_epochs=tuple(map(BrokerEpoch, elr.values())),
    )
    world.controller_epoch = 1
    world.elect(1)
    return world


def found(world: World) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(leader, ISR, eligible, last known)."""
    state = world.states[tp("e-0")].leader_and_isr
    return state.leader, state.isr, state.elr, state.last_known_elr


def test_one_that_lived_on_is_eligible_still() -> None:
    world = left({2: 102}, {3: 103}, leader=2)
    assert found(world) == (2, (2,), (3,), ())
    assert not world.writes()
    world.kill(2)
    assert found(world)[0] == 3


def test_one_that_came_back_while_nobody_led_is_not() -> None:
    world = left({2: 102}, {3: 93}, leader=2)
    assert found(world) == (2, (2,), (), (3,))
    world.kill(2)
    assert found(world)[0] == -1, "3 may have come back without its records"


def test_one_that_came_back_after_a_clean_stop_is() -> None:
    world = left({2: 102}, {3: 93}, leader=2, clean={3: 93})
    assert found(world) == (2, (2,), (3,), ())


def test_a_clean_stop_of_a_life_in_between_proves_nothing() -> None:
    """Killed in life 93, and stopped in order in life 98, which began with who knows what."""
    assert found(left({2: 102}, {3: 93}, leader=2, clean={3: 98})) == (2, (2,), (), (3,))


def test_of_whom_the_node_names_no_life_nothing_is_believed() -> None:
    world = left({2: 102}, {3: -1}, leader=2)
    assert found(world) == (2, (2,), (), (3,))


def test_a_member_that_was_restarted_does_not_become_eligible_by_leaving() -> None:
    world = left({2: 102, 3: 93}, {}, leader=2)
    assert found(world) == (2, (2,), (), (3,))
    world.kill(2)
    assert found(world)[0] == -1


def test_one_that_was_restarted_in_order_does() -> None:
    assert found(left({2: 102, 3: 93}, {}, leader=2, clean={3: 93})) == (2, (2,), (3,), ())


def test_the_last_member_that_was_restarted_gives_its_place_to_one_that_has_everything() -> None:
    """Hole H2 at a takeover: led on by 2, what 2 had not flushed would be cut from 3 as well."""
    assert found(left({2: 92}, {3: 103}, leader=2)) == (3, (3,), (), (2,))


def test_it_waits_for_that_one_if_it_is_down() -> None:
    world = left({2: 92}, {3: 103}, leader=2, dead=(3,))
    assert found(world) == (-1, (2,), (3,), (2,))
    world.start_clean(3, stopped_as=103)
    assert found(world) == (3, (3,), (), (2,))


def test_where_nobody_has_everything_for_certain_all_are_asked() -> None:
    world = left({2: 92}, {3: 93}, leader=2)
    assert found(world) == (-1, (2,), (), (3, 2))
    assert world.context.polls[tp("e-0")].asked == (2, 3)


def test_a_dead_one_is_judged_by_the_life_the_store_knew_when_it_returns() -> None:
    world = left({2: 102}, {3: 93}, leader=2, dead=(3,))
    assert found(world) == (2, (2,), (3,), ()), "dead in the life that was meant"
    world.start_clean(3, stopped_as=98)
    assert found(world) == (2, (2,), (), (3,)), "98 was a life that nobody saw"


def test_one_that_died_in_another_life_than_the_node_means_is_not_eligible() -> None:
    """A controller that knew life 98 wrote so for e-1, and died before it had judged e-0."""
    world = World().brokers(1, 2)
    world.store_topic("e", [[2, 3], [2, 3]])
    world.configs["e"] = {"min.insync.replicas": "2"}
    for text, life in (("e-0", 93), ("e-1", 98)):
        state = LeaderAndIsr(BrokerId(2), LeaderEpoch(4), (BrokerId(2),), elr=(BrokerId(3),))
        world.states[tp(text)] = StoredPartitionState(
            state, ControllerEpoch(1), (BrokerEpoch(102),), elr_broker_epochs=(BrokerEpoch(life),)
        )
    world.controller_epoch = 1
    world.elect(1)
    assert [world.states[tp(text)].leader_and_isr.elr for text in ("e-0", "e-1")] == [(), (3,)]


@pytest.mark.parametrize("stored", [(), (103,)])
def test_of_a_node_of_another_store_nobody_is_eligible(stored: tuple[int, ...]) -> None:
    world = World().brokers(*NOW)
    world.store_topic("e", [[2, 3]])
    world.configs["e"] = {"min.insync.replicas": "2"}
    state = LeaderAndIsr(BrokerId(2), LeaderEpoch(4), (BrokerId(2),), elr=(BrokerId(3),))
    epochs = tuple(map(BrokerEpoch, stored))
    world.states[tp("e-0")] = replace(
        StoredPartitionState(state, ControllerEpoch(1), (), 1000), elr_broker_epochs=epochs
    )
    world.controller_epoch = 1
    world.elect(1)
    assert found(world) == (2, (2,), (), (3,))


def test_every_write_names_the_lives_of_those_that_are_eligible() -> None:
    world = left({2: 102, 3: 103}, {}, leader=2)
    world.kill(3)
    write = world.writes()[-1]
    assert isinstance(write, WritePartitionState)
    assert (write.isr_broker_epochs, write.elr_broker_epochs) == ((102,), (103,))


def test_who_is_no_replica_takes_nobodys_place_though_the_node_calls_it_eligible() -> None:
    """The assignment was written over it: broker 1 deletes what it has."""
    assert found(left({2: 92}, {1: 101}, leader=2))[:2] == (2, (2,))
    assert found(left({2: 92}, {1: 101, 3: 103}, leader=2))[:2] == (3, (3,))
