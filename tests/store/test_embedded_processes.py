"""The embedded store between real processes: kill -9, SIGSTOP, races."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from odradek.store.api import Node, SessionState, StoreUnavailable, WatchEvent, WatchKind
from odradek.store.embedded import EmbeddedStore, database
from odradek.store.embedded.holder import LOCKS
from tests.support import eventually

ROOT = Path(__file__).parent.parent.parent
# Far beyond every deadline here: what happens sooner did not wait for it.
LONG_MS = 120_000

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning"),
]


class Child:
    """A process that says lines."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.embedded_child", *map(str, arguments)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )

    def heard(self) -> str:
        """The next line; empty at the end."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)
        if number == signal.SIGSTOP:
            # It stops when it is its turn to run, which may be a while.
            eventually(lambda: psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED, 60)

    def kill(self) -> list[str]:
        """Kill -9, and whatever it had said by then."""
        self.process.kill()
        rest, _ = self.process.communicate()
        return rest.split()


Start = Callable[..., Child]


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[Child] = []

    def run(*arguments: object) -> Child:
        children.append(Child(*arguments))
        return children[-1]

    yield run
    for child in children:
        if child.process.poll() is None:
            child.signal(signal.SIGCONT)
            child.kill()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def _until_gone(store: EmbeddedStore, *paths: str) -> None:
    """Wait for the deletion of all of them, by their watches alone."""
    deleted: set[str] = set()
    some = asyncio.Event()

    def heard(event: WatchEvent) -> None:
        if event.kind is WatchKind.DELETED:
            deleted.add(event.path)
            some.set()

    stop = store.listen(on_watch=heard)
    nodes = await store.get_many(paths, watch=True)
    deleted.update(path for path, node in zip(paths, nodes, strict=True) if node is None)
    async with asyncio.timeout(60):
        while deleted < set(paths):
            some.clear()
            await some.wait()
    stop()


def test_kill_9_is_noticed_long_before_the_session_timeout(file: Path, start: Start) -> None:
    async def run() -> None:
        watcher = await EmbeddedStore.open(file, LONG_MS)
        child = start("hold", file, LONG_MS, "/broker")
        assert await asyncio.to_thread(child.heard) == "ready"
        gone = asyncio.Event()
        watcher.listen(on_watch=lambda event: gone.set())
        assert await watcher.exists("/broker", watch=True) is not None
        child.kill()
        async with asyncio.timeout(60):
            await gone.wait()
        assert await watcher.exists("/broker") is None
        await watcher.close()

    asyncio.run(run())


def test_every_death_is_noticed_when_several_die_at_once_one_of_them_an_heir(
    file: Path, start: Start
) -> None:
    """Whoever might have ended the other's session dies with it: the third one does both."""

    async def run() -> None:
        watcher = await EmbeddedStore.open(file, LONG_MS)
        children = [start("hold", file, LONG_MS, f"/broker{number}") for number in range(2)]
        for child in children:
            assert await asyncio.to_thread(child.heard) == "ready"
        for child in children:
            child.signal(signal.SIGKILL)
        await _until_gone(watcher, "/broker0", "/broker1")
        await watcher.close()

    asyncio.run(run())


def test_the_dead_are_buried_by_the_next_who_opens_the_store(file: Path, start: Start) -> None:
    """Nobody was left to notice; whoever is started again must not meet its own old registration."""
    children = [start("hold", file, LONG_MS, f"/broker{number}") for number in range(2)]
    for child in children:
        assert child.heard() == "ready"
    for child in children:
        child.kill()

    async def run() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        assert await store.get_many(["/broker0", "/broker1"]) == [None, None]
        await store.create("/broker0", ephemeral=True)
        await store.close()

    asyncio.run(run())


def test_a_stopped_process_expires_after_its_timeout_and_learns_it_when_it_goes_on(
    file: Path, start: Start
) -> None:
    async def run() -> None:
        watcher = await EmbeddedStore.open(file, LONG_MS)
        child = start("hold", file, 1000, "/broker")
        assert await asyncio.to_thread(child.heard) == "ready"
        child.signal(signal.SIGSTOP)
        await _until_gone(watcher, "/broker")
        child.signal(signal.SIGCONT)
        assert await asyncio.to_thread(child.heard) == "expired"
        assert await asyncio.to_thread(child.heard) == "refused"
        assert await watcher.exists("/broker-again") is None
        await watcher.close()

    asyncio.run(run())


