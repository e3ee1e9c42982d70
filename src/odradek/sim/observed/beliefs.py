"""What the brokers of a world believe of each other, for `checkers.beliefs`."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from odradek.broker.handlers.list_offsets import LATEST, OffsetAnswers, _find
from odradek.broker.handlers.produce import ProduceWait
from odradek.model.ids import BrokerId, TopicPartition
from odradek.protocol.flat.list_offsets_request import ListOffsetsRequest
from odradek.replication.replica import READ_UNCOMMITTED
from odradek.sim.checkers.beliefs import (
    Acquaintance,
    Following,
    LowMark,
    Position,
    Reading,
    Role,
    Told,
    ToldEnd,
    Waiting,
)
from odradek.sim.checkers.replicas import PartitionView
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


def is_awake(world: World, broker: SimBroker) -> bool:
    """Its loop runs, and has done what was put off while it stood still."""
    host = broker.host
    return host is not None and not host.postponed and host.paused_until <= world.loop.now


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


def told(world: World, seen: AtWork, partitions: Mapping[TopicPartition, PartitionView]) -> Iterator[Told]:
    """Of leaders that have heard of the state node as it is: its leader epoch and its partition epoch, of the topic of now."""
    for broker, _, partition, replica in seen.leaders:
        state = partitions.get(partition)
        stored = None if state is None else state.stored
        if (
            stored is None
            or replica.leader_epoch != stored.leader_epoch
            or replica.partition_epoch != stored.partition_epoch
            or (replica.isr == stored.isr and replica.has_eligible == bool(stored.elr))
        ):
            continue
        topic = world.topics.assignment(partition.topic)
        if topic is not None and topic.topic_id == replica.topic_id:
            yield Told(partition, broker.broker_id, replica.isr, stored.isr, replica.has_eligible, stored.elr)


def roles(world: World, seen: AtWork, partitions: Mapping[TopicPartition, PartitionView]) -> Iterator[Role]:
    """Of the replicas of these partitions that have heard of the state node as it is, and were not stopped since."""
    for number, (_, core) in seen.brokers.items():
        for partition, state in partitions.items():
            replica, stored = core.replicas.partitions.get(partition), state.stored
            if (
                replica is None
                or stored is None
                or replica.leader < 0
                or replica.leader_epoch != stored.leader_epoch
                or replica.partition_epoch != stored.partition_epoch
            ):
                continue
            topic = world.topics.assignment(partition.topic)
            if topic is not None and topic.topic_id == replica.topic_id:
                yield Role(
                    partition,
                    number,
                    replica.leader,
                    replica.leader_recovery_state,
                    stored.leader,
                    stored.leader_recovery_state,
                )


def waiting(seen: AtWork) -> Iterator[Waiting]:
    """Producers that wait for a leader although they should have their answer."""
    for broker, _, partition, replica in seen.leaders:
        for offset, waiter in replica.commit_waiters.waiting():
            is_hopeless = replica.is_under_min_isr and isinstance(waiter, ProduceWait)
            if offset <= replica.high_watermark or is_hopeless:
                yield Waiting(partition, broker.broker_id, offset, replica.high_watermark)


def following(seen: AtWork) -> Iterator[Following]:
    """Those that are wrong."""
    for number, (_, core) in seen.brokers.items():
        held, fetchers = core.replicas.partitions, core.replicas.fetchers
        count = 0
        for partition, replica in held.items():
            leader = replica.leader
            if replica.is_leader or leader < 0:
                continue
            count += 1
            fetcher = fetchers.get(leader)
            followed = None if fetcher is None else fetcher.partitions.get(partition)
            if (
                followed is None
                or followed.partition is not replica
                or followed.leader_epoch != replica.leader_epoch
            ):
                yield Following(
                    partition, number, (leader, replica.leader_epoch), _fetched_from(fetchers, partition)
                )
        if count != sum(len(fetcher.partitions) for fetcher in fetchers.values()):
            for partition in {tp: None for fetcher in fetchers.values() for tp in fetcher.partitions}:
                replica = held.get(partition)
                follows = replica is not None and not replica.is_leader and replica.leader >= 0
                yield Following(
                    partition,
                    number,
                    (replica.leader, replica.leader_epoch) if replica is not None and follows else None,
                    _fetched_from(fetchers, partition),
                )


def _fetched_from(fetchers: Any, partition: TopicPartition) -> tuple[tuple[int, int], ...]:
    return tuple(
        (leader, fetcher.partitions[partition].leader_epoch)
        for leader, fetcher in fetchers.items()
        if partition in fetcher.partitions
    )


def reading(seen: AtWork) -> Iterator[Reading]:
    """Readers that were not told of records, or that the replica has another role now, and those that nobody asks for any more."""
    for number, (_, core) in seen.brokers.items():
        for partition, replica in core.replicas.partitions.items():
            if not (replica.follower_readers or replica.consumer_readers):
                continue
            role = replica.leader_epoch, replica.is_leader
            for readers in (replica.follower_readers, replica.consumer_readers):
                for reader in readers:
                    session = reader.session
                    is_asked_for = session.wanted.get((reader.key, reader.index)) is reader
                    if is_asked_for and _will_be_read(reader, session):
                        continue
                    end = replica.log.log_end_offset
                    if readers is replica.consumer_readers:
                        end = replica.high_watermark
                        if not _reads_uncommitted(session):
                            end = min(end, replica.last_stable_offset)
                    if not is_asked_for or reader.fetch_offset < end or reader.role != role:
                        yield Reading(
                            partition, number, reader.fetch_offset, end, is_asked_for, reader.role == role
                        )


def _will_be_read(reader: Any, session: Any) -> bool:
    """Without a session all that is wanted is pending as long as the fetch is parked: then who was woken is dirty, who has found
    something waits for more, and who is held back by a throttle has more, and is looked at when the rate allows it."""
    if session.id == 0:
        return bool(reader.is_dirty or reader.seen_bytes or reader.has_more)
    return reader in session.pending


def _reads_uncommitted(session: Any) -> bool:
    """By the fetch that waits in it; of one in which none does nobody knows what the next will be."""
    return session.parked is not None and session.parked.body.isolation_level == READ_UNCOMMITTED


# What a consumer asks: without a broker, for the ends are the replica's.
_OF_A_CONSUMER = OffsetAnswers(cast(Any, None), 9, ListOffsetsRequest(-1, 0, []))


def told_ends(seen: AtWork, partitions: Mapping[TopicPartition, PartitionView]) -> Iterator[ToldEnd]:
    """What leaders would tell a consumer now that asks where these partitions end. Those that are not sure say so."""
    for broker, _, partition, replica in seen.leaders:
        state = partitions.get(partition)
        if state is None or all(shown.broker != broker.broker_id for shown in state.replicas):
            continue  # nothing has changed; or it has lost records with everybody's consent
        _, error, _, offset, _ = _find(replica, _OF_A_CONSUMER, partition.partition, LATEST)
        if not error:
            era = state.incarnation, state.unclean_elections
            yield ToldEnd(partition, broker.broker_id, replica.leader_epoch, era, offset)


def outlived(world: World) -> Iterator[tuple[BrokerId, TopicPartition]]:
    """What a broker would tell clients of, and the store does not know any more."""
    for number, (_, core) in at_work(world).brokers.items():
        for topic, partitions in core.metadata.topics.items():
            found = world.topics.assignment(topic)
            for index in partitions:
                if found is None or index not in found.partitions:
                    yield number, TopicPartition(topic, index)


def differing_assignments(world: World) -> Iterator[str]:
    """Of leaders where nothing happens any more: who they take for their replicas, and how many of them are needed."""
    partitions = world.view(with_batches=False).partitions
    for broker, _, partition, replica in at_work(world).leaders:
        state, topic = partitions.get(partition), world.topics.assignment(partition.topic)
        if state is None or topic is None or partition.partition not in topic.partitions:
            continue
        known, stored = replica.assignment, topic.partitions[partition.partition]
        if known != stored:
            yield f"{broker.name} leads {partition} with {known}, and it is assigned to {stored}: that"
        elif replica.effective_min_isr != state.min_insync_replicas:
            yield (
                f"{broker.name} wants {replica.effective_min_isr} in sync for {partition}, and it is configured as "
                f"{state.min_insync_replicas}: that"
            )


def unknown_positions(world: World) -> Iterator[str]:
    """What a leader does not know of a follower, where nothing happens any more."""
    seen = at_work(world)
    for broker, _, partition, replica in seen.leaders:
        for number, state in replica.followers.items():
            _, core = seen.brokers.get(number, (None, None))
            copy = None if core is None else core.replicas.partitions.get(partition)
            if copy is None:
                continue
            if state.log_end_offset != copy.log.log_end_offset:
                where = f"end at {state.log_end_offset}, and it ends at {copy.log.log_end_offset}"
            elif state.log_start_offset > copy.log.log_start_offset:
                # Where it begins later than that, retention was at work there: it tells when it is told of a start.
                where = f"begin at {state.log_start_offset}, and it begins at {copy.log.log_start_offset}"
            else:
                continue
            yield f"{broker.name} believes {partition} of broker {number} to {where}: that"
