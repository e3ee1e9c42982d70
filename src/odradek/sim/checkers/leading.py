"""Judges what leaders know of their followers and of their own epoch, from one look to the next.

Harm comes of it in one moment only: when a member is put out of the ISR, or let in, or when the leader restarts. So it is judged
whenever somebody looks, and not by what came of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly


class FollowerSeen(NamedTuple):
    """What a leader knows of a follower."""

    broker: BrokerId
    life: int  # its broker epoch
    log_end_offset: int
    caught_up_ms: int  # when it was caught up last, as far as the leader can tell
    is_counted: bool  # in the maximal ISR
    is_live: bool
    is_fetching: bool = True  # whoever stands for it fetches the partition; or nobody does
    is_member: bool = False  # of the ISR that is committed, and not to leave it
    could_join: bool = False  # it is live and stays, is outside the ISR, was heard of within the lag time, and has all it needs


class LeaderSeen(NamedTuple):
    topic_partition: TopicPartition
    broker: BrokerId
    era: object  # which life of the broker, which topic of the name, and the leader epoch
    leader_epoch: int
    written_epoch: int  # the latest in its epoch file
    high_watermark: int
    now_ms: int
    lag_ms: int
    followers: Sequence[FollowerSeen]
    log_end_offset: int = 0
    is_deciding: bool = False  # it is at work, and no change of the ISR is under way


class Joining(NamedTuple):
    """Whom a leader has asked to let into the ISR, where it believes its log to end, and what a member holds."""

    topic_partition: TopicPartition
    leader: BrokerId
    joiner: BrokerId
    log_end_offset: int
    high_watermark: int
    epoch_start_offset: int


def joiners_have_all(joining: Iterable[Joining]) -> Iterator[Anomaly]:
    """JoinerHasAll: who is to join the ISR ends neither below the high watermark nor below the start of the leader's epoch: a high
    watermark of a new leader may be that of long ago, and what is below its start may be committed (KAFKA-7128)."""
    for one in joining:
        needed = max(one.high_watermark, one.epoch_start_offset)
        if one.log_end_offset < needed:
            yield Anomaly(
                "JoinerHasAll",
                one.topic_partition,
                f"leader {one.leader} proposes broker {one.joiner}, which ends at {one.log_end_offset}: the high watermark is "
                f"{one.high_watermark}, and the leader epoch begins at {one.epoch_start_offset}",
            )


# Of a proposal that was refused, which is made again after a quarter of a second.
PROPOSED_WITHIN_S = 3.0
# Beyond half of the lag time, after which members are looked at again: some turns, and a proposal that was refused.
LOOKS_AGAIN_S = 2.0

# A follower as one leader knows it, in one life of it.
Followed = tuple[TopicPartition, BrokerId, object, BrokerId, int]


class Leading:
    """Of one look after another; `observe` is given all that lead."""

    def __init__(self) -> None:
        self._before: dict[tuple[TopicPartition, BrokerId, object], LeaderSeen] = {}
        # Since when a member of the ISR could have been put out of it, in virtual seconds.
        self._behind_since: dict[Followed, float] = {}
        self._ready_since: dict[Followed, float] = {}  # ... and somebody outside it be let in

    def observe(self, leaders: Iterable[LeaderSeen], now_s: float = 0.0) -> list[Anomaly]:
        before, self._before = self._before, {}
        behind, self._behind_since = self._behind_since, {}
        ready, self._ready_since = self._ready_since, {}
        found: list[Anomaly] = []
        for leader in leaders:
            key = leader.topic_partition, leader.broker, leader.era
            self._before[key] = leader
            found += _now(leader)
            earlier = before.get(key)
            if earlier is not None:
                found += _since(earlier, leader)
            if leader.is_deciding:
                found += self._stays(leader, behind, now_s)
                found += self._is_left_out(leader, ready, now_s)
        return found

    def _stays(self, leader: LeaderSeen, behind: dict[Followed, float], now_s: float) -> Iterator[Anomaly]:
        """LaggardLeaves: who was not caught up for the lag time is not left in the ISR for longer than until members are looked at
        again: nothing would be committed meanwhile."""
        for follower in leader.followers:
            if (
                follower.is_member
                and follower.log_end_offset != leader.log_end_offset
                and follower.caught_up_ms < leader.now_ms - leader.lag_ms
            ):
                key = leader.topic_partition, leader.broker, leader.era, follower.broker, follower.life
                since_s = self._behind_since[key] = behind.get(key, now_s)
                if now_s - since_s > leader.lag_ms / 2000 + LOOKS_AGAIN_S:
                    yield Anomaly(
                        "LaggardLeaves",
                        leader.topic_partition,
                        f"leader {leader.broker} keeps broker {follower.broker} in the ISR, which ends at {follower.log_end_offset} "
                        f"of {leader.log_end_offset} and was caught up {leader.now_ms - follower.caught_up_ms} ms ago",
                    )

    def _is_left_out(
        self, leader: LeaderSeen, ready: dict[Followed, float], now_s: float
    ) -> Iterator[Anomaly]:
        """JoinerIsAsked: who could be in the ISR is proposed, again and again where that was refused: one that has nothing to fetch does not
        name the partition, and nobody else would ask."""
        for follower in leader.followers:
            if follower.could_join:
                key = leader.topic_partition, leader.broker, leader.era, follower.broker, follower.life
                since_s = self._ready_since[key] = ready.get(key, now_s)
                if now_s - since_s > PROPOSED_WITHIN_S:
                    yield Anomaly(
                        "JoinerIsAsked",
                        leader.topic_partition,
                        f"leader {leader.broker} leaves broker {follower.broker} out of the ISR, which ends at "
                        f"{follower.log_end_offset} of {leader.log_end_offset}, for {now_s - since_s:.1f} s",
                    )


def _now(leader: LeaderSeen) -> Iterator[Anomaly]:
    """EpochIsWritten: a leader has written its epoch down before it serves, with records of it or without (KAFKA-7415).
    FetchStandsFor: the session that says when a follower fetched last fetches this partition for it."""
    if leader.written_epoch != leader.leader_epoch:
        yield Anomaly(
            "EpochIsWritten",
            leader.topic_partition,
            f"broker {leader.broker} leads in epoch {leader.leader_epoch}, and the latest it has written down is "
            f"{leader.written_epoch}",
        )
    for follower in leader.followers:
        if not follower.is_fetching:
            yield Anomaly(
                "FetchStandsFor",
                leader.topic_partition,
                f"at leader {leader.broker} a session stands for broker {follower.broker} that does not fetch the partition",
            )


def _since(before: LeaderSeen, leader: LeaderSeen) -> Iterator[Anomaly]:
    """CaughtUpIsKept: when a follower was caught up last is never an earlier time than before: it would be put out of the ISR.
    CaughtUpIsTrue: who was caught up at a time has all that there was then: one that only fetches would never leave the ISR.
    MarkWaits: the high watermark does not pass a live follower that was caught up a moment ago, in the ISR or not (KIP-16).
    LeaverLags: in a leader epoch only its leader puts members out of the ISR, those that were not caught up for the lag time."""
    known = {follower.broker: follower for follower in before.followers}
    for follower in leader.followers:
        earlier = known.get(follower.broker)
        if (
            earlier is None
            or earlier.life != follower.life
            or follower.log_end_offset < earlier.log_end_offset
        ):
            continue
        if follower.caught_up_ms < earlier.caught_up_ms:
            yield Anomaly(
                "CaughtUpIsKept",
                leader.topic_partition,
                f"leader {leader.broker} knew that broker {follower.broker} was caught up at {earlier.caught_up_ms}, and has it "
                f"caught up at {follower.caught_up_ms}",
            )
        if follower.caught_up_ms > before.now_ms and follower.log_end_offset < before.log_end_offset:
            yield Anomaly(
                "CaughtUpIsTrue",
                leader.topic_partition,
                f"leader {leader.broker} ended at {before.log_end_offset} at {before.now_ms}, and has broker {follower.broker} caught up "
                f"at {follower.caught_up_ms}, which ends at {follower.log_end_offset} now",
            )
        was_recent = leader.now_ms - earlier.caught_up_ms <= leader.lag_ms
        if earlier.is_member and not follower.is_member and was_recent and before.now_ms <= leader.now_ms:
            yield Anomaly(
                "LeaverLags",
                leader.topic_partition,
                f"leader {leader.broker} has put broker {follower.broker} out of the ISR, which was caught up "
                f"{leader.now_ms - earlier.caught_up_ms} ms ago",
            )
        is_outside = not (follower.is_counted or earlier.is_counted)
        if (
            was_recent
            and is_outside
            and follower.is_live
            and earlier.is_live
            and before.high_watermark < leader.high_watermark
            and follower.log_end_offset < leader.high_watermark
        ):
            yield Anomaly(
                "MarkWaits",
                leader.topic_partition,
                f"leader {leader.broker} has raised the high watermark from {before.high_watermark} to {leader.high_watermark} past "
                f"broker {follower.broker}, which ends at {follower.log_end_offset} and was caught up "
                f"{leader.now_ms - earlier.caught_up_ms} ms ago",
            )