def test_a_process_stopped_for_less_than_its_timeout_keeps_its_session(file: Path, start: Start) -> None:
    async def run() -> None:
        watcher = await EmbeddedStore.open(file, LONG_MS)
        child = start("hold", file, LONG_MS, "/broker")
        stopped = start("hold", file, 500, "/sooner")
        for each in (child, stopped):
            assert await asyncio.to_thread(each.heard) == "ready"
            each.signal(signal.SIGSTOP)
        # By the time that the one with the short timeout is gone, the other is still there.
        await _until_gone(watcher, "/sooner")
        assert await watcher.exists("/broker") is not None
        child.signal(signal.SIGCONT)
        child.kill()
        await _until_gone(watcher, "/broker")
        await watcher.close()

    asyncio.run(run())


def test_three_processes_that_count_together_lose_nothing(file: Path, start: Start) -> None:
    async def prepare() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        await store.create("/counter", b"0")
        await store.close()

    asyncio.run(prepare())
    children = [start("count", file, 60) for _ in range(3)]
    for child in children:
        assert child.heard() == "done"

    async def look() -> Node:
        store = await EmbeddedStore.open(file, LONG_MS)
        node = await store.get("/counter")
        await store.close()
        return node

    node = asyncio.run(look())
    assert (node.data, node.stat.version) == (b"180", 180)


def test_kill_9_in_the_middle_of_writes_leaves_all_that_was_acknowledged(file: Path, start: Start) -> None:
    async def look(prefixes: list[str], acknowledged: list[int]) -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        for prefix, count in zip(prefixes, acknowledged, strict=True):
            paths = [f"{prefix}{number}" for number in range(count)]
            assert None not in await store.get_many(paths)
            # Whole groups only: the one that was not acknowledged is there with its child, or not at all.
            last = f"{prefix}{count}"
            assert [await store.exists(last) is None] == [await store.exists(f"{last}/child") is None]
            assert await store.children_many(paths) == [["child"]] * count
        await store.close()

    prefixes, acknowledged = [], []
    for turn in range(4):
        together = [f"/turn{turn}-{name}-" for name in "ab"]
        children = [start("append", file, prefix) for prefix in together]
        for child in children:
            for _ in range(5 + 7 * turn):
                child.heard()
        for prefix, child in zip(together, children, strict=True):
            said = child.kill()
            prefixes.append(prefix)
            acknowledged.append(int(said[-1]) + 1 if said else 5 + 7 * turn)
        asyncio.run(look(prefixes, acknowledged))
    import sqlite3

    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,), "every session was ended"
    connection.close()


@pytest.mark.skipif(not LOCKS.exists(), reason="only Linux tells who holds a lock")
def test_a_process_stopped_in_the_middle_of_a_write_is_named(
    file: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can write meanwhile, and nobody is taken for dead because of it. It goes on when it goes on."""
    monkeypatch.setattr(database, "LOCK_PATIENCE_S", 0.05)

    async def run() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        await store.create("/e", ephemeral=True)
        child = start("lock", file)
        assert await asyncio.to_thread(child.heard) == "locked"
        child.signal(signal.SIGSTOP)
        sentence = rf"process {child.process.pid}, which is stopped \(`kill -CONT"
        with pytest.raises(StoreUnavailable, match=sentence):
            await store.set("/e", b"")
        assert (await store.get("/e")).data == b""
        child.kill()
        await store.set("/e", b"after")
        assert store.state is SessionState.CONNECTED
        await store.close()

    asyncio.run(run())


def test_a_session_that_its_process_leaves_open_ends_with_the_process(file: Path, start: Start) -> None:
    """Sessions of one process are apart from each other: the end of one is not the end of the other."""

    async def run() -> None:
        first = await EmbeddedStore.open(file, LONG_MS)
        second = await EmbeddedStore.open(file, LONG_MS)
        await first.create("/first", ephemeral=True)
        await second.create("/second", ephemeral=True)
        await first.close()
        assert first.state is SessionState.CLOSED
        assert await second.get_many(["/first"]) == [None]
        assert await second.exists("/second") is not None
        await second.close()

    asyncio.run(run())
    assert not list((file.parent / "store.db-sessions").iterdir()), "no signs of life are left behind"
