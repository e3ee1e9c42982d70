"""What a partition costs in memory: a process of its own, with nothing in it but one controller.

    python -m benchmarks.controller.memory PARTITIONS

`tracemalloc` counts what is still held after the term was loaded and the garbage collected: the context, the
watches, the facts, the outboxes. The resident set says what the kernel sees of the same, arenas and all; it is
taken in a process without tracemalloc. Both once after the load, when equal values are still shared, and once
after a broker has died and come back, when every partition has a state of its own.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import tracemalloc
from dataclasses import asdict, dataclass

from benchmarks.controller.cluster import VICTIM, Cluster
from benchmarks.controller.stores import EMBEDDED, opened


@dataclass(frozen=True)
class Memory:
    """Bytes a partition."""

    partitions: int
    held_after_load: float
    held_after_bounce: float
    resident_after_load: float
    resident_after_bounce: float


def measure(partitions: int) -> Memory:
    held = _child(partitions, traced=True)
    resident = _child(partitions, traced=False)
    return Memory(partitions, *held, *resident)


def _child(partitions: int, *, traced: bool) -> tuple[float, float]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.controller.memory",
        str(partitions),
        "held" if traced else "rss",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    after_load, after_bounce = json.loads(done.stdout)
    return after_load, after_bounce


async def _run(partitions: int, *, traced: bool) -> tuple[float, float]:
    def now() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0] if traced else resident_bytes()

    async with opened(EMBEDDED) as (stores, directory, _):
        # Filled by a process that is gone, so that nothing of the filling is in the figure.
        await _in_another_process(partitions, str(directory / "store.db"))
        cluster = Cluster(stores, directory, partitions)
        await cluster.start(is_filled=True)
        # What the first event imports and compiles is not a partition's.
        await cluster.lead()
        await cluster.resign()
        if traced:
            tracemalloc.start()
        before = now()
        await cluster.lead()
        await cluster.finish_journal()
        loaded = now() - before
        async with cluster.measured():
            await cluster.unregister(VICTIM)
        async with cluster.measured():
            await cluster.register(VICTIM)
        await cluster.finish_journal()
        bounced = now() - before
        if traced:
            tracemalloc.stop()
        await cluster.stop()
    return loaded / partitions, bounced / partitions


async def _in_another_process(partitions: int, path: str) -> None:
    command = [sys.executable, "-m", "benchmarks.controller.memory", str(partitions), "fill", path]
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0


async def _fill(partitions: int, path: str) -> None:
    from pathlib import Path

    from odradek.store.embedded import EmbeddedStores

    cluster = Cluster(EmbeddedStores(Path(path)), Path(path).parent / "filled", partitions)
    await cluster.start()
    await cluster.stop()


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(arguments: list[str]) -> None:
    partitions = int(arguments[0])
    what = arguments[1] if len(arguments) > 1 else ""
    if what == "fill":
        asyncio.run(_fill(partitions, arguments[2]))
    elif what:
        print(json.dumps(asyncio.run(_run(partitions, traced=what == "held"))))
    else:
        print(json.dumps(asdict(measure(partitions)), indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
