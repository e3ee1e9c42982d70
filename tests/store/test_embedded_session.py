"""One session of the embedded store and its thread: silence, the end, and what is kept for whom."""

import asyncio
import errno
import fcntl
import os
import resource
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pytest

from odradek.store.api import (
    Applied,
    ConditionalOps,
    Create,
    SessionExpired,
    SessionState,
    Set,
    Stored,
    StoreUnavailable,
    WatchEvent,
    WatchKind,
)
from odradek.store.embedded import EmbeddedStore, EmbeddedStores
from odradek.store.embedded import session as embedded_session
from odradek.store.embedded.database import Database
from odradek.store.embedded.liveness import OwnLife, PeerLife
from odradek.store.embedded.operations import CHANGED, DELETED
from odradek.store.embedded.watches import ArmedWatches
from odradek.store.embedded.worker import _AGAIN_TIMES, OWN_PATIENCE, Job, Worker
from odradek.store.loop_beat import LoopBeat
from tests.conformance.worlds import until

T = TypeVar("T")
LONG_MS = 120_000
HOUR_NS = 3_600_000_000_000

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def drive(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


async def on_worker(store: EmbeddedStore, body: Callable[[Worker], T]) -> T:
    """Run something in the store's own thread."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    store._worker.submit(
        Job(
            body,
            lambda outcome: loop.call_soon_threadsafe(answer.set_result, outcome),
            lambda error: loop.call_soon_threadsafe(answer.set_exception, error),
        )
    )
    return await answer


def test_a_silent_session_is_ended_by_the_others(file: Path) -> None:
    async def scenario() -> None:
        silent, other = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, LONG_MS)
        heard: list[WatchEvent] = []
        other.listen(on_watch=heard.append)
        await silent.create("/e", ephemeral=True)
        await other.exists("/e", watch=True)
        beats = silent._worker._life
        assert beats is not None
        # Only its heartbeat is old; its thread is well, so that it is the other one who must act.
        silent._worker._beat = lambda: True  # type: ignore[method-assign]
        beats.beat(time.monotonic_ns() - HOUR_NS)
        await until(lambda: heard)
        assert heard == [WatchEvent(WatchKind.DELETED, "/e")]
        await until(lambda: silent.state is SessionState.EXPIRED)
        with pytest.raises(SessionExpired):
            await silent.get("/")
        await other.close()

    drive(scenario)


def test_a_session_goes_on_beside_one_whose_signs_of_life_it_cannot_open(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor is left for them, or they are another user's. Who cannot be seen is not dead; once it can be, its
    death is noticed, though nothing was written since."""

    async def scenario() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        open_one = PeerLife._open
        is_short = True

        def open_or_fail(path: Path, flags: int) -> int:
            if is_short and path.suffix == ".bell":  # the heartbeat was open by then
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return open_one(path, flags)

        monkeypatch.setattr(PeerLife, "_open", staticmethod(open_or_fail))
        other = await EmbeddedStore.open(file, LONG_MS)
        await other.create("/e", ephemeral=True)
        before = len(os.listdir("/proc/self/fd"))
        for number in range(10):
            await store.create(f"/n{number}")
        assert store.state is SessionState.CONNECTED and await store.exists("/e") is not None
        assert len(os.listdir("/proc/self/fd")) == before

        await store.exists("/e", watch=True)
        heard: list[WatchEvent] = []
        store.listen(on_watch=heard.append)
        await on_worker(other, lambda worker: worker._finish(SessionState.EXPIRED))
        is_short = False
        await until(lambda: heard)
        assert heard == [WatchEvent(WatchKind.DELETED, "/e")]
        await store.close()

    drive(scenario)


@pytest.mark.parametrize(
    ("module", "call", "reason"),
    [(os, "write", errno.ENOMEM), (os, "pread", errno.EIO), (fcntl, "flock", errno.ENOLCK)],
    ids=["no page for a bell", "a heartbeat and an index that cannot be read", "no room for a lock"],
)
def test_a_session_goes_on_while_the_kernel_refuses_what_looks_at_others(
    module: ModuleType, call: str, reason: int, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a moment, for want of memory. Its thread ended of that, and nobody was told: a broker that had no session any more, and
    opened no other."""

    async def scenario() -> None:
        store, other = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, LONG_MS)
        await store.exists("/")  # so it has met the other
        refused: list[int] = []

        def refuse(*arguments: object) -> None:
            refused.append(1)
            raise OSError(reason, os.strerror(reason))

        def look(worker: Worker) -> None:
            worker._next_tick = 0.0
            worker._poll_store(True)
            worker._bury_the_dead()
            worker._ring_peers()

        with monkeypatch.context() as patched:
            patched.setattr(module, call, refuse)
            await on_worker(store, look)
            assert refused
            await store.create("/n")
        assert store.state is SessionState.CONNECTED
        await other.set("/n", b"still there")
        assert (await store.get("/n")).data == b"still there"
        for session in (store, other):
            await session.close()

    drive(scenario)


def test_a_session_in_which_there_is_no_memory_to_tell_of_a_change_ends(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would never tell of it: a watch fires once. Whoever opens another one reads all there is."""

    async def scenario() -> None:
        store, other = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, LONG_MS)
        await other.create("/n")
        await store.get("/n", watch=True)
        fire = ArmedWatches.fire

        def no_memory(watches: ArmedWatches, lines: list[str]) -> list[WatchEvent]:
            if watches is store._worker.watches:
                raise MemoryError
            return fire(watches, lines)

        with monkeypatch.context() as patched:
            patched.setattr(ArmedWatches, "fire", no_memory)
            # Before its own thread looks, which the bell of the other one asks it to.
            patched.setattr(Worker, "_poll_store", lambda worker, is_rung: None)
            await other.set("/n", b"new")
            with pytest.raises(SessionExpired, match="no memory"):
                await store.get("/")
        await until(lambda: store.state is SessionState.EXPIRED)
        await other.close()

    drive(scenario)


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
def test_a_session_for_which_there_is_no_thread_can_be_opened_later(
    file: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Where a session ended in such a moment its broker ended too."""

    async def scenario() -> None:
        def refuse(worker: Worker) -> None:
            raise error

        class Kept(LoopBeat):
            def __init__(self, session_timeout_ms: int) -> None:
                super().__init__(session_timeout_ms)
                beats.append(self)

        stores = EmbeddedStores(file)
        beats: list[LoopBeat] = []
        with monkeypatch.context() as patched:
            patched.setattr(Worker, "start", refuse)
            patched.setattr(embedded_session, "LoopBeat", Kept)
            with pytest.raises(StoreUnavailable, match=r"no thread .*pids\.max"):
                await stores.open_session(LONG_MS)
        assert [beat._timer for beat in beats] == [None], "of each attempt one went on for ever"
        store = await stores.open_session(LONG_MS)
        await store.close()
        await stores.close()

    drive(scenario)


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        (errno.EMFILE, "raise the limit of open files"),
        (errno.ENOSPC, "free space"),
        (errno.ENOLCK, "memory"),
        (errno.EROFS, "must be on a local file system with locks and FIFOs"),
    ],
    ids=lambda value: errno.errorcode.get(value, ""),
)
def test_why_a_session_cannot_be_opened_comes_with_the_remedy_of_that(
    file: Path, monkeypatch: pytest.MonkeyPatch, reason: int, remedy: str
) -> None:
    async def scenario() -> None:
        def refuse(*arguments: object) -> None:
            raise OSError(reason, os.strerror(reason))

        monkeypatch.setattr(os, "mkfifo", refuse)
        with pytest.raises(StoreUnavailable, match=f"{os.strerror(reason)}.*{remedy}"):
            await EmbeddedStore.open(file, LONG_MS)

    drive(scenario)


def test_a_store_that_finds_no_descriptor_does_not_blame_the_rights_of_its_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await (await EmbeddedStore.open(file, LONG_MS)).close()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with ExitStack() as stack:
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
            highest = os.open(os.devnull, os.O_RDONLY)
            os.close(highest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
            with pytest.raises(StoreUnavailable, match="raise the limit of open files"):
                await EmbeddedStore.open(file, LONG_MS)
        await (await EmbeddedStore.open(file, LONG_MS)).close()

    drive(scenario)


def test_the_end_of_a_session_is_told_though_something_of_it_cannot_be_let_go_of(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)

        def refuse(worker: Worker) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patched:
            patched.setattr(Worker, "_ring_peers", refuse)
            with pytest.raises(OSError, match="Input/output"):
                await on_worker(store, lambda worker: worker._finish(SessionState.EXPIRED))
        await until(lambda: store.state is SessionState.EXPIRED)
        with pytest.raises(SessionExpired):
            await store.get("/")

    drive(scenario)


def test_a_dead_session_that_cannot_be_ended_is_looked_at_once_a_tick_and_told_once(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk nothing can be written until somebody makes room, and that may take hours: no processor is to be busy with
    it until then."""

    async def scenario() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        other = await EmbeddedStore.open(file, LONG_MS)
        third = await EmbeddedStore.open(file, LONG_MS)
        await store.exists("/")  # so it has met both
        tried: list[object] = []

        def full(database: Database, body: object) -> None:
            if database is store._worker._database:
                tried.append(body)
            raise StoreUnavailable(message="no room left")

        def look_again(worker: Worker) -> dict[int, int]:
            worker._suspects = dict.fromkeys((other.session_id, third.session_id), _AGAIN_TIMES)
            for _ in range(_AGAIN_TIMES):
                with suppress(StoreUnavailable):
                    worker._bury_the_dead()
            return worker._suspects

        with monkeypatch.context() as patched:
            patched.setattr(Database, "write", full)
            await on_worker(other, lambda worker: worker._finish(SessionState.EXPIRED))
            await until(lambda: tried and len(caplog.records) == 2)
            assert await on_worker(store, look_again) == {}
        await until(lambda: other.session_id not in store._worker._peers)
        for session in (store, third):
            await session.close()

    drive(scenario)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    # Of each of the two that outlive it.
    assert told == 2 * [
        f"process {os.getpid()} is dead or silent, and its session cannot be ended: no room left. Until that can be written its "
        "broker counts as live, and nobody else leads its partitions"
    ]


def test_a_session_that_gives_a_sign_of_life_while_it_is_to_be_ended_goes_on(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped for its whole timeout, and let go on while the other one waited for the lock of the store."""

    async def scenario() -> None:
        paused, other = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, LONG_MS)
        await paused.create("/e", ephemeral=True)
        await other.exists("/")  # so it has met the first
        life = paused._worker._life
        assert life is not None
        await on_worker(paused, lambda worker: setattr(worker, "_beat", lambda: True))
        write = Database.write
        tried: list[int] = []

        def write_at_last(database: Database, body: Callable[[], T]) -> T:
            if database is other._worker._database:
                tried.append(1)
                life.beat(time.monotonic_ns())
            return write(database, body)

        with monkeypatch.context() as patched:
            patched.setattr(Database, "write", write_at_last)
            life.beat(time.monotonic_ns() - HOUR_NS)
            await on_worker(other, lambda worker: worker._bury_the_dead())
        assert tried, "it was found silent"
        await paused.set("/e", b"still mine")
        assert (await other.get("/e")).data == b"still mine"
        for session in (paused, other):
            await session.close()

    drive(scenario)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files beside a store of another user")
def test_what_root_makes_beside_the_store_of_another_user_is_that_users(tmp_path: Path) -> None:
    """`sudo odradek store set` beside brokers: they open each session's signs of life."""
    file = tmp_path / "store.db"
    nobody = 65534

    async def scenario() -> None:
        first = await EmbeddedStore.open(file, LONG_MS)
        await first.close()
        (tmp_path / "store.db-sessions").rmdir()  # a copy that was put back has none
        os.chown(file, nobody, nobody)
        store = await EmbeddedStore.open(file, LONG_MS)
        made = [tmp_path / "store.db-sessions", *(tmp_path / "store.db-sessions").iterdir()]
        assert len(made) == 3
        assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(nobody, nobody)}
        await store.close()

    drive(scenario)


def test_a_session_that_slept_ends_itself_before_it_does_anything_else(file: Path) -> None:
    """Nobody else is there to end it; still it may not go on as if nothing had been."""

    async def scenario() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        await store.create("/e", b"", ephemeral=True)
        life = store._worker._life
        assert life is not None
        await on_worker(store, lambda worker: setattr(life, "last_beat_ns", time.monotonic_ns() - HOUR_NS))
        with pytest.raises(SessionExpired):
            while True:
                await store.set("/e", b"after")
        await until(lambda: store.state is SessionState.EXPIRED)
        fresh = await EmbeddedStore.open(file, LONG_MS)
        assert await fresh.exists("/e") is None, "it took its ephemerals with it"
        await fresh.close()

    drive(scenario)


def test_a_session_that_slept_for_nine_tenths_of_its_timeout_ends_itself(file: Path) -> None:
    """The others may end it in a moment: who lets it go on until then has two that take themselves for the owner."""

    async def scenario() -> None:
        store, other = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, LONG_MS)
        await store.create("/e", b"", ephemeral=True)
        life = store._worker._life
        assert life is not None
        slept_ns = LONG_MS * 1_000_000 * 9 // 10
        await on_worker(store, lambda worker: setattr(life, "last_beat_ns", time.monotonic_ns() - slept_ns))
        with pytest.raises(SessionExpired):
            for _ in range(100):
                await store.set("/e", b"after")
        await until(lambda: store.state is SessionState.EXPIRED)
        assert await other.exists("/e") is None, "it took its ephemerals with it"
        await other.close()

    drive(scenario)


def test_the_owner_gives_up_before_the_others_do(tmp_path: Path) -> None:
    """Between four fifths of the timeout and the whole, the owner is gone and nobody may take its place yet."""
    timeout_ms = 1000
    life = OwnLife(tmp_path, 1, now_ns=0)
    peer = PeerLife(tmp_path, 1, timeout_ms, pid=1)
    patience_ms = timeout_ms * OWN_PATIENCE
    assert patience_ms < timeout_ms
    assert not peer.is_silent(int(patience_ms * 1_000_000) + 1)
    assert not peer.is_silent(timeout_ms * 1_000_000)
    assert peer.is_silent(timeout_ms * 1_000_000 + 1)
    life.beat(500_000_000)
    assert not peer.is_silent(timeout_ms * 1_000_000 + 1)
    assert not peer.is_dead()
    life.end()
    assert peer.is_dead()
    peer.close()


def test_a_session_ended_by_others_writes_nothing_more(file: Path) -> None:
    """The write finds out inside its own transaction, whatever the owner believes."""

    async def scenario() -> None:
        store, other = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, LONG_MS)
        await other.create("/a", b"old")
        session_id = store.session_id
        # Without a word to anybody: no bell is rung, the change log is not written.
        await on_worker(
            other,
            lambda worker: worker._database.write(
                lambda: worker._database.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
            ),
        )
        with pytest.raises(SessionExpired):
            await store.write([ConditionalOps((Set("/a", b"new", 0),))], None)
        assert (await other.get("/a")).data == b"old"
        assert store.state is SessionState.EXPIRED
        await other.close()

    drive(scenario)


