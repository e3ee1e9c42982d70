"""What parts of a broker say of themselves: each is broken by hand in a world, and found; and a mutation that a small world shows so."""

from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.organs import Periodic
from odradek.broker.unchecked_produces import Unchecked
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.timers import Kind, Timer, Timers
from odradek.log.flushing import FlushState
from odradek.log.leader_epochs import EpochEntry
from odradek.replication.isr import PendingExpandIsr
from odradek.sim.observed.beliefs import at_work
from odradek.sim.observed.parts import Parts, _groups
from odradek.sim.observed.watch import Watch
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_beliefs import T, healthy_world
from tests.support import each


def _a_name(core: Any) -> None:
    core.metadata.names[b"another"] = "t"


def _an_id(core: Any) -> None:
    core.metadata.topic_ids["gone"] = core.metadata.names[b"0"] = b"0"
    core.metadata.names = {b"0": "gone", **{i: n for n, i in core.metadata.topic_ids.items()}}


def _an_empty_topic(core: Any) -> None:
    core.metadata.topics["empty"] = {}


def _a_count_of_sessions(core: Any) -> None:
    core.fetch_sessions._partitions += 1


def _a_reader(core: Any) -> None:
    core.replicas.partitions[T].follower_readers.clear()


def _a_proposal(core: Any) -> None:
    replica = core.replicas.partitions[T]
    replica.state = PendingExpandIsr(replica.state.isr[:2], replica.state.isr[2:])


def _a_proposal_that_is_due(core: Any) -> None:
    core.isr_channel._retries[T] = 7, core.replicas.partitions[T]


def _a_waiter_that_nobody_would_tell(core: Any) -> None:
    waiter = next(iter(next(bucket for bucket in core.purgatory._buckets.values() if bucket)))
    waiter._keys = ("nobody",)


def _a_waiter_that_is_done(core: Any) -> None:
    next(iter(next(bucket for bucket in core.purgatory._buckets.values() if bucket))).is_done = True


def _a_time_of_organs(core: Any) -> None:
    core.organs._earliest_ms += 1


def _a_timer(core: Any) -> None:
    organ = next(one for one in core.organs if type(one) is Periodic)
    organ._at_ms += 10_000_000


def _a_high_watermark(core: Any) -> None:
    core.replicas.partitions[T].high_watermark += 1


def _a_start(core: Any) -> None:
    core.replicas.partitions[T].log.segments[0].base_offset += 1


def _a_point_of_recovery(core: Any) -> None:
    log = core.replicas.partitions[T].log
    log.flushed = FlushState(log.log_end_offset + 1)


def _an_epoch(core: Any) -> None:
    core.replicas.partitions[T].log.epochs.entries.append(EpochEntry(7, 9))


def _epochs_that_fall(core: Any) -> None:
    core.replicas.partitions[T].log.epochs.entries.insert(0, EpochEntry(7, 0))


def _a_follower(core: Any) -> None:
    replica = core.replicas.partitions[T]
    replica.followers.pop(next(iter(replica.followers)))


def _a_count_of_followers(core: Any) -> None:
    core.replicas.partitions[T]._followers_in_isr -= 1


def _a_leader_that_does_not_lead(core: Any) -> None:
    core.replicas.partitions[T].is_leader = False


def _bytes_of_nothing(core: Any) -> None:
    core.unchecked._bytes += 1


def _fewer_bytes(core: Any) -> None:
    core.unchecked.add(Unchecked(T, memoryview(b"records"), core.replicas.partitions[T].log.config, Any, 0))
    core.unchecked._bytes -= 1


def _fewer_partitions(core: Any) -> None:
    core.unchecked.add(Unchecked(T, memoryview(b""), core.replicas.partitions[T].log.config, Any, 0))
    core.unchecked.partitions.clear()


