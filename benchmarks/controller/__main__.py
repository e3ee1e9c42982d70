"""The controller at size, on all three stores.

    python -m benchmarks.controller [--partitions 1000,10000,100000,200000] [--stores memory,embedded,zookeeper]
                                    [--only failover,...] [--repeats 3] [--no-memory] [--write]

One process measures; nothing runs beside it but the ZooKeeper server. Figures are medians; the range and the load
of the machine stand with them. `--write` puts the tables into docs/controller-scale.md.
"""

import argparse
import asyncio
import datetime
import gc
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.controller import figures, memory
from benchmarks.controller.cluster import BROKERS, Cluster, topics_for
from benchmarks.controller.figures import Sample
from benchmarks.controller.stores import SAID, STORES, opened, why_not
from benchmarks.controller.works import WORKS

DEFAULT_SIZES = (1_000, 10_000, 100_000, 200_000)
PAGE = Path(__file__).parents[2] / "docs" / "controller-scale.md"
BEGIN, END = "<!-- begin: make bench-controller -->", "<!-- end: make bench-controller -->"
TITLES = {name: title for name, (title, _) in WORKS.items()}


async def measure(kind: str, partitions: int, works: list[str], repeats: int) -> list[Sample]:
    samples = []
    async with opened(kind) as (stores, directory, server_cpu_seconds):
        cluster = Cluster(stores, directory, partitions, server_cpu_seconds)
        await cluster.start()
        gc.collect()
        gc.freeze()
        try:
            for _ in range(repeats):
                for name in works:
                    load = os.getloadavg()[0]
                    stretch, touched = await WORKS[name][1](cluster)
                    sample = Sample(
                        kind,
                        partitions,
                        name,
                        touched,
                        stretch.seconds,
                        stretch.cpu_seconds,
                        stretch.store_seconds,
                        stretch.server_cpu_seconds,
                        stretch.afterwards_cpu_seconds,
                        stretch.counts,
                        load,
                    )
                    samples.append(sample)
                    print(_line(sample), flush=True)
                    await cluster.resign()
        finally:
            gc.unfreeze()
        await cluster.stop()
    return samples


def _line(sample: Sample) -> str:
    each = sample.seconds / sample.touched * 1e6
    return (
        f"{sample.store:>9} {sample.partitions:>7} {sample.work:<14} {sample.seconds:8.3f} s"
        f"  cpu {sample.cpu_seconds:7.3f}  store {sample.store_seconds:7.3f}"
        f"  server {sample.server_cpu_seconds:6.2f}  after {sample.afterwards_cpu_seconds:6.2f}  {each:7.1f} us each"
        f"  load {sample.load:.1f}  {json.dumps(sample.counts)}"
    )


def report(samples: list[Sample], memories: list[memory.Memory], repeats: int) -> str:
    stores = dict.fromkeys(sample.store for sample in samples)
    loads = [sample.load for sample in samples]
    parts = [
        f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}, {_machine()}, CPython {platform.python_version()}; "
        f"one process at `nice {os.nice(0)}`; {repeats} repeats, median (least - most) in seconds; load of the machine "
        f"{min(loads, default=0):.1f} - {max(loads, default=0):.1f}. Replication factor 3, {len(BROKERS)} brokers, "
        f"{topics_for(DEFAULT_SIZES[0])} to {topics_for(DEFAULT_SIZES[-1])} topics. "
        + "; ".join(f"{kind}: {SAID[kind]}" for kind in stores)
        + ".",
        figures.table(samples, TITLES) if samples else "",
        "Where the seconds of 100,000 partitions go:",
        figures.costs_table(samples, TITLES),
        "Counted in one repeat at the largest size, and how each count grows with the number of partitions:",
        figures.counts_table(samples, TITLES) if samples else "",
    ]
    if memories:
        parts += [
            "Memory of the controller, bytes a partition (wanted: <= 1,000):",
            "| partitions | held after the load | held after a broker's bounce | resident after the load | after the bounce |",
        ]
        rows = ["|---|---|---|---|---|"]
        rows += [
            f"| {m.partitions:,} | {m.held_after_load:,.0f} | {m.held_after_bounce:,.0f} | "
            f"{m.resident_after_load:,.0f} | {m.resident_after_bounce:,.0f} |"
            for m in memories
        ]
        parts[-1] += "\n" + "\n".join(rows)
    return "\n\n".join(parts)


def _machine() -> str:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory_gib:.0f} GiB, {platform.system()} {platform.release().split('-')[0]}"


def write_page(text: str) -> None:
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.controller", description=__doc__)
    parser.add_argument("--partitions", default=",".join(map(str, DEFAULT_SIZES)))
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--only", default=",".join(WORKS), help="which works: " + ", ".join(WORKS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-memory", action="store_true", help="without the memory of the context")
    parser.add_argument("--write", action="store_true", help=f"put the tables into docs/{PAGE.name}")
    parser.add_argument("--json", type=Path, help="keep the samples in this file")
    parser.add_argument(
        "--kept", type=Path, nargs="*", default=[], help="files of samples that are reported too"
    )
    chosen = parser.parse_args(arguments)
    sizes = [int(size) for size in chosen.partitions.split(",")]
    works = chosen.only.split(",")
    unknown = [name for name in works if name not in WORKS]
    if unknown:
        parser.error(f"no such work: {', '.join(unknown)}; there are {', '.join(WORKS)}")
    samples: list[Sample] = []
    for kind in filter(None, chosen.stores.split(",")):
        reason = why_not(kind)
        if reason is not None:
            print(f"{kind}: not measured: {reason}")
            continue
        for size in sizes:
            samples += asyncio.run(measure(kind, size, works, chosen.repeats))
    memories = [] if chosen.no_memory else [memory.measure(size) for size in sizes]
    for file in chosen.kept:
        kept = json.loads(file.read_text())
        samples += [Sample(**values) for values in kept["samples"]]
        memories += [memory.Memory(**values) for values in kept["memory"]]
    text = report(samples, memories, chosen.repeats)
    print(text)
    if chosen.json is not None:
        values = {"samples": [asdict(s) for s in samples], "memory": [asdict(m) for m in memories]}
        chosen.json.write_text(json.dumps(values, indent=1))
    if chosen.write:
        write_page(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
