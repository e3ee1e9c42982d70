"""Of what the controller makes of nodes and watches, of partition states, and of elections."""

from tests.mutants.edit import Edit
from tests.mutants.mutant import Mutant

OF_PARTITIONS: tuple[Mutant, ...] = (
    Mutant(
        "behaviour 2",
        "partitions of a dead leader stay online",
        (
            Edit(
                "controller.broker_changes:plan_replicas_offline",
                "plan_partition_move(plan, topic_partition, PartitionState.OFFLINE)",
                "pass",
            ),
        ),
        rows=(2, 98, 93),
    ),
    Mutant(
        "behaviour 3",
        "a new partition starts with an empty ISR",
        (
            Edit(
                "controller.partition_states:first_leader",
                "Election(live[0], live, False, live, 'first live replica of a new partition')",
                "Election(live[0], (), False, live, 'first live replica of a new partition')",
            ),
        ),
        rows=(3, 17, 34),
    ),
    Mutant(
        "behaviour 4",
        "a state node without a live leader is loaded as online",
        (
            Edit(
                "controller.failover:commit_initial_states", "PartitionState.OFFLINE", "PartitionState.ONLINE"
            ),
        ),
        rows=(4, 27),
    ),
    Mutant(
        "behaviour 6",
        "a partition that is done stays in /admin/reassign_partitions",
        (
            Edit(
                "controller.reassignment:CompleteReassignments.plan",
                "left != context.legacy_reassignments",
                "False",
            ),
        ),
        rows=(6, 117),
    ),
    Mutant(
        "behaviour 7",
        "the preferred election takes the last of the list",
        (Edit("controller.election:preferred_leader", "0", "-1"),),
        rows=(7, 49, 122),
    ),
    Mutant(
        "behaviour 8",
        "assigned replicas are not remembered in order",
        (
            Edit(
                "controller.context:ControllerContext.commit_assignment",
                (
                    "self.assignments[topic_partition] = assignment\n"
                    "for broker in old:\n"
                    "    if broker not in assignment.replicas:\n"
                    "        self.partitions_on[broker].discard(topic_partition)"
                ),
                (
                    "self.assignments[topic_partition] = ReplicaAssignment(tuple(sorted(assignment.replicas)))\n"
                    "for broker in old:\n"
                    "    if broker not in assignment.replicas:\n"
                    "        self.partitions_on[broker].discard(topic_partition)"
                ),
            ),
        ),
        rows=(8, 15, 18),
    ),
    Mutant(
        "behaviour 9",
        "the target is listed last",
        (
            Edit(
                "controller.reassignment_rules:assignment_towards",
                "(*target, *removing)",
                "(*removing, *target)",
            ),
        ),
        rows=(9, 107),
    ),
    Mutant(
        "behaviour 10",
        "the target is never written to the topic node",
        (
            Edit(
                "controller.reassignment:CompleteReassignments.plan",
                "changed = {tp for tp in final if final[tp] != context.reassignments[tp].stored}",
                "changed: set[TopicPartition] = set()",
            ),
        ),
        rows=(10, 116, 140),
    ),
    Mutant(
        "behaviour 11",
        "an offline partition cannot cease to exist",
        (
            Edit(
                "controller.partition_states:TRANSITIONS[OFFLINE]",
                "{ONLINE: WriteLeaderAndIsr, OFFLINE: Mark, NON_EXISTENT: Mark}",
                "{ONLINE: WriteLeaderAndIsr, OFFLINE: Mark}",
            ),
        ),
        rows=(11, 23),
    ),
    Mutant(
        "behaviour 12",
        "a new partition cannot go online",
        (
            Edit(
                "controller.partition_states:TRANSITIONS[NEW]",
                "{ONLINE: WriteLeaderAndIsr, OFFLINE: Mark}",
                "{OFFLINE: Mark}",
            ),
        ),
        rows=(12, 33),
    ),
    Mutant(
        "behaviour 13",
        "an online partition cannot be elected again",
        (
            Edit(
                "controller.partition_states:TRANSITIONS[ONLINE]",
                "{ONLINE: WriteLeaderAndIsr, OFFLINE: Mark}",
                "{OFFLINE: Mark}",
            ),
        ),
        rows=(13, 21),
    ),
    Mutant(
        "behaviour 14",
        "offline to offline is not in the table",
        (
            Edit(
                "controller.partition_states:TRANSITIONS[OFFLINE]",
                "{ONLINE: WriteLeaderAndIsr, OFFLINE: Mark, NON_EXISTENT: Mark}",
                "{ONLINE: WriteLeaderAndIsr, NON_EXISTENT: Mark}",
            ),
        ),
        rows=(14, 22),
    ),
    Mutant(
        "behaviour 16",
        "an unknown partition is new",
        (
            Edit(
                "controller.context:ControllerContext.partition_state",
                "PartitionState.NON_EXISTENT",
                "PartitionState.NEW",
            ),
        ),
        rows=(16,),
    ),
    Mutant(
        "behaviour 19",
        "a partition without a live replica is led all the same",
        (
            Edit(
                "controller.context:ControllerContext.online_of",
                "[broker for broker in replicas if broker in brokers and broker not in leaving]",
                "replicas",
            ),
        ),
        rows=(19, 46),
    ),
    Mutant(
        "behaviour 20",
        "the replicas of an election are not told",
        (
            Edit(
                "controller.partition_states:WriteLeaderAndIsr.plan",
                "plan.notify_leader_and_isr_to(election.tell, topic_partition)",
                "pass",
            ),
        ),
        rows=(20, 40),
    ),
    Mutant(
        "behaviour 24",
        "an illegal move of a partition is let through",
        (
            Edit(
                "controller.partition_states:plan_partition_move",
                (
                    "if effect is None:\n"
                    "    raise IllegalTransition(str(topic_partition), source, target, tuple(TRANSITIONS[source]))"
                ),
                (
                    "if effect is None:\n"
                    "    effect = Mark\n"
                    "if source == target == 'never':\n"
                    "    raise IllegalTransition(str(topic_partition), source, target, tuple(TRANSITIONS[source]))"
                ),
            ),
        ),
        rows=(24,),
    ),
    Mutant(
        "behaviour 25",
        "a failed election is taken for a won one",
        (
            Edit(
                "controller.partition_states:WriteLeaderAndIsr.plan",
                "plan.fail_partition(topic_partition, source, target, _why_nobody(plan, topic_partition, current))",
                "plan.mark_partition(topic_partition, source, target)",
            ),
            Edit("controller.partition_states:WriteLeaderAndIsr.plan", "False", "True"),
        ),
        rows=(25, 39),
    ),
    Mutant(
        "behaviour 26",
        "partitions without a leader are not kept apart",
        (
            Edit(
                "controller.context:ControllerContext.commit_partition_state",
                "self.leaderless.add(topic_partition)",
                "pass",
            ),
        ),
        rows=(26,),
    ),
    Mutant(
        "behaviour 28",
        "the trigger elects nobody",
        (
            Edit(
                "controller.broker_changes:plan_online_trigger",
                "electable.append(topic_partition)",
                "continue",
            ),
        ),
        rows=(28, 32, 99, 105),
    ),
    Mutant(
        "behaviour 29",
        "topics queued for deletion are elected",
        (
            Edit(
                "controller.broker_changes:plan_online_trigger",
                "context.is_queued_for_deletion(topic) or (wanted is not None and topic not in wanted)",
                "wanted is not None and topic not in wanted",
            ),
        ),
        rows=(29, 102),
    ),
    Mutant(
        "behaviour 30",
        "requests leave with the writes",
        (
            Edit(
                "controller.core:ControllerCore._advance",
                "Effects(writes=writes)",
                "Effects(writes=writes, changes=tuple(work.plan.changes))",
            ),
        ),
        rows=(30, 151),
    ),
    Mutant(
        "behaviour 31",
        "an exception is logged and swallowed",
        (
            Edit(
                "controller.core:ControllerCore.step",
                "return self._resign(f'{type(mistake).__name__}: {mistake}\\n{detail}', event, is_internal_error=True)",
                (
                    "self._work = None\n"
                    "return NOTHING\n"
                    "return self._resign(f'{type(mistake).__name__}: {mistake}\\n{detail}', event, is_internal_error=True)"
                ),
            ),
        ),
        rows=(31, 77),
    ),
    Mutant(
        "behaviour 35",
        "a conflict is dropped and never planned again",
        (
            Edit(
                "controller.core:ControllerCore._answered",
                "retry = _adopt(context, work, lost)",
                ("_adopt(context, work, lost)\nretry: set[TopicPartition] = set()"),
            ),
        ),
        rows=(35, 36, 41),
    ),
    Mutant(
        "behaviour 37",
        "a state node of a later controller is taken over",
        (
            Edit(
                "controller.core:ControllerCore._elected",
                "epoch > event.controller_epoch",
                "epoch > event.controller_epoch + 100",
            ),
        ),
        rows=(37,),
    ),
    Mutant(
        "behaviour 38",
        "controlled shutdown uses the offline selector",
        (
            Edit(
                "controller.controlled_shutdown:ControlledShutdown.plan",
                "plan_elections(plan, led, select_staying)",
                "plan_elections(plan, led)",
            ),
        ),
        rows=(38, 123, 91),
    ),
    Mutant(
        "behaviour 45",
        "an offline election tells dead replicas too",
        (
            Edit(
                "controller.election:offline_leader",
                "Election(broker, tuple((member for member in isr if member in live)), False, live, CLEAN)",
                "Election(broker, tuple((member for member in isr if member in live)), False, replicas, CLEAN)",
            ),
        ),
        rows=(45,),
    ),
    Mutant(
        "behaviour 43",
        "the offline election prefers the order of the ISR",
        (
            Edit(
                "controller.election:offline_leader",
                (
                    "for broker in replicas:\n"
                    "    if broker in live and broker in isr:\n"
                    "        return Election(broker, tuple((member for member in isr if member in live)), False, live, CLEAN)\n"
                    "for broker in replicas:\n"
                    "    if broker in eligible and broker in live:\n"
                    "        return Election(broker, (broker,), False, live, ELIGIBLE)"
                ),
                (
                    "for broker in isr:\n"
                    "    if broker in live and broker in isr:\n"
                    "        return Election(broker, tuple((member for member in isr if member in live)), False, live, CLEAN)\n"
                    "for broker in replicas:\n"
                    "    if broker in eligible and broker in live:\n"
                    "        return Election(broker, (broker,), False, live, ELIGIBLE)"
                ),
            ),
        ),
        rows=(43,),
    ),
    Mutant(
        "behaviour 44",
        "dead members stay in the ISR",
        (
            Edit(
                "controller.election:offline_leader",
                "tuple((member for member in isr if member in live))",
                "isr",
            ),
        ),
        rows=(44,),
    ),
    Mutant(
        "behaviour 46",
        "unclean election is always allowed",
        (Edit("controller.election:offline_leader", ("if not unclean_allowed:\n    return None"), "pass"),),
        rows=(46, 51),
    ),
    Mutant(
        "behaviour 47",
        "unclean election ignores what survivors hold",
        (Edit("controller.election:offline_leader", "(*ranked, *replicas)", "replicas"),),
        rows=(47,),
    ),
    Mutant(
        "behaviour 92",
        "a leader outside the target stays",
        (
            Edit(
                "controller.reassignment:_plan_move",
                "current.leader in target and plan.context.is_online(current.leader, topic_partition)",
                "True",
            ),
        ),
        rows=(92,),
    ),
    Mutant(
        "behaviour 48",
        "a reassigned leader need not be in the ISR",
        (
            Edit(
                "controller.election:reassigned_leader", "broker in live and broker in isr", "broker in live"
            ),
        ),
        rows=(48,),
    ),
    Mutant(
        "behaviour 125",
        "replicas that follow a leaving broker stay online",
        (
            Edit(
                "controller.controlled_shutdown:ControlledShutdown.plan",
                "plan_departures(plan, self.broker, may_leave)",
                "pass",
            ),
        ),
        rows=(125,),
    ),
    Mutant(
        "behaviour 50",
        "a leaving broker stays in the ISR",
        (
            Edit(
                "controller.election:controlled_shutdown_leader",
                "tuple((member for member in isr if member not in shutting_down))",
                "isr",
            ),
        ),
        rows=(50,),
    ),
    Mutant(
        "behaviour 52",
        "a returning only replica is not elected",
        (Edit("controller.broker_changes:BrokerStartup.plan", "plan_online_trigger(plan)", "pass"),),
        rows=(52,),
    ),
)
