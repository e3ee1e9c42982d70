"""Transactions one behind the other: the client of the cells about them (T), in a process of its own.

    python -m benchmarks.transactions --bootstrap HOST:PORT,... --topic NAME --producers 8 --seconds 4

Each producer is librdkafka in its default settings with an id of its own, in a thread that does little but wait. A transaction
is a hundred records of 100 B to the one partition of the topic. The result is one JSON line: how many were committed in all
and while it was timed, and how long `commit_transaction` took, in milliseconds; it flushes what was produced.
"""

import argparse
import json
import subprocess
import sys
import threading
import time

from benchmarks import librdkafka, raw_frames
from benchmarks.clusters import Cluster
from benchmarks.figures import Figure
from benchmarks.raw_load import percentile

RECORDS = 100
RECORD_SIZE = 100
WARM_UP_S = 1.0
# Both peers know them: coordinators of a handful of partitions, made at once.
SETTINGS = {"transaction.state.log.num.partitions": "4"}


def transactions(cluster: Cluster, run: int, producers: int, seconds: float) -> tuple[Figure, Figure]:
    """Transactions a second of all producers together, and the median of a commit in ms; all that was committed is read back."""
    topic = f"t{producers}-{run}"
    raw_frames.create_topic(
        cluster.bootstrap, topic, partitions=1, replication=3, configs={"min.insync.replicas": "2"}
    )
    bootstrap = ",".join(cluster.bootstrap)
    cpu_s = cluster.cpu_s()
    got = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.transactions", "--bootstrap", bootstrap, "--topic", topic),
            *("--producers", str(producers), "--seconds", str(seconds)),
        ],
        capture_output=True,
        text=True,
    )
    if got.returncode != 0:
        return (failed := Figure(0.0, problem=got.stderr.strip()[-200:])), failed
    found = json.loads(got.stdout)
    notes = {"CPU ms/transaction": (cluster.cpu_s() - cpu_s) / found["committed"] * 1000}
    rate = Figure(found["timed"] / seconds, notes=notes)
    expected = found["committed"] * RECORDS
    _, doubled, damaged, lost = librdkafka.read_back(bootstrap, topic, [0], expected, RECORD_SIZE)
    if lost or damaged or doubled:
        rate.problem = f"{lost} lost, {doubled} doubled, {damaged} damaged"
    return rate, Figure(found["p50_ms"], notes={"p99 ms": found["p99_ms"]})


class _Numbers:
    """Of records, each given once: a transaction takes the next hundred."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0

    def take(self) -> range:
        with self._lock:
            first, self._next = self._next, self._next + RECORDS
        return range(first, first + RECORDS)


class _Producer(threading.Thread):
    def __init__(self, bootstrap: str, topic: str, name: str, numbers: _Numbers) -> None:
        import confluent_kafka

        super().__init__(name=name)
        self.topic, self.numbers = topic, numbers
        self.began_at: list[float] = []  # of each commit, and how long it took
        self.took_s: list[float] = []
        self.problem = ""
        self.ends_at = 0.0
        self._client = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        self._client.init_transactions(30)

    def run(self) -> None:
        try:
            while time.perf_counter() < self.ends_at:
                self._one()
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"

    def _one(self) -> None:
        client, topic, rest = self._client, self.topic, librdkafka.filler(RECORD_SIZE)[8:]
        client.begin_transaction()
        for number in self.numbers.take():
            client.produce(topic, number.to_bytes(8, "little") + rest, partition=0)
        began = time.perf_counter()
        client.commit_transaction(30)
        self.took_s.append(time.perf_counter() - began)
        self.began_at.append(began)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    numbers = _Numbers()
    producers = [
        _Producer(options.bootstrap, options.topic, f"{options.topic}-{n}", numbers)
        for n in range(options.producers)
    ]
    counts_from = time.perf_counter() + WARM_UP_S
    for producer in producers:
        producer.ends_at = counts_from + options.seconds
        producer.start()
    for producer in producers:
        producer.join()
        if producer.problem:
            sys.exit(producer.problem)
    timed_ms = sorted(
        took * 1000
        for producer in producers
        for began, took in zip(producer.began_at, producer.took_s, strict=True)
        if counts_from <= began + took < counts_from + options.seconds
    )
    result = {
        "committed": sum(len(producer.took_s) for producer in producers),
        "timed": len(timed_ms),
        "p50_ms": percentile(timed_ms, 0.5),
        "p99_ms": percentile(timed_ms, 0.99),
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
