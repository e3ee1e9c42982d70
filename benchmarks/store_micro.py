"""The stores alone: `python -m benchmarks.store_micro [partitions [host:port]]`, the last an empty ZooKeeper.

Median of three; all costs of a call included (thread hand-over, transaction, fsync, building values). The goals
are those of the embedded store.
"""

import asyncio
import gc
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.facts import TopicAssignment
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicId, TopicPartition
from odradek.server.main import GC_THRESHOLDS
from odradek.store import layout, transactions
from odradek.store.api import ConditionalOps, Fence, Put, Set, Store
from odradek.store.embedded import EmbeddedStores
from odradek.store.facts import ControllerFacts
from odradek.store.memory_session import MemoryEnsemble

PARTITIONS_PER_TOPIC = 500


def _assignment(topic: str, partitions: int) -> TopicAssignment:
    replicas = {
        p: ReplicaAssignment(tuple(BrokerId(1 + (p + r) % 5) for r in range(3))) for p in range(partitions)
    }
    return TopicAssignment(topic, TopicId(os.urandom(16)), replicas)


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await call()
    return time.perf_counter() - begun


def _line(what: str, seconds: float, goal: str = "") -> None:
    print(f"{what:58} {seconds * 1000:10.2f} ms   {goal}")


async def _bulk(name: str, store: Store, count: int) -> None:
    topics = [_assignment(f"t{n:05d}", PARTITIONS_PER_TOPIC) for n in range(count // PARTITIONS_PER_TOPIC)]
    partitions = [TopicPartition(t.topic, p) for t in topics for p in t.partitions]
    leaders = {
        tp: t.partitions[tp.partition].replicas for t in topics for tp in partitions if tp.topic == t.topic
    }
    await store.write([ConditionalOps((), parents=("/brokers", "/brokers/ids", "/brokers/topics"))], None)
    for path in (*layout.PERSISTENT_PATHS, "/controller_epoch"):
        parent = path.rsplit("/", 1)[0]
        await store.write([ConditionalOps((Put(path, b""),), parents=(parent,) if parent else ())], None)
    fence = Fence((await store.get("/controller_epoch")).stat.version)
    writes = [
        transactions.create_topic(t.topic, t.topic_id or TopicId(bytes(16)), t.partitions, {}) for t in topics
    ]
    await store.write(writes, fence)

    def state(partition: TopicPartition, epoch: int) -> LeaderAndIsr:
        replicas = leaders[partition]
        return LeaderAndIsr(leader=replicas[0], leader_epoch=LeaderEpoch(epoch), isr=replicas)

    # As our controller writes them: the incarnation of each member stands there too.
    incarnations = tuple(BrokerEpoch(1000 + number) for number in range(3))
    created = await _timed(
        lambda: store.write(
            [
                transactions.create_partition_state(tp, state(tp, 0), ControllerEpoch(1), incarnations)
                for tp in partitions
            ],
            fence,
        )
    )
    _line(f"{name}: create {count} partition states, with parents", created)
    times = []
    for epoch in range(3):
        values = [
            transactions.write_partition_state(
                tp, state(tp, epoch), ControllerEpoch(1), incarnations, expected_version=epoch
            )
            for tp in partitions
        ]
        times.append(await _timed(lambda values=values: store.write(values, fence)))  # type: ignore[misc]
    _line(f"{name}: {count} conditional sets under the fence", statistics.median(times), "goal 1000 ms")
    paths = [layout.state_path(tp) for tp in partitions]

    async def load() -> None:
        nodes = await store.get_many(paths)
        states, missing, bad = layout.decode_partition_states(partitions, nodes)
        assert len(states) == count
        assert not missing
        assert not bad

    _line(
        f"{name}: load and decode them",
        statistics.median([await _timed(load) for _ in range(3)]),
        "goal 500 ms",
    )
    facts = ControllerFacts(store, wake=lambda: None)
    _line(f"{name}: everything a new controller reads", await _timed(lambda: facts.load(fence)))
    facts.stop()


async def _latency(name: str, writer: Store, reader: Store) -> None:
    await writer.write([ConditionalOps((Put("/one", b""),))], None)
    sets = []
    for _ in range(300):
        sets.append(await _timed(lambda: writer.set("/one", b"x" * 100)))
    _line(f"{name}: one durable set, median", statistics.median(sets))
    gets = [await _timed(lambda: writer.get("/one")) for _ in range(300)]
    _line(f"{name}: one get, median", statistics.median(gets))
    delays = []
    heard = asyncio.Event()
    stop = reader.listen(on_watch=lambda event: heard.set())
    for _ in range(300):
        heard.clear()
        version = (await reader.get("/one", watch=True)).stat.version
        group = ConditionalOps((Set("/one", b"y", version),))
        begun = time.perf_counter()
        await asyncio.gather(writer.write([group], None), heard.wait())
        delays.append(time.perf_counter() - begun)
    stop()
    delays.sort()
    _line(f"{name}: set until another session heard, median", statistics.median(delays), "goal 10 ms")
    _line(f"{name}: the same, 99th of 100", delays[int(len(delays) * 0.99)], "goal 10 ms")


async def _idle(name: str, seconds: float = 5.0) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.sleep(seconds)
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{name + ': three idle sessions, share of one core':58} {used / seconds * 100:10.3f} %    goal 3 %"
    )


async def main(count: int, zookeeper: str | None) -> None:
    ensemble = MemoryEnsemble()
    await _bulk("memory", ensemble.open(), count)
    with tempfile.TemporaryDirectory() as directory:
        stores = EmbeddedStores(Path(directory) / "store.db")
        sessions = [await stores.open_session(6000) for _ in range(3)]
        await _idle("embedded")
        await _latency("embedded", sessions[0], sessions[1])
        await _bulk("embedded", sessions[0], count)
        for session in sessions:
            await session.close()
    if zookeeper is not None:
        from odradek.store.zookeeper.stores import ZooKeeperStores

        ensemble_sessions = [await ZooKeeperStores(zookeeper).open_session(30_000) for _ in range(2)]
        await _latency("zookeeper", *ensemble_sessions)
        await _bulk("zookeeper", ensemble_sessions[0], count)
        for each in ensemble_sessions:
            await each.close()


if __name__ == "__main__":
    gc.set_threshold(*GC_THRESHOLDS)
    partitions_wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    asyncio.run(main(partitions_wanted, sys.argv[2] if len(sys.argv) > 2 else None))
