"""What is measured: each work on a cluster that `reset` has put in order, with the partitions it touches."""

from collections.abc import Awaitable, Callable

from benchmarks.controller.cluster import BROKERS, SPARE, VICTIM, Cluster, Stretch
from odradek.broker.effects import (
    AlterPartitionAnswered,
    AlterPartitionAsked,
    AlterPartitionItem,
    AlterReassignmentsAnswered,
    AlterReassignmentsAsked,
    ControlledShutdownAnswered,
    ControlledShutdownAsked,
    ElectLeadersAnswered,
    ElectLeadersAsked,
    IsrMember,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId, TopicPartition
from odradek.store import groups

# (what was measured, how many partitions it touched)
Done = tuple[Stretch, int]
Work = Callable[[Cluster], Awaitable[Done]]

NEW_TOPICS = 10
# One AlterPartition of a leader; Apache's brokers send as much as fits, ours what has come together.
ALTER_AT_ONCE = 5_000


async def failover(cluster: Cluster) -> Done:
    """The controller goes, every broker stays. Nothing is decided; everything is read and told."""
    await cluster.reset()
    return await cluster.lead(), cluster.partitions


async def failover_with_dead_broker(cluster: Cluster) -> Done:
    """The controller goes and a broker with it: a third is elected, two thirds lose a member of the ISR."""
    await cluster.reset()
    await cluster.unregister(VICTIM)
    return await cluster.lead(), cluster.partitions


async def broker_failure(cluster: Cluster) -> Done:
    """A broker that leads a third and follows two thirds is gone."""
    await cluster.reset()
    await cluster.lead()
    async with cluster.measured() as stretch:
        await cluster.unregister(VICTIM)
    return stretch, cluster.partitions


async def controlled_shutdown(cluster: Cluster) -> Done:
    """The same broker asks to leave in order."""
    await cluster.reset()
    await cluster.lead()
    async with cluster.measured() as stretch:
        asked = cluster.ask(ControlledShutdownAsked(VICTIM, cluster.epochs[VICTIM]))
    answer = cluster.answers[asked]
    assert isinstance(answer, ControlledShutdownAnswered)
    assert (answer.error, answer.remaining) == (ErrorCode.NONE, ()), answer
    return stretch, cluster.partitions


async def broker_startup(cluster: Cluster) -> Done:
    """It comes back: told everything, made a follower of everything."""
    await cluster.reset()
    await cluster.lead()
    async with cluster.measured():
        await cluster.unregister(VICTIM)
    async with cluster.measured() as stretch:
        await cluster.register(VICTIM)
    return stretch, cluster.partitions


async def election(cluster: Cluster) -> Done:
    """A third of all partitions are led by their second replica and asked to go back to their first."""
    await cluster.reset(led_elsewhere=VICTIM)
    await cluster.lead()
    wanted = tuple(cluster.led_by(VICTIM))
    async with cluster.measured() as stretch:
        asked = cluster.ask(ElectLeadersAsked(False, wanted))
    answer = cluster.answers[asked]
    assert isinstance(answer, ElectLeadersAnswered)
    assert answer.error is ErrorCode.NONE, answer
    assert len(answer.elected) == len(wanted), f"{len(answer.elected)} of {len(wanted)} were elected"
    return stretch, len(wanted)


async def creation(cluster: Cluster) -> Done:
    """Ten topics with a tenth of the partitions that are there already, written in one go."""
    created, _, made = await _created_and_deleted(cluster)
    return created, made


async def deletion(cluster: Cluster) -> Done:
    """Those ten topics go again, data and all."""
    _, deleted, made = await _created_and_deleted(cluster)
    return deleted, made


async def _created_and_deleted(cluster: Cluster) -> tuple[Stretch, Stretch, int]:
    await cluster.reset()
    await cluster.lead()
    each = max(1, cluster.partitions // 10 // NEW_TOPICS)
    names = [f"new-{index}" for index in range(NEW_TOPICS)]
    async with cluster.measured() as created:
        await cluster.add_topics(dict.fromkeys(names, each), with_states=False)
    async with cluster.measured() as deleted:
        await cluster.world.write([groups.request_topic_deletion(name) for name in names], None)
    for name in names:
        cluster.forget_topic(name)
    left = await cluster.world.children("/brokers/topics")
    assert not set(names) & set(left), "topics were not deleted"
    return created, deleted, each * NEW_TOPICS


async def reassignment(cluster: Cluster) -> Done:
    """Everything that one broker has goes to a fourth one, which has nothing yet: from the request until the old
    copies are deleted. The copying takes no time, and making the leaders' AlterPartition is not in the figure."""
    await cluster.reset()
    await cluster.register(SPARE)
    await cluster.lead()
    whole = Stretch()
    targets = {
        tp: tuple(SPARE if broker == VICTIM else broker for broker in assignment.replicas)
        for tp, assignment in cluster.assignments.items()
    }
    async with cluster.measured() as stretch:
        asked = cluster.ask(AlterReassignmentsAsked(dict(targets)))
    whole.add(stretch)
    answer = cluster.answers[asked]
    assert isinstance(answer, AlterReassignmentsAnswered)
    assert answer.error is ErrorCode.NONE, answer
    joins = _joining(cluster, targets)
    async with cluster.measured() as stretch:
        answered = [cluster.ask(ask) for ask in joins]
    whole.add(stretch)
    for request_id in answered:
        altered = cluster.answers[request_id]
        assert isinstance(altered, AlterPartitionAnswered)
        assert altered.error is ErrorCode.NONE, altered
    core = cluster.runtime.core
    assert core is not None and core.context is not None
    assert not core.context.reassignments, f"{len(core.context.reassignments)} still move"
    assert all(core.context.assignments[tp].replicas == target for tp, target in targets.items())
    del core
    await cluster.resign()
    await cluster.rewrite_assignments()
    return whole, len(targets)


def _joining(
    cluster: Cluster, targets: dict[TopicPartition, tuple[BrokerId, ...]]
) -> list[AlterPartitionAsked]:
    """Each leader says that the new replica of its partitions is in sync."""
    core = cluster.runtime.core
    assert core is not None and core.context is not None
    context = core.context
    by_leader: dict[BrokerId, list[AlterPartitionItem]] = {broker: [] for broker in BROKERS}
    for tp in targets:
        state = context.leaderships[tp].leader_and_isr
        isr = tuple(IsrMember(broker, cluster.epochs[broker]) for broker in (*state.isr, SPARE))
        item = AlterPartitionItem(
            tp.topic,
            context.topics[tp.topic].topic_id,
            tp.partition,
            state.leader_epoch,
            state.partition_epoch,
            isr,
        )
        by_leader[state.leader].append(item)
    return [
        AlterPartitionAsked(
            3, leader, BrokerEpoch(cluster.epochs[leader]), tuple(items[at : at + ALTER_AT_ONCE])
        )
        for leader, items in by_leader.items()
        for at in range(0, len(items), ALTER_AT_ONCE)
    ]


WORKS: dict[str, tuple[str, Work]] = {
    "failover": ("failover of the controller", failover),
    "failover-dead": ("failover, and a broker that led a third died with it", failover_with_dead_broker),
    "broker-failure": ("failure of a broker (leads 1/3, follows 2/3)", broker_failure),
    "shutdown": ("controlled shutdown of such a broker", controlled_shutdown),
    "startup": ("start-up of such a broker", broker_startup),
    "election": ("preferred election of a third of all", election),
    "creation": ("creation of 10 topics with 1/10 of all partitions", creation),
    "deletion": ("deletion of these", deletion),
    "reassignment": ("reassignment of a broker's worth (all partitions)", reassignment),
}
