"""Would a broker come up again? Asked of copies of its disks, so the broker itself goes on.

A copy is what a killed process leaves: all that was written, synced or not. It is opened twice by the production code
(`LogManager.load`), and what its logs say then is compared by `checkers.restart`.
"""

from collections.abc import Iterator
from typing import Any

from odradek.log.log_manager import LogManager
from odradek.log.memory_files import MemoryDisk
from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.batches import BatchView
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.restart import KnownProducer, LogAnswers, epochs_alike, known_alike, restartable
from odradek.sim.crash_states import disk_with
from odradek.sim.faults.targets import serving
from odradek.sim.observed.beliefs import at_work
from odradek.sim.world import SimBroker, World


def would_not_restart(world: World) -> Iterator[Anomaly]:
    """Of one of the brokers, which the seed says: all of them are a thirtieth of a run, and the next seed asks another."""
    brokers = serving(world)
    if brokers:
        yield from of_broker(brokers[world.seed % len(brokers)])


def of_broker(broker: SimBroker) -> Iterator[Anomaly]:
    assert broker.runtime is not None
    running: LogManager = broker.runtime.broker.replicas.logs
    now_ms = broker.runtime.now_ms()
    copies = [disk_with(disk._top, MemoryDisk(disk.path)) for disk in broker.disks]
    once = recovered(copies, running, now_ms)
    for copy in copies:
        copy.restart()
    twice = recovered(copies, running, now_ms)
    for partition, log in sorted(running.logs.items()):
        if log.failure is None and partition not in running.refused and is_on(running, partition):
            yield from restartable(
                broker.broker_id,
                partition,
                running=answers_of_running(broker, log),
                once=once.get(partition),
                twice=twice.get(partition),
            )


def known_differently(world: World) -> Iterator[Anomaly]:
    """Of the producers of each partition, and of its leader epochs, by the replicas that run."""
    logs: dict[TopicPartition, dict[BrokerId, tuple[int, tuple[KnownProducer, ...]]]] = {}
    epochs: dict[TopicPartition, dict[BrokerId, LogAnswers]] = {}
    for broker, core in at_work(world).brokers.values():
        for partition, replica in core.replicas.partitions.items():
            log = replica.log
            logs.setdefault(partition, {})[broker.broker_id] = (log.log_start_offset, producers_of(log))
            # Of a compacted log the first records of an epoch may be gone, from one replica or all.
            if not log.config.is_compacted:
                answers = LogAnswers(log.log_start_offset, log.log_end_offset, (), epochs_of(log))
                epochs.setdefault(partition, {})[broker.broker_id] = answers
    for partition, of_brokers in sorted(logs.items()):
        yield from known_alike(partition, of_brokers)
    for partition, of_replicas in sorted(epochs.items()):
        yield from epochs_alike(partition, of_replicas)


def is_on(running: LogManager, partition: TopicPartition) -> bool:
    """False for a log in a directory that is offline."""
    return running.directory_of(partition) not in running.offline_directories


def recovered(disks: list[MemoryDisk], like: LogManager, now_ms: int) -> dict[TopicPartition, LogAnswers]:
    manager = LogManager([disk.root for disk in disks], like.settings, topic_settings=like._topic_settings)
    manager.load(now_ms)
    found = {partition: answers_of(log) for partition, log in manager.logs.items()}
    for partition, error in manager.refused.items():
        found[partition] = LogAnswers(refused=error.message)
    return found


def answers_of_running(broker: SimBroker, log: Any) -> LogAnswers:
    """Without its index: asking would warm it up."""
    with broker.undisturbed():
        batches = tuple(batch for batch, _, _ in walk(log))
    return LogAnswers(
        log.log_start_offset, log.log_end_offset, batches, epochs_of(log), known=producers_of(log)
    )


def answers_of(log: Any) -> LogAnswers:
    walked = list(walk(log))
    by_scan = tuple((b.base_offset, segment.base_offset, position) for b, segment, position in walked)
    by_index = []
    for batch, _, _ in walked:
        segment = log.segments.holding(batch.base_offset)
        segment.positions.clear()
        by_index.append((batch.base_offset, segment.base_offset, segment.position_of(batch.base_offset)))
    return LogAnswers(
        log.log_start_offset,
        log.log_end_offset,
        tuple(batch for batch, _, _ in walked),
        epochs_of(log),
        tuple(by_index),
        by_scan,
        log.producers.to_bytes(),
        known=producers_of(log),
    )


def walk(log: Any) -> Iterator[tuple[BatchView, Any, int]]:
    """(batch, segment, position) of everything that is readable."""
    for segment in log.segments:
        for position, header in segment.headers():
            last = header.base_offset + header.last_offset_delta
            if last >= log.log_start_offset:
                batch = BatchView(header.base_offset, last, header.leader_epoch, header.crc)
                yield batch, segment, position


def producers_of(log: Any) -> tuple[KnownProducer, ...]:
    """Read from its fields: what is asked here counts as entered."""
    found = []
    for producer in log.producers.all():
        last = producer.batches[-1] if producer.batches else None
        sequence, offset = (-1, -1) if last is None else (last.last_sequence, last.last_offset)
        begun = producer.transaction_first_offset
        found.append(KnownProducer(producer.producer_id, producer.producer_epoch, sequence, offset, begun))
    return tuple(found)


def epochs_of(log: Any) -> tuple[tuple[int, int], ...]:
    return tuple((entry.epoch, entry.start_offset) for entry in log.epochs.entries)
