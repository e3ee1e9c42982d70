"""A broker that did not answer for so long that what it was to be told was given up (decisions/0071).

It never left: its registration stands, and so do its leaderships and its places in ISRs. What it has missed since some moment is
not known, so it is told what holds, as one that starts is, and nothing is moved or written for it. Its queue was empty when this
began: all that it is still to do is in what is said here.
"""

from odradek.controller.context import ControllerContext
from odradek.controller.pending_deletions import commit_notified, plan_notifications
from odradek.controller.plan import Notification, Plan
from odradek.controller.states import ReplicaState
from odradek.controller.task import Task
from odradek.model.ids import BrokerId, TopicPartition, in_order
from odradek.model.values import dataclass

# What a replica in such a state is told: whether to delete its data. In any other it has nothing to stop, or has said so.
STOPPED = {ReplicaState.OFFLINE: False, ReplicaState.DELETION_STARTED: True}
TOLD_TO_LEAD = frozenset({ReplicaState.NEW, ReplicaState.ONLINE})


@dataclass(frozen=True, slots=True)
class TellAnew(Task):
    broker: BrokerId

    def reason(self) -> str:
        return f"broker {self.broker} answers again, and what it was to be told meanwhile was given up"

    def commit_facts(self, context: ControllerContext) -> None:
        """No answer is on the way to what it was told to delete."""
        context.deletions_told.pop(self.broker, None)
        context.pending_deletions_sent.pop(self.broker, None)

    def plan(self, plan: Plan) -> None:
        context, broker = plan.context, self.broker
        plan.note("broker", str(broker), "live", "live")
        plan_notifications(plan, (broker,))
        # Also of topics that are being deleted: that they go is told once, when it begins.
        everything = dict.fromkeys(context.assignments)
        plan.first_notifications.append(
            Notification(metadata=everything, metadata_to=(broker,), bare_metadata=True, is_whole=True)
        )
        unusual = context.replica_state_overrides
        told: dict[TopicPartition, bool] = {}
        for topic_partition in in_order(context.partitions_on.get(broker, ())):
            states = unusual.get(topic_partition)
            state = ReplicaState.ONLINE if states is None else states.get(broker, ReplicaState.ONLINE)
            if state in TOLD_TO_LEAD:
                told[topic_partition] = state is ReplicaState.NEW
        if told:
            plan.telling.leader_and_isr[broker] = told
        stops = {
            tp: STOPPED[states[broker]] for tp, states in unusual.items() if states.get(broker) in STOPPED
        }
        if stops:
            plan.telling.stops[broker] = {tp: stops[tp] for tp in in_order(stops)}

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        commit_notified(context, outcomes, now_ms)
