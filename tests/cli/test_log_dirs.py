"""`log dirs` shows where replicas lie; `reassign apply` sends them to the directories its file names."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.cli import log_dirs
from odradek.cli.reassign.directories import still_coming
from odradek.client.sync import SyncClient
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import OdradekError, ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.cli.conftest import Shell


def where(shell: Any, topic: str) -> dict[int, str]:
    """Broker -> the directory it has the first partition in."""
    return {
        row["broker"]: row["directory"]
        for row in shell.json("log", "dirs", "-t", topic)
        for replica in row["replicas"]
        if not replica["is_future"] and replica["partition"] == f"{topic}-0"
    }


def test_who_may_not_see_the_directories_is_told_so_and_does_not_see_none() -> None:
    """Since version 3 the answer has an error of its own. A move to a directory would have been waited for without end."""
    answer = DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results=[])
    client: Any = SimpleNamespace(call=lambda *_: answer)
    with pytest.raises(OdradekError, match="broker 1: CLUSTER_AUTHORIZATION_FAILED"):
        still_coming(client, {(TopicPartition("orders", 0), 1): "/b"})


def test_a_copy_on_its_way_is_not_in_its_directory_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = TopicPartition("orders", 0)
    copy = {"partition": "orders-0", "is_future": True}
    row: dict[str, Any] = {"broker": 1, "directory": "/b", "error": None, "replicas": [copy]}
    monkeypatch.setattr("odradek.cli.log_dirs.directories_of", lambda *_: [row])
    client: Any = None
    assert still_coming(client, {(orders, 1): "/b"}) == [(orders, 1)]
    copy["is_future"] = False
    assert still_coming(client, {(orders, 1): "/b"}) == []
    row["error"] = "KAFKA_STORAGE_ERROR"
    with pytest.raises(OdradekError, match="/b of broker 1 is offline"):
        still_coming(client, {(orders, 1): "/b"})


def test_a_topic_that_is_not_there_has_no_replicas_anywhere_and_that_is_said(
    start_cluster: Callable[..., Any],
) -> None:
    _, shell = start_cluster(1)
    shell.ok("topic", "create", "orders")
    assert shell("log", "dirs", "--topic", "order") == (
        1,
        "",
        "odradek: there is no topic order; did you mean orders?\n",
    )


def test_replicas_go_to_the_directories_of_a_file(start_cluster: Callable[..., Any], tmp_path: Path) -> None:
    _, shell = start_cluster(2, settings={"log.dirs": f"{tmp_path}/$broker/a,{tmp_path}/$broker/b"})
    shell.ok("topic", "create", "orders", "--assign", "1")
    (here,) = where(shell, "orders").values()
    assert here in (f"{tmp_path}/broker-1/a", f"{tmp_path}/broker-1/b")
    there = f"{tmp_path}/broker-1/{'b' if here.endswith('a') else 'a'}"
    file = tmp_path / "moves.json"

    def write(*replicas: tuple[int, str]) -> None:
        entry = {
            "topic": "orders",
            "partition": 0,
            "replicas": [broker for broker, _ in replicas],
            "log_dirs": [path for _, path in replicas],
        }
        file.write_text(json.dumps({"partitions": [entry]}))

    write((1, there), (2, f"{tmp_path}/broker-2/b"))
    assert shell.ok("reassign", "apply", file, "--wait").endswith(
        "2 of 2 replicas in place in the log directories\n"
    )
    assert where(shell, "orders") == {1: there, 2: f"{tmp_path}/broker-2/b"}

    write((1, "/nowhere"), (2, "any"))
    code, _, err = shell("reassign", "apply", file)
    assert code == 1 and "orders-0 cannot go to /nowhere of broker 1: LOG_DIR_NOT_FOUND" in err

    shown = shell.ok("log", "dirs", "--broker", 1)
    assert f"{tmp_path}/broker-1/a" in shown and f"{tmp_path}/broker-2/a" not in shown and "online" in shown
    code, _, err = shell("log", "dirs", "--broker", 9)
    assert code == 1 and "brokers alive: 1, 2" in err


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_dump_begins_before_all_of_a_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    """A segment with its records would be many times its size in memory."""
    segment = tmp_path / f"{0:020d}.log"
    segment.touch()

    def items(*_: object, **__: object) -> Iterator[dict[str, Any]]:
        yield {"epoch": 1, "startOffset": 7}
        printed: Any = sys.stdout
        assert "7" in printed.getvalue()
        yield {"epoch": 2, "startOffset": 9, "isvalid": False}

    monkeypatch.setattr("odradek.log.dump.dump_file", items)
    code, out, err = Shell("")("log", "dump", segment, *form, offline=True)
    assert (code, err) == (1, "") and "9" in out


def test_a_broker_that_is_silent_does_not_keep_back_the_directories_of_the_others(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = SyncClient.call

    def silent(client: SyncClient, broker: int, request: Any, **options: Any) -> Any:
        if broker == 2 and isinstance(request, DescribeLogDirsRequest):
            raise ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, "broker 2: no answer in time")
        return call(client, broker, request, **options)

    monkeypatch.setattr(SyncClient, "call", silent)
    code, out, err = shell("log", "dirs", "--json")
    assert code == 1 and {row["broker"] for row in json.loads(out)} == {1, 3, 4}
    assert err == "odradek: log directories of broker 2 are not known: broker 2: no answer in time\n"
    code, out, err = shell("log", "dirs", "--broker", "2")
    assert (code, out) == (1, "") and err == "odradek: broker 2: no answer in time\n"


def test_what_lies_there_and_is_not_served_is_shown_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """As after an older copy of the store was restored: its broker knows no such replica, and says no lag."""

    def replica(partition: str, lag: int, *, is_future: bool = False) -> dict[str, Any]:
        return {"partition": partition, "bytes": 70, "lag": lag, "is_future": is_future}

    row = {"broker": 1, "directory": "/a", "error": None, "usable_bytes": None}
    well = [replica("led-0", 0), replica("led-1", 0, is_future=True), replica("led-2", -1, is_future=True)]
    log_dirs.show([{**row, "replicas": well}])
    assert "NOT SERVED" not in capsys.readouterr().out
    log_dirs.show([{**row, "replicas": [*well, replica("newer-0", -1)]}])
    _, said = capsys.readouterr().out.split("NOT SERVED")
    assert said.splitlines()[1].split() == ["newer-0", "1", "/a", "70", "B"]
    assert "led" not in said and "may not have been told yet" in said
