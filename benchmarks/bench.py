"""`make bench`: the table of P1 to P23, C1 to C7, T1, T8 and S1, ours and Apache Kafka in one run.

    python -m benchmarks.bench [--quick] [--only P8,P1] [--without-apache] [--repeats 3] [--write]

Both peers are up at the same time and are measured in turn, the order changing with every repeat. After each
cell the acknowledged records are read back and compared; a cell with a loss has no figure. `--write` puts
the table with machine and date into docs/benchmarks.md.
"""

import argparse
import contextlib
import datetime
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from benchmarks import calibration, clusters, groups, latencies, librdkafka, measures, transactions
from benchmarks.figures import Cell, Row, number, table
from odradek.testing.interruption import interruptible

ROOT = Path(__file__).parent.parent
CACHE = Path(os.environ.get("ODRADEK_BENCH_CACHE", Path.home() / ".cache" / "odradek-bench"))
SHAPES = ((1, 1), (1, 64), (8, 64))  # connections, requests in flight over all of them
ACKS = {1: "1", -1: "all"}

CELLS = [
    Cell(
        "P1",
        "P1",
        "produce 1 KB, acks=1, RF 1, librdkafka",
        "MB/s",
        ratio_reach=0.8,
        client_limit="mock_1kb_mb_s",
    ),
    Cell("P6", "P6", "consume 1 KB, hot, from the first record on, librdkafka", "MB/s", True, 1.2),
    Cell("P2", "P2", "produce 100 B, acks=1, RF 1, librdkafka", "records/s", client_limit="mock_100b_per_s"),
    Cell("P4", "P4", "produce 1 KB, acks=all, RF 3, librdkafka", "MB/s", True, 1.5),
    *(
        Cell(
            f"P8-{ACKS[acks]}-{connections}-{in_flight}",
            "P8",
            f"single records, {in_flight} in flight, {connections} connection{'s' if connections > 1 else ''}, "
            + ("acks=1" if acks == 1 else "acks=all RF 3"),
            "requests/s",
            True,
            1.5,
        )
        for acks in (1, -1)
        for connections, in_flight in SHAPES
    ),
    Cell("P9-1", "P9", "start of 1 broker to the first acknowledged produce", "ms", False, None, 300),
    Cell("P9-3", "P9", "start of 3 brokers to the first acknowledged produce", "ms", False, None, 1000),
    Cell("P10-idle", "P10", "memory of an idle broker", "MB", False, None, 100),
    Cell("P10-after", "P10", "memory of a broker after its load", "MB", False, None, 200),
    Cell("P11", "P11", "kill -9 of the leader to the next acks=all success", "ms", False),
    Cell("P11-p99", "P11", "the same, p99", "ms", False, None, 500),
    Cell("P11-both", "P11", "the same of a leader that is the controller too", "ms", False),
    Cell("P11-both-p99", "P11", "the same, p99", "ms", False, None, 500),
    Cell("P7", "P7", "end to end, 1,000 records/s, acks=all RF 3, median", "ms", False, None, 1),
    Cell("P19", "P19", "1,000 partitions RF 3, created and visible on all brokers", "ms", False, None, 500),
    Cell("P19-stall", "P19", "longest wait of another topic's client meanwhile", "ms", False, None, 10),
    Cell("P21-first", "P21", "Metadata, first of a connection, median", "ms", False),
    Cell("P21-second", "P21", "Metadata, second of a connection, median", "ms", False, None, 0.3),
    Cell("P22", "P22", "acks=all RF 3, 1 in flight, beside 2,000 followed partitions, median", "us", False),
    Cell("P23", "P23", "5,000 clients connect at once and are answered", "ms", False, None, 1000),
    Cell("C1", "C1", "10 consumers join a group of 100 partitions, initial delay 0", "ms", False, None, 200),
    Cell(
        "C2", "C2", "one of 500 consumers dies: stable after the end of its session", "ms", False, None, 1000
    ),
    Cell(
        "C3", "C3", "offset commits, one partition each, 8 connections, acks=all RF 3", "commits/s", True, 3
    ),
    Cell("C4", "C4", "a coordinator with 1,000,000 offsets is loaded", "ms", False, None, 3000),
    Cell("C4-stall", "C4", "longest wait of another request to it meanwhile", "ms", False, None, 50),
    Cell(
        "C5",
        "C5",
        "compaction of 1 GB of 1 KB records, 10 % unique keys",
        "MB/s of a core",
        True,
        None,
        None,
        100,
    ),
    Cell("C5-beside", "C5", "p99 of single records meanwhile, times what it was", "x", False, None, 2),
    Cell("C6", "C6", "2,000 idle members, a heartbeat each 3 s", "% of a core", False, None, 5),
    Cell("C6-memory", "C6", "what the broker grows by for them", "MB", False, None, 40),
    Cell("C7", "C7", "as P7, of a group's member that commits: median", "ms", False, None, 1),
    Cell("C7-p99", "C7", "the same, p99", "ms", False, None, 5),
    *(
        cell
        for producers, whose in ((1, "1 producer"), (8, "8 producers"))
        for cell in (
            Cell(
                f"T{producers}",
                f"T{producers}",
                f"transactions of 100 records in one partition, RF 3, {whose}, librdkafka",
                "transactions/s",
                True,
                2,
            ),
            Cell(f"T{producers}-commit", f"T{producers}", "the same, a commit, median", "ms", False, None, 5),
        )
    ),
    Cell("S1", "S1", "Spark source, records of 100 B, count and sum of lengths", "rows/s", floor=1_200_000),
]


