"""What the tests of the log share: batches, configurations, a log on a real disk, and what is in it."""

from pathlib import Path
from typing import Any

from odradek.log.appending import AppendResult
from odradek.log.config import LogConfig
from odradek.log.files import Mark, OsDirectory
from odradek.log.new_log import create_log
from odradek.log.partition_log import PartitionLog
from odradek.log.recovery import Recovered, open_log
from odradek.model.ids import TopicId, TopicPartition
from odradek.model.settings import BrokerSettings, TopicSettings
from odradek.records.batch import BatchHeader, check_crc, iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.control import build_end_marker

NOW = 1_700_000_000_000
TP = TopicPartition("orders", 0)
TOPIC_ID = TopicId(bytes(range(16)))
EVERYTHING = 1 << 40


def config(broker: dict[str, str] | None = None, **overrides: object) -> LogConfig:
    """`config(segment_bytes=1000)` for `segment.bytes=1000`."""
    texts = {name.replace("_", "."): str(value) for name, value in overrides.items()}
    return LogConfig(TopicSettings(BrokerSettings(broker or {}), texts))


def batch(
    count: int = 1, *, at: int = NOW, value: bytes = b"v" * 100, key: bytes | None = b"k", **fields: Any
) -> bytes:
    """`count` records a millisecond apart."""
    return build_batch([NewRecord(key, value, at + n) for n in range(count)], **fields)


def idempotent(
    sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, **fields: Any
) -> bytes:
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def marker(
    *, commit: bool, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0, at: int = NOW
) -> bytes:
    return build_end_marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        is_commit=commit,
        coordinator_epoch=coordinator_epoch,
        timestamp=at,
    )


def produce(
    log: PartitionLog, data: bytes, *, epoch: int = 0, now_ms: int = NOW, **options: Any
) -> AppendResult:
    return log.append_as_leader(memoryview(bytearray(data)), leader_epoch=epoch, now_ms=now_ms, **options)


def follow(log: PartitionLog, data: bytes, now_ms: int = NOW) -> AppendResult:
    return log.append_as_follower(memoryview(data), now_ms=now_ms)


class Disk:
    """A log directory under `path`, and the log `orders-0` in it, through as many lives as a test wants."""

    def __init__(self, path: Path, log_config: LogConfig | None = None) -> None:
        self.path = path
        self.config = log_config or config()
        self.root = OsDirectory(str(path))

    @property
    def log_path(self) -> Path:
        return self.path / str(TP)

    def file(self, name: str) -> Path:
        return self.log_path / name

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self.log_path.iterdir())

    def create(self, **options: Any) -> PartitionLog:
        return create_log(self.root, TP, TOPIC_ID, self.config, now_ms=NOW, **options)

    def open(self, *, clean: bool = False, recovery_point: int = 0, log_start_offset: int = 0) -> Recovered:
        """A new process: nothing of the old one's memory or health is left."""
        self.root = OsDirectory(str(self.path))
        return open_log(
            self.root,
            TP,
            self.config,
            now_ms=NOW,
            was_clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )


def contents(log: PartitionLog, start: int | None = None) -> bytes:
    """Everything readable, as a consumer gets it."""
    offset = log.log_start_offset if start is None else start
    read = log.read(offset, max_bytes=EVERYTHING, upper_bound_offset=EVERYTHING)
    return b"".join(part.read() for part in read.slices)


def headers(log: PartitionLog) -> list[BatchHeader]:
    """Of all batches; each with its CRC checked."""
    data = contents(log)
    found = []
    for position, header in iter_batches(data):
        assert check_crc(data, position, header)
        found.append(header)
    return found


def offsets(log: PartitionLog) -> list[int]:
    return [header.base_offset for header in headers(log)]


def assert_index_answers_as_a_scan(log: PartitionLog) -> None:
    """Every offset is found where walking over all batches finds it; every timestamp likewise."""
    for segment in log.segments:
        walked = list(segment.headers())
        for position, header in walked:
            for offset in {header.base_offset, header.last_offset}:
                segment.positions.clear()
                assert segment.position_of(offset) == position
    with_records = [header for header in headers(log) if header.record_count]
    for header in with_records:
        found = log.offset_for_timestamp(header.max_timestamp)
        expected = next(h for h in with_records if h.max_timestamp >= header.max_timestamp)
        assert found is not None and expected.base_offset <= found.offset <= expected.last_offset


def state(log: PartitionLog) -> dict[str, Any]:
    """What must be the same after a second recovery."""
    return {
        "contents": contents(log),
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "epochs": list(log.epochs.entries),
        "producers": log.producers.to_bytes(),
        "transactions": [entry for segment in log.segments for entry in segment.transactions],
        "segments": [segment.base_offset for segment in log.segments],
    }


def keeps_marks(directory: Path) -> bool:
    """Whether the kernel and the file system there know `File.mark`."""
    root = OsDirectory.create(str(directory))
    file = root.open("probe", create=True)
    file.set_mark(Mark.LAST)
    return file.mark is Mark.LAST and root.boot_id() != ""
