"""The store's disk turns read-only under brokers that run, as a file system does after an error of its device.

Nothing new can be decided then, and no sign of life can be given; but who leads leads on, and nothing is lost.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.testing.process_cluster import ProcessCluster
from tests.conformance import live
from tests.server.processes import create_topic
from tests.support import eventually

pytestmark = pytest.mark.process


@contextmanager
def immutable(*paths: Path) -> Iterator[None]:
    """Every write fails, also through descriptors that are open; only root may, and not everywhere."""
    names = [str(path) for path in paths]
    try:
        subprocess.run(["chattr", "+i", *names], check=True, capture_output=True)
        yield
    finally:
        subprocess.run(["chattr", "-i", *names], capture_output=True)


@pytest.fixture(autouse=True)
def _immutable_files(tmp_path: Path) -> None:
    if shutil.which("chattr") is None or os.geteuid() != 0:
        pytest.skip("chattr +i needs root")
    probe = tmp_path / "probe"
    with open(probe, "wb", buffering=0) as file:
        try:
            with immutable(probe):
                file.write(b"x")
        except (subprocess.CalledProcessError, OSError) as error:
            if isinstance(error, OSError):
                return
            pytest.skip("this file system knows no immutable files")
    pytest.skip("this file system lets open files be written all the same")


def test_brokers_serve_what_they_lead_say_why_they_decide_nothing_and_recover(tmp_path: Path) -> None:
    # Longer than the first answer takes on a busy machine: it is that of a controller that has its session yet.
    settings = {"zookeeper.session.timeout.ms": "20000"}
    with ProcessCluster(tmp_path / "cluster", brokers=3, settings=settings) as cluster:
        create_topic(cluster.bootstrap, "t", replication_factor=3)
        live.produce(cluster, "t", "before")
        store = cluster.store_file
        # Not the -shm file: it is mapped, and a write that is refused there kills, as no disk does.
        stays = [
            *(path for path in store.parent.glob(f"{store.name}*") if not path.name.endswith("-shm")),
            *(path for path in store.parent.glob(f"{store.name}-sessions/*.beat")),
        ]
        with immutable(*stays):
            refused = create(cluster, "during")
            assert "disk I/O error; nothing was changed. Its disk fails or has turned read-only" in refused
            for broker_id in cluster.brokers:
                eventually(
                    lambda broker_id=broker_id: (
                        "no session with the store: " in live.said(cluster, broker_id)
                    ),
                    120,
                )
                assert "the file system must not be mounted read-only" in live.said(cluster, broker_id)
            live.produce(cluster, "t", "during")
            assert all(broker.is_running for broker in cluster.brokers.values())
            assert not live.anybody_said(cluster, "Traceback")()
        eventually(lambda: not create(cluster, "after"), 60)
        live.produce(cluster, "t", "after")
        assert live.values(cluster, "t") == ["before", "during", "after"]


def create(cluster: ProcessCluster, name: str) -> str:
    """The message of the answer, or its error's name; nothing when the topic is there."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    with SyncClient(cluster.bootstrap) as client:
        try:
            (answer,) = client.call(CONTROLLER, request).topics
        except Exception as error:
            return str(error)
    if answer.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return ""
    return answer.error_message or ErrorCode(answer.error_code).name
