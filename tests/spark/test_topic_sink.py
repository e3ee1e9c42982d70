"""Topics that take each batch once: kills at every step of the protocol, two drivers, a coordinator that loses patience."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql.types import BinaryType, StructField, StructType

from odradek.cli.spark import spark as spark_commands
from odradek.client import sync_transaction
from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_connection import ConnectionLost, SyncConnection
from odradek.client.sync_records import records
from odradek.client.sync_transaction import Fenced, Transaction
from odradek.client.sync_transactions import describe, list_transactions
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, OdradekError, ProtocolError
from odradek.model.ids import TopicPartition
from odradek.model.topic_names import TRANSACTIONS_TOPIC
from odradek.protocol.messages.produce import ProduceResponse
from odradek.spark.cannot_write import CannotWrite, NotShared
from odradek.spark.kill_switch import TOPIC_STEPS
from odradek.spark.options import ConnectionOptions
from odradek.spark.topic_commit import AheadOfCheckpoint, check, commit
from odradek.spark.topic_options import TopicOptions, parse_topic_options
from odradek.spark.topic_sink import TopicWriter, batch_writer
from odradek.spark.topic_writing import DamagedFile, Staged, discard, stage, staged_directory
from odradek.spark.verify_topic import SinkReport, verify_topics
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.task_context import Context
from tests.support import eventually, full_disk

MakeTopic = Callable[..., str]
BATCHES = 3
ROWS = 40


class Died(BaseException):
    """As a process that is killed, which nobody hears of: a commit that fails otherwise ends its transaction."""


class Sink(NamedTuple):
    """What Spark does with the sink, without Spark; `checkpoint` holds the batches that it noted."""

    options: TopicOptions
    checkpoint: list[int]

    def at(self, what: Callable[[str, int], None]) -> "Sink":
        class Switch:
            at = staticmethod(what)

        return self._replace(options=self.options._replace(kill_switch=Switch()))  # type: ignore[arg-type]

    def dies_at(self, step: str, batch_id: int) -> "Sink":
        def die(at: str, batch: int) -> None:
            if (at, batch) == (step, batch_id):
                raise Died

        return self.at(die)

    def stage(self, batch_id: int, attempt: int, tasks: int) -> list[Staged]:
        """Rows that no two attempts have alike, dealt out to any number of tasks."""
        rows = [{"key": b"k%d" % (n % 7), "value": b"%d-%d-%d" % (batch_id, attempt, n)} for n in range(ROWS)]
        schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
        return [
            stage(
                [pa.RecordBatch.from_pylist(rows[task::tasks], schema=schema)],
                self.options,
                batch_id=batch_id,
            )
            for task in range(tasks)
        ]

    def run(self, attempt: int = 0, tasks: int = 2) -> None:
        for batch_id in range(BATCHES):
            if batch_id in self.checkpoint:
                continue
            commit(self.options, self.stage(batch_id, attempt, tasks), batch_id)
            self.options.kill_switch.at("before-checkpoint", batch_id)
            self.checkpoint.append(batch_id)


@pytest.fixture
def sink(cluster: ProcessCluster, make_topic: MakeTopic, tmp_path: Path) -> Sink:
    topic = make_topic(partitions=3)
    options = TopicOptions(ConnectionOptions(cluster.bootstrap), topic, f"app-{topic}", str(tmp_path))
    return Sink(options, [])


def read(client: SyncClient, sink: Sink, *, committed: bool = True) -> list[tuple[int, int, int]]:
    """(batch, attempt, row) of every record that a reader of committed transactions sees."""
    assert sink.options.topic is not None
    found = []
    for number in range(3):
        partition = TopicPartition(sink.options.topic, number)
        end = client.list_offsets({partition: LATEST}, read_committed=committed)[partition].offset
        for record in records(client, partition, 0, end, read_committed=committed):
            assert record.value is not None
            batch, attempt, row = bytes(record.value).split(b"-")
            found.append((int(batch), int(attempt), int(row)))
    return sorted(found)


def is_decided(client: SyncClient, sink: Sink) -> bool:
    """No transaction is open, and each that has ended is ended everywhere."""
    partitions = [TopicPartition(sink.options.topic or "", number) for number in range(3)]
    stable = client.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=True)
    return all(stable[p].offset == end for p, end in client.end_offsets(partitions).items())


def whole(*attempts: int) -> list[tuple[int, int, int]]:
    """Each batch as one attempt had it."""
    return [(batch, attempt, row) for batch, attempt in enumerate(attempts) for row in range(ROWS)]


@pytest.mark.parametrize("step", TOPIC_STEPS)
def test_a_batch_is_there_once_wherever_the_driver_dies(step: str, sink: Sink, client: SyncClient) -> None:
    dies_and_goes_on(step, sink, client)


def dies_and_goes_on(step: str, sink: Sink, client: SyncClient) -> None:
    """The driver dies in its second batch, and another one goes on where the checkpoint says."""
    with pytest.raises(Died):
        sink.dies_at(step, 1).run(attempt=0, tasks=2)
    is_there = step in ("after-commit", "before-checkpoint")
    eventually(lambda: read(client, sink)[:ROWS] == whole(0), 30.0, "the first batch")

    sink.run(attempt=1, tasks=5)  # as after a restart with more cores: other rows, dealt out otherwise

    eventually(lambda: is_decided(client, sink), 30.0, "the last batch is committed everywhere")
    assert read(client, sink) == whole(0, 0 if is_there else 1, 1)
    assert sink.checkpoint == [0, 1, 2]
    assert list(staged_directory(sink.options).iterdir()) == []


def test_who_dies_again_and_again_doubles_nothing(sink: Sink, client: SyncClient) -> None:
    for attempt, step in enumerate(TOPIC_STEPS):
        with pytest.raises(Died):
            sink.dies_at(step, 1).run(attempt=attempt, tasks=1 + attempt % 3)
        if step == "after-commit":
            break
    sink.run(attempt=9)

    assert read(client, sink) == whole(0, attempt, 9)


def test_before_the_end_nothing_of_a_batch_is_read_and_then_all_of_it(sink: Sink, client: SyncClient) -> None:
    seen = {}

    def look(step: str, batch: int) -> None:
        if batch == 0:
            seen[step] = (len(read(client, sink)), len(read(client, sink, committed=False)))

    sink.at(look).run()

    assert seen["before-end"] == (0, ROWS)
    assert seen["after-send"] == (0, ROWS)
    assert seen["after-begin"] == (0, 0)
    eventually(lambda: read(client, sink) == whole(0, 0, 0), 30.0)


@pytest.mark.parametrize("step", ["after-begin", "after-send", "before-end"])
def test_of_two_drivers_one_is_fenced_and_the_batch_is_there_once(
    step: str, sink: Sink, client: SyncClient, tmp_path: Path
) -> None:
    other = Sink(sink.options, [])

    def other_goes_on(at: str, batch: int) -> None:
        if (at, batch) == (step, 1) and not other.checkpoint:
            other.checkpoint.append(0)
            other.run(attempt=1)

    with pytest.raises((Fenced, NotShared)):
        sink.at(other_goes_on).run(attempt=0)

    assert read(client, sink) == whole(0, 1, 1)
    with pytest.raises(AheadOfCheckpoint, match=r"has written batch 2 .* this checkpoint is only at batch 1"):
        sink.run(attempt=2)
    assert read(client, sink) == whole(0, 1, 1)


def test_a_large_batch_may_take_long_and_none_longer_than_brokers_allow(
    sink: Sink, client: SyncClient
) -> None:
    """A minute, and what 2 MB a second take; at most `transaction.max.timeout.ms` of brokers that nobody has told otherwise."""

    def time_for(size_bytes: int) -> float:
        assert check(sink.options, [Staged("of a task", [size_bytes], [])], 0) is False
        name = sink.options.transactional_id
        (one,) = (
            found for found in list_transactions(client).transactions if found[1].transactional_id == name
        )
        timeout_ms: int = describe(client, one.coordinator, name).transaction_timeout_ms
        return timeout_ms / 1000

    assert [time_for(size) for size in (0, 1_000_000_000, 4 << 30)] == [60, 560, 900]


def test_what_another_driver_has_done_until_it_is_fenced_is_seen(
    sink: Sink, client: SyncClient, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has a directory of its own, so that it takes nothing of this one's away."""
    options = sink.options._replace(directory=str(tmp_path_factory.mktemp("other")))
    other = sink._replace(options=options)
    begin = Transaction.begin

    def begin_late(transaction: Transaction) -> None:
        monkeypatch.setattr(Transaction, "begin", begin)
        assert commit(other.options, other.stage(0, 1, 1), 0)
        begin(transaction)

    monkeypatch.setattr(Transaction, "begin", begin_late)
    assert not commit(sink.options, sink.stage(0, 0, 1), 0)

    assert read(client, sink) == whole(1)


