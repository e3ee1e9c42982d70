"""What taking brokers down would cost, before it happens (S3's outage, asked beforehand).

The same steps that would run are run on a copy: controlled shutdown of each broker, then the end of its session.
For each partition it says where it lands: offline (nobody else has it), led by somebody who was not in sync (records
are lost), under min.insync.replicas (no acks=all), exactly on it (one more loss and it is), or safely; and the smallest
reassignment that would make it safe, in the form AlterPartitionReassignments and `/admin/reassign_partitions` take, or
who must catch up first.
"""

from collections.abc import Collection

from odradek.advisor.what_if import PartitionOutcome, what_if_events
from odradek.controller.context import ControllerContext, ReassignmentPhase
from odradek.controller.events import Event, Requested
from odradek.controller.reassignment_requests import refusal
from odradek.model.controller_requests import ControlledShutdownAsked
from odradek.model.counted import counted
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import BrokersChanged
from odradek.model.ids import NO_LEADER, UNKNOWN_BROKER_EPOCH, BrokerId, TopicPartition
from odradek.model.values import dataclass

TOO_FEW = "there are too few other live brokers to take its replicas"
GROWING = ReassignmentPhase.GROWING
REFUSALS = ("none", "offline", "under-min")  # odradek.controlled.shutdown.refuse


@dataclass(frozen=True, slots=True)
class ShutdownImpact:
    brokers: tuple[BrokerId, ...]
    goes_offline: tuple[PartitionOutcome, ...]
    may_lose_records: tuple[PartitionOutcome, ...]  # by an unclean election, on the way or at the end
    falls_under_min_isr: tuple[PartitionOutcome, ...]
    lands_on_min_isr: tuple[PartitionOutcome, ...]
    moves_its_leader: tuple[PartitionOutcome, ...]
    remedy: dict[TopicPartition, tuple[BrokerId, ...]]  # target replicas that make it safe
    # These catch up first; behind the remedy, where there is one.
    safe_once_in_sync: dict[TopicPartition, tuple[BrokerId, ...]]
    without_remedy: dict[TopicPartition, str]  # why nothing that could be asked for makes it safe
    outcomes: tuple[PartitionOutcome, ...]  # all of them

    @property
    def is_safe(self) -> bool:
        return not (self.goes_offline or self.may_lose_records or self.falls_under_min_isr)

    def refuses(self, setting: str) -> str | None:
        """Why `odradek.controlled.shutdown.refuse` keeps the process up; None: it may stop."""
        assert setting in REFUSALS, (
            f"odradek.controlled.shutdown.refuse={setting}: expected one of {REFUSALS}"
        )
        if setting != "none" and self.goes_offline:
            return f"{counted(len(self.goes_offline), 'partition')} would go offline, first {_first(self.goes_offline)}"
        if setting != "none" and self.may_lose_records:
            few = self.may_lose_records
            return f"{counted(len(few), 'partition')} may lose acknowledged records by an unclean election, first {_first(few)}"
        if setting == "under-min" and self.falls_under_min_isr:
            few = self.falls_under_min_isr
            return (
                f"{counted(len(few), 'partition')} would fall under min.insync.replicas, first {_first(few)}"
            )
        return None

    def sentences(self) -> list[str]:
        """For people; the JSON twin is `as_json`."""
        who = ", ".join(map(str, self.brokers))
        lines = [f"taking down broker {who}:"]
        for outcome in self.goes_offline:
            lines.append(f"  {outcome.topic_partition} goes offline: {_why_offline(outcome)}")
        for outcome in self.may_lose_records:
            lines.append(
                f"  {outcome.topic_partition} may lose acknowledged records: a replica leads that is not in sync"
            )
        for outcome in self.falls_under_min_isr:
            size, least = len(outcome.isr_after), outcome.min_insync_replicas
            lines.append(
                f"  {outcome.topic_partition} refuses acks=all: {size} in sync, min.insync.replicas {least}"
            )
        on_edge = len(self.lands_on_min_isr)
        if on_edge:
            lines.append(f"  {counted(on_edge, 'partition')} left with exactly min.insync.replicas in sync")
        lines.append(f"  another leader for {counted(len(self.moves_its_leader), 'partition')}")
        for topic_partition, target in sorted(self.remedy.items()):
            lines.append(f"  first reassign {topic_partition} to {list(target)}")
        for topic_partition, behind in sorted(self.safe_once_in_sync.items()):
            lines.append(f"  {topic_partition} {once_in_sync(behind)}")
        for topic_partition, why in self.without_remedy.items():
            lines.append(f"  {topic_partition} {why}")
        return lines

    def as_json(self) -> dict[str, object]:
        def named(outcomes: tuple[PartitionOutcome, ...]) -> list[dict[str, object]]:
            return [
                {
                    "partition": str(o.topic_partition),
                    "leader_before": o.leader_before,
                    "leader_after": o.leader_after,
                    "isr_before": list(o.isr_before),
                    "isr_after": list(o.isr_after),
                    "min_insync_replicas": o.min_insync_replicas,
                }
                for o in outcomes
            ]

        return {
            "brokers": list(self.brokers),
            "goes_offline": named(self.goes_offline),
            "may_lose_records": named(self.may_lose_records),
            "falls_under_min_isr": named(self.falls_under_min_isr),
            "lands_on_min_isr": named(self.lands_on_min_isr),
            "moves_its_leader": named(self.moves_its_leader),
            "remedy": [
                {"topic": tp.topic, "partition": tp.partition, "replicas": list(target)}
                for tp, target in sorted(self.remedy.items())
            ],
            "safe_once_in_sync": {str(tp): list(b) for tp, b in sorted(self.safe_once_in_sync.items())},
            "without_remedy": [str(tp) for tp in self.without_remedy],
            "why_without_remedy": {str(tp): why for tp, why in self.without_remedy.items()},
        }


