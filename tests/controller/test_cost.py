"""An event costs what it touches. Counted, not timed: byte codes of the controller, and how much is walked over.

The same event about the same 40 partitions is played in a cluster with 60 others and in one with 1,500 others.
Byte codes see every loop of ours; loops in C (`sorted`, `set`, `dict.fromkeys`) over what the context keeps are
seen by containers that count what is taken out of them. Both must be the same in both clusters.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import pytest

from odradek.controller.broker_requests import LeaderAndIsrRequest, StopReplicaRequest
from odradek.controller.context import ControllerContext
from odradek.controller.core import ControllerCore
from odradek.controller.effects import Effects
from odradek.controller.events import (
    Elected,
    Event,
    LeaderAndIsrAnswered,
    Requested,
    StopReplicaAnswered,
    Tick,
)
from odradek.controller.settle import settle
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.controller_requests import (
    AlterPartitionAsked,
    AlterPartitionItem,
    AlterReassignmentsAsked,
    ControlledShutdownAsked,
    ElectLeadersAsked,
    IsrMember,
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
    TopicAssignmentsChanged,
    TopicsChanged,
)
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)
from tests.controller.world import registration, topic_id_of

TOUCHED, FEW, MANY = 40, 60, 1_500
# Broker 3 has the touched partitions only; brokers 1 and 2 have everything; 4 and 5 have nothing.
BROKERS = tuple(registration(broker, 10 + broker) for broker in (1, 2, 3, 4, 5))
THREE = (BrokerId(3), BrokerId(1), BrokerId(2))
TWO = (BrokerId(1), BrokerId(2))
CONTROLLER_CODE = "/odradek/controller/"


class Walks:
    """How many things were taken out of the counted containers, by going through them."""

    def __init__(self) -> None:
        self.steps = 0

    def over(self, items: Any) -> Iterator[Any]:
        for item in items:
            self.steps += 1
            yield item


def counted(walks: Walks, plain: Any) -> Any:
    """A dict or a set that counts; C code asks for the iterator of a subclass."""
    kind = type(plain)

    class Counted(kind):  # type: ignore[misc, valid-type]
        def __iter__(self) -> Iterator[Any]:
            return walks.over(super().__iter__())

        def keys(self) -> Any:
            return list(walks.over(super().keys()))

        def values(self) -> Any:
            return list(walks.over(super().values()))

        def items(self) -> Any:
            return list(walks.over(super().items()))

    return Counted(plain)


def counting(context: ControllerContext, walks: Walks) -> None:
    for name in (
        "assignments",
        "leaderships",
        "partition_states",
        "replica_state_overrides",
        "leaderless",
        "reassignments",
    ):
        setattr(context, name, counted(walks, getattr(context, name)))
    context.partitions_on = {b: counted(walks, on) for b, on in context.partitions_on.items()}


@dataclass
class Cost:
    byte_codes: int = 0
    steps: int = 0


def cost_of(work: Callable[[], object], walks: Walks) -> Cost:
    walks.steps = 0
    byte_codes = traced(work) if sys.version_info < (3, 12) else monitored(work)
    return Cost(byte_codes, walks.steps)


def traced(work: Callable[[], object]) -> int:
    """Byte codes of the controller that `work` runs. From Python 3.12 on the first ones of a frame would be missing."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if CONTROLLER_CODE not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        nonlocal count
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def monitored(work: Callable[[], object]) -> int:
    """The same by PEP 669."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    tool, count = monitoring.PROFILER_ID, 0

    def instruction(code: CodeType, offset: int) -> Any:
        nonlocal count
        if CONTROLLER_CODE not in code.co_filename:
            return monitoring.DISABLE
        count += 1
        return None

    monitoring.use_tool_id(tool, "byte codes of the controller")
    try:
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, instruction)
        monitoring.set_events(tool, monitoring.events.INSTRUCTION)
        monitoring.restart_events()
        work()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    return count


def topic(name: str, partitions: int, replicas: tuple[BrokerId, ...]) -> TopicAssignment:
    assigned = {p: ReplicaAssignment(replicas) for p in range(partitions)}
    return TopicAssignment(name, topic_id_of(name), assigned)


def cluster(others: int) -> ControllerCore:
    nodes = (topic("touched", TOUCHED, THREE), topic("rest", others, TWO))
    states = {
        TopicPartition(node.topic, p): StoredPartitionState(
            LeaderAndIsr(a.replicas[0], LeaderEpoch(2), a.replicas, PartitionEpoch(4)), ControllerEpoch(1)
        )
        for node in nodes
        for p, a in node.partitions.items()
    }
    core = ControllerCore()
    told = settle(
        core, Elected(BrokerId(1), ControllerEpoch(2), 2, MetadataLoaded(BROKERS, nodes, states), b"seed"), 0
    )
    assert told.resign is None
    return core


TOUCHED_PARTITIONS = tuple(TopicPartition("touched", p) for p in range(TOUCHED))
WITHOUT_THREE = BrokersChanged(tuple(r for r in BROKERS if r.broker_id != 3))


def _first(effects: Effects, kind: type) -> Any:
    return next(request for request in effects.requests if isinstance(request, kind))


def _moved(core: ControllerCore) -> Event:
    """A reassignment from 3 to 4 has been asked for; this is the leader's word that 4 has caught up."""
    target = (BrokerId(4), BrokerId(1), BrokerId(2))
    settle(core, Requested(1, AlterReassignmentsAsked(dict.fromkeys(TOUCHED_PARTITIONS, target))), 0)
    assert core.context is not None
    items = []
    for tp in TOUCHED_PARTITIONS:
        state = core.context.leaderships[tp].leader_and_isr
        isr = tuple(IsrMember(b, BrokerEpoch(10 + b)) for b in (*state.isr, BrokerId(4)))
        items.append(
            AlterPartitionItem("touched", None, tp.partition, state.leader_epoch, state.partition_epoch, isr)
        )
    return Requested(2, AlterPartitionAsked(3, BrokerId(3), BrokerEpoch(13), tuple(items)))


