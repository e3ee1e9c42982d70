"""Many seeds: each in a process of its own, and some of them a second time, most of these not to the end."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from odradek.sim import sweep
from odradek.sim.children import in_children
from odradek.sim.plan import draw
from odradek.sim.run import CORRECTNESS, OK, Outcome, run
from tests.support import eventually


def seen(*looks: tuple[int, int]) -> Outcome:
    events, trace = looks[-1]
    return Outcome(3, events=events, trace_hash=trace, looks=list(looks))


def test_a_run_for_some_looks_is_the_beginning_of_the_whole_run() -> None:
    whole, part = run(draw(3)), run(draw(3), most_looks=20)

    assert part.code == OK
    assert part.looks == whole.looks[:20]
    assert part.events == whole.looks[19][0] < whole.events


def test_one_of_ten_runs_again_to_its_end_and_the_others_for_a_third_of_their_looks() -> None:
    outcome = seen(*[(n, n) for n in range(30)])

    assert [sweep.looks_again(number, outcome) for number in range(12)] == [
        *[sweep.TO_THE_END, *[10] * 9],
        *[sweep.TO_THE_END, 10],
    ]
    assert sweep.looks_again(1, Outcome(3)) == sweep.TO_THE_END, "of a run that broke before its first look"


def test_two_runs_differ_where_a_look_does_and_at_their_end() -> None:
    first = seen((10, 1), (20, 2), (30, 3))
    other_end = seen((10, 1), (20, 2), (30, 3))
    other_end.trace_hash = 4

    assert sweep.differ(first, seen((10, 1), (20, 2)), 2) == "", "as far as it was to go"
    assert sweep.differ(first, seen((10, 1), (20, 2), (30, 3))) == ""
    assert "at look 1, after 20 and 20 events" in sweep.differ(first, seen((10, 1), (20, 5)))
    assert "at look 0, after 10 and 11 events" in sweep.differ(first, seen((11, 1)))
    assert "at the end" in sweep.differ(first, other_end)


def test_a_second_run_that_breaks_where_the_first_does_not_differs_from_it() -> None:
    """Up to where it broke its traces are equal."""
    first = seen((10, 1), (20, 2), (30, 3))
    broken = seen((10, 1), (20, 2))
    broken.code, broken.reason = CORRECTNESS, "a mistake of ours"

    assert sweep.differ(first, broken, 3) == "one has 3 looks where the other has 2: a mistake of ours"
    assert "one has 2 looks where the other has 3" in sweep.differ(broken, first)
    assert "one has 2 looks where the other has 0" in sweep.differ(first, Outcome(3), 2)
    assert "one has 0 looks where the other has 3" in sweep.differ(Outcome(3), first)


def test_children_are_told_of_as_they_end_and_so_many_work_at_once() -> None:
    reading, writing = os.pipe()

    def waits() -> object:
        os.close(writing)
        return os.read(reading, 1)

    begun: list[str] = []

    def works() -> Iterator[Callable[[], object]]:
        for name, work in (("waits", waits), ("large", lambda: b"2" * 600_000), ("small", lambda: b"3")):
            begun.append(name)
            yield work

    told = in_children(works(), 2)
    try:
        assert pickle.loads(next(told)) == b"2" * 600_000, "it began beside the first"
        assert begun == ["waits", "large"], "the next one is asked for when a child may begin with it"
        assert pickle.loads(next(told)) == b"3"
    finally:
        os.write(writing, b"1")
        os.close(writing)
        os.close(reading)
    assert list(map(pickle.loads, told)) == [b"1"]


def test_worlds_are_run_in_advance_only_for_more_children_than_these_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warmed: list[tuple[int, ...]] = []
    monkeypatch.setattr(sweep, "_warm_up", warmed.append)

    def children(seeds: int) -> int:
        return len(list(sweep._works([(seed, sweep.TO_THE_END) for seed in range(seeds)], frozenset())))

    assert (children(0), children(3), children(16)) == (0, 1, 4)
    assert warmed == []
    assert children(17) == 5
    assert warmed == [sweep.WARMS_UP]


def test_a_world_that_ends_its_process_is_an_error_and_not_a_seed_that_is_right() -> None:
    def dies() -> object:
        os._exit(3)

    with pytest.raises(ChildProcessError, match="exit code 3"):
        list(in_children([dies], 1))


def test_a_world_that_cannot_be_told_of_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ChildProcessError, match="exit code 1"):
        list(in_children([lambda: lambda: None], 1))


def test_a_process_of_worlds_that_ends_early_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(ChildProcessError, match="the process of all worlds ended: exit code 7"),
        sweep._process(ends_early, hash_seed="0") as told,
    ):
        told()


def ends_early(told: object) -> None:
    os._exit(7)


@pytest.mark.process
def test_ctrl_c_in_a_terminal_is_heard_by_the_command_alone() -> None:
    """A terminal sends it to every process of the group; the tracebacks of those that run seeds would fill it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek", "sim", "--seeds", "0:400", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        # What keeps track of semaphores, the process that all worlds begin with, and its children.
        eventually(
            lambda: len(psutil.Process(process.pid).children(recursive=True)) >= 4, 120, "two worlds run"
        )
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, out, err.strip()) == (130, "", "")
