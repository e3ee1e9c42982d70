"""What the brokers of a world believe of each other, for `checkers.beliefs`."""

from collections.abc import Iterator
from typing import Any

from odradek.sim.checkers.beliefs import Acquaintance, LowMark, Position
from odradek.sim.world import SimBroker, World


def positions(world: World) -> Iterator[Position]:
    """Those of followers that are in the epoch of their leader, and in the life in which they fetched: who restarts may have lost
    records that nobody counts on. Who has lost some that count is exempt."""
    for broker, leader in _serving(world):
        for partition, replica in leader.broker.replicas.partitions.items():
            if not replica.is_leader:
                continue
            for number, state in replica.followers.items():
                follower = world.brokers.get(number)
                if follower is None or not state.has_fetched or (number, partition) in world.exempt:
                    continue
                runtime = follower.runtime
                if not follower.is_running or runtime is None or runtime.parts is None:
                    continue
                copy = runtime.broker.replicas.partitions.get(partition)
                if (
                    copy is not None
                    and copy.leader_epoch == replica.leader_epoch
                    and copy.topic_id == replica.topic_id
                    and copy.log.failure is None
                    and runtime.broker.broker_epoch == state.broker_epoch
                ):
                    end = copy.log.log_end_offset
                    yield Position(partition, broker.broker_id, number, state.log_end_offset, end)


def low_marks(world: World) -> Iterator[LowMark]:
    """Of leaders that are at work. Every live follower counts, in the ISR or not: one outside it that was caught up a moment ago
    holds the mark back too (KIP-16)."""
    for broker, runtime in _serving(world):
        host = broker.host
        if host is None or host.paused_until > world.loop.now:
            continue
        for partition, replica in runtime.broker.replicas.partitions.items():
            log = replica.log
            if (
                not replica.is_leader
                or replica.high_watermark == log.log_end_offset
                or log.failure is not None
            ):
                continue
            if replica.is_under_min_isr or replica.has_unassigned_in_isr:
                continue
            own_end = log.recovery_point if replica.flushes_before_ack else log.log_end_offset
            ends = [
                follower.log_end_offset
                for follower in replica.followers.values()
                if follower.is_in_maximal_isr or follower.broker in runtime.broker.metadata.live_brokers
            ]
            proven = min([own_end, *ends])
            if proven > replica.high_watermark:
                yield LowMark(
                    partition, broker.broker_id, replica.leader_epoch, replica.high_watermark, proven
                )


def acquaintances(world: World) -> Iterator[Acquaintance]:
    for broker, runtime in _serving(world):
        metadata = runtime.broker.metadata
        yield Acquaintance(broker.broker_id, metadata.live_brokers, metadata.brokers.keys())


def _serving(world: World) -> Iterator[tuple[SimBroker, Any]]:
    for broker in world.brokers.values():
        if broker.is_running and broker.is_serving and broker.runtime is not None:
            yield broker, broker.runtime
