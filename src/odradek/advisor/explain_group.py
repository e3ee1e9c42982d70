"""Why a group does not stabilise, who lags, and what a broker's death would do to it: trees as for partitions.

What is known comes from outside (`model.groups`): what its coordinator describes, how far each partition is read,
and what the records of the group tell of its past. What cannot be known that way is said so.
"""

import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from odradek.advisor.explain import Why
from odradek.advisor.explain_replication import why_partition
from odradek.advisor.what_if import PartitionOutcome, what_if
from odradek.controller.context import ControllerContext
from odradek.model.counted import counted, first_of
from odradek.model.groups import EMPTY, STABLE, Generation, Group, GroupHistory, Position
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.printable import named
from odradek.model.values import dataclass

# More generations than this within the time: somebody comes and goes.
CHURN_MS = 10 * 60_000
CHURN = 3
# Clients commit every 5 s by default; one that has records to read and has not for so long is stuck.
SILENT_MS = 60_000
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Death:
    """What happens to a group when a broker dies. `coordinator` None: stays where it is; -1: there is none."""

    broker: BrokerId
    coordinator: BrokerId | None
    commits_refused: bool
    new_leaders: tuple[TopicPartition, ...]
    offline: tuple[TopicPartition, ...]

    @property
    def sentence(self) -> str:
        parts = []
        if self.coordinator is not None:
            parts.append(
                "it has no coordinator: no join, no commit"
                if self.coordinator < 0
                else f"broker {self.coordinator} coordinates it"
            )
        if self.commits_refused:
            parts.append("commits are refused, for want of replicas")
        if self.offline:
            parts.append(f"{first_of(self.offline, SHOWN)} cannot be read")
        if self.new_leaders:
            parts.append(f"another leader for {first_of(self.new_leaders, SHOWN)}")
        return f"broker {self.broker} dies: {'; '.join(parts) or 'nothing changes for it'}"


def why_group(
    context: ControllerContext,
    group: Group,
    at: TopicPartition,
    read: Sequence[Position],
    history: GroupHistory | None,
    now_ms: int,
) -> tuple[Why, ...]:
    """Everything one needs of a group, the worst first. `at`: its partition of `__consumer_offsets`; `history` None: it
    could not be read."""
    # That it has a leader, and that acks=all is accepted: a replica that lags hinders nobody.
    trees = why_partition(context, at, now_ms)[:2]
    coordinated = Why(
        f"{named(group.name)} has a coordinator that can write",
        all(tree.holds for tree in trees),
        f"broker {group.coordinator}, which leads {at}",
        because=tuple(tree for tree in trees if not tree.holds),
    )
    return (
        coordinated,
        _stable(group, history, now_ms),
        _subscriptions(context, group),
        _owned(context, group),
        _keeps_up(group, read, history, now_ms),
    )


def _stable(group: Group, history: GroupHistory | None, now_ms: int) -> Why:
    condition = f"{named(group.name)} is stable"
    churn = _churn(history, now_ms)
    if group.state in (STABLE, EMPTY):
        since = _since(history, now_ms)
        return Why(condition, churn.holds, f"{group.state}{since}", because=() if churn.holds else (churn,))
    return Why(condition, False, group.state, because=(_awaited(group, history), churn))


def _awaited(group: Group, history: GroupHistory | None) -> Why:
    """What the coordinator waits for in this state."""
    last = history.generations[-1] if history is not None and history.generations else None
    longest = max((seat.rebalance_timeout_ms for seat in last.seats), default=0) if last is not None else 0
    bound = (
        f"at most {longest / 1000:g} s, the largest max.poll.interval.ms"
        if longest
        else "its rebalance timeout"
    )
    match group.state:
        case "PreparingRebalance":
            missing = _gone(last, group)
            detail = f"{counted(len(group.members), 'member')} known, and no answer tells which have"
            if missing:
                detail += f"; of the last generation {missing} is gone"
            return Why(
                "every member has joined again",
                False,
                detail,
                f"each joins at its next poll; who has not after {bound}, is removed and the others go on",
            )
        case "CompletingRebalance":
            leader = last.leader if last is not None and last.leader else "the first that joined"
            return Why(
                "the leader of the group has sent the assignment",
                False,
                f"led by {leader}, unless that has changed in this rebalance",
                f"its SyncGroup; without one after {bound}, it is removed and the others join again",
            )
        case "Assigning":
            return Why("the coordinator has made an assignment", False, "", "a moment: look again")
        case _:
            return Why(
                "every member has let go of what it shall not read any more",
                False,
                f"{counted(len(group.members), 'member')}, some still on their way to the assignment",
                "their next heartbeats; who does not let go within its rebalance timeout is removed",
            )


