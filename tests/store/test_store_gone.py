"""The file of a store is removed, moved or replaced while sessions are open: nothing more is acknowledged from it."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from odradek.store.api import SessionExpired, SessionState, StoreGone, StoreUnavailable
from odradek.store.embedded import EmbeddedStore, EmbeddedStores, database, wal_index
from odradek.store.embedded.database import Database
from odradek.store.embedded.file import BESIDE, OpenFile, anew, hold, identity_of
from odradek.store.embedded.worker import Job, Worker

LONG_MS = 120_000
WRITES = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "home" / "store.db"


def drive(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(180):
            await scenario()

    asyncio.run(main())


def all_files(file: Path) -> list[Path]:
    return [path for path in file.parent.iterdir() if path.is_file()]


def remove_all(file: Path) -> None:
    for path in all_files(file):
        path.unlink()


def rename_directory(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))


def put_a_copy(file: Path) -> None:
    copy = file.with_name("copy")
    shutil.copy(file, copy)
    copy.replace(file)


def overwrite(file: Path) -> None:
    """A copy of just now, as `cp` puts it back: the same name, inode and bytes."""
    copy = file.with_name("copy")
    shutil.copy(file, copy)
    subprocess.run(["cp", str(copy), str(file)], check=True)


def beside(suffix: str) -> Callable[[Path], None]:
    def remove(file: Path) -> None:
        file.with_name(f"{file.name}{suffix}").unlink()

    return remove


WAYS = {
    "all removed": remove_all,
    "the store removed": Path.unlink,
    "its log removed": beside("-wal"),
    "its index removed": beside("-shm"),
    "replaced by a copy": put_a_copy,
    "overwritten by a copy": overwrite,
    "its directory renamed": rename_directory,
}


async def until_over(store: EmbeddedStore) -> None:
    over = asyncio.Event()
    stop = store.listen(on_session=lambda state: over.set())
    while store.state is not SessionState.EXPIRED:
        over.clear()
        await over.wait()
    stop()


@pytest.mark.parametrize("way", WAYS)
def test_a_session_ends_within_a_heartbeat_and_another_is_refused(file: Path, way: str) -> None:
    async def scenario() -> None:
        stores = EmbeddedStores(file)
        store = await stores.open_session(LONG_MS)
        await store.create("/kept", b"")
        WAYS[way](file)
        before = sorted(file.parent.iterdir()) if file.parent.exists() else []
        async with asyncio.timeout(LONG_MS / 1000 / 2):
            await until_over(store)
        assert store.gone is not None
        for _ in range(2):
            with pytest.raises(StoreGone):
                await stores.open_session(LONG_MS)
        now = sorted(file.parent.iterdir()) if file.parent.exists() else []
        assert file.exists() == (file in before), "none was made"
        assert {path for path in now if path.name.endswith(".db")} <= set(before)

    drive(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_a_write_is_refused_from_the_first_one_on(file: Path, way: str) -> None:
    """Not only after the next look: whatever is acknowledged stands in the file that the name means."""

    async def scenario() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        await store.create("/kept", b"")
        WAYS[way](file)
        with pytest.raises((StoreGone, SessionExpired)):
            await store.create("/lost", b"")
        assert store.gone is not None or store.state is SessionState.EXPIRED

    drive(scenario)


def test_a_file_that_goes_while_it_is_committed_to_is_not_acknowledged_from(file: Path) -> None:
    asyncio.run(_make(file))
    database = Database(file)
    database.execute("BEGIN IMMEDIATE")
    database.execute("ROLLBACK")

    with pytest.raises(StoreGone, match="was removed or moved away while this process had it open"):
        database.write(lambda: file.unlink())
    database.close()


def test_a_file_that_goes_while_a_session_begins_is_named_and_nothing_is_closed_twice(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new session ends one of a dead process, and finds at that that the file is gone. A descriptor that is closed twice may
    be somebody else's by then."""

    async def scenario() -> None:
        dead = await EmbeddedStore.open(file, LONG_MS)
        dead._worker.submit(Job(lambda worker: worker._finish(SessionState.EXPIRED), print, print))
        await until_over(dead)
        meet_peers = Worker._meet_peers

        def meet_and_lose(worker: Worker) -> None:
            meet_peers(worker)
            file.unlink(missing_ok=True)

        monkeypatch.setattr(Worker, "_meet_peers", meet_and_lose)
        with pytest.raises(StoreGone, match="was removed or moved away"):
            await EmbeddedStore.open(file, LONG_MS)

    drive(scenario)


async def _make(file: Path) -> None:
    store = await EmbeddedStore.open(file, LONG_MS)
    await store.create("/kept", b"")
    await store.close()


