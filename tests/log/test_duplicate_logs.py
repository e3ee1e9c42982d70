"""Logs of one name in several directories, and a deletion while one of them is away (KAFKA-16157)."""

import errno
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from odradek.log import checkpoints, files, log_manager
from odradek.log.errors import CorruptLog, DirectoryOffline, DiskFault, NoDescriptor, StorageError
from odradek.log.files import OsDirectory
from odradek.log.log_manager import LogManager
from odradek.log.offset_checkpoint import OffsetCheckpoint
from odradek.log.partition_log import PartitionLog
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.model.settings import BrokerSettings
from tests.log.logs import NOW, TOPIC_ID, batch, produce
from tests.support import open_under

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
OTHER_ID = TopicId(bytes(16 * [7]))
THIRD_ID = TopicId(bytes(16 * [9]))


def load(paths: Sequence[Path], **left_out: StorageError) -> LogManager:
    manager = LogManager(
        [OsDirectory.create(str(path)) for path in paths], BrokerSettings({}), left_out=left_out
    )
    manager.report = manager.load(NOW)  # type: ignore[attr-defined]
    return manager


def holding(path: Path, topic_id: TopicId, count: int) -> None:
    manager = load([path])
    log = manager.get_or_create(A, topic_id, now_ms=NOW)
    for _ in range(count):
        produce(log, batch())
    manager.close({A: count})


def damage(two: list[Path]) -> None:
    """The last batch of the first one, which was flushed; and nobody has stopped in order."""
    for path in two:
        (path / checkpoints.CLEAN_SHUTDOWN).unlink()
    segment = two[0] / "a-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")


def aside(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir() if p.name.startswith("a-0."))


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "1", tmp_path / "2"]
    holding(paths[0], TOPIC_ID, 3)
    holding(paths[1], OTHER_ID, 5)
    return paths


