"""The SQLite file: how it comes to be, what makes it unusable, and transactions over it.

Invariants, each kept by the transaction that could break it:
1. `meta.zxid` is the id of the last transaction; ids only grow.
2. Every committed change stands in `changes` under its transaction id, in order, until it is pruned. Who has
   read up to an id and finds a later `meta.zxid` finds all that lies between in `changes`.
3. A node with an owner has a row in `sessions` for that owner.
4. `children` of a node is the number of rows below it, `creations` the number that ever were.

The file is made elsewhere and linked into place whole, so an empty file is always a truncated one.
Never open the file by other means in a process that has it open: closing that descriptor would drop SQLite's
own locks (POSIX locks belong to the process; sqlite.org/howtocorrupt.html, 2.2).
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from odradek.store.api import StoreCorrupt, StoreError, StoreUnavailable
from odradek.store.embedded import holder
from odradek.store.embedded.file import OpenFile, WhyNot, had_one, missing
from odradek.store.embedded.remedies import NO_DESCRIPTOR, is_out_of_descriptors, small_files

T = TypeVar("T")

FORMAT_VERSION = 1
APPLICATION_ID = 0x4F44524B  # "ODRK"

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT_VERSION};
CREATE TABLE meta (zxid INTEGER NOT NULL, pruned_zxid INTEGER NOT NULL);
INSERT INTO meta VALUES (0, 0);
CREATE TABLE nodes (
    parent    TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    data      BLOB    NOT NULL,
    version   INTEGER NOT NULL,
    creations INTEGER NOT NULL,
    children  INTEGER NOT NULL,
    czxid     INTEGER NOT NULL,
    mzxid     INTEGER NOT NULL,
    owner     INTEGER NOT NULL,
    PRIMARY KEY (parent, name)
) WITHOUT ROWID;
INSERT INTO nodes VALUES ('', '', x'', 0, 0, 0, 0, 0, 0);
CREATE INDEX ephemerals ON nodes (owner) WHERE owner <> 0;
CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, timeout_ms INTEGER NOT NULL, pid INTEGER NOT NULL);
CREATE TABLE changes (zxid INTEGER PRIMARY KEY, lines TEXT NOT NULL);
"""

# A transaction of another process takes 0.2 ms, of 100,000 partitions a second. Much longer means that its owner
# is stopped in the middle (SIGSTOP) or a foreign program holds the file.
LOCK_PATIENCE_S = 10.0
# Of a path, the file's own name as it is made included (sqlite3's MAX_PATHNAME, 512, less what SQLite and `_create` append).
SURELY_OPENED_BYTES = 440
_LOCK_WAITS_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002)
# Wrong statements and values: nothing that a user could do something about.
_OUR_MISTAKES = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
# SQLite's codes; the primary code stands in the low byte.
_SQLITE_BUSY = 5
_SQLITE_READONLY = 8
_SQLITE_IOERR = 10
_SQLITE_CORRUPT = 11
_SQLITE_FULL = 13
_FIRST_BYTES = b"SQLite format 3\0"
_SQLITE_CANTOPEN = 14
_SQLITE_NOTADB = 26


