"""A journal played again: to a point in time, without one of its events, with another setting.

The core is deterministic, so the same events give the same effects, and the first step that differs is the first
consequence of what was changed. As long as nothing differs, the store answers as it did then; from the first
difference on, a store in memory answers, that began with what the controller had read and took every write since.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from odradek.controller.context import ControllerSettings
from odradek.controller.core import ControllerCore
from odradek.controller.effects import (
    CreatePartitionState,
    Effects,
    RemoveTopic,
    Write,
    WritePartitionState,
    WriteProducerIdBlock,
    WriteTopicAssignment,
)
from odradek.controller.events import Conflict, Elected, Event, Stored, WriteAnswer, WritesAnswered
from odradek.controller.journal import EFFECTS, UnreadableJournal, event_from_json
from odradek.controller.journal_text import text_of
from odradek.model.facts import (
    IsrChangeNotified,
    PartitionStatesLoaded,
    ProducerIdBlock,
    StoredPartitionState,
    TopicAssignment,
    TopicAssignmentsChanged,
    TopicsChanged,
)
from odradek.model.ids import PartitionEpoch, TopicPartition
from odradek.model.values import dataclass, replace

# Reasons that older versions worded otherwise, and their present words: the decision is the same.
FORMER_WORDS = (
    ("nobody in the ISR is live; first assigned", "no member of the ISR is live; first assigned"),
    ("nobody in the ISR is live; unclean election", "no member of the ISR is live; unclean election"),
    (" nobody live of the ISR ", " no live member of the ISR "),
    ("the ISR shrank meanwhile: nobody in sync", "the ISR shrank meanwhile: no replica in sync"),
    (" can lead; live replicas are ", " may lead in this election; live replicas are "),
    ("a leaver could not delete its data", "a removed replica could not delete its data"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step played again: which line, the event, what came of it now, and whether it is as recorded."""

    line: int
    event: Event
    effects: Effects
    as_recorded: bool


class StoreModel:
    """Compare-and-set over the nodes a controller writes, as values."""

    def __init__(self) -> None:
        self.states: dict[TopicPartition, StoredPartitionState] = {}
        self.topics: dict[str, TopicAssignment] = {}
        self.producer_ids: ProducerIdBlock | None = None

    def hear(self, event: Event) -> None:
        """What others wrote is known from what was read: everything at an election, then fact by fact."""
        if isinstance(event, Elected):
            self.states = dict(event.snapshot.states)
            self.topics = {topic.topic: topic for topic in event.snapshot.topics}
            self.producer_ids = event.snapshot.producer_ids
        elif isinstance(event, TopicsChanged):
            there = set(event.topics)
            created = {node.topic: node.topic_id for node in event.created}
            gone = {
                name
                for name, node in self.topics.items()
                if name not in there or created.get(name) not in (None, node.topic_id)
            }
            if gone:  # states stand below the node
                self.topics = {name: node for name, node in self.topics.items() if name not in gone}
                self.states = {tp: found for tp, found in self.states.items() if tp.topic not in gone}
            self.topics.update({node.topic: node for node in event.created})
            self.states.update(event.states)
        elif isinstance(event, TopicAssignmentsChanged):
            for node in event.topics:
                known = self.topics.get(node.topic)
                if known is None or node.version > known.version:
                    self.topics[node.topic] = node
        elif isinstance(event, IsrChangeNotified | PartitionStatesLoaded):
            self.states.update(event.states)

    def answer(self, writes: tuple[Write, ...]) -> tuple[WriteAnswer, ...]:
        return tuple(self._answer(write) for write in writes)

    def take(self, writes: tuple[Write, ...], answers: tuple[WriteAnswer, ...]) -> None:
        """What the real store answered is how this one must look now."""
        for write, answer in zip(writes, answers, strict=True):
            if isinstance(answer, Stored):
                self._put(write, answer.version)
            elif isinstance(answer, Conflict) and isinstance(answer.current, StoredPartitionState):
                assert isinstance(write, WritePartitionState | CreatePartitionState)
                self.states[write.topic_partition] = answer.current

    def _answer(self, write: Write) -> WriteAnswer:
        current: Any = None
        version = -1
        if isinstance(write, WritePartitionState | CreatePartitionState):
            current = self.states.get(write.topic_partition)
            version = current.leader_and_isr.partition_epoch if current is not None else -1
        elif isinstance(write, WriteTopicAssignment):
            current = self.topics.get(write.topic)
            version = current.version if current is not None else -1
        elif isinstance(write, WriteProducerIdBlock):
            current = self.producer_ids
            version = current.version if current is not None else write.expected_version
        else:
            self._put(write, 0)
            return Stored(0)
        expected = -1 if isinstance(write, CreatePartitionState) else write.expected_version
        if version != expected:
            return Conflict(current)
        self._put(write, expected + 1)
        return Stored(expected + 1)

    def _put(self, write: Write, version: int) -> None:
        if isinstance(write, WritePartitionState | CreatePartitionState):
            value = replace(write.value, partition_epoch=PartitionEpoch(version))
            self.states[write.topic_partition] = StoredPartitionState(value, write.controller_epoch)
        elif isinstance(write, WriteTopicAssignment):
            node = TopicAssignment(write.topic, write.topic_id, dict(write.partitions), version)
            self.topics[write.topic] = node
        elif isinstance(write, WriteProducerIdBlock):
            self.producer_ids = replace(write.block, version=version)
        elif isinstance(write, RemoveTopic):
            self.topics.pop(write.topic, None)
            self.states = {tp: s for tp, s in self.states.items() if tp.topic != write.topic}


