"""Judges snapshots of a cluster: logs, high watermarks, leadership. Names are those of hachikuji/kafka-specification
where it has one.

`ClusterView` is a plain value that the world fills from the brokers, the controller and the store between two
events. A checker that needs a memory (`HighWatermarks`, `Leaders`) is an object fed with one view after another.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.values import dataclass, field
from odradek.sim.checkers.batches import Batches, BatchList, BatchView
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.keys import Keys

__all__ = ["BatchView", "ClusterView", "ControllerWrite", "PartitionView", "ReplicaView"]


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica as its broker has it; a dead broker's replica as its disk has it."""

    broker: BrokerId
    is_alive: bool
    is_leader: bool  # it believes so
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    isr: tuple[BrokerId, ...] = ()  # as a presumed leader believes
    maximal_isr: tuple[BrokerId, ...] = ()
    batches: Sequence[BatchView] = ()
    # Of a compacted topic, in place of its batches, which each replica compacts by itself.
    keys: Keys | None = None
    last_stable_offset: int = -1  # -1: nobody asked for it


@dataclass(frozen=True, slots=True)
class PartitionView:
    replicas: tuple[ReplicaView, ...]
    stored: LeaderAndIsr | None = None
    cached: LeaderAndIsr | None = None  # what the acting controller has
    assignment: tuple[BrokerId, ...] = ()
    # Which topic of this name (a deleted one owes nothing), and how many unclean elections ago its records began.
    incarnation: int = 0
    unclean_elections: int = 0
    is_moving: bool = False  # a reassignment is under way
    has_moved: bool = False  # ... or was
    # As configured now, and never more than there are replicas. With fewer in the ISR nothing is committed.
    min_insync_replicas: int = 1

    @property
    def electable(self) -> tuple[BrokerId, ...]:
        """Who may lead without loss, as the state node says: of the ISR, and outside it who is eligible (KIP-966)."""
        if self.stored is None:
            return ()
        eligible = self.stored.elr if len(self.stored.isr) < self.min_insync_replicas else ()
        members = [b for b in self.stored.isr if b not in self.stored.last_known_elr]  # those are in doubt
        return (*members, *eligible)


@dataclass(frozen=True, slots=True)
class ControllerWrite:
    """A write of a controller to a node of the store, that took effect."""

    controller: BrokerId
    controller_epoch: int  # of its term
    elected_epoch: int  # of the newest term when it took effect, as `/controller_epoch` says
    path: str


@dataclass(frozen=True, slots=True)
class ClusterView:
    partitions: Mapping[TopicPartition, PartitionView]
    # (broker, controller epoch) of everyone who acts as controller
    controllers: tuple[tuple[BrokerId, int], ...] = ()
    live_brokers: tuple[BrokerId, ...] = ()
    # (broker, partition) -> (leader, leader epoch) as the broker's metadata cache says
    metadata: Mapping[tuple[BrokerId, TopicPartition], tuple[int, int]] = field(default_factory=dict)
    has_controller: bool = False  # one that has read everything; `cached` is what it knows
    # (broker, partition) of logs that nobody assigned to that broker: left of a deletion or a reassignment
    strays: tuple[tuple[BrokerId, TopicPartition], ...] = ()
    topics_to_delete: tuple[str, ...] = ()
    controller_writes: tuple[ControllerWrite, ...] = ()  # since the last view


def leader_in_isr(view: ClusterView) -> Iterator[Anomaly]:
    """LeaderInIsr: the stored leader, if there is one, is in the stored ISR. The ISR is never empty (C13)."""
    for partition, state in sorted(view.partitions.items()):
        stored = state.stored
        if stored is None:
            continue
        if stored.leader >= 0 and stored.leader not in stored.isr:
            yield Anomaly(
                "LeaderInIsr", partition, f"leader {stored.leader} is not in the ISR {list(stored.isr)}"
            )
        if not stored.isr:
            yield Anomaly("LeaderInIsr", partition, "the stored ISR is empty")