def _gone(last: Generation | None, group: Group) -> str:
    if last is None:
        return ""
    here = {member.member_id for member in group.members}
    return ", ".join(seat.person for seat in last.seats if seat.member_id not in here)


def _churn(history: GroupHistory | None, now_ms: int) -> Why:
    condition = "no member comes and goes"
    if history is None:
        return Why(condition, True, "not known: the records of the group could not be read")
    recent = [one for one in history.generations if one.at_ms >= now_ms - CHURN_MS]
    if len(recent) <= CHURN:
        return Why(
            condition, True, f"{counted(len(recent), 'generation')} in the last {CHURN_MS // 60_000} min"
        )
    changes: Counter[str] = Counter()
    sessions: dict[str, int] = {}
    before = {seat.member_id: seat for seat in recent[0].seats}
    for generation in recent[1:]:
        after = {seat.member_id: seat for seat in generation.seats}
        for member in before.keys() ^ after.keys():
            seat = before.get(member) or after[member]
            changes[seat.person] += 1
            sessions[seat.person] = seat.session_timeout_ms
        before = after
    if not changes:
        return Why(
            condition,
            False,
            f"{len(recent)} generations in the last {CHURN_MS // 60_000} min, always with the same members",
            "a member joins again by itself: its subscription or the partitions of its topics change, or it was slower "
            "than max.poll.interval.ms",
        )
    who = "; ".join(f"{person} came or went {counted(n, 'time')}" for person, n in changes.most_common(SHOWN))
    shortest = min(sessions[person] for person, _ in changes.most_common(SHOWN))
    return Why(
        condition,
        False,
        f"{len(recent)} generations in the last {CHURN_MS // 60_000} min: {who}",
        f"look why it ends or falls silent (session.timeout.ms {shortest}, or poll called less often than "
        "max.poll.interval.ms); a group.instance.id lets it restart without a rebalance",
    )


def _subscriptions(context: ControllerContext, group: Group) -> Why:
    condition = f"every topic {named(group.name)} subscribes to is there"
    topics = sorted({topic for member in group.members for topic in member.topics or ()})
    missing = [topic for topic in topics if topic not in context.topics]
    if not missing:
        return Why(condition, True, ", ".join(topics[:SHOWN]))
    return Why(
        condition, False, f"there is no {', '.join(missing[:SHOWN])}", "create it, or mend the subscription"
    )


def _owned(context: ControllerContext, group: Group) -> Why:
    condition = f"every partition {named(group.name)} subscribes to has a reader"
    topics = sorted({topic for member in group.members for topic in member.topics or ()})
    every = {where for topic in topics if topic in context.topics for where in context.partitions_of(topic)}
    if group.state != STABLE or not every or any(member.partitions is None for member in group.members):
        return Why(condition, True, "not known outside of Stable" if group.state != STABLE else "")
    owners = Counter(where for member in group.members for where in member.partitions or ())
    nobody = sorted(every - owners.keys())
    twice = sorted(where for where, count in owners.items() if count > 1)
    if twice:
        return Why(
            condition,
            False,
            f"{first_of(twice, SHOWN)} has more than one",
            "a rebalance; the assignor is at fault",
        )
    if nobody:
        return Why(
            condition,
            False,
            f"no member reads {first_of(nobody, SHOWN)}",
            "a rebalance: restart any member of the group",
        )
    return Why(
        condition, True, f"{counted(len(every), 'partition')}, {counted(len(group.members), 'member')}"
    )


