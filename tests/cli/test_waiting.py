"""A cluster that is starting: said so, and waited for with --wait."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.cli import waiting
from odradek.store.api import Store
from odradek.store.memory_session import MemoryEnsemble
from odradek.testing import running_cluster as module
from odradek.testing.running_cluster import LocalCluster, running_cluster
from tests.cli.conftest import Shell
from tests.support import eventually


class LateStores:
    """A store that gives nobody a session before it is told to: brokers listen by then, and cannot serve."""

    def __init__(self) -> None:
        self.ensemble = MemoryEnsemble()
        self.is_open = threading.Event()

    async def open_session(self, session_timeout_ms: int) -> Store:
        while not self.is_open.is_set():
            await module.asyncio.sleep(0.005)
        return await self.ensemble.open_session(session_timeout_ms)

    async def close(self) -> None:
        await self.ensemble.close()


class StartingCluster:
    def __init__(self, stores: LateStores, port: int) -> None:
        self.stores = stores
        self.shell = Shell(f"127.0.0.1:{port}")


@pytest.fixture
def starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartingCluster]:
    """One broker that listens, and has no store yet."""
    stores = LateStores()
    ports: list[int] = []
    reserve = LocalCluster._reserve_port

    def noted(self: LocalCluster) -> int:
        ports.append(reserve(self))
        return ports[-1]

    monkeypatch.setattr(LocalCluster, "_reserve_port", noted)
    is_over = threading.Event()

    def live() -> None:
        with running_cluster(brokers=1, directory=tmp_path, stores=stores):
            is_over.wait()

    with ThreadPoolExecutor() as pool:
        life = pool.submit(live)
        try:
            eventually(lambda: ports, what="its port is known")
            yield StartingCluster(stores, ports[0])
        finally:
            stores.is_open.set()
            is_over.set()
        life.result()


def test_a_broker_without_its_store_is_said_to_be_starting(starting: StartingCluster) -> None:
    said = eventually(
        lambda: (told := starting.shell("topic", "list")[2]) and "refused" not in told and told,
        what="it listens",
    )
    assert "is starting" in said
    assert said.count("\n") == 1


def test_wait_begins_when_the_cluster_is_there(starting: StartingCluster) -> None:
    with ThreadPoolExecutor() as pool:
        created = pool.submit(starting.shell, "topic", "create", "orders", "--wait", "-p", 1)
        eventually(lambda: not created.done(), what="it is waited for")
        starting.stores.is_open.set()
        code, out, err = created.result()
    assert (code, out) == (0, "orders created: 1 partition, 1 replica each\n"), err


@pytest.mark.parametrize("replicas", [("-r", 2), ("--assign", "1,2")], ids=["-r", "--assign"])
def test_a_topic_waits_for_as_many_brokers_as_have_a_replica(
    replicas: tuple[str, object], start_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first broker of a cluster that starts is controller before the second one is there."""
    cluster, shell = start_cluster(2)
    cluster.kill(2)
    eventually(lambda: len(shell.json("cluster", "health")["brokers"]) == 1, what="it is gone")
    assert shell("topic", "create", "orders", *replicas)[0] == 1
    pauses: list[float] = []
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pauses.append))
    with ThreadPoolExecutor() as pool:
        created = pool.submit(shell, "topic", "create", "orders", "--wait", *replicas)
        eventually(lambda: pauses or created.done(), what="it is waited for")
        cluster.start(2)
        code, out, err = created.result()
    assert (code, out) == (0, "orders created: 1 partition, 2 replicas each\n"), err
    assert "waiting up to 60 s: " in err


def test_a_cluster_that_is_not_there_in_time_is_one_sentence_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += 7.0

    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    code, out, err = Shell("127.0.0.1:1")("topic", "list", "--wait")
    assert (code, out) == (1, "")
    missing = "no broker answers at 127.0.0.1:1: connection refused"
    assert err == f"waiting up to 60 s: {missing}\nodradek: no cluster within 60 s: {missing}\n"
    assert len(pauses) == 9


@pytest.mark.parametrize(
    "verb", [("topic", "list"), ("why", "orders"), ("reassign", "apply", "-")], ids=" ".join
)
def test_every_client_verb_takes_wait(verb: tuple[str, ...], start_cluster: Callable[..., object]) -> None:
    _, out, _ = Shell("127.0.0.1:1")(*verb, "--help", offline=True)
    assert "--wait" in out
