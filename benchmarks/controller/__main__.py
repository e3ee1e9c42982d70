"""The controller at size, on all three stores.

    python -m benchmarks.controller [--partitions 1000,10000,100000,200000] [--stores memory,embedded,zookeeper]
                                    [--only failover,...] [--repeats 3] [--no-memory] [--write]

One process measures; nothing runs beside it but the ZooKeeper server. Figures are medians; the range and the load of the
machine stand with them. Any part may be measured by itself: `--write` puts the new figures in the place of the old ones
of the same work, store and size, and makes the tables of docs/controller-scale.md anew. `--partitions= --write` makes the
tables alone.
"""

import argparse
import asyncio
import datetime
import gc
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.controller import figures, kept, memory
from benchmarks.controller.cluster import BROKERS, Cluster, topics_for
from benchmarks.controller.figures import QUIET_LOAD, Sample
from benchmarks.controller.kept import FILE, Kept
from benchmarks.controller.stores import SAID, STORES, opened, why_not
from benchmarks.controller.works import SCENARIOS, WORKS, Done

DEFAULT_SIZES = (1_000, 10_000, 100_000, 200_000)
PAGE = Path(__file__).parents[2] / "docs" / "controller-scale.md"
BEGIN, END = "<!-- begin: make bench-controller -->", "<!-- end: make bench-controller -->"


async def measure(kind: str, partitions: int, works: list[str], repeats: int) -> list[Sample]:
    samples = []
    begun = time.monotonic()
    async with opened(kind) as (stores, directory, server_cpu_seconds):
        cluster = Cluster(stores, directory, partitions, server_cpu_seconds)
        await cluster.start()
        print(f"{kind:>9} {partitions:>7} filled in {time.monotonic() - begun:.0f} s", flush=True)
        gc.collect()
        gc.freeze()
        try:
            for _ in range(repeats):
                for told_of, scenario in SCENARIOS:
                    if set(told_of).isdisjoint(works):
                        continue
                    begun, load = time.monotonic(), os.getloadavg()[0]
                    async for done in scenario(cluster, works):
                        if done.work not in works:
                            continue
                        sample = _sample(kind, partitions, done, load)
                        samples.append(sample)
                        print(f"{_line(sample)}  after {time.monotonic() - begun:.0f} s", flush=True)
                        load = os.getloadavg()[0]
                    await cluster.resign()
        finally:
            gc.unfreeze()
        await cluster.stop()
    return samples


def _sample(kind: str, partitions: int, done: Done, load: float) -> Sample:
    stretch = done.stretch
    return Sample(
        kind,
        partitions,
        done.work,
        done.touched,
        stretch.seconds,
        stretch.cpu_seconds,
        stretch.store_seconds,
        stretch.server_cpu_seconds,
        stretch.afterwards_cpu_seconds,
        stretch.counts,
        load,
        f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}",
    )


def _line(sample: Sample) -> str:
    each = sample.seconds / sample.touched * 1e6
    return (
        f"{sample.store:>9} {sample.partitions:>7} {sample.work:<14} {sample.seconds:8.3f} s"
        f"  cpu {sample.cpu_seconds:7.3f}  store {sample.store_seconds:7.3f}"
        f"  server {sample.server_cpu_seconds:6.2f}  after {sample.afterwards_cpu_seconds:6.2f}  {each:7.1f} us each"
        f"  load {sample.load:.1f}  {json.dumps(sample.counts)}"
    )


def report(measured: Kept) -> str:
    samples = measured.samples
    stores = dict.fromkeys(sample.store for sample in samples)
    days = sorted({sample.taken for sample in samples if sample.taken})
    parts = [
        f"{' to '.join(dict.fromkeys((days[0], days[-1]))) if days else ''}, {_machine()}, CPython "
        f"{platform.python_version()}; median (least - most) of the repeats in seconds, one figure where there was one; "
        f"{_load(samples)}: other work ran. Replication factor 3, {len(BROKERS)} brokers, "
        f"{topics_for(DEFAULT_SIZES[0])} to {topics_for(DEFAULT_SIZES[-1])} topics. "
        + "; ".join(f"{kind}: {SAID[kind]}" for kind in STORES if kind in stores)
        + ".",
        figures.table(samples, WORKS),
        *(
            [
                f"Where the seconds of {figures.GOAL_AT:,} partitions go:",
                figures.costs_table(samples, WORKS),
            ]
            if any(sample.partitions == figures.GOAL_AT for sample in samples)
            else []
        ),
        "Counted in one repeat, and how each count grows with the number of partitions:",
        figures.counts_table(samples, WORKS),
    ]
    if measured.memories:
        rows = [
            "| partitions | held after the load | held after a broker's bounce | resident after the load | after the bounce |",
            "|---|---|---|---|---|",
            *(
                f"| {m.partitions:,} | {m.held_after_load:,.0f} | {m.held_after_bounce:,.0f} | "
                f"{m.resident_after_load:,.0f} | {m.resident_after_bounce:,.0f} |"
                for m in measured.memories
            ),
        ]
        parts += ["Memory of the controller, bytes a partition (wanted: <= 1,000):", "\n".join(rows)]
    return "\n\n".join(parts)


def _load(samples: Sequence[Sample]) -> str:
    """Of the quiet samples, where there are any; what `*` stands for."""
    loads = [sample.load for sample in samples]
    quiet = [load for load in loads if load <= QUIET_LOAD]
    shown = quiet or loads or [0.0]
    mark = f"with \\* above {QUIET_LOAD:g}" if quiet else f"and \\* stands for more than {QUIET_LOAD:g}"
    return f"load of the machine {min(shown):.1f} - {max(shown):.1f}, {mark}"


def _machine() -> str:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory_gib:.0f} GiB, {platform.system()} {platform.release().split('-')[0]}"


def write_page(text: str) -> None:
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.controller",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--partitions", default=",".join(map(str, DEFAULT_SIZES)))
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--only", default=",".join(WORKS), help="which works: " + ", ".join(WORKS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-memory", action="store_true", help="without the memory of the context")
    parser.add_argument(
        "--write",
        action="store_true",
        help=f"keep the figures in {FILE.name}, and put the tables into docs/{PAGE.name}",
    )
    chosen = parser.parse_args(arguments)
    sizes = [int(size) for size in filter(None, chosen.partitions.split(","))]
    works = chosen.only.split(",")
    unknown = [name for name in works if name not in WORKS]
    if unknown:
        parser.error(f"no such work: {', '.join(unknown)}; there are {', '.join(WORKS)}")
    begun = time.monotonic()
    new = Kept()
    for kind in filter(None, chosen.stores.split(",")):
        reason = why_not(kind)
        if reason is not None:
            print(f"{kind}: not measured: {reason}")
            continue
        for size in sizes:
            new = new.with_new(asyncio.run(measure(kind, size, works, chosen.repeats)), ())
            if chosen.write:  # as it comes, for a long run may be stopped
                kept.write(kept.read().with_new(new.samples, ()))
    if not chosen.no_memory:
        new = new.with_new((), [memory.measure(size) for size in sizes])
    if not chosen.write:
        print(report(new))
    else:
        every = kept.read().with_new(new.samples, new.memories)
        kept.write(every)
        write_page(report(kept.read()))  # as it stands in the file, rounded
    print(f"measured in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