def _keeps_up(group: Group, read: Sequence[Position], history: GroupHistory | None, now_ms: int) -> Why:
    """Some lag is the rule; it is a fault where nobody works it off, or where what was committed is not there."""
    found = [why for one in read if not (why := _position(group, one, history, now_ms)).holds]
    behind = sum(one.lag or 0 for one in read)
    most = sorted((one for one in read if one.lag), key=lambda one: -(one.lag or 0))[:SHOWN]
    detail = counted(behind, "record") + " behind"
    if most:
        detail += ", most in " + ", ".join(f"{one.partition} ({one.lag})" for one in most)
    return Why(f"{named(group.name)} keeps up", not found, detail, because=tuple(found))


def _position(group: Group, one: Position, history: GroupHistory | None, now_ms: int) -> Why:
    condition = f"{one.partition} is read on"
    if one.committed is not None and one.start is not None and one.committed < one.start:
        return Why(
            condition,
            False,
            f"committed {one.committed}, and the log begins at {one.start}: what lay between is gone",
            "its reader goes on by auto.offset.reset; longer retention, or a quicker reader",
        )
    if one.committed is not None and one.end is not None and one.committed > one.end:
        return Why(
            condition,
            False,
            f"committed {one.committed}, beyond the end {one.end}: the log was truncated, or the topic re-created",
            f"odradek group seek {shlex.quote(group.name)} --topic {one.partition.topic} --to-latest, while it has no members",
        )
    if not one.lag:
        return Why(condition, True)
    if one.owner is None and group.state in (STABLE, EMPTY):
        nobody = "the group has no members" if group.state == EMPTY else "no member subscribes to it"
        return Why(condition, False, f"{one.lag} behind, and {nobody}", "start a reader, or delete the group")
    at_ms = history.committed_at_ms.get(one.partition) if history is not None else None
    if at_ms is None or one.owner is None or now_ms - at_ms <= SILENT_MS:
        return Why(condition, True)
    return Why(
        condition,
        False,
        f"{one.lag} behind, and {one.owner.client_id} at {one.owner.host} has committed nothing for "
        f"{(now_ms - at_ms) // 1000} s",
        "check that reader: it heartbeats without progress (a record that it cannot process, or commits switched off)",
    )


def _since(history: GroupHistory | None, now_ms: int) -> str:
    if history is None or not history.generations:
        return ""
    last = history.generations[-1]
    return f" for {max(now_ms - last.at_ms, 0) // 1000} s, generation {last.number}"


def owned_since(history: GroupHistory) -> dict[TopicPartition, int]:
    """Since when (ms) each partition is where it is: as far back as generation after generation says the same owner."""
    since: dict[TopicPartition, int] = {}
    owners: dict[TopicPartition, str] = {}
    for generation in history.generations:
        now = {where: seat.member_id for seat in generation.seats for where in seat.partitions or ()}
        since = {
            where: since[where] if owners.get(where) == member else generation.at_ms
            for where, member in now.items()
        }
        owners = now
    return since


def deaths(context: ControllerContext, at: TopicPartition, read: Collection[TopicPartition]) -> list[Death]:
    """For each live broker, the controller's own step without it."""
    found = []
    for broker in sorted(context.brokers):
        asked = what_if(context, kill=[broker])
        outcomes = {one.topic_partition: one for one in asked.outcomes}
        found.append(_death(broker, outcomes, at, read))
    return found


def _death(
    broker: BrokerId,
    outcomes: Mapping[TopicPartition, PartitionOutcome],
    at: TopicPartition,
    read: Collection[TopicPartition],
) -> Death:
    own = outcomes.get(at)
    mine = [outcomes[where] for where in sorted(read) if where in outcomes]
    return Death(
        broker,
        own.leader_after if own is not None and own.leader_after != own.leader_before else None,
        own is not None and own.verdict in ("falls under min ISR", "stays under min ISR"),
        tuple(o.topic_partition for o in mine if -1 < o.leader_after != o.leader_before),
        tuple(o.topic_partition for o in mine if o.verdict == "goes offline"),
    )
