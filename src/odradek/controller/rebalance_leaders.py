"""Electing leaders because somebody asks: preferred and unclean, by request, by the older node, by itself.

S0 onPreferredReplicaElection, KIP-460; rows 49, 122, 135, 137, 141, 161. The preferred leader is the head of the
assigned replicas; it leads again only if it is live and in the ISR, so nothing is lost by it.

By itself: every `leader.imbalance.check.interval.seconds` the share of partitions a broker is preferred for and
does not lead is compared with `leader.imbalance.per.broker.percentage`.
"""

from collections.abc import Mapping

from odradek.controller.bulk_moves import plan_elections
from odradek.controller.context import ControllerContext
from odradek.controller.effects import Answer, RemovePreferredElectionNode, Write
from odradek.controller.election import Election, preferred_leader
from odradek.controller.events import Event, WriteAnswer
from odradek.controller.partition_states import plan_partition_move, select_among
from odradek.controller.plan import Plan
from odradek.controller.reassignment_rules import steps_after
from odradek.controller.states import PartitionState
from odradek.controller.task import Task, led_anew
from odradek.controller.unclean import elected_answer
from odradek.model.cluster import LeaderAndIsr
from odradek.model.controller_requests import ElectLeadersAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import PreferredElectionRequested
from odradek.model.ids import NO_LEADER, BrokerId, TopicPartition
from odradek.model.values import dataclass, field

CHECK, FIRST_CHECK_MS = "leader imbalance", 5_000

