"""Unclean elections: nobody in the ISR is live, and losing records is allowed; then lose as few as possible.

Before it chooses, the controller asks every live replica what it holds: the epoch of its last record and its log
end offset. The best of them by (last epoch, log end offset) leads; the others stand in the journal with what
they would have cost. Nobody answers within half a second: the first in assignment order, as Apache does. A
single candidate is not asked, there is nothing to choose.

While the question is open the partition stays offline, and a member of the ISR that returns still wins.

Where all of the ISR may have lost what they held, and whoever was eligible as well (`eligible`), they are asked alike, whatever is
allowed: each of them had every committed record once, so who has the most has all that is left. They have five seconds.
"""

from collections.abc import Collection, Container, Iterable, Mapping

from odradek.controller.broker_requests import AskEndOffsets, BrokerRequest
from odradek.controller.context import ControllerContext, UncleanPoll
from odradek.controller.effects import Answer, StateChange
from odradek.controller.election import MOST, Election, offline_leader
from odradek.controller.events import EndOffsetsAnswered, Event
from odradek.controller.partition_states import plan_partition_move
from odradek.controller.plan import Plan, Question
from odradek.controller.reassignment_rules import steps_after
from odradek.controller.states import PartitionState
from odradek.controller.task import Task, led_anew
from odradek.model.cluster import LeaderAndIsr
from odradek.model.controller_requests import ElectLeadersAnswer
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from odradek.model.values import dataclass, replace

DEADLINE, PATIENCE_MS = "unclean elections", 500
# Those that may have all that was committed are worth more: they have just started, and may be busy.
PATIENCE_IN_DOUBT_MS = 5_000

End = tuple[LeaderEpoch, Offset]
UNKNOWN_END: End = (LeaderEpoch(-1), Offset(-1))


def questions(context: ControllerContext, asked: Iterable[TopicPartition]) -> list[BrokerRequest]:
    """One question a broker, for all partitions that wait for its answer. To be made behind `commit_asked`."""
    by_broker: dict[BrokerId, list[tuple[TopicPartition, LeaderEpoch]]] = {}
    for topic_partition in sorted(asked):
        state = context.leadership(topic_partition)
        epoch = state.leader_epoch if state is not None else LeaderEpoch(-1)
        for broker in context.polls[topic_partition].asked:
            by_broker.setdefault(broker, []).append((topic_partition, epoch))
    return [
        AskEndOffsets(broker, context.broker_epoch(broker), tuple(partitions), context.polls_begun)
        for broker, partitions in sorted(by_broker.items())
        if broker in context.brokers
    ]


def plan_asked_again(plan: Plan, started: Collection[BrokerId]) -> None:
    """What these had answered, or were about to, they may have lost by their restart; and who was not asked may hold the most.
    All who are live are asked. Where nothing may be lost, who died is waited for on."""
    context = plan.context
    for topic_partition in plan.pick(context.polls):
        if plan.partition_state(topic_partition) is PartitionState.OFFLINE:
            live = plan.candidates(topic_partition)
            if not frozenset(started).isdisjoint(live):
                poll = context.polls[topic_partition]
                current = plan.leadership(topic_partition)
                if poll.may_lose or current is None:
                    plan.asks[topic_partition] = Question(live, poll.may_lose)
                elif contenders := plan.contenders(topic_partition, current):
                    dead = [broker for broker in poll.asked if broker not in context.brokers]
                    plan.asks[topic_partition] = Question((*contenders, *dead), may_lose=False)


def commit_asked(context: ControllerContext, asked: dict[TopicPartition, Question], now_ms: int) -> None:
    if asked:
        context.polls_begun += 1
    for topic_partition, (candidates, may_lose) in asked.items():
        deadline_ms = now_ms + (PATIENCE_MS if may_lose else PATIENCE_IN_DOUBT_MS)
        before = context.polls.get(topic_partition)
        # The dead hold no more than they have answered.
        ends = {b: end for b, end in before.ends.items() if b not in context.brokers} if before else {}
        poll = UncleanPoll(candidates, ends, deadline_ms, context.polls_begun, may_lose)
        context.polls[topic_partition] = poll
        context.commit_deadline(DEADLINE, deadline_ms)


def tasks_of_answer(context: ControllerContext, event: EndOffsetsAnswered) -> list[Task]:
    """Note what a candidate holds; elect where that is known of everybody. Whoever died meanwhile is waited for only where nothing may be
    lost: it may be back, and hold the most."""
    complete = []
    for topic_partition, end in sorted(event.ends.items()):
        poll = context.polls.get(topic_partition)
        if poll is None or event.broker not in poll.asked or event.number not in (None, poll.number):
            continue
        poll = context.polls[topic_partition] = replace(poll, ends={**poll.ends, event.broker: end})
        if _is_known(poll, context.brokers):
            complete.append(topic_partition)
    return [ElectUnclean(tuple(complete))] if complete else []


def _is_known(poll: UncleanPoll, live: Container[BrokerId]) -> bool:
    """Who is to lead: all that count have answered. Where nothing may be lost, one of the live holds as much as any that answered."""
    if poll.may_lose:
        return all(broker in poll.ends or broker not in live for broker in poll.asked)
    held = _held(poll)
    most = max(held.values())
    return all(broker in held for broker in poll.asked) and any(
        broker in live and end == most for broker, end in held.items()
    )


