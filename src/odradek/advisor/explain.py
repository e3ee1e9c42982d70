"""Why: the unmet preconditions of what one asks for, as a tree (`why orders-3 offline`).

Each line is a condition with a yes or a no; under a no stands what it would take. The leaves name the event
that would unblock it and the state that would follow, so that an operator knows what to do next.
"""

from collections.abc import Iterator, Mapping

from odradek.advisor.what_if import PartitionOutcome, what_if
from odradek.controller.context import ControllerContext
from odradek.controller.election import members_that_may_lead
from odradek.controller.states import PartitionState
from odradek.model.ids import NO_LEADER, BrokerId, TopicPartition
from odradek.model.values import dataclass

IN_SYNC = "a replica of the ISR is live"
LEAVES = "shutting down: a broker that leaves may not join (KIP-841)"


@dataclass(frozen=True, slots=True)
class Why:
    """One condition: does it hold, what is known, what would make it hold, and what it rests on."""

    condition: str
    holds: bool
    detail: str = ""
    unblocked_by: str = ""
    because: tuple["Why", ...] = ()

    def lines(self, depth: int = 0) -> Iterator[str]:
        mark = "yes" if self.holds else "no "
        text = f"{'  ' * depth}{mark}  {self.condition}"
        if self.detail:
            text += f": {self.detail}"
        yield text
        if self.unblocked_by:
            yield f"{'  ' * depth}     -> {self.unblocked_by}"
        for reason in self.because:
            yield from reason.lines(depth + 1)

    def as_json(self) -> dict[str, object]:
        return {
            "condition": self.condition,
            "holds": self.holds,
            "detail": self.detail,
            "unblocked_by": self.unblocked_by,
            "because": [reason.as_json() for reason in self.because],
        }