def test_the_same_file_put_back_is_gone_on_with(file: Path) -> None:
    async def scenario() -> None:
        stores = EmbeddedStores(file)
        store = await stores.open_session(LONG_MS)
        await store.create("/kept", b"")
        file.rename(file.with_name("aside"))
        await until_over(store)
        with pytest.raises(StoreGone, match=r"odradek store import.*then start them"):
            await stores.open_session(LONG_MS)
        file.with_name("aside").rename(file)
        again = await stores.open_session(LONG_MS)
        assert await again.exists("/kept") is not None
        await again.close()

    drive(scenario)


def test_a_copy_is_for_processes_that_start_after_it(file: Path) -> None:
    async def scenario() -> None:
        stores = EmbeddedStores(file)
        store = await stores.open_session(LONG_MS)
        await store.create("/kept", b"")
        with sqlite3.connect(file) as source, sqlite3.connect(file.with_name("copy")) as copy:
            source.backup(copy)
        source.close()
        copy.close()
        file.with_name("copy").chmod(0o600)
        file.with_name("copy").replace(file)
        await until_over(store)
        with pytest.raises(StoreGone, match="Restart every broker"):
            await stores.open_session(LONG_MS)
        another_process = await EmbeddedStores(file).open_session(LONG_MS)
        assert await another_process.exists("/kept") is not None
        await another_process.create("/new", b"")
        with pytest.raises(StoreGone):
            await stores.open_session(LONG_MS)
        assert await another_process.exists("/new") is not None, "and it was not harmed by that"
        await another_process.close()

    drive(scenario)


def test_a_copy_that_got_the_inode_of_the_removed_store_is_another_file() -> None:
    """As `rm` and then `cp` do it: by the time that somebody copies, the last session has closed the file that was removed."""
    with tempfile.TemporaryDirectory(
        dir="/var/tmp"
    ) as directory:  # on a disk: a file system in memory counts on
        file = Path(directory) / "store.db"
        file.write_bytes(b"")
        inode = file.stat().st_ino
        file.unlink()
        file.write_bytes(b"")
        if file.stat().st_ino != inode:
            pytest.skip("this file system gives no inode out again")
        file.unlink()

        async def scenario() -> None:
            stores = EmbeddedStores(file)
            store = await stores.open_session(LONG_MS)
            await store.create("/old", b"")
            backup = sqlite3.connect(":memory:")
            with closing(sqlite3.connect(file)) as source:
                source.backup(backup)
            await store.create("/acknowledged", b"")
            remove_all(file)
            await until_over(store)
            await asyncio.to_thread(store._worker.join)
            with closing(sqlite3.connect(file)) as restored:
                backup.backup(restored)
            backup.close()
            file.chmod(0o600)
            with pytest.raises(StoreGone, match="was replaced by another file"):
                await stores.open_session(LONG_MS)
            await stores.close()

        drive(scenario)


@pytest.mark.parametrize("is_older", [False, True])
def test_a_store_that_was_restored_under_a_session_is_not_gone_on_with(file: Path, is_older: bool) -> None:
    """Than the session, or only than what it said last. `sqlite3 STORE ".restore COPY"` goes by SQLite's own locks and log. What was acknowledged since the copy is not in it."""

    async def scenario() -> None:
        await _make(file)
        stores = EmbeddedStores(file)
        store = None if is_older else await stores.open_session(LONG_MS)
        with closing(sqlite3.connect(":memory:")) as copy:
            with closing(sqlite3.connect(file)) as source:
                source.backup(copy)
            store = store or await stores.open_session(LONG_MS)
            await store.create("/acknowledged", b"")
            with closing(sqlite3.connect(file)) as restored:
                copy.backup(restored)
        with pytest.raises((StoreGone, SessionExpired)):
            await store.create("/lost", b"")
        async with asyncio.timeout(LONG_MS / 1000 / 2):
            await until_over(store)
        assert store.gone is not None
        with pytest.raises(StoreGone, match="Restart every broker"):
            await stores.open_session(LONG_MS)
        await stores.close()

    drive(scenario)


def test_what_holds_an_inode_costs_nobody_his_locks(file: Path) -> None:
    asyncio.run(_make(file))
    database = Database(file)
    database.execute("BEGIN IMMEDIATE")
    for path in (file, *(file.with_name(f"{file.name}{suffix}") for suffix in BESIDE)):
        held = hold(path)
        assert held is not None and identity_of(held) == identity_of(path)
        os.close(held)
    third = subprocess.run([sys.executable, "-c", WRITES, str(file)], capture_output=True, text=True)
    assert "database is locked" in third.stderr
    database.execute("ROLLBACK")
    database.close()


