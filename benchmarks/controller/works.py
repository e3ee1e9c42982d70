"""What is measured: works on a cluster that `reset` has put in order, with the partitions they touch."""

from collections.abc import AsyncIterator, Callable, Collection
from typing import NamedTuple

from benchmarks.controller.cluster import BROKERS, SPARE, VICTIM, Cluster, Stretch
from odradek.model.controller_requests import (
    AlterPartitionAnswer,
    AlterPartitionAsked,
    AlterPartitionItem,
    AlterReassignmentsAnswer,
    AlterReassignmentsAsked,
    ControlledShutdownAnswer,
    ControlledShutdownAsked,
    ElectLeadersAnswer,
    ElectLeadersAsked,
    IsrMember,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId, TopicPartition
from odradek.store import transactions

NEW_TOPICS = 10
# One AlterPartition of a leader; Apache's brokers send as much as fits, ours what has come together.
ALTER_AT_ONCE = 5_000

WORKS = {
    "failover": "failover of the controller",
    "failover-dead": "failover, and a broker that led a third died with it",
    "broker-failure": "failure of a broker (leads 1/3, follows 2/3)",
    "shutdown": "controlled shutdown of such a broker",
    "startup": "start-up of such a broker",
    "election": "preferred election of a third of all",
    "creation": "creation of 10 topics with 1/10 of all partitions",
    "deletion": "deletion of these",
    "reassignment": "reassignment of a broker's worth (all partitions)",
}


class Done(NamedTuple):
    """A work that was measured, and how many partitions it touched."""

    work: str
    stretch: Stretch
    touched: int


Wanted = Collection[str]
Scenario = Callable[[Cluster, Wanted], AsyncIterator[Done]]


async def topics_and_shutdown(cluster: Cluster, wanted: Wanted) -> AsyncIterator[Done]:
    """The controller goes, every broker stays: nothing is decided; everything is read and told. Then ten topics with a
    tenth of the partitions that are there already are written in one go, and go again, data and all. Then a broker
    that leads a third and follows two thirds asks to leave in order."""
    await cluster.reset()
    lead = await cluster.lead(is_recorded="failover" in wanted)
    yield Done("failover", lead, cluster.partitions)
    if not {"creation", "deletion"}.isdisjoint(wanted):
        each = max(1, cluster.partitions // 10 // NEW_TOPICS)
        names = [f"new-{index}" for index in range(NEW_TOPICS)]
        async with cluster.measured() as created:
            await cluster.add_topics(dict.fromkeys(names, each), with_states=False)
        yield Done("creation", created, each * NEW_TOPICS)
        async with cluster.measured() as deleted:
            await cluster.world.write([transactions.request_topic_deletion(name) for name in names], None)
        for name in names:
            cluster.forget_topic(name)
        left = await cluster.world.children("/brokers/topics")
        assert not set(names) & set(left), "topics were not deleted"
        yield Done("deletion", deleted, each * NEW_TOPICS)
    if "shutdown" in wanted:
        async with cluster.measured() as stretch:
            asked = cluster.ask(ControlledShutdownAsked(VICTIM, cluster.epochs[VICTIM]))
        answer = cluster.answers[asked]
        assert isinstance(answer, ControlledShutdownAnswer)
        assert (answer.error, answer.remaining) == (ErrorCode.NONE, ()), answer
        yield Done("shutdown", stretch, cluster.partitions)


async def a_broker_dies_and_returns(cluster: Cluster, wanted: Wanted) -> AsyncIterator[Done]:
    """A broker that leads a third and follows two thirds is gone. It comes back: told everything, made a follower of
    everything."""
    await cluster.reset()
    await cluster.lead(is_recorded=False)
    async with cluster.measured(is_recorded="broker-failure" in wanted) as gone:
        await cluster.unregister(VICTIM)
    yield Done("broker-failure", gone, cluster.partitions)
    if "startup" in wanted:
        async with cluster.measured() as back:
            await cluster.register(VICTIM)
        yield Done("startup", back, cluster.partitions)


async def failover_with_dead_broker(cluster: Cluster, wanted: Wanted) -> AsyncIterator[Done]:
    """The controller goes and a broker with it: a third is elected, two thirds lose a member of the ISR."""
    await cluster.reset()
    await cluster.unregister(VICTIM)
    yield Done("failover-dead", await cluster.lead(), cluster.partitions)


async def election_and_reassignment(cluster: Cluster, wanted: Wanted) -> AsyncIterator[Done]:
    """A third of all partitions are led by their second replica and asked to go back to their first. Then everything
    that one broker has goes to a fourth one, which has nothing yet: from the request until the old copies are deleted.
    The copying takes no time, and making the leaders' AlterPartition is not in the figure."""
    if "election" in wanted:
        await cluster.reset(led_elsewhere=VICTIM)
    else:
        await cluster.reset()
    await cluster.lead(is_recorded=False)
    if "election" in wanted:
        led = tuple(cluster.led_by(VICTIM))
        async with cluster.measured() as stretch:
            asked = cluster.ask(ElectLeadersAsked(False, led))
        answer = cluster.answers[asked]
        assert isinstance(answer, ElectLeadersAnswer)
        assert answer.error is ErrorCode.NONE, answer
        assert len(answer.elected) == len(led), f"{len(answer.elected)} of {len(led)} were elected"
        yield Done("election", stretch, len(led))
    if "reassignment" in wanted:
        async with cluster.measured(is_recorded=False):
            await cluster.register(SPARE)
        yield Done("reassignment", await _reassigned(cluster), cluster.partitions)


async def _reassigned(cluster: Cluster) -> Stretch:
    whole = Stretch()
    targets = {
        tp: tuple(SPARE if broker == VICTIM else broker for broker in assignment.replicas)
        for tp, assignment in cluster.assignments.items()
    }
    async with cluster.measured() as stretch:
        asked = cluster.ask(AlterReassignmentsAsked(dict(targets)))
    whole.add(stretch)
    answer = cluster.answers[asked]
    assert isinstance(answer, AlterReassignmentsAnswer)
    assert answer.error is ErrorCode.NONE, answer
    joins = _joining(cluster, targets)
    async with cluster.measured() as stretch:
        answered = [cluster.ask(ask) for ask in joins]
    whole.add(stretch)
    for request_id in answered:
        altered = cluster.answers[request_id]
        assert isinstance(altered, AlterPartitionAnswer)
        assert altered.error is ErrorCode.NONE, altered
    core = cluster.runtime.core
    assert core is not None and core.context is not None
    assert not core.context.reassignments, f"{len(core.context.reassignments)} still move"
    assert all(core.context.assignments[tp].replicas == target for tp, target in targets.items())
    del core
    await cluster.resign()
    await cluster.rewrite_assignments()
    return whole


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


# What is measured together: one goes on where the other ended, so that a cluster of 200,000 is put in order four times
# and not nine.
SCENARIOS: tuple[tuple[tuple[str, ...], Scenario], ...] = (
    (("failover", "creation", "deletion", "shutdown"), topics_and_shutdown),
    (("broker-failure", "startup"), a_broker_dies_and_returns),
    (("failover-dead",), failover_with_dead_broker),
    (("election", "reassignment"), election_and_reassignment),
)
