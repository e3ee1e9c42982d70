"""Faults of transactions (F28): of their producers, and of the brokers that coordinate them, which die, move, and load slowly."""

from odradek.model.ids import TopicPartition
from odradek.model.topic_names import TRANSACTIONS_TOPIC
from odradek.protocol.messages import alter_partition_reassignments as alter_reassignments
from odradek.protocol.messages import elect_leaders
from odradek.sim.clients.client import RequestFailed
from odradek.sim.clients.ledger import TIMEOUT_MS
from odradek.sim.clients.ledger_workload import Ledger
from odradek.sim.faults import targets
from odradek.sim.plan import Fault
from odradek.sim.world import SimBroker, World

PREFERRED = 0
# The third partition when the transaction has almost timed out.
ADDS_EVERY_S = 0.49 * TIMEOUT_MS / 1000


def _ledger(world: World) -> Ledger | None:
    workload = world.clients
    return None if workload is None or workload.is_over else workload.ledger


def transactional_producer_killed(world: World, fault: Fault) -> bool:
    """Wherever it is in its transaction; its next life, or the other owner of its id, takes over."""
    ledger = _ledger(world)
    running = [] if ledger is None else [process for process in ledger.producers if process.is_running]
    if not running:
        return False
    process = running[int(fault.target * len(running))]
    process.kill()

    def start() -> None:
        if not world.is_healed and not process.is_running:
            process.start()

    targets.later(world, fault.lasts_s, start)
    return True


def transactional_producer_paused(world: World, fault: Fault) -> bool:
    """Wherever it is in its transaction it stands still, and goes on there: by then the transaction may have timed out, or the
    other owner of its id have taken over."""
    ledger = _ledger(world)
    running = [] if ledger is None else [process for process in ledger.producers if process.is_running]
    if not running:
        return False
    process = running[int(fault.target * len(running))]
    world.note(f"transactional producer {process.number} stands still for {fault.lasts_s:.3f} s")
    process.pause(fault.lasts_s)
    return True


def transaction_grows(world: World, fault: Fault) -> bool:
    """The next one takes a partition, later one more and later a third, and stands still: it times out as of its beginning."""
    ledger = _ledger(world)
    if ledger is None or not any(process.is_running for process in ledger.producers):
        return False
    ledger.adds_every_s = ADDS_EVERY_S * (0.9 + 0.1 * fault.amount)
    return True


def init_is_repeated(world: World, fault: Fault) -> bool:
    """Who has its transactional id for itself asks for its next epoch, and again and again, as if the answers had been lost."""
    ledger = _ledger(world)
    if ledger is None or not any(process.is_running for process in ledger.producers):
        return False
    ledger.repeats = 2 + int(2 * fault.amount)
    return True


def _coordinator(world: World, fault: Fault) -> SimBroker | None:
    """One that has something to coordinate."""
    brokers = [broker for broker in targets.serving(world) if _coordinates(broker)]
    return brokers[int(fault.target * len(brokers))] if brokers else None


def _coordinates(broker: SimBroker) -> bool:
    assert broker.runtime is not None
    shards = broker.runtime.broker.transactions.shards.values()
    return any(shard.partition.log.log_end_offset for shard in shards)


def kill_transaction_coordinator(world: World, fault: Fault) -> bool:
    broker = _coordinator(world, fault)
    if broker is None:
        return False
    broker.kill()
    targets.start_again(world, broker, fault.lasts_s)
    return True


def slow_coordinator_load(world: World, fault: Fault) -> bool:
    """It dies, and whoever coordinates then reads its disk slowly."""
    others = [broker for broker in targets.serving(world)]
    if not kill_transaction_coordinator(world, fault):
        return False
    for broker in others:
        broker.blocking_takes_s = 0.05 + 0.5 * fault.amount

    def undo() -> None:
        for broker in others:
            broker.blocking_takes_s = 0.0

    targets.later(world, fault.lasts_s, undo)
    return True


def move_transaction_coordinator(world: World, fault: Fault) -> bool:
    """A partition of the transactions' topic gets other replicas, or the same in another order, and another leader."""
    ledger = _ledger(world)
    found = world.topics.assignment(TRANSACTIONS_TOPIC)
    if ledger is None or found is None:
        return False
    partition = TopicPartition(TRANSACTIONS_TOPIC, int(fault.target * len(found.partitions)))
    count = len(found.partitions[partition.partition].origin_replicas)
    brokers = sorted(world.brokers)
    first = int(fault.amount * len(brokers))
    replicas = [int(broker) for broker in (*brokers[first:], *brokers[:first])][:count]

    async def move() -> None:
        client = await ledger.connected()
        moved = alter_reassignments.ReassignablePartition(
            partition_index=partition.partition, replicas=replicas
        )
        topic = alter_reassignments.ReassignableTopic(name=TRANSACTIONS_TOPIC, partitions=[moved])
        elected = elect_leaders.TopicPartitions(topic=TRANSACTIONS_TOPIC, partitions=[partition.partition])
        try:
            for request in (
                alter_reassignments.AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=2_000),
                elect_leaders.ElectLeadersRequest(
                    election_type=PREFERRED, topic_partitions=[elected], timeout_ms=2_000
                ),
            ):
                await client.ask_controller(request)
        except RequestFailed:
            return  # moved or not: nobody counts on it
        finally:
            ledger.moves -= 1

    ledger.moves += 1
    world.note(f"{partition} moves to {replicas}")
    world.spawn(ledger.new_host(), move())
    return True


TABLE = targets.table_of(
    transactional_producer_killed,
    transactional_producer_paused,
    transaction_grows,
    init_is_repeated,
    kill_transaction_coordinator,
    slow_coordinator_load,
    move_transaction_coordinator,
)
