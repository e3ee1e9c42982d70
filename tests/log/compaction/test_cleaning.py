"""A cleaning of a log on a disk: what is read before and after, what happens beside it, and what a crash leaves."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.log.compaction import passes
from odradek.log.compaction.cleaner import NO_LIMIT, Cleaner, Found, facts_of, limits_of
from odradek.log.compaction.cleaning import Cleaning
from odradek.log.compaction.passes import Uncleanable
from odradek.log.compaction.rewriting import LastEntry
from odradek.log.errors import CorruptLog, DiskFault, MissingFile
from odradek.log.files import OsDirectory, OsFile
from odradek.log.indexes import AbortedTransaction, TransactionIndex
from odradek.log.log_manager import LogManager
from odradek.log.partition_log import PartitionLog
from odradek.log.producers import read_snapshot
from odradek.model.ids import TopicPartition
from odradek.model.settings import BrokerSettings, TopicSettings
from odradek.records.batch import MAGIC_OFFSET, iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.reader import decode_batch
from tests.log.logs import (
    NOW,
    TOPIC_ID,
    TP,
    assert_index_answers_as_a_scan,
    batch,
    contents,
    follow,
    headers,
    idempotent,
    marker,
    offsets,
    produce,
)

LARGE_MAP = 1 << 20
OTHER = TopicPartition("others", 0)


class Compacted:
    """`orders-0`, compacted, in segments of about 1,000 bytes, under a manager."""

    def __init__(self, path: Path, **overrides: str) -> None:
        self.path = path
        texts = {"cleanup.policy": "compact", "segment.bytes": "1000", "index.interval.bytes": "100"}
        self.settings = BrokerSettings({"log.dirs": str(path)})
        self.topic = TopicSettings(
            self.settings, texts | {k.replace("_", "."): v for k, v in overrides.items()}
        )
        self.open()

    def open(self) -> None:
        self.manager = LogManager(
            [OsDirectory(str(self.path))], self.settings, topic_settings=lambda topic: self.topic
        )
        self.report = self.manager.load(NOW)
        self.log: PartitionLog = self.manager.get_or_create(TP, TOPIC_ID, now_ms=NOW)
        self.cleaner = Cleaner(lambda: list(self.manager.logs.values()), self.manager.cleaned_to)

    def write(self, key: str, value: str | None = "v") -> None:
        encoded = None if value is None else value.encode() * 60
        produce(self.log, batch(key=key.encode(), value=encoded))

    def found(self, now_ms: int = NOW) -> Found | None:
        stable = [(log, log.last_stable_offset(log.log_end_offset)) for log in self.cleaner.candidates()]
        return self.cleaner.most_dirty(stable, now_ms)

    def begin(self, now_ms: int = NOW, map_bytes: int = LARGE_MAP) -> Cleaning:
        found = self.found(now_ms)
        assert found is not None
        return self.cleaner.cleaning_of(
            found, now_ms=now_ms, map_bytes=map_bytes, load_factor=0.9, droppable_below=NO_LIMIT
        )

    def clean(self, now_ms: int = NOW, map_bytes: int = LARGE_MAP) -> Cleaning:
        cleaning = self.put_in_place(now_ms, map_bytes)
        self.checkpoint(cleaning)
        return cleaning

    def put_in_place(self, now_ms: int = NOW, map_bytes: int = LARGE_MAP) -> Cleaning:
        cleaning = self.begin(now_ms, map_bytes)
        walk(cleaning.build_map())
        while not cleaning.is_done:
            walk(cleaning.write_segment())
            assert cleaning.put()
        return cleaning

    def checkpoint(self, cleaning: Cleaning) -> None:
        self.manager.is_cleaned_to(cleaning.log, cleaning.end_offset, cleaning.generation)

    def values(self) -> dict[str, str | None]:
        """As a reader of committed records has them at the end."""
        log = self.log
        aborted = log.aborted_transactions(0, log.log_end_offset)
        found: dict[str, str | None] = {}
        data = contents(log)
        for position, header in iter_batches(data):
            of_aborted = any(
                a.producer_id == header.producer_id and a.first_offset <= header.base_offset <= a.last_offset
                for a in aborted
            )
            if header.is_control or (header.is_transactional and of_aborted):
                continue
            for record in decode_batch(data, position):
                assert record.key is not None
                found[record.key.decode()] = None if record.value is None else record.value.decode()[:1]
        return found


def walk(steps: Iterator[int]) -> None:
    for count in steps:
        assert count > 0


@pytest.fixture
def disk(tmp_path: Path) -> Compacted:
    return Compacted(tmp_path)


def test_an_index_without_entries_counts_as_one_of_one_entry(tmp_path: Path) -> None:
    """A cleaned segment has an entry at least: 8 bytes of the offset index, 12 of the time index."""
    disk = Compacted(tmp_path, segment_bytes="200")  # a batch each
    for key in "ab":
        disk.write(key)
    segment = disk.log.segments[0]
    assert segment.directory.size(segment.name(".index")) == 0

    facts = facts_of(segment, limits_of(disk.log))

    assert (facts.index_bytes, facts.time_index_bytes) == (8, 12)


def test_a_log_of_which_more_stays_than_a_segment_holds_is_not_tried_again(
    disk: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer may have packed its batches much closer than they are packed again. Positions in an index have 31 bits."""
    filled(disk)
    before = disk.values()
    monkeypatch.setattr(passes, "MAX_POSITION", 200)
    with pytest.raises(Uncleanable, match="what stays up to it is more than 200 bytes"):
        disk.clean()
    assert disk.values() == before and not list(disk.path.glob("*/*.cleaned"))