def _removals_gone(core: ControllerCore) -> Event:
    effects = settle(core, _moved(core), 0)
    stop = _first(effects, StopReplicaRequest)
    deleted = frozenset(p.topic_partition for p in stop.partitions if p.delete)
    assert len(deleted) == TOUCHED
    return StopReplicaAnswered(BrokerId(3), BrokerEpoch(13), ErrorCode.NONE, {}, deleted)


def _lead_elsewhere(core: ControllerCore) -> Event:
    """Broker 3 does not lead what it should: it was shut down, and is asked to be preferred once it is back."""
    settle(core, WITHOUT_THREE, 0)
    settle(core, BrokersChanged((*WITHOUT_THREE.brokers, registration(3, 99))), 0)
    assert core.context is not None
    items = []
    for tp in TOUCHED_PARTITIONS:
        state = core.context.leaderships[tp].leader_and_isr
        isr = (
            IsrMember(BrokerId(1), BrokerEpoch(11)),
            IsrMember(BrokerId(2), BrokerEpoch(12)),
            IsrMember(BrokerId(3), BrokerEpoch(99)),
        )
        items.append(
            AlterPartitionItem("touched", None, tp.partition, state.leader_epoch, state.partition_epoch, isr)
        )
    settle(core, Requested(1, AlterPartitionAsked(3, BrokerId(1), BrokerEpoch(11), tuple(items))), 0)
    return Requested(2, ElectLeadersAsked(False, TOUCHED_PARTITIONS))


def _told(core: ControllerCore) -> Event:
    request = _first(settle(core, LogDirFailed((BrokerId(3),)), 0), LeaderAndIsrRequest)
    failed = {tp: ErrorCode.KAFKA_STORAGE_ERROR for tp in TOUCHED_PARTITIONS}
    return LeaderAndIsrAnswered(BrokerId(3), BrokerEpoch(13), ErrorCode.NONE, failed, request.partitions)


