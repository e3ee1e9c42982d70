"""What a healed cluster owes: it stays quiescent, takes writes, and readers that wait are woken. And why it does not, if so.

Being quiescent once is not enough. What a leader believes of its followers may be wrong without anybody noticing, until the
lag time is over; and where nothing is produced any more nobody mends it by accident.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from odradek.advisor.explain_replication import why_partition
from odradek.model.ids import TopicPartition
from odradek.sim.checkers.groups import Committed, Joined
from odradek.sim.checkers.history import Anomaly
from odradek.sim.clients.consumer import SimConsumer
from odradek.sim.clients.mixed_group import GROUP as MIXED
from odradek.sim.clients.mixed_group import STAYERS
from odradek.sim.clients.producer import SimProducer, by_its_name
from odradek.sim.loop import Host
from odradek.sim.observed.coordinator_memory import untidy
from odradek.sim.world import EPOCH_S, NotInTime, SimBroker, World

if TYPE_CHECKING:
    from odradek.sim.clients.workload import MixedProcess, Workload

# A follower that lags has left the ISR by then: members are looked at every half of the lag time.
LAG_TIMES = 1.6
# Of a send to a quiescent cluster with acks=all, and of a poll that waits for it: a round trip to every follower, and one
# attempt more for a client that has not heard who leads.
PROMPT_S = 5.0
# Of a quiescent cluster, from the write of a request to that of its answer: some round trips of half a millisecond, and a flush.
# Whoever is not woken is answered by the deadline of a fetch, half a second and more.
PROMPTLY_S = 0.25
# Of members that come back at once: those they were before may hold up a rebalance until their sessions are over.
GROUP_PROMPT_S = 15.0
IS_AWAY_S = 0.5  # a coordinator that dies while a group is converted
SESSIONS_END_S = 5.0  # of static members, who do not leave, and what their groups write of it
MOST_EXPLAINED = 3


def quiet_s(world: World) -> float:
    """How long it takes until what is wrong with a cluster in which nothing happens shows."""
    lag_ms: int = next(iter(world.brokers.values())).settings().replica_lag_time_max_ms
    return LAG_TIMES * lag_ms / 1000 + 0.5


def goes_on(world: World, workload: "Workload", host: Host) -> None:
    """A poll waits at the end of every partition; then something is produced to each. NotInTime, if one is not served."""
    partitions = list(workload.partitions)
    names = [f"waits-{partition.partition}" for partition in partitions]

    async def waiting() -> list[SimConsumer]:
        client = await workload.connected()
        consumers = [
            workload.consumer(client, name, partition)
            for name, partition in zip(names, partitions, strict=True)
        ]
        for consumer in consumers:
            while await consumer.poll(max_wait_ms=0) or consumer.offset < consumer.high_watermark:
                pass
        return consumers

    consumers = world.call(host, waiting())
    woken: dict[TopicPartition, float] = {}

    async def poll(consumer: SimConsumer) -> None:
        while await consumer.poll(max_wait_ms=30_000) <= 0:
            pass
        woken[consumer.partition] = world.loop.time()

    async def produce(partition: TopicPartition) -> None:
        client = await workload.connected()
        named = world.topics.now if workload.plan.is_administered else by_its_name
        producer = SimProducer(client, f"last-{partition.partition}", workload.history, named=named)
        await producer.open()
        sent = await producer.send(partition, [f"last-{partition.partition}".encode()])
        if sent.outcome != "ok":
            raise NotInTime(f"{partition} does not take a write: {sent.outcome}")

    for consumer in consumers:
        world.spawn(host, poll(consumer))
    for partition in partitions:
        world.call(host, produce(partition), within_s=PROMPT_S)
    missing = [str(partition) for partition in partitions if partition not in woken]
    world.run_while(
        lambda: len(woken) < len(partitions), PROMPTLY_S, f"a poll that waits sees a record of {missing}"
    )
    world.run_while(
        lambda: any(_differing_marks(world)), PROMPTLY_S, "every follower hears of the high watermark"
    )


def _differing_marks(world: World) -> Iterator[TopicPartition]:
    for partition, state in world.view(with_batches=False).partitions.items():
        if len({replica.high_watermark for replica in state.replicas}) > 1:
            yield partition


def groups_go_on(world: World, workload: "Workload") -> Iterator[Anomaly]:
    """Their members come back, all of them. NotInTime, if they do not have every partition between them, soon, and commit."""
    processes = [*workload.members, *workload.sharers, *workload.mixed]
    if not processes:
        return
    since_s = world.loop.time()
    for process in processes:
        process.kill()
    workload.are_groups_over = False
    for process in (*workload.members, *workload.sharers):
        process.start()
    partitions = frozenset(workload.partitions)

    def is_shared_out() -> bool:
        told = [e for e in workload.group_history.events if e.asked_s > since_s]
        latest = max((e.generation for e in told if isinstance(e, Joined)), default=-1)
        shares = [e.share for e in told if isinstance(e, Joined) and e.generation == latest]
        committed = {e.topic_partition for e in told if isinstance(e, Committed) and e.generation == latest}
        return frozenset[TopicPartition]().union(*shares) >= partitions and committed >= partitions

    def is_owned() -> bool:
        return len({shared for sharer in workload.sharers for shared in sharer.owned}) >= len(partitions)

    if workload.members:
        world.run_while(
            lambda: not is_shared_out(), GROUP_PROMPT_S, "a group shares all partitions out, and commits"
        )
    if workload.sharers:
        world.run_while(lambda: not is_owned(), GROUP_PROMPT_S, "a group of KIP-848 owns all partitions")
    if workload.mixed:
        yield from _is_converted_and_back(world, workload)
    workload.are_groups_over = True
    world.run_for(SESSIONS_END_S)


def _is_converted_and_back(world: World, workload: "Workload") -> Iterator[Anomaly]:
    """Classic members have all partitions between them, then they and two of KIP-848, then they and one of these, then they alone, and
    commit offsets of all. NotInTime, if it takes long."""
    history, partitions = workload.mixed_history, frozenset(workload.partitions)
    stayers, guest, other = workload.mixed[:STAYERS], workload.mixed[STAYERS], workload.mixed[STAYERS + 1]

    def is_shared_by(processes: "Sequence[MixedProcess]", since_s: float, *, is_classic: bool) -> bool:
        # Asked before every event, so what takes long comes last.
        owned = [shared for process in processes for shared in process.owned]
        if not len(owned) == len(set(owned)) == len(partitions):
            return False
        if len({process.epoch for process in processes}) != 1:
            return False
        if history.was_last_classic(since_s) is not is_classic:
            return False
        events = history.offsets.events
        committed = {e.topic_partition for e in events if isinstance(e, Committed) and e.asked_s > since_s}
        return committed >= partitions

    def shared_by(
        processes: "Sequence[MixedProcess]", begin: Callable[[], None], whose: str, *, is_classic: bool
    ) -> Iterator[Anomaly]:
        since_s = world.loop.time()
        begin()
        world.run_while(
            lambda: not is_shared_by(processes, since_s, is_classic=is_classic),
            GROUP_PROMPT_S,
            f"{whose} have all partitions of a mixed group between them, and commit",
        )
        yield from untidy(world)

    def come() -> None:
        for process in stayers:
            process.start()

    def guests_come() -> None:
        for process in (guest, other):
            process.is_asked_to_stay = True
            process.start()

    def goes() -> None:
        guest.send_away()
        if workload.plan.seed % 2:
            _moves_before_they_join(world)

    yield from shared_by(stayers, come, "classic members", is_classic=True)
    both = [*stayers, guest, other]
    yield from shared_by(both, guests_come, "classic members and two of KIP-848", is_classic=False)
    one = [*stayers, guest]
    yield from shared_by(one, other.send_away, "classic members and one of KIP-848", is_classic=False)
    yield from shared_by(stayers, goes, "classic members, after the last one of KIP-848,", is_classic=True)


def _moves_before_they_join(world: World) -> None:
    """The coordinator dies when it has stored that the group is classic, before a member was told to join again."""

    def comes_to_it() -> bool:
        return world.rebalances(MIXED) is None

    world.run_while(comes_to_it, GROUP_PROMPT_S, "a group whose last member of KIP-848 left is classic again")
    coordinator = world.rebalances(MIXED)
    assert coordinator is not None, "as it was just waited for"
    coordinator.kill()
    world.run_for(IS_AWAY_S)
    coordinator.start()


# --- why


def explained(world: World, found: Sequence[Anomaly]) -> Iterator[str]:
    """What `odradek why` says of the partitions that are stuck, and what their leaders believe of their followers."""
    named = [anomaly.topic_partition for anomaly in found if anomaly.topic_partition is not None]
    stuck = dict.fromkeys(named) or dict.fromkeys(world.view(with_batches=False).partitions)
    for partition in list(stuck)[:MOST_EXPLAINED]:
        yield from _why(world, partition)
        for broker in world.brokers.values():
            yield from _believes(broker, partition)


def _why(world: World, partition: TopicPartition) -> Iterator[str]:
    controller = next((b for b in world.brokers.values() if b.is_controller), None)
    term = None if controller is None or controller.runtime is None else controller.runtime.controller.term
    if term is None or term.core.context is None:
        yield f"{partition}: no controller could say why"
        return
    state = world.view(with_batches=False).partitions.get(partition)
    ends = {} if state is None else {r.broker: r.log_end_offset for r in state.replicas}
    now_ms = int((EPOCH_S + world.loop.time()) * 1000)
    for tree in why_partition(term.core.context, partition, now_ms, ends):
        yield from tree.lines()


def _believes(broker: SimBroker, partition: TopicPartition) -> Iterator[str]:
    replica = broker.replica(partition)
    if replica is None or not replica.is_leader:
        return
    positions = ", ".join(f"{f.broker} at {f.log_end_offset}" for f in replica.followers.values())
    yield (
        f"{broker.name} leads {partition} in epoch {replica.leader_epoch}, ends at {replica.log.log_end_offset}, "
        f"high watermark {replica.high_watermark}, and believes {positions or 'in nobody'}"
    )
