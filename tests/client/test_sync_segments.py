"""Segments read in place: what comes of it is what the leader would have sent, whatever lies in the files."""

import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from odradek.client import sync_segments
from odradek.client.sync import CONTROLLER, SyncClient
from odradek.client.sync_fetch import Fetched, LogCut, OffsetsGone, read_range
from odradek.client.sync_segments import PLACES_LAST_S, Doubt, LogPlaces, SegmentReader
from odradek.client.sync_transaction import Transaction
from odradek.model.ids import NO_TOPIC_ID, TopicPartition, topic_id_to_text
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from odradek.records.batch import iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.reader import decode_batch
from odradek.testing.process_cluster import ProcessCluster
from odradek.testing.running_cluster import RunningCluster, running_cluster
from tests.client.support import TOPIC_ID, ScriptedBroker
from tests.support import eventually

ORDERS = TopicPartition("orders", 0)
RECORDS, OF_BATCH = 600, 10
# A Fetch and a piece of a file: a few batches. A segment: some pieces.
PIECE_BYTES, SEGMENT_BYTES = 6_000, "14000"


def batch(first: int, *, text: str = "value", **fields: int) -> bytes:
    records = [NewRecord(None, b"%s %04d" % (text.encode() * 20, n)) for n in range(first, first + OF_BATCH)]
    return build_batch(records, **fields)


def fill(client: SyncClient, topic: str, first: int = 0, end: int = RECORDS) -> TopicPartition:
    partition = TopicPartition(topic, 0)
    for start in range(first, end, OF_BATCH):
        assert client.produce(partition, batch(start)) == start
    return partition


def create(client: SyncClient, topic: str, replicas: int = 1) -> None:
    configs = [CreatableTopicConfig(name="segment.bytes", value=SEGMENT_BYTES)]
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=replicas, configs=configs)
    answer = client.call(CONTROLLER, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))
    assert answer.topics[0].error_code == 0
    client.topic(topic, is_new=True)


class Elsewhere(LogPlaces):
    """As if the leader had named this directory."""

    directory = Path()

    def directory_of(self, broker: int, partition: TopicPartition, topic_id: bytes) -> Path:
        return self.directory


def read(
    client: SyncClient,
    partition: TopicPartition,
    end: int,
    places: LogPlaces | None,
    *,
    committed: bool = False,
) -> Iterator[Fetched]:
    return read_range(
        client,
        partition,
        0,
        end,
        max_bytes=PIECE_BYTES,
        places=places,
        read_committed=committed,
        patience_s=60,
    )


def batches(found: list[Fetched]) -> bytes:
    return b"".join(bytes(fetched.records) for fetched in found)


def offsets(found: list[Fetched]) -> list[int]:
    records = batches(found)
    return [
        record.offset for position, _ in iter_batches(records) for record in decode_batch(records, position)
    ]


def in_place(found: list[Fetched]) -> int:
    return sum(fetched.is_in_place for fetched in found)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(brokers=1) as running, SyncClient(running.bootstrap) as client:
        create(client, "orders")
        fill(client, "orders")
        yield running


@pytest.fixture
def client(cluster: RunningCluster) -> Iterator[SyncClient]:
    with SyncClient(cluster.bootstrap) as connected:
        yield connected


def directory_of(client: SyncClient, partition: TopicPartition) -> Path:
    leader, _ = client.leader(partition)
    return LogPlaces(client).directory_of(leader, partition, client.known_topic_id(partition.topic))


@pytest.fixture
def copy(client: SyncClient, tmp_path: Path) -> Path:
    found = shutil.copytree(directory_of(client, ORDERS), tmp_path / "orders-0")
    assert len(list(found.glob("*.log"))) > 3
    return Path(found)


