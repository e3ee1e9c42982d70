"""Many partitions at once or one by one: the same writes, requests, changes, answers, and the same memory after.

Two controllers with the same cluster are told the same events. One moves every partition by the tables, the other in
bulk wherever it can. What stands in the clusters, what happens and which writes meet a conflict is drawn from a seed.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from odradek.controller import bulk_moves
from odradek.controller.broker_requests import LeaderAndIsrRequest, StopReplicaRequest
from odradek.controller.context import ControllerContext
from odradek.controller.core import ControllerCore
from odradek.controller.effects import Effects, Write, WritePartitionState
from odradek.controller.events import Conflict, Elected, Event, LeaderAndIsrAnswered, Requested, WriteAnswer
from odradek.controller.settle import always_stored, settle
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment, TopicConfig
from odradek.model.controller_requests import (
    AlterReassignmentsAsked,
    ControlledShutdownAsked,
    ElectLeadersAsked,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import (
    BrokersChanged,
    ConfigChanged,
    DeleteTopicsRequested,
    LogDirFailed,
    MetadataLoaded,
    StoredPartitionState,
    TopicAssignment,
)
from odradek.model.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicPartition
from tests.controller.world import registration, topic_id_of
from tests.support import each

IDS = tuple(BrokerId(broker) for broker in range(1, 6))
NEVER, ALWAYS = 1 << 60, 0
SEEDS = (*range(100), 280, 672)


def _snapshot(draw: Random) -> MetadataLoaded:
    topics: list[TopicAssignment] = []
    states: dict[TopicPartition, StoredPartitionState] = {}
    configs: dict[str, TopicConfig] = {}
    for name in ("apples", "bears", "cats", "dogs"):
        partitions = {}
        for partition in range(draw.randrange(1, 15)):
            replicas = tuple(draw.sample(IDS, draw.choice((1, 2, 3, 3, 3, 4))))
            partitions[partition] = ReplicaAssignment(replicas)
            if draw.random() < 0.05:
                continue  # never led
            isr = tuple(b for b in replicas if draw.random() < 0.8) or replicas[:1]
            leader = BrokerId(-1) if draw.random() < 0.1 else draw.choice(isr)
            outside = tuple(b for b in replicas if b not in isr)
            elr = outside if draw.random() < 0.2 else ()
            state = LeaderAndIsr(
                leader,
                LeaderEpoch(draw.randrange(30)),
                isr,
                PartitionEpoch(draw.randrange(30)),
                int(draw.random() < 0.05 and len(isr) == 1),
                elr,
            )
            states[TopicPartition(name, partition)] = StoredPartitionState(state, ControllerEpoch(1))
        topics.append(TopicAssignment(name, topic_id_of(name), partitions))
        overrides = {}
        if draw.random() < 0.4:
            overrides["min.insync.replicas"] = str(draw.randrange(1, 4))
        if draw.random() < 0.3:
            overrides["unclean.leader.election.enable"] = "true"
        configs[name] = TopicConfig(overrides)
    registered = tuple(registration(b, 10 + b) for b in IDS if draw.random() < 0.85 or b == 1)
    return MetadataLoaded(registered, tuple(topics), states, topic_configs=configs)


def _events(draw: Random) -> list[Callable[[ControllerContext], Event]]:
    """Each makes an event for the cluster as it is then: both clusters are the same, or the test has failed."""

    def gone(context: ControllerContext) -> Event:
        away = set(draw.sample(IDS[1:], draw.choice((1, 1, 1, 2))))
        return BrokersChanged(tuple(r for b, r in sorted(context.brokers.items()) if b not in away))

    def back(context: ControllerContext) -> Event:
        now = dict(context.brokers)
        for broker in draw.sample(IDS, 2):
            clean = 10 + broker if draw.random() < 0.5 else -1
            now[broker] = registration(broker, draw.randrange(100, 1_000_000), clean=clean)
        return BrokersChanged(tuple(now[b] for b in sorted(now)))

    def leaves(context: ControllerContext) -> Event:
        broker = draw.choice(sorted(context.brokers))
        return Requested(1, ControlledShutdownAsked(broker, context.broker_epoch(broker)))

    def elect(context: ControllerContext) -> Event:
        return Requested(2, ElectLeadersAsked(draw.random() < 0.2, tuple(sorted(context.assignments))))

    def delete(context: ControllerContext) -> Event:
        return DeleteTopicsRequested((draw.choice(("apples", "bears", "cats", "dogs")),))

    def reassign(context: ControllerContext) -> Event:
        live = sorted(context.brokers)
        some = [tp for tp in sorted(context.assignments) if draw.random() < 0.3]
        return Requested(
            3, AlterReassignmentsAsked({tp: tuple(draw.sample(live, min(2, len(live)))) for tp in some})
        )

    def disk(context: ControllerContext) -> Event:
        broker = draw.choice(sorted(context.brokers))
        if draw.random() < 0.5:
            return LogDirFailed((broker,))
        lost = [tp for tp in sorted(context.partitions_on.get(broker, ())) if draw.random() < 0.3]
        errors = dict.fromkeys(lost, ErrorCode.KAFKA_STORAGE_ERROR)
        return LeaderAndIsrAnswered(broker, context.broker_epoch(broker), ErrorCode.NONE, errors, ())

    def unclean(context: ControllerContext) -> Event:
        return ConfigChanged("topics", "bears", {"unclean.leader.election.enable": "true"})

    kinds = (gone, gone, gone, back, back, leaves, leaves, elect, delete, reassign, disk, unclean)
    return [draw.choice(kinds) for _ in range(8)]


def _store(seed: int) -> Callable[[tuple[Write, ...]], tuple[WriteAnswer, ...]]:
    """Now and then somebody else has written a state in between."""
    draw = Random(seed)

    def answer(writes: tuple[Write, ...]) -> tuple[WriteAnswer, ...]:
        answers = list(always_stored(writes))
        for index, write in enumerate(writes):
            if isinstance(write, WritePartitionState) and draw.random() < 0.05:
                version = PartitionEpoch(write.expected_version + 3)
                value = LeaderAndIsr(write.value.leader, write.value.leader_epoch, write.value.isr, version)
                answers[index] = Conflict(StoredPartitionState(value, ControllerEpoch(1)))
        return tuple(answers)

    return answer


def _memory(context: ControllerContext | None) -> Mapping[str, Any]:
    return {} if context is None else {f.name: getattr(context, f.name) for f in fields(context)}


@each(SEEDS)
def test_in_bulk_everything_happens_as_one_by_one(seed: int) -> None:
    told: list[list[Effects]] = []
    memories: list[list[Mapping[str, Any]]] = []
    for worth_it in (NEVER, ALWAYS):
        with patch.object(bulk_moves, "WORTH_IT", worth_it):
            draw, answer = Random(seed), _store(seed)
            core = ControllerCore()
            elected = Elected(BrokerId(1), ControllerEpoch(2), 2, _snapshot(draw), b"seed")
            effects = [settle(core, elected, 0, answer)]
            seen = [dict(_memory(core.context))]
            for make in _events(draw):
                assert core.context is not None, effects[-1].resign
                effects.append(settle(core, make(core.context), 0, answer))
                seen.append({name: _copied(value) for name, value in _memory(core.context).items()})
        told.append(effects)
        memories.append(seen)
    for one_by_one, in_bulk in zip(*told, strict=True):
        assert in_bulk.changes == one_by_one.changes
        assert in_bulk.requests == one_by_one.requests
        assert in_bulk == one_by_one
    for one_by_one_memory, in_bulk_memory in zip(*memories, strict=True):
        assert in_bulk_memory == one_by_one_memory


def _copied(value: Any) -> Any:
    return type(value)(value) if isinstance(value, dict | set) else value


def test_the_bulk_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would make the test above say nothing: that nothing goes the other way."""
    moved: list[str] = []
    for name in ("plan_replica_move", "plan_partition_move"):
        monkeypatch.setattr(bulk_moves, name, lambda *_, name=name: moved.append(name) or True)
    replicas = (BrokerId(3), BrokerId(1), BrokerId(2))
    brokers = tuple(registration(b, 10 + b) for b in (1, 2, 3))
    node = TopicAssignment(
        "apples", topic_id_of("apples"), dict.fromkeys(range(50), ReplicaAssignment(replicas))
    )
    state = StoredPartitionState(LeaderAndIsr(replicas[0], LeaderEpoch(4), replicas), ControllerEpoch(1))
    states = {TopicPartition("apples", p): state for p in range(50)}
    core = ControllerCore()
    loaded = MetadataLoaded(brokers, (node,), states)
    settle(core, Elected(BrokerId(1), ControllerEpoch(2), 2, loaded, b""), 0)
    left = settle(core, BrokersChanged(brokers[:2]), 0)
    assert [r for r in left.requests if isinstance(r, LeaderAndIsrRequest)]
    back = settle(core, BrokersChanged((*brokers[:2], registration(3, 99, clean=13))), 0)
    assert [r for r in back.requests if isinstance(r, LeaderAndIsrRequest)]
    leaves = settle(core, Requested(1, ControlledShutdownAsked(BrokerId(1), brokers[0].epoch)), 0)
    assert [r for r in leaves.requests if isinstance(r, StopReplicaRequest)] == []
    assert moved == []
