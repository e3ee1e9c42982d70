"""Elections, ISR as the controller stores it, requests of the controller, its epochs."""

from tests.mutants.edit import Edit
from tests.mutants.mutant import Mutant
from tests.mutants.table import own_scenarios

EXHIBITS: tuple[Mutant, ...] = (
    Mutant(
        "3143",
        "when all replicas are dead the store goes on naming a dead leader",
        (
            Edit(
                "controller.leadership:departed",
                "NO_LEADER if current.leader == broker else current.leader",
                "current.leader",
            ),
        ),
        commit="d77bac1c930",
        scenario="clean_election_waits",
    ),
    Mutant(
        "4623",
        "unclean election unless somebody forbids it",
        (
            Edit(
                "controller.context:ControllerContext.is_unclean_election_allowed",
                "self.settings.unclean_leader_election_enable",
                "True",
            ),
        ),
        commit="46da01a4a7d",
        scenario="clean_election_waits",
        searched="elect_anybody",
    ),
    Mutant(
        "6082",
        "a controller that was replaced goes on writing",
        (Edit("store.memory:Tree.write", "guard is None or guard.version != fence.version", "False"),),
        commit="297fb396a00",
        scenario="deposed_while_its_watches_are_late",
    ),
    Mutant(
        "7235",
        "a broker that was away and is back before anybody looked was never away",
        (
            Edit(
                "controller.broker_changes:tasks_of_brokers",
                "b in before and now[b].epoch > before[b].epoch",
                "False",
            ),
        ),
        commit="2155c6d54b0",
        own_scenario=own_scenarios.RETURNED_UNSEEN,
    ),
    Mutant(
        "9539",
        "StopReplica of an older leader epoch stops a replica that leads by now",
        (
            Edit(
                "broker.replica_manager:ReplicaManager._stop_one",
                "stop.leader_epoch < partition.leader_epoch",
                "False",
            ),
        ),
        commit="7c7d55dbd8d",
        scenario="late_requests_to_stop",
    ),
    Mutant(
        "9946",
        "a replica that is only stopped counts as deleted",
        (
            Edit(
                "broker.replica_manager:ReplicaManager._stop_one",
                "partition.stop(deleted=stop.delete)",
                "partition.stop(deleted=True)",
            ),
        ),
        commit="e2797e2ef8e",
        harmless="whoever waits looks around after either error, and nobody takes the answer for a deletion: that is told by what was asked for",
    ),
    Mutant(
        "9672",
        "the ISR names a replica that is not assigned any more",
        (Edit("controller.alter_partition:AlterPartition._error", "not set(isr) <= set(assigned)", "False"),),
        commit="d3612ebc775",
        harmless="whoever leaves the assignment leaves the ISR in a write of its own, so a proposal that still names it has an old partition epoch and is refused for that",
    ),
    Mutant(
        "13916",
        "a dead broker joins the ISR",
        (
            Edit(
                "controller.alter_partition:_is_eligible",
                "not context.is_online(member.broker, topic_partition)",
                "False",
            ),
            Edit(
                "controller.alter_partition:_is_eligible",
                "member.broker_epoch in (UNKNOWN_BROKER_EPOCH, context.broker_epoch(member.broker))",
                "True",
            ),
        ),
        commit="151ca12a56c",
        scenario="a_dead_broker_does_not_join",
    ),
    Mutant(
        "14140",
        "a broker that is shutting down joins the ISR again",
        (
            Edit(
                "controller.alter_partition:_is_eligible",
                "context.is_online(member.broker, topic_partition)",
                "context.is_registered(member.broker)",
            ),
        ),
        commit="163d00b3e61",
        scenario="who_shuts_down_does_not_return",
    ),
    Mutant(
        "14144",
        "the answer to AlterPartition is lost, and the repeat is refused for its old partition epoch",
        (
            Edit(
                "controller.alter_partition:AlterPartition._error",
                "_is_committed(item, isr, current)",
                "False",
            ),
        ),
        commit="62c2880a584",
        scenario="lost_answer_to_a_proposal",
    ),
    Mutant(
        "14154",
        "a controller that is behind refuses a leader that is ahead for good",
        (
            Edit(
                "controller.alter_partition:AlterPartition._error",
                "item.leader_epoch > current.leader_epoch or item.partition_epoch > current.partition_epoch",
                "False",
            ),
            Edit(
                "controller.alter_partition:AlterPartition._error",
                "item.leader_epoch < current.leader_epoch",
                "item.leader_epoch != current.leader_epoch",
            ),
        ),
        commit="0b4b3039ddc",
        harmless="FENCED_LEADER_EPOCH ends nothing with us: the leader keeps its proposal and asks whoever is controller by then, once a second",
    ),
    Mutant(
        "14617",
        "a follower joins the ISR on the strength of what it had before it was restarted empty",
        (
            Edit(
                "controller.alter_partition:_is_eligible",
                "member.broker_epoch in (UNKNOWN_BROKER_EPOCH, context.broker_epoch(member.broker))",
                "True",
            ),
        ),
        commit="79b5f7f1ce2",
        scenario="h1_emptied_while_the_proposal_travels",
        searched="any_incarnation_joins",
    ),
    Mutant(
        "15665",
        "a reassignment ends as soon as the new replicas are in sync, whoever else has fallen behind",
        (
            Edit(
                "controller.reassignment_rules:is_caught_up",
                "moving.stored.target_replicas",
                "moving.stored.adding_replicas",
            ),
        ),
        commit="6dce7dce4b6",
        scenario="a_target_falls_behind",
    ),
    Mutant(
        "13407",
        "no controller is ever elected: the node is there, and it is one's own, for the answer was lost",
        (
            Edit(
                "server.controller_runtime:ControllerRuntime._give_up_stale",
                "node.stat.ephemeral_owner == store.session_id",
                "False",
            ),
        ),
        commit="-",
        scenario="own_node_without_a_term",
    ),
    Mutant(
        "9491",
        "reassignment leaves the leader epoch as it is, so brokers that have it ignore the new assignment",
        (
            Edit(
                "controller.reassignment:_plan_grow",
                "plan.lead(topic_partition, leader=current.leader, isr=current.isr)",
                "plan.lead(topic_partition, leader=current.leader, isr=current.isr, raise_epoch=False)",
            ),
        ),
        commit="b029902b129",
        scenario="reassignment_twelve_steps",
    ),
    Mutant(
        "6193",
        "one of several reassignments ends, and what is noted of the others goes with it",
        (
            Edit(
                "controller.topic_nodes:topic_write",
                "context.stored_assignment(topic_partition)",
                "ReplicaAssignment(context.stored_assignment(topic_partition).replicas)",
            ),
        ),
        commit="d543e19a09e",
        scenario="several_reassignments_of_one_topic",
    ),
    Mutant(
        "13972",
        "a reassignment is cancelled, and the replicas that were being added stay for ever",
        (
            Edit(
                "controller.reassignment_start:DropReplicas.plan",
                "plan_removal(plan, topic_partition, broker)",
                "plan.forget_replica(topic_partition, broker, 'forgotten')",
            ),
        ),
        commit="653e284fcce",
        scenario="cancelled_reassignment",
    ),
    Mutant(
        "6612",
        "partitions are added to a topic that is being deleted",
        (
            Edit(
                "controller.topic_changes:tasks_of_assignments",
                "added and node.topic in context.topics_to_delete",
                "False",
            ),
        ),
        commit="685fd03dda0",
        scenario="grown_while_it_goes",
    ),
    Mutant(
        "2721",
        "LeaderAndIsr of an epoch that a broker has already is obeyed once more",
        (
            Edit(
                "broker.replica_manager:ReplicaManager._commit_one",
                "partition.is_news(leadership)",
                "leadership.leader_epoch >= partition.leader_epoch",
            ),
        ),
        commit="21ea9cbc0de",
        scenario="lost_answer_to_a_proposal",
    ),
    Mutant(
        "5473",
        "a session ends while the store is away, and no other one is ever opened",
        (Edit("server.store_sessions:StoreSessions._open_session", "await asyncio.sleep(RETRY_S)", "raise"),),
        commit="e5daa40e316",
        scenario="the_store_is_away_and_the_session_ends",
    ),
    Mutant(
        "6879",
        "after its session has ended a broker waits for its controller to stop, which waits for a session",
        (Edit("server.store_sessions:StoreSessions._session", "controller.cancel(why)", "pass"),),
        commit="42d65c429f1",
        scenario="session_ends_at_the_controller",
    ),
    Mutant(
        "13254",
        "one ISR change under way blocks every other",
        (
            Edit(
                "broker.isr_channel:IsrChannel._answered",
                "in_flight, self._in_flight = (self._in_flight, {})",
                "in_flight = self._in_flight",
            ),
        ),
        commit="0aefebf6061",
        scenario="a_target_falls_behind",
    ),
    Mutant(
        "KIP-380",
        "a request for a broker's former incarnation is obeyed by the present one",
        (Edit("broker.core:Broker.broker_epoch_error", "broker_epoch < self.broker_epoch", "False"),),
        commit="-",
        scenario="late_requests_to_stop",
    ),
    Mutant(
        "row 146",
        "requests of a controller that has resigned are obeyed",
        (
            Edit(
                "broker.replica_manager:ReplicaManager.accept_controller_epoch",
                "controller_epoch < self.controller_epoch",
                "False",
            ),
        ),
        commit="S0",
        scenario="late_leadership",
    ),
)
