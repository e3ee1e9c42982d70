"""transactionBoundaries: no transaction has its records in two micro-batches, whatever ends the batch."""

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from odradek.client.sync import OffsetAndEpoch, SyncClient
from odradek.client.sync_fetch import LogCut, OffsetsGone, TopicRecreated
from odradek.client.sync_transaction import Transaction
from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.spark import transaction_boundaries
from odradek.spark.batch_headers import headers_of
from odradek.spark.offsets import Offsets, Place
from odradek.spark.options import ConnectionOptions, parse
from odradek.spark.source import StreamReader, schema_of
from odradek.spark.transaction_boundaries import Boundaries, Scan
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import KEEP, create_topic
from tests.spark.test_source import available
from tests.spark.test_transactional_topics import COMMITTED, MakeTopic, Writers, batch, options, read
from tests.support import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHOLE = {"transactionBoundaries": "true"}
EVERYTHING = ReadAllAvailable()


class Stream:
    """What Spark does with a stream, and again from its checkpoint with `restarted`."""

    def __init__(self, bootstrap: str, topic: str, **more: str) -> None:
        given = {"startingOffsets": "earliest", **COMMITTED, **WHOLE, **more}
        self._given: Any = options(bootstrap, topic, **given)
        self.reader = StreamReader(self._given, schema_of(self._given))
        self.at = self.reader.initialOffset()

    def restarted(self) -> None:
        self.reader.stop()
        self.reader = StreamReader(self._given, schema_of(self._given))

    def next(self, limit: ReadLimit = EVERYTHING) -> list[str]:
        end = self.reader.latestOffset(self.at, limit)
        found = read(self.reader, self.reader.partitions(self.at, end))
        self.at = end
        return found


StartStream = Callable[..., Stream]


@pytest.fixture
def writers(client: SyncClient, make_topic: MakeTopic) -> Writers:
    return Writers(client, make_topic())


@pytest.fixture
def stream(cluster: ProcessCluster, writers: Writers) -> Iterator[StartStream]:
    started = []

    def start(**more: str) -> Stream:
        started.append(Stream(cluster.bootstrap, writers.partition.topic, **more))
        return started[-1]

    yield start
    for one in started:
        one.reader.stop()


def commit(writers: Writers, *values: str) -> None:
    writers.end(writers.begin(*values), is_commit=True)


def test_a_limit_inside_of_a_transaction_ends_the_range_before_it(
    writers: Writers, stream: StartStream
) -> None:
    commit(writers, "a-1", "a-2")  # offsets 0 and 1, marker 2
    commit(writers, "b-1", "b-2")  # 3 and 4, marker 5
    writers.plain("plain-1", "plain-2")

    running = stream()
    assert running.next(ReadMaxRows(4)) == ["a-1", "a-2"]
    assert running.next(ReadMaxRows(4)) == ["b-1", "b-2", "plain-1"], "plain records may be divided"
    assert running.next(ReadMaxRows(4)) == ["plain-2"]
    assert running.next(ReadMaxRows(4)) == []


def test_a_transaction_larger_than_the_limit_is_read_whole(writers: Writers, stream: StartStream) -> None:
    large = writers.begin("a-1", "a-2", "a-3")
    writers.add(large, "a-4", "a-5")
    writers.end(large, is_commit=True)
    commit(writers, "b-1", "b-2", "b-3")
    writers.plain("plain")

    running = stream()
    assert running.next(ReadMaxRows(2)) == ["a-1", "a-2", "a-3", "a-4", "a-5"], "up to the next boundary"
    assert running.next(ReadMaxRows(2)) == ["b-1", "b-2", "b-3"], "one batch, which the limit divides"
    assert running.next(ReadMaxRows(2)) == ["plain"]


