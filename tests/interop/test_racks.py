"""Java's consumer in a rack (KIP-392): leaders of either kind send it to a follower of the other."""

from collections.abc import Iterator

import pytest

from odradek.model.settings import RACK_AWARE_SELECTOR
from odradek.testing.process_cluster import BrokerProcess
from tests.interop.apache import Tools
from tests.interop.cluster import MixedCluster

OURS, APACHES, RECORDS = 1, 2, 200


class Racks(MixedCluster):
    def properties_of(self, broker: BrokerProcess) -> dict[str, str]:
        racks = {
            "broker.rack": f"rack-{broker.broker_id}",
            "replica.selector.class": RACK_AWARE_SELECTOR,
        }
        return {**super().properties_of(broker), **racks}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racks]:
    with Racks(tmp_path_factory.mktemp("racks"), ours=(OURS,), apaches=(APACHES,)) as running:
        yield running


@pytest.mark.parametrize("rack", ["rack-1", "rack-2", "elsewhere"])
def test_a_java_consumer_reads_from_the_replica_in_its_rack_of_either_kind(
    cluster: Racks, tools: Tools, rack: str
) -> None:
    topic = f"read-in-{rack}"
    cluster.create_topic(topic, {0: [OURS, APACHES], 1: [APACHES, OURS]}, min_insync_replicas="2")
    bootstrap = cluster.bootstrap
    assert tools.run("produce", bootstrap, topic, 2, RECORDS, "acks=all").code == 0
    read = tools.run("consume", bootstrap, topic, RECORDS, f"client.rack={rack}")
    assert read.code == 0, read
    first, sent, *rows = read.splitlines()
    half = RECORDS // 2
    assert first == f"{RECORDS} read, ends {{0={half}, 1={half}}}"
    assert rows == [f"{p} {n} key-{2 * n + p} value-{2 * n + p}" for p in (0, 1) for n in range(half)]
    replicas = {"rack-1": "{0=-1, 1=1}", "rack-2": "{0=2, 1=-1}", "elsewhere": "{0=-1, 1=-1}"}
    assert sent == f"sent to {replicas[rack]}"
