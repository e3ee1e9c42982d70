"""Who holds the write lock of a store, for the sentence that tells of it. Linux says so in /proc/locks.

Looked up from outside: to ask through a descriptor of the file (F_GETLK) would mean to close one, and that drops
SQLite's own locks (see `database`).
"""

from __future__ import annotations

from pathlib import Path

# sqlite.org/walformat.html: the byte of the index that a writer locks.
_WRITE_LOCK_BYTE = 120
LOCKS = Path("/proc/locks")


def describe(store: Path) -> str:
    """`process 4711, which is stopped (kill -CONT 4711 lets it go on)`; what can be said where we cannot tell."""
    pid = _writer(store)
    if pid is None:
        return f"another process (`fuser {store}` tells which have it open)"
    if _is_stopped(pid):
        return f"process {pid}, which is stopped (`kill -CONT {pid}` lets it go on)"
    return f"process {pid}"


def _writer(store: Path) -> int | None:
    try:
        index = store.with_name(f"{store.name}-shm").stat()
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        # 1: POSIX  ADVISORY  WRITE 24385 fe:00:9987317 120 120
        fields = line.split()
        if len(fields) == 8 and fields[1] == "POSIX" and fields[3] == "WRITE":
            inode, first = fields[5].rpartition(":")[2], fields[6]
            if inode == str(index.st_ino) and first == str(_WRITE_LOCK_BYTE):
                return int(fields[4])
    return None


def _is_stopped(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # The name in brackets may hold anything; the state is the letter after it.
    return status.rpartition(")")[2].split()[0] in "Tt"
