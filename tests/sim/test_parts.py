"""What parts of a broker say of themselves: each is broken by hand in a world, and found; and a mutation that a small world shows so."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.log_moves import Move
from odradek.broker.organs import Periodic
from odradek.broker.transaction_markers import Task
from odradek.broker.unchecked_produces import Unchecked
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_image import NEW, Current
from odradek.coordinator.consumer_records import MemberState
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.timers import Kind, Timer, Timers
from odradek.log.flushing import FlushState
from odradek.log.leader_epochs import EpochEntry
from odradek.model.ids import TopicPartition
from odradek.replication.isr import PendingExpandIsr
from odradek.sim.observed.beliefs import at_work
from odradek.sim.observed.parts import Parts, _groups, _of_replica, _transactions
from odradek.sim.observed.watch import Watch
from odradek.sim.run import run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_beliefs import T, healthy_world
from tests.sim.test_moment_faults import world_of
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


def _bytes_of_members(core: Any) -> None:
    core.groups.memory.size_bytes += 1


def _bytes_of_groups(core: Any) -> None:
    core.groups.kept.size_bytes += 1


def _bytes_of_ids(core: Any) -> None:
    core.transactions.kept.size_bytes += 1


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


def _an_epoch_before_the_start(core: Any) -> None:
    log = core.replicas.partitions[T].log
    log.epochs.entries[:] = EpochEntry(0, log.log_start_offset - 1), EpochEntry(1, log.log_start_offset)


def _what_nobody_flushes(core: Any) -> None:
    replica = core.replicas.partitions[T]
    replica.log.flushed = FlushState(replica.log.log_end_offset - 1)
    replica.flushes_before_ack = True


def _who_waits_for_what_is_flushed(core: Any) -> None:
    replica = core.replicas.partitions[T]
    replica.flush_waiters.add(replica.log.recovery_point, SimpleNamespace(is_done=False), 0)


def _who_waits_where_nobody_leads(core: Any) -> None:
    replica = core.replicas.partitions[T]
    replica.stop()
    replica.commit_waiters.add(1, SimpleNamespace(is_done=False), 0)


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


def _a_copy_that_nobody_looks_at(core: Any) -> None:
    core.replicas.moves._moves[T] = Move(core.replicas.partitions[T])


def _a_copy_that_holds_flushes(core: Any) -> None:
    _a_copy_that_nobody_looks_at(core)
    core.replicas.moves._moves[T].holds_flushes = True
    core.replicas.moves.due_ms = 1 << 60


def _too_many_copies(core: Any) -> None:
    _a_copy_that_nobody_looks_at(core)
    core.replicas.moves._moves[T].awaits = object()
    core.replicas.moves._at_once = 0


def _a_count_of_who_waits(core: Any) -> Any:
    waiting = SimpleNamespace(_partitions=1, _waiters={})
    room = SimpleNamespace(waiting=waiting, kept_bytes=0, last_epochs={})
    core.transactions.shards[99] = SimpleNamespace(coordinator=SimpleNamespace(room=room), is_over=False)
    return room


def _an_epoch_of_who_had_it_before(core: Any) -> None:
    room = _a_count_of_who_waits(core)
    room.waiting._partitions = 0
    room.last_epochs["t"], room.stored = 3, SimpleNamespace(by_id={"t": SimpleNamespace(epoch=5)})


def _a_marker_that_was_given_up(core: Any) -> None:
    marker = type("Given", (), {"transactional_id": "t"})()
    core.markers._waiting[1] = {Task(0, 1, marker, T): None}


def _a_replica_that_has_gone(core: Any) -> None:
    core.replicas._by_id[b"0", 0] = SimpleNamespace(topic_partition=TopicPartition("gone", 0))


def _a_throttle_of_one(core: Any) -> None:
    core.replicas.leader_throttle.covered.add(TopicPartition("gone", 0))


PLANTED: dict[str, tuple[str, Callable[[Any], None]]] = {
    "a name of another id": ("metadata", _a_name),
    "an id without a topic": ("metadata", _an_id),
    "a topic without a partition": ("metadata", _an_empty_topic),
    "a count": ("the cache of fetch sessions", _a_count_of_sessions),
    "bytes of members": ("memory of coordinators", _bytes_of_members),
    "bytes of groups": ("memory of coordinators", _bytes_of_groups),
    "bytes of transactional ids": ("memory of coordinators", _bytes_of_ids),
    "a reader that is none": ("the cache of fetch sessions", _a_reader),
    "a proposal that nobody makes": ("the ISR channel", _a_proposal),
    "a retry that comes too late": ("the ISR channel", _a_proposal_that_is_due),
    "a waiter under no key": ("the purgatory", _a_waiter_that_nobody_would_tell),
    "one that is done": ("the purgatory", _a_waiter_that_is_done),
    "a time": ("its organs", _a_time_of_organs),
    "bytes of nothing": ("what waits to be checked", _bytes_of_nothing),
    "bytes that are not counted": ("what waits to be checked", _fewer_bytes),
    "a partition that is not counted": ("what waits to be checked", _fewer_partitions),
    "a count of who waits": ("a coordinator of transactions", _a_count_of_who_waits),
    "an epoch before that its owner never had": (
        "a coordinator of transactions",
        _an_epoch_of_who_had_it_before,
    ),
    "a marker that was given up": ("its markers", _a_marker_that_was_given_up),
    "a replica that has gone, and is found": ("its replicas", _a_replica_that_has_gone),
    "a throttle of one that has": ("its replicas", _a_throttle_of_one),
    "a copy that nobody looks at": ("its copies", _a_copy_that_nobody_looks_at),
    "a copy that holds flushes, and is not flushed": ("its copies", _a_copy_that_holds_flushes),
    "more copies than may be": ("its copies", _too_many_copies),
    "a timer that goes off too late": ("its timer", _a_timer),
    "a high watermark above the end": ("a replica", _a_high_watermark),
    "a start below the files": ("a replica", _a_start),
    "more is flushed than there is": ("a replica", _a_point_of_recovery),
    "an epoch behind the end": ("a replica", _an_epoch),
    "epochs that fall": ("a replica", _epochs_that_fall),
    "an epoch before the start": ("a replica", _an_epoch_before_the_start),
    "records that nobody flushes": ("a replica", _what_nobody_flushes),
    "one that waits for what is flushed": ("a replica", _who_waits_for_what_is_flushed),
    "one that waits where nobody leads": ("a replica", _who_waits_where_nobody_leads),
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


def _begun_anew(replica: Any) -> None:
    replica.log.truncate_fully_and_start_at(replica.log.log_end_offset, 0)


def _flushed_in_the_background(replica: Any) -> None:
    """While the flush that a waiter asked for is held, for a copy of the log."""
    _begun_anew(replica)
    replica.flush_waiters.add(replica.log.recovery_point, SimpleNamespace(is_done=False), 0)
    replica.is_flushing = True


def _about_to_be_cut(replica: Any) -> None:
    """What has to be on the disk before is being written there."""
    replica.log.flushed.cut(replica.log.log_end_offset - 1)
    assert replica.log.recovery_point < replica.log.log_end_offset


WELL: dict[str, Callable[[Any], None]] = {
    "a log that is begun anew": _begun_anew,
    "one that is about to be cut": _about_to_be_cut,
    "one that was flushed in the background meanwhile": _flushed_in_the_background,
}


@each(WELL)
def test_what_is_to_be_flushed_before_an_answer_may_be_well(why: str) -> None:
    with healthy_world() as (_, leader):
        replica = leader.replicas.partitions[T]
        replica.flushes_before_ack = True
        WELL[why](replica)
        assert list(_of_replica(replica)) == []


def _a_question(parts: Any) -> None:
    parts.channel._waiting.append("a question")


def _a_pause(parts: Any) -> None:
    fetching = next(iter(parts.fetchers._fetching.values()))
    assert fetching.fetcher.suspend(T, 1 << 40)


def _a_pause_whose_timer_has_gone_off(parts: Any) -> None:
    _a_pause(parts)
    fetching = next(iter(parts.fetchers._fetching.values()))
    fetching._set_wake_timer(1 << 40)
    assert fetching._wake_timer is not None
    fetching._wake_timer._when = 0.5


def _a_deadline(parts: Any) -> None:
    context = parts.controller.term.core.context
    context.deadlines.clear()
    context.commit_deadline("of nothing", 1)


def _a_flush(parts: Any) -> None:
    parts.disk._waited_for.add(parts.broker.replicas.partitions[T].log)


def _an_answer(parts: Any) -> None:
    next(iter(parts.fetchers._fetching.values()))._unanswered += 1


def _a_count_of_what_waits(parts: Any) -> None:
    _, box = next(iter(parts.controller.term._outboxes._boxes.values()))
    box._partitions_waiting += 1


OUTSIDE: dict[str, tuple[str, Callable[[Any], None]]] = {
    "a question to the controller": ("its way to the controller", _a_question),
    "a pause without a timer": ("its fetching", _a_pause),
    "a pause whose timer has gone off": ("its fetching", _a_pause_whose_timer_has_gone_off),
    "a flush that nobody waits for": ("its flushes", _a_flush),
    "an answer that does not come": ("its fetching", _an_answer),
    "a count of what a broker is to be told": ("its controller", _a_count_of_what_waits),
    "a deadline without a timer": ("its controller", _a_deadline),
}


@each(OUTSIDE)
def test_what_is_broken_around_the_hub_is_found(why: str) -> None:
    part, plant = OUTSIDE[why]
    with healthy_world() as (world, leader):
        seen, parts = at_work(world), Parts()
        struck = next(
            broker
            for broker in world.brokers.values()
            if (broker.is_controller if part == "its controller" else broker.broker_id != leader.broker_id)
        )
        assert struck.runtime is not None
        plant(struck.runtime.parts)
        found = [one for _ in range(2 * len(seen.brokers)) for one in parts.broken(world, seen)]
        assert {(one.broker, one.part) for one in found} == {(struck.broker_id, part)}, found


@pytest.mark.parametrize("epoch, is_named", [(4, False), (0, False), (3, True), (5, True)])
def test_the_epoch_before_is_the_one_before_or_under_another_producer_id(epoch: int, is_named: bool) -> None:
    with healthy_world() as (_, leader):
        _an_epoch_of_who_had_it_before(leader)
        leader.transactions.shards[99].coordinator.room.stored.by_id["t"].epoch = epoch
        assert any("from epoch 3" in said for said in _transactions(leader, 0)) is is_named


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
        self.groups = {"g": group}
        self.consumer_groups: dict[str, Any] = {}
        self.timers = Timers(self._due_of)
        self.waiting: dict[str, list[str]] = {}
        self.busy: dict[str, int] = {}
        self.stalled: dict[str, int] = {}
        self._late: dict[int, Any] = {}
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


def _prepares_and_waits(shards: _Shards) -> None:
    group = shards.groups["g"]
    group.members["m"] = SimpleNamespace(is_parked=True, session_timer_at_ms=None, instance_id=None)  # type: ignore[assignment]
    group.unsynced.add("m")
    group.state = GroupState.PREPARING


def _has_no_session(shards: _Shards) -> None:
    member: Any = SimpleNamespace(is_parked=False, session_timer_at_ms=None, instance_id=None)
    shards.groups["g"].members["m"] = member


def _consumers(shards: _Shards, current: Current, *kinds: Kind) -> None:
    image = SimpleNamespace(members={"m": None}, current_of=lambda member_id: current)
    group = SimpleNamespace(group_id="c", image=image, deadlines={(kind, "m"): 500 for kind in kinds})
    shards.consumer_groups["c"] = group


def _of_kip_848_has_no_session(shards: _Shards) -> None:
    _consumers(shards, NEW)


def _lets_go_without_end(shards: _Shards) -> None:
    _consumers(shards, LETS_GO, Kind.CONSUMER_SESSION)


def _has_let_go(shards: _Shards) -> None:
    _consumers(shards, NEW, Kind.CONSUMER_SESSION, Kind.REVOCATION)


LETS_GO = NEW._replace(state=MemberState.UNREVOKED_PARTITIONS, revoking={b"t": (0,)})


def _waits_for_what_has_come(shards: _Shards) -> None:
    shards.stalled["g"] = 1


def _waits_for_a_turn(shards: _Shards) -> None:
    shards.busy["h"] = 1
    shards.waiting = {"g": ["JoinGroup"], "h": ["JoinGroup"]}


@pytest.mark.parametrize(
    "plant",
    [
        _waits_to_join,
        _has_given_an_id,
        _is_led_by_nobody,
        _has_an_instance,
        _waits_for_nobody,
        _prepares_and_waits,
        _waits_for_a_turn,
        _waits_for_what_has_come,
        _has_no_session,
        _of_kip_848_has_no_session,
        _lets_go_without_end,
        _has_let_go,
    ],
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


# Nobody waits for any of them at rest: who else asks, or comes, has the part go on.
UNNOTICED = {
    "a follower's pause, whose timer has gone off": Edit(
        "server.fetchers:Fetching._woken", "self._wake_timer = None", "pass"
    ),
    "a controller's deadline, whose timer has gone off": Edit(
        "server.controller_term:ControllerTerm._tick", "self._tick_timer = None", "pass"
    ),
    "what a broker is to be told once more": Edit(
        "server.outboxes:Outbox._unsend",
        "self._partitions_waiting += sum([len(request.partitions) for request in self._sent])",
        "pass",
    ),
}


@each(UNNOTICED)
def test_what_is_forgotten_around_the_hub_is_found_in_a_world(why: str) -> None:
    with applied([UNNOTICED[why]]):
        outcome = run(world_of("lost_leader_and_isr"))
    assert outcome.reason.startswith("PartsAreWhole"), outcome.reason