def test_calls_that_wait_when_the_session_ends_are_told_so(file: Path) -> None:
    async def scenario() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        gate = threading.Event()
        blocked = asyncio.ensure_future(on_worker(store, lambda worker: gate.wait(20)))
        waiting = [asyncio.ensure_future(store.get("/")) for _ in range(3)]
        closing = asyncio.ensure_future(store.close())
        late = [asyncio.ensure_future(store.get("/")) for _ in range(3)]
        await asyncio.sleep(0)
        gate.set()
        await blocked
        assert [(await call).data for call in waiting] == [b""] * 3
        await closing
        for call in late:
            with pytest.raises(SessionExpired):
                await call
        assert not store._worker.is_alive()

    drive(scenario)


def test_an_opening_that_nobody_waits_for_leaves_no_session(file: Path) -> None:
    async def scenario() -> None:
        keeper = await EmbeddedStore.open(file, LONG_MS)
        before = set(threading.enumerate())  # other tests of this process may have left some
        opening = asyncio.ensure_future(EmbeddedStore.open(file, LONG_MS))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await until(lambda: before.issuperset(threading.enumerate()))
        rows = await on_worker(
            keeper, lambda worker: worker._database.execute("SELECT id FROM sessions").fetchall()
        )
        assert rows == [(keeper.session_id,)]
        await keeper.close()

    drive(scenario)


