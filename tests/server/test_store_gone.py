"""The embedded store's file goes away under running brokers."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.server import exit_codes
from odradek.testing.process_cluster import ProcessCluster
from tests.server.processes import OneBroker, create_topic
from tests.support import eventually

pytestmark = pytest.mark.process


def creation_error(bootstrap: str, name: str, *, within_ms: int) -> int:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=within_ms
    )
    with SyncClient(bootstrap, bootstrap_timeout_s=20) as client:
        return int(client.call(CONTROLLER, request).topics[0].error_code)


def cluster_id(broker: OneBroker) -> str:
    return (broker.data / "meta.properties").read_text().split("cluster.id=")[1].split()[0]


def test_a_broker_makes_no_topic_and_no_second_cluster_and_goes_on_with_a_copy(tmp_path: Path) -> None:
    store = tmp_path / "store" / "odradek-store.sqlite"
    broker = OneBroker(tmp_path / "one", odradek_store=str(store))
    broker.start()
    try:
        create_topic(broker.address, "before")
        before = cluster_id(broker)
        copy = tmp_path / "copy.sqlite"
        with sqlite3.connect(store) as source, sqlite3.connect(copy) as target:
            source.backup(target)
        source.close()
        target.close()
        copy.chmod(0o600)

        shutil.rmtree(store.parent)
        assert creation_error(broker.address, "lost", within_ms=2_000) != 0
        eventually(
            lambda: "odradek store import" in broker.process.log_file.read_text(), 60, "it says what to do"
        )
        assert broker.process.is_running
        assert not store.exists()
        broker.process.kill()
        code, said = broker.refuses()
        assert code == exit_codes.STORE
        assert f"there is no store at {store}" in said and f"belongs to cluster {before}" in said
        assert not store.exists() and cluster_id(broker) == before

        store.parent.mkdir(exist_ok=True)
        copy.replace(store)
        broker.start()
        assert cluster_id(broker) == before
        assert creation_error(broker.address, "after", within_ms=25_000) == 0
    finally:
        broker.stop()


def test_a_store_without_a_cluster_is_not_made_one_by_a_broker_that_has_one(tmp_path: Path) -> None:
    broker = OneBroker(tmp_path / "one", odradek_store=str(tmp_path / "a.sqlite"))
    broker.start()
    broker.stop()
    other = OneBroker(tmp_path / "other", odradek_store=str(tmp_path / "b.sqlite"), broker_id=2)
    other.start()
    other.stop()
    with sqlite3.connect(tmp_path / "b.sqlite") as store:
        store.execute("DELETE FROM nodes WHERE parent = '/cluster'")
    store.close()
    broker.configure(odradek_store=str(tmp_path / "b.sqlite"))
    code, said = broker.refuses()
    assert code == exit_codes.LOG_DIRECTORY
    assert "and the store has no cluster" in said


def test_brokers_that_start_together_on_nothing_make_one_cluster(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, brokers=3) as cluster:
        ids = {
            (broker.directory / "data" / "meta.properties").read_text().split("cluster.id=")[1].split()[0]
            for broker in cluster.brokers.values()
        }
        assert len(ids) == 1
