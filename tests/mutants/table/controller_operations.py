"""Of what is done in several steps, and of what all of it implies."""

from tests.mutants.edit import Edit
from tests.mutants.mutant import Mutant

OF_OPERATIONS: tuple[Mutant, ...] = (
    Mutant(
        "behaviour 96",
        "a created topic is not created",
        (Edit("controller.topic_changes:_creation", "tasks.append(NewPartitions(partitions))", "pass"),),
        rows=(96,),
    ),
    Mutant(
        "behaviour 101",
        "a dead replica of a deleted topic is not noted",
        (
            Edit(
                "controller.topic_deletion:plan_replica_failed",
                "plan_replica_move(plan, topic_partition, broker, INELIGIBLE)",
                "pass",
            ),
        ),
        rows=(101,),
    ),
    Mutant(
        "behaviour 103",
        "the others are not told of a newcomer first",
        (
            Edit(
                "controller.broker_changes:BrokerStartup.plan",
                "plan.first_notifications.append(Notification(metadata_to=others, bare_metadata=True))",
                "pass",
            ),
        ),
        rows=(103,),
    ),
    Mutant(
        "behaviour 106",
        "a returning broker takes up no reassignment",
        (
            Edit(
                "controller.broker_changes:BrokerFailure.follow_up",
                (
                    "left = outcomes['left']\n"
                    "assert isinstance(left, tuple)\n"
                    "return steps_after(context, (*left, *led_anew(outcomes)))"
                ),
                "return ()",
            ),
        ),
        rows=(106,),
    ),
    Mutant(
        "behaviour 108",
        "the growing partition is not announced",
        (Edit("controller.reassignment:_plan_grow", "announce", "False"),),
        rows=(108,),
    ),
    Mutant(
        "behaviour 109",
        "new replicas of a reassignment are not made new",
        (
            Edit(
                "controller.reassignment:_plan_grow",
                "plan.replica_state(topic_partition, broker) is NON_EXISTENT",
                "False",
            ),
        ),
        rows=(109,),
    ),
    Mutant(
        "behaviour 110",
        "a reassignment does not wait for its targets",
        (
            Edit(
                "controller.reassignment_rules:is_caught_up",
                "current is None or set(moving.stored.target_replicas) <= set(current.isr)",
                "True",
            ),
        ),
        rows=(110,),
    ),
    Mutant(
        "behaviour 111",
        "caught-up replicas stay new",
        (
            Edit(
                "controller.reassignment:_plan_move",
                "plan_replica_move(plan, topic_partition, broker, ONLINE)",
                "pass",
            ),
        ),
        rows=(111,),
    ),
    Mutant(
        "behaviour 112",
        "brokers are told the old set of replicas",
        (
            Edit(
                "controller.reassignment:_plan_move",
                "plan.assignments[topic_partition] = ReplicaAssignment(target)",
                "pass",
            ),
        ),
        rows=(112, 113),
    ),
    Mutant(
        "behaviour 114",
        "leavers stay where they are",
        (
            Edit(
                "controller.reassignment:AdvanceReassignments.plan",
                (
                    "for broker in moving.stored.removing_replicas:\n"
                    "    plan_removal(plan, topic_partition, broker)"
                ),
                "pass",
            ),
        ),
        rows=(114, 138, 139),
    ),
    Mutant(
        "behaviour 118",
        "the end of a reassignment is not told",
        (
            Edit(
                "controller.reassignment:CompleteReassignments.plan",
                "plan.notify_metadata(topic_partition)",
                "pass",
            ),
        ),
        rows=(118,),
    ),
    Mutant(
        "behaviour 119",
        "a growing ISR does not move a reassignment on",
        (
            Edit(
                "controller.alter_partition:AlterPartition.follow_up",
                "steps_after(context, [tp for tp in changed if tp is not None])",
                "()",
            ),
        ),
        rows=(119, 143),
    ),
    Mutant(
        "behaviour 120",
        "a successor does not take a reassignment up",
        (
            Edit(
                "controller.failover:Startup.follow_up",
                "(ReassignmentStep(running, announce=True),) if running else ()",
                "()",
            ),
        ),
        rows=(120,),
    ),
    Mutant(
        "behaviour 126",
        "an only replica goes silently",
        (
            Edit(
                "controller.controlled_shutdown:ControlledShutdown.plan",
                "plan.changes.append(_goes_offline(topic_partition, self.broker))",
                "pass",
            ),
        ),
        rows=(126,),
    ),
    Mutant(
        "behaviour 135",
        "nothing is rebalanced by itself",
        (
            Edit(
                "controller.rebalance_leaders:tasks_of_check",
                "len(away) * 100 > len(mine) * settings.leader_imbalance_per_broker_percentage",
                "False",
            ),
        ),
        rows=(135, 137, 141, 161),
    ),
    Mutant(
        "behaviour 144",
        "live brokers are not introduced first",
        (
            Edit(
                "controller.failover:Startup.plan",
                "plan.first_notifications.append(Notification(bare_metadata=True, is_whole=True))",
                "pass",
            ),
        ),
        rows=(144,),
    ),
    Mutant(
        "behaviour 145",
        "a controller that resigned still knows everything",
        (Edit("controller.core:ControllerCore._resign", "self.context = None", "pass"),),
        rows=(145,),
    ),
    Mutant(
        "behaviour 146",
        "a broker that obeys a later controller is not believed",
        (Edit("controller.dispatch:_check_answer", "error is ErrorCode.STALE_CONTROLLER_EPOCH", "False"),),
        rows=(146,),
    ),
    Mutant(
        "behaviour 147",
        "a stale epoch of one partition makes us resign",
        (
            Edit(
                "controller.dispatch:_told_to_lead",
                "known = context.offline_directories.get(event.broker, frozenset())",
                (
                    "if event.partition_errors:\n"
                    "    raise Resign('told')\n"
                    "known = context.offline_directories.get(event.broker, frozenset())"
                ),
            ),
        ),
        rows=(147,),
    ),
    Mutant(
        "behaviour 149",
        "a later stop undoes a deletion",
        (
            Edit(
                "controller.plan:Plan.notify_stop",
                ("if delete or topic_partition not in stops:\n    stops[topic_partition] = delete"),
                "stops[topic_partition] = delete",
            ),
        ),
        rows=(149,),
    ),
    Mutant(
        "behaviour 150",
        "new replicas are not told that they are new",
        (
            Edit(
                "controller.plan:Plan.notify_leader_and_isr",
                "state is ReplicaState.NEW or told.get(topic_partition, False)",
                "False",
            ),
        ),
        rows=(150,),
    ),
    Mutant(
        "behaviour 153",
        "a bounce is only a start",
        (
            Edit("controller.broker_changes:tasks_of_brokers", "gone or bounced", "gone"),
            Edit("controller.broker_changes:tasks_of_brokers", "(*gone, *bounced)", "gone"),
        ),
        rows=(153,),
    ),
    Mutant(
        "behaviour 154",
        "clients keep seeing a topic that is being deleted",
        (
            Edit(
                "controller.requests:_metadata_partitions",
                "LEADER_DURING_DELETE if deleting else state.leader",
                "state.leader",
            ),
        ),
        rows=(154,),
    ),
    Mutant(
        "behaviour 155",
        "a death that moves nothing is not told",
        (
            Edit(
                "controller.broker_changes:BrokerFailure.plan",
                (
                    "if plan.only is None and (not plan.telling.metadata):\n"
                    "    plan.telling.bare_metadata = True"
                ),
                "pass",
            ),
        ),
        rows=(155,),
    ),
    Mutant(
        "behaviour 156",
        "dead and leaving brokers may join the ISR",
        (
            Edit(
                "controller.alter_partition:_is_eligible",
                "context.is_online(member.broker, topic_partition)",
                "context.is_registered(member.broker)",
            ),
            Edit("controller.alter_partition:_is_eligible", "False", "True"),
        ),
        rows=(156,),
    ),
    Mutant(
        "behaviour 159",
        "an older partition epoch is accepted",
        (
            Edit(
                "controller.alter_partition:AlterPartition._error",
                "return ErrorCode.INVALID_UPDATE_VERSION",
                "pass",
            ),
        ),
        rows=(159,),
    ),
    Mutant(
        "behaviour 160",
        "a shutdown is told that nothing remains",
        (Edit("controller.controlled_shutdown:ControlledShutdown.answers", "remaining", "()"),),
        rows=(160,),
    ),
    Mutant(
        "behaviour 162",
        "a replaced target is not stopped",
        (Edit("controller.reassignment_requests:_start", "[DropReplicas(drops)] if drops else []", "[]"),),
        rows=(162,),
    ),
    Mutant(
        "behaviour 163",
        "dead brokers are accepted as targets",
        (
            Edit(
                "controller.reassignment_requests:_invalid_list",
                "dead = [b for b in target if b not in stored.replicas and b not in context.brokers]",
                "dead: list[BrokerId] = []",
            ),
        ),
        rows=(163,),
    ),
    Mutant(
        "behaviour 164",
        "a cancel may lose the records",
        (
            Edit(
                "controller.reassignment_requests:_loses_records",
                "loses_records(context, topic_partition, current, dropped)",
                "False",
            ),
        ),
        rows=(164,),
    ),
    Mutant(
        "behaviour 165",
        "partitions grow while their topic is deleted",
        (
            Edit(
                "controller.topic_changes:tasks_of_assignments",
                "added and node.topic in context.topics_to_delete",
                "False",
            ),
        ),
        rows=(165,),
    ),
    Mutant(
        "behaviour 166",
        "turning unclean on changes nothing until the next event",
        (
            Edit(
                "controller.metadata_changes:config_tasks",
                "[*tasks, UncleanElectionEnabled(allowed)] if allowed else tasks",
                "tasks",
            ),
        ),
        rows=(166,),
    ),
    Mutant(
        "behaviour 167",
        "topics are deleted although it is switched off",
        (
            Edit(
                "controller.topic_deletion:tasks_of_deletions",
                "not context.settings.delete_topic_enable",
                "False",
            ),
        ),
        rows=(167,),
    ),
    Mutant(
        "behaviour 169",
        "the configuration of a deleted topic stays",
        (
            Edit(
                "controller.topic_deletion:CompleteDeletions.plan",
                "[RemoveTopic(topic), RemoveTopicConfig(topic), RemoveTopicDeletion(topic)]",
                "[RemoveTopic(topic), RemoveTopicDeletion(topic)]",
            ),
        ),
        rows=(169,),
    ),
    Mutant(
        "behaviour 170",
        "a moved only replica stays on its old broker",
        (
            Edit(
                "controller.reassignment:CompleteReassignments.plan",
                "moving.stored.target_replicas",
                "moving.stored.origin_replicas",
            ),
        ),
        rows=(170,),
    ),
    Mutant(
        "behaviour 171",
        "StopReplica goes first",
        (
            Edit(
                "controller.requests:requests_of",
                "requests.append(_stop_replica(context, broker, stops, telling.stop_epoch))",
                "requests.insert(0, _stop_replica(context, broker, stops, telling.stop_epoch))",
            ),
        ),
        rows=(171,),
    ),
    Mutant(
        "behaviour 172",
        "a leaver that said no is not asked again",
        (
            Edit(
                "controller.replica_removal:RemovalsAnswered.commit_done",
                ("if self.failed:\n    context.commit_deadline(RETRY, now_ms + RETRY_MS)"),
                "pass",
            ),
        ),
        rows=(172,),
    ),
)
