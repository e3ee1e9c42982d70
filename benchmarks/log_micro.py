"""What one call into the log costs, without sockets: `python -m benchmarks.log_micro [--seconds 0.5]`.

Microseconds of CPU per call (elapsed time for fdatasync), best of five rounds. Real files in a temporary directory;
nothing is synced except where the line says so.
"""

import argparse
import tempfile
import time
from collections.abc import Callable

from odradek.log.config import LogConfig
from odradek.log.files import OsDirectory
from odradek.log.new_log import create_log
from odradek.log.partition_log import PartitionLog
from odradek.log.recovery import open_log
from odradek.model.ids import NO_TOPIC_ID, TopicPartition
from odradek.model.settings import BrokerSettings, TopicSettings
from odradek.records.batch import stamp
from odradek.records.builder import NewRecord, build_batch

NOW_MS = 1_700_000_000_000
ROUNDS = 5
CONFIG = LogConfig(TopicSettings(BrokerSettings({})))


def batch(record_count: int, value_bytes: int, **fields: int) -> bytearray:
    records = [NewRecord(None, b"x" * value_bytes, NOW_MS)] * record_count
    return bytearray(build_batch(records, **fields))


def measure(seconds: float, call: Callable[[], object], clock: Callable[[], float]) -> float:
    """Microseconds per call, the best round: what is above it belongs to the neighbours."""
    figures = []
    for _ in range(ROUNDS):
        count = 1
        while True:
            begin = clock()
            for _ in range(count):
                call()
            took = clock() - begin
            if took >= seconds / ROUNDS / 2:
                break
            count *= 2
        figures.append(took / count * 1e6)
    return min(figures)


def new_log(root: OsDirectory, name: str, config: LogConfig = CONFIG) -> PartitionLog:
    return create_log(root, TopicPartition(name, 0), NO_TOPIC_ID, config, now_ms=NOW_MS)


def start_over(log: PartitionLog) -> None:
    """Before the kernel starts to write back: that is another thing to measure."""
    if log.log_end_offset > log.log_start_offset and log.segments.active.file.size_bytes > 64 << 20:
        log.truncate_fully_and_start_at(log.log_end_offset, NOW_MS)
        log.segments.purge()


def appending(log: PartitionLog, data: bytearray) -> Callable[[], object]:
    view = memoryview(data)

    def append() -> None:
        stamp(view, 0, 0, -1)  # as it came from the producer
        log.append_as_leader(view, leader_epoch=1, now_ms=NOW_MS)
        start_over(log)

    return append


def idempotent(log: PartitionLog) -> Callable[[], object]:
    """The next sequence each time, as a producer in order sends; the CRC is made outside of what is measured."""
    batches = iter(
        [memoryview(batch(1, 100, producer_id=7, producer_epoch=0, base_sequence=n)) for n in range(1 << 17)]
    )
    return lambda: log.append_as_leader(next(batches), leader_epoch=1, now_ms=NOW_MS)


def following(log: PartitionLog, data: bytearray) -> Callable[[], object]:
    view = memoryview(data)

    def append() -> None:
        stamp(view, 0, log.log_end_offset, 1)
        log.append_as_follower(view, now_ms=NOW_MS)
        start_over(log)

    return append


def harness(log: PartitionLog, data: bytearray) -> Callable[[], object]:
    view = memoryview(data)

    def call() -> None:
        stamp(view, 0, 0, -1)
        start_over(log)

    return call


def filled(
    root: OsDirectory, name: str, data: bytearray, count: int, segment_bytes: int = 1 << 30
) -> PartitionLog:
    settings = TopicSettings(BrokerSettings({}), {"segment.bytes": str(segment_bytes)})
    log = new_log(root, name, LogConfig(settings))
    append = appending(log, data)
    for _ in range(count):
        append()
    return log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="per line")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as path:
        root = OsDirectory(path)
        small, large = batch(1, 100), batch(1000, 1000)
        many = bytearray().join([batch(16, 1000)] * 60)
        rows: list[tuple[str, Callable[[], object], int]] = []
        rows.append(("append_as_leader, 1 record of 100 B", appending(new_log(root, "a"), small), len(small)))
        rows.append(("  the same, idempotent", idempotent(new_log(root, "b")), len(small)))
        rows.append(("append_as_leader, 1 batch of 1 MB", appending(new_log(root, "c"), large), len(large)))
        rows.append(("append_as_leader, 60 batches, 1 MB", appending(new_log(root, "d"), many), len(many)))
        rows.append(
            ("append_as_follower, 1 record of 100 B", following(new_log(root, "e"), small), len(small))
        )
        rows.append(("append_as_follower, 1 batch of 1 MB", following(new_log(root, "f"), large), len(large)))
        rows.append(
            ("  of which stamp and look at the size (harness)", harness(new_log(root, "y"), small), 0)
        )
        hot = filled(root, "g", small, 20_000)
        end = hot.log_end_offset
        rows.append(("read at the end, up to the high watermark", reading(hot, end - 1, end - 0), 0))
        rows.append(("read 10 back, high watermark 2 back", reading(hot, end - 10, end - 2), 0))
        rows.append(("read in the active segment by index, 64 KB", reading(hot, 5_000, end, 65536), 0))
        rows.append(("read at the end, nothing there", reading(hot, end, end), 0))
        cold = filled(root, "h", small, 20_000, 1 << 20)
        rows.append(
            ("read in a cold segment by index, 64 KB", reading(cold, 5_001, cold.log_end_offset, 65536), 0)
        )
        rows.append(("fdatasync of 1 record of 100 B", flushing(new_log(root, "i"), small), 0))
        rows.append(("open a log that was closed", opening(root, small), 0))
        print(f"{'call':<46}{'us':>10}{'MB/s':>10}")
        for name, call, size_bytes in rows:
            figure = measure(seconds, call, time.perf_counter if "fdatasync" in name else time.process_time)
            rate = f"{size_bytes / figure:>10.0f}" if size_bytes else ""
            print(f"{name:<46}{figure:>10.2f}{rate}")


def reading(log: PartitionLog, offset: int, upper: int, max_bytes: int = 1 << 20) -> Callable[[], object]:
    return lambda: log.read(offset, max_bytes=max_bytes, upper_bound_offset=upper, min_one_batch=True)


def flushing(log: PartitionLog, data: bytearray) -> Callable[[], object]:
    append = appending(log, data)

    def call() -> None:
        append()
        log.flush()

    return call


def opening(root: OsDirectory, data: bytearray) -> Callable[[], object]:
    filled(root, "z", data, 1_000).close()

    def call() -> None:
        open_log(root, TopicPartition("z", 0), CONFIG, now_ms=NOW_MS, was_clean=True, recovery_point=1_000)

    return call


if __name__ == "__main__":
    main()
