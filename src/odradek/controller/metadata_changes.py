"""What the store tells besides brokers and topics: states written by others, configuration (rows 150, 166)."""

from collections.abc import Iterable, Mapping

from odradek.controller.broker_changes import plan_online_trigger
from odradek.controller.context import CLUSTER_DEFAULT, ControllerContext
from odradek.controller.election import is_doubted
from odradek.controller.events import Event
from odradek.controller.plan import Plan
from odradek.controller.reassignment_rules import steps_after
from odradek.controller.task import Task, led_anew
from odradek.controller.topic_deletion import CompleteDeletions
from odradek.model.cluster import LeaderAndIsr
from odradek.model.facts import ConfigChanged, StoredPartitionState
from odradek.model.ids import TopicPartition
from odradek.model.values import dataclass

UNCLEAN = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class AdoptStates(Task):
    """State nodes that somebody else wrote: a leader older than 2.7 that changes its ISR by itself, or a hand.
    What the store holds is the truth; everybody hears of it by UpdateMetadata."""

    states: Mapping[TopicPartition, StoredPartitionState]

    def reason(self) -> str:
        return "state node written by another"

    def commit_facts(self, context: ControllerContext) -> None:
        for topic_partition in sorted(self.states):
            known = context.leaderships.get(topic_partition)
            if known is None or topic_partition not in context.assignments:
                continue
            new = self.states[topic_partition]
            if new.leader_and_isr.partition_epoch > known.leader_and_isr.partition_epoch:
                context.commit_leadership(topic_partition, new)

    def plan(self, plan: Plan) -> None:
        for topic_partition in plan.pick(self.states):
            plan.notify_metadata(topic_partition)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        return steps_after(context, self.states)


def _remember(configs: dict[str, Mapping[str, str]], event: ConfigChanged) -> None:
    """Nothing of what has no overrides: it may be the topic, or the broker, that is gone."""
    if event.config:
        configs[event.entity_name] = dict(event.config)
    else:
        configs.pop(event.entity_name, None)


def config_tasks(context: ControllerContext, event: ConfigChanged) -> list[Task]:
    """Remember the new configuration; unclean election newly allowed is tried at once (golden 08). One that cannot be
    read changes nothing: brokers keep what they had, and so do we."""
    if event.unreadable:
        return []
    waiting = sorted({tp.topic for tp in context.leaderless})
    forbidden = [topic for topic in waiting if not context.is_unclean_election_allowed(topic)]
    if event.entity_type == "topics":
        _remember(context.topic_configs, event)
        about: Iterable[TopicPartition] = context.partitions_of(event.entity_name)
    elif event.entity_type == "brokers":
        _remember(context.broker_configs, event)
        counts = event.entity_name in (str(context.broker), CLUSTER_DEFAULT)
        about = context.leaderships if counts else ()
    else:
        return []
    tasks = tasks_of_void(context, about, "min.insync.replicas lowered")
    if (
        event.entity_type == "brokers"
        and context.topics_to_delete
        and context.deletes_with_offline_replicas()
    ):
        tasks.append(CompleteDeletions())  # it may be what a deletion waited for
    allowed = tuple(topic for topic in forbidden if context.is_unclean_election_allowed(topic))
    return [*tasks, UncleanElectionEnabled(allowed)] if allowed else tasks


def tasks_of_void(context: ControllerContext, about: Iterable[TopicPartition], why: str) -> list[Task]:
    """Partitions whose node calls somebody eligible, or last known, who is so no more by what min.insync.replicas says now. Also
    who takes over looks, for nobody saw what was configured before: raised again later, the names would count again."""
    void = [
        tp
        for tp in about
        if (state := context.leadership(tp))
        and _has_former(state)
        and len(state.isr) >= context.effective_min_isr(tp)
    ]
    return [EligibleNoMore(tuple(sorted(void)), why)] if void else []


def _has_former(state: LeaderAndIsr) -> bool:
    """Whether there are names that end with an ISR that is large enough: of last known ones, if not all of the ISR are in doubt."""
    return bool(state.elr) or (bool(state.last_known_elr) and not is_doubted(state))


@dataclass(frozen=True, slots=True)
class EligibleNoMore(Task):
    """min.insync.replicas was lowered to the size of the ISR: records are committed without those that were
    eligible from now on (KIP-966). Their names go, with a new epoch, so that the leader hears of it. But where all of the ISR are
    in doubt, nobody has led since: they are last known, and asked with it."""

    partitions: tuple[TopicPartition, ...]
    why: str

    def reason(self) -> str:
        return self.why

    def plan(self, plan: Plan) -> None:
        for topic_partition in plan.pick(self.partitions):
            current = plan.leadership(topic_partition)
            is_going = topic_partition.topic in plan.context.topics_to_delete
            if current is not None and _has_former(current) and not is_going:
                plan.lead(topic_partition, leader=current.leader, isr=current.isr)
                for broker in plan.assignment(topic_partition).replicas:
                    plan.notify_leader_and_isr(broker, topic_partition)
                plan.notify_metadata(topic_partition)
        # One of the ISR that they kept from leading may do so now.
        plan_online_trigger(plan, sorted({topic_partition.topic for topic_partition in self.partitions}))

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        return steps_after(context, led_anew(outcomes))


@dataclass(frozen=True, slots=True)
class UncleanElectionEnabled(Task):
    topics: tuple[str, ...]

    def reason(self) -> str:
        return f"{UNCLEAN} turned on"

    def plan(self, plan: Plan) -> None:
        plan_online_trigger(plan, self.topics)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        return steps_after(context, led_anew(outcomes))