class Database:
    """One connection. `while_waiting` is called again and again while another process holds the lock, and
    during long statements: the heartbeat must go on."""

    def __init__(
        self,
        path: Path,
        while_waiting: Callable[[], None] = lambda: None,
        *,
        create: bool = True,
        why_not: WhyNot = had_one,
    ) -> None:
        """`why_not`: why none may be made where there is none."""
        self.path = path
        self._while_waiting = while_waiting
        _check_or_create(path, create, why_not)
        self.file = OpenFile(path)
        try:
            # `rw`: one that went away meanwhile is not made again, empty.
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=64,
            )
        except sqlite3.Error as error:
            raise translate(error, path) from error
        self.execute = self._connection.execute
        self.executemany = self._connection.executemany
        try:
            self._retry(self._check_format)
            self._retry(self._check_length)
            if create:  # whoever only reads changes nothing
                self._retry(self._use_wal)
            self.execute("PRAGMA synchronous = FULL")
            self.execute("PRAGMA journal_size_limit = 16777216")
            with self.reading():
                self.file.opened()
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.Error):
                raise translate(error, path) from error
            raise
        self._connection.set_progress_handler(self._progress, 100_000)

    def _progress(self) -> int:
        self._while_waiting()
        return 0

    def close(self) -> None:
        self._connection.close()
        self.file.closed()

    def data_version(self) -> int:
        """Another number than before means that another connection has committed (3 us)."""
        try:
            return int(self._retry(lambda: self.execute("PRAGMA data_version").fetchone())[0])
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Within this, one state of the store, that of the last commit."""
        try:
            self.execute("BEGIN")
            try:
                # The first look fixes what is seen; only it can meet the lock of a recovery.
                self._retry(lambda: self.execute("SELECT zxid FROM meta").fetchone())
                yield
            finally:
                self._leave()
        except _OUR_MISTAKES:
            raise
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    def read(self, body: Callable[[], T]) -> T:
        with self.reading():
            return body()

    def write(self, body: Callable[[], T]) -> T:
        """`body` and nobody else; on disk when this returns, undone when it raises. StoreGone: it may be in a file that
        has no name any more."""
        try:
            self._retry(lambda: self.execute("BEGIN IMMEDIATE"))
            try:
                result = body()
                self.execute("COMMIT")
                self.file.check()
                return result
            except BaseException:
                self._leave()
                raise
        except _OUR_MISTAKES:
            raise
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    def _leave(self) -> None:
        # An error such as a full disk may have ended the transaction by itself.
        if self._connection.in_transaction:
            self.execute("ROLLBACK")

    def _check_format(self) -> None:
        application_id = self.execute("PRAGMA application_id").fetchone()[0]
        version = self.execute("PRAGMA user_version").fetchone()[0]
        if application_id != APPLICATION_ID:
            raise StoreCorrupt(
                message=f"{self.path} is a SQLite file of another program, not a store of Odradek. "
                "Name another file, or move this one away"
            )
        if version > FORMAT_VERSION:
            raise StoreUnavailable(
                message=f"{self.path} has format {version}; this version of Odradek knows formats up to "
                f"{FORMAT_VERSION}. Start it with the version that wrote it, or move the cluster with "
                "`odradek store export` there and `odradek store import` here"
            )

    def _use_wal(self) -> None:
        """A file that `.recover` or VACUUM INTO has made has a rollback journal: with it nobody can commit while somebody reads."""
        if self.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            self.execute("PRAGMA journal_mode = WAL")

    def _check_length(self) -> None:
        """SQLite reads a last page that was cut off as if the rest were zeros; we do not.

        While the log is empty all pages stand in the file itself, and the file never shrinks.
        """
        pages = self.execute("PRAGMA page_count").fetchone()[0]
        page_bytes = self.execute("PRAGMA page_size").fetchone()[0]
        try:
            if self.path.with_name(f"{self.path.name}-wal").stat().st_size > 0:
                return
        except FileNotFoundError:
            pass  # the last session that closes takes the log away
        found = self.path.stat().st_size
        if found < pages * page_bytes:
            raise _damaged(self.path, f"it was cut off: {found} of {pages * page_bytes} bytes are left")

    def _retry(self, step: Callable[[], T]) -> T:
        """SQLite's own waiting would neither beat the heart nor come back soon enough."""
        deadline = time.monotonic() + LOCK_PATIENCE_S
        attempt = 0
        while True:
            try:
                return step()
            except sqlite3.OperationalError as error:
                if _code(error) != _SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            self._while_waiting()
            time.sleep(_LOCK_WAITS_S[min(attempt, len(_LOCK_WAITS_S) - 1)])
            attempt += 1


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    """What SQLite says, as a sentence that says what to do."""
    code = _code(error)
    if code == _SQLITE_BUSY:
        return StoreUnavailable(
            message=f"{path} has been locked for {LOCK_PATIENCE_S:.0f} s by {holder.describe(path)}; nothing was "
            "changed. It goes on when that one does, or is gone"
        )
    if code in (_SQLITE_CORRUPT, _SQLITE_NOTADB):
        return _damaged(path, str(error))
    if code == _SQLITE_CANTOPEN and is_out_of_descriptors():
        return StoreUnavailable(message=f"{path} cannot be opened. {NO_DESCRIPTOR}")
    if code == _SQLITE_CANTOPEN and len(os.fsencode(path.resolve())) > SURELY_OPENED_BYTES:
        return StoreUnavailable(
            message=f"{path} cannot be opened ({error}): SQLite takes no path of about 500 bytes or more. Name a shorter directory"
        )
    if code in (_SQLITE_READONLY, _SQLITE_CANTOPEN):
        return StoreUnavailable(
            message=f"{path} cannot be written ({error}). This user must be able to write the file and its "
            "directory, and the file system must not be mounted read-only"
        )
    if code == _SQLITE_FULL:
        return StoreUnavailable(
            message=f"no room left for {path}; nothing was changed. Free space on its disk and try again"
        )
    if code == _SQLITE_IOERR:
        return StoreUnavailable(
            message=f"{path}: {error}; nothing was changed. {small_files()}Its disk fails or has turned read-only: see what the "
            "kernel says (dmesg)"
        )
    return StoreUnavailable(message=f"{path}: {error}; nothing was changed")