def test_a_segment_that_waits_for_its_age_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every 15 seconds all headers of a log were read again, for as long as `min.compaction.lag.ms` lets a segment wait."""
    disk = filled(Compacted(tmp_path, min_compaction_lag_ms="60000"))
    reads: list[str] = []
    read_at = OsFile.read_at

    def counted(file: OsFile, position: int, size: int) -> bytes:
        reads.append(file.name)
        return read_at(file, position, size)

    monkeypatch.setattr(OsFile, "read_at", counted)
    assert disk.found() is None and len(reads) > 3
    reads.clear()
    assert disk.found() is None and reads == []
    disk.log.truncate_to(disk.log.segments[1].base_offset + 1, NOW)
    disk.write("e")
    reads.clear()
    assert disk.found() is None and len(set(reads)) == 1, "that one is another now"
    assert disk.found(NOW + 60_001) is not None


def test_the_closed_segments_of_a_log_that_is_not_due_are_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `max.compaction.lag.ms` the first batch of each was read again every 15 seconds, and its indexes' sizes were asked for."""
    disk = filled(Compacted(tmp_path, max_compaction_lag_ms="60000", min_cleanable_dirty_ratio="1.0"))
    asked: list[str] = []
    opened, size = OsDirectory.open, OsDirectory.size

    def counted_open(directory: OsDirectory, name: str, **options: bool) -> OsFile:
        asked.append(name)
        return opened(directory, name, **options)

    def counted_size(directory: OsDirectory, name: str) -> int | None:
        asked.append(name)
        return size(directory, name)

    monkeypatch.setattr(OsDirectory, "open", counted_open)
    monkeypatch.setattr(OsDirectory, "size", counted_size)
    assert disk.found() is None and len(asked) > 6
    asked.clear()
    assert disk.found() is None and asked == []
    assert disk.found(NOW + 60_001) is not None


def filled(disk: Compacted, rounds: int = 12) -> Compacted:
    for n in range(rounds):
        for key in "abcd":
            disk.write(f"{key}{n % 3 if key == 'd' else ''}", chr(ord("A") + n))
    return disk


