"""What the brokers of a world believe of each other, for `checkers.beliefs`."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.beliefs import Acquaintance, LowMark, Position
from odradek.sim.world import SimBroker, World


class AtWork(NamedTuple):
    """Of one moment: those that serve, each with what it consists of, and the replicas that lead among theirs. Found once a look,
    and asked by all."""

    brokers: dict[BrokerId, tuple[SimBroker, Any]]
    leaders: list[tuple[SimBroker, Any, TopicPartition, Any]]


def at_work(world: World) -> AtWork:
    brokers = {
        broker.broker_id: (broker, broker.runtime.parts.broker)
        for broker in world.brokers.values()
        if broker.runtime is not None and broker.runtime.parts is not None and broker.is_running
    }
    leaders = [
        (broker, core, partition, replica)
        for broker, core in brokers.values()
        for partition, replica in core.replicas.partitions.items()
        if replica.is_leader
    ]
    return AtWork(brokers, leaders)


def positions(world: World, seen: AtWork) -> Iterator[Position]:
    """Those that are wrong: of followers that are in the epoch of their leader, and in the life in which they fetched: who
    restarts may have lost records that nobody counts on. Who has lost some that count is exempt."""
    brokers = seen.brokers
    for broker, _, partition, replica in seen.leaders:
        for number, state in replica.followers.items():
            if not state.has_fetched or number not in brokers:
                continue
            _, follower = brokers[number]
            copy = follower.replicas.partitions.get(partition)
            if (
                copy is not None
                and copy.log.log_end_offset < state.log_end_offset
                and copy.leader_epoch == replica.leader_epoch
                and copy.topic_id == replica.topic_id
                and copy.log.failure is None
                and follower.broker_epoch == state.broker_epoch
                and (number, partition) not in world.exempt
            ):
                yield Position(
                    partition, broker.broker_id, number, state.log_end_offset, copy.log.log_end_offset
                )


def low_marks(world: World, seen: AtWork) -> Iterator[LowMark]:
    """Of leaders that are at work. Every live follower counts, in the ISR or not: one outside it that was caught up a moment ago
    holds the mark back too (KIP-16)."""
    for broker, core, partition, replica in seen.leaders:
        log = replica.log
        if replica.high_watermark == log.log_end_offset or log.failure is not None:
            continue
        host = broker.host
        if host is None or host.paused_until > world.loop.now:
            continue
        if replica.is_under_min_isr or replica.has_unassigned_in_isr:
            continue
        own_end = log.recovery_point if replica.flushes_before_ack else log.log_end_offset
        ends = [
            follower.log_end_offset
            for follower in replica.followers.values()
            if follower.is_in_maximal_isr or follower.broker in core.metadata.live_brokers
        ]
        proven = min([own_end, *ends])
        if proven > replica.high_watermark:
            yield LowMark(partition, broker.broker_id, replica.leader_epoch, replica.high_watermark, proven)


def acquaintances(seen: AtWork) -> Iterator[Acquaintance]:
    for broker, core in seen.brokers.values():
        metadata = core.metadata
        yield Acquaintance(broker.broker_id, metadata.live_brokers, metadata.brokers.keys())
