"""S0's twelve steps of a reassignment: their names, which one is open now, and when each happened in a journal."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from odradek.advisor.timeline import Line, Moment, timeline
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.ids import NO_LEADER, BrokerId, TopicPartition
from odradek.model.values import dataclass

STEPS = (
    "the topic node lists target and origin",
    "every replica is sent the larger set, with a new leader epoch",
    "the newcomers are created",
    "wait until every target replica is in the ISR",
    "the newcomers count as started",
    "the target is the assignment, in memory",
    "the leader moves into the target",
    "the removing replicas leave the ISR",
    "the removing replicas delete their data, and answer",
    "the topic node lists the target alone",
    "the legacy node forgets the partition",
    "every broker is sent the new assignment",
)
WAITS, LEADER, LEAVE, DELETE = 4, 7, 8, 9
DONE, OPEN, TO_COME = "done", "now", "to come"


@dataclass(frozen=True, slots=True)
class Progress:
    """`step` 1 to 12 is the one that is open; `sentence` what it waits for."""

    step: int
    sentence: str

    def state_of(self, step: int) -> str:
        return DONE if step < self.step else OPEN if step == self.step else TO_COME


def progress(
    topic_partition: TopicPartition,
    assignment: ReplicaAssignment,
    state: LeaderAndIsr | None,
    live: Collection[BrokerId],
    told: Collection[int],
) -> Progress:
    """Read off what anybody can see: the assignment with adding and removing, leader and ISR, who is alive; and the replicas
    that brokers are told of, which are the target alone from step 7 on. A target replica that is lost from then on does not
    bring step 4 back.
    """
    target, removing = assignment.target_replicas, assignment.removing_replicas
    isr = state.isr if state is not None else ()
    missing = [b for b in target if b not in isr]
    is_led = state is not None and state.leader != NO_LEADER and state.leader in live
    if not removing or any(b in told for b in removing):
        if not is_led:
            return Progress(
                WAITS, f"it has no leader, so it cannot be copied: see odradek why {topic_partition}"
            )
        dead = [b for b in missing if b not in live]
        if dead:
            return Progress(WAITS, f"{_who(dead)}: not alive; start it, or cancel")
        if missing:
            return Progress(WAITS, f"{_who(missing)}: copying, not in the ISR yet")
    since = f"; {_who(missing)}: not in the ISR any more" if missing else ""
    if state is not None and is_led and state.leader not in target:
        return Progress(LEADER, f"the leader moves from {state.leader} to {target[0]}{since}")
    leaving = [b for b in removing if b in isr]
    if leaving:
        return Progress(LEAVE, f"{_who(leaving)}: leaving the ISR{since}")
    owing = [b for b in removing if b in live]
    if owing:
        return Progress(DELETE, f"{_who(owing)}: deleting the copy, not answered yet{since}")
    return Progress(
        10, f"every removing replica is gone; the topic node is about to list the target alone{since}"
    )


@dataclass(frozen=True, slots=True)
class StepTaken:
    """A step of a reassignment as it happened: `at_ms` None while it has not."""

    number: int
    what: str
    at_ms: int | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Reassigned:
    """One reassignment in a journal. `moments` is S0's table: replicas, leader, ISR, row by row."""

    topic_partition: TopicPartition
    origin: tuple[BrokerId, ...]
    target: tuple[BrokerId, ...]
    began_ms: int
    ended_ms: int | None
    steps: tuple[StepTaken, ...]
    moments: tuple[Moment, ...]


def reassignments(lines: Iterable[Line], topic_partition: TopicPartition) -> tuple[Reassigned, ...]:
    """Every reassignment of it, oldest first; the last may be running still."""
    recorded = list(lines)
    moments = timeline(recorded, topic_partition)
    found: list[Reassigned] = []
    for place, moment in enumerate(moments):
        previous = moments[place - 1] if place else None
        is_moving = bool(moment.adding or moment.removing)
        if not is_moving or (
            previous is not None and (previous.adding, previous.removing) == (moment.adding, moment.removing)
        ):
            continue
        rest = moments[place:]
        end = next(
            (n for n, m in enumerate(rest) if (m.adding, m.removing) != (moment.adding, moment.removing)),
            None,
        )
        inside = rest if end is None else rest[: end + 1]
        last = None if end is None else rest[end]
        found.append(_one(recorded, topic_partition, moment, inside, last))
    return tuple(found)