class Starts:
    """What the start of a broker would lead to. Each is a step of the controller with all partitions of that broker, so it is
    asked once for a question about many; `context` must not change meanwhile."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._found: dict[tuple[BrokerId, bool], Mapping[TopicPartition, PartitionOutcome]] = {}

    def outcome(
        self, broker: BrokerId, topic_partition: TopicPartition, *, stopped_in_order: bool
    ) -> PartitionOutcome | None:
        """None: it has nothing to do with that partition."""
        found = self._found.get((broker, stopped_in_order))
        if found is None:
            asked = what_if(self._context, start=(broker,), stopped_in_order=stopped_in_order)
            found = {outcome.topic_partition: outcome for outcome in asked.outcomes}
            self._found[broker, stopped_in_order] = found
        return found.get(topic_partition)


def why_offline(
    context: ControllerContext, topic_partition: TopicPartition, starts: Starts | None = None
) -> Why:
    """What it would take for this partition to have a leader. `starts`: shared by a question about many partitions."""
    starts = Starts(context) if starts is None else starts
    topic = topic_partition.topic
    condition = f"{topic_partition} has a leader"
    if topic in context.out_of_service:
        return Why(
            condition, False, f"topic {topic} is out of service", because=(_unreadable(context, topic),)
        )
    assignment = context.assignments.get(topic_partition)
    if assignment is None:
        known = ", ".join(map(str, context.partitions_of(topic))) or "none: the topic is unknown"
        return Why(condition, False, f"no such partition; partitions of {topic}: {known}")
    state = context.leadership(topic_partition)
    status = context.partition_state(topic_partition)
    if status is PartitionState.ONLINE and state is not None:
        return Why(
            condition, True, f"broker {state.leader}, epoch {state.leader_epoch}, ISR {list(state.isr)}"
        )
    if context.is_queued_for_deletion(topic):
        return Why(condition, False, f"topic {topic} is being deleted: its partitions get no leader any more")
    live = context.online_of(assignment.replicas, topic_partition)
    if state is None:
        return Why(
            condition,
            False,
            f"{status}: it never had one",
            because=(
                Why(
                    "an assigned replica is live",
                    bool(live),
                    f"replicas {list(assignment.replicas)}, live {list(live)}",
                    because=tuple(_replica(context, topic_partition, b, starts) for b in assignment.replicas),
                ),
            ),
        )
    eligible = context.eligible(topic_partition)
    may_lead = members_that_may_lead(state, eligible)
    in_sync = tuple(b for b in live if b in may_lead)
    if in_sync:
        return Why(
            condition,
            False,
            _last(state.leader, state.leader_epoch),
            because=(_not_elected(topic, state.isr, in_sync),),
        )
    in_doubt = [b for b in state.isr if b not in may_lead]
    clean = Why(
        IN_SYNC,
        bool(in_sync),
        f"ISR {list(state.isr)}, live: {[b for b in live if b in state.isr]}"
        + (f"; {in_doubt} came back without a clean shutdown, and may have lost records" if in_doubt else ""),
        because=tuple(_replica(context, topic_partition, b, starts) for b in may_lead),
    )
    ways = [clean]
    if eligible:
        ways.append(
            Why(
                "or one that is eligible beside the ISR is (KIP-966)",
                any(broker in live for broker in eligible),
                f"eligible {list(eligible)}: all committed records are there too",
                because=tuple(_replica(context, topic_partition, b, starts) for b in eligible),
            )
        )
    if not set(assignment.replicas) <= set(state.isr):  # else whoever comes is of the ISR
        ways.append(_unclean(context, topic_partition, live))
    return Why(condition, False, _last(state.leader, state.leader_epoch), because=tuple(ways))


def _not_elected(topic: str, isr: tuple[BrokerId, ...], in_sync: tuple[BrokerId, ...]) -> Why:
    """Somebody could lead, so it is not the brokers that are missing."""
    could = ", ".join(map(str, in_sync))
    return Why(
        f"a controller elects broker {could} of the ISR",
        False,
        f"ISR {list(isr)}, live: {list(in_sync)}, and no leader has been elected",
        "ask again: an election takes milliseconds. If nothing changes there is no controller, or it cannot read a node of "
        f"{topic} and logs that; ask its store or journal (--store, --journal)",
    )


def _unclean(context: ControllerContext, topic_partition: TopicPartition, live: tuple[BrokerId, ...]) -> Why:
    topic = topic_partition.topic
    allowed = context.is_unclean_election_allowed(topic)
    outside = Why(
        "another replica is live",
        bool(live),
        f"live replicas {list(live)}" if live else "none",
        "" if live else "start any broker that has a replica",
    )
    gate = Why(
        f"unclean.leader.election.enable of {topic}",
        allowed,
        "records acknowledged and not copied there would be lost",
        ""
        if allowed
        else f"odradek elect unclean {topic_partition} --yes, or for all of it odradek config set --topic {topic} "
        "unclean.leader.election.enable=true",
    )
    return Why("or a replica outside the ISR may lead", allowed and bool(live), because=(gate, outside))


def _replica(
    context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId, starts: Starts
) -> Why:
    condition = f"broker {broker} is live"
    assigned = context.assignments[topic_partition].replicas
    if broker not in assigned:
        why = f"the assignment {list(assigned)} was written over it"
        return Why(
            f"broker {broker} of the ISR is a replica", False, why, "name it in the topic's node again"
        )
    if broker not in context.brokers:
        follows = _if_started(starts, topic_partition, broker)
        return Why(condition, False, "not registered", f"start broker {broker}{follows}")
    if topic_partition in context.offline_directories.get(broker, ()):
        return why_no_log(broker, condition)
    if broker in context.shutting_down_brokers:
        return Why(condition, False, "shutting down", f"start broker {broker} again once it has stopped")
    return why_older_data(context, topic_partition, broker, condition) or Why(condition, True)


def why_no_log(broker: BrokerId, condition: str, also: str = "") -> Why:
    """Its replica is offline (KIP-112), and which of the two it is only its broker knows."""
    return Why(
        condition,
        False,
        "its log directory failed, or its log is damaged",
        f"broker {broker} has logged which: mend the disk and restart broker {broker}{also}",
    )


def why_older_data(
    context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId, condition: str
) -> Why | None:
    """None: it keeps nothing of another topic of this name."""
    if not context.has_pending_deletion(broker, topic_partition):
        return None
    return Why(
        condition,
        False,
        f"it must first delete what it has of an older topic {topic_partition.topic}",
        "its answer; it is told again every ten seconds",
    )


def why_leader_leaves(
    context: ControllerContext, topic_partition: TopicPartition, condition: str
) -> Why | None:
    """None: it stays. Where it does not nobody else is in sync, else another would lead; and an ISR with a broker that leaves is
    not taken."""
    leader = _leader_that_leaves(context, topic_partition)
    if leader is None:
        return None
    return Why(
        condition,
        False,
        f"its leader {leader} is shutting down, and no replica joins its ISR (KIP-841)",
        f"start broker {leader} again once it has stopped",
    )


def and_its_leader(context: ControllerContext, topic_partition: TopicPartition) -> str:
    """What has to be done besides, for one that could not join otherwise."""
    leader = _leader_that_leaves(context, topic_partition)
    if leader is None:
        return ""
    return f", and broker {leader}, its leader, which is shutting down: until then no replica joins its ISR"


def _leader_that_leaves(context: ControllerContext, topic_partition: TopicPartition) -> BrokerId | None:
    state = context.leadership(topic_partition)
    return state.leader if state is not None and state.leader in context.shutting_down_brokers else None


def _if_started(starts: Starts, topic_partition: TopicPartition, broker: BrokerId) -> str:
    """The predicted next state, from the controller's own step. How the broker ended last it says itself when it comes."""
    crashed = starts.outcome(broker, topic_partition, stopped_in_order=False)
    if crashed is None:
        return ""
    after_a_crash = _led_after(crashed)
    if crashed.leader_after == broker and not crashed.may_lead:
        return f": {after_a_crash}"
    stopped = starts.outcome(broker, topic_partition, stopped_in_order=True)
    in_order = after_a_crash if stopped is None else _led_after(stopped)
    if in_order == after_a_crash:
        return f": {in_order}"
    return f": if it was stopped in order {in_order}; after a crash {after_a_crash}"