def test_of_two_topics_the_one_on_a_good_disk_is_served_though_the_other_could_not_be_read_twice(
    two: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither opened nor asked of which topic it is, for want of descriptors, it had its error taken for that of the good one: which
    was damaged by that, and offline in an ISR of its own."""
    really_open = files.os.open
    wanted = 0

    def opens(path: str, *arguments: Any, **options: Any) -> int:
        nonlocal wanted
        is_log = str(path).startswith(f"{two[1]}/a-0") and str(path).endswith(".log")
        if is_log or (wanted and str(path) == f"{two[1]}/a-0/partition.metadata"):
            wanted += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return really_open(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", opens)
        manager = load(two)
    assert wanted == 2 and list(manager.offline_directories) == [str(two[1])]
    assert manager.resolve_topic_id(A, TOPIC_ID, NOW) == []
    assert not manager.is_damaged(A)
    assert manager.get_or_create(A, TOPIC_ID, now_ms=NOW).log_end_offset == 3


@pytest.mark.parametrize(("meant", "end", "stray"), [(TOPIC_ID, 3, 1), (OTHER_ID, 5, 0)])
def test_of_two_topics_the_one_the_controller_means_is_served_and_the_other_set_aside(
    two: list[Path], meant: TopicId, end: int, stray: int
) -> None:
    manager = load(two)
    assert manager.offline_directories == {} and manager.logs == {} and manager.get(A) is None

    (line,) = manager.resolve_topic_id(A, meant, NOW)

    log = manager.get_or_create(A, meant, now_ms=NOW)
    assert log.log_end_offset == end and manager.directory_of(A) == str(two[1 - stray])
    (name,) = aside(two[stray])
    assert name.endswith("-stray") and f"{two[stray]}/{name}" in line
    assert (two[stray] / name / "00000000000000000000.log").stat().st_size > 0
    assert aside(two[1 - stray]) == []
    produce(log, batch())
    manager.close({A: end + 1})
    again = load(two)
    assert again.report.notes == []  # type: ignore[attr-defined]
    assert again.logs[A].log_end_offset == end + 1


def test_the_one_that_is_meant_is_not_served_where_its_directory_has_failed_meanwhile(
    two: list[Path],
) -> None:
    """It was not in use when the directory told its logs, and was led: each read of it came from a disk that has failed."""
    manager = load(two)
    manager.directories[0].root.health.fail(DiskFault("it is on fire"))
    manager.resolve_topic_id(A, TOPIC_ID, NOW)
    with pytest.raises(DiskFault, match="it is on fire"):
        manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    assert manager.may_be_lost(A)


def test_neither_of_two_is_the_one_the_controller_means(two: list[Path]) -> None:
    manager = load(two)
    manager.resolve_topic_id(A, THIRD_ID, NOW)
    assert manager.get_or_create(A, THIRD_ID, now_ms=NOW).log_end_offset == 0
    assert [name.endswith("-stray") for path in two for name in aside(path)] == [True, True]


def test_a_controller_that_names_no_topic_id_does_not_say_which(two: list[Path]) -> None:
    manager = load(two)
    with pytest.raises(StorageError, match="names no topic id"):
        manager.resolve_topic_id(A, NO_TOPIC_ID, NOW)
    assert aside(two[0]) == aside(two[1]) == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_logs_of_the_same_topic_neither_is_served_and_the_error_names_both(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    """The one in the directory that `log.dirs` names first was, whatever it held, and the other directory was offline with all its
    logs: a disk that was away while the replica left and was assigned again is enough."""
    paths = [tmp_path / "1", tmp_path / "2"]
    holding(paths[0], TOPIC_ID, 3)
    holding(paths[1], TOPIC_ID, 5)
    other = load([paths[1]])
    other.get_or_create(B, TOPIC_ID, now_ms=NOW)
    other.close({})

    manager = load([paths[number] for number in order])

    assert manager.offline_directories == {} and list(manager.logs) == [B]
    for _ in range(2):
        with pytest.raises(StorageError, match="of the same topic") as raised:
            manager.resolve_topic_id(A, TOPIC_ID, NOW)
        assert all(f"{path} " in raised.value.message or f"{path}," in raised.value.message for path in paths)
    assert list(manager.logs) == [B] and aside(paths[0]) == aside(paths[1]) == []
    manager.close({})
    (paths[0] / "a-0").rename(tmp_path / "moved away")
    again = load(paths)
    assert again.resolve_topic_id(A, TOPIC_ID, NOW) == [] and again.logs[A].log_end_offset == 5


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_logs_of_the_same_topic_a_replica_that_nobody_counts_on_follows_with_the_longer_one(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    """It was made anew while a disk was out of `log.dirs`, which is back."""
    paths = [tmp_path / "1", tmp_path / "2"]
    holding(paths[0], TOPIC_ID, 3)
    holding(paths[1], TOPIC_ID, 5)
    manager = load([paths[number] for number in order])
    (line,) = manager.resolve_topic_id(A, TOPIC_ID, NOW, is_counted_on=False)
    (name,) = aside(paths[0])
    assert name.endswith("-stray") and f"{paths[0]}/{name}" in line and aside(paths[1]) == []
    assert manager.get_or_create(A, TOPIC_ID, now_ms=NOW).log_end_offset == 5


def test_a_longer_log_that_is_damaged_or_on_a_disk_that_failed_is_not_followed_with(tmp_path: Path) -> None:
    for what in ("damaged", "failed"):
        paths = [tmp_path / what / "1", tmp_path / what / "2"]
        for path, count in zip(paths, (5, 3), strict=True):
            path.mkdir(parents=True)
            holding(path, TOPIC_ID, count)
        if what == "damaged":
            damage(paths)
        manager = load(paths)
        if what == "failed":
            manager.directories[0].root.health.fail(DiskFault("it is on fire"))
        manager.resolve_topic_id(A, TOPIC_ID, NOW, is_counted_on=False)
        assert manager.get_or_create(A, TOPIC_ID, now_ms=NOW).log_end_offset == 3


def test_of_two_logs_of_the_same_topic_neither_is_deleted_by_whom_it_is_not_named(tmp_path: Path) -> None:
    """The first was, and the deletion was answered; the other was back with the next start (seed 2930)."""
    paths = [tmp_path / "1", tmp_path / "2"]
    for path in paths:
        holding(path, TOPIC_ID, 3)
    manager = load(paths)
    assert manager.delete(A, NOW) and manager.sync_deletions() == {}
    assert [name.endswith("-stray") for path in paths for name in aside(path)] == [True, True]
    again = load(paths)
    assert again.logs == {} and again.ambiguous == {}


def test_two_logs_of_the_same_topic_are_no_obstacle_to_another(two: list[Path], tmp_path: Path) -> None:
    holding(tmp_path / "3", TOPIC_ID, 2)
    manager = load([*two, tmp_path / "3"])
    with pytest.raises(StorageError, match="of the same topic"):
        manager.resolve_topic_id(A, TOPIC_ID, NOW)
    assert len(manager.resolve_topic_id(A, OTHER_ID, NOW)) == 2
    assert manager.logs[A].log_end_offset == 5


BEGUN = {
    "an empty partition.metadata": lambda path: (path / "partition.metadata").write_bytes(b""),
    "an empty segment": lambda path: (path / "00000000000000000000.log").write_bytes(b""),
    "nothing": lambda path: None,
}


@pytest.mark.parametrize("begun", list(BEGUN))
def test_of_two_logs_of_the_same_topic_one_that_was_never_used_gives_way(begun: str, tmp_path: Path) -> None:
    """The disk failed as it was to be made, and it was made on another. With the first disk that one was offline."""
    for number, order in enumerate(((0, 1), (1, 0))):
        paths = [tmp_path / f"{begun} {number}" / name for name in ("1", "2")]
        for path in paths:
            path.mkdir(parents=True)
        holding(paths[1], TOPIC_ID if begun == "an empty segment" else NO_TOPIC_ID, 5)
        (paths[0] / "a-0").mkdir()
        BEGUN[begun](paths[0] / "a-0")
        if begun == "an empty segment":
            metadata = (paths[1] / "a-0" / checkpoints.PARTITION_METADATA).read_bytes()
            (paths[0] / "a-0" / checkpoints.PARTITION_METADATA).write_bytes(metadata)

        manager = load([paths[number] for number in order])

        assert manager.offline_directories == {} and manager.ambiguous == {}
        assert manager.logs[A].log_end_offset == 5 and manager.directory_of(A) == str(paths[1])
        (name,) = aside(paths[0])
        assert name.endswith("-stray") and aside(paths[1]) == []
        (line,) = [note for note in manager.report.notes if name in note]  # type: ignore[attr-defined]
        assert "it was never used" in line
        assert manager.delete(A, NOW) and load(paths).logs == {}


def test_of_two_logs_that_were_never_made_one_gives_way(tmp_path: Path) -> None:
    """One disk failed and the other had no descriptor, and then the process was killed (seed 2930): a directory was offline."""
    paths = [tmp_path / "1", tmp_path / "2"]
    for path in paths:
        (path / "a-0").mkdir(parents=True)
        (path / "a-0" / checkpoints.PARTITION_METADATA).write_bytes(b"")
    manager = load(paths)
    assert manager.offline_directories == {} and manager.directory_of(A) == str(paths[0])
    assert manager.resolve_topic_id(A, TOPIC_ID, NOW) == []
    assert manager.get_or_create(A, TOPIC_ID, now_ms=NOW).topic_id == TOPIC_ID
    assert manager.delete(A, NOW) and load(paths).logs == {}


def emptied(path: Path) -> None:
    for name in path.iterdir():
        if name.name != checkpoints.PARTITION_METADATA:
            name.unlink()


USED = {
    "it goes on at an offset": lambda path: (path / "00000000000000000003.log").write_bytes(b""),
    "a compaction was cut short": lambda path: (path / "00000000000000000000.log.swap").write_bytes(b"?"),
    "it knows a leader epoch": lambda path: (path / checkpoints.LEADER_EPOCHS).write_bytes(b"0\n1\n4 0\n"),
}


@pytest.mark.parametrize("used", list(USED))
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_log_without_records_that_may_have_been_in_use_gives_way_to_no_other(
    used: str, order: tuple[int, int], tmp_path: Path
) -> None:
    """Where it went on at an offset, the other would give offsets away a second time."""
    paths = [tmp_path / "1", tmp_path / "2"]
    for path in paths:
        holding(path, TOPIC_ID, 3)
    emptied(paths[0] / "a-0")
    USED[used](paths[0] / "a-0")
    manager = load([paths[number] for number in order])
    assert manager.logs == {} and len(manager.ambiguous[A]) == 2
    assert aside(paths[0]) == aside(paths[1]) == []


@pytest.mark.parametrize(("meant", "end"), [(OTHER_ID, 5), (TOPIC_ID, 3)])
def test_one_that_does_not_say_whose_it_is_gives_way_to_the_one_that_does(
    two: list[Path], meant: TopicId, end: int
) -> None:
    """A power cut may take the file: then the log is of the topic meant if no other says so."""
    (two[0] / "a-0" / checkpoints.PARTITION_METADATA).unlink()
    manager = load(two)
    assert len(manager.resolve_topic_id(A, meant, NOW)) == 1
    log = manager.get_or_create(A, meant, now_ms=NOW)
    assert (log.log_end_offset, log.topic_id) == (end, meant)


def test_of_two_logs_of_which_neither_says_whose_it_is_neither_is_served(two: list[Path]) -> None:
    for path in two:
        (path / "a-0" / checkpoints.PARTITION_METADATA).unlink()
    manager = load(two)
    for is_counted_on in (True, False):  # an older topic may have led in the same epochs
        with pytest.raises(StorageError, match="neither says"):
            manager.resolve_topic_id(A, TOPIC_ID, NOW, is_counted_on=is_counted_on)
    assert manager.offline_directories == {} and manager.logs == {}


def test_three_directories_hold_logs_of_three_topics(two: list[Path], tmp_path: Path) -> None:
    holding(tmp_path / "3", THIRD_ID, 2)
    manager = load([*two, tmp_path / "3"])
    assert len(manager.ambiguous[A]) == 3
    assert len(manager.resolve_topic_id(A, THIRD_ID, NOW)) == 2
    assert manager.logs[A].log_end_offset == 2


def test_what_waits_to_be_told_is_closed_in_order_and_keeps_its_checkpoints(two: list[Path]) -> None:
    for path in two:
        (path / checkpoints.CLEAN_SHUTDOWN).unlink()
    manager = load(two)
    manager.checkpoint_recovery_points()
    for path, flushed in zip(two, (3, 5), strict=True):
        data = (path / checkpoints.RECOVERY_POINT).read_bytes()
        assert checkpoints.read_offsets(data, "")[A] == flushed
    manager.close({})

    again = load(two)
    assert len(again.report.clean_directories) == 2  # type: ignore[attr-defined]
    again.resolve_topic_id(A, OTHER_ID, NOW)
    assert again.logs[A].log_end_offset == again.logs[A].recovery_point == 5


@pytest.mark.parametrize("lost", [0, 1])
def test_the_mark_of_one_of_two_that_lost_its_end_is_lowered_whichever_is_opened_first(
    two: list[Path], lost: int
) -> None:
    """As of any log: what will be appended there would else look committed, once it is the one in use."""
    segment = two[lost] / "a-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-1])
    for path in two:
        (path / checkpoints.CLEAN_SHUTDOWN).unlink()
        (path / checkpoints.RECOVERY_POINT).unlink()

    load(two)

    ends = [3, 5]
    ends[lost] -= 1
    marks = [
        checkpoints.read_offsets((path / checkpoints.HIGH_WATERMARK).read_bytes(), "")[A] for path in two
    ]
    assert marks == ends


def test_a_stop_while_one_of_two_is_damaged_closes_the_other_and_has_the_damaged_one_looked_at_again(
    two: list[Path],
) -> None:
    damage(two)
    manager = load(two)
    damaged, whole = (duplicate.log for duplicate in manager.ambiguous[A])
    assert isinstance(damaged, CorruptLog) and isinstance(whole, PartitionLog)

    manager.close({})

    assert whole.failure is not None and "is closed" in whole.failure.message
    assert open_under(two[1]) == []
    assert [(path / checkpoints.CLEAN_SHUTDOWN).exists() for path in two] == [False, True]


def test_of_two_topics_the_one_the_controller_means_is_damaged_and_no_other_is_served_in_its_place(
    two: list[Path],
) -> None:
    damage(two)
    manager = load(two)

    (line,) = manager.resolve_topic_id(A, TOPIC_ID, NOW)

    (name,) = aside(two[1])
    assert name.endswith("-stray") and f"{two[1]}/{name}" in line and aside(two[0]) == []
    with pytest.raises(CorruptLog, match="flushed up to offset 3"):
        manager.get(A)
    assert manager.logs == {} and manager.directory_of(A) == str(two[0])
    assert f"{two[0]}/a-0." in manager.recreate(A, NOW)
    assert manager.get_or_create(A, TOPIC_ID, now_ms=NOW).log_end_offset == 0


def test_of_two_topics_a_damaged_one_that_is_not_meant_is_set_aside(two: list[Path]) -> None:
    damage(two)
    manager = load(two)
    (line,) = manager.resolve_topic_id(A, OTHER_ID, NOW)
    assert f"{two[0]}/a-0." in line and aside(two[1]) == []
    log = manager.get(A)
    assert log is not None and log.log_end_offset == 5


def test_a_stop_that_could_mean_either_deletes_neither(two: list[Path]) -> None:
    manager = load(two)
    assert manager.delete(A, NOW)
    assert [name.endswith("-stray") for path in two for name in aside(path)] == [True, True]
    assert manager.sync_deletions() == {}
    manager.purge(NOW + 1_000_000)
    assert len(aside(two[0])) == len(aside(two[1])) == 1


def test_a_log_of_another_topic_is_set_aside_before_the_new_one_is_made(tmp_path: Path) -> None:
    holding(tmp_path, TOPIC_ID, 3)
    manager = load([tmp_path])
    assert manager.resolve_topic_id(A, TOPIC_ID, NOW) == manager.resolve_topic_id(A, NO_TOPIC_ID, NOW) == []
    assert len(manager.resolve_topic_id(A, OTHER_ID, NOW)) == 1
    new = manager.get_or_create(A, OTHER_ID, now_ms=NOW)
    assert new.log_end_offset == 0 and new.topic_id == OTHER_ID
    manager.purge(NOW + 1_000_000)
    assert [name.endswith("-stray") for name in aside(tmp_path)] == [True]


def test_one_of_another_topic_on_a_disk_that_failed_is_no_obstacle(tmp_path: Path) -> None:
    paths = [tmp_path / "1", tmp_path / "2"]
    manager = load(paths)
    old = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    old.directory.health.fail(DiskFault("it is on fire"))
    assert "stays there" in manager.resolve_topic_id(A, OTHER_ID, NOW)[0]
    new = manager.get_or_create(A, OTHER_ID, now_ms=NOW)
    assert new.directory.path.startswith(str(paths[1]))
    manager.release()

    back = load(paths)
    back.resolve_topic_id(A, OTHER_ID, NOW)
    assert back.directory_of(A) == str(paths[1])


def test_a_damaged_one_on_a_disk_that_fails_later_is_no_obstacle_either(
    two: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was said of it was said of the name, and so of the one that is well."""
    damage(two)
    (two[0] / "b-0").mkdir()
    names = OsDirectory.names

    def names_or_fault(directory: OsDirectory) -> list[str]:
        if directory.path == str(two[0] / "b-0"):
            raise directory.health.fail(DiskFault("list: Input/output error"))
        return names(directory)

    monkeypatch.setattr(OsDirectory, "names", names_or_fault)
    manager = load(two)
    assert list(manager.offline_directories) == [str(two[0])]
    log = manager.get_or_create(A, OTHER_ID, now_ms=NOW)
    assert (log.log_end_offset, manager.directory_of(A)) == (5, str(two[1]))


@pytest.mark.parametrize("name", ["a-0", "b-0", "A-0"])
def test_nothing_is_said_to_be_deleted_of_which_a_disk_that_failed_at_the_start_has_another(
    two: list[Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its names were read by then, and the one that was not opened was back with it."""
    (two[1] / name).mkdir(exist_ok=True)
    names = OsDirectory.names

    def names_or_fault(directory: OsDirectory) -> list[str]:
        if directory.path == str(two[1] / name):
            raise directory.health.fail(DiskFault("list: Input/output error"))
        return names(directory)

    with monkeypatch.context() as patch:
        patch.setattr(OsDirectory, "names", names_or_fault)
        manager = load(two)
    assert list(manager.offline_directories) == [str(two[1])]
    manager.resolve_topic_id(A, TOPIC_ID, NOW)
    assert manager.get_or_create(A, TOPIC_ID, now_ms=NOW).log_end_offset == 3
    for _ in range(2):
        with pytest.raises(DirectoryOffline):
            manager.delete(A, NOW)
    assert len(aside(two[0])) == 1
    again = load(two)
    assert again.delete(A, NOW) and A not in load(two).logs


def test_nothing_is_said_to_be_deleted_that_lies_on_a_disk_that_is_away(tmp_path: Path) -> None:
    manager = load([tmp_path / "1", tmp_path / "2"])
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    log.directory.health.fail(DiskFault("it is on fire"))
    with pytest.raises(DirectoryOffline):
        manager.delete(A, NOW)
    assert manager.directory_of(A) == str(tmp_path / "1")
    assert not manager.delete(B, NOW), (
        "of which nothing lay there when the broker started, and nothing was put there since"
    )
    assert aside(tmp_path / "1") == []


def test_what_was_deleted_is_gone_though_another_disk_is_away(tmp_path: Path) -> None:
    """A controller that took over asks for it again, and the deletion of the topic waited for the disk."""
    manager = load([tmp_path / "1", tmp_path / "2"])
    for partition in (A, B):
        manager.get_or_create(partition, TOPIC_ID, now_ms=NOW)
    assert manager.delete(A, NOW) and manager.sync_deletions() == {}
    for directory in manager.directories:
        directory.root.health.fail(DiskFault("it is on fire"))
        assert not manager.delete(A, NOW)
    with pytest.raises(DirectoryOffline):
        manager.delete(B, NOW)


@pytest.mark.parametrize("what", ["rename", "sync"])
def test_what_could_not_be_taken_away_may_be_back_with_its_disk_however_often_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    manager = load([tmp_path / "1", tmp_path / "2"])
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)

    def fails(directory: OsDirectory, *_: object) -> bool:
        raise directory.health.fail(DiskFault("Input/output error"))

    with monkeypatch.context() as disk:
        disk.setattr(OsDirectory, what, fails)
        if what == "rename":
            with pytest.raises(DiskFault):
                manager.delete(A, NOW)
        else:
            assert manager.delete(A, NOW)
            assert list(manager.sync_deletions()) == [A]
    assert log.directory.health.failure is not None
    with pytest.raises(DirectoryOffline, match="perhaps in"):
        manager.delete(A, NOW)
    assert manager.may_be_lost(A), "so no empty copy is made in its place"
    assert not manager.may_be_lost(B)


def test_a_deletion_that_no_descriptor_was_left_to_sync_is_synced_when_it_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was nothing left to rename by then, so it was said to be done, and a power cut brought the log back."""
    manager = load([tmp_path / "1", tmp_path / "2"])
    manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    synced: list[str] = []

    def refuse(directory: OsDirectory) -> None:
        raise NoDescriptor("Too many open files")

    assert manager.delete(A, NOW)
    with monkeypatch.context() as disk:
        disk.setattr(OsDirectory, "sync", refuse)
        for _ in range(2):
            assert list(manager.sync_deletions()) == [A]
    monkeypatch.setattr(OsDirectory, "sync", lambda directory: synced.append(directory.path))
    assert not manager.delete(A, NOW)
    assert manager.sync_deletions() == {} and synced == [str(tmp_path / "1")]
    assert manager.sync_deletions() == {} and len(synced) == 1


def test_a_log_that_could_not_be_made_may_lie_on_the_disk_that_fails_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = load([tmp_path / "1", tmp_path / "2"])

    def refuse(*_: object, **__: object) -> None:
        raise NoDescriptor("Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(log_manager, "create_log", refuse)
        with pytest.raises(NoDescriptor):
            manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    assert not manager.may_be_lost(A)
    manager.directories[0].root.health.fail(DiskFault("it is on fire"))
    assert manager.may_be_lost(A)


def test_a_log_that_was_made_elsewhere_may_also_lie_where_the_disk_failed_as_it_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said to be gone, it was back with that disk, in the way of the next topic of that name."""
    manager = load([tmp_path / "1", tmp_path / "2"])
    really_create = log_manager.create_log

    def fails_behind(root: OsDirectory, *arguments: Any, **options: Any) -> PartitionLog:
        really_create(root, *arguments, **options)
        raise root.health.fail(DiskFault("it is on fire"))

    with monkeypatch.context() as patch:
        patch.setattr(log_manager, "create_log", fails_behind)
        with pytest.raises(DiskFault):
            manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    assert log.directory.health.failure is None
    assert (tmp_path / "1" / str(A)).is_dir() and (tmp_path / "2" / str(A)).is_dir()
    for _ in range(2):
        with pytest.raises(DirectoryOffline):
            manager.delete(A, NOW)
    assert not (tmp_path / "2" / str(A)).exists() and manager.may_be_lost(A)


def test_a_stray_that_is_synced_with_a_checkpoint_keeps_no_deletion_waiting_for_its_disk(
    two: list[Path],
) -> None:
    """No deletion came meanwhile that would have synced it. A disk on which a log was damaged is likely to fail."""
    manager = load(two)
    manager.resolve_topic_id(A, OTHER_ID, NOW)
    manager.checkpoint_recovery_points()
    manager.directories[0].root.health.fail(DiskFault("it is on fire"))
    assert manager.delete(A, NOW) and not manager.may_be_lost(A)


def test_a_stray_may_be_back_with_its_disk_that_was_not_synced(two: list[Path]) -> None:
    manager = load(two)
    manager.checkpoint_recovery_points()
    manager.resolve_topic_id(A, OTHER_ID, NOW)
    manager.directories[0].root.health.fail(DiskFault("it is on fire"))
    with pytest.raises(DirectoryOffline, match="may be back with"):
        manager.delete(A, NOW)


def test_what_is_renamed_again_while_a_checkpoint_is_written_may_be_back_with_its_disk(
    two: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint has synced the first name alone, and so has the deletion that came in between."""
    manager = load(two)
    manager.resolve_topic_id(A, OTHER_ID, NOW)
    directory = manager.directories[0]
    write = OffsetCheckpoint.write_beside

    def write_slowly(checkpoint: OffsetCheckpoint, lock: Lock) -> None:
        write(checkpoint, lock)
        if checkpoint is directory.recovery_points:
            manager.sync_deletions()
            directory.may_come_back.add(A)
            directory.unsynced_deletions.append(A)

    monkeypatch.setattr(OffsetCheckpoint, "write_beside", write_slowly)
    manager.checkpoint_recovery_points()
    directory.root.health.fail(DiskFault("it is on fire"))
    with pytest.raises(DirectoryOffline, match="may be back with"):
        manager.delete(A, NOW)


def test_of_namesakes_one_may_lie_on_a_disk_that_is_away(two: list[Path]) -> None:
    manager = load(two)
    assert list(manager.ambiguous) == [A] and not manager.may_be_lost(A)
    manager.directories[0].root.health.fail(DiskFault("it is on fire"))
    assert manager.may_be_lost(A)
    with pytest.raises(DirectoryOffline, match="perhaps in"):
        manager.delete(A, NOW)


def test_a_directory_that_could_not_be_opened_is_away_too(tmp_path: Path) -> None:
    gone = {str(tmp_path / "2"): DiskFault("no such device")}
    manager = load([tmp_path / "1"], **gone)
    assert list(manager.offline_directories) == list(gone) and manager.clean_epoch == -1
    with pytest.raises(DirectoryOffline, match="perhaps in"):
        manager.delete(B, NOW)
    assert not load([tmp_path / "1"]).delete(B, NOW)
