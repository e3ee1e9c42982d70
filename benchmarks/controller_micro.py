"""What a decision costs: the pure controller alone, with a store that answers at once.

    python -m benchmarks.controller_micro [partitions ...]

Everything between an event and the values of its requests is in the figures: planning, drafts, the answers of
the writes, commit, request values for every broker. Not in them: encoding, the network, the store itself.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable

from odradek.advisor.what_if import what_if
from odradek.controller.context import ControllerSettings
from odradek.controller.core import ControllerCore
from odradek.controller.effects import Effects
from odradek.controller.events import Elected, Requested
from odradek.controller.failover import load_context
from odradek.controller.settle import settle
from odradek.model.cluster import BrokerRegistration, Endpoint, LeaderAndIsr, ReplicaAssignment
from odradek.model.controller_requests import ControlledShutdownAsked
from odradek.model.facts import (
    BrokersChanged,
    MetadataLoaded,
    StoredPartitionState,
    TopicAssignment,
    TopicsChanged,
)
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)

BROKERS = 3
PARTITIONS_A_TOPIC = 500


def registration(broker: int, epoch: int = 0) -> BrokerRegistration:
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9000 + broker)
    return BrokerRegistration(BrokerId(broker), BrokerEpoch(epoch or broker), (endpoint,))


def topics(partitions: int) -> tuple[TopicAssignment, ...]:
    nodes = []
    for index, first in enumerate(range(0, partitions, PARTITIONS_A_TOPIC)):
        replicas = {
            p: ReplicaAssignment(tuple(BrokerId(1 + (p + i) % BROKERS) for i in range(3)))
            for p in range(min(PARTITIONS_A_TOPIC, partitions - first))
        }
        nodes.append(TopicAssignment(f"topic-{index:04d}", TopicId(b"%016d" % index), replicas, 0))
    return tuple(nodes)


def snapshot(partitions: int) -> MetadataLoaded:
    nodes = topics(partitions)
    states = {
        TopicPartition(node.topic, p): StoredPartitionState(
            LeaderAndIsr(a.replicas[0], LeaderEpoch(3), a.replicas, PartitionEpoch(5)), ControllerEpoch(1)
        )
        for node in nodes
        for p, a in node.partitions.items()
    }
    return MetadataLoaded(tuple(registration(b) for b in range(1, BROKERS + 1)), nodes, states)


def elected(loaded: MetadataLoaded, *gone: int) -> Elected:
    live = tuple(r for r in loaded.brokers if r.broker_id not in gone)
    data = MetadataLoaded(live, loaded.topics, loaded.states)
    return Elected(BrokerId(1), ControllerEpoch(2), 2, data)


def timed(name: str, partitions: int, work: Callable[[], Effects | object]) -> None:
    gc.collect()
    began = time.process_time()
    result = work()
    took = time.process_time() - began
    written = ""
    if isinstance(result, Effects):
        assert result.resign is None, result.resign
        written = f"  {len(result.changes):>7} changes  {len(result.requests):>3} requests"
    print(f"  {name:<46} {took * 1e3:>8.1f} ms  {took / partitions * 1e6:>6.2f} us a partition{written}")


def main(sizes: list[int]) -> None:
    for partitions in sizes:
        print(f"{partitions} partitions, RF 3, {BROKERS} brokers")
        loaded = snapshot(partitions)
        gc.freeze()
        tracemalloc.start()
        context = load_context(elected(loaded), ControllerSettings())
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(
            f"  memory of the context, states and assignments shared with the snapshot: {used / partitions:.0f} B"
        )
        del context
        timed("failover, all brokers live", partitions, lambda: settle(ControllerCore(), elected(loaded), 0))
        timed(
            "failover, one broker dead (a third elected)",
            partitions,
            lambda: settle(ControllerCore(), elected(loaded, 3), 0),
        )
        core = ControllerCore()
        settle(core, elected(loaded), 0)
        led = partitions / BROKERS
        two = BrokersChanged(tuple(registration(b) for b in (1, 2)))
        timed("broker failure, per partition it led or followed", partitions, lambda: settle(core, two, 0))
        back = BrokersChanged((registration(1), registration(2), registration(3, 99)))
        timed("broker start-up", partitions, lambda: settle(core, back, 0))
        fresh = ControllerCore()
        settle(fresh, elected(loaded), 0)
        asked = Requested(1, ControlledShutdownAsked(BrokerId(2), BrokerEpoch(2)))
        timed("controlled shutdown", partitions, lambda: settle(fresh, asked, 0))
        empty = ControllerCore()
        settle(empty, elected(MetadataLoaded(loaded.brokers, (), {})), 0)
        names = tuple(t.topic for t in loaded.topics)
        timed("creation", partitions, lambda: settle(empty, TopicsChanged(names, loaded.topics), 0))
        assert empty.context is not None
        timed("what-if: kill one broker", partitions, lambda: what_if(empty.context, kill=[BrokerId(2)]))  # type: ignore[arg-type]
        del led


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [1_000, 10_000, 100_000])