@pytest.mark.behaviour("L5")
def test_of_every_key_the_last_record_is_left_and_the_rest_is_gone(disk: Compacted) -> None:
    before = filled(disk).values()
    size, end = disk.log.size_bytes, disk.log.log_end_offset

    cleaning = disk.clean()

    assert disk.values() == before
    assert disk.log.size_bytes < size / 2
    assert (disk.log.log_end_offset, cleaning.end_offset) == (end, disk.log.segments.active.base_offset)
    assert cleaning.bytes_written < cleaning.bytes_read
    assert_index_answers_as_a_scan(disk.log)


@pytest.mark.behaviour("L15")
def test_segments_that_got_small_become_one_at_the_next_cleaning(disk: Compacted) -> None:
    filled(disk).clean()
    before = filled(disk).values()
    segments = len(disk.log.segments)

    disk.clean()

    assert len(disk.log.segments) < segments
    assert disk.values() == before
    assert_index_answers_as_a_scan(disk.log)


@pytest.mark.behaviour("L11")
def test_a_log_that_was_cleaned_is_not_due_until_more_is_written(disk: Compacted) -> None:
    filled(disk).clean()

    assert disk.cleaner.candidates() == []
    filled(disk, 3)
    assert disk.cleaner.candidates() == [disk.log]
    found = disk.found()
    assert found is not None and found.part.first_dirty > 0


def test_the_next_life_knows_how_far_it_was_cleaned(disk: Compacted) -> None:
    before = filled(disk).values()
    end = disk.clean().end_offset
    disk.manager.close({})
    disk.open()

    assert disk.manager.cleaned_to(disk.log) == end
    assert disk.cleaner.candidates() == []
    assert (disk.values(), disk.manager.refused) == (before, {})


@pytest.mark.behaviour("L4")
def test_a_full_map_ends_the_round_and_the_next_one_goes_on(disk: Compacted) -> None:
    before = filled(disk).values()
    ends = []
    while disk.cleaner.candidates():
        ends.append(disk.clean(map_bytes=24 * 3).end_offset)

    assert ends == sorted(set(ends)) and len(ends) > 3
    assert disk.values() == before


@pytest.mark.behaviour("L19")
def test_a_batch_with_more_keys_than_the_map_takes_is_uncleanable(disk: Compacted) -> None:
    produce(disk.log, batch(30, value=b"v"))
    filled(disk, 2)
    cleaning = disk.begin(map_bytes=24 * 3)

    with pytest.raises(
        Uncleanable, match=r"orders-0: the batch at offset 0: its 30 keys .* takes 2 .*dedupe.buffer.size"
    ):
        walk(cleaning.build_map())


@pytest.mark.behaviour("L19")
def test_a_log_that_cannot_be_cleaned_is_passed_over_as_long_as_it_is_there(disk: Compacted) -> None:
    log = filled(disk, 3).log
    cleaner = disk.cleaner
    cleaner.uncleanable[log] = "a batch of it cannot be opened"

    assert [cleaner.candidates() for _ in range(3)] == [[]] * 3

    disk.manager.close({})
    disk.open()
    assert cleaner.candidates() == [disk.log] and cleaner.uncleanable == {}, "that log is not there any more"


@pytest.mark.behaviour("L13")
def test_records_of_an_open_transaction_are_not_cleaned_and_of_an_aborted_one_they_go(
    disk: Compacted,
) -> None:
    disk.write("a", "1")
    produce(disk.log, idempotent(0, key=b"a", value=b"x" * 60, is_transactional=True))
    filled(disk, 6)
    assert disk.found() is None, "everything dirty is behind the open transaction, or in one segment with it"
    produce(disk.log, marker(commit=False), from_coordinator=True)
    filled(disk, 6)
    before = disk.values()

    disk.clean()

    assert disk.values() == before
    assert b"x" * 60 not in contents(disk.log)


def test_a_cut_below_the_checkpoint_takes_it_back(disk: Compacted) -> None:
    end = filled(disk).clean().end_offset
    disk.log.truncate_to(end - 3, NOW)
    assert disk.manager.cleaned_to(disk.log) == end - 3
    filled(disk, 4)

    found = disk.found()
    assert found is not None and found.part.first_dirty == end - 3


