"""Files that cannot be used: each gets a sentence that says what to do, and is left as it was."""

import asyncio
import errno
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from odradek.store.api import (
    ConditionalOps,
    Create,
    SessionExpired,
    SessionState,
    Set,
    StoreCorrupt,
    Stored,
    StoreUnavailable,
)
from odradek.store.embedded import EmbeddedStore, database, holder
from odradek.store.embedded.liveness import OwnLife
from odradek.store.embedded.worker import Job, Worker
from tests.support import each, full_disk

# Longer than any machine stands still: where a session ends here, it is not because a test was slow.
LONG_MS = 120_000
HOUR_NS = 3_600_000_000_000

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def _fill(file: Path) -> None:
    store = await EmbeddedStore.open(file, LONG_MS)
    await store.write([ConditionalOps((Create(f"/n{number}", b"x" * 500),)) for number in range(200)], None)
    await store.close()


def _refusal(file: Path, kind: type[StoreUnavailable]) -> str:
    """What opening says; the same a second time, and without a thread or a session left behind."""
    sentences = set()
    for _ in range(2):
        with pytest.raises(kind) as caught:
            asyncio.run(EmbeddedStore.open(file, LONG_MS))
        sentences.add(str(caught.value))
    (sentence,) = sentences
    return sentence


def test_a_new_store_is_made_with_its_directory_and_only_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "store.db"
    old = os.umask(0)
    try:
        asyncio.run(_fill(file))
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((file.parent / "store.db-sessions").stat().st_mode) == 0o700
    assert sorted(path.name for path in file.parent.iterdir()) == ["store.db", "store.db-sessions"]


def test_what_is_beside_an_open_store_is_for_its_owner_too(file: Path) -> None:
    async def run() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        await store.create("/a")
        files = [path for path in file.parent.rglob("*") if not path.is_dir()]
        assert len(files) == 5  # the file, its log and index, two signs of life
        assert [path.name for path in files if path.stat().st_mode & 0o077] == []
        await store.close()

    old = os.umask(0)
    try:
        asyncio.run(run())
    finally:
        os.umask(old)


def test_a_file_of_a_newer_version(file: Path) -> None:
    asyncio.run(_fill(file))
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    sentence = _refusal(file, StoreUnavailable)
    assert "has format 7" in sentence
    assert "Start it with the version that wrote it" in sentence


