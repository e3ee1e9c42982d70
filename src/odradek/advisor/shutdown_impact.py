"""What taking brokers down would cost, before it happens (S3's outage, asked beforehand).

The same steps that would run are run on a copy: controlled shutdown of each broker, then the end of its session.
For each partition it says where it lands: offline (nobody else has it), under min.insync.replicas (no
acks=all), exactly on it (one more loss and it is), or safely; and the smallest reassignment that would make it
safe, in the form AlterPartitionReassignments and `/admin/reassign_partitions` take.
"""

from collections.abc import Collection

from odradek.advisor.what_if import PartitionOutcome, what_if_events
from odradek.controller.context import ControllerContext
from odradek.controller.events import Event, Requested
from odradek.model.controller_requests import ControlledShutdownAsked
from odradek.model.counted import counted
from odradek.model.facts import BrokersChanged
from odradek.model.ids import NO_LEADER, UNKNOWN_BROKER_EPOCH, BrokerId, TopicPartition
from odradek.model.values import dataclass

REFUSALS = ("none", "offline", "under-min")  # odradek.controlled.shutdown.refuse


@dataclass(frozen=True, slots=True)
class ShutdownImpact:
    brokers: tuple[BrokerId, ...]
    goes_offline: tuple[PartitionOutcome, ...]
    falls_under_min_isr: tuple[PartitionOutcome, ...]
    lands_on_min_isr: tuple[PartitionOutcome, ...]
    moves_its_leader: tuple[PartitionOutcome, ...]
    remedy: dict[TopicPartition, tuple[BrokerId, ...]]  # target replicas that make it safe
    without_remedy: tuple[TopicPartition, ...]  # no live broker is left to take a replica

    def refuses(self, setting: str) -> str | None:
        """Why `odradek.controlled.shutdown.refuse` keeps the process up; None: it may stop."""
        assert setting in REFUSALS, (
            f"odradek.controlled.shutdown.refuse={setting}: expected one of {REFUSALS}"
        )
        if setting != "none" and self.goes_offline:
            return f"{counted(len(self.goes_offline), 'partition')} would go offline, first {_first(self.goes_offline)}"
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
        for topic_partition in self.without_remedy:
            lines.append(f"  {topic_partition} cannot be made safe: no other live broker can take a replica")
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
            "falls_under_min_isr": named(self.falls_under_min_isr),
            "lands_on_min_isr": named(self.lands_on_min_isr),
            "moves_its_leader": named(self.moves_its_leader),
            "remedy": [
                {"topic": tp.topic, "partition": tp.partition, "replicas": list(target)}
                for tp, target in sorted(self.remedy.items())
            ],
            "without_remedy": [str(tp) for tp in self.without_remedy],
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
        events.append(Requested(0, ControlledShutdownAsked(broker, UNKNOWN_BROKER_EPOCH)))
    for broker in leaving:
        del left[broker]
        events.append(BrokersChanged(tuple(left[b] for b in sorted(left))))
    question = f"shut down {','.join(map(str, leaving))}"
    outcomes = what_if_events(context, events, touched, question=question).outcomes
    offline = tuple(o for o in outcomes if o.verdict == "goes offline")
    under = tuple(o for o in outcomes if o.verdict == "falls under min ISR")
    edge = tuple(
        o
        for o in outcomes
        if o.leader_after != NO_LEADER
        and len(o.isr_after) == o.min_insync_replicas
        and len(o.isr_before) > o.min_insync_replicas
    )
    moved = tuple(o for o in outcomes if NO_LEADER != o.leader_after != o.leader_before)
    remedy, hopeless = _remedy(context, leaving, (*offline, *under))
    return ShutdownImpact(leaving, offline, under, edge, moved, remedy, hopeless)


def _remedy(
    context: ControllerContext, leaving: tuple[BrokerId, ...], outcomes: tuple[PartitionOutcome, ...]
) -> tuple[dict[TopicPartition, tuple[BrokerId, ...]], tuple[TopicPartition, ...]]:
    """The smallest change of assignment: for each partition, as many replicas that leave as are missing give
    their place to live brokers that stay, the least loaded first, another rack before the same one."""
    gone = {*leaving, *context.shutting_down_brokers}  # a broker that leaves may not join an ISR (KIP-841)
    load = {b: len(context.partitions_on.get(b, ())) for b in context.brokers if b not in gone}
    remedy: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    hopeless: list[TopicPartition] = []
    for outcome in outcomes:
        topic_partition = outcome.topic_partition
        replicas = context.assignments[topic_partition].replicas
        stay_in_sync = [b for b in outcome.isr_before if b not in leaving]
        missing = max(1, outcome.min_insync_replicas) - len(stay_in_sync)
        racks = {context.brokers[b].rack for b in replicas if b in load}
        free = sorted(
            (b for b in load if b not in replicas),
            key=lambda b: (context.brokers[b].rack in racks, load[b], b),
        )
        if len(free) < missing:
            hopeless.append(topic_partition)
            continue
        newcomers = free[:missing]
        for broker in newcomers:
            load[broker] += 1
        goers = [b for b in replicas if b in leaving]
        swap = dict(zip(goers, newcomers, strict=False))
        extra = newcomers[len(swap) :]
        remedy[topic_partition] = tuple([*(swap.get(b, b) for b in replicas), *extra])
    return remedy, tuple(hopeless)


def _first(outcomes: tuple[PartitionOutcome, ...]) -> str:
    return str(outcomes[0].topic_partition)


def _why_offline(outcome: PartitionOutcome) -> str:
    if len(outcome.isr_before) == 1:
        return f"broker {outcome.isr_before[0]} is the only one in sync"
    return f"all of its ISR {list(outcome.isr_before)} would be gone"