def test_a_cancelled_call_does_not_stop_the_others(file: Path) -> None:
    async def scenario() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        call = asyncio.ensure_future(store.create("/a"))
        await asyncio.sleep(0)
        call.cancel()
        await store.create("/b")
        assert "b" in await store.children("/")
        await store.close()

    drive(scenario)


def test_an_error_of_ours_reaches_the_caller_and_the_session_lives(file: Path) -> None:
    async def scenario() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        with pytest.raises(sqlite3.IntegrityError):
            await store.set("/", None)  # type: ignore[arg-type]
        with pytest.raises(ZeroDivisionError):
            await on_worker(store, lambda worker: 1 // 0)
        await store.create("/a")
        assert store.state is SessionState.CONNECTED
        await store.close()

    drive(scenario)


def test_old_changes_are_forgotten_and_who_slept_through_them_is_gone(file: Path) -> None:
    async def scenario() -> None:
        store, sleeper = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, LONG_MS)
        for number in range(5):
            await store.create(f"/n{number}")
        await sleeper.get("/")

        def kept(worker: Worker) -> int:
            return int(worker._database.execute("SELECT count(*) FROM changes").fetchone()[0])

        before = await on_worker(store, kept)
        assert before >= 5
        now = time.monotonic()
        await on_worker(store, lambda worker: worker._prune(now))
        assert await on_worker(store, kept) == before, "others may not have looked yet"
        await on_worker(store, lambda worker: worker._prune(now + 121))
        assert await on_worker(store, kept) < before
        await sleeper.get("/")  # it had looked at everything before: no harm

        await on_worker(sleeper, lambda worker: setattr(worker, "_seen_zxid", 1))
        with pytest.raises(SessionExpired):
            await sleeper.get("/n0")
        await store.close()

    drive(scenario)


