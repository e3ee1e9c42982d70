"""A log directory written by Apache Kafka 3.9.1 opens, reads and dumps as recorded (tests/golden/log-dir)."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.log.dump import dump_file, dump_names, lines
from odradek.log.files import OsDirectory
from odradek.log.indexes import AbortedTransaction
from odradek.log.leader_epochs import EpochEntry
from odradek.log.log_manager import LogManager
from odradek.log.partition_log import PartitionLog
from odradek.model.ids import TopicPartition, topic_id_to_text
from odradek.model.settings import BrokerSettings
from odradek.records.batch import iter_batches
from odradek.records.reader import decode_batch
from tests.log.logs import EVERYTHING, assert_index_answers_as_a_scan, contents, produce
from tests.log.logs import batch as new_batch
from tests.support import GOLDEN

T = TopicPartition("t", 0)
STOPPED_AT = 1795264553600  # a moment after the last marker
DUMP = (GOLDEN / "log-dir" / "dump" / "t-0.txt").read_text().splitlines()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "log-dir" / "data", tmp_path / "data"))


@pytest.fixture
def manager(data: Path) -> Iterator[LogManager]:
    manager = LogManager([OsDirectory(str(data))], BrokerSettings({}))
    assert manager.claim(2) == "2UmHe1_VTmmT5W1KaoTYgw"
    report = manager.load(STOPPED_AT)
    assert report.clean_directories == [str(data)] and report.notes == [] and report.logs == 2
    yield manager
    manager.release()


@pytest.fixture
def log(manager: LogManager) -> PartitionLog:
    return manager.logs[T]


def fields(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+): (\S+)", line))


def dumped_batches() -> list[dict[str, str]]:
    return [fields(line) for line in DUMP if line.startswith("baseOffset")]


def test_offsets_epochs_and_topic_id_are_as_recorded(log: PartitionLog) -> None:
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 194, 194)
    assert log.epochs.entries == [EpochEntry(0, 0), EpochEntry(1, 62), EpochEntry(2, 102)]
    assert topic_id_to_text(log.topic_id) == "v_WWQZzWTDqAmK3g5Yj2cA"
    assert [segment.base_offset for segment in log.segments] == [0, 50, 180, 193]
    assert log.end_offset_for_epoch(1) == (1, 102) and log.end_offset_for_epoch(2) == (2, 194)


def test_every_batch_reads_as_dumped(log: PartitionLog) -> None:
    data = contents(log)
    found = list(iter_batches(data))
    assert len(found) == len(dumped_batches()) > 90
    for (_, header), line in zip(found, dumped_batches(), strict=True):
        assert (header.base_offset, header.last_offset) == (int(line["baseOffset"]), int(line["lastOffset"]))
        assert (header.size_bytes, header.crc) == (int(line["size"]), int(line["crc"]))
        assert header.leader_epoch == int(line["partitionLeaderEpoch"])
    payloads = [
        record.value
        for position, header in found
        if not header.is_control
        for record in decode_batch(data, position)
    ]
    dumped = [
        line.partition(" payload: ")[2].encode()
        for line in DUMP
        if line.startswith("|") and "endTxn" not in line
    ]
    assert payloads == dumped


def test_a_fetch_at_any_offset_begins_with_the_batch_that_holds_it(log: PartitionLog) -> None:
    for line in dumped_batches():
        for offset in range(int(line["baseOffset"]), int(line["lastOffset"]) + 1):
            read = log.read(offset, max_bytes=1, upper_bound_offset=EVERYTHING, min_one_batch=True)
            (part,) = read.slices
            assert (part.position, part.size_bytes) == (int(line["position"]), int(line["size"]))
            assert read.slices[0].file.name.endswith(".log")


def test_producers_are_those_of_the_last_snapshot(log: PartitionLog) -> None:
    at = DUMP.index("Dumping t-0/00000000000000000194.snapshot")
    expected = [fields(line) for line in DUMP[at + 1 : at + 4]]
    assert [
        (
            p.producer_id,
            p.producer_epoch,
            p.coordinator_epoch,
            p.last_sequence,
            p.last_offset,
            p.last_timestamp,
        )
        for p in log.producers.all()
    ] == [
        tuple(
            int(line[name])
            for name in (
                "producerId",
                "producerEpoch",
                "coordinatorEpoch",
                "lastSequence",
                "lastOffset",
                "lastTimestamp",
            )
        )
        for line in expected
    ]


def test_aborted_transactions_and_the_last_stable_offset(log: PartitionLog) -> None:
    tx_b, tx_a = AbortedTransaction(1001, 51, 61, 62), AbortedTransaction(1000, 162, 172, 173)
    assert log.last_stable_offset(194) == 194
    assert log.last_stable_offset(100) == 100
    assert log.aborted_transactions(0, 194) == [tx_b, tx_a]
    assert log.aborted_transactions(0, 60) == [tx_b]
    assert log.aborted_transactions(62, 194) == [tx_a]
    assert log.aborted_transactions(62, 160) == []
    assert log.aborted_transactions(173, 194) == []


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [(1700000000000, 0), (1700000000005, 1), (1700000000290, 29), (1700000001000, 30), (1700000001001, 31)],
)
def test_offsets_are_found_by_timestamp(log: PartitionLog, timestamp: int, offset: int) -> None:
    found = log.offset_for_timestamp(timestamp)
    assert found is not None and found.offset == offset and found.leader_epoch == 0


def test_the_largest_timestamp_is_the_last_markers(log: PartitionLog) -> None:
    found = log.offset_of_max_timestamp()
    assert found is not None and (found.timestamp, found.offset) == (1795264553521, 193)
    assert log.offset_for_timestamp(1795264553522) is None


def test_checkpoints_read_as_recorded(manager: LogManager) -> None:
    assert manager.high_watermark_of(T) == 194
    assert manager.high_watermark_of(TopicPartition("__consumer_offsets", 0)) == 4
    assert manager.logs[TopicPartition("__consumer_offsets", 0)].log_end_offset == 4


@pytest.mark.parametrize("directory", ["t-0", "__transaction_state-0"])
def test_the_dump_is_that_of_dump_log_segments(directory: str) -> None:
    parent = "data" if directory == "t-0" else "extra"
    root = OsDirectory(str(GOLDEN / "log-dir" / parent / directory))
    found: list[str] = []
    for name in dump_names(root):
        if "." in name and name != "partition.metadata":
            found += lines(name, f"{directory}/{name}", dump_file(root, name, with_records=True))
    expected = (GOLDEN / "log-dir" / "dump" / f"{directory}.txt").read_text().splitlines()
    if directory != "t-0":
        # Its keys and values were printed by a decoder of their own; the batches are the log's.
        found = [line for line in found if line.startswith("baseOffset")]
        expected = [line for line in expected if line.startswith("baseOffset")]
    assert found == expected


def test_indexes_answer_as_a_scan(log: PartitionLog) -> None:
    assert_index_answers_as_a_scan(log)


def test_a_clean_stop_writes_the_directory_back_as_it_was(data: Path, request: pytest.FixtureRequest) -> None:
    before = {path.relative_to(data): path.read_bytes() for path in data.rglob("*") if path.is_file()}
    manager = request.getfixturevalue("manager")
    manager.close({T: 194, TopicPartition("__consumer_offsets", 0): 4})
    after = {path.relative_to(data): path.read_bytes() for path in data.rglob("*") if path.is_file()}
    after.pop(Path(".lock"))
    assert after.pop(Path("t-0/transaction-index-sizes")) == b"0\n1\n50 2\n"
    # It begins no segment, and there is a newer one: Apache's brokers remove it too when they start.
    before.pop(Path("t-0/00000000000000000062.snapshot"))
    # The lines of an offset checkpoint have no order; ours are sorted.
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        assert sorted(after[Path(name)].split(b"\n")) == sorted(before[Path(name)].split(b"\n"))
        after[Path(name)] = before[Path(name)]
    assert after == before


def test_unclean_recovery_of_the_same_files_finds_the_same_log(data: Path) -> None:
    (data / ".kafka_cleanshutdown").unlink()
    (data / "recovery-point-offset-checkpoint").write_text("0\n2\n__consumer_offsets 0 0\nt 0 0\n")
    manager = LogManager([OsDirectory(str(data))], BrokerSettings({}))
    report = manager.load(STOPPED_AT)
    assert report.clean_directories == [] and report.notes == []
    log = manager.logs[T]
    assert log.log_end_offset == 194 and log.recovery_point == 0
    assert log.epochs.entries == [EpochEntry(0, 0), EpochEntry(1, 62), EpochEntry(2, 102)]
    assert log.aborted_transactions(0, 194) == [
        AbortedTransaction(1001, 51, 61, 62),
        AbortedTransaction(1000, 162, 172, 173),
    ]
    # Rebuilt from the first batch on, the oldest producer is there too; Apache had expired it in the meantime.
    assert [p.producer_id for p in log.producers.all()] == [0, 1000, 1001, 1002]
    assert_index_answers_as_a_scan(log)


def test_appending_goes_on_where_apache_stopped(log: PartitionLog) -> None:
    result = produce(log, new_batch(3), epoch=3)
    assert (result.base_offset, result.last_offset) == (194, 196)
    assert log.epochs.entries[-1] == EpochEntry(3, 194)
