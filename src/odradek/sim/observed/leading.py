"""What the leaders of a world know of their followers and of their epoch, for `checkers.leading`."""

from collections.abc import Iterator
from typing import Any

from odradek.broker.fetch_sessions import FetchSession
from odradek.model.ids import TopicPartition
from odradek.replication.followers import NEVER_MS
from odradek.replication.isr import Committed, PendingExpandIsr, PendingShrinkIsr
from odradek.sim.checkers.coordinators import Coordinating
from odradek.sim.checkers.leading import FollowerSeen, Joining, LeaderSeen
from odradek.sim.observed.beliefs import AtWork, is_awake
from odradek.sim.world import World


def joining(seen: AtWork) -> Iterator[Joining]:
    """Those that are proposed, each in the life in which it was found in sync."""
    for broker, _, partition, replica in seen.leaders:
        state = replica.state
        if type(state) is not PendingExpandIsr:
            continue
        for joiner in state.joining:
            known = replica.followers.get(joiner)
            if known is not None and replica._proposed_epochs.get(joiner) == known.broker_epoch:
                yield Joining(
                    partition,
                    broker.broker_id,
                    joiner,
                    known.log_end_offset,
                    replica.high_watermark,
                    replica.leader_epoch_start_offset,
                )


def leaders(world: World, seen: AtWork) -> Iterator[LeaderSeen]:
    registered = world.registered()
    # The controller lets no ISR grow in which one of them is.
    stopping = {number for number, broker in world.brokers.items() if broker.is_stopping}
    for broker, core, partition, replica in seen.leaders:
        log, runtime = replica.log, broker.runtime
        if log.failure is not None or runtime is None:
            continue
        live, state = core.metadata.live_brokers, replica.state
        leaving = state.leaving if type(state) is PendingShrinkIsr else ()
        yield LeaderSeen(
            partition,
            broker.broker_id,
            (broker.host, replica.topic_id, replica.leader_epoch),
            replica.leader_epoch,
            log.latest_epoch,
            replica.high_watermark,
            runtime.now_ms(),
            replica.replica_lag_time_max_ms,
            [
                FollowerSeen(
                    follower.broker,
                    # One that never was caught up has nothing to lose; a scenario says so of whom it has lag.
                    -2 if follower.last_caught_up_time_ms == NEVER_MS else follower.broker_epoch,
                    follower.log_end_offset,
                    _caught_up_ms(follower, log.log_end_offset),
                    follower.is_in_maximal_isr,
                    # In this life: one that is back may have been dead for a moment.
                    follower.broker in live and registered.get(follower.broker) == follower.broker_epoch,
                    _is_fetching(follower.source, partition, replica),
                    follower.broker in replica.state.isr and follower.broker not in leaving,
                    not follower.is_in_maximal_isr
                    and follower.broker in live
                    and registered.get(follower.broker) == follower.broker_epoch
                    and _heard_ms(follower) >= runtime.now_ms() - replica.replica_lag_time_max_ms
                    and replica.is_in_sync(follower)
                    and stopping.isdisjoint((follower.broker, *replica.state.isr)),
                )
                for follower in replica.followers.values()
            ],
            log.log_end_offset,
            not broker.is_stopping and is_awake(world, broker) and type(replica.state) is Committed,
        )


def _caught_up_ms(follower: Any, leader_end: int) -> int:
    """Who has everything was caught up when it fetched last, whatever partitions that fetch named (KIP-227)."""
    known: int = follower.last_caught_up_time_ms
    source = follower.source
    if source is None or follower.log_end_offset < leader_end:
        return known
    last_fetch_ms: int = source.last_fetch_time_ms
    return max(known, last_fetch_ms)


def _heard_ms(follower: Any) -> int:
    source, named_ms = follower.source, int(follower.last_fetch_time_ms)
    return named_ms if source is None else max(named_ms, source.last_fetch_time_ms)


def _is_fetching(source: Any, partition: TopicPartition, replica: Any) -> bool:
    """A fetch without a session stands for what it named until another one does."""
    if type(source) is not FetchSession or source.id == 0:
        return True
    return (replica.topic_id if source.by_id else partition.topic, partition.partition) in source.wanted


def coordinating(seen: AtWork) -> Iterator[Coordinating]:
    """Those that are loaded and lead."""
    for broker, core in seen.brokers.values():
        for shards in (core.groups, core.transactions):
            for shard in shards.shards.values():
                if shard.coordinator is not None and shard.partition.is_leader:
                    partition = shard.partition
                    yield Coordinating(
                        partition.topic_partition, broker.broker_id, shard, partition.leader_epoch
                    )
