"""A throttled move between two brokers, by the clock: who is held back, for how long, and who is not (KIP-73)."""

from pathlib import Path

import pytest

from odradek.model.ids import EPOCH_DURING_DELETE
from tests.broker.test_fetch import Reader
from tests.broker.world import T0, TOPIC_ID, World, batch

SIZE = 10_000
BATCHES = 40


def world_with(tmp_path: Path, topic: dict[str, str], rates: dict[str, str]) -> World:
    """1 leads with 400 KB, alone in the ISR; 2 has just been added and has nothing."""
    world = World(
        tmp_path, brokers=(1, 2), replica_fetch_max_bytes=str(SIZE), replica_fetch_wait_max_ms="500"
    )
    world.configs["topics", "t"] = topic
    world.lead(1, isr=(1,), replicas=(1,), tell=[1], is_new=True)
    for _ in range(BATCHES):
        world.produce(1, records=batch(b"x" * (SIZE - 100)))
    for broker in (1, 2):
        world[broker].broker.broker_config_changed("<default>", rates, world.now_ms)
    world.lead(1, isr=(1,), replicas=(1, 2), is_new=True)
    return world


def copied(world: World) -> int:
    return int(world[2].partition().log.log_end_offset)


def after(world: World, milliseconds: int) -> int:
    """Batches that arrived by then."""
    end = world.now_ms + milliseconds
    while world.now_ms < end:
        world.advance(50)
    return copied(world)


LEADER = {"leader.replication.throttled.replicas": "0:1"}, {"leader.replication.throttled.rate": "20000"}
FOLLOWER = (
    {"follower.replication.throttled.replicas": "0:2"},
    {"follower.replication.throttled.rate": "20000"},
)


@pytest.mark.parametrize("side", [LEADER, FOLLOWER], ids=["leader", "follower"])
def test_two_batches_a_second_and_no_more(
    tmp_path: Path, side: tuple[dict[str, str], dict[str, str]]
) -> None:
    world = world_with(tmp_path, *side)
    assert after(world, 1000) <= 6, "the first window has no past to count with"
    before = copied(world)
    arrived = after(world, 8000) - before
    assert 12 <= arrived <= 20, arrived
    assert after(world, 20_000) == BATCHES
    assert set(world[1].partition().isr) == {1, 2}


@pytest.mark.parametrize("side", [LEADER, FOLLOWER], ids=["leader", "follower"])
def test_the_rate_is_changed_and_lifted_without_a_restart(
    tmp_path: Path, side: tuple[dict[str, str], dict[str, str]]
) -> None:
    world = world_with(tmp_path, *side)
    after(world, 2000)
    assert copied(world) < BATCHES / 2
    for broker in (1, 2):
        world[broker].broker.broker_config_changed("<default>", {}, world.now_ms)
    assert after(world, 2000) == BATCHES


@pytest.mark.parametrize("lifted", ["rate", "list"])
@pytest.mark.parametrize("side", [LEADER, FOLLOWER], ids=["leader", "follower"])
def test_a_throttle_that_is_lifted_holds_nobody_back_any_longer(
    tmp_path: Path, side: tuple[dict[str, str], dict[str, str]], lifted: str
) -> None:
    """At one byte a second the first batch has used up all eleven windows."""
    world = world_with(tmp_path, side[0], dict.fromkeys(side[1], "1"))
    after(world, 500)
    assert copied(world) == 1
    for broker in (1, 2):
        if lifted == "rate":
            world[broker].broker.broker_config_changed("<default>", {}, world.now_ms)
        else:
            world[broker].broker.topic_config_changed("t", {}, world.now_ms)
    assert after(world, 600) == BATCHES


@pytest.mark.parametrize("side", [LEADER, FOLLOWER], ids=["leader", "follower"])
def test_who_is_in_sync_is_never_held_back(
    tmp_path: Path, side: tuple[dict[str, str], dict[str, str]]
) -> None:
    """A throttle that was forgotten after the move must not make acks=all slow, or push anybody out of the ISR."""
    world = world_with(tmp_path, *side)
    after(world, 30_000)
    assert set(world[1].partition().isr) == {1, 2}
    pending = [world.produce(1, records=batch(b"y" * (SIZE - 100))) for _ in range(60)]
    world.settle()
    world.advance(100)
    assert all(answer.is_answered for answer in pending), "600 KB at 20 KB/s would take half a minute"


@pytest.mark.parametrize(
    "topic",
    [{}, {"leader.replication.throttled.replicas": "0:2", "follower.replication.throttled.replicas": "0:1"}],
    ids=["none", "others"],
)
def test_replicas_that_are_not_listed_are_copied_as_fast_as_they_can(
    tmp_path: Path, topic: dict[str, str]
) -> None:
    world = world_with(tmp_path, topic, {**LEADER[1], **FOLLOWER[1]})
    assert after(world, 500) == BATCHES


def test_a_replica_that_is_deleted_is_covered_by_no_throttle_any_more(tmp_path: Path) -> None:
    """Else its name would stay for ever, and every fetch would be looked at for it."""
    world = world_with(tmp_path, {**LEADER[0], **FOLLOWER[0]}, {**LEADER[1], **FOLLOWER[1]})
    leader, follower = world[1].broker.replicas, world[2].broker.replicas
    assert leader.leader_throttle.covered == follower.follower_throttle.covered == {T0}
    for broker in (1, 2):
        assert world.stop_replica(broker, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == 0
    assert leader.leader_throttle.covered == follower.follower_throttle.covered == set()


def test_a_fetch_that_is_held_back_when_records_come_is_looked_at_as_soon_as_the_rate_allows_it(
    tmp_path: Path,
) -> None:
    """And not at the end of its patience only: it may have come when there was nothing to hold back. Nor is there news of the high
    watermark while another member of the ISR hangs."""
    world = World(tmp_path, brokers=(1,))
    world.configs["topics", "t"] = LEADER[0]
    world.lead(1, isr=(1, 3), replicas=(1, 2, 3), is_new=True)
    world[1].broker.broker_config_changed("<default>", LEADER[1], world.now_ms)
    follower = Reader(world, replica_id=2, max_wait_ms=60_000)
    follower.fetch((TOPIC_ID, 0, 0), version=14)
    waiting = follower.fetch(version=14)
    throttle = world[1].broker.replicas.leader_throttle
    throttle.record(40_000, world.now_ms)
    world.advance(100)
    assert not waiting.is_answered

    for _ in range(3):
        world.produce(1, records=batch(b"x"), acks=1)
        world.advance(10)
        assert not waiting.is_answered, "it is held back"
    world.advance(throttle.free_at_ms(world.now_ms) - world.now_ms + 4)

    assert waiting.is_answered