def test_who_has_seen_all_that_is_forgotten_goes_on(file: Path) -> None:
    """A store that nobody writes to is pruned as any other, and the next write ends no session."""

    async def scenario() -> None:
        store, idle = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, LONG_MS)
        await store.create("/n")
        await idle.get("/n", watch=True)
        heard: list[WatchEvent] = []
        idle.listen(on_watch=heard.append)
        now = time.monotonic()
        for later_s in (0, 121):
            await on_worker(store, lambda worker, later_s=later_s: worker._prune(now + later_s))
        last, forgotten = await on_worker(store, lambda worker: worker.read(lambda reading: reading.zxids()))
        assert last == forgotten

        await store.set("/n", b"x")
        assert (await idle.get("/n")).data == b"x"
        assert heard == [WatchEvent(WatchKind.CHANGED, "/n")]
        for session in (store, idle):
            await session.close()

    drive(scenario)


def test_a_session_that_cannot_be_ended_in_order_is_over_all_the_same(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: whoever has closed it does not live on in it, and others end it when they can write again."""

    async def scenario() -> None:
        store, other = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, LONG_MS)
        await store.create("/e", ephemeral=True)
        heard: list[WatchEvent] = []
        other.listen(on_watch=heard.append)
        await other.exists("/e", watch=True)

        def full(database: Database, body: Callable[[], T]) -> T:
            raise StoreUnavailable(message="no room left")

        with monkeypatch.context() as patched:
            patched.setattr(Database, "write", full)
            with pytest.raises(StoreUnavailable):
                await store.close()
        await until(lambda: heard)
        assert heard == [WatchEvent(WatchKind.DELETED, "/e")]
        assert store.state is SessionState.CLOSED
        await other.close()

    drive(scenario)


def test_changes_are_kept_for_as_long_as_a_session_may_be_paused(file: Path) -> None:
    """zookeeper.session.timeout.ms may be any number. A process that was stopped for less has its session when it goes on."""

    async def scenario() -> None:
        store, sleeper = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, 600_000)
        await store.exists("/")  # so it has met the other one
        await store.create("/n")
        now = time.monotonic()

        def forgotten(worker: Worker, later_s: int) -> bool:
            worker._prune(now + later_s)
            return worker.read(lambda reading: reading.zxids()[1]) > 0

        found = [
            await on_worker(store, lambda worker, later_s=later_s: forgotten(worker, later_s))
            for later_s in (0, 599, 601)
        ]
        assert found == [False, False, True]
        await sleeper.close()
        await store.close()

    drive(scenario)


def test_watches_fire_when_nobody_rang(file: Path) -> None:
    """A process that is killed between its commit and the bell, or a foreign hand in the file: the next tick."""

    async def scenario() -> None:
        store, other = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, LONG_MS)
        heard: list[WatchEvent] = []
        store.listen(on_watch=heard.append)
        await store.exists("/a", watch=True)
        await on_worker(other, lambda worker: setattr(worker, "_ring_peers", lambda: None))
        await other.create("/a")
        await until(lambda: heard)
        assert heard == [WatchEvent(WatchKind.CREATED, "/a")]
        for session in (store, other):
            await session.close()

    drive(scenario)


class Unread:
    """A store of which one session can read nothing for a while, and to which it can write."""

    def __init__(self, session: EmbeddedStore) -> None:
        self._database = session._worker._database
        self._read = self._database.read
        self._database.read = self._fail  # type: ignore[method-assign]

    def _fail(self, body: Callable[[], T]) -> T:
        raise StoreUnavailable(message="disk I/O error")

    def heal(self) -> None:
        self._database.read = self._read  # type: ignore[method-assign]


def test_a_change_that_could_not_be_read_for_a_moment_is_told_though_nobody_asks_again(file: Path) -> None:
    async def scenario() -> None:
        store, other = await EmbeddedStore.open(file, LONG_MS), await EmbeddedStore.open(file, LONG_MS)
        heard: list[WatchEvent] = []
        store.listen(on_watch=heard.append)
        await store.exists("/a", watch=True)
        fault = Unread(store)
        await other.create("/a")
        await until(lambda: store.state is SessionState.SUSPENDED)
        fault.heal()
        await until(lambda: heard)
        assert heard == [WatchEvent(WatchKind.CREATED, "/a")]
        await until(lambda: store.state is SessionState.CONNECTED)
        for session in (store, other):
            await session.close()

    drive(scenario)


def test_what_is_stored_is_told_as_stored_though_a_new_session_cannot_be_looked_at(file: Path) -> None:
    """Its writer would take it for undone and do it again. The new session is looked at once that can be done: its death
    is noticed, though nothing was written since."""

    async def scenario() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        fault = Unread(store)
        other = await EmbeddedStore.open(file, LONG_MS)
        await other.create("/e", ephemeral=True)
        assert await store.create("/mine") == Applied("/mine", await other.exists("/mine"))
        fault.heal()
        await on_worker(store, lambda worker: worker.watches.data.add("/e"))
        heard: list[WatchEvent] = []
        store.listen(on_watch=heard.append)
        await on_worker(other, lambda worker: worker._finish(SessionState.EXPIRED))
        await until(lambda: heard)
        assert heard == [WatchEvent(WatchKind.DELETED, "/e")]
        await store.close()

    drive(scenario)


def test_a_run_that_is_done_one_by_one_uses_no_more_ids_than_it_has_groups(file: Path) -> None:
    async def scenario() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        await store.write([ConditionalOps((Create(f"/n{number}"),)) for number in range(50)], None)
        before = (await store.set("/n7", b"")).mzxid
        await store.write([ConditionalOps((Set(f"/n{number}", b"", 0),)) for number in range(50)], None)
        assert (await store.set("/n7", b"")).mzxid == before + 49 + 1
        await store.close()

    drive(scenario)


def test_sessions_come_from_a_provider(file: Path) -> None:
    async def scenario() -> None:
        stores = EmbeddedStores(file)
        first, second = await stores.open_session(100_000), await stores.open_session(200_000)
        assert (first.session_timeout_ms, second.session_timeout_ms) == (100_000, 200_000)
        assert first.session_id != second.session_id
        for session in (first, second):
            await session.close()
        await stores.close()

    drive(scenario)


def test_many_threads_of_control_keep_their_order(file: Path) -> None:
    """Calls of one session are done in the order they were made, without waiting for each other's answers."""

    async def scenario() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        await store.create("/a", b"")
        calls = [
            store.write([ConditionalOps((Set("/a", str(number).encode(), number),))], None)
            for number in range(50)
        ]
        assert await asyncio.gather(*calls) == [[Stored(number + 1)] for number in range(50)]
        await asyncio.gather(*(store.multi([Create(f"/n{number}")]) for number in range(20)))
        assert len(await store.children("/")) == 21
        await store.close()

    drive(scenario)


def test_a_loop_that_closes_under_the_worker_ends_no_thread(file: Path) -> None:
    """Between a look at the loop and the call into it everything may happen."""

    class Closing:
        closed = False

        def is_closed(self) -> bool:
            return self.closed

        def call_soon_threadsafe(self, *what: object) -> None:
            self.closed = True
            raise RuntimeError("Event loop is closed")

    async def scenario() -> None:
        store = EmbeddedStore(file, LONG_MS)
        store._loop = Closing()  # type: ignore[assignment]
        store.became(SessionState.CLOSED)
        store.heard([WatchEvent(WatchKind.CREATED, "/a")])

    drive(scenario)


def test_a_deletion_among_very_many_changes_is_told_to_whoever_watches_the_children() -> None:
    watches = ArmedWatches()
    watches.children.add("/a")
    lines = [*(f"{CHANGED}/{number}" for number in range(20)), f"{DELETED}/a"]
    assert watches.fire(lines) == [WatchEvent(WatchKind.DELETED, "/a")]
    assert watches.fire(lines) == []