def test_a_cut_before_the_checkpoint_is_written_is_not_taken_for_cleaned(disk: Compacted) -> None:
    """The checkpoint is written in a thread, behind whatever the loop does: a tombstone that comes behind the cut would go, and
    a value from before the cut be there again."""
    disk.write("z", "A")
    cleaning = filled(disk).put_in_place()
    disk.log.truncate_to(cleaning.end_offset - 3, NOW)
    disk.write("z", None)
    disk.checkpoint(cleaning)
    for days in (0, 2, 4):
        filled(disk, 4).clean(NOW + days * 86_400_000)
    assert disk.values().get("z") is None


def test_a_cleaning_of_a_log_that_was_deleted_says_nothing_of_the_next_one(
    disk: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is deleted while the thread waits to write the checkpoint, and there is another topic of its name."""
    cleaning = filled(disk).put_in_place()
    (directory,) = disk.manager.directories
    lock = directory.checkpointing

    class Contended:
        def __enter__(self) -> None:
            directory.checkpointing = lock
            disk.manager.delete(TP, NOW)
            disk.manager.get_or_create(TP, TOPIC_ID, now_ms=NOW)
            lock.acquire()

        def __exit__(self, *error: object) -> None:
            lock.release()

    monkeypatch.setattr(directory, "checkpointing", Contended())
    disk.checkpoint(cleaning)
    assert directory.cleaned_to.offsets == {}


def test_how_far_the_next_log_of_its_name_was_cleaned_says_nothing_of_a_deleted_one(disk: Compacted) -> None:
    former = filled(disk).log
    disk.clean()
    disk.manager.delete(TP, NOW)
    assert disk.manager.cleaned_to(former) is None
    disk.log = disk.manager.get_or_create(TP, TOPIC_ID, now_ms=NOW)
    end = filled(disk).clean().end_offset

    assert (disk.manager.cleaned_to(disk.log), disk.manager.cleaned_to(former)) == (end, None)


@pytest.mark.behaviour("L20")
def test_a_log_that_is_cut_meanwhile_is_left_as_it_is(disk: Compacted) -> None:
    filled(disk)
    cleaning = disk.begin()
    walk(cleaning.build_map())
    walk(cleaning.write_segment())
    disk.log.truncate_to(5, NOW)
    before = contents(disk.log)

    assert not cleaning.put()
    assert contents(disk.log) == before
    assert not [path for path in disk.path.glob("*/*") if ".cleaned" in path.name]


@pytest.mark.behaviour("L20")
def test_a_log_whose_segments_are_removed_meanwhile_is_left_alone(disk: Compacted) -> None:
    filled(disk)
    disk.manager.close({})
    disk.open()  # no segment holds a descriptor now
    cleaning = disk.begin()
    steps = cleaning.build_map()
    next(steps)
    end = disk.log.log_end_offset
    disk.log.delete_records_before(end)
    disk.log.drop_segments_below(end)
    disk.log.segments.purge()

    with pytest.raises(MissingFile):
        walk(steps)
    assert (disk.log.log_start_offset, disk.log.failure) == (end, None)


def test_an_abandoned_cleaning_leaves_no_file(disk: Compacted) -> None:
    filled(disk)
    cleaning = disk.begin()
    walk(cleaning.build_map())
    steps = cleaning.write_segment()
    next(steps)
    assert [path for path in disk.path.glob("*/*.cleaned")]

    steps.close()

    assert not [path for path in disk.path.glob("*/*.cleaned")]


def test_an_abandoned_cleaning_whose_disk_fails_ends_quietly(disk: Compacted) -> None:
    filled(disk)
    cleaning = disk.begin()
    walk(cleaning.build_map())
    steps = cleaning.write_segment()
    next(steps)
    disk.log.directory.health.fail(DiskFault("input/output error"))

    steps.close()


def test_the_reason_that_ended_a_cleaning_is_told_where_its_files_cannot_be_removed(disk: Compacted) -> None:
    filled(disk)
    cleaning = disk.begin()
    walk(cleaning.build_map())
    steps = cleaning.write_segment()
    next(steps)
    fault = DiskFault("input/output error")
    disk.log.directory.health.fail(fault)

    with pytest.raises(Uncleanable, match="no room in the map"):
        steps.throw(Uncleanable("no room in the map"))


def test_gaps_that_cleaning_made_are_known_to_a_start_without_compaction(disk: Compacted) -> None:
    filled(disk).clean()
    expected = offsets(disk.log)
    disk.topic = TopicSettings(disk.settings, {"segment.bytes": "1000"})

    disk.open()  # killed before anything was flushed by it

    assert offsets(disk.log) == expected
    assert not [note for note in disk.report.notes if "cut" in note]


@pytest.mark.behaviour("L19")
def test_damage_is_not_written_anew_under_a_right_checksum(disk: Compacted) -> None:
    filled(disk)
    cleaning = disk.begin()
    walk(cleaning.build_map())
    segment = disk.path / "orders-0" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[80] ^= 1
    segment.write_bytes(data)

    with pytest.raises(CorruptLog, match="CRC of the batch at offset 0"):
        walk(cleaning.write_segment())
    assert not [path for path in disk.path.glob("*/*.cleaned")]


@pytest.mark.behaviour("L19")
@pytest.mark.parametrize("is_gone", [False, True], ids=["damaged", "let go"])
def test_a_log_that_cannot_be_read_keeps_no_other_from_being_cleaned(tmp_path: Path, is_gone: bool) -> None:
    disk = Compacted(tmp_path, min_compaction_lag_ms="1")
    filled(disk)
    other: PartitionLog = disk.manager.get_or_create(OTHER, TOPIC_ID, now_ms=NOW)
    for _ in range(40):
        produce(other, batch(key=b"k", value=b"v" * 60))
    other.flush()
    segment = disk.path / "others-0" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[MAGIC_OFFSET] ^= 1
    segment.write_bytes(data)

    found = disk.found(NOW + 10)
    assert found is not None and found.log is disk.log
    if is_gone:
        other.delete_records_before(other.segments[1].base_offset)
    disk.cleaner.judge()

    assert isinstance(other.failure, CorruptLog) is not is_gone
    assert disk.found(NOW + 10) == found


def test_the_next_log_may_be_looked_for_in_the_moment_in_which_one_begins_anew(disk: Compacted) -> None:
    """It has no segment for a moment, and a thread looks."""
    filled(disk)
    stable = [(log, log.log_end_offset) for log in disk.cleaner.candidates()]
    disk.log.segments.drop_all()
    assert disk.cleaner.most_dirty(stable, NOW) is None


def test_records_without_timestamps_do_not_become_younger(tmp_path: Path) -> None:
    """Retention goes by the time of their file, and where cleanings come more often they would never be let go."""
    disk = Compacted(tmp_path, cleanup_policy="compact,delete", retention_ms="1000")
    for n in range(20):
        produce(disk.log, batch(key=b"%d" % (n % 3), value=b"v" * 60, at=-1))
        if n % 3 == 2:
            disk.log.roll(NOW)
    bases = [segment.base_offset for segment in disk.log.segments[:-1]]
    for base in bases:
        path = disk.path / "orders-0" / f"{base:020d}.log"
        os.utime(path, ns=(0, (NOW + base) * 1_000_000))
    disk.clean()
    cleaned = disk.log.segments[:-1]
    lasts = [max(base for base in bases if base < segment.end_offset) for segment in cleaned]
    assert len(cleaned) < len(bases)
    assert [segment.modified_ms() for segment in cleaned] == [NOW + last for last in lasts]
    disk.manager.apply_retention(NOW + lasts[0] + 1001, {TP: disk.log.log_end_offset})
    assert cleaned[0] not in disk.log.segments


def test_a_largest_timestamp_of_which_no_record_is_left_is_not_found(disk: Compacted) -> None:
    """The last batch of a segment stays without records, and with its timestamp."""
    produce(disk.log, batch(key=b"a", value=b"x" * 850, at=NOW + 500))
    produce(disk.log, batch(key=b"a", value=b"x" * 850, at=NOW + 100))
    produce(disk.log, batch(key=b"b", value=b"x" * 850, at=NOW + 50))
    disk.clean()
    assert [header.record_count for header in headers(disk.log)] == [0, 1, 1]

    latest = disk.log.offset_of_max_timestamp()
    searched = disk.log.offset_for_timestamp(NOW + 200)

    assert (latest.offset if latest else None, searched) == (1, None)


def test_an_offset_that_was_acknowledged_is_still_known_of_its_producer(disk: Compacted) -> None:
    """A retry after the cleaning is recognised, in this life and in the next."""
    for n in range(3):
        produce(disk.log, idempotent(n, key=b"a", value=b"x" * 60))
    filled(disk, 6)
    disk.clean()
    retried = produce(disk.log, idempotent(2, key=b"a", value=b"x" * 60))
    assert retried.base_offset == 2
    (disk.path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for snapshot in disk.path.glob("*/*.snapshot"):
        snapshot.unlink()
    disk.manager.release()
    disk.open()

    assert produce(disk.log, idempotent(2, key=b"a", value=b"x" * 60)).base_offset == 2


def test_what_a_cut_leaves_of_a_producer_is_known_though_it_went_on_behind_it(disk: Compacted) -> None:
    """A follower cleans what is committed, and is then cut behind that (seed 2162): the producer's last batch there was gone, and
    what it sends next was out of order, or its retry appended again."""
    for n in range(3):
        produce(disk.log, idempotent(n, key=b"a", value=b"x" * 60))
    filled(disk, 6)
    cut = produce(disk.log, idempotent(3, key=b"a", value=b"x" * 60)).base_offset
    cleaning = disk.clean()
    assert 3 < cleaning.end_offset <= cut
    assert [one.base_offset for one in headers(disk.log) if one.producer_id == 7] == [2, cut]
    for snapshot in disk.path.glob("*/*.snapshot"):
        snapshot.unlink()
    disk.log.truncate_to(cut, NOW)
    disk.manager.release()
    disk.open()

    assert produce(disk.log, idempotent(2, key=b"a", value=b"x" * 60)).base_offset == 2
    assert produce(disk.log, idempotent(3, key=b"a", value=b"x" * 60)).base_offset == cut


def test_what_waited_longer_than_max_compaction_lag_is_rolled_and_due(tmp_path: Path) -> None:
    disk = Compacted(
        tmp_path, max_compaction_lag_ms="60000", min_cleanable_dirty_ratio="1.0", segment_bytes="100000"
    )
    disk.write("a", "1")
    disk.write("a", "2")
    assert disk.cleaner.candidates() == []
    produce(disk.log, batch(key=b"b", at=NOW + 60_001), now_ms=NOW + 60_001)

    assert len(disk.log.segments) == 2
    assert disk.found(NOW + 60_000) is None
    assert disk.found(NOW + 60_001) is not None


def test_what_is_younger_than_min_compaction_lag_is_left_alone(tmp_path: Path) -> None:
    disk = filled(Compacted(tmp_path, min_compaction_lag_ms="60000"))

    assert disk.found(NOW + 59_999) is None
    assert disk.found(NOW + 60_000) is not None


def test_records_without_timestamps_are_as_young_as_their_file(tmp_path: Path) -> None:
    """As for `retention.ms`, and as with Apache Kafka: they would be compacted at once."""
    disk = Compacted(tmp_path, min_compaction_lag_ms="60000")
    for number in range(40):
        produce(disk.log, batch(at=-1, key=b"%d" % (number % 4), value=b"v" * 60))
    for segment in disk.log.segments:
        os.utime(disk.path / str(TP) / segment.name(), ns=(0, NOW * 1_000_000))

    assert disk.found(NOW + 59_999) is None
    assert disk.found(NOW + 60_000) is not None


def test_a_segment_that_ends_in_a_gap_keeps_its_last_batch(tmp_path: Path) -> None:
    """As where an older broker followed: it began a new segment behind its leader's gap, so the one before ends with the gap."""
    compacted = Compacted(tmp_path, segment_bytes="100")
    log = compacted.log
    follow(log, batch(base_offset=0, leader_epoch=0, key=b"a"))
    log.roll(NOW, 40)
    follow(log, batch(base_offset=40, leader_epoch=0, key=b"a"))
    log.roll(NOW)
    follow(log, batch(base_offset=41, leader_epoch=0, key=b"b"))

    compacted.clean()

    assert offsets(log) == [0, 40, 41], "emptied, and in its place"
    assert log.segments[0].size_bytes > 0
    compacted.manager.close({})
    compacted.open()
    assert offsets(compacted.log) == [0, 40, 41]


def test_a_segment_of_which_another_cleaner_left_nothing_is_passed_over(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path)
    log = compacted.log
    for offset in range(3):
        follow(log, batch(base_offset=offset, leader_epoch=0, key=b"%d" % offset))
        log.roll(NOW)
    follow(log, batch(base_offset=3, leader_epoch=0, key=b"3"))
    compacted.manager.close({})
    (compacted.path / str(TP) / f"{1:020}.log").write_bytes(b"")

    compacted.open()

    assert offsets(compacted.log) == [0, 2, 3]
    assert headers(compacted.log)[1].base_offset == 2
    read = compacted.log.read(1, max_bytes=1 << 20, upper_bound_offset=4)
    assert read.size_bytes and compacted.log.failure is None


@pytest.mark.behaviour("L1")
def test_the_dirtiest_log_goes_first(disk: Compacted) -> None:
    filled(disk)
    disk.clean()
    for number in range(6):  # a little more behind what is clean
        disk.write(f"k{number}")
    other: PartitionLog = disk.manager.get_or_create(OTHER, TOPIC_ID, now_ms=NOW)
    for _ in range(20):
        produce(other, batch(key=b"k", value=b"v" * 100))
    first = disk.found()
    assert first is not None and first.log is other, "all of it is dirty"
    candidates = {log.topic_partition for log in disk.cleaner.candidates()}
    assert candidates == {TP, OTHER}


@pytest.mark.behaviour("L16")
def test_a_segment_is_left_where_nothing_of_its_records_is(disk: Compacted) -> None:
    for _ in range(2):
        for _ in range(6):  # two such segments do not fit into one
            disk.write("only")
        disk.log.roll(NOW)
    disk.clean()

    first = disk.log.segments[0]
    assert (first.base_offset, first.end_offset, disk.log.log_start_offset) == (0, 6, 0)
    (left,) = [header for _, header in first.headers()]
    assert (left.record_count, left.next_offset) == (0, 6)
    assert len([header for header in headers(disk.log) if header.record_count]) == 1
    assert disk.log.log_end_offset == 12


@pytest.mark.behaviour("L14")
def test_an_aborted_transaction_is_in_the_index_until_a_cleaning_meets_nothing_of_it(disk: Compacted) -> None:
    produce(disk.log, idempotent(0, key=b"a", is_transactional=True))
    produce(disk.log, marker(commit=False), from_coordinator=True)
    disk.write("b")
    disk.log.roll(NOW)
    (aborted,) = disk.log.segments[0].transactions
    disk.clean()
    assert list(disk.log.segments[0].transactions) == [aborted]
    disk.manager.close({})
    disk.open()
    assert list(disk.log.segments[0].transactions) == [aborted], "and on the disk"
    for round_ in (
        1,
        2,
    ):  # its batch stays, without records, while it has the last sequence, and is met once more
        produce(disk.log, idempotent(round_, key=b"c"))
        for _ in range(20):
            disk.write("c")
        disk.log.roll(NOW)
        disk.clean()

    assert [one for segment in disk.log.segments for one in segment.transactions] == []


def test_an_abort_before_the_dirty_part_says_nothing_of_what_its_producer_committed_since(
    disk: Compacted,
) -> None:
    produce(disk.log, idempotent(0, key=b"a", is_transactional=True))
    produce(disk.log, marker(commit=False), from_coordinator=True)
    filled(disk, 6).clean()
    assert disk.log.aborted_transactions(0, disk.log.log_end_offset), "its index entry is still there"
    disk.write("z", "1")
    produce(disk.log, idempotent(1, key=b"z", value=b"2" * 60, is_transactional=True))
    produce(disk.log, marker(commit=True), from_coordinator=True)
    filled(disk, 6)
    before = disk.values()

    disk.clean()

    assert disk.values() == before and before["z"] == "2"
    assert b"1" * 60 not in contents(disk.log)


def test_a_segment_that_was_shortened_meanwhile_is_not_what_was_there(disk: Compacted) -> None:
    filled(disk)
    cleaning = disk.begin()
    assert cleaning.is_of_what_is_there
    last = disk.log.segments[-2]
    disk.log.truncate_to(last.end_offset - 1, NOW)

    assert last in disk.log.segments and not cleaning.is_of_what_is_there


@pytest.mark.behaviour("L17")
def test_what_retention_took_is_not_looked_for(tmp_path: Path) -> None:
    disk = filled(Compacted(tmp_path, cleanup_policy="compact,delete"))
    second = disk.log.segments[1].base_offset
    disk.log.delete_records_before(second)
    found = disk.found()
    assert found is not None
    assert (found.part.first_dirty, found.log.log_start_offset) == (second, second)
    disk.clean()
    assert disk.log.log_start_offset == second


def test_a_log_that_begins_within_a_batch_is_compacted_however_many_records_lie_before(
    tmp_path: Path,
) -> None:
    """DeleteRecords cuts anywhere. The map has room for the keys from there on, and the batch had more."""
    disk = Compacted(tmp_path, cleanup_policy="compact,delete")
    records = [NewRecord(b"%d" % (number % 2), b"v", NOW) for number in range(9)]
    produce(disk.log, build_batch(records))
    disk.log.roll(NOW)
    disk.log.delete_records_before(5)

    cleaning = disk.clean()

    assert (cleaning.end_offset, disk.manager.cleaned_to(disk.log)) == (9, 9)
    kept = [record.offset for record in decode_batch(contents(disk.log)) if record.offset >= 5]
    assert kept == [7, 8]


def test_a_cleaning_is_told_of_producers_and_aborts_in_bytes(disk: Compacted) -> None:
    """Sent to another process, an object for each would be packed in one piece, during which no other thread runs: of fifty thousand
    producers it took 55 ms, and 45 ms of the loop to make them."""
    for producer_id in range(20):
        produce(disk.log, idempotent(0, producer_id=producer_id, is_transactional=True))
        produce(disk.log, marker(commit=False, producer_id=producer_id), from_coordinator=True)
    disk.log.roll(NOW)
    aborted = disk.log.aborted_transactions(0, disk.log.log_end_offset)
    job = disk.begin()._job._replace(aborted=TransactionIndex(aborted))
    sent = pickle.dumps(job)
    assert AbortedTransaction.__name__.encode() not in sent and LastEntry.__name__.encode() not in sent
    again = pickle.loads(sent)
    assert list(again.aborted) == aborted and len(aborted) == 20
    assert [one.producer_id for one in read_snapshot(again.producers)] == disk.log.producers.ids()


def test_a_log_that_was_cut_while_it_was_looked_at_is_not_called_damaged(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path)
    log, segment = compacted.log, compacted.log.segments[0]
    for seen_end, is_damaged in ((segment.end_offset + 1, False), (segment.end_offset, True)):
        compacted.cleaner._suspects = [(log, [(segment, seen_end)], CorruptLog("no batch at 0"))]
        compacted.cleaner.judge()
        assert (log.failure is not None) == is_damaged


def test_of_a_log_that_failed_to_be_cleaned_and_was_deleted_nothing_is_kept(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path)
    compacted.cleaner.was_cleaned(compacted.log, done=False)
    compacted.manager.delete(TP, NOW)
    assert compacted.cleaner.candidates() == [] and not compacted.cleaner._put_back