def type_ok(view: ClusterView) -> Iterator[Anomaly]:
    """TypeOk: every value is in its range."""
    for partition, state in sorted(view.partitions.items()):
        stored = state.stored
        if stored is not None:
            if stored.leader_epoch < 0 or stored.partition_epoch < 0:
                yield Anomaly("TypeOk", partition, f"a negative epoch in {stored}")
            if len(set(stored.isr)) != len(stored.isr):
                yield Anomaly("TypeOk", partition, f"the ISR {list(stored.isr)} names a replica twice")
            unassigned = [b for b in stored.isr if state.assignment and b not in state.assignment]
            if unassigned:
                yield Anomaly(
                    "TypeOk", partition, f"{unassigned} in the ISR are not assigned {list(state.assignment)}"
                )
        for replica in state.replicas:
            if not 0 <= replica.log_start_offset <= replica.log_end_offset:
                yield Anomaly(
                    "TypeOk",
                    partition,
                    f"broker {replica.broker}: log from {replica.log_start_offset} to {replica.log_end_offset}",
                )
            for before, after in _neighbours(replica.batches):
                if after.base_offset <= before.last_offset:
                    yield Anomaly(
                        "TypeOk", partition, f"broker {replica.broker}: batch {after} overlaps {before}"
                    )
                if after.leader_epoch < before.leader_epoch:
                    yield Anomaly("TypeOk", partition, f"broker {replica.broker}: the epoch falls at {after}")


def valid_high_watermark(view: ClusterView) -> Iterator[Anomaly]:
    """ValidHighWatermark: no high watermark outside its log; two replicas agree below the smaller one (I9)."""
    for partition, state in sorted(view.partitions.items()):
        for replica in state.replicas:
            if replica.high_watermark < replica.log_start_offset:
                yield Anomaly(
                    "ValidHighWatermark",
                    partition,
                    f"broker {replica.broker}: high watermark {replica.high_watermark} "
                    f"below the log start {replica.log_start_offset}",
                )
            if replica.high_watermark > replica.log_end_offset:
                yield Anomaly(
                    "ValidHighWatermark",
                    partition,
                    f"broker {replica.broker}: high watermark {replica.high_watermark} "
                    f"above the log end {replica.log_end_offset}",
                )
        for index, one in enumerate(state.replicas):
            for other in state.replicas[index + 1 :]:
                limit = min(one.high_watermark, other.high_watermark)
                found = first_difference(one, other, limit)
                if found is not None:
                    yield Anomaly(
                        "ValidHighWatermark",
                        partition,
                        f"brokers {one.broker} and {other.broker} differ at offset {found}, below {limit}",
                    )


def weak_isr(view: ClusterView) -> Iterator[Anomaly]:
    """WeakIsr: every replica in the ISR that a presumed leader believes in holds its log below its high watermark."""
    for partition, state in sorted(view.partitions.items()):
        for leader in state.replicas:
            if leader.is_leader and leader.is_alive:
                isr = leader.isr
                if state.has_moved and state.stored and leader.leader_epoch < state.stored.leader_epoch:
                    # Who was moved away has deleted its log, and the leader of an old epoch need not know.
                    isr = tuple(broker for broker in isr if broker in state.stored.isr)
                yield from _holds("WeakIsr", partition, state, leader, isr)


def high_watermark_counts_whom_we_asked_for(view: ClusterView) -> Iterator[Anomaly]:
    """I7: no high watermark above the log end of a replica the leader has asked to add (the maximal ISR, KIP-497).

    The controller may have stored it already. The rest of the maximal ISR is `weak_isr`'s. Asked by `explore` only: a
    leader may count on a former incarnation of a broker that has come back empty, and a view does not tell incarnations (KIP-903).
    """
    for partition, state in sorted(view.partitions.items()):
        for leader in state.replicas:
            if not (leader.is_leader and leader.is_alive) or leader.isr == leader.maximal_isr:
                continue
            if state.has_moved and state.stored and leader.leader_epoch < state.stored.leader_epoch:
                continue  # as in `weak_isr`
            for member in state.replicas:
                joins = member.broker in leader.maximal_isr and member.broker not in leader.isr
                if joins and member.log_end_offset < leader.high_watermark:
                    yield Anomaly(
                        "I7",
                        partition,
                        f"leader {leader.broker} has asked to add broker {member.broker}, which ends at "
                        f"{member.log_end_offset}, below its high watermark {leader.high_watermark}",
                    )


def strong_isr(view: ClusterView) -> Iterator[Anomaly]:
    """StrongIsr: every replica in the *stored* ISR does, for every presumed leader."""
    for partition, state in sorted(view.partitions.items()):
        if state.stored is None:
            continue
        for leader in state.replicas:
            if leader.is_leader and leader.is_alive:
                yield from _holds("StrongIsr", partition, state, leader, state.stored.isr)