PLANTED: dict[str, tuple[str, Callable[[Any], None]]] = {
    "a name of another id": ("metadata", _a_name),
    "an id without a topic": ("metadata", _an_id),
    "a topic without a partition": ("metadata", _an_empty_topic),
    "a count": ("the cache of fetch sessions", _a_count_of_sessions),
    "a reader that is none": ("the cache of fetch sessions", _a_reader),
    "a proposal that nobody makes": ("the ISR channel", _a_proposal),
    "a retry that comes too late": ("the ISR channel", _a_proposal_that_is_due),
    "a waiter under no key": ("the purgatory", _a_waiter_that_nobody_would_tell),
    "one that is done": ("the purgatory", _a_waiter_that_is_done),
    "a time": ("its organs", _a_time_of_organs),
    "bytes of nothing": ("what waits to be checked", _bytes_of_nothing),
    "bytes that are not counted": ("what waits to be checked", _fewer_bytes),
    "a partition that is not counted": ("what waits to be checked", _fewer_partitions),
    "a timer that goes off too late": ("its timer", _a_timer),
    "a high watermark above the end": ("a replica", _a_high_watermark),
    "a start below the files": ("a replica", _a_start),
    "more is flushed than there is": ("a replica", _a_point_of_recovery),
    "an epoch behind the end": ("a replica", _an_epoch),
    "epochs that fall": ("a replica", _epochs_that_fall),
    "a follower that is not known": ("a replica", _a_follower),
    "a count of followers": ("a replica", _a_count_of_followers),
    "one that does not lead and has followers": ("a replica", _a_leader_that_does_not_lead),
}


@each(PLANTED)
def test_what_is_broken_is_found(why: str) -> None:
    part, plant = PLANTED[why]
    with healthy_world() as (world, leader):
        seen = at_work(world)
        parts = Parts()
        assert [one for _ in range(2 * len(seen.brokers)) for one in parts.broken(world, seen)] == []
        plant(leader)
        found = [one for _ in range(2 * len(seen.brokers)) for one in parts.broken(world, seen)]
        assert {(one.broker, one.part) for one in found} == {(leader.broker_id, part)}, found


def test_it_is_named_by_a_look() -> None:
    with healthy_world() as (world, leader):
        watch = Watch(world)
        _a_count_of_sessions(leader)
        names = [anomaly.name for _ in range(2 * len(world.brokers)) for anomaly in watch.check()]
        assert names == ["PartsAreWhole"]


class _Shards:
    """One coordinator, of one classic group."""

    def __init__(self, group: ClassicGroup) -> None:
        self.shard = self
        self.coordinator = self.partition = self
        self.is_leader = True
        self.groups, self.consumer_groups = {"g": group}, {}
        self.timers = Timers(self._due_of)
        self.shards = {0: self}
        self.core = type("Core", (), {"groups": self})

    def _due_of(self, timer: Timer) -> int | None:
        return None


def _waits_to_join(shards: _Shards) -> None:
    shards.groups["g"].join_ends_at_ms = 2_000
    shards.timers.arm(2_001, Kind.JOIN, "g")


def _has_given_an_id(shards: _Shards) -> None:
    shards.groups["g"].pending_ids["m"] = 2_000


def _is_led_by_nobody(shards: _Shards) -> None:
    shards.groups["g"].leader = "m"


def _has_an_instance(shards: _Shards) -> None:
    shards.groups["g"].static_members["i"] = "m"


def _waits_for_nobody(shards: _Shards) -> None:
    shards.groups["g"].unsynced.add("m")


@pytest.mark.parametrize(
    "plant", [_waits_to_join, _has_given_an_id, _is_led_by_nobody, _has_an_instance, _waits_for_nobody]
)
def test_a_group_that_is_not_what_it_says_is_found(plant: Callable[[_Shards], None]) -> None:
    shards = _Shards(ClassicGroup("g", 0))
    shards.groups["g"].sync_ends_at_ms = 1_500
    shards.timers.arm(1_500, Kind.SYNC, "g")
    assert list(_groups(shards.core, 1_000)) == []
    plant(shards)
    assert len(list(_groups(shards.core, 1_000))) == 1


def test_what_is_due_may_have_gone_off() -> None:
    shards = _Shards(ClassicGroup("g", 0))
    shards.groups["g"].sync_ends_at_ms = 1_000
    assert list(_groups(shards.core, 1_000)) == []
    assert len(list(_groups(shards.core, 999))) == 1


NOT_COUNTED = Edit(
    "broker.fetch_sessions:FetchSessionCache.keeps",
    "self._partitions += len(session.wanted) - session.counted",
    "pass",
)


def test_a_count_that_is_not_kept_is_found_in_a_world() -> None:
    with applied([NOT_COUNTED]), healthy_world() as (world, _):
        watch = Watch(world)
        assert {anomaly.name for _ in range(2 * len(world.brokers)) for anomaly in watch.check()} == {
            "PartsAreWhole"
        }
