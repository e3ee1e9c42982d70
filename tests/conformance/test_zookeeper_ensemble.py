"""An ensemble of three: one member may die at any time; without a majority nothing is decided, and nothing is lost."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.server import exit_codes
from odradek.store.api import ConditionalOps, Create, SessionState, Stored
from odradek.store.zookeeper.stores import ZooKeeperStores
from odradek.testing.process_cluster import ProcessCluster
from odradek.testing.zookeeper import ZooKeeperEnsemble, missing
from tests.conformance import live
from tests.conformance.worlds import until
from tests.server.processes import OneBroker
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble")) as running:
        yield running


def test_a_session_outlives_the_member_it_speaks_to(ensemble: ZooKeeperEnsemble) -> None:
    async def run() -> None:
        session = await ZooKeeperStores(f"{ensemble.connect}/sessions").open_session(60_000)
        await session.create("/mine", b"0", ephemeral=True)
        await session.create("/kept", b"0")
        heard = []
        states: list[SessionState] = []  # the loss may be over within a moment
        session.listen(on_watch=heard.append, on_session=states.append)
        await session.get("/kept", watch=True)
        session_id = session.session_id
        host, port = session._session._link._client._connection._socket.getpeername()[:2]
        (member,) = [server for server in ensemble.servers if server.address == f"{host}:{port}"]
        await asyncio.to_thread(member.kill)
        await until(lambda: SessionState.CONNECTED in states, "another member has it")
        assert states[:2] == [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert session.session_id == session_id
        stat = await session.exists("/mine")
        assert stat is not None and stat.ephemeral_owner == session_id
        assert heard == []
        answers = await session.write([ConditionalOps((Create("/after"),))], None)
        assert answers == [Stored(0)]
        await session.set("/kept", b"1")
        await until(lambda: heard, "the watch moved along")
        await asyncio.to_thread(member.start)
        await session.close()

    asyncio.run(run())


def test_without_a_majority_brokers_serve_what_they_lead_and_go_on_when_it_is_back(
    ensemble: ZooKeeperEnsemble, tmp_path: Path
) -> None:
    cluster = ProcessCluster(
        tmp_path,
        brokers=1,
        settings={"zookeeper.session.timeout.ms": "120000"},
        zookeeper=f"{ensemble.connect}/majority",
    )
    with cluster:
        live.create(cluster, "t", replicas=1)
        live.produce(cluster, "t", "before")
        lost = ensemble.servers[1:]
        for server in lost:
            server.kill()
        eventually(live.anybody_said(cluster, "the connection to ZooKeeper"), 60, "the loss is told")
        live.produce(cluster, "t", "during")
        for server in lost:
            server.launch()
        for server in lost:
            server.wait_ready()
        eventually(live.anybody_said(cluster, "connected to ZooKeeper again"), 60, "so is the return")
        live.create(cluster, "after", replicas=1)
        assert live.values(cluster, "t") == ["before", "during"]


def test_two_brokers_of_one_id_and_two_clusters_in_one_chroot(
    ensemble: ZooKeeperEnsemble, tmp_path: Path
) -> None:
    connect = {"zookeeper_connect": f"{ensemble.connect}/shared"}
    first = OneBroker(tmp_path / "first", **connect)
    try:
        first.start()
        twin = OneBroker(tmp_path / "twin", zookeeper_session_timeout_ms="1000", **connect)
        code, said = twin.refuses_with(exit_codes.BROKER_ID)
        assert f"broker 1 is registered at {first.address} by a process that lives" in said
        # A broker of another cluster, told of this chroot.
        other = OneBroker(tmp_path / "other", broker_id=2, zookeeper_connect=f"{ensemble.connect}/other")
        other.start()
        assert other.terminate() == 0
        other.configure(**connect)
        code, said = other.refuses()
        assert code == exit_codes.LOG_DIRECTORY
        assert "belongs to cluster" in said and said.count("\n") == 0
        assert first.is_serving()
    finally:
        first.stop()


def test_an_ensemble_that_cannot_be_reached_is_one_sentence(tmp_path: Path) -> None:
    from odradek.testing.process_cluster import free_ports

    (port,) = free_ports(1)
    broker = OneBroker(tmp_path, zookeeper_connect=f"127.0.0.1:{port}/x")
    for patience_ms in (700, 5_000, 40_000):
        broker.configure(zookeeper_connection_timeout_ms=str(patience_ms))
        code, said = broker.refuses()
        assert code == exit_codes.STORE
        assert said.startswith(f"odradek: no ZooKeeper answered at 127.0.0.1:{port} within {patience_ms} ms")
        assert said.count("\n") == 0
        if "(" in said:  # else a busy machine has not even asked by then
            break
    assert "Connection refused" in said


def test_up_starts_and_stops_an_ensemble_with_its_brokers(tmp_path: Path) -> None:
    if missing() is not None:
        pytest.skip(str(missing()))
    import json

    from tests.cli.test_up import is_alive

    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "odradek.cli.main", "up", "--json", "--dir", str(tmp_path / "up")),
            *("--zookeeper", "3", "--brokers", "1", "--port", "0"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        ready = json.loads(process.stdout.readline())
        assert ready["zookeeper"].startswith("127.0.0.1:")
        first, second, third = _java_children(process.pid)
        os.kill(first, signal.SIGKILL)
        assert process.stderr is not None
        assert "ended; 2 are left" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        eventually(lambda: not any(map(is_alive, (second, third))), 60, "the servers are gone")
    finally:
        process.kill()
        process.communicate()


def _java_children(parent: int) -> list[int]:
    import psutil

    return [child.pid for child in psutil.Process(parent).children(recursive=True) if "java" in child.name()]


def test_a_broker_that_was_killed_is_back_long_before_its_session_would_end(
    ensemble: ZooKeeperEnsemble, tmp_path: Path
) -> None:
    """The lock on its log directory proves that the process before is gone, so its session is ended (golden 09d)."""
    broker = OneBroker(
        tmp_path, zookeeper_connect=f"{ensemble.connect}/killed", zookeeper_session_timeout_ms="120000"
    )
    note = broker.data / "zookeeper-session.json"
    try:
        broker.start()
        assert note.exists()
        # Somebody who is started on the same directory is refused, and does no harm to who lives there.
        twin = OneBroker(
            tmp_path / "twin", log_dirs=str(broker.data), zookeeper_connect=f"{ensemble.connect}/killed"
        )
        assert twin.refuses()[0] == exit_codes.LOG_DIRECTORY
        assert broker.is_serving() and note.exists()
        broker.process.kill()
        broker.start()  # within half of that
        assert "of the process that was here before" in broker.process.log_file.read_text()
        assert broker.terminate() == 0
        assert not note.exists()
    finally:
        broker.stop()
