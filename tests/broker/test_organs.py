"""What an organ of the hub may count on: its deadline, and the roles of this broker."""

from collections.abc import Sequence

from odradek.broker.organs import Organ, Periodic, RoleChange
from odradek.log.errors import StorageError
from odradek.model.ids import LeaderEpoch, TopicPartition
from tests.broker.world import World

T0 = TopicPartition("t", 0)


class Listening(Organ):
    def __init__(self) -> None:
        self.due_ms = None
        self.ticks: list[int] = []
        self.heard: list[RoleChange] = []

    def tick(self, now_ms: int) -> None:
        self.ticks.append(now_ms)
        self.due_ms = None

    def roles_changed(self, changes: Sequence[RoleChange], now_ms: int) -> None:
        self.heard += changes


def listening_to(world: World, broker: int) -> Listening:
    organ = Listening()
    world[broker].broker.organs.append(organ)
    return organ


def test_what_is_done_again_and_again_is_done_so_often_and_not_more() -> None:
    done: list[int] = []
    interval_ms = [10]
    organ = Periodic(100, lambda: interval_ms[0], done.append)
    for now_ms in (99, 100, 105, 109, 110, 125, 134, 135):
        organ.tick(now_ms)
    assert done == [100, 110, 125, 135] and organ.due_ms == 145
    interval_ms[0] = 1_000
    organ.tick(145)
    assert organ.due_ms == 1_145


def role(leads: bool, epoch: int) -> RoleChange:
    return RoleChange(T0, leads, LeaderEpoch(epoch))


def test_an_organ_is_called_when_its_time_has_come_and_the_broker_asks_to_be_called_then(
    world: World,
) -> None:
    organ = listening_to(world, 1)
    broker = world[1].broker
    before = broker.next_deadline_ms()
    organ.due_ms = world.now_ms + 3
    assert broker.next_deadline_ms() == world.now_ms + 3
    broker.tick(world.now_ms + 3)
    assert organ.ticks == [world.now_ms + 3]
    assert broker.next_deadline_ms() >= before


def test_whichever_organ_is_due_first_is_known_however_often_each_changes_its_mind(world: World) -> None:
    organs = [listening_to(world, 1) for _ in range(3)]
    broker = world[1].broker
    soon = min(world.now_ms + 1_000_000, broker.next_deadline_ms())
    for due in ([9, 5, 7], [9, 8, 7], [None, 8, None], [2, None, 3], [2, 1, 0], [None, None, 4]):
        for organ, at_ms in zip(organs, due, strict=True):
            organ.due_ms = at_ms
            assert broker.next_deadline_ms() == min(
                [soon, *(one.due_ms for one in organs if one.due_ms is not None)]
            )


def test_an_organ_hears_of_every_leadership_and_of_its_end(world: World) -> None:
    first, second = listening_to(world, 1), listening_to(world, 2)
    world.lead(1)
    world.lead(2)
    assert first.heard == [role(True, 1), role(False, 2)]
    assert second.heard == [role(False, 1), role(True, 2)]
    world.stop_replica(2, T0, leader_epoch=2)
    world.settle()
    assert second.heard[-1] == role(False, 2)


def test_what_is_told_again_in_the_same_epoch_is_no_change(world: World) -> None:
    organ = listening_to(world, 1)
    world.lead(1)
    world.tell_leader(1, T0)
    world.settle()
    assert organ.heard == [role(True, 1)]


def test_a_partition_whose_disk_is_gone_is_led_no_more(world: World) -> None:
    organ = listening_to(world, 1)
    world.lead(1)
    world[1].broker.replicas.take_offline([T0], StorageError("gone"))
    world.settle()
    assert organ.heard == [role(True, 1), role(False, 1)]