def test_a_file_of_another_program(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE recipes (name)")
    connection.close()
    file.chmod(0o600)
    before = file.read_bytes()
    assert "SQLite file of another program" in _refusal(file, StoreCorrupt)
    assert file.read_bytes() == before


def test_a_file_that_is_no_database(file: Path) -> None:
    file.write_bytes(b"once upon a time " * 1000)
    file.chmod(0o600)
    sentence = _refusal(file, StoreCorrupt)
    assert "is damaged" in sentence
    assert ".recover" in sentence
    assert file.read_bytes().startswith(b"once upon")


def test_an_empty_file_was_cut_off(file: Path) -> None:
    """A store comes to be whole, so that this cannot be a new one; it must not be taken for one."""
    file.touch(0o600)
    sentence = _refusal(file, StoreCorrupt)
    assert "is empty" in sentence
    assert file.stat().st_size == 0


@pytest.mark.parametrize("part", [0.02, 0.3, 0.7, 0.99])
def test_a_file_cut_off_in_the_middle(file: Path, part: float) -> None:
    asyncio.run(_fill(file))
    size = file.stat().st_size
    os.truncate(file, int(size * part))
    assert "is damaged" in _refusal(file, StoreCorrupt)


def test_a_file_that_others_can_read(file: Path) -> None:
    asyncio.run(_fill(file))
    file.chmod(0o640)
    sentence = _refusal(file, StoreUnavailable)
    assert "mode 640" in sentence
    assert f"chmod 600 {file}" in sentence


def test_a_file_of_somebody_else_is_not_to_be_made_unreadable(tmp_path: Path) -> None:
    """`--store /etc/passwd` with the advice `chmod 600 /etc/passwd` would lock everybody out."""
    other = tmp_path / "passwd"
    other.write_text("root:x:0:0:root:/root:/bin/bash\n")
    other.chmod(0o644)
    sentence = _refusal(other, StoreUnavailable)
    assert sentence == f"{other} is no store: SQLite's files begin otherwise. Name the store's own file"


def test_a_file_whose_place_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a file, no directory")
    sentence = _refusal(tmp_path / "plain" / "store.db", StoreUnavailable)
    assert "plain" in sentence


def test_a_path_that_is_too_long_for_sqlite_is_what_is_said(tmp_path: Path) -> None:
    """Of 505 bytes and more; it was said that this user may not write there."""
    longest = tmp_path
    while len(os.fsencode(longest)) < 520:
        longest /= "x" * 100
    (tmp_path / "short").symlink_to(longest)
    for directory in (longest, tmp_path / "short"):
        longest.mkdir(parents=True, exist_ok=True)
        sentence = _refusal(directory / "store.db", StoreUnavailable)
        assert sentence.endswith("SQLite takes no path of about 500 bytes or more. Name a shorter directory")


@each([("short", sqlite3.SQLITE_CANTOPEN), ("x" * 500, sqlite3.SQLITE_READONLY)])
def test_what_may_not_be_written_is_not_called_too_long(name: str, code: int) -> None:
    refused = sqlite3.OperationalError()
    refused.sqlite_errorcode = code
    assert "This user must be able to write" in str(database.translate(refused, Path("/", name, "store.db")))


def test_a_file_locked_by_another_program(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_fill(file))
    monkeypatch.setattr(database, "LOCK_PATIENCE_S", 0.05)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    sentence = _refusal(file, StoreUnavailable)
    known = f"by process {os.getpid()};" if holder.LOCKS.exists() else f"fuser {file}"
    assert known in sentence
    other.execute("ROLLBACK")
    other.close()
    asyncio.run(_usable(file))


async def _usable(file: Path) -> None:
    store = await EmbeddedStore.open(file, LONG_MS)
    assert (await store.get("/n7")).data == b"x" * 500
    await store.close()


def test_a_lock_whose_holder_cannot_be_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_fill(file))
    monkeypatch.setattr(holder, "LOCKS", file.parent / "no such file")
    assert f"fuser {file}" in holder.describe(file)


