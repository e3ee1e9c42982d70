"""What a controller promises of one step to the next, and no state of its own shows: judged after every step, by `Watch`."""

from collections.abc import Iterator
from typing import Any

from odradek.controller.context import ControllerContext, ReassignmentPhase, UncleanPoll
from odradek.controller.events import Requested
from odradek.model.cluster import ReplicaAssignment
from odradek.model.controller_requests import ControlledShutdownAnswer, ControlledShutdownAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly

Growing = tuple[ReplicaAssignment, frozenset[BrokerId]]  # what it moves to, and the ISR at the last step


class ControllerPromises:
    """Of one controller after another."""

    def __init__(self) -> None:
        self._context: ControllerContext | None = None
        self._growing: dict[TopicPartition, Growing] = {}
        self._leaving: dict[int, BrokerId] = {}  # request id -> who asks to stop
        self._polls: dict[TopicPartition, UncleanPoll] = {}  # as they were at the last step
        self._latest_ms = 0

    def observe(self, context: ControllerContext, event: Any, effects: Any, now_ms: int = 0) -> list[Anomaly]:
        """`now_ms`: by the clock of the controller."""
        if context is not self._context:
            self._context = context
            self._growing, self._leaving = {}, {}
            self._polls, self._latest_ms = {}, 0
        found: list[Anomaly] = []
        if context.reassignments or self._growing:
            found += self._left_behind(context)
        if context.polls or self._polls:
            self._latest_ms = max(self._latest_ms, now_ms)  # its clock may be put back
            found += self._lost_more(context)
        if type(event) is Requested and type(event.body) is ControlledShutdownAsked:
            self._leaving[event.request_id] = event.body.broker
        if self._leaving:
            for answer in effects.answers:
                leaver = self._leaving.pop(answer.request_id, None)
                if leaver is not None:
                    found += _still_in_sync(context, leaver, answer.body)
        return found

    def _left_behind(self, context: ControllerContext) -> Iterator[Anomaly]:
        """TargetInSync: a reassignment goes on from copying only when every target replica is in the ISR (KAFKA-15665)."""
        before, self._growing = self._growing, {}
        for partition, moving in context.reassignments.items():
            stored = context.leaderships.get(partition)
            isr = frozenset(() if stored is None else stored.leader_and_isr.isr)
            known = before.get(partition)
            if moving.phase is ReassignmentPhase.GROWING:
                self._growing[partition] = moving.stored, isr
            elif known is not None and known[0] == moving.stored and moving.stored.is_being_reassigned:
                behind = sorted({*moving.stored.target_replicas} - known[1] - isr)
                if behind and stored is not None:
                    yield Anomaly(
                        "TargetInSync",
                        partition,
                        f"the reassignment to {list(moving.stored.target_replicas)} goes on without {behind}, and the ISR is "
                        f"{sorted(known[1])}",
                    )

    def _lost_more(self, context: ControllerContext) -> Iterator[Anomaly]:
        """UncleanIsBest: who is elected from outside the ISR holds the most, by the epoch of the last record and the log end, of those
        that were asked and may lead; all that are live have answered, or their time was up, or records may be lost and one alone is live,
        of whom there is nothing to choose (seed 6405). Who is stopping in order answers too, and does not lead. A log of which all was
        deleted names no epoch: then the log ends are compared."""
        before, self._polls = self._polls, dict(context.polls)
        for partition, poll in before.items():
            stored = context.leaderships.get(partition)
            if partition in context.polls or stored is None:
                continue
            leader = stored.leader_and_isr.leader
            if leader not in poll.asked:
                continue  # a member of the ISR was back, or the topic is gone
            live = [broker for broker in poll.asked if broker in context.brokers]
            silent = [broker for broker in live if broker not in poll.ends]
            is_choice = len(live) > 1 or not poll.may_lose
            if silent and is_choice and self._latest_ms < poll.deadline_ms:
                yield Anomaly(
                    "UncleanIsBest", partition, f"broker {leader} leads, and {silent} could still answer"
                )
            online = context.online_of(poll.asked, partition)
            ends = {broker: poll.ends[broker] for broker in online if broker in poll.ends}
            if any(epoch < 0 < offset for epoch, offset in poll.ends.values()):
                held = {broker: (-1, offset) for broker, (_, offset) in ends.items()}
            else:
                held = {broker: (int(epoch), offset) for broker, (epoch, offset) in ends.items()}
            if held and (leader not in held or held[leader] < max(held.values())):
                yield Anomaly(
                    "UncleanIsBest", partition, f"broker {leader} leads, and (epoch, log end) are {ends}"
                )


def _still_in_sync(context: ControllerContext, leaver: BrokerId, told: Any) -> Iterator[Anomaly]:
    """LeaverIsOut: a broker that may stop, and leads nothing any more, is in no ISR of another leader."""
    if not isinstance(told, ControlledShutdownAnswer) or told.error is not ErrorCode.NONE or told.remaining:
        return
    for partition in sorted(context.partitions_on.get(leaver, ())):
        stored = context.leaderships.get(partition)
        if stored is None or partition.topic in context.topics_to_delete:
            continue
        state = stored.leader_and_isr
        if leaver in state.isr and state.leader not in (leaver, -1):
            yield Anomaly(
                "LeaverIsOut",
                partition,
                f"broker {leaver} may stop, and is in the ISR {list(state.isr)} of leader {state.leader}",
            )
