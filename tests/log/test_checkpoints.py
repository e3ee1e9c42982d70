"""The text files: as Apache writes them, and what is no such file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.checkpoints import (
    MalformedCheckpoint,
    clean_shutdown_to_bytes,
    epochs_to_bytes,
    meta_properties_to_bytes,
    offsets_to_bytes,
    partition_metadata_to_bytes,
    read_epochs,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
)
from odradek.log.leader_epochs import EpochEntry
from odradek.model.ids import TopicId, TopicPartition
from tests.support import GOLDEN

DATA = GOLDEN / "log-dir" / "data"


def test_the_golden_files_read_and_are_written_the_same() -> None:
    epochs = (DATA / "t-0" / "leader-epoch-checkpoint").read_bytes()
    assert epochs_to_bytes(read_epochs(epochs)) == epochs
    metadata = (DATA / "t-0" / "partition.metadata").read_bytes()
    assert partition_metadata_to_bytes(read_partition_metadata(metadata)) == metadata
    points = (DATA / "recovery-point-offset-checkpoint").read_bytes()
    assert read_offsets(points, "x") == {
        TopicPartition("t", 0): 194,
        TopicPartition("__consumer_offsets", 0): 4,
    }
    assert read_offsets((DATA / "cleaner-offset-checkpoint").read_bytes(), "x") == {}
    empty = (DATA / "log-start-offset-checkpoint").read_bytes()
    assert offsets_to_bytes(read_offsets(empty, "x")) == empty
    assert clean_shutdown_to_bytes() == (DATA / ".kafka_cleanshutdown").read_bytes()
    meta = read_meta_properties((DATA / "meta.properties").read_bytes())
    assert meta == (2, "2UmHe1_VTmmT5W1KaoTYgw")
    assert read_meta_properties(meta_properties_to_bytes(*meta)) == meta  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        b"0",
        b"x\n0\n",
        b"0\nx\n",
        b"1\n0\n",
        b"0\n1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt zero 1\n",
        b"0\n1\nt 0 1",
        b"\xff\xfe\n",
        b"\0\0",
    ],
)
def test_what_is_no_offset_checkpoint_is_named(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint, match="some-checkpoint"):
        read_offsets(data, "some-checkpoint")


def test_every_cut_of_a_checkpoint_is_seen() -> None:
    data = offsets_to_bytes({TopicPartition("t", n): n * 1000 for n in range(5)})
    for size in range(1, len(data)):
        with pytest.raises(MalformedCheckpoint):
            read_offsets(data[:size], "x")


@pytest.mark.parametrize(
    "data", [b"0\n2\n1 5\n1 9\n", b"0\n2\n1 5\n2 5\n", b"0\n1\n-1 0\n", b"0\n1\n0 -5\n", b"0\n1\n0\n"]
)
def test_epochs_and_their_starts_must_rise(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        read_epochs(data)


@pytest.mark.parametrize("data", [b"broker.id=x\n", b"nonsense\n", b"version=7\n"])
def test_what_is_no_meta_properties_is_named(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint, match=r"meta\.properties"):
        read_meta_properties(data)


def test_a_cluster_id_that_java_writes_with_backslashes_is_the_same_id() -> None:
    """`Properties.store` puts one before each `=`, `:`, `#`, `!` and backslash of a value."""
    data = b"#\n#Mon Nov 30 00:00:00 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=a\\=\\=b\\:\\\\\n"
    assert read_meta_properties(data) == (1, "a==b:\\")
    assert read_meta_properties(meta_properties_to_bytes(1, "a==b:\\")) == (1, "a==b:\\")


topics = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=20)


@given(st.dictionaries(st.tuples(topics, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), max_size=20))
def test_any_offsets_are_read_as_they_were_written(offsets: dict[tuple[str, int], int]) -> None:
    values = {TopicPartition(*key): offset for key, offset in offsets.items()}
    assert read_offsets(offsets_to_bytes(values), "x") == values


@given(st.binary(min_size=16, max_size=16))
def test_any_topic_id_is_read_as_it_was_written(topic_id: bytes) -> None:
    assert read_partition_metadata(partition_metadata_to_bytes(TopicId(topic_id))) == topic_id


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=10))
def test_any_epochs_are_read_as_they_were_written(steps: list[tuple[int, int]]) -> None:
    entries, epoch, offset = [], 0, 0
    for up, on in steps:
        epoch, offset = epoch + up, offset + on
        entries.append(EpochEntry(epoch, offset))
    assert read_epochs(epochs_to_bytes(entries)) == entries