def test_a_coordinator_that_loses_patience_takes_the_whole_batch_back(sink: Sink, client: SyncClient) -> None:
    """Of the second batch, at whatever step that finds it: on a slow machine it may be before all is sent."""

    def wait(step: str, batch: int) -> None:
        if (step, batch) == ("before-end", 1):
            eventually(lambda: is_decided(client, sink), 60.0, "the coordinator aborts")

    with pytest.raises(Died):
        sink.dies_at("before-write", 1).run(attempt=0)
    impatient = sink._replace(options=sink.options._replace(timeout_ms=300))
    with pytest.raises(Fenced, match="open for longer than 300 ms; nothing that it wrote is read"):
        impatient.at(wait).run(attempt=0)
    assert read(client, sink) == whole(0)

    sink.run(attempt=1)
    assert read(client, sink) == whole(0, 1, 1)


def lose_answers(monkeypatch: pytest.MonkeyPatch, kind: type, count: int) -> list[Any]:
    """The first `count` answers of this kind are lost with their connection; those that were."""
    receive = SyncConnection.receive
    lost: list[Any] = []

    def loses(self: SyncConnection, *asked: Any) -> Any:
        answer = receive(self, *asked)
        if isinstance(answer, kind) and len(lost) < count:
            lost.append(answer)
            self.close()
            raise ConnectionLost("the answer is lost")
        return answer

    monkeypatch.setattr(SyncConnection, "receive", loses)
    return lost


