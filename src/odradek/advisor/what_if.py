"""What would happen? The controller's own step on a copy of its memory, with a store that says yes.

`what_if(context, kill=[3])` answers for every partition the event touches: who leads then, what goes offline,
what falls under min.insync.replicas. It is the same code that would run, so the answer cannot drift from it.
"""

from collections.abc import Collection, Iterable, Mapping

from odradek.controller.alter_partition import RECOVERING
from odradek.controller.context import ControllerContext, ControllerSettings
from odradek.controller.core import ControllerCore
from odradek.controller.effects import StateChange
from odradek.controller.events import Elected, Event, LeaderAndIsrAnswered, Tick
from odradek.controller.failover import load_context, newest_controller_epoch
from odradek.controller.settle import settle
from odradek.model.cluster import BrokerRegistration, LeaderAndIsr, TopicConfig
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import (
    BrokersChanged,
    MetadataLoaded,
    StoredPartitionState,
    TopicAssignment,
    UnreadableNode,
)
from odradek.model.ids import (
    NO_LEADER,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    TopicPartition,
)
from odradek.model.values import dataclass, replace

NOBODY: Mapping[TopicPartition, tuple[BrokerId, ...]] = {}


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """One partition before and after. `verdict` is the worst that is true of it:

    goes offline | stays offline | falls under min ISR | stays under min ISR | comes online |
    new leader | ISR changes | unchanged

    `is_unclean`: on the way there somebody led who was not in sync, so acknowledged records may be lost. `may_lead`: where
    there are several such replicas, all of them: the controller asks what each holds and elects the longest log, and a
    question cannot ask. `leader_after` is then the one that is elected if none answers.
    """

    topic_partition: TopicPartition
    verdict: str
    leader_before: BrokerId
    leader_after: BrokerId
    isr_before: tuple[BrokerId, ...]
    isr_after: tuple[BrokerId, ...]
    min_insync_replicas: int
    reason: str = ""
    is_unclean: bool = False
    may_lead: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class WhatIf:
    """`changes` as the journal would have them; `outcomes` for every partition touched, worst first.

    `unfinished`: a sentence for each thing that was asked for, was begun, and does not come to its end.
    """

    question: str
    changes: tuple[StateChange, ...]
    outcomes: tuple[PartitionOutcome, ...]
    unfinished: tuple[str, ...] = ()

    def with_verdict(self, *verdicts: str) -> tuple[PartitionOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.verdict in verdicts)

    @property
    def summary(self) -> dict[str, int]:
        counted = {verdict: len(self.with_verdict(verdict)) for verdict in VERDICTS}
        return {verdict: count for verdict, count in counted.items() if count}


VERDICTS = (
    "goes offline",
    "stays offline",
    "falls under min ISR",
    "stays under min ISR",
    "comes online",
    "new leader",
    "ISR changes",
    "unchanged",
)


def what_if(
    context: ControllerContext,
    *,
    kill: Collection[BrokerId] = (),
    start: Collection[BrokerId] = (),
    stopped_in_order: bool = False,
    settings: ControllerSettings | None = None,
) -> WhatIf:
    """The brokers in `kill` fail at once, then those in `start` come back. `context` is not changed.

    `stopped_in_order`: those in `start` had flushed all they held when they ended (KIP-966), or were killed and prove that
    they have lost nothing (decision 0074); else they may have lost some of it, as after a power cut.
    """
    unknown = sorted(set(kill) - set(context.brokers))
    if unknown:
        raise ValueError(f"cannot kill {unknown}: live brokers are {sorted(context.brokers)}")
    events: list[Event] = []
    left = {b: r for b, r in context.brokers.items() if b not in kill}
    if kill:
        events.append(BrokersChanged(tuple(left[b] for b in sorted(left))))
    if start:
        for broker in start:
            left[broker] = returned(context, broker, stopped_in_order=stopped_in_order)
        events.append(BrokersChanged(tuple(left[b] for b in sorted(left))))
    asked = [f"kill {','.join(map(str, sorted(kill)))}"] if kill else []
    asked += [f"start {','.join(map(str, sorted(start)))}"] if start else []
    touched: set[TopicPartition] = set(context.leaderless)
    for broker in (*kill, *start):
        touched |= context.partitions_on.get(broker, set())
    return what_if_events(context, events, touched, question=" and ".join(asked), settings=settings)


def what_if_events(
    context: ControllerContext,
    events: Iterable[Event],
    touched: Iterable[TopicPartition],
    *,
    question: str,
    settings: ControllerSettings | None = None,
) -> WhatIf:
    """Any events on a copy of `context`; outcomes for the partitions in `touched`."""
    return advance(context, events, touched, question=question, settings=settings)[0]


