"""The three stores, each opened empty for one size and gone afterwards."""

import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from odradek.store.api import StoreProvider
from odradek.store.embedded import EmbeddedStores
from odradek.store.memory_session import MemoryEnsemble

MEMORY, EMBEDDED, ZOOKEEPER = "memory", "embedded", "zookeeper"
STORES = (MEMORY, EMBEDDED, ZOOKEEPER)
# What must be said beside a figure of this store.
SAID = {
    MEMORY: "a tree in the same process and thread",
    EMBEDDED: "SQLite, WAL, synchronous=FULL, on this machine's disk",
    ZOOKEEPER: "one ZooKeeper 3.9.5 server on the same machine, data on tmpfs, forceSync=no",
}
# Three nodes a partition, and room for the collector.
ZOOKEEPER_HEAP = "1500m"


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[tuple[StoreProvider, Path, Callable[[], float]]]:
    """Where sessions come from, a directory on the disk for the controller's own files, and what processor time
    the store's server has used, if it has one."""
    with tempfile.TemporaryDirectory(prefix="odradek-controller-") as name:
        directory = Path(name)
        if kind == MEMORY:
            yield MemoryEnsemble(), directory, _no_server
        elif kind == EMBEDDED:
            yield EmbeddedStores(directory / "store.db"), directory, _no_server
        else:
            async with _zookeeper() as (stores, server_cpu_seconds):
                yield stores, directory, server_cpu_seconds


@asynccontextmanager
async def _zookeeper() -> AsyncIterator[tuple[StoreProvider, Callable[[], float]]]:
    from odradek.store.zookeeper.stores import ZooKeeperStores
    from odradek.testing.zookeeper import ZooKeeperServer

    shared_memory = Path("/dev/shm")
    where = shared_memory if shared_memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="odradek-zookeeper-", dir=where) as name:
        server = ZooKeeperServer(Path(name), heap=ZOOKEEPER_HEAP, starts_fast=False).start()
        process_id = server.pid
        _as_urgent_as_we(process_id)
        try:
            yield ZooKeeperStores(server.address), lambda: _cpu_seconds(process_id)
        finally:
            server.kill()


def _no_server() -> float:
    return 0.0


def _as_urgent_as_we(process_id: int) -> None:
    """A session of its own is a group of its own to Linux's scheduler, and priorities count within groups."""
    ours = Path("/proc/self/autogroup")
    if ours.exists():
        priority = ours.read_text(encoding="ascii").rsplit(" ", 1)[1].strip()
        Path(f"/proc/{process_id}/autogroup").write_text(priority, encoding="ascii")


def _cpu_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def why_not(kind: str) -> str | None:
    """Why this store cannot be measured here, if it cannot."""
    if kind != ZOOKEEPER:
        return None
    from odradek.testing.zookeeper import missing

    return missing()
