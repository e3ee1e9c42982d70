"""The three stores, each opened empty for one size and gone afterwards."""

import tempfile
from collections.abc import AsyncIterator
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
async def opened(kind: str) -> AsyncIterator[tuple[StoreProvider, Path]]:
    """Where sessions come from, and a directory on the disk for the controller's own files."""
    with tempfile.TemporaryDirectory(prefix="odradek-controller-") as name:
        directory = Path(name)
        if kind == MEMORY:
            yield MemoryEnsemble(), directory
        elif kind == EMBEDDED:
            yield EmbeddedStores(directory / "store.db"), directory
        else:
            async with _zookeeper() as stores:
                yield stores, directory


@asynccontextmanager
async def _zookeeper() -> AsyncIterator[StoreProvider]:
    from tests.conformance.zookeeper_server import ZooKeeperServer

    from odradek.store.zookeeper.stores import ZooKeeperStores

    shared_memory = Path("/dev/shm")
    where = shared_memory if shared_memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="odradek-zookeeper-", dir=where) as name:
        server = ZooKeeperServer(Path(name), heap=ZOOKEEPER_HEAP, starts_fast=False)
        server.start()
        try:
            yield ZooKeeperStores(server.address)
        finally:
            server.kill()


def why_not(kind: str) -> str | None:
    """Why this store cannot be measured here, if it cannot."""
    if kind != ZOOKEEPER:
        return None
    from tests.conformance.zookeeper_server import missing

    return missing()