class Bench:
    """One run: what was asked for, the peers there are, and the rows so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rows = {cell.key: Row(cell) for cell in CELLS}
        self.why_not: dict[str, str] = {}
        self.peers: list[type[clusters.Cluster]] = []
        if not options.without_odradek:
            self.peers.append(clusters.Odradek)
        problem = "left out" if options.without_apache else clusters.find_apache(CACHE)
        if problem is None:
            self.peers.append(clusters.Apache)
        else:
            self.why_not["apache"] = problem
        quick = options.quick
        self.repeats = options.repeats or (2 if quick else 3)
        self.load_s = 2.0 if quick else 4.0
        self.gigabytes = 1.0 if quick else 10.0
        self.partitions = 200 if quick else 1000
        self.followed = 400 if quick else 2000
        self.connections = 1000 if quick else 5000
        self.members = 100 if quick else 500
        self.offsets = 100_000 if quick else 1_000_000
        self.compacted_mb = 100 if quick else 1000
        self.idle_members = 400 if quick else 2000
        self.kills = options.kills or (5 if quick else 50)
        self.calibration: dict[str, float] = {}
        if quick:
            for key, whole, small in (
                ("P19", "1,000", f"{self.partitions:,}"),
                ("P22", "2,000", f"{self.followed:,}"),
                ("P23", "5,000", f"{self.connections:,}"),
                ("C2", "500", f"{self.members:,}"),
                ("C4", "1,000,000", f"{self.offsets:,}"),
                ("C5", "1 GB", f"{self.compacted_mb:,} MB"),
                ("C6", "2,000", f"{self.idle_members:,}"),
            ):
                cell = self.rows[key].cell
                self.rows[key] = Row(replace(cell, title=cell.title.replace(whole, small)))

    # A gigabyte together, made for whoever asks.
    @cached_property
    def large(self) -> librdkafka.Records:
        return librdkafka.Records(100_000 if self.options.quick else 500_000, 1024)

    @cached_property
    def medium(self) -> librdkafka.Records:
        return librdkafka.Records(50_000 if self.options.quick else 300_000, 1024)

    @cached_property
    def small(self) -> librdkafka.Records:
        return librdkafka.Records(400_000 if self.options.quick else 2_000_000, 100)

    def wants(self, *measured: str) -> bool:
        return not self.options.only or any(name in self.options.only for name in measured)

    def calibrate(self) -> None:
        say("calibration")
        self.calibration = calibration.calibrate(self.options.dir, self.large, self.small, 3)
        for name, value in self.calibration.items():
            say(f"  {name} {number(value)}")

    def run(self) -> None:
        self.calibrate()
        if self.wants("P1", "P2", "P6", "P8"):
            self.one_broker()
        if self.wants("P4", "P7", "P8", "P21"):
            self.three_brokers()
        if self.wants("P19"):
            self.topics_of_many_partitions()
        if self.wants("P22"):
            self.beside_followed_partitions()
        if self.wants("P23"):
            self.connects()
        if self.wants("P9"):
            self.starts()
        if self.wants("P10"):
            self.memory()
        if self.wants("P11"):
            self.kills_of_leaders()
        if self.wants("C1", "C2", "C3", "C4", "C5", "C6", "C7"):
            self.groups()
        if self.wants("T1", "T8"):
            self.transactions()
        if self.wants("S1"):
            self.spark_source()

    def alternating(
        self,
        size: int,
        work: Callable[[clusters.Cluster, int], None],
        repeats: int | None = None,
        settings: Mapping[str, str] = clusters.NO_SETTINGS,
    ) -> None:
        """`work(cluster, repeat)` on every peer in turn; repeat -1 warms up and does not count.

        Before each turn the disk takes what the turn before left unwritten: past a tenth of the memory
        the kernel lets whoever writes next wait for it.
        """
        with contextlib.ExitStack() as stack:
            up = [
                stack.enter_context(clusters.running(peer, size, self.options.dir, settings))
                for peer in self.peers
            ]
            for repeat in range(-1, self.repeats if repeats is None else repeats):
                for cluster in up if repeat % 2 else reversed(up):
                    os.sync()
                    work(cluster, repeat)

    def note(self, key: str, cluster: clusters.Cluster, repeat: int, figure: measures.Figure) -> None:
        text = figure.problem or f"{number(figure.value)} {self.rows[key].cell.unit}"
        say(f"  {key} {cluster.name} {'warm-up' if repeat < 0 else repeat + 1}: {text}")
        if repeat >= 0 or figure.problem:
            self.rows[key].add(cluster.name, figure)

    def one_broker(self) -> None:
        say("one broker")

        def work(cluster: clusters.Cluster, repeat: int) -> None:
            if self.wants("P1", "P6"):
                produced, consumed = measures.p1_and_p6(cluster, repeat, self.large)
                self.note("P1", cluster, repeat, produced)
                self.note("P6", cluster, repeat, consumed)
            if self.wants("P2"):
                self.note("P2", cluster, repeat, measures.p2(cluster, repeat, self.small))
            if self.wants("P8"):
                self.shapes(cluster, repeat, acks=1)

        self.alternating(1, work)

    def three_brokers(self) -> None:
        say("three brokers")

        def work(cluster: clusters.Cluster, repeat: int) -> None:
            if self.wants("P4"):
                self.note("P4", cluster, repeat, measures.p4(cluster, repeat, self.medium))
            if self.wants("P8"):
                self.shapes(cluster, repeat, acks=-1)
            if self.wants("P7"):
                self.note("P7", cluster, repeat, latencies.p7(cluster, repeat, self.load_s))
            if self.wants("P21"):
                first, second = latencies.p21(cluster, 300)
                self.note("P21-first", cluster, repeat, first)
                self.note("P21-second", cluster, repeat, second)

        self.alternating(3, work)

    def topics_of_many_partitions(self) -> None:
        say(f"{self.partitions} partitions")

        def work(cluster: clusters.Cluster, repeat: int) -> None:
            created, stall = latencies.p19(cluster, repeat, self.partitions)
            self.note("P19", cluster, repeat, created)
            self.note("P19-stall", cluster, repeat, stall)

        self.alternating(3, work, min(self.repeats, 3))

    def beside_followed_partitions(self) -> None:
        say(f"beside {self.followed} followed partitions")
        for peer in self.peers:
            with clusters.running(peer, 3, self.options.dir) as cluster:
                repeats = min(self.repeats, 3)
                try:
                    for n, figure in enumerate(latencies.p22(cluster, self.followed, repeats, self.load_s)):
                        self.note("P22", cluster, n, figure)
                except TimeoutError:
                    say(f"P22: {peer} has not made {self.followed} partitions in time: no figure")

    def connects(self) -> None:
        say(f"{self.connections} connects")
        self.alternating(
            1,
            lambda cluster, repeat: self.note(
                "P23", cluster, repeat, latencies.p23(cluster, self.connections)
            ),
            min(self.repeats, 3),
        )

    def shapes(self, cluster: clusters.Cluster, repeat: int, *, acks: int) -> None:
        for connections, in_flight in SHAPES:
            figure = measures.p8(
                cluster,
                f"r{repeat + 1}",
                acks=acks,
                connections=connections,
                in_flight=in_flight,
                seconds=self.load_s if repeat >= 0 else 1.0,
            )
            self.note(f"P8-{ACKS[acks]}-{connections}-{in_flight}", cluster, repeat, figure)

    def starts(self) -> None:
        say("start to first acknowledged produce")
        for size in (1, 3):
            for repeat in range(self.repeats):
                for peer in self.peers if repeat % 2 else reversed(self.peers):
                    directory = Path(tempfile.mkdtemp(prefix=f"bench-{peer.name}-", dir=self.options.dir))
                    cluster = peer(size, directory)
                    try:
                        self.note(f"P9-{size}", cluster, repeat, measures.p9(cluster))
                    finally:
                        cluster.stop()

    def memory(self) -> None:
        say("memory")
        for peer in self.peers:
            with clusters.running(peer, 1, self.options.dir) as cluster:
                idle, after = measures.p10(cluster, self.large, self.gigabytes)
                self.note("P10-idle", cluster, 0, idle)
                self.note("P10-after", cluster, 0, after)

    def kills_of_leaders(self) -> None:
        say("kill -9 of the leader")
        for peer in self.peers:
            kills = self.kills if peer is clusters.Odradek else min(self.kills, self.options.apache_kills)
            if not kills:
                continue  # --apache-kills 0
            with clusters.running(peer, 3, self.options.dir) as cluster:
                for key, controller_too in (("P11", False), ("P11-both", True)):
                    figures = measures.p11(cluster, kills, controller_too=controller_too)
                    for repeat, figure in enumerate(figures):
                        self.note(key, cluster, repeat, figure)
                    ordered = sorted(figures, key=lambda figure: figure.value)
                    worst = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
                    self.note(f"{key}-p99", cluster, 0, measures.Figure(worst.value, problem=worst.problem))

    def groups(self) -> None:
        say(f"groups ({self.members} members, {self.offsets} offsets, {self.idle_members} idle)")
        for peer in self.peers:
            with clusters.running(peer, 3, self.options.dir, groups.SETTINGS) as cluster:
                for repeat in range(-1, self.repeats):
                    if self.wants("C1"):
                        self.note("C1", cluster, repeat, groups.joins(cluster, repeat))
                    if self.wants("C3"):
                        self.note("C3", cluster, repeat, groups.commits(cluster, repeat, self.load_s))
                    if self.wants("C7"):
                        median, p99 = latencies.c7(cluster, repeat, self.load_s)
                        self.note("C7", cluster, repeat, median)
                        self.note("C7-p99", cluster, repeat, p99)
                if self.wants("C2"):
                    self.note("C2", cluster, 0, groups.death(cluster, 0, self.members))
                if self.wants("C4"):
                    loaded, stall = groups.load(cluster, self.offsets)
                    self.note("C4", cluster, 0, loaded)
                    self.note("C4-stall", cluster, 0, stall)
            with clusters.running(peer, 1, self.options.dir, groups.ALONE) as cluster:
                if self.wants("C6"):
                    share, grown = groups.idle(cluster, self.idle_members, self.load_s * 5)
                    self.note("C6", cluster, 0, share)
                    self.note("C6-memory", cluster, 0, grown)
                if self.wants("C5"):
                    rate, beside = groups.compaction(cluster, self.compacted_mb, self.load_s)
                    self.note("C5", cluster, 0, rate)
                    self.note("C5-beside", cluster, 0, beside)

    def transactions(self) -> None:
        say("transactions")

        def work(cluster: clusters.Cluster, repeat: int) -> None:
            for producers in (1, 8):
                if self.wants(f"T{producers}"):
                    rate, commit = transactions.transactions(cluster, repeat, producers, self.load_s)
                    self.note(f"T{producers}", cluster, repeat, rate)
                    self.note(f"T{producers}-commit", cluster, repeat, commit)

        self.alternating(3, work, settings=transactions.SETTINGS)

    def spark_source(self) -> None:
        """Of ours alone: what is compared here is the source, with Spark's own connector in the notes."""
        if self.options.without_odradek:
            return
        say("Spark source")
        for figure in measures.spark_source(300_000 if self.options.quick else 3_000_000, self.repeats):
            text = figure.problem or f"{number(figure.value)} {self.rows['S1'].cell.unit}"
            say(f"  S1 odradek: {text}")
            self.rows["S1"].add("odradek", figure)

    def report(self) -> str:
        shown = ["odradek", "apache"]
        lines = [
            f"{datetime.date.today().isoformat()}, {machine()}, {platform.python_implementation()} "
            f"{platform.python_version()}, librdkafka {librdkafka.version()}, "
            f"Apache Kafka {clusters.KAFKA_VERSION} with ZooKeeper"
            + (f" not run ({self.why_not['apache']})" if "apache" in self.why_not else ""),
            "",
            f"{self.repeats} repeat{'' if self.repeats == 1 else 's'}, alternating; median (least - most). "
            "Client and brokers share the machine. Record validation: header.",
            "",
            table(self.rows.values(), self.calibration, shown, self.why_not),
            "",
            "The machine itself, in the same run: "
            + ", ".join(f"{name} {number(value)}" for name, value in self.calibration.items())
            + ".",
        ]
        return "\n".join(lines)


