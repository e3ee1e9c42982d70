"""A Produce request as pieces is the one that is encoded whole; a file goes from where it lies to the socket."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.produce_pieces import FileSlice, Piece, produce_pieces
from odradek.client.sync_connection import ConnectionLost, CutFile, SyncConnection
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPICS = st.dictionaries(
    st.text(min_size=1, max_size=200),
    st.dictionaries(
        st.integers(0, 2**31 - 1), st.lists(st.binary(max_size=300), min_size=1, max_size=3), max_size=4
    ),
    max_size=4,
)


@given(
    version=st.integers(3, 12),
    transactional_id=st.none() | st.text(max_size=200),
    acks=st.sampled_from([-1, 0, 1]),
    timeout_ms=st.integers(0, 2**31 - 1),
    topics=TOPICS,
)
def test_pieces_one_behind_the_other_are_the_encoded_request(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: dict[str, dict[int, list[bytes]]],
) -> None:
    def request(*, is_whole: bool) -> ProduceRequest:
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=name,
                    partition_data=[
                        PartitionProduceData(index=n, records=b"".join(pieces) if is_whole else b"")
                        for n, pieces in rows.items()
                    ],
                )
                for name, rows in topics.items()
            ],
        )

    records = {TopicPartition(name, n): pieces for name, rows in topics.items() for n, pieces in rows.items()}
    found = produce_pieces(request(is_whole=False), version, records)

    assert b"".join(piece for piece in found if isinstance(piece, bytes | bytearray)) == (
        request(is_whole=True).encode(version)
    )
    assert not any(isinstance(piece, FileSlice) for piece in found)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SyncConnection, socket.socket]]:
    """A connection that has asked nobody for versions, and the other end of its socket."""
    ours, theirs = socket.socketpair()
    monkeypatch.setattr("odradek.client.sync_connection._connect", lambda address, deadline: ours)
    monkeypatch.setattr(SyncConnection, "_negotiate", lambda self, deadline: None)
    from odradek.client.sync_connection import Address

    with ours, theirs:
        yield SyncConnection(Address("here", 1), client_id="me", deadline=time.monotonic() + 10), theirs


class Opened(NamedTuple):
    file: BinaryIO

    def opened(self) -> BinaryIO:
        return self.file


@contextmanager
def pieces_of(path: Path, size: int) -> Iterator[list[Piece]]:
    with path.open("rb", buffering=0) as file:
        yield [b"before", FileSlice(Opened(file), 3, size), b"after"]


def test_a_slice_of_a_file_is_sent_between_the_bytes_around_it(
    ends: tuple[SyncConnection, socket.socket], tmp_path: Path
) -> None:
    connection, other = ends
    content = bytes(range(256)) * 20_000  # more than a socket holds
    (tmp_path / "file").write_bytes(b"abc" + content + b"xyz")
    frame = bytearray()

    def receive() -> None:
        while more := other.recv(1 << 16):
            frame.extend(more)

    reader = threading.Thread(target=receive)
    reader.start()
    with pieces_of(tmp_path / "file", len(content)) as pieces:
        connection.send_pieces(ProduceRequest, 11, pieces, time.monotonic() + 30)
    connection.close()
    reader.join(30)

    assert frame.endswith(b"before" + content + b"after")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


def test_a_file_that_has_become_shorter_ends_the_connection_and_is_named(
    ends: tuple[SyncConnection, socket.socket], tmp_path: Path
) -> None:
    connection, _ = ends
    (tmp_path / "file").write_bytes(b"abcdef")

    with (
        pieces_of(tmp_path / "file", 10) as pieces,
        pytest.raises(CutFile, match="file ends 7 bytes too early"),
    ):
        connection.send_pieces(ProduceRequest, 11, pieces, time.monotonic() + 10)
    assert not connection.is_open


def test_a_file_that_nobody_takes_is_given_up_in_time(
    ends: tuple[SyncConnection, socket.socket], tmp_path: Path
) -> None:
    connection, _ = ends
    (tmp_path / "file").write_bytes(bytes(16 << 20))

    with (
        pieces_of(tmp_path / "file", 16 << 20) as pieces,
        pytest.raises(ConnectionLost, match="no answer in time while sending Produce"),
    ):
        connection.send_pieces(ProduceRequest, 11, pieces, time.monotonic() + 0.05)
    assert not connection.is_open