def test_a_batch_whose_answers_are_lost_is_sent_again_and_there_once(
    sink: Sink, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_transaction, "REQUEST_BYTES", 1)  # a request a batch
    lost = lose_answers(monkeypatch, ProduceResponse, 3)
    sink.run()

    assert len(lost) == 3
    assert read(client, sink) == whole(0, 0, 0)


def test_a_transaction_is_not_aborted_before_the_last_request_of_it_is_answered(
    sink: Sink, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came to a leader behind the marker would be of a transaction that nobody ends."""
    from odradek.spark import topic_writing

    monkeypatch.setattr(topic_writing, "SLICE_BYTES", 100)
    monkeypatch.setattr(sync_transaction, "REQUEST_BYTES", 1)  # a request a batch, five on their way
    receive, send, abort = SyncConnection.receive, SyncConnection.send_pieces, Transaction.abort
    events: list[str] = []

    def sends(self: SyncConnection, *asked: Any) -> Any:
        events.append("sent")
        return send(self, *asked)

    def refuses_the_first(self: SyncConnection, *asked: Any) -> Any:
        answer = receive(self, *asked)
        if isinstance(answer, ProduceResponse):
            if "answered" not in events:
                answer.responses[0].partition_responses[0].error_code = ErrorCode.MESSAGE_TOO_LARGE
            events.append("answered")
        return answer

    def aborts(self: Transaction) -> None:
        events.append("aborted")
        abort(self)

    monkeypatch.setattr(SyncConnection, "send_pieces", sends)
    monkeypatch.setattr(SyncConnection, "receive", refuses_the_first)
    monkeypatch.setattr(Transaction, "abort", aborts)
    with pytest.raises(ProtocolError, match="MESSAGE_TOO_LARGE"):
        sink.run(tasks=1)

    assert events.count("sent") == events.index("aborted") - events.count("sent") == 5
    eventually(lambda: is_decided(client, sink), 30.0, "the transaction is aborted everywhere")


def test_a_lost_answer_to_the_end_is_asked_for_again(
    sink: Sink, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odradek.protocol.messages.end_txn import EndTxnResponse

    lost = lose_answers(monkeypatch, EndTxnResponse, 1)
    sink.run()

    assert lost and read(client, sink) == whole(0, 0, 0)


def test_many_batches_of_a_partition_keep_their_order(
    sink: Sink, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odradek.spark import topic_writing

    monkeypatch.setattr(topic_writing, "SLICE_BYTES", 100)
    monkeypatch.setattr(sync_transaction, "REQUEST_BYTES", 400)
    sink.run(tasks=1)

    assert read(client, sink) == whole(0, 0, 0)
    partition = TopicPartition(sink.options.topic or "", 1)
    end = client.end_offsets([partition])[partition]
    values = [bytes(r.value or b"") for r in records(client, partition, 0, end, read_committed=True)]
    numbers = [tuple(map(int, value.split(b"-"))) for value in values]
    assert numbers == sorted(numbers) and len(numbers) > 6


def test_rows_without_a_key_go_to_all_partitions_alike_however_few_come_at_once(
    sink: Sink, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice begins at the partition behind that of the one before; at which the first does is anybody's guess."""
    from odradek.spark import topic_writing

    monkeypatch.setattr(topic_writing, "SLICE_BYTES", 1)
    rows = [pa.RecordBatch.from_pydict({"value": [b"%d" % n]}) for n in range(30)]

    staged = stage(rows, sink.options, batch_id=0)

    assert {place.partition.partition: place.proof.count for place in staged.places} == {0: 10, 1: 10, 2: 10}
    discard(sink.options, [staged])


def test_a_file_of_a_task_goes_when_its_batches_are_acknowledged(
    sink: Sink, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a broker appends next takes the pages. Those whose answer was lost are sent once more, and read for that."""
    from odradek.spark import topic_writing

    monkeypatch.setattr(topic_writing, "SLICE_BYTES", 10)
    monkeypatch.setattr(sync_transaction, "REQUEST_BYTES", 1)
    lost = lose_answers(monkeypatch, ProduceResponse, 3)
    receive = SyncConnection.receive
    left: list[int] = []
    steps: dict[str, int] = {}

    held: list[str] = []

    def files() -> int:
        return len(list(staged_directory(sink.options).glob("*")))

    def counts(self: SyncConnection, *asked: Any) -> Any:
        left.append(files())
        for descriptor in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # that of the directory itself
                name = os.readlink(f"/proc/self/fd/{descriptor}")
                held.extend([name] * (sink.options.directory in name and name.endswith(" (deleted)")))
        return receive(self, *asked)

    monkeypatch.setattr(SyncConnection, "receive", counts)
    sink.at(lambda step, _: steps.setdefault(step, files()) and None).run(tasks=2)

    assert lost and read(client, sink) == whole(0, 0, 0)
    assert steps["after-begin"] > 10 and steps["after-send"] == 0
    assert len(set(left)) > 5, "not all at once"
    assert held == [], "whose name is gone keeps its pages while it is open"


def test_who_has_ended_a_batch_leaves_what_tasks_have_written_for_the_next(
    sink: Sink, client: SyncClient
) -> None:
    """For another driver of the application, which goes on where this one is late."""
    staged = sink.stage(1, 0, 1)
    commit(sink.options, sink.stage(0, 0, 1), 0)

    commit(sink.options, staged, 1)

    assert read(client, sink) == whole(0, 0)


def test_files_of_a_large_task_are_few_and_those_of_one_that_fails_go(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odradek.spark import topic_writing

    monkeypatch.setattr(topic_writing, "SLICE_BYTES", 1_000)
    schema = pa.schema([("value", pa.binary())])
    rows = [pa.RecordBatch.from_pylist([{"value": bytes(1_000)}], schema=schema)] * 400
    staged = stage(rows, sink.options, batch_id=0)
    assert max(staged.sizes) < staged.size_bytes / 6 and len(staged.sizes) < 40
    discard(sink.options, [staged])

    def breaks() -> Iterator[pa.RecordBatch]:
        yield from rows
        raise Died

    with pytest.raises(Died):
        stage(breaks(), sink.options, batch_id=0)
    assert list(staged_directory(sink.options).iterdir()) == []


IN_MANY_FILES = """
import resource
import sys

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))