def shutdown_impact(context: ControllerContext, brokers: Collection[BrokerId]) -> ShutdownImpact:
    """The effect of stopping these brokers in order, one after the other."""
    leaving = tuple(sorted(set(brokers)))
    unknown = [b for b in leaving if b not in context.brokers]
    if unknown:
        raise ValueError(f"cannot shut down {unknown}: live brokers are {sorted(context.brokers)}")
    touched: set[TopicPartition] = set()
    events: list[Event] = []
    left = dict(context.brokers)
    for broker in leaving:
        touched |= context.partitions_on.get(broker, set())
        del left[broker]
        events.append(Requested(0, ControlledShutdownAsked(broker, UNKNOWN_BROKER_EPOCH)))
        events.append(BrokersChanged(tuple(left[b] for b in sorted(left))))
    question = f"shut down {','.join(map(str, leaving))}"
    outcomes = what_if_events(context, events, touched, question=question).outcomes
    offline = tuple(o for o in outcomes if o.verdict == "goes offline")
    unclean = tuple(o for o in outcomes if o.is_unclean)
    under = tuple(o for o in outcomes if o.verdict == "falls under min ISR")
    edge = tuple(
        o
        for o in outcomes
        if o.leader_after != NO_LEADER
        and len(o.isr_after) == o.min_insync_replicas
        and len(o.isr_before) > o.min_insync_replicas
    )
    moved = tuple(o for o in outcomes if NO_LEADER != o.leader_after != o.leader_before)
    remedies = _Remedies(context, leaving)
    bad = {o.topic_partition for o in (*offline, *unclean, *under)}
    for outcome in outcomes:
        if outcome.topic_partition in bad:
            remedies.find(outcome.topic_partition)
    return ShutdownImpact(
        leaving,
        offline,
        unclean,
        under,
        edge,
        moved,
        remedies.moves,
        remedies.waits,
        remedies.hopeless,
        outcomes,
    )