def _holds(
    name: str, partition: TopicPartition, state: PartitionView, leader: ReplicaView, isr: tuple[BrokerId, ...]
) -> Iterator[Anomaly]:
    for member in state.replicas:
        if member.broker not in isr or member.broker == leader.broker:
            continue
        limit = leader.high_watermark
        if member.log_end_offset < limit:
            yield Anomaly(
                name,
                partition,
                f"broker {member.broker} is in the ISR {list(isr)} and ends at {member.log_end_offset}, below the "
                f"high watermark {limit} of leader {leader.broker} (epoch {leader.leader_epoch})",
            )
            continue
        found = first_difference(leader, member, limit)
        if found is not None:
            yield Anomaly(
                name,
                partition,
                f"broker {member.broker} is in the ISR {list(isr)} and differs from leader {leader.broker} "
                f"(epoch {leader.leader_epoch}) at offset {found}, below its high watermark {limit}",
            )


def one_leader_and_one_controller(view: ClusterView) -> Iterator[Anomaly]:
    """I10: at most one leader per leader epoch, at most one acting controller per controller epoch."""
    for partition, state in sorted(view.partitions.items()):
        by_epoch: dict[int, list[BrokerId]] = {}
        for replica in state.replicas:
            if replica.is_leader and replica.is_alive:
                by_epoch.setdefault(replica.leader_epoch, []).append(replica.broker)
        for epoch, leaders in by_epoch.items():
            if len(leaders) > 1:
                yield Anomaly("I10", partition, f"brokers {leaders} all lead in epoch {epoch}")
    by_controller_epoch: dict[int, list[BrokerId]] = {}
    for broker, epoch in view.controllers:
        by_controller_epoch.setdefault(epoch, []).append(broker)
    for epoch, brokers in by_controller_epoch.items():
        if len(brokers) > 1:
            yield Anomaly("I10", None, f"brokers {brokers} all act as controller in epoch {epoch}")


def stale_writes_fenced(view: ClusterView) -> Iterator[Anomaly]:
    """I10: no write of a controller takes effect once another has been elected (KAFKA-6082)."""
    for write in view.controller_writes:
        if write.controller_epoch < write.elected_epoch:
            yield Anomaly(
                "I10",
                None,
                f"broker {write.controller} wrote {write.path} as controller of epoch {write.controller_epoch}, "
                f"after epoch {write.elected_epoch} had begun",
            )


def converged(view: ClusterView) -> Iterator[Anomaly]:
    """I11: store, controller cache and every live broker say the same, and nothing is left of what was deleted.

    Asked once all is healed and quiet.
    """
    for topic in view.topics_to_delete:
        yield Anomaly("I11", None, f"topic {topic} is still to be deleted")
    for broker, partition in view.strays:
        yield Anomaly("I11", partition, f"broker {broker} has a log that nobody assigned to it")
    for partition, state in sorted(view.partitions.items()):
        stored = state.stored
        if state.is_moving:
            yield Anomaly("I11", partition, f"the reassignment to {list(state.assignment)} is not finished")
        if stored is None:
            yield Anomaly("I11", partition, "no state is stored")
            continue
        if state.cached != stored and (state.cached is not None or view.has_controller):
            yield Anomaly("I11", partition, f"the controller has {state.cached}, the store {stored}")
        for broker in view.live_brokers:
            known = view.metadata.get((broker, partition))
            if known != (stored.leader, stored.leader_epoch):
                yield Anomaly(
                    "I11",
                    partition,
                    f"broker {broker} tells of (leader, epoch) {known}, the store has "
                    f"{(stored.leader, stored.leader_epoch)}",
                )
        for replica in state.replicas:
            if replica.is_alive and replica.is_leader != (replica.broker == stored.leader):
                yield Anomaly(
                    "I11",
                    partition,
                    f"broker {replica.broker} leads: {replica.is_leader}; stored: {stored.leader}",
                )


def identical_logs(view: ClusterView) -> Iterator[Anomaly]:
    """I9, quiescent: all replicas hold the same batches up to the leader's high watermark.

    All that are assigned: what a broker keeps after its replica was taken away from it follows nobody.
    """
    for partition, state in sorted(view.partitions.items()):
        assigned = [r for r in state.replicas if not state.assignment or r.broker in state.assignment]
        for leader in assigned:
            if not leader.is_leader:
                continue
            for other in assigned:
                if other.broker == leader.broker:
                    continue
                limit = leader.high_watermark
                found = first_difference(leader, other, limit)
                if other.log_end_offset < limit:
                    yield Anomaly(
                        "I9", partition, f"broker {other.broker} ends at {other.log_end_offset}, not {limit}"
                    )
                elif found is not None:
                    yield Anomaly(
                        "I9", partition, f"brokers {leader.broker}, {other.broker} differ at offset {found}"
                    )


