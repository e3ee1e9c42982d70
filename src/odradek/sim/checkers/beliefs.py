"""Judges what brokers believe of each other against what is so, at every look.

A wrong belief does harm only if somebody dies while it is held, and most are mended by the next fetch. So they are judged
themselves, and not by what came of them.
"""

from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.replicas import ClusterView, PartitionView, first_difference


def maximal_isr_covers_the_store(view: ClusterView) -> Iterator[Anomaly]:
    """MaximalIsr: a leader counts on every member of the stored ISR of its epoch.

    Within a leader epoch the ISR changes by the proposals of its leader alone, and until the answer comes the leader counts on
    whoever the controller may have stored (KIP-497).
    """
    for partition, state in sorted(view.partitions.items()):
        stored = state.stored
        if stored is None:
            continue
        for leader in state.replicas:
            if not leader.is_leader or leader.leader_epoch != stored.leader_epoch:
                continue
            left_out = [member for member in stored.isr if member not in leader.maximal_isr]
            if left_out:
                yield Anomaly(
                    "MaximalIsr",
                    partition,
                    f"leader {leader.broker} counts on {list(leader.maximal_isr)}, and not on {left_out} of the stored ISR "
                    f"{list(stored.isr)}",
                )


def marks_are_committed(view: ClusterView) -> Iterator[Anomaly]:
    """MarkIsCommitted: what a follower takes for committed is on every member of the stored ISR; of leaders StrongIsr asks it."""
    for partition, state in sorted(view.partitions.items()):
        if state.stored is None:
            continue
        members = [replica for replica in state.replicas if replica.broker in state.stored.isr]
        for follower in state.replicas:
            if follower.is_leader:
                continue
            mark = follower.high_watermark
            for member in members:
                if member is follower:
                    continue
                found = first_difference(follower, member, mark)
                if member.log_end_offset < mark or found is not None:
                    where = (
                        f"ends at {member.log_end_offset}" if found is None else f"differs at offset {found}"
                    )
                    yield Anomaly(
                        "MarkIsCommitted",
                        partition,
                        f"follower {follower.broker} has the high watermark {mark}, and broker {member.broker}, of the ISR, "
                        f"{where}",
                    )


BELIEF_CHECKS = (maximal_isr_covers_the_store, marks_are_committed)


class Position(NamedTuple):
    """Where a leader believes the log of a follower to end, by a fetch of this life of the follower in this leader epoch."""

    topic_partition: TopicPartition
    leader: BrokerId
    follower: BrokerId
    believed_end: int
    end: int


def positions_are_held(positions: Iterable[Position]) -> Iterator[Anomaly]:
    """ValidPosition: no follower ends before the position that its leader counts."""
    for position in positions:
        if position.end < position.believed_end:
            yield Anomaly(
                "ValidPosition",
                position.topic_partition,
                f"leader {position.leader} believes broker {position.follower} to end at {position.believed_end}, and it ends "
                f"at {position.end}",
            )


class LowMark(NamedTuple):
    """A leader whose high watermark is below what the positions of its followers prove."""

    topic_partition: TopicPartition
    leader: BrokerId
    leader_epoch: int
    high_watermark: int
    proven: int


class StandingMarks:
    """MarkRises: a leader's high watermark does not stay below what the positions of its followers prove: whoever waits for it
    would wait for a fetch that may never come."""

    WITHIN_S = 1.0

    def __init__(self) -> None:
        self._since_s: dict[tuple[TopicPartition, BrokerId, int, int], float] = {}

    def observe(self, low: Iterable[LowMark], now_s: float) -> list[Anomaly]:
        """`low`: all that there are at `now_s`, in virtual seconds."""
        before, self._since_s, found = self._since_s, {}, []
        for mark in low:
            key = mark[:4]
            since_s = self._since_s[key] = before.get(key, now_s)
            if now_s - since_s > self.WITHIN_S:
                found.append(
                    Anomaly(
                        "MarkRises",
                        mark.topic_partition,
                        f"leader {mark.leader} has had the high watermark {mark.high_watermark} for {now_s - since_s:.1f} s, "
                        f"and its followers prove {mark.proven}",
                    )
                )
        return found


