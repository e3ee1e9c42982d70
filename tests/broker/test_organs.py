"""What an organ of the hub may count on: its deadline, the roles of this broker, and the log of what it leads."""

from collections.abc import Sequence

import pytest

from odradek.broker.leader_log import LeaderLog
from odradek.broker.organs import Organ, RoleChange
from odradek.log.errors import StorageError
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import LeaderEpoch, TopicPartition
from tests.broker.world import World, batch

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


class Settling:
    def __init__(self) -> None:
        self.outcomes: list[ErrorCode] = []

    def __call__(self, error: ErrorCode, now_ms: int) -> None:
        self.outcomes.append(error)


def listening_to(world: World, broker: int) -> Listening:
    organ = Listening()
    world[broker].broker.organs.append(organ)
    return organ


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


def appended(world: World, settling: Settling, *, timeout_ms: int = 5_000) -> None:
    log = leader_log(world)
    log.append(T0, memoryview(batch(b"a")), settling, timeout_ms=timeout_ms, now_ms=world.now_ms)


def leader_log(world: World) -> LeaderLog:
    broker = world[1].broker
    return LeaderLog(broker.replicas, broker.purgatory, broker.effects, broker.calls)


def test_an_append_is_settled_once_every_replica_in_sync_has_it(world: World) -> None:
    world.lead(1)
    settling = Settling()
    appended(world, settling)
    assert settling.outcomes == []
    world.settle()
    assert settling.outcomes == [ErrorCode.NONE]
    world.advance(10_000)
    assert settling.outcomes == [ErrorCode.NONE]


def test_an_append_of_a_replica_alone_is_settled_after_the_call(world: World) -> None:
    settling = Settling()
    appended(world, settling)
    assert settling.outcomes == []
    world.settle()
    assert settling.outcomes == [ErrorCode.NONE]


def test_an_append_fails_when_leadership_goes_or_time_is_up_or_is_refused(world: World) -> None:
    world.lead(1)
    world.kill(2)
    world.kill(3)
    lost, late = Settling(), Settling()
    appended(world, late, timeout_ms=100)
    world.advance(200)
    assert late.outcomes == [ErrorCode.REQUEST_TIMED_OUT]
    assert not world[1].partition().commit_waiters._line, "who waits no more leaves nothing behind"
    appended(world, lost)
    world.lead(2)
    assert lost.outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert late.outcomes == [ErrorCode.REQUEST_TIMED_OUT]
    refused = Settling()
    with pytest.raises(ProtocolError):
        appended(world, refused)
    world.advance(10_000)
    assert refused.outcomes == []


def test_a_log_is_read_in_slices_from_its_start_and_only_where_it_is_led(world: World) -> None:
    for value in (b"a", b"b", b"c"):
        world.produced(world.produce(1, value))
    log = leader_log(world)
    found: list[bytes | None] = []
    size = len(batch(b"a"))
    for offset in (0, 1, 2):
        assert log.read(T0, offset, size, lambda data, now_ms: found.append(data))
        world.settle()
    assert b"".join(data for data in found if data is not None) == world[1].raw()
    assert not log.read(T0, 3, size, lambda data, now_ms: found.append(data))
    world.lead(2)
    with pytest.raises(ProtocolError):
        log.read(T0, 0, size, lambda data, now_ms: found.append(data))
