"""The journal: a line a step, in order, however large the steps are."""

import asyncio
import errno
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from odradek.controller.effects import CreatePartitionState, Effects, StateChange
from odradek.controller.events import Elected, Event, Tick
from odradek.controller.journal import as_json
from odradek.controller.journal_text import AT_ONCE
from odradek.log import files
from odradek.log.files import OsDirectory
from odradek.model.cluster import LeaderAndIsr
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import ControllerChanged, MetadataLoaded
from odradek.model.ids import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from odradek.server import journal as module
from odradek.server.appended_file import AGAIN_S, AppendedFile
from odradek.server.environment import Environment
from odradek.server.journal import LARGE_STEPS_WAIT_S, MOST_WRITTEN_AT_ONCE, Journal
from odradek.server.log_limits import LimitedLog
from tests.support import open_under


def journal_in(path: Path, loop: asyncio.AbstractEventLoop) -> Journal:
    log = LimitedLog(logging.getLogger("odradek.server"), lambda: 0.0)
    return Journal(OsDirectory.create(str(path)), BrokerId(7), log, Environment(loop))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "controller-7.jsonl").read_text().splitlines()]


def writes(count: int) -> Effects:
    state = LeaderAndIsr(BrokerId(1), LeaderEpoch(0), (BrokerId(1),))
    return Effects(
        writes=tuple(
            CreatePartitionState(TopicPartition("t", n), state, ControllerEpoch(3)) for n in range(count)
        )
    )


def test_small_and_large_steps_stay_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        journal = journal_in(tmp_path, asyncio.get_running_loop())
        journal.record(1, ControllerEpoch(3), Tick(), writes(1))
        assert len(lines_of(tmp_path)) == 1, "a small step is there at once: it may be the last one"
        journal.record(2, ControllerEpoch(3), Tick(), writes(MOST_WRITTEN_AT_ONCE + 1))
        journal.record(3, ControllerEpoch(3), Tick(), writes(1))
        assert len(lines_of(tmp_path)) == 1
        await journal.finish()

    asyncio.run(scenario())

    lines = lines_of(tmp_path)
    assert [line["at_ms"] for line in lines] == [1, 2, 3]
    assert [len(line["writes"]) for line in lines] == [1, MOST_WRITTEN_AT_ONCE + 1, 1]


def test_a_line_that_an_earlier_process_did_not_end_takes_no_other_with_it(tmp_path: Path) -> None:
    """A large step is written in pieces, and the broker may be killed between two."""
    (tmp_path / "controller-7.jsonl").write_text('{"at_ms":1,"controller":7,"epoch":2,"ev')

    async def scenario() -> None:
        journal = journal_in(tmp_path, asyncio.get_running_loop())
        journal.record(5, ControllerEpoch(3), Tick(), writes(1))
        journal.record(6, ControllerEpoch(3), Tick(), writes(1))

    asyncio.run(scenario())

    torn, *whole = (tmp_path / "controller-7.jsonl").read_text().splitlines()
    assert torn.endswith('"ev')
    assert [json.loads(line)["at_ms"] for line in whole] == [5, 6]


def test_a_line_says_what_happened(tmp_path: Path) -> None:
    change = StateChange(kind="partition", source="NewPartition", to="OnlinePartition", reason="created")
    event: Event = ControllerChanged(BrokerId(2))

    async def scenario() -> None:
        journal = journal_in(tmp_path, asyncio.get_running_loop())
        journal.record(5, ControllerEpoch(3), event, Effects(changes=(change,), resign="another one leads"))

    asyncio.run(scenario())

    (line,) = lines_of(tmp_path)
    assert (line["controller"], line["epoch"], line["resign"]) == (7, 3, "another one leads")
    assert line["event"]["type"] == "ControllerChanged"
    assert line["event"]["controller"] == 2
    assert line["changes"][0]["to"] == "OnlinePartition"


