"""Who was restarted while there was no controller: the next one must not let it lead on in its old epoch."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from odradek.controller.bulk_moves import WORTH_IT
from odradek.controller.effects import Effects
from odradek.controller.events import EndOffsetsAnswered, LeaderAndIsrAnswered, Tick
from odradek.controller.unclean import PATIENCE_IN_DOUBT_MS
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import LogDirFailed
from odradek.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from tests.controller.world import World, lai, state, tp

IDS = (1, 2, 3)


def cluster(*, leader: int, isr: tuple[int, ...], epochs: tuple[int, ...] = (), zxid: int = -1) -> World:
    """t-0 as the last controller left it. Brokers 1, 2, 3 are registered with epochs 101, 102, 103."""
    world = World().brokers(*IDS)
    world.store_topic("t", [[3, 2, 1]])
    stored = state(leader, isr)
    world.states[tp("t-0")] = replace(
        stored, isr_broker_epochs=tuple(map(BrokerEpoch, epochs)), written_zxid=zxid
    )
    world.controller_epoch = 1
    return world


def told(effects: Effects, broker: int) -> tuple[int, tuple[int, ...], int]:
    (partition,) = lai(effects, broker)
    return partition.leader, partition.isr, partition.leader_epoch


def hear(world: World, ends: Mapping[int, int]) -> None:
    """The log end offset of each broker that answers, in epoch 0."""
    for broker, end in ends.items():
        world.step(EndOffsetsAnswered(BrokerId(broker), {tp("t-0"): (LeaderEpoch(0), Offset(end))}))


def test_nothing_is_written_when_everybody_is_who_he_was() -> None:
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(103, 102, 101))
    world.elect(1)
    assert not world.writes()
    assert world.leader("t-0") == (3, (3, 2, 1), 0)


def test_a_restarted_leader_hands_over_to_a_member_that_was_not_restarted() -> None:
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(99, 102, 101))
    effects = world.elect(1)
    assert world.leader("t-0") == (2, (2, 1), 1)
    assert [told(effects, broker) for broker in IDS] == [(2, (2, 1), 1)] * 3


def test_a_restarted_follower_leaves_the_isr_and_the_epoch_rises() -> None:
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(103, 98, 101))
    world.elect(1)
    assert world.leader("t-0") == (3, (3, 1), 1)


def test_if_everybody_was_restarted_the_one_that_holds_the_most_leads() -> None:
    """The power of one was cut, the others lost no more than their sessions, and nobody can say which. The leader led on, with nothing,
    and its followers truncated what they had. Found by the exhaustive search (power-cut, two brokers)."""
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(93, 92, 91))
    world.elect(1)
    assert world.leader("t-0") == (-1, (3, 2, 1), 1)
    hear(world, {3: 0, 2: 9, 1: 8})
    assert world.leader("t-0") == (2, (2,), 2)


@pytest.mark.parametrize("returns", [True, False])
def test_the_one_that_holds_the_most_is_waited_for_where_it_dies_behind_its_answer(*, returns: bool) -> None:
    """It may be back within the time that there is, with all that was acknowledged."""
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(93, 92, 91))
    world.elect(1)
    answers = {3: 9, 2: 7, 1: 8}
    hear(world, {3: 9})
    world.kill(3)
    hear(world, {2: 7, 1: 8})
    assert world.leader("t-0")[0] == -1
    if returns:
        world.start(3)
        hear(world, answers)
    else:
        world.now_ms += PATIENCE_IN_DOUBT_MS
        world.step(Tick())
    assert world.leader("t-0")[0] == (3 if returns else 1)


def test_the_one_that_dies_behind_its_answer_is_not_waited_for_where_another_holds_as_much() -> None:
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(93, 92, 91))
    world.elect(1)
    hear(world, {3: 9})
    world.kill(3)
    hear(world, {2: 9, 1: 8})
    assert world.leader("t-0")[0] == 2


def test_an_apache_broker_that_dies_behind_its_answer_is_compared_by_its_end() -> None:
    """It tells no epoch; were that its rank, it would be waited for nowhere."""
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(93, 92, 91))
    world.elect(1)
    world.step(EndOffsetsAnswered(BrokerId(3), {tp("t-0"): (LeaderEpoch(-1), Offset(9))}))
    world.kill(3)
    hear(world, {2: 7, 1: 8})
    assert world.leader("t-0")[0] == -1


@pytest.mark.parametrize(("held", "waits"), [({3: 9}, True), ({}, True), ({3: 8}, False)])
def test_the_one_that_died_is_waited_for_where_another_restarts(
    held: Mapping[int, int], *, waits: bool
) -> None:
    """Who started is asked anew, and with it all that are live; what the dead one answered still counts."""
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(93, 92, 91))
    world.elect(1)
    hear(world, held)
    world.kill(3)
    hear(world, {1: 8})
    world.bounce(2)
    hear(world, {2: 7, 1: 8})
    assert world.leader("t-0")[0] == (-1 if waits else 1)
    world.now_ms += PATIENCE_IN_DOUBT_MS
    world.step(Tick())
    assert world.leader("t-0")[0] == 1


def test_who_is_live_and_has_lost_its_disk_is_not_waited_for_where_another_restarts() -> None:
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(93, 92, 91))
    world.elect(1)
    asked = tuple(lai(world.step(LogDirFailed((BrokerId(3),))), 3))
    lost = {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    world.step(LeaderAndIsrAnswered(BrokerId(3), world.registrations[3].epoch, ErrorCode.NONE, lost, asked))
    world.bounce(2)
    hear(world, {2: 7, 1: 8})
    assert world.leader("t-0")[0] == 1


def test_one_of_them_that_leaves_meanwhile_is_not_eligible() -> None:
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(93, 92, 91))
    world.configs["t"] = {"min.insync.replicas": "3"}
    world.elect(1)
    world.kill(3)
    state = world.states[tp("t-0")].leader_and_isr
    assert (state.leader, state.isr, state.elr, set(state.last_known_elr)) == (-1, (2, 1), (), {1, 2, 3})


def test_many_in_doubt_stay_so_when_one_leaves() -> None:
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(93, 92, 91))
    world.store_topic("t", [[3, 2, 1]] * WORTH_IT)
    stored = world.states[tp("t-0")]
    for number in range(WORTH_IT):
        world.states[tp(f"t-{number}")] = stored
    world.elect(1)
    world.kill(3)
    for number in range(WORTH_IT):
        state = world.states[tp(f"t-{number}")].leader_and_isr
        assert (state.leader, state.isr, set(state.last_known_elr)) == (-1, (2, 1), {1, 2, 3})


def test_if_everybody_was_restarted_those_that_stopped_cleanly_stay() -> None:
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(93, 92, 91))
    world.registrations[2] = replace(world.registrations[2], clean_epoch=BrokerEpoch(92))
    world.elect(1)
    assert world.leader("t-0") == (2, (2,), 1)


def test_a_lone_restarted_leader_leads_on_in_a_new_epoch() -> None:
    world = cluster(leader=3, isr=(3,), epochs=(93,))
    world.elect(1)
    assert world.leader("t-0") == (3, (3,), 1)


def test_the_dead_leave_in_the_same_write_and_the_same_epoch() -> None:
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(103, 92, 101))
    del world.registrations[3]
    world.elect(1)
    assert world.leader("t-0") == (1, (1,), 1)
    assert len(world.writes()) == 1


def test_of_an_apache_controllers_node_it_counts_who_registered_after_it_was_written() -> None:
    world = cluster(leader=3, isr=(3, 2, 1), zxid=102)  # 3 came with 103
    world.elect(1)
    assert world.leader("t-0") == (2, (2, 1), 1)


def test_a_node_whose_age_is_not_known_is_trusted() -> None:
    world = cluster(leader=3, isr=(3, 2, 1))
    world.elect(1)
    assert not world.writes()


def test_every_write_names_the_incarnations_of_its_isr() -> None:
    world = cluster(leader=3, isr=(3, 2, 1), epochs=(103, 98, 101))
    world.elect(1)
    (write,) = world.writes()
    assert write.isr_broker_epochs == (103, 101)  # type: ignore[union-attr]