import pyarrow as pa

from odradek.spark import topic_writing
from odradek.spark.options import ConnectionOptions
from odradek.spark.topic_commit import commit
from odradek.spark.topic_options import TopicOptions

bootstrap, topic, directory = sys.argv[1:]
topic_writing.SLICE_BYTES = 10
topic_writing._SHARE = 1 << 30  # a file a slice
options = TopicOptions(ConnectionOptions(bootstrap), topic, f"app-{topic}", directory)
schema = pa.schema([("value", pa.binary())])
rows = [pa.RecordBatch.from_pylist([{"value": b"0-0-%d" % number}], schema=schema) for number in range(300)]
staged = topic_writing.stage(rows, options, batch_id=0)
assert len(staged.sizes) > 200, staged.sizes
commit(options, [staged], 0)
"""


def test_tasks_may_leave_more_files_than_a_process_may_have_open(
    sink: Sink, client: SyncClient, cluster: ProcessCluster
) -> None:
    """In a process of its own, which may have 128 open."""
    command = [
        sys.executable,
        "-c",
        IN_MANY_FILES,
        cluster.bootstrap,
        sink.options.topic or "",
        sink.options.directory,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert read(client, sink) == [(0, 0, number) for number in range(300)]
    assert list(staged_directory(sink.options).iterdir()) == []


def test_a_full_disk_is_a_sentence_and_leaves_no_file(sink: Sink) -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"%d" % n * 50 for n in range(3_000)]})
    directory = staged_directory(sink.options)

    with (
        pytest.raises(
            CannotWrite,
            match=rf"{directory}: File too large; nothing of batch 4 is in the topic, .* once there is room",
        ),
        full_disk(20_000),
    ):
        stage([rows], sink.options, batch_id=4)

    assert list(directory.iterdir()) == []


def test_rows_for_the_topic_of_progress_are_refused(sink: Sink) -> None:
    """Compaction would take them, and whoever looks for what an application noted there would find them."""
    name = f"progress-of-{sink.options.topic}"
    options = sink.options._replace(topic=None, progress_topic=name)
    rows = pa.RecordBatch.from_pydict({"value": [b"row", b"row"], "topic": [sink.options.topic, name]})

    with pytest.raises(
        ConfigurationError, match=f"a row is for topic {name}, where sinks note their progress"
    ):
        stage([rows], options, batch_id=0)

    assert list(staged_directory(options).iterdir()) == []


def test_rows_for_a_topic_of_the_brokers_are_refused(sink: Sink, client: SyncClient) -> None:
    """The broker refuses them with a code, once a batch has been staged; of a stream each time it is started again."""
    sink.run()  # a transaction, so the topic of transactions is there
    given = {"kafka.bootstrap.servers": sink.options.connection.bootstrap, "topic": TRANSACTIONS_TOPIC}
    sentence = (
        f"the topic {TRANSACTIONS_TOPIC} is of the brokers, which take no records for it; rows need another"
    )

    with pytest.raises(ConfigurationError, match=f"topic: {sentence}"):
        batch_writer(given, StructType().add("value", "binary"), overwrite=False)
    rows = pa.RecordBatch.from_pydict({"value": [b"row"], "topic": [TRANSACTIONS_TOPIC]})
    with pytest.raises(ConfigurationError, match=f"topic: {sentence}"):
        stage([rows], sink.options._replace(topic=None), batch_id=9)


@pytest.mark.parametrize("wrong", ["zzz", "killSwich", "decode", "maxDeadLetter", "deadLetterTopic"])
def test_what_jobs_say_to_the_sink_is_offered_to_nobody(wrong: str) -> None:
    """Not where it is nearly what was given either."""
    with pytest.raises(ConfigurationError, match=f"there is no option {wrong.lower()}; ") as caught:
        parse_topic_options({"kafka.bootstrap.servers": "h:1", wrong: "1"}, is_stream=False)
    inner = ("killSwitch", "decoded", "maxDeadLetters", "deadLettersTopic")
    said = str(caught.value)
    assert not any(name in said for name in inner) and ("progressTopic" in said or "did you mean" in said)


def test_a_batch_that_nobody_gives_again_is_noted_nowhere(sink: Sink, client: SyncClient) -> None:
    """One without an appId: neither the topic of progress is asked, nor made, nor is a note kept."""
    name = f"progress-of-{sink.options.topic}"
    once = sink._replace(options=sink.options._replace(is_named=False, progress_topic=name))

    assert commit(once.options, once.stage(0, 0, 2), 0)

    assert read(client, once) == whole(0)
    assert is_decided(client, once)
    assert name not in client.cluster().topics
    assert not (Path(once.options.directory) / "_odradek").exists()
    assert list(staged_directory(once.options).iterdir()) == []


def test_a_sink_with_a_topic_of_its_own_for_its_progress_is_verified(sink: Sink) -> None:
    own = f"progress-of-{sink.options.topic}"
    Sink(sink.options._replace(progress_topic=own), []).run()
    asked = [
        "verify",
        "--directory",
        sink.options.directory,
        "--bootstrap",
        sink.options.connection.bootstrap,
    ]

    named = CliRunner().invoke(spark_commands, [*asked, "--progress-topic", own])
    other = CliRunner().invoke(spark_commands, asked)

    assert (named.exit_code, "3 batches" in named.output) == (0, True), named.output
    assert "progress in topic odradek-sinks (--progress-topic names another)" in str(other.exception)


def test_a_batch_whose_driver_died_before_it_kept_the_note_is_verified_once_it_came_again(sink: Sink) -> None:
    with pytest.raises(Died):
        sink.dies_at("after-commit", 1).run()

    sink.run(attempt=1)

    bootstrap = sink.options.connection.bootstrap
    report = verify_topics(sink.options.directory, bootstrap, progress_topic="odradek-sinks")
    assert (report.is_equal, report.batches, report.records) == (True, BATCHES, BATCHES * ROWS)


def test_records_of_a_batch_whose_note_is_lost_are_found_wherever_they_are(sink: Sink) -> None:
    """Also where no other batch has any: in a directory that was put back to how it was, say."""
    for batch_id in range(2):
        rows = pa.record_batch({"value": [b"v"], "partition": pa.array([batch_id], pa.int32())})
        commit(sink.options, [stage([rows], sink.options, batch_id=batch_id)], batch_id)

    def report() -> SinkReport:
        connection = sink.options.connection
        return verify_topics(sink.options.directory, connection.bootstrap, progress_topic="odradek-sinks")

    assert report().is_equal and [one.partition.partition for one in report().partitions] == [0, 1]
    (note,) = (Path(sink.options.directory) / "_odradek").rglob("0000000001.json")
    note.unlink()

    assert [(one.partition.partition, one.unknown) for one in report().partitions] == [(0, 0), (1, 1)]
    assert not report().is_equal


def test_a_batch_write_without_an_id_that_fails_leaves_nothing_of_tasks_that_were_killed(sink: Sink) -> None:
    """No later batch finds it. Those of others at work stay."""
    once = sink._replace(options=sink.options._replace(is_named=False, app_id="of-one-write"))
    other = sink.stage(0, 0, 1)
    once.stage(0, 0, 2)

    TopicWriter(once.options).abort([None, None])

    assert [file.name for file in staged_directory(sink.options).iterdir()] == other[0].files


def test_what_killed_writes_without_an_id_have_left_goes_after_a_week(
    cluster: ProcessCluster, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody finds them by a name. One that is at work may have written its first files long ago, but not that long. A directory
    that was named may have one of that name for something else."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": make_topic()}
    rows = pa.record_batch({"value": [b"1"]})

    def killed() -> Path:
        options = parse_topic_options(given, is_stream=False)
        (name,) = stage([rows], options, batch_id=0).files
        return staged_directory(options) / name

    old, young = killed(), killed()
    others = young.with_name("2026-11-batch.csv")
    others.write_text("somebody's")
    week = time.time() - 7 * 86_400
    os.utime(others, (week - 60, week - 60))
    os.utime(old, (week - 60, week - 60))
    os.utime(young, (week + 3_600, week + 3_600))

    writer = batch_writer(given, StructType([StructField("value", BinaryType())]), overwrite=False)

    assert {file.name for file in young.parent.iterdir()} == {young.name, others.name}
    writer.commit([writer.write(iter([rows]))])
    assert {file.name for file in young.parent.iterdir()} == {young.name, others.name}


def test_what_a_task_left_that_ended_behind_its_batch_goes_with_the_next_one(sink: Sink) -> None:
    """Of a task that ran twice: its batch is decided by then, and nobody sends it any more. Other applications share the directory."""
    other = sink._replace(options=sink.options._replace(app_id="other"))
    commit(sink.options, sink.stage(0, 0, 1), 0)
    late, of_another = sink.stage(0, 1, 1)[0], other.stage(0, 0, 1)[0]

    commit(sink.options, sink.stage(1, 0, 1), 1)

    left = {file.name for file in staged_directory(sink.options).iterdir()}
    assert left == set(of_another.files) and late.files
    assert not commit(sink.options, sink.stage(1, 1, 1), 1), "it comes again, and is there"
    assert {file.name for file in staged_directory(sink.options).iterdir()} == left


@pytest.mark.parametrize("is_noted", [True, False])
def test_progress_that_is_gone_is_noticed(sink: Sink, client: SyncClient, is_noted: bool) -> None:
    """By what was kept of the batch before, whether the one that comes now was there or is new."""
    sink.run()
    elsewhere = sink.options._replace(progress_topic=f"progress-of-{sink.options.topic}")
    kept = Path(sink.options.directory) / "_odradek"
    assert kept.exists()
    moved = Sink(elsewhere, [0, 1])
    notes = sorted(kept.rglob("*.json"))
    assert [json.loads(path.read_text())["batchId"] for path in notes] == [0, 1, 2]
    if not is_noted:
        notes.pop().unlink()
    for path in notes:
        path.write_text(path.read_text().replace("odradek-sinks", elsewhere.progress_topic))

    with pytest.raises(AheadOfCheckpoint, match="does not tell of it: it was deleted or cut"):
        moved.run(attempt=1)
    assert read(client, sink) == whole(0, 0, 0)


@pytest.mark.parametrize("error", [MemoryError, OSError, KeyboardInterrupt])
def test_whatever_ends_a_commit_its_transaction_does_not_stay_open(
    sink: Sink, client: SyncClient, error: type[BaseException]
) -> None:
    """Readers of committed records would wait for the coordinator's patience, a minute or more."""

    def fails(step: str, batch: int) -> None:
        if (step, batch) == ("before-end", 1):
            raise error

    with pytest.raises(error):
        sink.at(fails).run()

    eventually(lambda: is_decided(client, sink), 10.0, "the transaction is aborted")
    sink.run(attempt=1)
    assert read(client, sink) == whole(0, 1, 1)


