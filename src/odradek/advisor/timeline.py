"""A partition's life read off a journal: who led it when, who was in sync, who was assigned, and why it changed.

Read from what was written to the store and told by the events, not from playing the events again: so a journal of
another version of this code, or one whose middle is missing, still tells what happened. A write counts once its
answer says that it is stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odradek.model.ids import NO_LEADER, BrokerId, TopicPartition
from odradek.model.values import dataclass, replace

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Moment:
    """How it stood from `at_ms` on. `line` is the step that made it so, `why` in its own words."""

    at_ms: int
    line: int
    controller_epoch: int
    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    live: tuple[BrokerId, ...]
    why: str

    @property
    def is_offline(self) -> bool:
        """Nobody can be reached who leads it."""
        return self.leader == NO_LEADER or self.leader not in self.live

    @property
    def is_gone(self) -> bool:
        """It was deleted: nobody has a replica any more."""
        return self.leader == NO_LEADER and not self.replicas and not self.isr


@dataclass(frozen=True, slots=True)
class Outage:
    """`until_ms` None: it lasts."""

    since_ms: int
    until_ms: int | None
    why: str


UNKNOWN = Moment(0, -1, 0, NO_LEADER, -1, (), (), (), (), (), "")


def timeline(lines: Iterable[Line], topic_partition: TopicPartition) -> tuple[Moment, ...]:
    """Every change, oldest first; empty when the journal never heard of the partition."""
    recorded = list(lines)
    now, known = UNKNOWN, False
    moments: list[Moment] = []
    cause = last_cause = -1
    for number, line in enumerate(recorded):
        before = now
        event = line["event"]
        kind = event.get("type")
        if kind != "WritesAnswered" and not _same_observation(recorded, number):
            cause = number
        if kind == "Elected":
            now, known = _loaded(now, event, topic_partition, known)
        elif kind == "BrokersChanged":
            now = replace(now, live=tuple(BrokerId(r["broker_id"]) for r in event["brokers"]))
        elif kind in ("TopicsChanged", "TopicAssignmentsChanged"):
            nodes = event["created"] if kind == "TopicsChanged" else event["topics"]
            now = _assigned(now, nodes, topic_partition)
            if kind == "TopicsChanged":
                there = known and topic_partition.topic in event["topics"]
                now, known = _told(now, event["states"], topic_partition, there)
        elif kind in ("IsrChangeNotified", "PartitionStatesLoaded"):
            now, known = _told(now, event["states"], topic_partition, known)
        elif kind == "WritesAnswered" and number:
            now, known = _stored(
                now, recorded[number - 1]["writes"], event["answers"], topic_partition, known
            )
        if known and (
            replace(now, at_ms=0, line=0, why="") != replace(before, at_ms=0, line=0, why="") or not moments
        ):
            now = replace(
                now,
                at_ms=line["at_ms"],
                line=number,
                controller_epoch=line["epoch"],
                why=_why(recorded, number, topic_partition),
            )
            if moments and _same_but_for_others(moments[-1], now):
                continue
            if moments and cause == last_cause:
                moments.pop()  # one event, one row: what it was told, and what came of it
            last_cause = cause
            moments.append(now)
    return tuple(moments)


def outages(moments: Sequence[Moment]) -> tuple[Outage, ...]:
    """The windows in which nobody led it. One ends too where it was deleted."""
    found: list[Outage] = []
    since: Moment | None = None
    for moment in moments:
        is_dark = moment.is_offline and not moment.is_gone
        if is_dark and since is None:
            since = moment
        elif not is_dark and since is not None:
            found.append(Outage(since.at_ms, moment.at_ms, since.why))
            since = None
    if since is not None:
        found.append(Outage(since.at_ms, None, since.why))
    return tuple(found)


def _same_observation(recorded: Sequence[Line], number: int) -> bool:
    """In a journal that was kept from outside, all that one look found happened at once."""
    line = recorded[number]
    return bool(line.get("observed")) and number > 0 and recorded[number - 1]["at_ms"] == line["at_ms"]


def _same_but_for_others(last: Moment, now: Moment) -> bool:
    """Brokers that have nothing to do with it came or went, or another controller took over and changed nothing."""
    ours = set(now.replicas)
    return replace(last, at_ms=0, line=0, why="", live=(), controller_epoch=0) == replace(
        now, at_ms=0, line=0, why="", live=(), controller_epoch=0
    ) and ours & set(last.live) == ours & set(now.live)


def _loaded(
    now: Moment, event: Mapping[str, Any], topic_partition: TopicPartition, known: bool
) -> tuple[Moment, bool]:
    snapshot = event["snapshot"]
    now = replace(now, live=tuple(BrokerId(r["broker_id"]) for r in snapshot["brokers"]))
    now = _assigned(now, snapshot["topics"], topic_partition)
    there = any(node["topic"] == topic_partition.topic for node in snapshot["topics"])
    return _told(now, snapshot["states"], topic_partition, known and there)


def _assigned(now: Moment, nodes: Iterable[Mapping[str, Any]], topic_partition: TopicPartition) -> Moment:
    for node in nodes:
        if node["topic"] != topic_partition.topic:
            continue
        found = node["partitions"].get(str(topic_partition.partition))
        if found is not None:
            return replace(
                now,
                replicas=_ids(found["replicas"]),
                adding=_ids(found["adding_replicas"]),
                removing=_ids(found["removing_replicas"]),
            )
    return now


def _told(
    now: Moment, states: Mapping[str, Any], topic_partition: TopicPartition, known: bool
) -> tuple[Moment, bool]:
    found = states.get(str(topic_partition))
    return (_led(now, found["leader_and_isr"]), True) if found is not None else (now, known)


def _stored(
    now: Moment,
    writes: Iterable[Mapping[str, Any]],
    answers: Iterable[Mapping[str, Any]],
    topic_partition: TopicPartition,
    known: bool,
) -> tuple[Moment, bool]:
    for write, answer in zip(writes, answers, strict=False):
        name = write["type"]
        if answer["type"] == "Conflict" and write.get("topic_partition") == str(topic_partition):
            current = answer["current"]
            if isinstance(current, Mapping) and "leader_and_isr" in current:
                now, known = _led(now, current["leader_and_isr"]), True
        if answer["type"] != "Stored":
            continue
        if name in ("WritePartitionState", "CreatePartitionState"):
            if write["topic_partition"] == str(topic_partition):
                now, known = _led(now, write["value"]), True
        elif name == "WriteTopicAssignment":
            now = _assigned(now, [write], topic_partition)
        elif name == "RemoveTopic" and write["topic"] == topic_partition.topic:
            now = replace(now, leader=NO_LEADER, isr=(), replicas=(), adding=(), removing=())
    return now, known


def _led(now: Moment, value: Mapping[str, Any]) -> Moment:
    return replace(
        now, leader=BrokerId(value["leader"]), leader_epoch=value["leader_epoch"], isr=_ids(value["isr"])
    )


def _why(recorded: Sequence[Line], number: int, topic_partition: TopicPartition) -> str:
    """The reason of the change itself; the changes of an event leave with its last write's answer."""
    for line in recorded[number:]:
        named = [c for c in line["changes"] if _is_about(c, topic_partition)]
        if named:
            best = min(
                reversed(named), key=lambda c: KINDS.index(c["kind"]) if c["kind"] in KINDS else len(KINDS)
            )
            return str(best["reason"])
        if line["changes"] or (not line["writes"] and line["event"].get("type") != "WritesAnswered"):
            general = [c["reason"] for c in line["changes"] if c["kind"] in ("broker", "controller", "topic")]
            return str(general[0]) if general else ""
    return ""


# Whose words say best why a partition changed.
KINDS = ("partition", "isr", "leadership", "assignment", "replica")


def _is_about(change: Mapping[str, Any], topic_partition: TopicPartition) -> bool:
    name = str(topic_partition)
    return name in (change["topic_partition"], change["name"])


def _ids(numbers: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)
