"""Elections, ISR as the controller stores it, requests of the controller, its epochs."""

from odradek.broker.core import Broker
from odradek.broker.isr_channel import IsrChannel
from odradek.broker.replica_manager import ReplicaManager
from odradek.controller import (
    alter_partition,
    broker_changes,
    leadership,
    reassignment,
    reassignment_start,
    topic_changes,
    topic_nodes,
)
from odradek.controller.alter_partition import AlterPartition
from odradek.controller.context import ControllerContext
from odradek.server.controller_runtime import ControllerRuntime
from odradek.server.store_sessions import StoreSessions
from odradek.sim.museum import stories
from odradek.sim.museum.exhibit import Exhibit
from odradek.sim.museum.mutation import Change
from odradek.store import memory

EXHIBITS = (
    Exhibit(
        "3143",
        "d77bac1c930",
        "when all replicas are dead the store goes on naming a dead leader",
        (
            Change(
                leadership,
                "departed",
                "leader = NO_LEADER if current.leader == broker else current.leader",
                "leader = current.leader",
            ),
        ),
    ),
    Exhibit(
        "4623",
        "46da01a4a7d",
        "unclean election unless somebody forbids it",
        (
            Change(
                ControllerContext,
                "is_unclean_election_allowed",
                "return self.settings.unclean_leader_election_enable",
                "return True",
            ),
        ),
        searched="elect_anybody",
    ),
    Exhibit(
        "6082",
        "297fb396a00",
        "a controller that was replaced goes on writing",
        (
            Change(
                memory.Tree,
                "write",
                "if guard is None or guard.version != fence.version:",
                "if False:",
            ),
        ),
    ),
    Exhibit(
        "7235",
        "2155c6d54b0",
        "a broker that was away and is back before anybody looked was never away",
        (
            Change(
                broker_changes,
                "tasks_of_brokers",
                "if b in before and now[b].epoch > before[b].epoch]",
                "if False]",
            ),
        ),
        story=stories.RETURNED_UNSEEN,
    ),
    Exhibit(
        "9539",
        "7c7d55dbd8d",
        "StopReplica of an older leader epoch stops a replica that leads by now",
        (Change(ReplicaManager, "_stop_one", "and stop.leader_epoch < partition.leader_epoch", "and False"),),
    ),
    Exhibit(
        "9946",
        "e2797e2ef8e",
        "a replica that is only stopped counts as deleted",
        (
            Change(
                ReplicaManager,
                "_stop_one",
                "partition.stop(deleted=stop.delete)",
                "partition.stop(deleted=True)",
            ),
        ),
    ),
    Exhibit(
        "9672",
        "d3612ebc775",
        "the ISR names a replica that is not assigned any more",
        (Change(AlterPartition, "_error", " or not set(isr) <= set(assigned)", ""),),
    ),
    Exhibit(
        "13916",
        "151ca12a56c",
        "a dead broker joins the ISR",
        (
            Change(
                alter_partition,
                "_is_eligible",
                "if not context.is_online(member.broker, topic_partition):",
                "if False:",
            ),
            Change(
                alter_partition,
                "_is_eligible",
                "return member.broker_epoch in (UNKNOWN_BROKER_EPOCH, context.broker_epoch(member.broker))",
                "return True",
            ),
        ),
    ),
    Exhibit(
        "14140",
        "163d00b3e61",
        "a broker that is shutting down joins the ISR again",
        (
            Change(
                alter_partition,
                "_is_eligible",
                "if not context.is_online(member.broker, topic_partition):",
                "if not context.is_registered(member.broker):",
            ),
        ),
    ),
    Exhibit(
        "14144",
        "62c2880a584",
        "the answer to AlterPartition is lost, and the repeat is refused for its old partition epoch",
        (Change(AlterPartition, "_error", "if _is_committed(item, isr, current):", "if False:"),),
    ),
    Exhibit(
        "14154",
        "0b4b3039ddc",
        "a controller that is behind refuses a leader that is ahead for good",
        (
            Change(
                AlterPartition,
                "_error",
                "if item.leader_epoch > current.leader_epoch or item.partition_epoch > current.partition_epoch:",
                "if False:",
            ),
            Change(
                AlterPartition,
                "_error",
                "if item.leader_epoch < current.leader_epoch:",
                "if item.leader_epoch != current.leader_epoch:",
            ),
        ),
    ),
    Exhibit(
        "14617",
        "79b5f7f1ce2",
        "a follower joins the ISR on the strength of what it had before it was restarted empty",
        (
            Change(
                alter_partition,
                "_is_eligible",
                "return member.broker_epoch in (UNKNOWN_BROKER_EPOCH, context.broker_epoch(member.broker))",
                "return True",
            ),
        ),
        searched="any_incarnation_joins",
    ),
    Exhibit(
        "15665",
        "6dce7dce4b6",
        "a reassignment ends as soon as the new replicas are in sync, whoever else has fallen behind",
        (
            Change(
                reassignment,
                "is_caught_up",
                "set(moving.stored.target_replicas)",
                "set(moving.stored.adding_replicas)",
            ),
        ),
    ),
    Exhibit(
        "13407",
        "-",
        "no controller is ever elected: the node is there, and it is one's own, for the answer was lost",
        (
            Change(
                ControllerRuntime,
                "_give_up_stale",
                "if node.stat.ephemeral_owner == store.session_id:",
                "if False:",
            ),
        ),
    ),
    Exhibit(
        "9491",
        "b029902b129",
        "reassignment leaves the leader epoch as it is, so brokers that have it ignore the new assignment",
        (
            Change(
                reassignment,
                "_plan_grow",
                "plan.lead(topic_partition, leader=current.leader, isr=current.isr)",
                "plan.lead(topic_partition, leader=current.leader, isr=current.isr, raise_epoch=False)",
            ),
        ),
    ),
    Exhibit(
        "6193",
        "d543e19a09e",
        "one of several reassignments ends, and what is noted of the others goes with it",
        (
            Change(
                topic_nodes,
                "topic_write",
                "context.stored_assignment(topic_partition)",
                "ReplicaAssignment(context.stored_assignment(topic_partition).replicas)",
            ),
        ),
    ),
    Exhibit(
        "13972",
        "653e284fcce",
        "a reassignment is cancelled, and the replicas that were being added stay for ever",
        (
            Change(
                reassignment_start.DropReplicas,
                "plan",
                "plan_leaver(plan, topic_partition, broker)",
                "plan.forget_replica(topic_partition, broker, 'forgotten')",
            ),
        ),
    ),
    Exhibit(
        "6612",
        "685fd03dda0",
        "partitions are added to a topic that is being deleted",
        (
            Change(
                topic_changes,
                "tasks_of_assignments",
                "if added and node.topic in context.topics_to_delete:",
                "if False:",
            ),
        ),
    ),
    Exhibit(
        "2721",
        "21ea9cbc0de",
        "LeaderAndIsr of an epoch that a broker has already is obeyed once more",
        (
            Change(
                ReplicaManager,
                "_commit_one",
                "if leadership.leader_epoch <= partition.leader_epoch:",
                "if leadership.leader_epoch < partition.leader_epoch:",
            ),
        ),
    ),
    Exhibit(
        "5473",
        "e5daa40e316",
        "a session ends while the store is away, and no other one is ever opened",
        (
            Change(
                StoreSessions,
                "_open_session",
                "await asyncio.sleep(RETRY_S)",
                "raise",
            ),
        ),
    ),
    Exhibit(
        "6879",
        "42d65c429f1",
        "after its session has ended a broker waits for its controller to stop, which waits for a session",
        (Change(StoreSessions, "_session", "controller.cancel()", "pass"),),
    ),
    Exhibit(
        "13254",
        "0aefebf6061",
        "one ISR change under way blocks every other",
        (
            Change(
                IsrChannel,
                "_answered",
                "in_flight, self._in_flight = self._in_flight, {}",
                "in_flight = self._in_flight",
            ),
        ),
    ),
    Exhibit(
        "KIP-380",
        "-",
        "a request for a broker's former life is obeyed by the present one",
        (Change(Broker, "why_stale", "and broker_epoch < self.broker_epoch", "and False"),),
    ),
    Exhibit(
        "row 146",
        "S0",
        "requests of a controller that has resigned are obeyed",
        (Change(ReplicaManager, "is_stale", "if controller_epoch < self.controller_epoch:", "if False:"),),
    ),
)
