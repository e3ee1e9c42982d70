"""Partition state machine: the legal moves as a table, each with the effect it asks for.

The table is the code: it validates, dispatches, draws the diagram in the docs and enumerates the tests.
Everything that moves a partition from one state to another lives in this file; nothing here waits, writes or
logs. An effect's `plan` writes what it wants on a `Plan`; memory changes when the plan is committed.

    NonExistentPartition -> NewPartition -> OnlinePartition <-> OfflinePartition -> NonExistentPartition

The table does not hold every change of a state. Three pass it by: `bulk_moves`, which writes for many what the effects here
would write one by one, and takes from the table which sources are legal; `failover.commit_initial_states`, which gives a
new controller the states that the store implies; and `topic_changes`, which does so for partitions that already have a leader.

(S0; S1 for the self-transitions of Online and Offline. New -> Offline exists in both.)
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.controller.election import Election, offline_leader
from odradek.controller.states import PartitionState
from odradek.controller.transitions import IllegalTransition
from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import TopicPartition

if TYPE_CHECKING:
    from odradek.controller.plan import Plan


# Says who leads: reads the plan, returns None when nobody can.
LeaderSelector = Callable[["Plan", TopicPartition, LeaderAndIsr], Election | None]


class Mark:
    """Remember the new state. Nothing is stored and nobody is told (rows 15, 22, 23)."""

    @staticmethod
    def plan(
        plan: "Plan",
        topic_partition: TopicPartition,
        source: PartitionState,
        target: PartitionState,
        select: LeaderSelector,
    ) -> bool:
        replicas = plan.assignment(topic_partition).replicas if target is PartitionState.NEW else None
        plan.mark_partition(topic_partition, source, target, replicas=replicas)
        return True


class WriteLeaderAndIsr:
    """Store a leader and ISR; once stored, remember the state and tell the replicas and every live broker.

    A new partition takes its first live replica and all live replicas as ISR (row 17); any other asks the
    selector (row 20). Nobody can lead: the partition stays what it was (rows 19, 25, 39).
    """

    @staticmethod
    def plan(
        plan: "Plan",
        topic_partition: TopicPartition,
        source: PartitionState,
        target: PartitionState,
        select: LeaderSelector,
    ) -> bool:
        current = plan.leadership(topic_partition)
        if current is None:
            election = first_leader(plan, topic_partition)
        else:
            election = select(plan, topic_partition, current)
        if election is None:
            plan.fail_partition(topic_partition, source, target, _why_nobody(plan, topic_partition, current))
            return False
        plan.elect(topic_partition, election)
        plan.mark_partition(topic_partition, source, target, why=election.why)
        plan.notify_leader_and_isr_to(election.tell, topic_partition)
        plan.notify_metadata(topic_partition)
        return True


PartitionEffect = type[Mark] | type[WriteLeaderAndIsr]

NON_EXISTENT, NEW, ONLINE, OFFLINE = PartitionState
TRANSITIONS: dict[PartitionState, dict[PartitionState, PartitionEffect]] = {
    NON_EXISTENT: {NEW: Mark},
    NEW: {ONLINE: WriteLeaderAndIsr, OFFLINE: Mark},
    ONLINE: {ONLINE: WriteLeaderAndIsr, OFFLINE: Mark},
    OFFLINE: {ONLINE: WriteLeaderAndIsr, OFFLINE: Mark, NON_EXISTENT: Mark},
}


def plan_partition_move(
    plan: "Plan",
    topic_partition: TopicPartition,
    target: PartitionState,
    select: LeaderSelector | None = None,
) -> bool:
    """Plan one move. False: the move is legal and nobody can lead; the state stays."""
    source = plan.partition_state(topic_partition)
    effect = TRANSITIONS[source].get(target)
    if effect is None:
        raise IllegalTransition(str(topic_partition), source, target, tuple(TRANSITIONS[source]))
    return effect.plan(plan, topic_partition, source, target, select or select_offline)


def first_leader(plan: "Plan", topic_partition: TopicPartition) -> Election | None:
    """Row 17: the first live replica in assignment order leads, all live ones are in sync: logs are empty."""
    live = plan.context.online_of(plan.assignment(topic_partition).replicas, topic_partition)
    return Election(live[0], live, False, live, "first live replica of a new partition") if live else None


def select_offline(plan: "Plan", topic_partition: TopicPartition, current: LeaderAndIsr) -> Election | None:
    """The selector of rows 43-47, with the topic's own unclean gate (C9)."""
    context = plan.context
    replicas = plan.assignment(topic_partition).replicas
    unclean_allowed = plan.is_unclean_election_allowed(topic_partition.topic)
    is_plain = not unclean_allowed and not current.elr and not current.last_known_elr
    if is_plain and context.all_log_dirs_online():
        return plan.elected_alike(
            (select_offline, replicas, current.isr),
            lambda: offline_leader(
                replicas=replicas, isr=current.isr, live=context.online_of(replicas, topic_partition)
            ),
        )
    return select_among(plan, topic_partition, current, unclean_allowed=unclean_allowed)


def select_among(
    plan: "Plan", topic_partition: TopicPartition, current: LeaderAndIsr, *, unclean_allowed: bool
) -> Election | None:
    """None: nobody can lead, or not before others have said what they hold."""
    live = plan.candidates(topic_partition)
    if plan.must_ask(topic_partition, current, live, unclean_allowed=unclean_allowed):
        return None
    return offline_leader(
        replicas=plan.assignment(topic_partition).replicas,
        isr=plan.may_lead(topic_partition, current),
        live=live,
        unclean_allowed=unclean_allowed,
        eligible=plan.eligible(topic_partition),
    )


def _why_nobody(plan: "Plan", topic_partition: TopicPartition, current: LeaderAndIsr | None) -> str:
    replicas = plan.assignment(topic_partition).replicas
    live = plan.candidates(topic_partition)
    if current is None:
        return f"none of its replicas {_ids(replicas)} is live, so no first leader can be chosen"
    if topic_partition in plan.asks or topic_partition in plan.context.polls:
        contenders = plan.contenders(topic_partition, current)
        if len(contenders) > 1:
            why = f"all of the ISR {_ids(current.isr)} may have lost records, and so may who was eligible"
            return f"{why}; {_ids(contenders)} are asked what they hold"
        return f"no member of the ISR {_ids(current.isr)} is live; {_ids(live)} are asked what they hold"
    if not live:
        return f"none of its replicas {_ids(replicas)} is live; a member of the ISR {_ids(current.isr)} must return"
    in_doubt = [b for b in current.isr if b not in plan.may_lead(topic_partition, current)]
    if in_doubt:
        eligible = _ids(plan.eligible(topic_partition))
        return f"{_ids(tuple(in_doubt))} of the ISR may have lost records, and one of {eligible}, which have them, must return"
    may = "may lead in this election" if any(b in live for b in current.isr) else "can lead"
    return f"no member of the ISR {_ids(current.isr)} {may}; live replicas are {_ids(live)}"


def _ids(brokers: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, brokers)) + "]"