class Acquaintance(NamedTuple):
    """Whom a broker takes for live, and whose addresses it knows."""

    broker: BrokerId
    live: Set[int]
    known: Set[int]


def who_is_live_is_known(acquaintances: Iterable[Acquaintance]) -> Iterator[Anomaly]:
    """LiveIsKnown: a broker counts on those that the controller names as live, and on nobody else."""
    for acquaintance in acquaintances:
        if acquaintance.live != acquaintance.known:
            yield Anomaly(
                "LiveIsKnown",
                None,
                f"broker {acquaintance.broker} takes {sorted(acquaintance.live)} for live, and the controller named "
                f"{sorted(acquaintance.known)}",
            )


class Told(NamedTuple):
    """What a leader believes of the state node whose epochs it has, and what that says."""

    topic_partition: TopicPartition
    leader: BrokerId
    isr: tuple[BrokerId, ...]
    stored_isr: tuple[BrokerId, ...]
    has_eligible: bool
    stored_elr: tuple[BrokerId, ...]


def what_is_stored_is_known(all_told: Iterable[Told]) -> Iterator[Anomaly]:
    """StoredIsKnown: a leader that has the epochs of the state node has the ISR that it holds, and knows whether somebody outside
    it is eligible: then it commits nothing (KIP-966)."""
    for told in all_told:
        if told.isr != told.stored_isr:
            yield Anomaly(
                "StoredIsKnown",
                told.topic_partition,
                f"leader {told.leader} has the ISR {list(told.isr)}, and the store {list(told.stored_isr)} in the same epochs",
            )
        if told.has_eligible != bool(told.stored_elr):
            yield Anomaly(
                "StoredIsKnown",
                told.topic_partition,
                f"leader {told.leader} takes {'somebody' if told.has_eligible else 'nobody'} for eligible, and the store names "
                f"{list(told.stored_elr)}",
            )


class Role(NamedTuple):
    """What a replica was told of the state node whose epochs it has."""

    topic_partition: TopicPartition
    broker: BrokerId
    leader: BrokerId
    recovery_state: int
    stored_leader: BrokerId
    stored_recovery_state: int


def roles_are_as_stored(roles: Iterable[Role]) -> Iterator[Anomaly]:
    """StoredIsKnown, of every replica: one that has the epochs of the state node knows who leads, and whether that is still what an
    unclean election left."""
    for role in roles:
        told, stored = role[2:4], role[4:]
        if told != stored:
            yield Anomaly(
                "StoredIsKnown",
                role.topic_partition,
                f"broker {role.broker} has (leader, recovery state) {told}, and the store {stored} in the same epochs",
            )


class Waiting(NamedTuple):
    """A producer that waits for `offset`, which is committed; or that nothing will be, for too few are in sync."""

    topic_partition: TopicPartition
    leader: BrokerId
    offset: int
    high_watermark: int


def nobody_waits_in_vain(all_waiting: Iterable[Waiting]) -> Iterator[Anomaly]:
    """NobodyWaits: who waits for what is committed is answered in the turn that committed it, and with too few in sync nobody
    waits: those that did were told NOT_ENOUGH_REPLICAS_AFTER_APPEND (row 158)."""
    for one in all_waiting:
        why = "is committed" if one.offset <= one.high_watermark else "is not, with too few in sync"
        yield Anomaly(
            "NobodyWaits",
            one.topic_partition,
            f"somebody waits at leader {one.leader} for offset {one.offset}, which {why}: its high watermark is {one.high_watermark}",
        )


class Following(NamedTuple):
    """A replica that follows, or is fetched for, and from whom: who leads as it was told, and by whose fetchers it is fetched."""

    topic_partition: TopicPartition
    broker: BrokerId
    leader: tuple[int, int] | None  # and in which epoch; None: it follows nobody
    fetched_from: tuple[tuple[int, int], ...]


def each_follows_its_leader(all_following: Iterable[Following]) -> Iterator[Anomaly]:
    """FollowsItsLeader: a broker fetches each replica that follows from its leader, in the epoch that it was told, and nothing else."""
    for one in all_following:
        if one.fetched_from != (() if one.leader is None else (one.leader,)):
            whom = "nobody" if one.leader is None else f"broker {one.leader[0]} in epoch {one.leader[1]}"
            yield Anomaly(
                "FollowsItsLeader",
                one.topic_partition,
                f"broker {one.broker} follows {whom}, and fetches from (broker, epoch) {list(one.fetched_from)}",
            )