Result = tuple[ErrorCode, str]
NOT_NEEDED: Result = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
UNKNOWN: Result = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
DELETED: Result = (ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")


def tasks_of_request(context: ControllerContext, request_id: int, asked: ElectLeadersAsked) -> list[Task]:
    """Every partition asked for gets its answer; asked for all, only those that had to be elected."""
    named = sorted(context.assignments if asked.partitions is None else set(asked.partitions))
    results: dict[TopicPartition, Result] = {}
    elect: list[TopicPartition] = []
    for topic_partition in named:
        result = _not_electable(context, topic_partition, unclean=asked.unclean)
        if result is None:
            elect.append(topic_partition)
        elif asked.partitions is not None:
            results[topic_partition] = result
    return [ElectLeaders(tuple(elect), asked.unclean, "asked for", request_id, results)]


def _not_electable(
    context: ControllerContext, topic_partition: TopicPartition, *, unclean: bool
) -> Result | None:
    if topic_partition not in context.assignments:
        return UNKNOWN
    if topic_partition.topic in context.topics_to_delete:
        return DELETED
    current = context.leadership(topic_partition)
    if current is None:
        return None
    if unclean:
        has_leader = current.leader != NO_LEADER and current.leader in context.brokers
        return NOT_NEEDED if has_leader else None
    return NOT_NEEDED if current.leader == context.assignments[topic_partition].replicas[0] else None


def tasks_of_node(context: ControllerContext, event: PreferredElectionRequested) -> list[Task]:
    """The older node: elect what it names, then remove it, whatever came of it."""
    if not event.partitions and not event.unreadable:
        return []
    elect = tuple(
        tp for tp in sorted(set(event.partitions)) if _not_electable(context, tp, unclean=False) is None
    )
    named = "asked for in /admin/preferred_replica_election"
    return [ElectLeaders(elect, False, named), RemoveNode()]


def tasks_of_check(context: ControllerContext, now_ms: int) -> list[Task]:
    """Row 161: brokers that lead too few of the partitions they are preferred for."""
    settings = context.settings
    context.commit_deadline(CHECK, now_ms + settings.leader_imbalance_check_interval_seconds * 1000)
    elect: list[TopicPartition] = []
    for broker in context.registered_brokers():
        mine = [
            tp
            for tp in context.partitions_on.get(broker, ())
            if context.assignments[tp].replicas[0] == broker and tp.topic not in context.topics_to_delete
        ]
        away = [tp for tp in mine if (s := context.leadership(tp)) is not None and s.leader != broker]
        if len(away) * 100 > len(mine) * settings.leader_imbalance_per_broker_percentage:
            elect += [tp for tp in away if _may_return(context, tp, broker)]
    return [ElectLeaders(tuple(sorted(elect)), False, "automatic rebalance")] if elect else []


def _may_return(context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId) -> bool:
    current = context.leadership(topic_partition)
    return (
        topic_partition not in context.reassignments
        and current is not None
        and broker in current.isr
        and context.is_online(broker, topic_partition)
    )


@dataclass(frozen=True, slots=True)
class ElectLeaders(Task):
    partitions: tuple[TopicPartition, ...]
    unclean: bool
    why: str
    request_id: int | None = None
    results: Mapping[TopicPartition, Result] = field(default_factory=dict)

    def reason(self) -> str:
        return f"{'unclean' if self.unclean else 'preferred'} election, {self.why}"

    def plan(self, plan: Plan) -> None:
        wanted = plan.pick(self.partitions)
        if self.unclean:
            led = [plan_partition_move(plan, tp, PartitionState.ONLINE, select_unclean) for tp in wanted]
        else:
            led = plan_elections(plan, wanted, select_preferred)
        for topic_partition, is_led in zip(wanted, led, strict=True):
            if is_led:
                plan.outcomes[topic_partition] = (ErrorCode.NONE, "")
            elif topic_partition not in plan.asks and not (
                self.unclean and topic_partition in plan.context.polls
            ):
                plan.outcomes[topic_partition] = self._failed(topic_partition)

    def _failed(self, topic_partition: TopicPartition) -> Result:
        if self.unclean:
            error, strategy = (
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "OfflinePartitionLeaderElectionStrategy(true)",
            )
        else:
            error = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            strategy = "PreferredReplicaPartitionLeaderElectionStrategy"
        return error, f"Failed to elect leader for partition {topic_partition} under strategy {strategy}"

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        """Whoever asked waits until the candidates have said what they hold; also when they were asked before. Where nobody
        is asked, for the node was found gone or damaged, there is nothing to wait for."""
        unknown = [tp for tp in self.partitions if tp not in outcomes]
        outcomes.update({tp: self._failed(tp) for tp in unknown if tp not in context.polls})
        waiting = frozenset(tp for tp in unknown if tp in context.polls)
        if waiting and self.request_id is not None:
            context.elections_asked[self.request_id] = (self._results(outcomes), waiting)

    def answers(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Answer, ...]:
        if self.request_id is None or self.request_id in context.elections_asked:
            return ()
        return (elected_answer(context, self.request_id, self._results(outcomes)),)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        return steps_after(context, led_anew(outcomes))

    def _results(self, outcomes: dict[object, object]) -> dict[TopicPartition, Result]:
        results = dict(self.results)
        for topic_partition in self.partitions:
            outcome = outcomes.get(topic_partition)
            if outcome is not None:
                assert isinstance(outcome, tuple)
                results[topic_partition] = outcome
        return results


def select_preferred(plan: Plan, topic_partition: TopicPartition, current: LeaderAndIsr) -> Election | None:
    replicas = plan.assignment(topic_partition).replicas
    isr = plan.may_lead(topic_partition, current)

    def choose() -> Election | None:
        live = plan.context.online_of(replicas, topic_partition)
        return preferred_leader(replicas=replicas, isr=isr, live=live)

    if plan.context.all_log_dirs_online():
        return plan.elected_alike((select_preferred, replicas, isr), choose)
    return choose()


def select_unclean(plan: Plan, topic_partition: TopicPartition, current: LeaderAndIsr) -> Election | None:
    """An administrator may always ask for it, whatever the topic allows (C9)."""
    return select_among(plan, topic_partition, current, unclean_allowed=True)


@dataclass(frozen=True, slots=True)
class RemoveNode(Task):
    def reason(self) -> str:
        return "/admin/preferred_replica_election"

    def plan(self, plan: Plan) -> None:
        plan.other_writes.append(RemovePreferredElectionNode())

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        return False