def test_a_journal_that_cannot_be_written_is_told_with_what_comes_of_it_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "controller-7.jsonl").mkdir()

    async def scenario() -> None:
        journal = journal_in(tmp_path, asyncio.get_running_loop())
        for _ in range(10):
            journal.record(1, ControllerEpoch(3), Tick(), writes(1))

    asyncio.run(scenario())

    why, what_comes_of_it = (record.getMessage() for record in caplog.records)
    assert "controller-7.jsonl cannot be written" in why
    assert "from here to the next election" in what_comes_of_it


def test_values_as_json() -> None:
    assert as_json((1, "a", None, True, b"\x01\x02", ErrorCode.NONE)) == [1, "a", None, True, "0102", "NONE"]
    assert as_json({TopicPartition("t", 1): frozenset({3, 1})}) == {"t-1": [1, 3]}
    assert as_json(ControllerChanged(None))["type"] == "ControllerChanged"


def test_a_large_step_waits_while_the_controller_is_at_work(tmp_path: Path) -> None:
    async def scenario() -> None:
        journal = journal_in(tmp_path, asyncio.get_running_loop())
        journal.hold()
        journal.record(1, ControllerEpoch(3), Tick(), writes(5 * AT_ONCE))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2 * LARGE_STEPS_WAIT_S):
                await journal.finish()
        assert not (tmp_path / "controller-7.jsonl").exists()
        journal.release()
        journal.hold()  # the next event comes at once: a piece is written all the same
        await eventually_written(tmp_path)
        journal.release()
        await journal.finish()

    async def eventually_written(path: Path) -> None:
        async with asyncio.timeout(60):
            while not (path / "controller-7.jsonl").exists():
                await asyncio.sleep(0)

    asyncio.run(scenario())
    (line,) = lines_of(tmp_path)
    assert len(line["writes"]) == 5 * AT_ONCE


def test_a_line_in_pieces_is_not_torn_apart_by_a_new_file(tmp_path: Path) -> None:
    log = LimitedLog(logging.getLogger("odradek.server"), lambda: 0.0)
    file = AppendedFile(OsDirectory.create(str(tmp_path)), "a.jsonl", log, largest_bytes=5)
    for piece, goes_on in (("[1,2,3,4", False), (",5,6", True), ("]\n", True), ("[7]\n", False)):
        file.append(piece.encode(), goes_on=goes_on)
    assert (tmp_path / "a.jsonl.1").read_text() == "[1,2,3,4,5,6]\n"
    assert (tmp_path / "a.jsonl").read_text() == "[7]\n"


def test_a_file_that_could_not_be_written_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that was full has room again. Until then it is not kept open, for it could not be unmounted, and is asked again
    only after some seconds. Once the file is closed nothing is written to it."""
    log, now = LimitedLog(logging.getLogger("odradek.server"), lambda: 0.0), [100.0]
    file = AppendedFile(OsDirectory.create(str(tmp_path)), "a.jsonl", log, monotonic=lambda: now[0])
    file.append(b"one\n")
    refused = []

    def refuse(*_: object) -> int:
        refused.append(now[0])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(files, "_pwrite", refuse)
        for _ in range(3):
            file.append(b"two\n")
    assert refused == [100.0] and open_under(tmp_path) == []
    file.append(b"three\n")
    now[0] += AGAIN_S
    file.append(b"four\n")
    file.close()
    file.append(b"five\n")
    assert (tmp_path / "a.jsonl").read_text() == "one\nfour\n" and open_under(tmp_path) == []


def test_a_disk_that_fails_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may take seconds for each answer, in which the broker serves nobody."""
    log, now = LimitedLog(logging.getLogger("odradek.server"), lambda: now[0]), [100.0]
    file = AppendedFile(OsDirectory.create(str(tmp_path)), "a.jsonl", log, monotonic=lambda: now[0])
    asked = []

    def fails(*_: object) -> int:
        asked.append(now[0])
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "_pwrite", fails)
    for _ in range(3):
        assert not file.append(b"one\n")
        now[0] += 60 * AGAIN_S
    assert asked == [100.0]
    assert "a.jsonl cannot be written: Input/output error" in caplog.text and "tried again" not in caplog.text


