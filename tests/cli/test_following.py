"""Where a reader that waits for more reads on, of a topic that is another one by then."""

import contextlib
import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.cli import main, terminal
from odradek.cli.topic import reading
from odradek.cli.topic.following import Following
from odradek.client import sync_records
from odradek.client.sync import SyncClient
from odradek.client.sync_connection import DeadlineExceeded
from odradek.client.sync_fetch import OffsetsGone
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from tests.support import eventually

WHERE = TopicPartition("t", 0)


def test_the_end_of_a_topic_that_was_deleted_is_none_of_the_new_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Asked just before. The new one has no record there, perhaps for days, and would be waited for up to it."""
    client: Any = SimpleNamespace(topic=lambda name, is_known: SimpleNamespace(topic_id=b"new"))
    positions = {WHERE: 7}
    following = Following(client, "t", b"old", positions)
    ends = {WHERE: 9}
    following.reaches(ends)
    assert (positions, ends) == ({WHERE: 0}, {WHERE: 0})
    ends = {WHERE: 2}
    following.reaches(ends)
    assert (positions, ends) == ({WHERE: 0}, {WHERE: 2})
    assert capsys.readouterr().err.count("was deleted and created again") == 1


def test_who_waits_for_more_waits_for_brokers_that_are_away_too(
    start_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only broker was restarted, and took longer than one request may: the reader ended, and missed what came then."""
    _, shell = start_cluster(1)
    shell.ok("topic", "create", "orders")
    away = "given up after 30 s; the last answer was: no broker answers at 127.0.0.1:9092: connection refused"
    asked: list[int] = []
    reaches = Following.reaches

    def at_first_nobody(self: Following, ends: dict[TopicPartition, int]) -> None:
        asked.append(1)
        if len(asked) <= 2:
            raise DeadlineExceeded(away)
        if len(asked) == 3:
            with SyncClient(shell.bootstrap) as client:
                client.produce(TopicPartition("orders", 0), build_batch([NewRecord(None, b"came then")]))
        reaches(self, ends)

    monkeypatch.setattr(Following, "reaches", at_first_nobody)
    out, err = io.BytesIO(), io.StringIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(out)), contextlib.redirect_stderr(err):
        code = main.main(["topic", "consume", "orders", "-n", "1", "--bootstrap", shell.bootstrap])
        assert (code, out.getvalue()) == (0, b"came then\n"), err.getvalue()
    assert err.getvalue() == f"odradek: {away}; it is tried again until Ctrl-C\n" * 2

    def nobody(*_: Any, **__: Any) -> None:
        raise DeadlineExceeded(away)

    monkeypatch.setattr(SyncClient, "end_offsets", nobody)
    err = io.StringIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(err):
        code = main.main(["topic", "consume", "orders", "--exit", "--bootstrap", shell.bootstrap])
    assert (code, err.getvalue()) == (1, f"odradek: {away}\n"), "who does not wait is told"


def test_partitions_whose_leader_is_there_are_read_while_another_is_waited_for(
    start_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader without an end stood still at the first partition whose leader was away, at its start and later."""
    cluster, shell = start_cluster(2)
    shell.ok("topic", "create", "orders", "--assign", "1:2")
    monkeypatch.setattr(reading, "PATIENCE_S", 0.5)

    def write(partition: int, text: bytes) -> None:
        with SyncClient(shell.bootstrap) as client:
            client.produce(TopicPartition("orders", partition), build_batch([NewRecord(None, text)]))

    write(0, b"a")
    write(1, b"b")
    cluster.kill(2)
    eventually(lambda: cluster.leader("orders", 1) == -1, what="partition 1 has no leader")
    # Whenever it has read what is there, and before it waits for more.
    then = [
        lambda: (
            cluster.start(2),
            cluster.wait_until(lambda: cluster.leader("orders", 1) == 2, "it is back"),
        ),
        lambda: (cluster.kill(2), write(0, b"c")),
    ]

    def is_read() -> bool:
        if then and len(seen()) == 3 - len(then):
            then.pop(0)()
        return True

    out, err = io.BytesIO(), io.StringIO()

    def seen() -> list[bytes]:
        return out.getvalue().splitlines()

    monkeypatch.setattr(terminal, "is_read", is_read)
    with contextlib.redirect_stdout(io.TextIOWrapper(out)), contextlib.redirect_stderr(err):
        code = main.main(["topic", "consume", "orders", "-n", "3", "--bootstrap", shell.bootstrap])
        assert (code, seen()) == (0, [b"a", b"b", b"c"]), err.getvalue()
    said = err.getvalue().splitlines()
    lost = "odradek: orders-1: it has no leader; the other partitions are read, and it is tried again until Ctrl-C"
    assert said[:2] == [lost, "odradek: orders-1: read again"], said


def test_that_nobody_answers_any_more_is_said_once(
    start_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a partition whose leader was away each look at nobody was a line, twenty in a second."""
    cluster, shell = start_cluster(2)
    shell.ok("topic", "create", "orders", "--assign", "1:2")
    monkeypatch.setattr(reading, "PATIENCE_S", 0.2)
    monkeypatch.setattr(reading, "LONGEST_PATIENCE_S", 0.2)

    def write() -> None:
        with SyncClient(shell.bootstrap) as client:
            client.produce(TopicPartition("orders", 0), build_batch([NewRecord(None, b"a")]))

    write()
    cluster.kill(2)
    eventually(lambda: cluster.leader("orders", 1) == -1, what="partition 1 has no leader")
    looks: list[int] = []

    def is_read() -> bool:
        looks.append(1)
        if len(looks) == 1:
            cluster.kill(1)
        elif len(looks) == 6:
            cluster.start(1)
            cluster.wait_until(lambda: cluster.leader("orders", 0) == 1, "it leads")
            write()
        return True

    out, err = io.BytesIO(), io.StringIO()
    monkeypatch.setattr(terminal, "is_read", is_read)
    with contextlib.redirect_stdout(io.TextIOWrapper(out)), contextlib.redirect_stderr(err):
        code = main.main(["topic", "consume", "orders", "-n", "2", "--bootstrap", shell.bootstrap])
        assert (code, out.getvalue()) == (0, b"a\na\n"), err.getvalue()
    said = [line.partition(": ")[2] for line in err.getvalue().splitlines()]
    assert [line.partition(": ")[0] for line in said] == ["orders-1", "orders-0", "orders-0"], said
    assert said[1].endswith("; it is tried again until Ctrl-C") and said[2] == "orders-0: read again", said


def test_a_leader_that_is_away_when_it_is_asked_where_its_log_begins_now_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Retention was faster, and the leader died: the reader ended."""

    def gone(*_: Any, **__: Any) -> None:
        raise OffsetsGone("t-0: offsets 0 to 4 are not there any more")

    def begin_offsets(_: object) -> dict[TopicPartition, int]:
        if not begins:
            raise DeadlineExceeded("given up after 30 s")
        return {WHERE: begins.pop()}

    begins = [0]
    monkeypatch.setattr(sync_records, "records", gone)
    client: Any = SimpleNamespace(
        begin_offsets=begin_offsets,
        end_offsets=lambda *_, **__: {WHERE: 9},
        topic=lambda name, is_known: SimpleNamespace(topic_id=b"id"),
    )
    found = reading.Endless(client, "t", b"id", [WHERE], "start", read_committed=False).records()
    assert next(found) is None
    assert capsys.readouterr().err == "odradek: t-0: given up after 30 s; it is tried again until Ctrl-C\n"
