"""Replica state machine: the legal moves as a table, each with the effect it asks for (S1, C2-C5).

    NonExistentReplica -> NewReplica -> OnlineReplica <-> OfflineReplica
    OfflineReplica -> ReplicaDeletionStarted -> ReplicaDeletionSuccessful -> NonExistentReplica
    OfflineReplica, ReplicaDeletionStarted -> ReplicaDeletionIneligible -> OnlineReplica, OfflineReplica

The last four states exist for deletion alone (row 60).

The table does not hold every change of a state. Three pass it by: `bulk_moves`, which writes for many what the effects here
would write one by one, and takes from the table which sources are legal; `failover.commit_initial_states`, which gives a
new controller the states that store and live brokers imply; and `Plan.forget_replica`, for a replica that will never answer:
from any state to NonExistent.
"""

from typing import TYPE_CHECKING

from odradek.controller.leadership import departed, returned
from odradek.controller.states import ReplicaState
from odradek.controller.transitions import IllegalTransition
from odradek.model.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from odradek.controller.plan import Plan


ReplicaMove = tuple[TopicPartition, BrokerId, ReplicaState, ReplicaState]  # the last two: from, to


class Mark:
    """Remember the new state; nobody is told (row 75)."""

    @staticmethod
    def plan(plan: "Plan", move: ReplicaMove) -> bool:
        topic_partition, broker, source, target = move
        plan.mark_replica(topic_partition, broker, source, target)
        return True


class StartFollowing:
    """NonExistent -> New. With a leader known, LeaderAndIsr with `is_new` to this replica alone (C6, row 64).

    Without one the request comes when the partition gets its leader (row 62). The leader itself cannot be
    a new replica: it holds the data (row 63).
    """

    @staticmethod
    def plan(plan: "Plan", move: ReplicaMove) -> bool:
        topic_partition, broker, source, target = move
        current = plan.leadership(topic_partition)
        if current is not None and current.leader == broker:
            plan.fail_replica(
                topic_partition, broker, source, target, "it is being requested to become leader"
            )
            return False
        plan.mark_replica(topic_partition, broker, source, target)
        if current is not None:
            plan.notify_leader_and_isr(broker, topic_partition)
            plan.notify_metadata(topic_partition)
        return True


class JoinAssignment:
    """New -> Online. Append to the assigned replicas if missing; nobody is told (row 65)."""

    @staticmethod
    def plan(plan: "Plan", move: ReplicaMove) -> bool:
        topic_partition, broker, source, target = move
        plan.assign(topic_partition, broker)
        plan.mark_replica(topic_partition, broker, source, target)
        return True


class Return:
    """Online, Offline, Ineligible -> Online. Leadership known: LeaderAndIsr to this replica (rows 66, 67)."""

    @staticmethod
    def plan(plan: "Plan", move: ReplicaMove) -> bool:
        topic_partition, broker, source, target = move
        plan.mark_replica(topic_partition, broker, source, target)
        if returned(plan.leadership(topic_partition)):
            plan.notify_leader_and_isr(broker, topic_partition)
            plan.notify_metadata(topic_partition)
        return True


class LeaveIsr:
    """-> Offline. StopReplica without deletion to it; out of the ISR; the others hear of the smaller ISR.

    What stays of the ISR says `leadership.departed`. No leader known: only the state and UpdateMetadata (C14). Other replicas get no
    LeaderAndIsr when the topic is being deleted (row 71).
    """

    @staticmethod
    def plan(plan: "Plan", move: ReplicaMove) -> bool:
        topic_partition, broker, source, target = move
        plan.notify_stop(broker, topic_partition, delete=False)
        current = plan.leadership(topic_partition)
        if current is not None:
            leader, isr = departed(current, broker)
            if leader != current.leader or isr != current.isr:
                plan.lead(topic_partition, leader=leader, isr=isr)
                plan.note_departure(topic_partition, broker, current)
                if topic_partition.topic not in plan.context.topics_to_delete:
                    others = [other for other in plan.assignment(topic_partition).replicas if other != broker]
                    plan.notify_leader_and_isr_to(others, topic_partition)
        plan.mark_replica(topic_partition, broker, source, target)
        plan.notify_metadata(topic_partition)
        return True


class DeleteData:
    """Offline -> DeletionStarted. The state first, then StopReplica with deletion; the answer decides
    between Successful and Ineligible (row 73)."""

    @staticmethod
    def plan(plan: "Plan", move: ReplicaMove) -> bool:
        topic_partition, broker, source, target = move
        plan.mark_replica(topic_partition, broker, source, target)
        plan.notify_stop(broker, topic_partition, delete=True)
        return True


class Forget:
    """Successful -> NonExistent. Out of the assigned replicas and out of this machine (row 76)."""

    @staticmethod
    def plan(plan: "Plan", move: ReplicaMove) -> bool:
        topic_partition, broker, source, target = move
        plan.unassign(topic_partition, broker)
        plan.mark_replica(topic_partition, broker, source, target)
        return True


ReplicaEffect = (
    type[Mark]
    | type[StartFollowing]
    | type[JoinAssignment]
    | type[Return]
    | type[LeaveIsr]
    | type[DeleteData]
    | type[Forget]
)

NON_EXISTENT, NEW, ONLINE, OFFLINE, STARTED, SUCCESSFUL, INELIGIBLE = ReplicaState
TRANSITIONS: dict[ReplicaState, dict[ReplicaState, ReplicaEffect]] = {
    NON_EXISTENT: {NEW: StartFollowing},
    NEW: {ONLINE: JoinAssignment, OFFLINE: LeaveIsr},
    ONLINE: {ONLINE: Return, OFFLINE: LeaveIsr},
    OFFLINE: {ONLINE: Return, OFFLINE: LeaveIsr, STARTED: DeleteData, INELIGIBLE: Mark},
    STARTED: {SUCCESSFUL: Mark, INELIGIBLE: Mark},
    SUCCESSFUL: {NON_EXISTENT: Forget},
    INELIGIBLE: {ONLINE: Return, OFFLINE: LeaveIsr},
}


def plan_replica_move(
    plan: "Plan", topic_partition: TopicPartition, broker: BrokerId, target: ReplicaState
) -> bool:
    """Plan one move. False: the move is legal and cannot be made; the state stays, a failure is noted."""
    source = plan.replica_state(topic_partition, broker)
    effect = TRANSITIONS[source].get(target)
    if effect is None:
        raise IllegalTransition(f"{topic_partition}/{broker}", source, target, tuple(TRANSITIONS[source]))
    return effect.plan(plan, (topic_partition, broker, source, target))