@pytest.mark.parametrize("count", [1, MOST_WRITTEN_AT_ONCE + 1])
def test_a_step_that_cannot_be_put_into_words_is_missing_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The journal is for people: a controller must not resign over it, nor the steps behind be lost."""

    async def scenario() -> None:
        journal = journal_in(tmp_path, asyncio.get_running_loop())
        pieces = journal._pieces

        def some_fail(step: Any) -> Any:
            made = pieces(step)
            yield next(made)
            if step[0] == 1:
                raise TypeError("no words for this")
            yield from made

        monkeypatch.setattr(journal, "_pieces", some_fail)
        journal.record(1, ControllerEpoch(3), Tick(), writes(count))
        journal.record(2, ControllerEpoch(3), Tick(), writes(1))
        await journal.finish()

    asyncio.run(scenario())

    whole = (tmp_path / "controller-7.jsonl").read_text().splitlines()
    assert json.loads(whole[-1])["at_ms"] == 2
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "no words for this" in record.message


def test_a_journal_that_falls_far_behind_leaves_out_what_follows_up_to_the_next_election(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A controller that elects without a pause would else fill the memory with what is not in words yet. A journal is
    played again from an election on, so a term ends early and none has a gap."""
    large = MOST_WRITTEN_AT_ONCE + 1
    monkeypatch.setattr(module, "MOST_WAITING", 2 * large)
    elected = Elected(BrokerId(7), ControllerEpoch(4), 4, MetadataLoaded((), (), {}))

    async def scenario() -> None:
        journal = journal_in(tmp_path, asyncio.get_running_loop())
        journal.hold()
        for at_ms in (1, 2, 3):  # the third is one too many
            journal.record(at_ms, ControllerEpoch(3), Tick(), writes(large))
        journal.record(4, ControllerEpoch(3), Tick(), writes(1))
        journal.release()
        await journal.finish()
        journal.record(5, ControllerEpoch(3), Tick(), writes(1))
        journal.record(6, ControllerEpoch(4), elected, Effects())
        journal.record(7, ControllerEpoch(4), Tick(), writes(10 * large))  # alone it may be as large as it is
        await journal.finish()
        for at_ms in (8, 9):  # nothing of what is written counts any more
            journal.record(at_ms, ControllerEpoch(4), Tick(), writes(large))
        await journal.finish()

    asyncio.run(scenario())

    assert [line["at_ms"] for line in lines_of(tmp_path)] == [1, 2, 6, 7, 8, 9]
    said = [record.message for record in caplog.records if "values behind" in record.message]
    assert len(said) == 1


@pytest.mark.parametrize("count", [1, MOST_WRITTEN_AT_ONCE + 1])
def test_behind_a_line_that_could_not_be_written_the_journal_begins_again_with_an_election(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    """Played again, or asked for what stood at a time, a journal with a hole would say what was not so."""
    is_full = [False]
    append = AppendedFile.append

    def maybe(self: AppendedFile, data: bytes, *, goes_on: bool = False) -> bool:
        return not is_full[0] and append(self, data, goes_on=goes_on)

    monkeypatch.setattr(AppendedFile, "append", maybe)
    snapshot = MetadataLoaded((), (), {})

    async def scenario() -> None:
        journal = journal_in(tmp_path, asyncio.get_running_loop())
        elected = Elected(BrokerId(7), ControllerEpoch(4), 4, snapshot)
        for at_ms, event in ((1, Tick()), (2, Tick()), (3, Tick()), (4, elected), (5, Tick())):
            is_full[0] = at_ms == 2
            journal.record(at_ms, ControllerEpoch(3), event, writes(count))
            await journal.finish()

    asyncio.run(scenario())
    assert [line["at_ms"] for line in lines_of(tmp_path)] == [1, 4, 5]
    assert caplog.text.count("to the next election of a controller is not in it") == 1