def test_whoever_asks_again_for_a_store_that_is_gone_for_good_keeps_nothing(file: Path) -> None:
    """A broker asks ten times a second until somebody restarts it. An error that is raised again holds on to all who heard of it."""

    async def scenario() -> None:
        stores = EmbeddedStores(file)
        store = await stores.open_session(LONG_MS)
        overwrite(file)
        await until_over(store)
        frames = []
        for _ in range(3):
            with pytest.raises(StoreGone) as refused:
                await stores.open_session(LONG_MS)
            frames.append(len(traceback.extract_tb(refused.value.__traceback__)))
        assert frames == [frames[0]] * 3
        await stores.close()

    drive(scenario)


def test_where_there_was_a_store_none_is_made_unless_somebody_restores_one(file: Path) -> None:
    asyncio.run(_make(file))
    file.unlink()
    for _ in range(2):
        with pytest.raises(StoreGone, match=r"store\.db-sessions beside it says that there was one"):
            asyncio.run(EmbeddedStore.open(file, LONG_MS))
    assert not file.exists()

    async def restore() -> None:
        store = await EmbeddedStores(file, anew).open_session(LONG_MS)
        assert await store.children("/") == []
        await store.close()

    asyncio.run(restore())


def test_none_is_made_where_whoever_asks_knows_of_a_cluster(file: Path) -> None:
    stores = EmbeddedStores(file, lambda path: "log directory /data belongs to cluster abc")
    with pytest.raises(
        StoreGone, match=r"there is no store at .* and log directory /data belongs to cluster abc"
    ):
        asyncio.run(stores.open_session(LONG_MS))
    assert not file.parent.exists()


def test_a_file_that_goes_while_it_is_opened_is_not_made_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(_make(file))

    class Removing(OpenFile):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            path.unlink()

    monkeypatch.setattr(database, "OpenFile", Removing)
    with pytest.raises(StoreUnavailable):
        Database(file)
    assert not file.exists()
    with pytest.raises(StoreGone):
        OpenFile(file)


def test_checkpoints_are_not_taken_for_somebody_elses_writes(file: Path) -> None:
    """Of this process and of others, and logs that begin anew: many thousand pages."""
    asyncio.run(_make(file))
    one, other = Database(file), Database(file)
    seen = set()
    for turn in range(60):
        for database_ in (one, other):
            database_.write(
                lambda database_=database_: database_.execute(
                    "UPDATE nodes SET data = randomblob(300000) WHERE name = 'kept'"
                )
            )
            if turn % 7 == 0:
                database_.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            one.file.check()
            other.file.check()
        seen.add(one.file._checkpoint)
    assert len(seen) > 5
    one.close()
    other.file.check()
    other.close()


def test_a_checkpoint_under_way_is_not_taken_for_the_last_one(tmp_path: Path) -> None:
    """Its pages are being copied into the store, of whose size and time nothing can be said meanwhile."""
    path = tmp_path / "store.db-shm"
    index = bytearray(136)
    index[0:4] = (3_007_000).to_bytes(4, sys.byteorder)
    index[96:100] = index[128:132] = (5).to_bytes(4, sys.byteorder)
    path.write_bytes(index)
    looks = wal_index.WalIndex(str(path))
    last = looks.last_checkpoint()
    assert last is not None and last.copied == 5
    index[128:132] = (7).to_bytes(4, sys.byteorder)
    path.write_bytes(index)
    assert looks.last_checkpoint() is None
    path.unlink()
    looks.close()


def test_looking_at_a_store_does_not_cost_anybody_his_locks(file: Path) -> None:
    """Nor a connection of this process that we know nothing of."""
    asyncio.run(_make(file))
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    Database(file).close()
    third = subprocess.run([sys.executable, "-c", WRITES, str(file)], capture_output=True, text=True)
    assert "database is locked" in third.stderr
    other.execute("ROLLBACK")
    other.close()


def test_the_descriptor_of_an_index_goes_with_the_last_connection(file: Path) -> None:
    asyncio.run(_make(file))
    one, other = Database(file), Database(file)
    stat = file.with_name(f"{file.name}-shm").stat()
    one.close()
    assert wal_index._shared[stat.st_dev, stat.st_ino][1] == 1
    other.close()
    assert (stat.st_dev, stat.st_ino) not in wal_index._shared


def test_what_wrote_over_a_store_is_said_with_what_to_remove(file: Path) -> None:
    asyncio.run(_make(file))
    database = Database(file)
    overwrite(file)
    with pytest.raises(StoreGone, match=r"no broker.*Remove store\.db-wal and store\.db-shm"):
        database.file.check()
    database.close()