def advance(
    context: ControllerContext,
    events: Iterable[Event],
    touched: Iterable[TopicPartition],
    *,
    question: str,
    settings: ControllerSettings | None = None,
) -> tuple[WhatIf, ControllerContext]:
    """The same, with the context as it is afterwards, for the question that follows.

    Where no broker is left there is no controller: what is stored stays as it is until a broker comes, who begins with it.
    """
    core = ControllerCore(settings or context.settings)
    core.context = context.fork()
    changes: list[StateChange] = []
    in_doubt: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for event in events:
        if isinstance(event, BrokersChanged) and core.context is not None:
            if not event.brokers:
                core.context = _left_alone(core.context)
                continue
            if not core.context.brokers:
                event = _taken_over(core.context, event.brokers)
        changes.extend(settle(core, event, now_ms=0).changes)
    while core.context is not None and core.context.polls:
        # Candidates cannot be asked in a question: decide as if none had answered.
        in_doubt |= {tp: poll.asked for tp, poll in core.context.polls.items() if not poll.may_lose}
        late = max(poll.deadline_ms for poll in core.context.polls.values())
        changes.extend(settle(core, Tick(), now_ms=late).changes)
    after = core.context
    assert after is not None, f"the controller resigned: {changes[-1].reason if changes else ''}"
    return compared(context, after, touched, question=question, changes=changes, in_doubt=in_doubt), after


def compared(
    before: ControllerContext,
    after: ControllerContext,
    touched: Iterable[TopicPartition],
    *,
    question: str,
    changes: Iterable[StateChange],
    unfinished: Iterable[str] = (),
    in_doubt: Mapping[TopicPartition, tuple[BrokerId, ...]] = NOBODY,
) -> WhatIf:
    """What became of the partitions in `touched`, worst first; nobody waits for those of a topic that is being deleted. `in_doubt`: who
    was to be asked what it holds though nobody else may lead."""
    kept = tuple(changes)
    reasons = {c.topic_partition: c.reason for c in kept if c.kind in ("partition", "failure", "leadership")}
    outcomes = [
        _outcome(
            before,
            after,
            topic_partition,
            reasons.get(topic_partition, ""),
            in_doubt.get(topic_partition, ()),
        )
        for topic_partition in sorted(touched)
        if topic_partition.topic not in before.topics_to_delete
    ]
    outcomes.sort(key=lambda outcome: (VERDICTS.index(outcome.verdict), outcome.topic_partition))
    return WhatIf(question, kept, tuple(outcomes), tuple(unfinished))


def context_of(
    snapshot: MetadataLoaded,
    settings: ControllerSettings | None = None,
    controller: BrokerId | None = None,
    offline_directories: Mapping[BrokerId, Collection[TopicPartition]] | None = None,
) -> ControllerContext:
    """A context for questions about a cluster one is not the controller of: one's own or anybody's. While no broker runs there is
    nobody who would decide anything.

    `offline_directories`: replicas that a live broker has lost with a log directory. No node names them; a controller
    hears of them when it tells their brokers what they have.
    """
    core = ControllerCore(settings)
    newest, _ = newest_controller_epoch(snapshot.states)
    live = {r.broker_id: r.epoch for r in snapshot.brokers}
    me = controller if controller in live and controller is not None else min(live, default=NO_LEADER)
    elected = Elected(me, ControllerEpoch(max(newest, 0)), 0, snapshot)
    if not live:
        return load_context(elected, core.settings)
    settle(core, elected, now_ms=0)
    failed = offline_directories or {}
    for broker in sorted(failed.keys() & live.keys()):
        lost = dict.fromkeys(sorted(failed[broker]), ErrorCode.KAFKA_STORAGE_ERROR)
        settle(core, LeaderAndIsrAnswered(broker, live[broker], ErrorCode.NONE, lost, ()), now_ms=0)
    assert core.context is not None, "a snapshot without a later controller cannot make us resign"
    return core.context


def _left_alone(context: ControllerContext) -> ControllerContext:
    """The last brokers are gone at once, or the last one is."""
    elected = Elected(NO_LEADER, context.controller_epoch, context.epoch_version, stored(context))
    return load_context(elected, context.settings)


def _taken_over(context: ControllerContext, brokers: tuple[BrokerRegistration, ...]) -> Elected:
    epoch = ControllerEpoch(context.controller_epoch + 1)
    first = min(registration.broker_id for registration in brokers)
    return Elected(first, epoch, context.epoch_version, replace(stored(context), brokers=brokers))


