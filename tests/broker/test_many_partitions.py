"""What is asked of each of very many partitions is asked of some in a turn."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.broker import replica_manager
from odradek.broker.replica_manager import ReplicaManager
from odradek.model.ids import BrokerId
from odradek.replication.isr import PendingShrinkIsr
from odradek.replication.partition import Partition
from tests.broker.world import World

COUNT = 11
Ask = Callable[[Partition, int], None]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Broker 1 leads, with a record that 2 has not fetched."""
    world = World(tmp_path, brokers=(1, 2))
    for index in range(COUNT):
        world.lead(1, index=index, isr=(1, 2), replicas=(1, 2), is_new=True, settle=False)
    for index in range(COUNT):
        world.produce(1, b"x", index=index)
    monkeypatch.setattr(replica_manager, "ASKED_AT_ONCE", 4, raising=False)
    monkeypatch.setattr(replica_manager, "ASKED_IN_A_SLICE", 3, raising=False)
    return world


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    asked: list[int] = []
    for name in ("shrink_if_lagging", "live_brokers_changed"):
        ask = getattr(Partition, name)

        def asking(partition: Partition, now_ms: int, ask: Ask = ask) -> None:
            asked.append(partition.topic_partition.partition)
            ask(partition, now_ms)

        monkeypatch.setattr(Partition, name, asking)
    return asked


@pytest.mark.parametrize("ask", [ReplicaManager.shrink_lagging, ReplicaManager.live_brokers_changed])
def test_some_are_asked_in_a_turn_and_all_in_the_end(
    world: World, asked: list[int], ask: Callable[[ReplicaManager, int], None]
) -> None:
    broker = world[1].broker
    later_ms = world.now_ms + broker.settings.replica_lag_time_max_ms + 1
    ask(broker.replicas, later_ms)
    assert asked == [0, 1, 2, 3]
    turns = []
    while broker.go_on(later_ms):
        turns.append(len(asked))
    assert turns == [7, 10] and asked == list(range(COUNT))


def test_followers_that_lag_leave_every_isr_and_nobody_is_asked_twice_meanwhile(
    world: World, asked: list[int]
) -> None:
    broker = world[1].broker
    later_ms = world.now_ms + broker.settings.replica_lag_time_max_ms + 1
    broker.replicas.shrink_lagging(later_ms)
    broker.replicas.shrink_lagging(later_ms)
    assert asked == [0, 1, 2, 3]
    while broker.go_on(later_ms):
        pass
    states = [partition.state for partition in broker.replicas.partitions.values()]
    assert states == [PendingShrinkIsr((BrokerId(1), BrokerId(2)), (BrokerId(2),))] * COUNT
    broker.replicas.shrink_lagging(later_ms)
    assert asked[COUNT:] == [0, 1, 2, 3], "and it is asked again"