class _Remedies:
    """The smallest change of assignment: for each partition, as many live brokers that stay as are missing take the places
    of its dead replicas, or else of those that leave; the least loaded first, another rack before the same one.

    Dead ones first, and what is behind: the reassignment does not end before all of its target are in sync. What
    counts is the target: a reassignment that runs is one more step on the way.
    """

    def __init__(self, context: ControllerContext, leaving: tuple[BrokerId, ...]) -> None:
        self.context = context
        self.leaving = leaving
        self.load = {b: len(context.partitions_on.get(b, ())) for b in context.brokers if b not in leaving}
        self.moves: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self.waits: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self.hopeless: dict[TopicPartition, str] = {}

    def find(self, topic_partition: TopicPartition) -> None:
        context = self.context
        state = context.leadership(topic_partition)
        if state is not None and state.leader in context.shutting_down_brokers:
            # Nobody else was in sync, else another would lead; and an ISR with a broker that leaves is not taken (KIP-841).
            self.hopeless[topic_partition] = _led_by_who_leaves(state.leader)
            return
        isr = state.isr if state is not None else ()
        stored = context.stored_assignment(topic_partition)
        target = stored.target_replicas
        stay = [b for b in context.online_of(target, topic_partition) if b not in self.leaving]
        least = context.min_insync_replicas(topic_partition.topic)
        enough = max(1, min(least, len(target)))
        moving = context.reassignments.get(topic_partition)
        is_copied = moving is not None and moving.phase is GROWING and stored.is_being_reassigned
        if len(stay) >= enough and not is_copied:
            self.waits[topic_partition] = tuple(b for b in stay if b not in isr)
            return
        after = self._after(topic_partition, target, isr, enough, ())
        if after is None:
            # Whoever was added and alone is in sync is not to be dropped until others are; so there is one replica more.
            after = self._after(topic_partition, target, isr, max(1, least), isr)
        if after is None:
            away = sorted(b for b in target if b not in stay and b not in self.leaving)
            self.hopeless[topic_partition] = _too_few(away, enough - len(stay))
            return
        self.moves[topic_partition] = after
        behind = tuple(b for b in after if b not in isr and b not in self.leaving)
        if behind and set(after) == set(stored.origin_replicas):
            self.waits[topic_partition] = behind  # what runs is only called off, and that waits for nobody
        for broker in after:
            if broker not in target and broker in self.load:
                self.load[broker] += 1

    def _after(
        self,
        topic_partition: TopicPartition,
        target: tuple[BrokerId, ...],
        isr: tuple[BrokerId, ...],
        enough: int,
        kept: Collection[BrokerId],
    ) -> tuple[BrokerId, ...] | None:
        """Replicas of which `enough` stay, with those of `kept` at the end; None: there are none, or they are refused."""
        context, brokers = self.context, self.context.brokers
        online = context.online_of(target, topic_partition)
        stay = [b for b in online if b not in self.leaving]
        dead = [b for b in target if b not in online]
        racks = {brokers[b].rack for b in stay}
        # A broker that leaves may not join an ISR (KIP-841): it is not online.
        free = sorted(
            (b for b in self.load if b not in target and context.is_online(b, topic_partition)),
            key=lambda b: (brokers[b].rack in racks, self.load[b], b),
        )
        count = max(enough - len(stay), len(dead))
        if len(free) < count:
            return None
        places = [*dead, *sorted((b for b in online if b in self.leaving), key=isr.__contains__)]
        swap = dict(zip(places, free[:count], strict=False))
        after = [*(swap.get(b, b) for b in target), *free[len(swap) : count]]
        after += [b for b in kept if b in target and b not in after]
        error, _ = refusal(context, topic_partition, tuple(after))
        return tuple(after) if error is ErrorCode.NONE else None


def once_in_sync(brokers: Collection[BrokerId]) -> str:
    return f"is safe once broker {', '.join(map(str, brokers))} is in sync"


def _too_few(away: Collection[BrokerId], missing: int) -> str:
    """`away`: its other replicas. Were `missing` of them in sync, there would be enough."""
    if not 0 < missing <= len(away):
        return f"cannot be made safe: {TOO_FEW}"
    names = [*map(str, away)]
    if missing == 1:
        who = f"broker {' or '.join(names)} is"
    else:
        who = f"{'' if missing == len(away) else f'{missing} of '}brokers {', '.join(names)} are"
    return f"cannot be made safe before {who} back and in sync: {TOO_FEW}"


def _led_by_who_leaves(leader: BrokerId) -> str:
    return (
        f"cannot be made safe: broker {leader}, its leader, is shutting down already, and no replica joins its ISR "
        f"(KIP-841); start broker {leader} again once it has stopped"
    )


def _first(outcomes: tuple[PartitionOutcome, ...]) -> str:
    return str(outcomes[0].topic_partition)


def _why_offline(outcome: PartitionOutcome) -> str:
    if len(outcome.isr_before) == 1:
        return f"broker {outcome.isr_before[0]} is the only one in sync"
    return f"all of its ISR {list(outcome.isr_before)} would be gone"