def test_an_index_that_is_cut_while_it_is_searched_is_none(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apache's brokers make an index of its full size, and cut it when they close the segment."""
    first = sorted(copy.glob("*.log"))[0]
    second = next(itertools.islice(iter_batches(first.read_bytes()), 1, None))[1].base_offset
    first.with_suffix(".index").write_bytes(b"")
    monkeypatch.setattr(os, "fstat", lambda _: SimpleNamespace(st_size=10 << 20))

    reader = SegmentReader(copy, second, RECORDS)

    try:
        assert reader.read(RECORDS, memoryview(bytearray(PIECE_BYTES))).records
    finally:
        reader.close()


def test_where_logs_lie_is_remembered_no_longer_than_it_counts(
    client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics come and go, and a job that reads them stays."""
    leader, _ = client.leader(ORDERS)
    places, now_s = LogPlaces(client), 1_000.0
    monkeypatch.setattr(sync_segments, "time", SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr(places, "_asked", lambda broker, partition: None)
    for number in range(10):
        now_s += PLACES_LAST_S / 2
        with pytest.raises(Doubt):
            places.directory_of(leader, TopicPartition(f"t-{number}", 0), TOPIC_ID)
    assert [partition.topic for _, partition in places._found] == ["t-8", "t-9"]


def test_a_log_that_moved_to_another_directory_is_found_there_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr(sync_segments, "time", SimpleNamespace(monotonic=lambda: now_s))
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
        (directory / "meta.properties").write_text("cluster.id=c\nbroker.id=1\n")
    (first / "orders-0").mkdir()
    (first / "orders-0" / "partition.metadata").write_text(f"topic_id: {topic_id_to_text(TOPIC_ID)}")
    lies_in = first

    def answer(*_: object) -> DescribeLogDirsResponse:
        topics = [
            DescribeLogDirsTopic(name="orders", partitions=[DescribeLogDirsPartition(partition_index=0)])
        ]
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir=str(lies_in), topics=topics)])

    with ScriptedBroker() as broker, SyncClient(broker.address) as client:
        broker.partitions["orders"] = [1]
        broker.answer(DescribeLogDirsRequest, answer)
        places = LogPlaces(client)
        assert places.directory_of(1, ORDERS, TOPIC_ID) == first / "orders-0"
        lies_in = second
        (first / "orders-0").rename(second / "orders-0")
        with pytest.raises(FileNotFoundError):
            places.directory_of(1, ORDERS, TOPIC_ID)
        now_s += PLACES_LAST_S
        assert places.directory_of(1, ORDERS, TOPIC_ID) == second / "orders-0"


@pytest.mark.parametrize("missing", ["preadv", "O_NONBLOCK"])
def test_a_system_that_cannot_read_so_fetches(
    client: SyncClient, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.delattr(os, missing)

    found = list(read(client, ORDERS, RECORDS, LogPlaces(client, anywhere=True)))

    assert in_place(found) == 0
    assert offsets(found) == list(range(RECORDS))


def test_segments_are_read_in_place_to_the_end_of_the_range(client: SyncClient) -> None:
    fetched = list(read(client, ORDERS, RECORDS - 5, None))
    found = list(read(client, ORDERS, RECORDS - 5, LogPlaces(client)))

    assert in_place(fetched) == 0
    assert [f.is_in_place for f in found] == [False] + [True] * (len(found) - 1)
    assert batches(found) == batches(fetched)
    assert found[-1].next_offset == RECORDS, "the last batch reaches over the border"
    assert all(f.high_watermark == RECORDS and f.log_start_offset == 0 for f in found)


def test_what_is_smaller_than_the_first_fetch_asks_nothing_else(client: SyncClient) -> None:
    class NotAsked(LogPlaces):
        def directory_of(self, broker: int, partition: TopicPartition, topic_id: bytes) -> Path:
            raise AssertionError("asked where the log lies")

    (found,) = read_range(client, ORDERS, 0, RECORDS, places=NotAsked(client))

    assert found.next_offset == RECORDS


def test_a_broker_at_another_address_is_not_taken_for_one_of_this_host(client: SyncClient) -> None:
    leader, _ = client.leader(ORDERS)
    connection = client.connection_to(leader, client.deadline())
    assert connection.is_within_a_host

    connection.is_within_a_host = False
    assert in_place(list(read(client, ORDERS, RECORDS, LogPlaces(client)))) == 0
    assert in_place(list(read(client, ORDERS, RECORDS, LogPlaces(client, anywhere=True)))) > 1


# What may lie in the files -------------------------------------------------------------------------------------


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def changed(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def without_a_batch(data: bytes) -> bytes:
    return data[: len(batch(0))] + data[2 * len(batch(0)) :]


def other_records(directory: Path) -> None:
    """Of another history, all their offsets and checksums right."""
    for path in segments(directory):
        first = int(path.stem)
        count = len(path.read_bytes()) // len(batch(0))
        path.write_bytes(
            b"".join(
                batch(start, text="VALUE", base_offset=start, leader_epoch=0)
                for start in range(first, first + count * OF_BATCH, OF_BATCH)
            )
        )


def one_other_batch_at_the_end(directory: Path) -> None:
    path = segments(directory)[1]
    size = len(batch(0))
    last = int(segments(directory)[2].stem) - OF_BATCH
    changed(path, lambda data: data[:-size] + batch(last, text="VALUE", base_offset=last, leader_epoch=0))


def older_epoch_after_a_newer(directory: Path) -> None:
    size = len(batch(0))

    def change(data: bytes) -> bytes:
        return data[:12] + (7).to_bytes(4, "big") + data[16:size] + data[size:]

    changed(segments(directory)[1], change)


def pipe_of_that_name(directory: Path) -> None:
    path = segments(directory)[1]
    path.unlink()
    os.mkfifo(path)


def directory_of_that_name(directory: Path) -> None:
    path = segments(directory)[1]
    path.unlink()
    path.mkdir()


def older_format(directory: Path) -> None:
    changed(segments(directory)[1], lambda data: data[:16] + b"\x01" + data[17:])


def length_that_leads_backwards(directory: Path) -> None:
    backwards = (-1 << 20).to_bytes(4, "big", signed=True)
    changed(segments(directory)[1], lambda data: data[:8] + backwards + data[12:])


def zeros_where_nothing_is_written_yet(directory: Path) -> None:
    changed(segments(directory)[1], lambda data: data[: len(data) // 2] + bytes(len(data) // 2))


DOUBTS: dict[str, Callable[[Path], object]] = {
    "no directory": lambda d: shutil.rmtree(d),
    "no segments": lambda d: [path.unlink() for path in segments(d)],
    "a segment is gone": lambda d: segments(d)[2].unlink(),
    "deleted, and not removed yet": lambda d: segments(d)[1].rename(f"{segments(d)[1]}.deleted"),
    "a swap that is not finished": lambda d: segments(d)[1].rename(f"{segments(d)[1]}.swap"),
    "a directory of that name": directory_of_that_name,
    "a pipe of that name": pipe_of_that_name,
    "an older state": lambda d: [path.unlink() for path in segments(d)[2:]],
    "the end is torn": lambda d: os.truncate(segments(d)[1], len(batch(0)) + 100),
    "it ends between batches": lambda d: os.truncate(segments(d)[1], len(batch(0))),
    "compaction took a batch": lambda d: changed(segments(d)[1], without_a_batch),
    "of another history": other_records,
    "of another history at its end": one_other_batch_at_the_end,
    "an older epoch after a newer": older_epoch_after_a_newer,
    "an older format": older_format,
    "a length that leads backwards": length_that_leads_backwards,
    "zeros": zeros_where_nothing_is_written_yet,
}


@pytest.mark.parametrize("name", DOUBTS)
def test_whatever_is_doubtful_is_fetched(client: SyncClient, copy: Path, name: str) -> None:
    DOUBTS[name](copy)
    places = Elsewhere(client)
    places.directory = copy

    found = list(read(client, ORDERS, RECORDS, places))

    assert batches(found) == batches(list(read(client, ORDERS, RECORDS, None)))
    assert in_place(found) < len(found) - 1, "from the doubt on it is fetched"


@pytest.mark.parametrize(
    "damage",
    [b"", b"\0" * 64, b"\xff" * 64, random.Random(1).randbytes(64), b"\0\0\0\x05\0\0\0\x03" * 8],
    ids=["empty", "zeros", "ones", "random", "one entry again and again"],
)
def test_an_index_is_only_a_hint(client: SyncClient, copy: Path, damage: bytes) -> None:
    for path in copy.glob("*.index"):
        path.write_bytes(damage)
    places = Elsewhere(client)
    places.directory = copy

    assert batches(list(read(client, ORDERS, RECORDS, places))) == batches(
        list(read(client, ORDERS, RECORDS, None))
    )


def test_a_reading_begins_in_the_middle_of_a_segment_by_its_index(client: SyncClient, copy: Path) -> None:
    border = int(segments(copy)[1].stem)
    memory = memoryview(bytearray(PIECE_BYTES))
    for first in range(OF_BATCH, RECORDS - OF_BATCH, OF_BATCH):
        reader = SegmentReader(copy, first, RECORDS)
        piece = reader.read(RECORDS, memory)
        reader.close()
        assert int.from_bytes(piece.records[:8], "big") == first and piece.next_offset > first
    with pytest.raises(Doubt):
        SegmentReader(copy, 15, RECORDS)  # no batch begins there
    for path in copy.glob("*.index"):
        path.unlink()
    SegmentReader(copy, border - OF_BATCH, RECORDS).close()
    with pytest.raises(Doubt, match="too long without an index"):
        SegmentReader(copy, border - OF_BATCH, border - OF_BATCH + 1)


def test_nothing_stays_open(client: SyncClient, copy: Path) -> None:
    def opened() -> int:
        return sum(str(copy) in os.readlink(f"/proc/self/fd/{fd}") for fd in fds())

    def fds() -> list[str]:
        return [fd for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}")]

    places = Elsewhere(client)
    places.directory = copy
    reading = read(client, ORDERS, RECORDS, places)
    next(reading), next(reading)
    assert opened() == 1
    reading.close()  # type: ignore[attr-defined]
    assert opened() == 0
    segments(copy)[2].unlink()
    assert offsets(list(read(client, ORDERS, RECORDS, places))) == list(range(RECORDS))
    assert opened() == 0


# What may happen meanwhile -------------------------------------------------------------------------------------


@pytest.mark.parametrize("further", [OF_BATCH // 2, 400])
def test_records_deleted_below_the_reading_are_gone_as_in_a_fetch(client: SyncClient, further: int) -> None:
    """Within what would be read next, and behind it."""
    topic = f"deleted-{further}"
    create(client, topic)
    partition = fill(client, topic)
    reading = read(client, partition, RECORDS, LogPlaces(client))
    next(reading)
    second = next(reading)
    assert second.is_in_place
    before = second.next_offset + further
    leader, _ = client.leader(partition)
    deleted = DeleteRecordsPartition(partition_index=0, offset=before)
    wanted = DeleteRecordsTopic(name=topic, partitions=[deleted])
    client.call(leader, DeleteRecordsRequest(topics=[wanted], timeout_ms=30_000))

    with pytest.raises(OffsetsGone, match=f"the log now holds {before} to {RECORDS}"):
        list(reading)


def test_of_transactions_a_reader_of_committed_records_asks_the_leader(client: SyncClient) -> None:
    create(client, "transactions")
    partition = fill(client, "transactions", 0, 300)
    transaction = Transaction(client, "writer", timeout_ms=60_000)
    transaction.begin()
    transaction.send({partition: [batch(n, is_transactional=True) for n in (300, 310)]})
    transaction.abort()
    end = 0
    for start in range(300):
        end = client.produce(partition, build_batch([NewRecord(None, b"x" * 300 + b"%d" % start)])) + 1

    found = list(read(client, partition, end, LogPlaces(client), committed=True))

    fetched = list(read(client, partition, end, None, committed=True))
    assert batches(found) == batches(fetched)
    aborted = {pair for f in found for pair in f.aborted}
    assert aborted == {pair for f in fetched for pair in f.aborted} and len(aborted) == 1
    assert found[1].is_in_place and not found[-1].is_in_place
    assert in_place(list(read(client, partition, end, LogPlaces(client)))) > in_place(found)


def test_the_leaders_files_are_those_of_its_cluster_broker_and_topic(tmp_path: Path) -> None:
    here = tmp_path / "orders-0"
    here.mkdir()
    (tmp_path / "meta.properties").write_text("#\nversion=0\ncluster.id=c\nbroker.id=1\n")
    (here / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id_to_text(TOPIC_ID)}")
    told = DescribeLogDirsPartition(partition_index=0)
    paths = [str(tmp_path)]

    def answer(*_: object) -> DescribeLogDirsResponse:
        topics = [DescribeLogDirsTopic(name="orders", partitions=[told])]
        return DescribeLogDirsResponse(
            results=[DescribeLogDirsResult(log_dir=path, topics=topics) for path in paths]
        )

    with ScriptedBroker() as broker:
        broker.partitions["orders"] = [1]
        broker.answer(DescribeLogDirsRequest, answer)

        def find(leader: int = 1, topic_id: bytes = TOPIC_ID) -> Path | None:
            with SyncClient(broker.address) as client:
                try:
                    return LogPlaces(client).directory_of(leader, ORDERS, topic_id)
                except (Doubt, OSError):
                    return None

        assert find() == here
        assert find(topic_id=NO_TOPIC_ID) is None
        assert find(topic_id=b"x" * 16) is None
        told.is_future_key = True
        assert find() is None
        told.is_future_key = False
        for wrong in ([], [str(tmp_path)] * 2, [os.path.relpath(tmp_path)], [str(tmp_path / "nowhere")]):
            paths[:] = wrong
            assert find() is None, wrong
        paths[:] = [str(tmp_path)]
        for text in ("cluster.id=other\nbroker.id=1\n", "cluster.id=c\nbroker.id=2\n", "broker.id=1\n"):
            (tmp_path / "meta.properties").write_text(text)
            assert find() is None, text
        (tmp_path / "meta.properties").unlink()
        assert find() is None


def test_what_an_unclean_election_cut_off_is_not_read_from_the_files_of_the_former_leader() -> None:
    settings = {"unclean.leader.election.enable": "true"}
    with running_cluster(brokers=2, settings=settings) as cluster, SyncClient(cluster.bootstrap) as client:
        create(client, "orders", replicas=2)
        fill(client, "orders", 0, 200)
        leads, view = client.leader(ORDERS, refresh=True)
        (follows,) = set(view.replicas) - {leads}
        cluster.kill(follows)
        eventually(
            lambda: client.leader(ORDERS, refresh=True)[1].isr == (leads,),
            deadline_s=60,
            what="the leader is alone",
        )
        fill(client, "orders", 200)
        epoch = client.leader(ORDERS, refresh=True)[1].leader_epoch
        reading = read_range(
            client,
            ORDERS,
            0,
            RECORDS,
            max_bytes=PIECE_BYTES,
            places=LogPlaces(client),
            leader_epoch=epoch,
        )
        next(reading)
        assert next(reading).is_in_place
        directory = directory_of(client, ORDERS)
        cluster.kill(leads)
        cluster.start(follows)
        eventually(
            lambda: client.topic("orders").partitions[0].leader == follows,
            deadline_s=60,
            what="the other leads",
        )
        client.forget("orders")
        for start in range(200, RECORDS, OF_BATCH):
            client.produce(ORDERS, batch(start, text="VALUE"))

        assert segments(directory), "the files of the former leader are still there"
        with pytest.raises(LogCut, match="an unclean election cut off 400 offsets, 200 to 600"):
            list(reading)


@pytest.mark.process
def test_a_range_is_whole_although_its_leader_is_killed_while_its_files_are_read(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, brokers=3) as cluster, SyncClient(cluster.bootstrap) as client:
        create(client, "orders", replicas=3)
        fill(client, "orders")
        killed: list[int] = []
        found = []
        for number, fetched in enumerate(read(client, ORDERS, RECORDS, LogPlaces(client))):
            found.append(fetched._replace(records=memoryview(bytes(fetched.records))))
            if number in (3, 7):
                # A busy machine keeps a follower from its fetches for longer than it may lag.
                cluster.wait_until(
                    lambda: set(client.leader(ORDERS, refresh=True)[1].isr) == {1, 2, 3} - set(killed),
                    "every ISR is full, but for the dead",
                )
                killed.append(client.leader(ORDERS, refresh=True)[0])
                cluster.kill(killed[-1])

        assert offsets(found) == list(range(RECORDS))
        assert [f.is_in_place for f in found[:5]] == [False, True, True, True, False]
        assert len(set(killed)) == 2