class Overslept(NamedTuple):
    """A parked request that could be answered, and that nobody has woken."""

    broker: BrokerId
    waiter: str


def nobody_oversleeps(all_overslept: Iterable[Overslept]) -> Iterator[Anomaly]:
    """NobodyWaits, of requests of administrators: what makes an answer possible wakes whoever waits for it, and no deadline has to."""
    for one in all_overslept:
        yield Anomaly(
            "NobodyWaits",
            None,
            f"a {one.waiter} of broker {one.broker} could be answered, and nobody has woken it",
        )


class Reading(NamedTuple):
    """A reader of a fetch session that has not been told: there are records from `offset` on up to `end`; the replica leads, follows,
    or does so in another epoch. Or it is none any more."""

    topic_partition: TopicPartition
    broker: BrokerId
    offset: int
    end: int
    is_asked_for: bool
    knows_the_role: bool = True


def readers_are_told(all_reading: Iterable[Reading]) -> Iterator[Anomaly]:
    """ReaderIsTold: what a fetch session, or a fetch that waits, does not hold for pending has nothing new for it; who has left it is
    no reader."""
    for one in all_reading:
        what = f"was not told of records up to {one.end - 1}"
        if not one.is_asked_for:
            what = "has left its session"
        elif not one.knows_the_role:
            what = "was not told that the replica has another role, or epoch"
        yield Anomaly(
            "ReaderIsTold",
            one.topic_partition,
            f"a reader of broker {one.broker} at offset {one.offset} {what}",
        )


class ToldEnd(NamedTuple):
    """Where a leader tells consumers that a partition ends."""

    topic_partition: TopicPartition
    leader: BrokerId
    leader_epoch: int
    era: tuple[int, int]  # which topic of its name, and how many unclean elections ago its records began
    end: int


class ToldEnds:
    """EndIsKept: where consumers are told that a partition ends never goes back: a leader whose high watermark may still be that of
    one before it is not sure, and says so (KIP-207)."""

    def __init__(self) -> None:
        # Partition and era -> the furthest end, and in which epoch it was told.
        self._furthest: dict[tuple[TopicPartition, tuple[int, int]], tuple[int, int]] = {}

    def forget(self, partition: TopicPartition) -> None:
        self._furthest = {key: told for key, told in self._furthest.items() if key[0] != partition}

    def observe(self, told: Iterable[ToldEnd]) -> Iterator[Anomaly]:
        for one in told:
            key = one.topic_partition, one.era
            furthest, epoch = self._furthest.get(key, (-1, -1))
            if one.end < furthest and one.leader_epoch >= epoch:
                yield Anomaly(
                    "EndIsKept",
                    one.topic_partition,
                    f"leader {one.leader} tells consumers in epoch {one.leader_epoch} that it ends at {one.end}, and was {furthest} in "
                    f"epoch {epoch}",
                )
            if one.end > furthest:
                self._furthest[key] = one.end, one.leader_epoch


def deleted_everywhere(
    partition: TopicPartition, state: PartitionView, low_watermark: int
) -> Iterator[Anomaly]:
    """LowWatermark: when DeleteRecords is answered with `low_watermark`, every member of the stored ISR begins there or later."""
    isr = () if state.stored is None else state.stored.isr
    for replica in state.replicas:
        if replica.broker in isr and replica.log_start_offset < low_watermark:
            yield Anomaly(
                "LowWatermark",
                partition,
                f"DeleteRecords was answered with the low watermark {low_watermark}, and broker {replica.broker}, of the ISR, "
                f"begins at {replica.log_start_offset}",
            )


def begins_as_asked(partition: TopicPartition, state: PartitionView, asked: float) -> Iterator[Anomaly]:
    """StartIsAsked: no replica begins behind the offset up to which records were to be deleted."""
    for replica in state.replicas:
        if replica.log_start_offset > asked:
            yield Anomaly(
                "StartIsAsked",
                partition,
                f"broker {replica.broker} begins at {replica.log_start_offset}, and records were to be deleted up to {asked:g}",
            )