class HighWatermarks:
    """I7: a leader's high watermark never falls within its epoch."""

    def __init__(self) -> None:
        self._highest: dict[tuple[TopicPartition, int, int, BrokerId], int] = {}

    def observe(self, view: ClusterView) -> Iterator[Anomaly]:
        for partition, state in sorted(view.partitions.items()):
            for leader in state.replicas:
                if not (leader.is_leader and leader.is_alive):
                    continue
                key = (partition, state.incarnation, leader.leader_epoch, leader.broker)
                before = self._highest.get(key, -1)
                if leader.high_watermark < before:
                    yield Anomaly(
                        "I7",
                        partition,
                        f"leader {leader.broker}: high watermark fell from {before} to {leader.high_watermark} "
                        f"in epoch {leader.leader_epoch}",
                    )
                self._highest[key] = max(before, leader.high_watermark)


class StableOffsets:
    """LastStable: a leader's last stable offset never falls within its epoch, and is not above the high watermark. What a reader
    of committed records has read is decided for good: by markers that are committed too, so a later leader whose high watermark
    is as high has them, and is as far."""

    def __init__(self) -> None:
        self._highest: dict[tuple[TopicPartition, int, int, BrokerId], int] = {}
        # (last stable offset, high watermark, leader epoch) where the first was highest
        self._decided: dict[tuple[TopicPartition, int, int], tuple[int, int, int]] = {}

    def observe(self, view: ClusterView) -> Iterator[Anomaly]:
        for partition, state in sorted(view.partitions.items()):
            for leader in state.replicas:
                if not (leader.is_leader and leader.is_alive):
                    continue
                stable = leader.last_stable_offset
                if stable > leader.high_watermark:
                    yield Anomaly(
                        "LastStable",
                        partition,
                        f"leader {leader.broker}: last stable offset {stable} above the high watermark {leader.high_watermark}",
                    )
                key = (partition, state.incarnation, leader.leader_epoch, leader.broker)
                before = self._highest.get(key, -1)
                if stable < before:
                    yield Anomaly(
                        "LastStable",
                        partition,
                        f"leader {leader.broker}: last stable offset fell from {before} to {stable} in epoch {leader.leader_epoch}",
                    )
                self._highest[key] = max(before, stable)
                era = (partition, state.incarnation, state.unclean_elections)
                decided, mark, epoch = self._decided.get(era, (-1, -1, -1))
                if leader.leader_epoch > epoch and leader.high_watermark >= mark and stable < decided:
                    yield Anomaly(
                        "LastStable",
                        partition,
                        f"leader {leader.broker}: last stable offset {stable} in epoch {leader.leader_epoch}, and it was {decided} "
                        f"in epoch {epoch}, below the same high watermark {mark}",
                    )
                if stable > decided:
                    self._decided[era] = stable, leader.high_watermark, leader.leader_epoch


class Eras:
    """Of each partition which topic of its name it is of, and how many unclean elections ago its records began."""

    def __init__(self) -> None:
        self._eras: dict[TopicPartition, tuple[int, int]] = {}

    def is_another(self, partition: TopicPartition, state: PartitionView) -> bool:
        """Than when it was asked last: what was committed before is owed by nobody."""
        era = state.incarnation, state.unclean_elections
        before = self._eras.get(partition, era)
        self._eras[partition] = era
        return before != era


