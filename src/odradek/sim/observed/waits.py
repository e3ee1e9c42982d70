"""Whoever waits at the brokers of a world and should not, for `checkers.waits` and `checkers.beliefs`: requests of all kinds."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from odradek.broker.controller_wait import ControllerWait
from odradek.broker.coordinator_shards import AppendWait
from odradek.broker.fetch_sessions import ParkedFetch
from odradek.broker.handlers.delete_records import DeleteRecordsWait
from odradek.broker.handlers.init_producer_id import ProducerIdWait
from odradek.broker.leader_wait import TopicWait
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.group_states import GroupState
from odradek.log.config import LONG_MAX
from odradek.model.ids import BrokerId
from odradek.replication.followed import LATER
from odradek.replication.purgatory import DEADLINE_GRAIN_MS, Waiter
from odradek.sim.checkers.beliefs import Overslept
from odradek.sim.checkers.waits import HeldBack, Muted, Overdue, Unanswered, Unflushed
from odradek.sim.observed.beliefs import AtWork, is_awake
from odradek.sim.observed.silences import may_be_written
from odradek.sim.world import World


def overslept(seen: AtWork, *, is_between_turns: bool) -> Iterator[Overslept]:
    """Requests that are parked, were not woken, and could be answered: their deadlines would do that, if they have one. A controller
    that resigns answers what it was asked in that turn."""
    for number, (broker, core) in seen.brokers.items():
        is_alone = is_between_turns and broker.runtime.controller.term is None  # type: ignore[union-attr]
        for bucket in core.purgatory._buckets.values():
            for waiter in bucket:
                could_be = _COULD_BE_ANSWERED.get(type(waiter))
                if could_be is not None and not waiter.is_ready and could_be(waiter):
                    yield Overslept(number, type(waiter).__name__)
                elif is_alone and type(waiter) is ControllerWait:
                    yield Overslept(number, "ControllerWait")
        for shard in core.groups.shards.values():
            if shard.coordinator is not None and shard.partition.is_leader:
                yield from _members(number, shard.coordinator.shard.groups.values())


def _members(number: BrokerId, groups: Iterable[ClassicGroup]) -> Iterator[Overslept]:
    for group in groups:
        for member in group.members.values():
            if member.join is not None and not _is_awaited(group):
                yield Overslept(number, f"JoinGroup in a group that is {group.state.value}")
            if member.sync is not None and not _is_being_assigned(group):
                yield Overslept(number, f"SyncGroup in a group that is {group.state.value}")


def _is_awaited(group: ClassicGroup) -> bool:
    """Members that come, or their time to be up."""
    if group.state is not GroupState.PREPARING or group.join_ends_at_ms is None:
        return False
    return group.initial_wait_left_ms is not None or not group.has_joined_all


def _is_being_assigned(group: ClassicGroup) -> bool:
    return group.state is GroupState.COMPLETING and (
        group.storing is not None or group.sync_ends_at_ms is not None
    )


def _is_deleted(waiter: Any) -> bool:
    """By all that live, as the broker was told."""
    return all(
        not partition.is_leader
        or all(
            start >= offset
            for start in (partition.log.log_start_offset, *_starts_of_live_followers(partition))
        )
        for partition, offset, _ in waiter._open
    )


def _starts_of_live_followers(partition: Any) -> Iterator[int]:
    followers = partition.followers.values()
    return (known.log_start_offset for known in followers if known.broker in partition._live_brokers)


def _is_known(waiter: Any) -> bool:
    return all(map(waiter._is_over, waiter.open))


def _is_there_an_id(waiter: Any) -> bool:
    ids = waiter._broker.producer_ids
    return ids._next < ids._end or ids._block is not None or waiter.given not in ids._waiting


# Of those that wait for what the broker was told, or a partition knows; to ask them changes nothing. Of readers and producers see
# `beliefs.reading` and `beliefs.waiting`.
_COULD_BE_ANSWERED: dict[type[Waiter], Callable[[Any], bool]] = {
    DeleteRecordsWait: _is_deleted,
    TopicWait: _is_known,
    ProducerIdWait: _is_there_an_id,
    AppendWait: lambda waiter: bool(waiter.is_settled),
}


def overdue(world: World, seen: AtWork) -> Iterator[Overdue]:
    """Of brokers whose loop runs, and that do not stop in order, for these keep no more deadlines: what is parked, and what coordinators have to do (rebalances, sessions, transactions)."""
    for number, (broker, core) in seen.brokers.items():
        if broker.is_stopping or not is_awake(world, broker):
            continue
        now_ms = broker.runtime.now_ms()  # type: ignore[union-attr]
        buckets = core.purgatory._buckets
        parked = min((at for at, bucket in buckets.items() if bucket), default=None)
        if parked is not None and parked * DEADLINE_GRAIN_MS < now_ms:
            waiter = type(next(iter(buckets[parked]))).__name__
            due_ms = parked * DEADLINE_GRAIN_MS
            yield Overdue(number, f"the answer to a {waiter}", due_ms, now_ms - due_ms)
        for shards, owed in ((core.groups, _owed_to_groups), (core.transactions, _owed_to_transactions)):
            for shard in shards.shards.values():
                if shard.coordinator is None or not shard.partition.is_leader:
                    continue
                # Both what it says that it does next, and what each of its parts says that is to be done.
                what = f"what the coordinator of {shard.partition.topic_partition} does next"
                next_ms = shard.coordinator.next_deadline_ms()
                for one, due_ms in ((what, next_ms), *owed(shard)):
                    if due_ms is not None and due_ms < now_ms:
                        late_ms = now_ms - due_ms if due_ms else 0  # 0: as soon as it may
                        yield Overdue(number, one, due_ms, late_ms)


def _owed_to_groups(coordinating: Any) -> Iterator[tuple[str, int]]:
    """What it is, and when it is due: of members of classic groups that are not parked, of their rebalances, and of members of groups of
    KIP-848 that can be written."""
    shard = coordinating.coordinator.shard
    for name, group in shard.groups.items():
        for member_id, member in group.members.items():
            if not member.is_parked and member.session_timer_at_ms is not None:
                yield f"the end of the session of {member_id} of {name}", member.session_ends_at_ms
        for member_id, due_ms in group.pending_ids.items():
            yield f"the end of the id {member_id} of {name}", due_ms
        if group.state is GroupState.PREPARING and group.join_ends_at_ms is not None:
            yield f"the end of the rebalance of {name}", group.join_ends_at_ms
        if (
            group.state is GroupState.COMPLETING
            and group.sync_ends_at_ms is not None
            and group.storing is None
        ):
            yield f"the end of the wait for an assignment of {name}", group.sync_ends_at_ms
    for name, consumers in shard.consumer_groups.items():
        if may_be_written(coordinating, shard, name):
            for (kind, member_id), due_ms in consumers.deadlines.items():
                yield f"the end of the {kind.value} of {member_id} of {name}", due_ms


def _owed_to_transactions(coordinating: Any) -> Iterator[tuple[str, int]]:
    """Who waits for a record, or for markers, is refused after a while. Of transactions that are open for too long see
    `observed.open_transactions`."""
    for waiter in coordinating.coordinator.room.waiting._waiters.values():
        yield f"the refusal of who waits for {waiter.transactional_id}", waiter.due_ms


def held_back(world: World, seen: AtWork) -> Iterator[HeldBack]:
    """Of followers that their fetcher leaves out for longer than it does after an error: whom the settings that their broker has read
    throttle no more. How much it had copied does not count then."""
    for number, (broker, core) in seen.brokers.items():
        if not is_awake(world, broker):
            continue
        replicas = core.replicas
        now_ms = broker.runtime.now_ms()  # type: ignore[union-attr]
        for fetcher in replicas.fetchers.values():
            for partition, followed in fetcher._waiting.items():
                left_ms = followed.delayed_until_ms - now_ms
                if not fetcher.limits.backoff_ms < left_ms < LATER - now_ms:
                    continue
                listed = replicas.topic_configs.settings_of(
                    partition.topic
                ).follower_replication_throttled_replicas
                rate, throttle = (
                    replicas.settings.follower_replication_throttled_rate,
                    replicas.follower_throttle,
                )
                if "*" not in listed and f"{partition.partition}:{number}" not in listed:
                    yield HeldBack(partition, number, "it is on no list", left_ms)
                elif throttle._copied.total * 1_000 <= rate * throttle._copied.window_ms:
                    yield HeldBack(partition, number, f"the rate of {rate} allows it", left_ms)


def unflushed(world: World, seen: AtWork) -> Iterator[Unflushed]:
    """Of brokers whose loop runs, and that have threads and a disk which does what it is asked, without delay."""
    if world.threads_run_out:
        return
    for number, (broker, core) in seen.brokers.items():
        if broker.is_stopping or not is_awake(world, broker):
            continue
        if broker.blocking_takes_s or any(disk._faults for disk in broker.disks):
            continue
        for partition, replica in core.replicas.partitions.items():
            log = replica.log
            if log.config.flush_ms < LONG_MAX and log.recovery_point < log.log_end_offset:
                yield Unflushed(partition, number, log.recovery_point, log.config.flush_ms)


def muted(world: World, seen: AtWork) -> Iterator[Muted]:
    """Of brokers at which there have been quotas, and are none."""
    for number, (broker, core) in seen.brokers.items():
        host = broker.host
        if not core.quotas.changes or any(core.quotas.counts.values()) or host is None or host.postponed:
            continue
        if host.paused_until > world.loop.now:
            continue
        for connection in broker.runtime.parts.gateway._connections.values():  # type: ignore[union-attr]
            if (
                connection.is_held_to_quota
                and connection._muted_until is not None
                and not connection.is_closing
            ):
                left_s = connection._muted_until - world.loop.now
                if left_s > 0:
                    yield Muted(number, connection.connection_id, connection.peer, left_s)


def unanswered(world: World) -> Iterator[Unanswered]:
    """Requests of all kinds but fetches, which wait for records."""
    for broker in world.brokers.values():
        if not broker.is_serving or broker.runtime is None or broker.runtime.parts is None:
            continue
        waiting = broker.runtime.broker.purgatory._buckets.values()
        fetches = {id(one.park) for bucket in waiting for one in bucket if isinstance(one, ParkedFetch)}  # type: ignore[attr-defined]
        for connection in broker.runtime.parts.gateway._connections.values():
            for slot in connection._slots:
                if slot.answer is None and id(slot.park) not in fetches:
                    yield Unanswered(broker.broker_id, connection.peer, slot.correlation_id)
