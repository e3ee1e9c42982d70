"""The classic lines in their file: many at once are the lines `logging` would have written."""

import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.log.files import OsDirectory
from odradek.model.settings import BrokerSettings
from odradek.server import state_change_log
from odradek.server.log_limits import LimitedLog

LINES = [
    ("INFO", "Changed partition orders-3 from OfflinePartition to OnlinePartition"),
    ("TRACE", "Changed state of replica 1 for partition orders-3"),
    ("WARN", "orders-4: broker 1 holds the only replica"),
    ("DEBUG", "Started replica state machine"),
    ("ERROR", "100 % of orders-5 is offline"),
]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    logger = state_change_log.logger
    before = (logger.handlers[:], logger.propagate, logger.level)
    logger.handlers = []
    logger.setLevel(logging.INFO)
    state_change_log.write_to(
        OsDirectory.create(str(tmp_path)), "state-change.log", LimitedLog(logger, lambda: 0.0)
    )
    yield tmp_path / "state-change.log"
    logger.handlers, logger.propagate = before[0], before[1]
    logger.setLevel(before[2])


def alone(file: Path) -> None:
    """Without pytest's own handlers, as in a broker process."""
    logger = state_change_log.logger
    logger.handlers = [h for h in logger.handlers if isinstance(h, state_change_log.FileHandler)]
    assert len(logger.handlers) == 1, f"somebody writes {file}"


def without_time(file: Path) -> list[str]:
    return [
        re.sub(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]", "[at]", line)
        for line in file.read_text().splitlines()
    ]


def test_lines_written_at_once_are_those_written_one_by_one(file: Path) -> None:
    alone(file)
    for level, text in LINES:
        state_change_log.write_line(level, text)
    one_by_one = without_time(file)
    state_change_log.write_lines(iter(LINES), int(time.time() * 1000))
    assert without_time(file) == one_by_one * 2
    assert [line.split(" ")[1] for line in one_by_one] == ["INFO", "WARNING", "ERROR"], (
        "neither TRACE nor DEBUG"
    )


def test_another_reader_of_the_logger_is_told_too(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    state_change_log.logger.addHandler(caplog.handler)
    state_change_log.write_lines(LINES[:1], 0)
    assert [record.getMessage() for record in caplog.records] == [LINES[0][1]]
    assert len(without_time(file)) == 1


def test_brokers_that_share_a_directory_do_not_write_over_each_other(tmp_path: Path) -> None:
    """Of one host, with `odradek.journal.dir` in what their settings have in common."""
    limited = LimitedLog(state_change_log.logger, lambda: 0.0)
    handlers = {}
    for broker in ("1", "2"):
        settings = BrokerSettings({"broker.id": broker, "odradek.journal.dir": str(tmp_path)})
        directory, name = OsDirectory.create(str(tmp_path)), state_change_log.file_name(settings)
        handlers[broker] = state_change_log.FileHandler(directory, name, limited)
    for turn in range(2):
        for broker, handler in handlers.items():
            handler.append_lines([("INFO", f"broker {broker}, turn {turn}")], 0)
    lines = [line for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert sorted(line.rpartition("INFO ")[2] for line in lines) == [
        f"broker {broker}, turn {turn}" for broker in handlers for turn in range(2)
    ]


def test_in_a_log_directory_the_file_has_apaches_name() -> None:
    assert state_change_log.file_name(BrokerSettings({"broker.id": "1"})) == "state-change.log"