def replay(
    lines: Iterable[Mapping[str, Any]],
    *,
    settings: ControllerSettings | None = None,
    drop: Collection[int] = (),
    until_ms: int | None = None,
) -> tuple[list[Step], ControllerCore]:
    """Play `lines` again; `drop` are line numbers (from 0) of events that are left out. Also the core as it is then."""
    core = ControllerCore(settings)
    store = StoreModel()
    steps: list[Step] = []
    diverged = False
    recorded = list(lines)
    number = 0
    while number < len(recorded):
        line = recorded[number]
        if until_ms is not None and line["at_ms"] > until_ms:
            break
        event = _event(recorded, number)
        answers = _answers_after(recorded, number)
        if not isinstance(event, WritesAnswered) and number not in drop:
            now_ms = int(line["at_ms"])
            store.hear(event)
            effects = core.step(event, now_ms)
            used = 0
            while True:
                at = number + min(used, len(answers))
                # The controller died there, or writes still: what came of the writes is not recorded, and nothing is against it.
                is_cut = used > len(answers) and not diverged
                same = is_cut or _is_recorded(effects, recorded[at])
                diverged = diverged or not same
                steps.append(Step(at, event, effects, same))
                if not effects.writes:
                    break
                if not diverged and used < len(answers):
                    told = answers[used]
                    now_ms = int(recorded[number + used + 1]["at_ms"])
                    store.take(effects.writes, told.answers)
                else:
                    told = WritesAnswered(store.answer(effects.writes))
                used += 1
                event, effects = told, core.step(told, now_ms)
        number += 1 + len(answers)
    return steps, core


def first_difference(steps: Iterable[Step]) -> Step | None:
    return next((step for step in steps if not step.as_recorded), None)


def is_the_same(now: Any, recorded: Any) -> bool:
    """Field by field. What the recorded value does not name came into the world after that journal: so with the number
    of a StopReplica."""
    if isinstance(now, dict) and isinstance(recorded, dict):
        if "type" not in now and now.keys() != recorded.keys():
            return False
        return all(name in now and is_the_same(now[name], value) for name, value in recorded.items())
    if isinstance(now, list) and isinstance(recorded, list):
        return len(now) == len(recorded) and all(map(is_the_same, now, recorded))
    if isinstance(now, str) and isinstance(recorded, str):
        return now == recorded or now == _in_present_words(recorded)
    return bool(now == recorded)


def _in_present_words(text: str) -> str:
    for former, present in FORMER_WORDS:
        text = text.replace(former, present)
    return text


def _event(recorded: list[Mapping[str, Any]], number: int) -> Event:
    try:
        return event_from_json(recorded[number]["event"])
    except UnreadableJournal as error:
        raise UnreadableJournal(f"line {number} of the journal: {error}") from error


def _answers_after(recorded: list[Mapping[str, Any]], number: int) -> list[WritesAnswered]:
    """The lines that follow an event because it wrote something."""
    answers = []
    for place, line in enumerate(recorded[number + 1 :], start=number + 1):
        if line["event"].get("type") != "WritesAnswered":
            break
        event = _event(recorded, place)
        assert isinstance(event, WritesAnswered)
        answers.append(event)
    return answers


def _is_recorded(effects: Effects, line: Mapping[str, Any]) -> bool:
    for name in EFFECTS:
        # As `effects_as_json` has it, in a tenth of the time.
        now, recorded = json.loads(text_of(getattr(effects, name))), line.get(name)
        if now != recorded and not is_the_same(now, recorded):
            return False
    return True