def machine() -> str:
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    linux = ".".join(platform.release().split(".")[:2])
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, Linux {linux}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rows_of(text: str, known: Collection[str]) -> set[str]:
    """What --only names, of the rows there are: `p8,p1`."""
    rows = set(text.upper().split(","))
    if unknown := sorted(rows - set(known)):
        raise argparse.ArgumentTypeError(f"no such row: {', '.join(unknown)}; there are {', '.join(known)}")
    return rows


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small loads, two repeats: to see that it runs")
    parser.add_argument("--only", type=lambda text: rows_of(text, MEASURES), help="P8,P1")
    parser.add_argument("--without-apache", action="store_true")
    parser.add_argument("--without-odradek", action="store_true")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--kills", type=int, help="P11: how many (50)")
    parser.add_argument("--apache-kills", type=int, default=3, help="P11: each costs Apache half a minute")
    parser.add_argument("--dir", type=Path, help="where the brokers' directories go")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


MEASURES = tuple(dict.fromkeys(cell.measure for cell in CELLS))
BEGIN, END = "<!-- begin: make bench -->", "<!-- end: make bench -->"


def write(report: str, path: Path, marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Replace what stands between the marks; the words around them are a person's."""
    first, last = marks
    text = path.read_text(encoding="utf-8") if path.exists() else f"# Benchmarks\n\n{first}\n{last}\n"
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    assert begin and end, f"{path} lacks {first} or {last}"
    path.write_text(f"{before}{first}\n{report}\n{last}{after}", encoding="utf-8")


class Reporting(Protocol):
    """A bench: its rows are reported even where it is stopped half way."""

    options: argparse.Namespace

    def run(self) -> None: ...
    def report(self) -> str: ...


def run_and_report(bench: Reporting, marks: tuple[str, str] = (BEGIN, END)) -> None:
    with interruptible("benchmarks"):
        if bench.options.dir is not None:
            bench.options.dir.mkdir(parents=True, exist_ok=True)
        try:
            bench.run()
        finally:
            report = bench.report()
            print(report)
    if bench.options.write:
        write(report, ROOT / "docs" / "benchmarks.md", marks)


if __name__ == "__main__":
    run_and_report(Bench(arguments()))
