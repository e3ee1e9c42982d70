"""`make bench-spark`: Spark's own Kafka connector and delta-spark beside ours, in one session, taking turns.

    python -m benchmarks.spark [--quick] [--only B1,D1] [--repeats 3] [--write]

Each row is work that all peers do in turn, the order changing with every repeat, after a warm-up that does not count; what
came of it is compared with what was asked for. Beside each rate stands the processor time a row of everything: driver, JVM,
Python processes and broker, which neighbours on the same cores hardly change. The connector runs at its defaults and tuned:
its defaults wait half a second at the end of each task, and a comparison that hides this would flatter us. Jars come from
Maven Central; where it does not serve them ours is measured alone, and the table says why. `--write` puts the table with
machine and date into docs/benchmarks.md.
"""

import argparse
import datetime
import itertools
import os
import platform
import tempfile
from pathlib import Path

from benchmarks.bench import CACHE, machine, rows_of, run_and_report, say
from benchmarks.clusters import Odradek, running
from benchmarks.figures import Figure, Row, number, table
from benchmarks.spark.jars import CONNECTOR, DELTA, NoJars, fetched
from benchmarks.spark.processor_time import ProcessorTime, Stopwatch
from benchmarks.spark.works import IN_DELTA, KEYS, OURS, PEERS, TUNED, Place, Work, Works
from odradek.spark.sentence import sentence_of
from odradek.spark.session import find_java, local_session

MARKS = ("<!-- begin: make bench-spark -->", "<!-- end: make bench-spark -->")
CORES = 2
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class Bench:
    """One run: what was asked for, who takes part, and the rows so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rows: dict[str, Row] = {}
        self.repeats = options.repeats or (1 if options.quick else 3)
        self.small = options.records or (60_000 if options.quick else 3_000_000)
        self.large = self.small // 10
        self.why_not: dict[str, str] = {}  # by what is missing
        self.connector = self._jars("the connector", CONNECTOR)
        self.delta = self._jars("delta-spark", DELTA)

    def _jars(self, name: str, wanted: tuple[str, ...]) -> list[str]:
        if self.options.alone:
            self.why_not[name] = "left out"
            return []
        try:
            return fetched(wanted, CACHE / name.replace(" ", "-"))
        except NoJars as error:
            self.why_not[name] = str(error)
            return []

    def wants(self, key: str) -> bool:
        return not self.options.only or key in self.options.only

    def run(self) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="bench-spark-", dir=self.options.dir) as directory,
            running(Odradek, 1, self.options.dir) as cluster,
            ProcessorTime(os.getpid()) as everything,
        ):
            place = Place(",".join(cluster.bootstrap), Path(directory), itertools.count(), set())
            (broker,) = cluster.processes.values()
            self.times = (everything, ProcessorTime(broker.pid))
            # All jars when the JVM starts; what is delta-spark's alone is switched on for its own rows.
            jars = {"spark.jars": ",".join([*self.connector, *self.delta])}
            wanted = [key for key in KEYS if self.wants(key)]
            self.session([key for key in wanted if key not in IN_DELTA], jars, place)
            of_delta = DELTA_SETTINGS if self.delta else {}
            self.session([key for key in wanted if key in IN_DELTA], jars | of_delta, place)

    def session(self, keys: list[str], settings: dict[str, str], place: Place) -> None:
        if not keys:
            return
        spark = local_session("bench", cores=CORES, memory="3g", settings=settings)
        try:
            works = Works(spark, place, self.small, self.large)
            for key in keys:
                say(key)
                self.measure(works.named(key))
        finally:
            spark.stop()

    def takes_part(self, work: Work, peer: str) -> bool:
        if peer == OURS:
            return True
        return bool(self.connector and (self.delta or work.cell.key not in IN_DELTA))

    def measure(self, work: Work) -> None:
        key = work.cell.key
        row = self.rows[key] = Row(work.cell, against=TUNED)
        peers = [peer for peer in work.runs if self.takes_part(work, peer)]
        for repeat in range(0 if self.options.quick else -1, self.repeats):
            for peer in peers if repeat % 2 else reversed(peers):
                if any(figure.problem for figure in row.figures.get(peer, ())):
                    continue
                figure = once(work, peer, Stopwatch(*self.times))
                text = figure.problem or f"{number(figure.value)} {work.cell.unit}, {number(figure.cost)}"
                say(f"  {key} {PEERS[peer]} {'warm-up' if repeat < 0 else repeat + 1}: {text}")
                if repeat >= 0 or figure.problem:
                    row.add(peer, figure)

    def report(self) -> str:
        import pyspark

        missing = "; ".join(f"{name} not run: {why}" for name, why in self.why_not.items())
        jars = " and ".join(":".join(jar.split(":")[1:]) for jar in (CONNECTOR[0], DELTA[0]))
        rows = [_renamed(self.rows[key]) for key in KEYS if key in self.rows]
        return "\n".join(
            [
                f"{datetime.date.today().isoformat()}, {machine()}, {platform.python_implementation()} "
                f"{platform.python_version()}, pyspark {pyspark.__version__}, {jars}, {find_java().version}; "
                f"load {os.getloadavg()[0]:.1f}" + (f". {missing}" if missing else ""),
                "",
                f"local[{CORES}], one broker of ours on the same cores, {self.small:,} records of 100 B and "
                f"{self.large:,} of 1 KB, batches of 16 KiB; {self.repeats} "
                f"repeat{'' if self.repeats == 1 else 's'}, alternating; median (least - most).",
                "",
                table(rows, {}, list(PEERS.values()), {}, has_cost_ratio=True),
            ]
        )


def _renamed(row: Row) -> Row:
    """With the names that stand above the columns."""
    figures = {PEERS[peer]: found for peer, found in row.figures.items()}
    return Row(row.cell, figures, PEERS[row.against])


def once(work: Work, peer: str, stopwatch: Stopwatch) -> Figure:
    try:
        ms = work.runs[peer](stopwatch)
    except Exception as error:  # whatever Spark makes of it: the row has no figure, and others go on
        return Figure(0.0, problem=f"{type(error).__name__}: {sentence_of(error)}"[:200])
    is_rate = work.cell.more_is_better
    each = 1e6 if is_rate else 1e3
    value = work.units / stopwatch.seconds if is_rate else ms or stopwatch.seconds * 1000
    share = stopwatch.broker_cpu_s / work.units * each
    return Figure(value, cost=stopwatch.cpu_s / work.units * each, notes={"broker": share})


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.spark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few records, one run of each, not warmed up: to see that it runs",
    )
    parser.add_argument("--only", type=lambda text: rows_of(text, KEYS), help="B1,D1")
    parser.add_argument("--alone", action="store_true", help="ours, without connector and delta-spark")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--records", type=int, help="of 100 B; a tenth as many of 1 KB")
    parser.add_argument("--dir", type=Path, help="where the broker's directory and the tables go")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


if __name__ == "__main__":
    run_and_report(Bench(arguments()), MARKS)