def _led_after(outcome: PartitionOutcome) -> str:
    if outcome.may_lead:
        return f"then of {list(outcome.may_lead)} the one with the longest log leads"
    if outcome.leader_after == NO_LEADER:
        return "it is not enough by itself"
    return f"then {outcome.leader_after} leads, ISR {list(outcome.isr_after)}"


def why_out_of_service(context: ControllerContext, topic: str) -> Why:
    """What it would take for the controller, whose `context` it is, to decide about this topic again. Brokers go on with what they
    were told of it."""
    return Why(
        f"the controller decides about {topic}",
        False,
        f"topic {topic} is out of service: nobody is elected, no ISR changes, nothing is moved",
        because=(_unreadable(context, topic),),
    )


def _unreadable(context: ControllerContext, topic: str) -> Why:
    detail = context.out_of_service[topic]
    if topic in context.deletions_requested or context.is_queued_for_deletion(topic):
        detail += "; its deletion was asked for, and begins once they can be"
    return Why(
        f"the nodes of {topic} can be read",
        False,
        detail,
        mending(topic, context.out_of_service[topic]),
    )


def mending(topic: str, reason: str) -> str:
    """`reason` begins with the path of the node."""
    repair = f"repair the node: odradek store set {reason.partition(': ')[0]} FILE --yes"
    if reason.startswith(f"/brokers/topics/{topic}/partitions/"):
        # Read at the beginning of a term and after our own writes: nobody watches 100,000 of them.
        return f"{repair}; then odradek store delete /controller --yes: the next controller reads it"
    return f"{repair}; the topic returns as soon as it can be read"


def _last(leader: BrokerId, epoch: int) -> str:
    return f"leader epoch {epoch}, no leader" if leader == NO_LEADER else f"its leader {leader} is gone"
