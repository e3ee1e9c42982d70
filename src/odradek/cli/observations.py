"""A journal of a cluster seen from outside: what Metadata said, poll after poll, in the lines of a controller's journal.

Such a journal tells what changed and when, not what was asked and decided: it can be shown, drawn and asked `why` and
`what-if` about any moment in it, and there is nothing in it to play again.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.controller.effects import StateChange
    from odradek.controller.events import Event
    from odradek.model.facts import MetadataLoaded, StoredPartitionState
    from odradek.model.ids import TopicId, TopicPartition

SEEN = "seen in Metadata"


def first_line(snapshot: "MetadataLoaded", controller: int, at_ms: int) -> dict[str, Any]:
    from odradek.controller.events import Elected
    from odradek.model.ids import BrokerId, ControllerEpoch

    return _line(Elected(BrokerId(controller), ControllerEpoch(1), 0, snapshot), [], controller, at_ms)


def lines_between(
    before: "MetadataLoaded", after: "MetadataLoaded", controller: int, at_ms: int
) -> list[dict[str, Any]]:
    """What is different, a line a kind: brokers, topics, assignments, leaders and ISRs."""
    from odradek.controller.effects import StateChange
    from odradek.model.facts import (
        BrokersChanged,
        PartitionStatesLoaded,
        TopicAssignmentsChanged,
        TopicsChanged,
    )
    from odradek.model.ids import TopicPartition

    lines = []
    old_brokers, new_brokers = ({b.broker_id for b in s.brokers} for s in (before, after))
    if old_brokers != new_brokers:
        changes = [
            StateChange("broker", "live", "gone", SEEN, name=str(b))
            for b in sorted(old_brokers - new_brokers)
        ]
        changes += [
            StateChange("broker", "gone", "live", SEEN, name=str(b))
            for b in sorted(new_brokers - old_brokers)
        ]
        lines.append(_line(BrokersChanged(after.brokers), changes, controller, at_ms))
    old_topics, new_topics = ({t.topic: t for t in s.topics} for s in (before, after))
    again = {
        name
        for name in set(old_topics) & set(new_topics)
        if _is_another(old_topics[name].topic_id, new_topics[name].topic_id)
    }
    for name in again:  # deleted and made again since
        del old_topics[name]
    created = tuple(new_topics[name] for name in sorted(set(new_topics) - set(old_topics)))
    gone = sorted({t.topic for t in before.topics} - set(new_topics) | again)
    if created or gone:
        changes = [StateChange("topic", "there", "gone", SEEN, name=name) for name in gone]
        changes += [
            StateChange("topic", "absent", f"{len(t.partitions)} partitions", SEEN, name=t.topic)
            for t in created
        ]
        states = {tp: s for tp, s in after.states.items() if tp.topic not in old_topics}
        event = TopicsChanged(tuple(sorted(new_topics)), created, states)
        lines.append(_line(event, changes, controller, at_ms))
    moved = [
        new_topics[name]
        for name in sorted(set(old_topics) & set(new_topics))
        if dict(old_topics[name].partitions) != dict(new_topics[name].partitions)
    ]
    if moved:
        changes = [
            StateChange("assignment", _shown(old), _shown(new), SEEN, name=str(TopicPartition(node.topic, p)))
            for node in moved
            for p, new in sorted(node.partitions.items())
            if (old := old_topics[node.topic].partitions.get(p)) != new
        ]
        lines.append(_line(TopicAssignmentsChanged(tuple(moved)), changes, controller, at_ms))
    changed = {
        tp: state
        for tp, state in after.states.items()
        if tp.topic in old_topics and before.states.get(tp) != state
    }
    if changed:
        told = [_state_change(tp, before.states.get(tp), changed[tp], new_brokers) for tp in sorted(changed)]
        lines.append(_line(PartitionStatesLoaded(changed), told, controller, at_ms))
    return lines


def _is_another(old: "TopicId | None", new: "TopicId | None") -> bool:
    """A cluster that does not tell ids says nothing of it."""
    return old is not None and new is not None and old != new


def is_observed(lines: Iterable[Mapping[str, Any]]) -> bool:
    return any(line.get("observed") for line in lines)


def snapshot_at(lines: Iterable[Mapping[str, Any]], until_ms: int | None) -> "MetadataLoaded | None":
    """The cluster as it was seen at the end of `lines`, or at that time; None before the first look."""
    from odradek.controller.events import Elected
    from odradek.controller.journal import event_from_json
    from odradek.model.facts import (
        BrokersChanged,
        PartitionStatesLoaded,
        TopicAssignmentsChanged,
        TopicsChanged,
    )
    from odradek.model.values import replace

    now: MetadataLoaded | None = None
    for line in lines:
        if until_ms is not None and line["at_ms"] > until_ms:
            break
        event = event_from_json(line["event"])
        if isinstance(event, Elected):
            now = event.snapshot
            continue
        assert now is not None, "a journal begins with everything"
        topics = {t.topic: t for t in now.topics}
        if isinstance(event, BrokersChanged):
            now = replace(now, brokers=event.brokers)
        elif isinstance(event, TopicsChanged):
            topics = {name: topics[name] for name in event.topics if name in topics}
            topics.update({t.topic: t for t in event.created})
            made = {t.topic for t in event.created}
            states = {tp: s for tp, s in now.states.items() if tp.topic in topics and tp.topic not in made}
            states |= event.states
            now = replace(now, topics=tuple(topics[name] for name in sorted(topics)), states=states)
        elif isinstance(event, TopicAssignmentsChanged):
            topics.update({t.topic: t for t in event.topics})
            now = replace(now, topics=tuple(topics[name] for name in sorted(topics)))
        elif isinstance(event, PartitionStatesLoaded):
            now = replace(now, states={**now.states, **event.states})
    return now


def _line(event: "Event", changes: "list[StateChange]", controller: int, at_ms: int) -> dict[str, Any]:
    from odradek.controller.journal import as_json

    return {
        "at_ms": at_ms,
        "controller": controller,
        "epoch": 1,  # the real one is in no Metadata
        "observed": True,
        "event": as_json(event),
        "writes": [],
        "requests": [],
        "changes": as_json(changes),
        "answers": [],
    }


def _state_change(
    where: "TopicPartition",
    old: "StoredPartitionState | None",
    new: "StoredPartitionState",
    live: "set[Any]",
) -> "StateChange":
    from odradek.controller.effects import StateChange

    now = new.leader_and_isr
    was = old.leader_and_isr if old is not None else None
    isr = f"ISR {_ids(was.isr) if was is not None else '-'} -> {_ids(now.isr)}"
    if was is not None and was.leader == now.leader:
        words = f"{isr}, {SEEN}"
        return StateChange("isr", _ids(was.isr), _ids(now.isr), words, where, leader_and_isr=now, before=was)
    led_before = was.leader if was is not None and was.leader >= 0 else "none"
    leader = f"leader {led_before} -> {now.leader if now.leader in live else 'none'}"
    words = f"{leader}, {isr}, {SEEN}"
    was_led = was is not None and was.leader >= 0
    source = "OnlinePartition" if was_led else "OfflinePartition"
    to = "OnlinePartition" if now.leader in live else "OfflinePartition"
    return StateChange("partition", source, to, words, where, leader_and_isr=now, before=was)


def _shown(assignment: Any) -> str:
    if assignment is None:
        return "absent"
    text = f"[{_ids(assignment.replicas)}]"
    if assignment.adding_replicas:
        text += f" adding [{_ids(assignment.adding_replicas)}]"
    if assignment.removing_replicas:
        text += f" removing [{_ids(assignment.removing_replicas)}]"
    return text


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
