"""Of replica states, and of what sets them off."""

from tests.mutants.edit import Edit
from tests.mutants.mutant import Mutant

OF_REPLICAS: tuple[Mutant, ...] = (
    Mutant(
        "behaviour 62",
        "a new replica is told to follow nobody",
        (
            Edit(
                "controller.replica_states:StartFollowing.plan",
                (
                    "if current is not None:\n"
                    "    plan.notify_leader_and_isr(broker, topic_partition)\n"
                    "    plan.notify_metadata(topic_partition)"
                ),
                (
                    "plan.notify_leader_and_isr(broker, topic_partition)\nplan.notify_metadata(topic_partition)"
                ),
            ),
        ),
        rows=(62,),
    ),
    Mutant(
        "behaviour 53",
        "a replica may be new without having been nothing",
        (Edit("controller.replica_states:TRANSITIONS[NON_EXISTENT]", "StartFollowing", "Mark"),),
        rows=(53, 64),
    ),
    Mutant(
        "behaviour 54",
        "a returning replica is not told who leads",
        (
            Edit(
                "controller.replica_states:Return.plan",
                "plan.notify_leader_and_isr(broker, topic_partition)",
                "pass",
            ),
        ),
        rows=(54, 66),
    ),
    Mutant(
        "behaviour 55",
        "replicas on a dead broker stay online",
        (
            Edit(
                "controller.broker_changes:plan_replicas_offline",
                "plan_departures(plan, broker, [tp for tp in partitions if tp.topic not in deleting])",
                "pass",
            ),
        ),
        rows=(55, 85, 100),
    ),
    Mutant(
        "behaviour 56",
        "deletion may start from online",
        (
            Edit(
                "controller.replica_states:TRANSITIONS[ONLINE]",
                "{ONLINE: Return, OFFLINE: LeaveIsr}",
                "{ONLINE: Return, OFFLINE: LeaveIsr, STARTED: DeleteData}",
            ),
        ),
        rows=(56, 60),
    ),
    Mutant(
        "behaviour 59",
        "a deleted replica stays assigned",
        (Edit("controller.replica_states:Forget.plan", "plan.unassign(topic_partition, broker)", "pass"),),
        rows=(59, 76),
    ),
    Mutant(
        "behaviour 57",
        "a successful deletion is not final",
        (Edit("controller.replica_states:TRANSITIONS[SUCCESSFUL]", "{NON_EXISTENT: Forget}", "{}"),),
        rows=(57,),
    ),
    Mutant(
        "behaviour 58",
        "a replica cannot become ineligible once started",
        (
            Edit(
                "controller.replica_states:TRANSITIONS[STARTED]",
                "{SUCCESSFUL: Mark, INELIGIBLE: Mark}",
                "{SUCCESSFUL: Mark}",
            ),
        ),
        rows=(58, 89),
    ),
    Mutant(
        "behaviour 61",
        "an unknown replica is online",
        (
            Edit(
                "controller.context:ControllerContext.replica_state",
                "ReplicaState.NON_EXISTENT",
                "ReplicaState.ONLINE",
            ),
        ),
        rows=(61,),
    ),
    Mutant(
        "behaviour 63",
        "the leader may become a new replica",
        (
            Edit(
                "controller.replica_states:StartFollowing.plan",
                "current.leader == broker",
                "current.leader == -99",
            ),
        ),
        rows=(63,),
    ),
    Mutant(
        "behaviour 65",
        "a new replica does not join the assignment",
        (
            Edit(
                "controller.replica_states:JoinAssignment.plan",
                "plan.assign(topic_partition, broker)",
                "pass",
            ),
        ),
        rows=(65,),
    ),
    Mutant(
        "behaviour 67",
        "a replica of a partition that never led stays offline",
        (
            Edit(
                "controller.replica_states:Return.plan",
                (
                    "plan.mark_replica(topic_partition, broker, source, target)\n"
                    "if returned(plan.leadership(topic_partition)):\n"
                    "    plan.notify_leader_and_isr(broker, topic_partition)\n"
                    "    plan.notify_metadata(topic_partition)"
                ),
                (
                    "if returned(plan.leadership(topic_partition)):\n"
                    "    plan.mark_replica(topic_partition, broker, source, target)\n"
                    "    plan.notify_leader_and_isr(broker, topic_partition)\n"
                    "    plan.notify_metadata(topic_partition)"
                ),
            ),
        ),
        rows=(67,),
    ),
    Mutant(
        "behaviour 68",
        "a replica that goes offline is not stopped",
        (
            Edit(
                "controller.replica_states:LeaveIsr.plan",
                "plan.notify_stop(broker, topic_partition, delete=False)",
                "pass",
            ),
        ),
        rows=(68, 124),
    ),
    Mutant(
        "behaviour 69",
        "the others do not hear of the smaller ISR",
        (
            Edit(
                "controller.replica_states:LeaveIsr.plan",
                "plan.notify_leader_and_isr_to(others, topic_partition)",
                "pass",
            ),
        ),
        rows=(69,),
    ),
    Mutant(
        "behaviour 70",
        "the last member leaves the ISR too",
        (
            Edit(
                "controller.leadership:departed",
                "tuple([member for member in isr if member != broker]) or isr",
                "tuple([member for member in isr if member != broker])",
            ),
        ),
        rows=(70, 168),
    ),
    Mutant(
        "behaviour 71",
        "LeaderAndIsr is sent for a topic that is being deleted",
        (
            Edit(
                "controller.replica_states:LeaveIsr.plan",
                "topic_partition.topic not in plan.context.topics_to_delete",
                "True",
            ),
        ),
        rows=(71,),
    ),
    Mutant(
        "behaviour 72",
        "nobody hears of an offline replica",
        (Edit("controller.replica_states:LeaveIsr.plan", "plan.notify_metadata(topic_partition)", "pass"),),
        rows=(72,),
    ),
    Mutant(
        "behaviour 73",
        "StopReplica never deletes",
        (
            Edit(
                "controller.replica_states:DeleteData.plan",
                "plan.notify_stop(broker, topic_partition, delete=True)",
                "plan.notify_stop(broker, topic_partition, delete=False)",
            ),
        ),
        rows=(73, 74, 87),
    ),
    Mutant(
        "behaviour 75",
        "a mark tells everybody",
        (
            Edit(
                "controller.replica_states:Mark.plan",
                "return True",
                ("plan.notify_metadata(topic_partition)\nreturn True"),
            ),
        ),
        rows=(75,),
    ),
    Mutant(
        "behaviour 78",
        "LeaderAndIsr does not bring UpdateMetadata with it",
        (
            Edit(
                "controller.replica_states:StartFollowing.plan",
                "plan.notify_metadata(topic_partition)",
                "pass",
            ),
        ),
        rows=(78,),
    ),
    Mutant(
        "behaviour 80",
        "dead replicas are loaded as offline",
        (
            Edit(
                "controller.failover:commit_initial_states",
                "ReplicaState.DELETION_INELIGIBLE",
                "ReplicaState.OFFLINE",
            ),
        ),
        rows=(80,),
    ),
    Mutant(
        "behaviour 81",
        "replicas are not told at failover",
        (Edit("controller.failover:plan_startup", "told[broker][topic_partition] = False", "pass"),),
        rows=(81, 121),
    ),
    Mutant(
        "behaviour 82",
        "the machines start empty",
        (
            Edit(
                "controller.failover:load_context",
                "commit_initial_states(context, context.assignments)",
                "pass",
            ),
        ),
        rows=(82,),
    ),
    Mutant(
        "behaviour 83",
        "the log has other words",
        (
            Edit(
                "controller.state_change_log:change_line",
                "f'Changed state of replica {change.replica} for partition {tp} from {change.source} to {change.to}'",
                "f'replica {change.replica} of {tp}: {change.source} -> {change.to}'",
            ),
        ),
        rows=(83,),
    ),
    Mutant(
        "behaviour 84",
        "replicas of a started broker stay offline",
        (
            Edit(
                "controller.broker_changes:plan_replicas_online",
                "plan_returns(plan, broker, [tp for tp in partitions if tp.topic not in deleting])",
                "pass",
            ),
        ),
        rows=(84, 104),
    ),
    Mutant(
        "behaviour 86",
        "replicas of a new partition are not made new",
        (
            Edit(
                "controller.topic_changes:NewPartitions.plan",
                "_move_replicas(plan, born, ReplicaState.NEW)",
                "pass",
            ),
        ),
        rows=(86, 95, 97),
    ),
    Mutant(
        "behaviour 88",
        "an answered deletion counts as failed",
        (
            Edit(
                "controller.topic_deletion:DeletionAnswered.plan",
                "INELIGIBLE if topic_partition in self.failed else SUCCESSFUL",
                "INELIGIBLE",
            ),
        ),
        rows=(88, 142),
    ),
    Mutant(
        "behaviour 90",
        "a leaver that answered keeps its state",
        (
            Edit(
                "controller.replica_removal:RemovalsAnswered.plan",
                "plan_replica_move(plan, topic_partition, self.broker, NON_EXISTENT)",
                "pass",
            ),
        ),
        rows=(90, 115),
    ),
    Mutant(
        "behaviour 94",
        "partitions stay in the machine while they are deleted",
        (
            Edit(
                "controller.topic_deletion:_leave_the_machine",
                "plan_partition_move(plan, topic_partition, PartitionState.NON_EXISTENT)",
                "pass",
            ),
        ),
        rows=(94,),
    ),
)