def _one(
    recorded: list[Line],
    topic_partition: TopicPartition,
    begin: Moment,
    inside: tuple[Moment, ...],
    last: Moment | None,
) -> Reassigned:
    node = ReplicaAssignment(begin.replicas, begin.adding, begin.removing)
    target, origin = node.target_replicas, node.origin_replicas
    span = recorded[begin.line : None if last is None else last.line + 1]
    at: dict[int, tuple[int, str]] = {1: (begin.at_ms, _shown(begin.replicas))}
    for moment in inside[1:]:
        if moment.leader_epoch > begin.leader_epoch:
            at.setdefault(2, (moment.at_ms, f"leader epoch {moment.leader_epoch}"))
        if set(target) <= set(moment.isr):
            at.setdefault(4, (moment.at_ms, f"ISR {_shown(moment.isr)}"))
            if moment.leader in target and 5 in _when(span, topic_partition, target, origin):
                at.setdefault(7, (moment.at_ms, f"{moment.leader} leads, epoch {moment.leader_epoch}"))
    at.update({step: found for step, found in _when(span, topic_partition, target, origin).items()})
    if last is not None and not last.adding and not last.removing and set(last.replicas) == set(target):
        at[10] = at[11] = at[12] = (last.at_ms, _shown(last.replicas))
        at.setdefault(9, (last.at_ms, ""))
    steps = tuple(
        StepTaken(number, what, *at.get(number, (None, ""))) for number, what in enumerate(STEPS, start=1)
    )
    return Reassigned(
        topic_partition, origin, target, begin.at_ms, None if last is None else last.at_ms, steps, inside
    )


def _when(
    span: Iterable[Line],
    topic_partition: TopicPartition,
    target: tuple[BrokerId, ...],
    origin: tuple[BrokerId, ...],
) -> dict[int, tuple[int, str]]:
    """Steps 3, 5, 6, 8 and 9 are moves of replicas, the last of each kind counts."""
    at: dict[int, tuple[int, str]] = {}
    gone: set[int] = set()
    removing = {b for b in origin if b not in target}
    for line in span:
        for change in line["changes"]:
            if change["kind"] != "replica" or change["topic_partition"] != str(topic_partition):
                continue
            replica, to, when = change["replica"], change["to"], line["at_ms"]
            if to == "NewReplica" and replica not in removing:
                at[3] = (when, _more(at.get(3), replica))
            elif to == "OnlineReplica" and change["source"] == "NewReplica":
                at[5] = (when, _more(at.get(5), replica))
                at[6] = (when, _shown(target))
            elif to == "OfflineReplica" and replica in removing:
                at[8] = (when, _more(at.get(8), replica))
            elif to == "NonExistentReplica" and replica in removing:
                gone.add(replica)
                if gone == removing:
                    at[9] = (when, _shown(sorted(gone)))
    return at


def _more(known: tuple[int, str] | None, replica: int) -> str:
    return f"{known[1]},{replica}" if known is not None else f"broker {replica}"


def _shown(brokers: Iterable[int]) -> str:
    return f"[{','.join(map(str, brokers))}]"


def _who(brokers: list[BrokerId]) -> str:
    return f"broker{'s' if len(brokers) > 1 else ''} {','.join(map(str, brokers))}"


def as_json(found: Reassigned) -> Mapping[str, Any]:
    return {
        "partition": str(found.topic_partition),
        "origin": list(found.origin),
        "target": list(found.target),
        "began_ms": found.began_ms,
        "ended_ms": found.ended_ms,
        "steps": [
            {"step": s.number, "what": s.what, "at_ms": s.at_ms, "detail": s.detail} for s in found.steps
        ],
    }