class Committed:
    """I8: whoever may be elected cleanly holds everything ever committed: the stored ISR, and while that is smaller
    than min.insync.replicas also the replicas that are eligible outside it (KIP-966).

    Committed is what lay below the high watermark of a leader whose epoch was the stored one. The memory keeps the
    batches, so that a record that was committed and then replaced everywhere is still missed.
    """

    def __init__(self) -> None:
        self._batches: dict[TopicPartition, dict[int, BatchView]] = {}
        self._in_order: dict[TopicPartition, BatchList] = {}  # the same, to be compared by digest
        self._eras = Eras()

    def forget(self, partition: TopicPartition) -> None:
        """The topic was deleted, or lost records with our consent (an unclean election)."""
        self._batches.pop(partition, None)
        self._in_order.pop(partition, None)

    def observe(self, view: ClusterView) -> Iterator[Anomaly]:
        for partition, state in sorted(view.partitions.items()):
            stored = state.stored
            if stored is None:
                continue
            if self._eras.is_another(partition, state):
                self.forget(partition)
            for leader in state.replicas:
                if leader.is_leader and leader.is_alive and leader.leader_epoch == stored.leader_epoch:
                    self._learn(partition, leader)
            electable = state.electable
            for member in state.replicas:
                if member.broker in electable and not self._has_all(partition, member):
                    yield from self._first_missing(partition, stored, member)

    def _first_missing(
        self, partition: TopicPartition, stored: LeaderAndIsr, member: ReplicaView
    ) -> Iterator[Anomaly]:
        held = {batch.base_offset: batch for batch in member.batches}
        for base_offset, batch in sorted(self._batches.get(partition, {}).items()):
            if base_offset >= member.log_start_offset and held.get(base_offset) != batch:
                yield Anomaly(
                    "I8",
                    partition,
                    f"broker {member.broker} is {_as_what(member.broker, stored)} without the "
                    f"committed {batch}; it has {held.get(base_offset)}",
                )
                return

    def _learn(self, partition: TopicPartition, leader: ReplicaView) -> None:
        batches, known = leader.batches, self._in_order.get(partition)
        if isinstance(batches, Batches) and known is not None:
            count, have = batches.count_below(leader.high_watermark), known.snapshot()
            both = min(count, len(have))
            if batches.begins_at() == have.begins_at() and batches.digest(both) == have.digest(both):
                committed = self._batches[partition]
                for batch in batches[both:count]:
                    committed[batch.base_offset] = batch
                    known.append(batch)
                return
        committed = self._batches.setdefault(partition, {})
        for batch in batches:
            if batch.last_offset < leader.high_watermark:
                committed.setdefault(batch.base_offset, batch)
        self._in_order[partition] = BatchList([batch for _, batch in sorted(committed.items())])

    def _has_all(self, partition: TopicPartition, member: ReplicaView) -> bool:
        """By digest; False also where it cannot be seen so cheaply."""
        known = self._in_order.get(partition)
        if known is None or not known.items:
            return True
        have, batches = known.snapshot(), member.batches
        return (
            isinstance(batches, Batches)
            and len(batches) >= len(have)
            and batches.begins_at() == have.begins_at()
            and batches.digest(len(have)) == have.digest(len(have))
        )


def _as_what(broker: BrokerId, stored: LeaderAndIsr) -> str:
    if broker in stored.isr:
        return f"in the ISR {list(stored.isr)}"
    return f"eligible outside the ISR {list(stored.isr)}"


class Leaders:
    """I10 over time: nobody else ever leads in an epoch that somebody has led in."""

    def __init__(self) -> None:
        self._leader: dict[tuple[TopicPartition, int, int], BrokerId] = {}
        self._controller: dict[int, BrokerId] = {}

    def observe(self, view: ClusterView) -> Iterator[Anomaly]:
        for partition, state in sorted(view.partitions.items()):
            for replica in state.replicas:
                if replica.is_leader and replica.is_alive:
                    key = (partition, state.incarnation, replica.leader_epoch)
                    first = self._leader.setdefault(key, replica.broker)
                    if first != replica.broker:
                        yield Anomaly(
                            "I10",
                            partition,
                            f"brokers {first} and {replica.broker} led in epoch {replica.leader_epoch}",
                        )
        for broker, epoch in view.controllers:
            first = self._controller.setdefault(epoch, broker)
            if first != broker:
                yield Anomaly("I10", None, f"brokers {first} and {broker} were controller in epoch {epoch}")


def _neighbours(batches: Sequence[BatchView]) -> Iterator[tuple[BatchView, BatchView]]:
    """Those next to each other that may be wrong."""
    if isinstance(batches, Batches):
        for index in batches.disorder():
            yield batches[index - 1], batches[index]
    else:
        yield from pairwise(batches)


def first_difference(one: ReplicaView, other: ReplicaView, limit: int) -> int | None:
    """The first offset below `limit` that both logs cover and at which they hold different batches."""
    mine_seen, theirs_seen = one.batches, other.batches
    start = max(one.log_start_offset, other.log_start_offset)
    if isinstance(mine_seen, Batches) and isinstance(theirs_seen, Batches):
        if mine_seen.is_same_below(theirs_seen, limit):
            return None
        # One of them begins later, as a rule.
        is_in_order = not (mine_seen.disorder() or theirs_seen.disorder())
        if is_in_order and mine_seen.between(start, limit) == theirs_seen.between(start, limit):
            return None
    mine = {b.base_offset: b for b in one.batches if start <= b.base_offset and b.last_offset < limit}
    theirs = {b.base_offset: b for b in other.batches if start <= b.base_offset and b.last_offset < limit}
    for base_offset in sorted(mine.keys() | theirs.keys()):
        if mine.get(base_offset) != theirs.get(base_offset):
            return base_offset
    return None


# After every step of a controller, and at every look besides.
STEP_CHECKS = (
    type_ok, leader_in_isr, valid_high_watermark, weak_isr, strong_isr, one_leader_and_one_controller,
    stale_writes_fenced,
)  # fmt: skip
QUIESCENCE_CHECKS = (converged, identical_logs)
