"""Two ways in which Apache Kafka 3.9 in ZooKeeper mode loses acknowledged records, and ours does not.

H1, H2 of the list of open holes: told to brokers of either kind by the same test. What Apache does is recorded
here too: a scenario that shows nothing on Apache would say nothing about us.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from odradek.client.sync import SyncClient
from odradek.model.ids import TopicPartition
from odradek.protocol.api_keys import ApiKey
from odradek.records.builder import NewRecord, build_batch
from odradek.store import layout
from tests.interop.cluster import APACHES, OURS, MixedCluster
from tests.interop.proxy import Proxy

RECORDS = 50
T0 = TopicPartition("t", 0)
KINDS = pytest.mark.parametrize("kind", [OURS, APACHES])


@contextmanager
def three(kind: str, directory: Path, advertised: dict[int, str] | None = None) -> Iterator[MixedCluster]:
    of_ours, of_apaches = ((1, 2, 3), ()) if kind == OURS else ((), (1, 2, 3))
    with MixedCluster(
        directory, ours=of_ours, apaches=of_apaches, first=kind, advertised=advertised
    ) as cluster:
        yield cluster


def produce(cluster: MixedCluster, count: int) -> None:
    """Each acknowledged by the whole ISR."""
    with SyncClient(cluster.running) as client:
        for number in range(count):
            client.produce(T0, build_batch([NewRecord(None, b"%d" % number)]), acks=-1)


def end_offset(cluster: MixedCluster) -> int:
    with SyncClient(cluster.running) as client:
        return client.end_offsets([T0])[T0]


def state_of(cluster: MixedCluster) -> tuple[int, set[int]]:
    return cluster.leader("t"), cluster.isr("t")


@KINDS
def test_h1_a_follower_whose_disk_was_emptied_does_not_join_by_an_old_request(
    kind: str, tmp_path: Path
) -> None:
    """The leader's AlterPartition names a follower that dies, loses its disk and returns before it arrives."""
    with ExitStack() as stack:
        to_controller, to_leader = (stack.enter_context(_proxy()) for _ in range(2))
        advertised = {1: to_controller.address, 2: to_leader.address}
        cluster = stack.enter_context(three_behind(kind, tmp_path, advertised, to_controller, to_leader))
        cluster.create_topic("t", {0: [2, 3]})
        produce(cluster, RECORDS)
        cluster.kill(3)
        cluster.wait_until(lambda: state_of(cluster) == (2, {2}), "3 left the ISR")
        produce(cluster, RECORDS)

        to_controller.hold(ApiKey.ALTER_PARTITION)
        cluster.brokers[3].start()
        cluster.wait_until(lambda: bool(to_controller.held), "2 proposes 3 again")
        cluster.kill(3)
        shutil.rmtree(cluster.data_of(3) / "t-0")
        to_leader.hold(ApiKey.FETCH)
        cluster.brokers[3].start()
        cluster.wait_until(
            lambda: cluster.tree.exists(layout.broker_path(3)) is not None, "3 is back, and empty", 40
        )
        cluster.wait_until(lambda: (cluster.data_of(3) / "t-0").exists(), "3 was told that it follows 2")
        to_controller.release(ApiKey.ALTER_PARTITION)
        if kind == APACHES:
            cluster.wait_until(lambda: state_of(cluster) == (2, {2, 3}), "the empty follower is in the ISR")
        else:
            cluster.wait_until(lambda: _is_refused(cluster), "the request was refused")
            assert state_of(cluster) == (2, {2})
        cluster.kill(2)
        if kind == APACHES:
            cluster.wait_until(lambda: state_of(cluster)[0] == 3, "the empty follower leads")
            assert end_offset(cluster) == 0, "Apache no longer loses them: say so in docs/mixing.md"
            return
        cluster.wait_until(lambda: state_of(cluster) == (-1, {2}), "nobody leads")
        to_leader.release(ApiKey.FETCH)
        cluster.brokers[2].start()
        cluster.wait_until(lambda: state_of(cluster)[0] == 2, "the one that has everything leads")
        cluster.wait_full("t")
        assert end_offset(cluster) == 2 * RECORDS


@contextmanager
def _proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    try:
        yield proxy
    finally:
        proxy.close()


@contextmanager
def three_behind(
    kind: str, directory: Path, advertised: dict[int, str], to_controller: Proxy, to_leader: Proxy
) -> Iterator[MixedCluster]:
    of_ours, of_apaches = ((1, 2, 3), ()) if kind == OURS else ((), (1, 2, 3))
    cluster = MixedCluster(
        directory, ours=of_ours, apaches=of_apaches, first=kind, advertised=advertised, starts_alone=1
    )
    for proxy, broker_id in ((to_controller, 1), (to_leader, 2)):
        broker = cluster.brokers[broker_id]
        proxy.target = (broker.host, broker.port)
    with cluster:
        assert cluster.controller == 1
        yield cluster


def _is_refused(cluster: MixedCluster) -> bool:
    return "INELIGIBLE_REPLICA" in cluster.brokers[2].log_file.read_text()


@KINDS
def test_h2_the_last_of_an_isr_loses_what_it_had_not_flushed(kind: str, tmp_path: Path) -> None:
    """Two stop in order and have everything; the third loses its power, and comes back with less."""
    with three(kind, tmp_path) as cluster:
        cluster.create_topic("t", {0: [1, 2, 3]}, min_insync_replicas="2")
        produce(cluster, RECORDS)
        cluster.terminate(3)
        cluster.terminate(2)
        cluster.wait_until(lambda: state_of(cluster) == (1, {1}), "1 is the last of the ISR")
        cluster.kill(1)
        cut_power(cluster.data_of(1))
        cluster.brokers[2].start()
        if kind == OURS:
            # It stopped in order when the ISR was already too small to commit anything: nothing is missing.
            cluster.wait_until(lambda: state_of(cluster)[0] == 2, "an eligible replica leads")
        cluster.brokers[1].start()
        cluster.brokers[3].start()
        cluster.wait_until(lambda: state_of(cluster)[0] >= 0, "somebody leads")
        cluster.wait_full("t")
        found = end_offset(cluster)
        if kind == OURS:
            assert found == RECORDS
        else:
            assert found == 0, "Apache no longer loses them: say so in docs/mixing.md"


def cut_power(data: Path) -> None:
    """What was not flushed is gone: each log ends where its recovery point was."""
    points: dict[str, int] = {}
    checkpoint = data / "recovery-point-offset-checkpoint"
    if checkpoint.exists():
        for line in checkpoint.read_text().splitlines()[2:]:
            topic, partition, offset = line.split()
            points[f"{topic}-{partition}"] = int(offset)
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for log in data.glob("*-[0-9]*/*.log"):
        point = points.get(log.parent.name, 0)
        base = int(log.stem)
        assert point <= base, f"{log} was flushed up to {point}: cut there"
        log.write_bytes(b"")
        for index in (log.with_suffix(".index"), log.with_suffix(".timeindex")):
            index.unlink(missing_ok=True)
        (log.parent / "leader-epoch-checkpoint").write_text("0\n0\n")
