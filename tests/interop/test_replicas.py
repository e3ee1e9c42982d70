"""The comparison of log directories, seen red: it needs no Apache, and a check that cannot fail is none."""

from pathlib import Path

from odradek.records.builder import NewRecord, build_batch
from tests.interop.replicas import batches_of, difference, end_of


def batch(offset: int, value: bytes, leader_epoch: int = 0) -> bytes:
    built = bytearray(build_batch([NewRecord(None, value, 1_000)]))
    built[0:8] = offset.to_bytes(8, "big")
    built[12:16] = leader_epoch.to_bytes(4, "big")
    return bytes(built)


def replica(root: Path, name: str, *segments: list[bytes]) -> Path:
    directory = root / name / "t-0"
    directory.mkdir(parents=True)
    offset = 0
    for batches in segments:
        (directory / f"{offset:020d}.log").write_bytes(b"".join(batches))
        offset += len(batches)
    return root / name


ONE, TWO, THREE = batch(0, b"one"), batch(1, b"two"), batch(2, b"three")


def test_equal_batches_in_other_segments_are_equal(tmp_path: Path) -> None:
    replicas = {
        1: replica(tmp_path, "1", [ONE, TWO], [THREE]),
        2: replica(tmp_path, "2", [ONE], [TWO, THREE]),
    }
    assert end_of(batches_of(replicas[1], "t", 0)) == 3
    assert difference(replicas, "t", 0, 3) is None


def test_another_record_or_another_epoch_at_the_same_offset_is_found(tmp_path: Path) -> None:
    mine = replica(tmp_path, "1", [ONE, TWO])
    for number, other in enumerate((batch(1, b"owt"), batch(1, b"two", leader_epoch=1)), start=2):
        found = difference({1: mine, number: replica(tmp_path, str(number), [ONE, other])}, "t", 0, 2)
        assert found is not None and f"differs between 1 and {number}" in found


def test_what_stands_above_the_high_watermark_may_differ(tmp_path: Path) -> None:
    replicas = {1: replica(tmp_path, "1", [ONE, TWO]), 2: replica(tmp_path, "2", [ONE, batch(1, b"other")])}
    assert difference(replicas, "t", 0, 1) is None


def test_a_replica_that_ends_below_the_high_watermark_is_found(tmp_path: Path) -> None:
    replicas = {1: replica(tmp_path, "1", [ONE, TWO]), 2: replica(tmp_path, "2", [ONE, TWO[:-1]])}
    found = difference(replicas, "t", 0, 2)
    assert found == "t-0: high watermark 2, but replicas end at {2: 1}"