@pytest.mark.spark
def test_a_query_of_spark_has_whole_transactions_of_each_partition(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    for number in range(6):
        transaction = Transaction(client, f"{topic}-{number}", timeout_ms=60_000)
        transaction.begin()
        for partition in (0, 1):
            one = keyed(TopicPartition(topic, partition), 0, f"{number}-{partition}/")
            transaction.send(one)
            transaction.send(one)
        transaction.commit()
    ends = {TopicPartition(topic, p): 18 for p in (0, 1)}
    eventually(lambda: client.end_offsets(ends) == ends, 30.0, "the last markers")
    given = {**COMMITTED, **WHOLE, "maxOffsetsPerTrigger": "8"}

    seen = available(spark, cluster, topic, tmp_path, **given)

    found = [[value.decode() for value in values] for _, values in seen]
    assert len(found) > 3 and divided(found) == {}
    assert sorted(v for values in found for v in values) == sorted(
        f"{n}-{p}/" for n in range(6) for p in (0, 1) for _ in range(2)
    )
    assert available(spark, cluster, topic, tmp_path, **given) == []


def test_of_interleaved_transactions_none_is_divided(writers: Writers, stream: StartStream) -> None:
    one = writers.begin("one-1")  # 0
    two = writers.begin("two-1")  # 1
    writers.end(one, is_commit=True)  # 2
    three = writers.begin("three-1")  # 3
    writers.end(two, is_commit=True)  # 4
    writers.plain("plain")  # 5
    writers.end(three, is_commit=True)  # 6
    commit(writers, "four")

    running = stream()
    assert running.next(ReadMaxRows(3)) == ["one-1", "two-1", "three-1", "plain"]
    assert running.next(ReadMaxRows(3)) == ["four"]


def test_the_last_stable_offset_alone_is_no_boundary(
    cluster: ProcessCluster, writers: Writers, stream: StartStream
) -> None:
    """What another transaction holds back divides one that is committed."""
    writers.plain("plain")
    settled = writers.begin("settled-1")
    held = writers.begin("held-1")
    writers.add(settled, "settled-2")
    writers.end(settled, is_commit=True)
    topic = writers.partition.topic

    assert batch(cluster.bootstrap, topic, **COMMITTED) == ["plain", "settled-1"], "this is what it is about"
    assert batch(cluster.bootstrap, topic, **COMMITTED, **WHOLE) == ["plain"]
    running = stream()
    assert [running.next(), running.next()] == [["plain"], []]
    assert running.next(ReadMaxRows(1)) == [], "beyond what is stable there is nothing to go on to"
    writers.end(held, is_commit=True)
    assert running.next() == ["settled-1", "held-1", "settled-2"]


def test_a_partition_without_a_boundary_is_told_of_after_a_while_and_again(
    cluster: ProcessCluster,
    writers: Writers,
    stream: StartStream,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Writers whose next transaction begins before the last one has ended: there is no boundary as long as they write."""
    last = writers.begin("t0-1")
    for number in range(1, 4):
        following = writers.begin(f"t{number}-1")
        writers.end(last, is_commit=True)
        last = following
    clock = SimpleNamespace()
    monkeypatch.setattr(transaction_boundaries, "time", clock)
    running = stream()

    told = []
    for seconds in (0.0, 59.0, 61.0, 62.0, 122.0):
        clock.monotonic = lambda seconds=seconds: seconds
        caplog.clear()
        assert running.next() == []
        told.append([record.getMessage() for record in caplog.records])
    topic = writers.partition.topic
    begins = f"{topic}-0: not read on from offset 0, for "
    assert [len(messages) for messages in told] == [0, 0, 1, 0, 1]
    assert told[2][0].startswith(f"{begins}61 s: there is no transaction boundary up to 5,")
    writers.end(last, is_commit=True)
    assert running.next() == ["t0-1", "t1-1", "t2-1", "t3-1"]

    writers.begin("open")
    caplog.clear()
    ends = {"startingOffsets": f'{{"{topic}":{{"0":8}}}}'}
    assert batch(cluster.bootstrap, topic, **COMMITTED, **WHOLE, **ends) == [] and not caplog.records
    ends = {"endingOffsets": f'{{"{topic}":{{"0":3}}}}'}
    assert batch(cluster.bootstrap, topic, **COMMITTED, **WHOLE, **ends) == []
    assert "no transaction boundary up to 3" in caplog.text, "a batch read tells at once"


def test_an_aborted_transaction_holds_nothing_up(writers: Writers, stream: StartStream) -> None:
    bad, good = writers.begin("bad-1", "bad-2"), writers.begin("good-1")
    writers.end(bad, is_commit=False)
    writers.add(good, "good-2")
    writers.end(good, is_commit=True)
    writers.end(writers.begin("bad-3", "bad-4", "bad-5"), is_commit=False)
    writers.plain("plain")

    running = stream()
    assert running.next(ReadMaxRows(2)) == ["good-1", "good-2"]
    assert running.next(ReadMaxRows(2)) == [], "aborted records alone, and past them"
    assert running.next(ReadMaxRows(2)) == ["plain"]


def test_available_now_ends_at_a_boundary_and_a_later_run_reads_the_rest(
    writers: Writers, stream: StartStream
) -> None:
    commit(writers, "a-1")
    settled = writers.begin("settled-1")
    held = writers.begin("held-1")
    writers.add(settled, "settled-2")
    writers.end(settled, is_commit=True)
    running = stream()
    running.reader.prepareForTriggerAvailableNow()  # the last stable offset is that of `held-1`
    writers.end(held, is_commit=True)

    assert [running.next(), running.next()] == [["a-1"], []]
    running.restarted()
    running.reader.prepareForTriggerAvailableNow()
    assert [running.next(), running.next()] == [["settled-1", "held-1", "settled-2"], []]


def test_a_stream_that_is_restarted_goes_on_at_its_boundary(writers: Writers, stream: StartStream) -> None:
    for number in range(4):
        commit(writers, *(f"{number}-{n}" for n in range(3)))
    running = stream()
    found = []
    for _ in range(4):
        found.append(running.next(ReadMaxRows(6)))
        running.restarted()

    assert found == [[f"{number}-{n}" for n in range(3)] for number in range(4)]


def test_a_start_inside_of_a_transaction_is_taken_as_it_is(
    cluster: ProcessCluster, writers: Writers, stream: StartStream
) -> None:
    commit(writers, "a-1", "a-2", "a-3")
    commit(writers, "b-1", "b-2")
    topic = writers.partition.topic

    running = stream(startingOffsets=f'{{"{topic}":{{"0":1}}}}')
    assert running.next(ReadMaxRows(4)) == ["a-2", "a-3"]
    ends = {"endingOffsets": f'{{"{topic}":{{"0":5}}}}'}
    assert batch(cluster.bootstrap, topic, **COMMITTED, **ends) == ["a-1", "a-2", "a-3", "b-1"]
    assert batch(cluster.bootstrap, topic, **COMMITTED, **WHOLE, **ends) == ["a-1", "a-2", "a-3"]


def test_what_was_deleted_before_the_range_is_passed_over(
    client: SyncClient, writers: Writers, stream: StartStream
) -> None:
    commit(writers, "a-1", "a-2")
    commit(writers, "b-1", "b-2")
    commit(writers, "c-1")
    running = stream(failOnDataLoss="false")
    partition = DeleteRecordsPartition(partition_index=writers.partition.partition, offset=3)
    topic = DeleteRecordsTopic(name=writers.partition.topic, partitions=[partition])
    leader, _ = client.leader(writers.partition)
    client.call(leader, DeleteRecordsRequest(topics=[topic], timeout_ms=30_000))

    with pytest.warns(UserWarning, match="the log now holds"):
        assert running.next(ReadMaxRows(7)) == ["b-1", "b-2"]
    assert running.next() == ["c-1"]


@pytest.mark.parametrize(
    "found",
    [lambda: LogCut("cut", 1), lambda: TopicRecreated("made again"), lambda: OffsetsGone("an older disk")],
    ids=["cut", "made again", "an older disk"],
)
def test_what_a_task_will_find_out_is_left_to_it(
    found: Callable[[], OdradekError], writers: Writers, stream: StartStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(writers, "a-1", "a-2")
    commit(writers, "b-1", "b-2")

    def read_range(*_: Any, **__: Any) -> Any:
        raise found()

    monkeypatch.setattr(transaction_boundaries, "read_range", read_range)
    assert stream().next(ReadMaxRows(4)) == ["a-1", "a-2", "b-1"], "the range ends where the limit said"


@pytest.mark.parametrize("epoch", [3, 4])
def test_the_high_watermark_of_another_leader_proves_nothing(
    epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not have heard yet how far the last one was."""
    partition, asked = TopicPartition("t", 0), []

    class Leader:
        def list_offsets(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndEpoch]:
            return {p: OffsetAndEpoch(5, epoch) for p in wanted}

    def read_range(*given: Any, **_: Any) -> Iterator[Any]:
        asked.append(given[2:])
        return iter(())

    monkeypatch.setattr(transaction_boundaries, "read_range", read_range)
    client: Any = Leader()
    ends = {partition: Place(5, 3)}

    assert Boundaries(client, ConnectionOptions("b:9092")).moved({}, ends, Offsets({}, ends)) == ends
    assert asked == ([] if epoch == 3 else [(0, 5)])


@pytest.mark.parametrize(("epoch", "read"), [(3, (5, 7)), (4, (2, 7))])
def test_what_was_read_of_the_log_of_a_former_leader_is_read_again(
    epoch: int, read: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been cut, and other transactions stand there now."""
    partition, asked = TopicPartition("t", 0), []

    class Leader:
        def list_offsets(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndEpoch]:
            return {p: OffsetAndEpoch(9, epoch) for p in wanted}

    def read_range(*given: Any, **_: Any) -> Iterator[Any]:
        asked.append(given[2:])
        return iter(())

    monkeypatch.setattr(transaction_boundaries, "read_range", read_range)
    client: Any = Leader()
    boundaries = Boundaries(client, ConnectionOptions("b:9092"))
    for begin, end in ((Place(0), Place(5, 3)), (Place(2, epoch), Place(7, epoch))):
        ends = {partition: end}
        assert boundaries.moved({partition: begin}, ends, Offsets({}, ends)) == ends
    assert asked == [(0, 5), read]


def test_headers_are_read_from_the_replica_in_the_rack_too(monkeypatch: pytest.MonkeyPatch) -> None:
    racks = []

    def read_range(*_: Any, rack: str, **__: Any) -> Iterator[Any]:
        racks.append(rack)
        return iter(())

    monkeypatch.setattr(transaction_boundaries, "read_range", read_range)
    client: Any = None
    ends = {TopicPartition("t", 0): Place(5, 3)}
    boundaries = Boundaries(client, ConnectionOptions("b:9092", read_segments="false", client_rack="zone-a"))
    boundaries._walk(Scan(0), TopicPartition("t", 0), 5, Offsets({}, ends), until=5)
    assert racks == ["zone-a"]


def test_an_emptied_batch_opens_nothing_and_a_gap_is_no_transaction() -> None:
    """Compaction leaves a producer's last batch without its records, and its marker goes once they are gone."""
    emptied = build_batch([], is_transactional=True, producer_id=1, base_offset=4, last_offset_delta=1)
    record = NewRecord(None, b"x", 1)
    later = build_batch([record], is_transactional=True, producer_id=2, producer_epoch=0, base_offset=20)
    scan = Scan(0)

    scan.take(headers_of(emptied + later), 21, until=2**63 - 1)

    assert (scan.boundary, scan.at) == (20, 21)
    scan = Scan(0)
    scan.take(headers_of(emptied), 5, until=2**63 - 1)
    assert scan.boundary == 5, "a limit inside of it is kept"


def keyed(partition: TopicPartition, key: int, value: str) -> dict[TopicPartition, list[bytes]]:
    record = NewRecord(b"k%d" % key, value.encode(), 1_700_000_000_000)
    return {partition: [build_batch([record], is_transactional=True)]}


def test_of_a_compacted_topic_no_transaction_is_divided(tmp_path: Path) -> None:
    chance = random.Random(3)
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": "1000",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
    }
    settings = {**KEEP, "log.cleaner.backoff.ms": "50", "log.cleaner.dedupe.buffer.size": "1048577"}
    with ProcessCluster(tmp_path, brokers=1, settings=settings) as one, SyncClient(one.bootstrap) as client:
        create_topic(client, "keyed", config=config)
        writers = Writers(client, "keyed")
        opened: dict[int, Transaction] = {}
        for number in range(60):
            opened[number] = Transaction(client, f"keyed-{number}", timeout_ms=60_000)
            opened[number].begin()
            for other in sorted(opened):
                opened[other].send(keyed(writers.partition, chance.randrange(12), f"{other}/{number}"))
            if len(opened) > 2 or number == 59:
                for other in chance.sample(sorted(opened), len(opened) if number % 4 == 3 else 1):
                    writers.end(opened.pop(other), is_commit=other % 5 != 0)
        eventually(
            lambda: len(batch(one.bootstrap, "keyed", **COMMITTED)) < 40, 60.0, "what compaction has left"
        )

        for limit in (1, 7, 30):
            running = Stream(one.bootstrap, "keyed")
            end = client.end_offsets([writers.partition])[writers.partition]
            found = []
            while running.at["keyed"]["offsets"]["0"] < end:
                found.append(running.next(ReadMaxRows(limit)))
            running.reader.stop()
            read_in_all = [value for values in found for value in values]
            left = batch(one.bootstrap, "keyed", **COMMITTED)
            assert len(read_in_all) == len(set(read_in_all)) and set(left) <= set(read_in_all)
            assert sum(map(bool, found)) > 2, "more than one batch, or nothing is shown"
            assert divided(found) == {}


def divided(found: list[list[str]]) -> dict[str, set[int]]:
    """The transactions that have records in more than one batch. A value is the transaction's name, /, and more."""
    batches_of: dict[str, set[int]] = {}
    for number, values in enumerate(found):
        for value in values:
            batches_of.setdefault(value.split("/")[0], set()).add(number)
    return {name: numbers for name, numbers in batches_of.items() if len(numbers) > 1}


def test_headers_are_read_once_and_none_where_nothing_is_open(
    writers: Writers, stream: StartStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    real = transaction_boundaries.read_range

    def counted(client: SyncClient, partition: TopicPartition, start: int, end: int, **more: Any) -> Any:
        asked.append((start, end))
        return real(client, partition, start, end, **more)

    monkeypatch.setattr(transaction_boundaries, "read_range", counted)
    for number in range(3):
        commit(writers, f"{number}-1", f"{number}-2")
    running = stream()
    running.next()
    assert asked == [], "the log ends at a boundary"

    held, settled = writers.begin("held-1"), writers.begin("settled-1")  # from 9 on
    other = writers.begin("other-1")
    writers.end(held, is_commit=True)
    writers.end(settled, is_commit=True)
    for _ in range(3):
        assert running.next() == []
    assert asked == [(9, 11)], "what is stable was read by the first of them"
    writers.end(other, is_commit=True)
    opened = writers.begin("opened-1")
    assert running.next() == ["held-1", "settled-1", "other-1"]
    assert asked[1:] == [(11, 15)], "and the next goes on from there"
    writers.end(opened, is_commit=False)
    assert running.next() == []
    writers.plain("plain")
    writers.begin("opened-2")
    assert running.next() == ["plain"]
    assert asked[2:] == [(17, 18)], "what was not read is not gone back to"


def test_the_same_start_is_asked_again_with_another_limit(writers: Writers, stream: StartStream) -> None:
    for number in range(4):
        commit(writers, f"{number}-1", f"{number}-2")
    running = stream()
    running.reader.latestOffset(running.at, ReadMaxRows(10))

    assert running.next(ReadMaxRows(4)) == ["0-1", "0-2"]


def test_an_earlier_start_has_boundaries_of_its_own(writers: Writers, stream: StartStream) -> None:
    """What was read from within a transaction on knows nothing of what had begun before."""
    commit(writers, "a-1")  # offset 0, marker 1
    open_one = writers.begin("b-1")  # 2
    writers.plain("plain-1", "plain-2")  # 3 and 4
    writers.add(open_one, "b-2")  # 5
    writers.end(open_one, is_commit=True)
    running = stream(startingOffsets=f'{{"{writers.partition.topic}":{{"0":3}}}}')
    assert running.next(ReadMaxRows(2)) == ["plain-1", "plain-2"]

    running.at = stream().at

    assert running.next(ReadMaxRows(5)) == ["a-1"]


def test_whatever_the_interleaving_and_the_limits_no_transaction_is_divided_and_nothing_is_left_out(
    cluster: ProcessCluster, writers: Writers
) -> None:
    no_transaction_is_divided(cluster.bootstrap, writers)


def no_transaction_is_divided(bootstrap: str, writers: Writers) -> None:
    chance = random.Random(14)
    running = Stream(bootstrap, writers.partition.topic)
    found: list[list[str]] = []
    committed: list[str] = []
    opened: dict[str, tuple[Transaction, list[str]]] = {}

    def end(name: str) -> None:
        transaction, values = opened.pop(name)
        is_commit = chance.random() < 0.7
        writers.end(transaction, is_commit=is_commit)
        if is_commit:
            committed.extend(values)

    for step in range(60):
        what = chance.random()
        if what < 0.3 and len(opened) < 4:
            values = [f"t{step}/{n}" for n in range(chance.randint(1, 4))]
            opened[f"t{step}"] = writers.begin(*values), values
        elif what < 0.6 and opened:
            name = chance.choice(sorted(opened))
            transaction, values = opened[name]
            value = f"{name}/{len(values)}"
            writers.add(transaction, value)
            values.append(value)
        elif what < 0.8 and opened:
            end(chance.choice(sorted(opened)))
        else:
            writers.plain(f"plain{step}/0")
            committed.append(f"plain{step}/0")
        if what > 0.5:
            found.append(running.next(chance.choice([EVERYTHING, ReadMaxRows(chance.randint(1, 9))])))
        if what > 0.95:
            running.restarted()
    for name in sorted(opened):
        end(name)
    found += [running.next(ReadMaxRows(5)) for _ in range(60)]
    running.reader.stop()

    assert sorted(value for values in found for value in values) == sorted(committed)
    assert divided(found) == {}


def test_the_option_is_refused_for_a_reader_of_uncommitted_records() -> None:
    given = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", **WHOLE}

    with pytest.raises(
        ConfigurationError, match=r"transactionBoundaries=true needs kafka\.isolation\.level=read_committed"
    ):
        parse(given)
    assert parse({**given, **COMMITTED}).transaction_boundaries
