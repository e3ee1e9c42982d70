"""Who walks a slice in the process that compacts: a thread that gives way to all, as long as that gets on."""

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from threading import get_native_id

import pytest

from odradek.log.compaction.cleaning import Cleaning
from odradek.log.compaction.passes import MapBuilt
from odradek.log.compaction.rewriting import Rewriting
from odradek.log.errors import DiskFault
from odradek.server import cleaning_worker
from odradek.server.cleaning_messages import (
    Answer,
    Begin,
    BuildMap,
    Failed,
    GoOn,
    Request,
    Slice,
    WriteSegment,
)
from odradek.server.cleaning_worker import MOST_OWED_S, PATIENCE, IdleThread, Shares, Worker
from tests.log.compaction.test_cleaning import LARGE_MAP, Compacted, filled

DONE = Slice(1, None)


def begun(path: Path, map_bytes: int = LARGE_MAP) -> tuple[Worker, Cleaning]:
    disk = filled(Compacted(path))
    cleaning, directory = disk.begin(map_bytes=map_bytes), disk.log.directory
    worker = Worker()
    assert worker.answer(Begin(cleaning._job, directory.path, directory.health.path, 300)) == Slice(0, None)
    return worker, cleaning


def walked(worker: Worker, first: Request) -> Answer:
    answer = worker.answer(first)
    while isinstance(answer, Slice) and answer.outcome is None:
        assert 300 <= answer.bytes_moved < 600, "a slice, and the rest of a batch"
        answer = worker.answer(GoOn())
    return answer


@pytest.mark.parametrize("keys", [1000, 4])
def test_the_map_is_let_go_of_with_the_last_segment(tmp_path: Path, keys: int) -> None:
    worker, cleaning = begun(tmp_path, 24 * keys)
    answer = walked(worker, BuildMap())
    assert isinstance(answer, Slice) and isinstance(answer.outcome, MapBuilt)
    end = answer.outcome.end_offset
    groups = [group for group in cleaning._groups if group[0].base_offset < end]
    assert (len(groups) < len(cleaning._groups)) == (keys == 4), "a full map ends the round"
    for _ in groups[1:]:
        walked(worker, WriteSegment())
    assert maps() == 1
    walked(worker, WriteSegment())
    assert maps() == 0


def test_the_map_is_let_go_of_with_a_walk_that_fails(tmp_path: Path) -> None:
    worker, _ = begun(tmp_path)
    walked(worker, BuildMap())
    worker._health.fail(DiskFault("input/output error"))

    answer = walked(worker, WriteSegment())

    assert isinstance(answer, Failed) and (answer.kind, answer.is_offline) == ("DirectoryOffline", True)
    assert maps() == 0


def maps() -> int:
    gc.collect()
    return sum(type(one) is Rewriting for one in gc.get_objects())


class Machine:
    """A slice takes 0.02 s of a processor. The idle thread gets `idle_share` of one, any other thread a half."""

    def __init__(self, idle_share: float) -> None:
        self.idle_share = idle_share
        self.now = self.worked = 0.0
        self.idle_slices = self.slices = 0
        self._is_idle = False
        self.shares = Shares(self._idle, lambda: self.now, lambda: self.worked)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            assert self.shares.run(self._slice) is DONE

    def _idle(self, work: Callable[[], Answer]) -> Answer:
        self._is_idle = True
        answer = work()
        self._is_idle = False
        return answer

    def _slice(self) -> Answer:
        self.slices += 1
        self.idle_slices += self._is_idle
        self.worked += 0.02
        self.now += 0.02 / (self.idle_share if self._is_idle else 0.5)
        return DONE


@pytest.mark.parametrize("idle_share", [1.0, 0.5, 0.25])
def test_while_processors_are_idle_now_and_then_it_takes_no_others(idle_share: float) -> None:
    machine = Machine(idle_share)
    machine.run(100)
    assert machine.idle_slices == machine.slices > 0


@pytest.mark.parametrize("idle_share", [0.1, 0.01, 0.003])
def test_beside_processors_that_are_never_idle_it_has_its_fifth(idle_share: float) -> None:
    machine = Machine(idle_share)
    machine.run(1000)
    assert machine.worked / machine.now == pytest.approx(1 / PATIENCE, rel=0.1)
    assert 0 < machine.idle_slices < machine.slices, "and looks every now and then"


def test_a_machine_that_slept_owes_it_no_more_than_that() -> None:
    machine = Machine(1.0)

    def sleeps() -> Answer:
        machine.now += 1000
        return DONE

    machine.shares.run(sleeps)
    machine.run(100)

    assert 0 < (machine.slices - machine.idle_slices) * 0.02 < 2 * MOST_OWED_S


def test_a_mistake_in_the_idle_thread_is_one_of_who_asked() -> None:
    def fails() -> Answer:
        raise ZeroDivisionError

    idle = IdleThread()
    with pytest.raises(ZeroDivisionError):
        idle(fails)
    assert idle(lambda: DONE) is DONE


def test_where_no_thread_may_be_of_that_class_it_is_as_nice_as_it_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*arguments: object) -> None:
        raise PermissionError

    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, get_native_id())

    monkeypatch.setattr(os, "sched_setscheduler", forbidden)
    found: list[int] = []
    before = priority()

    def work() -> Answer:
        found.append(priority())
        return DONE

    IdleThread()(work)

    assert (found, priority()) == ([19], before)


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
def test_a_process_that_finds_no_thread_gives_way_by_its_niceness(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker would start one process after the other, each of which ends with a trace."""

    def refuse_thread(thread: threading.Thread) -> None:
        raise error

    nice: list[int] = []
    monkeypatch.setattr(threading.Thread, "start", refuse_thread)
    monkeypatch.setattr(cleaning_worker.os, "nice", nice.append)
    assert cleaning_worker._idle()(lambda: Slice(7, None)) == Slice(7, None)
    assert nice == [19]