def tasks_of_deadline(context: ControllerContext, now_ms: int) -> list[Task]:
    """Also what an administrator waits for and is no more: its topic went, and the question with it."""
    due = {tp for tp, poll in context.polls.items() if poll.deadline_ms <= now_ms}
    for _, waiting in context.elections_asked.values():
        due |= waiting - context.polls.keys()
    later = [poll.deadline_ms for poll in context.polls.values() if poll.deadline_ms > now_ms]
    if later:
        context.commit_deadline(DEADLINE, min(later))
    return [ElectUnclean(tuple(sorted(due)))] if due else []


@dataclass(frozen=True, slots=True)
class ElectUnclean(Task):
    """The answers are in, or the time is up."""

    partitions: tuple[TopicPartition, ...]

    def reason(self) -> str:
        return "unclean election"

    def plan(self, plan: Plan) -> None:
        context = plan.context
        for topic_partition in plan.pick(tp for tp in self.partitions if tp in context.polls):
            if plan.partition_state(topic_partition) is not PartitionState.OFFLINE:
                continue  # a member of the ISR returned meanwhile
            plan.changes.extend(priced(context, topic_partition))
            plan_partition_move(plan, topic_partition, PartitionState.ONLINE, _select_best)

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        """Administrators who wait for these elections can be answered when the last of theirs is done."""
        for topic_partition in self.partitions:
            context.polls.pop(topic_partition, None)
        answered = []
        for request_id, (results, waiting) in sorted(context.elections_asked.items()):
            known = {tp: _result(context, tp) for tp in sorted(waiting.intersection(self.partitions))}
            left = waiting.difference(self.partitions)
            if left:
                context.elections_asked[request_id] = ({**results, **known}, left)
            else:
                del context.elections_asked[request_id]
                answered.append(elected_answer(context, request_id, {**results, **known}))
        outcomes["answered"] = tuple(answered)

    def answers(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Answer, ...]:
        answered = outcomes["answered"]
        assert isinstance(answered, tuple)
        return answered

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        return steps_after(context, led_anew(outcomes))


def elected_answer(
    context: ControllerContext, request_id: int, results: Mapping[TopicPartition, tuple[ErrorCode, str]]
) -> Answer:
    elected = {}
    for topic_partition, (error, _) in results.items():
        state = context.leadership(topic_partition)
        if error is ErrorCode.NONE and state is not None:
            elected[topic_partition] = state.leader_epoch
    return Answer(request_id, ElectLeadersAnswer(ErrorCode.NONE, results, elected))


def _result(context: ControllerContext, topic_partition: TopicPartition) -> tuple[ErrorCode, str]:
    if topic_partition not in context.assignments:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
    if context.partition_state(topic_partition) is PartitionState.ONLINE:
        return ErrorCode.NONE, ""
    return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no replica of {topic_partition} is live"


def _select_best(plan: Plan, topic_partition: TopicPartition, current: LeaderAndIsr) -> Election | None:
    """Whether it was allowed was decided when the question was asked."""
    context = plan.context
    replicas = plan.assignment(topic_partition).replicas
    ranked = ranking(context, topic_partition)
    contenders = plan.contenders(topic_partition, current)
    if contenders:
        best = next(broker for broker in (*ranked, *contenders) if broker in contenders)
        return Election(best, (best,), False, plan.candidates(topic_partition), MOST)
    return offline_leader(
        replicas=replicas,
        isr=plan.may_lead(topic_partition, current),
        live=plan.candidates(topic_partition),
        unclean_allowed=context.polls[topic_partition].may_lose,
        ranked=ranked,
        eligible=context.eligible(topic_partition),
    )


def ranking(context: ControllerContext, topic_partition: TopicPartition) -> tuple[BrokerId, ...]:
    """Those that answered, best first; among equals the assignment order decides."""
    held = _held(context.polls[topic_partition])
    answered = [b for b in context.assignments[topic_partition].replicas if b in held]
    return tuple(sorted(answered, key=lambda broker: held[broker], reverse=True))


def _held(poll: UncleanPoll) -> Mapping[BrokerId, End]:
    """To be compared. Of an Apache candidate the log end alone is known (mixing with Apache): then all are compared by that."""
    if any(epoch < 0 < offset for epoch, offset in poll.ends.values()):
        return {broker: (LeaderEpoch(-1), offset) for broker, (_, offset) in poll.ends.items()}
    return poll.ends


def priced(context: ControllerContext, topic_partition: TopicPartition) -> list[StateChange]:
    """What each candidate holds and what choosing it would lose against the best: the poll."""
    poll = context.polls[topic_partition]
    order = ranking(context, topic_partition)
    best = poll.ends[order[0]] if order else UNKNOWN_END
    changes = []
    for broker in poll.asked:
        end = poll.ends.get(broker)
        if end is None:
            text = f"broker {broker} did not answer what it holds"
        else:
            lost = max(0, best[1] - end[1])
            epoch = f"epoch {end[0]}" if end[0] >= 0 else "an unknown epoch"
            text = f"broker {broker} holds {epoch} up to offset {end[1]}: {lost} fewer than the best"
        changes.append(StateChange("quote", "candidate", "priced", text, topic_partition, broker))
    return changes