def _damaged(path: Path, how: str) -> StoreCorrupt:
    return StoreCorrupt(
        message=f"{path} is damaged ({how}). Stop all brokers; put back a copy, or salvage what is left "
        f"with `sqlite3 {path} .recover`. The records in the log directories are not affected"
    )


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def _check_or_create(path: Path, create: bool, why_not: WhyNot) -> None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        if not create:
            raise StoreUnavailable(message=f"there is no store at {path}") from None
        reason = why_not(path)
        if reason is not None:
            raise missing(path, reason) from None
        _create(path)
        stat = path.stat()
    except OSError as error:
        raise StoreUnavailable(message=f"{path} cannot be reached: {error.strerror}") from error
    if stat.st_mode & 0o077:
        # Read only where it is refused anyway: closing a file drops the locks that this process has on it.
        if stat.st_size and not _begins_as_sqlite(path):
            raise StoreUnavailable(
                message=f"{path} is no store: SQLite's files begin otherwise. Name the store's own file"
            )
        raise StoreUnavailable(
            message=f"{path} can be read by other users (mode {stat.st_mode & 0o777:o}), and it holds "
            f"configuration and credentials. `chmod 600 {path}`"
        )
    if stat.st_size == 0:
        raise StoreCorrupt(
            message=f"{path} is empty: it was cut off, for a store is never empty. Put back a copy; or remove "
            f"it, what begins with {path.name} beside it and all log directories to begin a new cluster"
        )


def _begins_as_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_FIRST_BYTES)) == _FIRST_BYTES


def _create(path: Path) -> None:
    """Whole or not at all: made beside, then linked into place. Of two that try at once, one wins and both go on."""
    beside = path.with_name(f".{path.name}.new-{os.getpid()}-{time.monotonic_ns()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise StoreUnavailable(
            message=f"{path} cannot be made: {error.strerror}. This user must be able to write {path.parent}"
        ) from error
    try:
        connection = sqlite3.connect(beside, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        finally:
            connection.close()
        try:
            os.link(beside, path)
        except FileExistsError:
            return  # the other one was quicker, and its file is as good
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        raise StoreUnavailable(message=f"{path} cannot be made: {error.strerror}") from error
    finally:
        os.unlink(beside)