def stored(context: ControllerContext) -> MetadataLoaded:
    """What a controller would read while no broker is registered."""
    topics = []
    for name, topic in sorted(context.topics.items()):
        partitions = {tp.partition: context.stored_assignment(tp) for tp in context.partitions_of(name)}
        topics.append(TopicAssignment(name, topic.topic_id, partitions, topic.version))
    unreadable = []
    for name, why in sorted(context.out_of_service.items()):
        path, _, reason = why.partition(": ")
        unreadable.append(UnreadableNode(path, reason, name))
    return MetadataLoaded(
        brokers=(),
        topics=tuple(topics),
        states={tp: _with_lives(context, state) for tp, state in context.leaderships.items()},
        topic_configs={name: TopicConfig(dict(config)) for name, config in context.topic_configs.items()},
        broker_configs=context.broker_configs,
        delete_topics=tuple(sorted(context.topics_to_delete)),
        unreadable=tuple(unreadable),
        pending_deletions=context.pending_deletions,
    )


def _with_lives(context: ControllerContext, state: StoredPartitionState) -> StoredPartitionState:
    """The incarnations that a controller writes, keeps no longer in its memory, and tells no client."""
    if state.isr_broker_epochs or state.written_zxid >= 0:
        return state
    isr, elr = (
        tuple(_last_life(context, broker) for broker in members)
        for members in (state.leader_and_isr.isr, state.leader_and_isr.elr)
    )
    return replace(state, isr_broker_epochs=isr, elr_broker_epochs=elr)


def _last_life(context: ControllerContext, broker: BrokerId) -> BrokerEpoch:
    """Its incarnation, or of one that is away the last that is known."""
    known = context.brokers.get(broker)
    return context.last_epochs.get(broker, BrokerEpoch(0)) if known is None else known.epoch


def _outcome(
    before: ControllerContext,
    after: ControllerContext,
    topic_partition: TopicPartition,
    reason: str,
    in_doubt: tuple[BrokerId, ...],
) -> PartitionOutcome:
    old, new = before.leadership(topic_partition), after.leadership(topic_partition)
    # A question about min.insync.replicas, or about the number of replicas, changes the minimum itself.
    minimum_before, minimum = (c.effective_min_isr(topic_partition) for c in (before, after))
    leader_before, leader_after = _leader(before, old), _leader(after, new)
    isr_before, isr_after = old.isr if old else (), new.isr if new else ()
    if leader_after == NO_LEADER:
        verdict = "stays offline" if leader_before == NO_LEADER else "goes offline"
    elif len(isr_after) < minimum:
        verdict = "stays under min ISR" if len(isr_before) < minimum_before else "falls under min ISR"
    elif leader_before == NO_LEADER:
        verdict = "comes online"
    elif leader_after != leader_before:
        verdict = "new leader"
    else:
        verdict = "unchanged" if set(isr_after) == set(isr_before) else "ISR changes"
    is_unclean = _is_unclean(old, new)
    assignment = after.assignments.get(topic_partition)
    several = () if assignment is None else after.online_of(assignment.replicas, topic_partition)
    return PartitionOutcome(
        topic_partition,
        verdict,
        leader_before,
        leader_after,
        isr_before,
        isr_after,
        minimum,
        reason,
        is_unclean,
        several if is_unclean and len(several) > 1 else in_doubt,
    )


def _is_unclean(old: LeaderAndIsr | None, new: LeaderAndIsr | None) -> bool:
    """A leader elected outside the ISR is recovering until it has altered the ISR; one that was so before may be still."""
    if new is None or new.leader_recovery_state != RECOVERING:
        return False
    return old is None or old.leader_recovery_state != RECOVERING or not set(new.isr) <= set(old.isr)


def _leader(context: ControllerContext, state: LeaderAndIsr | None) -> BrokerId:
    """Who can be reached: a leader that is not registered leads nobody."""
    if state is None or state.leader not in context.brokers:
        return NO_LEADER
    return state.leader


def returned(
    context: ControllerContext, broker: BrokerId, *, stopped_in_order: bool = False
) -> BrokerRegistration:
    """A registration for a broker that is away: a fresh epoch, endpoints nobody dials in a question."""
    known = context.brokers.get(broker)
    newest = max((*(r.epoch for r in context.brokers.values()), *context.last_epochs.values()), default=0)
    endpoints = known.endpoints if known is not None else ()
    clean_epoch = _last_life(context, broker) if stopped_in_order else UNKNOWN_BROKER_EPOCH
    return BrokerRegistration(broker, BrokerEpoch(newest + 1), endpoints, clean_epoch=clean_epoch)