def test_a_batch_of_another_checkpoint_is_not_taken_for_one_that_comes_again(
    sink: Sink, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that was lost: the new one counts from 0 again, and its batch has records that are nowhere yet."""

    def of_query(query_id: str, batch_id: int, attempt: int) -> bool:
        task = Context()
        task.query = query_id
        monkeypatch.setattr("pyspark.TaskContext.get", lambda: task)
        return commit(sink.options, sink.stage(batch_id, attempt, 2), batch_id)

    assert of_query("one", 0, 0) and not of_query("one", 0, 1)
    for batch_id in (0, 1):
        with pytest.raises(
            AheadOfCheckpoint, match=r"has written batch 0 .* from a query of another checkpoint"
        ):
            of_query("other", batch_id, 2)
    assert of_query("one", 1, 0)
    eventually(lambda: is_decided(client, sink), 30.0, "the last batch is committed everywhere")
    assert read(client, sink) == whole(0, 0)


def test_a_batch_of_a_checkpoint_that_was_put_back_is_not_taken_for_one_that_comes_again(
    sink: Sink, client: SyncClient, tmp_path: Path
) -> None:
    """Or of a copy: it lacks the last batch, and plans one of that number anew, with other records, which are nowhere yet."""
    options = sink.options._replace(checkpoint=str(tmp_path / "checkpoint"))
    offsets = tmp_path / "checkpoint" / "offsets" / "0"
    offsets.parent.mkdir(parents=True)

    def runs(end: int, epoch: int) -> bool:
        offsets.write_text(
            f'v1\n{{}}\n{{"orders":{{"offsets":{{"0":{end}}},"leaderEpochs":{{"0":{epoch}}}}}}}'
        )
        return commit(options, sink.stage(0, epoch, 2), 0)

    assert runs(10, 0) and not runs(10, 1)
    with pytest.raises(AheadOfCheckpoint, match="has written batch 0 into its topics from other records"):
        runs(12, 2)
    # So is the batch behind one that has no records this time, as of a query with a filter.
    with pytest.raises(AheadOfCheckpoint, match="has written batch 0 into its topics from other records"):
        commit(options, sink.stage(1, 0, 2), 1)
    assert read(client, sink) == whole(0)


def test_a_file_that_the_driver_does_not_see_is_said(sink: Sink, client: SyncClient) -> None:
    staged = sink.stage(0, 0, 2)
    discard(sink.options, staged)

    with pytest.raises(
        NotShared,
        match="the option directory has to name one that executors and driver share, or another driver of the application has",
    ):
        commit(sink.options, staged, 0)
    assert read(client, sink, committed=False) == []


def test_a_file_that_was_damaged_on_its_way_is_refused(sink: Sink, client: SyncClient) -> None:
    """The driver does not read the records, and their checksum is still the task's."""
    staged = sink.stage(0, 0, 1)
    (path,) = staged_directory(sink.options).iterdir()
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)

    def refused(patience_s: float) -> str:
        brief = sink.options._replace(
            connection=sink.options.connection._replace(request_timeout_s=patience_s)
        )
        with pytest.raises(OdradekError) as why:
            commit(brief, staged, 0)
        return str(why.value)

    # On a busy machine a second may be over before anybody has answered.
    assert any("CORRUPT_MESSAGE" in refused(patience_s) for patience_s in (1.0, 10.0, 40.0))
    assert read(client, sink) == []


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda data: data[:-1], r"has \d+ bytes, and its task wrote \d+"),
        (lambda data: b"", "has 0 bytes, and its task wrote"),
        (lambda data: b"\0\0\0\3" + data[4:], "byte 0: a batch for place 3 of 3"),
        (lambda data: b"\0\0\0\2" + data[4:], r"has 0 records for .*, and its task wrote \d+"),
    ],
    ids=["cut", "empty", "place that is not", "place of another"],
)
def test_a_file_that_is_not_as_its_task_left_it_is_not_sent(
    damage: Callable[[bytes], bytes], sentence: str, sink: Sink, client: SyncClient
) -> None:
    """Which partition a batch is for stands beside it, where no checksum holds."""
    staged = sink.stage(0, 0, 1)
    (path,) = staged_directory(sink.options).iterdir()
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(DamagedFile, match=sentence):
        commit(sink.options, staged, 0)
    assert read(client, sink, committed=False) == []


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_back(codec: str, sink: Sink, client: SyncClient) -> None:
    Sink(sink.options._replace(codec=codec), [1, 2]).run()

    assert read(client, sink) == whole(0)


def test_what_writes_topics_does_without_deltalake() -> None:
    code = (
        "import sys; sys.modules['deltalake'] = None\n"
        "from odradek.spark import topic_commit, topic_sink, topic_writing, verify_topic"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