def _deleted(core: ControllerCore) -> Event:
    settle(core, DeleteTopicsRequested(("touched",)), 0)
    for broker in (1, 2):
        settle(
            core,
            StopReplicaAnswered(
                BrokerId(broker), BrokerEpoch(10 + broker), ErrorCode.NONE, {}, frozenset(TOUCHED_PARTITIONS)
            ),
            0,
        )
    return StopReplicaAnswered(
        BrokerId(3), BrokerEpoch(13), ErrorCode.NONE, {}, frozenset(TOUCHED_PARTITIONS)
    )


FRESH = topic("fresh", TOUCHED, THREE)
GROWN = TopicAssignment(
    "touched",
    topic_id_of("touched"),
    {p: ReplicaAssignment(THREE) for p in range(2 * TOUCHED)},
    version=1,
)
EVENTS: dict[str, Callable[[ControllerCore], Event]] = {
    "a broker fails": lambda core: WITHOUT_THREE,
    "a broker asks to leave": lambda core: Requested(
        1, ControlledShutdownAsked(BrokerId(3), BrokerEpoch(13))
    ),
    "a disk is reported": lambda core: LogDirFailed((BrokerId(3),)),
    "replicas lie on it": _told,
    "a topic is created": lambda core: TopicsChanged(("fresh", "rest", "touched"), (FRESH,)),
    "a topic grows": lambda core: TopicAssignmentsChanged((GROWN,)),
    "a topic is to be deleted": lambda core: DeleteTopicsRequested(("touched",)),
    "its last replicas are gone": _deleted,
    "preferred leaders are elected": _lead_elsewhere,
    "a reassignment is asked for": lambda core: Requested(
        1, AlterReassignmentsAsked(dict.fromkeys(TOUCHED_PARTITIONS, (BrokerId(4), BrokerId(1), BrokerId(2))))
    ),
    "its replicas have caught up": _moved,
    "its leavers are gone": _removals_gone,
    "a topic may elect uncleanly": lambda core: ConfigChanged(
        "topics", "touched", {"unclean.leader.election.enable": "true"}
    ),
    "nothing but time": lambda core: Tick(),
}


def _cost(name: str, others: int) -> tuple[Cost, Effects]:
    core = cluster(others)
    event = EVENTS[name](core)
    walks = Walks()
    assert core.context is not None
    counting(core.context, walks)
    effects: list[Effects] = []
    cost = cost_of(lambda: effects.append(settle(core, event, 0)), walks)
    return cost, effects[0]


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_costs_nothing_for_partitions_it_does_not_touch(name: str) -> None:
    few, told = _cost(name, FEW)
    many, told_too = _cost(name, MANY)
    assert told.resign is None, told.resign
    assert len(told.changes) == len(told_too.changes), "the same is decided in both"
    assert many.steps == few.steps, f"{many.steps} instead of {few.steps} partitions were walked over"
    assert many.byte_codes == few.byte_codes


def test_what_is_touched_is_counted() -> None:
    """The counts see what they are to see: a broker that has everything costs more in the larger cluster."""
    costs = []
    for others in (FEW, MANY):
        core, walks = cluster(others), Walks()
        assert core.context is not None
        counting(core.context, walks)
        event = BrokersChanged(tuple(r for r in BROKERS if r.broker_id != 2))
        costs.append(cost_of(lambda core=core, event=event: settle(core, event, 0), walks))  # type: ignore[misc]
    few, many = costs
    grown = (TOUCHED + MANY) / (TOUCHED + FEW)
    assert many.byte_codes / few.byte_codes > grown * 0.6
    assert many.byte_codes / few.byte_codes < grown * 1.05, "more than linear"
    assert many.steps > few.steps + (MANY - FEW) / 2