def test_a_session_suffers_a_lock_and_goes_on(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the lock is held nothing is written, nothing is lost, and nobody is taken for dead."""
    monkeypatch.setattr(database, "LOCK_PATIENCE_S", 0.05)

    async def run() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        states: list[SessionState] = []
        store.listen(on_session=states.append)
        await store.create("/e", b"0", ephemeral=True)
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.set("/e", b"1")
        # Told behind the error, by the same thread; a look that succeeds may end it at once.
        async with asyncio.timeout(60):
            while SessionState.SUSPENDED not in states:
                await store.exists("/e")
        assert (await store.get("/e")).data == b"0", "reading needs no lock"
        other.execute("ROLLBACK")
        other.close()
        await store.set("/e", b"2")
        assert (await store.get("/e")).data == b"2"
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
        await store.close()

    asyncio.run(run())


async def _on_worker(store: EmbeddedStore, body: Callable[[Worker], object]) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def finished(outcome: object) -> None:
        loop.call_soon_threadsafe(done.set)

    store._worker.submit(Job(body, finished, finished))
    await done.wait()


def test_a_full_disk_changes_nothing_and_passes(file: Path) -> None:
    async def run() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        await store.create("/a", b"old")

        def limit_pages(worker: Worker) -> None:
            pages = worker._database.execute("PRAGMA page_count").fetchone()[0]
            worker._database.execute(f"PRAGMA max_page_count = {pages + 3}")

        await _on_worker(store, limit_pages)
        large = [ConditionalOps((Create(f"/large{number}", b"x" * 4000),)) for number in range(50)]
        with pytest.raises(StoreUnavailable, match="no room left"):
            await store.write([ConditionalOps((Set("/a", b"new", 0),)), *large], None)
        assert (await store.get("/a")).data == b"old"
        assert await store.children("/") == ["a"]
        await _on_worker(store, lambda worker: worker._database.execute("PRAGMA max_page_count = 100000"))
        assert await store.write(large, None) == [Stored(0)] * 50
        assert store.state is SessionState.CONNECTED
        await store.close()

    asyncio.run(run())


def test_a_limit_of_the_size_of_files_is_named_and_not_only_the_disk(file: Path) -> None:
    async def run() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        await store.create("/a", b"old")
        room = 100_000
        large = [ConditionalOps((Create(f"/large{number}", b"x" * 4000),)) for number in range(50)]
        with (
            full_disk(room),
            pytest.raises(StoreUnavailable, match=rf"larger than {room} bytes here.*ulimit -f"),
        ):
            await store.write([ConditionalOps((Set("/a", b"new", 0),)), *large], None)
        assert (await store.get("/a")).data == b"old" and await store.children("/") == ["a"]
        assert await store.write(large, None) == [Stored(0)] * 50
        await store.close()
        unlimited = sqlite3.OperationalError("disk I/O error")
        unlimited.sqlite_errorcode = database._SQLITE_IOERR
        said = str(database.translate(unlimited, file))
        assert "dmesg" in said and "ulimit" not in said

    asyncio.run(run())


def test_a_session_that_can_show_no_sign_of_life_ends_in_time_and_the_next_can_begin(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that turned read-only. A worker that died of it would leave every call without an answer."""

    def refused(*args: object, **kwargs: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    async def run() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        life = store._worker._life
        assert life is not None
        states: list[SessionState] = []
        store.listen(on_session=states.append)
        await store.create("/e", b"mine", ephemeral=True)
        with monkeypatch.context() as read_only:
            read_only.setattr(os, "pwrite", refused)
            read_only.setattr(Path, "unlink", refused)
            async with asyncio.timeout(60):
                while store.state is not SessionState.SUSPENDED:
                    await store.exists("/e")
                last = life.last_beat_ns
                assert (await store.get("/e")).data == b"mine", "reading goes on"
                await _on_worker(store, lambda worker: worker._beat())
                assert life.last_beat_ns == last, "what cannot be written was no sign of life"
                # The clock is moved, not waited for.
                long_ago = time.monotonic_ns() - HOUR_NS
                await _on_worker(store, lambda worker: setattr(life, "last_beat_ns", long_ago))
                with pytest.raises(SessionExpired):
                    while True:
                        await store.exists("/e")
                while store.state is SessionState.SUSPENDED:
                    await asyncio.sleep(0)
            assert states == [SessionState.SUSPENDED, SessionState.EXPIRED]
            files = len(os.listdir("/proc/self/fd"))
            for _ in range(3):
                with pytest.raises(StoreUnavailable, match="cannot hold a session: Read-only file system"):
                    await EmbeddedStore.open(file, LONG_MS)
            assert len(os.listdir("/proc/self/fd")) == files
        again = await EmbeddedStore.open(file, LONG_MS)
        assert await again.exists("/e") is None
        await again.close()

    asyncio.run(run())


def test_signs_of_life_that_fail_for_a_moment_are_told_and_pass_by_themselves(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def run() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        heard: asyncio.Queue[SessionState] = asyncio.Queue()
        store.listen(on_session=heard.put_nowait)
        async with asyncio.timeout(60):
            with monkeypatch.context() as failing:
                failing.setattr(os, "pwrite", refused)
                assert await heard.get() is SessionState.SUSPENDED
            assert await heard.get() is SessionState.CONNECTED, "although nobody asks it for anything"
        await store.close()

    asyncio.run(run())


READ_ONLY_CHILD = """
import asyncio, os, sys, urllib.parse
from pathlib import Path
from odradek.store.api import StoreUnavailable
from odradek.store.embedded import EmbeddedStore
if os.getuid() == 0:  # after the imports, those of pathlib too: this user may not be able to read Python itself
    os.setgid(65534)
    os.setuid(65534)
try:
    asyncio.run(EmbeddedStore.open(Path(sys.argv[1])))
except StoreUnavailable as error:
    print(error)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """Not below pytest's own directory: each pytest that begins shuts it to other users again."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def test_a_store_that_this_user_cannot_write(place: Path) -> None:
    """As another user when the tests run as root, for whom nothing is forbidden."""
    directory = place / "shared"
    file = directory / "store.db"
    asyncio.run(_fill(file))
    file.chmod(0o400)
    directory.chmod(0o555)
    for parent in (place, *place.parents):
        if not parent.stat().st_mode & 0o001 and os.getuid() == 0:
            os.chmod(parent, parent.stat().st_mode | 0o011)
    if os.getuid() == 0:
        os.chown(file, 65534, 65534)
    try:
        child = subprocess.run(
            [sys.executable, "-c", READ_ONLY_CHILD, str(file)],
            capture_output=True,
            text=True,
        )
        assert "must be able to write" in child.stdout, child.stdout + child.stderr
    finally:
        directory.chmod(0o700)


def test_a_store_that_was_salvaged_is_written_while_others_read_it(file: Path) -> None:
    """What `.recover` or VACUUM INTO makes has a rollback journal: there nobody can commit while somebody reads."""
    asyncio.run(_fill(file))
    salvaged = file.with_name("salvaged.db")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM INTO ?", (str(salvaged),))
    salvaged.chmod(0o600)
    before = salvaged.read_bytes()
    database.Database(salvaged, create=False).close()
    assert salvaged.read_bytes() == before, "whoever only reads changes nothing"

    async def run() -> None:
        store = await EmbeddedStore.open(salvaged, LONG_MS)
        with closing(sqlite3.connect(salvaged, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM nodes").fetchone() == (201,)
            assert (await store.set("/n0", b"new")).version == 1
        await store.close()

    asyncio.run(run())


def test_a_salvaged_store_that_was_cut_off_is_left_as_it_is(file: Path) -> None:
    """Whoever looks for what is left wants it as it was found."""
    asyncio.run(_fill(file))
    salvaged = file.with_name("salvaged.db")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM INTO ?", (str(salvaged),))
    salvaged.chmod(0o600)
    os.truncate(salvaged, int(salvaged.stat().st_size * 0.99))
    before = salvaged.read_bytes()
    assert "it was cut off" in _refusal(salvaged, StoreCorrupt)
    assert salvaged.read_bytes() == before


def test_a_salvaged_store_that_another_broker_opens_just_now_is_waited_for(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who makes it one with a log locks it for a moment, at any step of those who open it meanwhile."""
    asyncio.run(_fill(file))
    salvaged = file.with_name("salvaged.db")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM INTO ?", (str(salvaged),))
    salvaged.chmod(0o600)
    other = sqlite3.connect(salvaged, isolation_level=None)
    check_format = database.Database._check_format

    def checked(opening: database.Database) -> None:
        check_format(opening)
        other.execute("BEGIN EXCLUSIVE")

    monkeypatch.setattr(database.Database, "_check_format", checked)
    database.Database(salvaged, while_waiting=lambda: other.close()).close()


def test_two_that_make_the_store_at_the_same_time_make_one(tmp_path: Path) -> None:
    async def run() -> None:
        file = tmp_path / "store.db"
        sessions = await asyncio.gather(*(EmbeddedStore.open(file, LONG_MS) for _ in range(6)))
        for number, session in enumerate(sessions):
            await session.create(f"/n{number}")
        assert len(await sessions[0].children("/")) == 6
        for session in sessions:
            await session.close()

    asyncio.run(run())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store.db", "store.db-sessions"]


def test_a_store_whose_directory_of_sessions_was_lost_starts_again(file: Path) -> None:
    """Copied without it, as a backup is: the sessions in the copy have no owner."""
    import shutil

    async def leave_open() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        await store.create("/e", ephemeral=True)
        await _on_worker(store, lambda worker: worker._finish(SessionState.EXPIRED))

    asyncio.run(leave_open())
    shutil.rmtree(file.parent / "store.db-sessions")

    async def run() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        assert await store.exists("/e") is None
        await store.close()

    asyncio.run(run())


def test_a_session_that_cannot_be_made_leaves_nothing_open_and_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker asks for one ten times a second."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "mkfifo", refuse)
    before = os.listdir("/proc/self/fd")
    for session_id in range(3):
        with pytest.raises(StoreUnavailable, match="cannot hold a session: Operation not permitted"):
            OwnLife(tmp_path, session_id, 0)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert list(tmp_path.iterdir()) == []
