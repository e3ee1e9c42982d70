"""The process that compacts: it makes what a thread makes, and whatever becomes of it, the log and its broker go on."""

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from odradek.log.compaction.cleaner import Cleaner
from odradek.log.compaction.cleaning import Cleaning
from odradek.log.compaction.passes import PassesHere, Uncleanable
from odradek.log.errors import CorruptLog, DiskFull, MissingFile, NoDescriptor, StorageError
from odradek.server import cleaning_process
from odradek.server.cleaning_messages import GoOn, error_of, failed
from odradek.server.cleaning_process import IDLE_S, CleaningProcess
from odradek.server.environment import Environment
from tests.log.compaction.test_cleaning import Compacted, filled, walk
from tests.log.logs import NOW, batch, contents, idempotent, marker, produce
from tests.support import eventually, started

pytestmark = pytest.mark.process

SLICE = 500  # some batches


@pytest.fixture
def process() -> Iterator[CleaningProcess]:
    found = CleaningProcess(SLICE)
    yield found
    found.end()


def compacted(path: Path, process: CleaningProcess | None, **overrides: str) -> Compacted:
    """With records of every kind; by a thread where there is no process."""
    path.mkdir(exist_ok=True)
    disk = Compacted(path, **overrides)
    disk.cleaner = Cleaner(
        lambda: list(disk.manager.logs.values()),
        disk.manager.cleaned_to,
        b"secret",
        PassesHere if process is None else process.passes,
    )
    filled(disk, 6)
    disk.write("c", None)
    produce(disk.log, idempotent(0, key=b"a", is_transactional=True))
    produce(disk.log, marker(commit=False), from_coordinator=True)
    produce(disk.log, idempotent(1, key=b"b", producer_id=8, epoch=1, is_transactional=True))
    produce(disk.log, marker(commit=True, producer_id=8, epoch=1), from_coordinator=True)
    produce(disk.log, batch(30, key=b"c", codec="lz4"))
    return filled(disk, 6)


def files(disk: Compacted) -> dict[str, bytes]:
    """But for what is to be removed soon, under names of that moment."""
    return {path.name: path.read_bytes() for path in sorted((disk.path / "orders-0").iterdir())}


def unfinished(disk: Compacted) -> list[Path]:
    return list(disk.path.glob("*/*.cleaned"))


def test_it_makes_what_a_thread_makes(tmp_path: Path, process: CleaningProcess) -> None:
    here, there = compacted(tmp_path / "here", None), compacted(tmp_path / "there", process)
    before = files(there)
    assert files(here) == before

    for later_ms in (0, 1, 200_000_000):
        cleanings = [disk.clean(NOW + later_ms) for disk in (here, there)]
        assert files(here) == files(there) != before
        assert len({(one.end_offset, one.bytes_read, one.bytes_written) for one in cleanings}) == 1
        assert here.values() == there.values()
        largest = [
            [
                (s.base_offset, s.end_offset, s.largest_timestamp(), [*s.transactions])
                for s in disk.log.segments
            ]
            for disk in (here, there)
        ]
        assert largest[0] == largest[1]
        for disk in (here, there):
            filled(disk, 5)
    assert process.pid is not None


def test_what_it_moves_is_told_to_the_byte(tmp_path: Path, process: CleaningProcess) -> None:
    """What is left of a slice at the end of a segment, too: with small segments that is all."""
    here, there = compacted(tmp_path / "here", None), compacted(tmp_path / "there", process)
    moved = []
    for disk in (here, there):
        cleaning = disk.begin()
        of_walks = [sum(cleaning.build_map())]
        while not cleaning.is_done:
            of_walks.append(sum(cleaning.write_segment()))
            assert cleaning.put()
        moved.append(of_walks)
    assert moved[0] == moved[1] and min(moved[0]) > 0


Step = Callable[[Cleaning], Generator[int]]
STEPS: dict[str, Step] = {"the map": Cleaning.build_map, "a segment": Cleaning.write_segment}


def at(disk: Compacted, step: str) -> Generator[int]:
    """A walk of that step, begun."""
    cleaning = disk.begin()
    if step != "the map":
        walk(cleaning.build_map())
    steps = STEPS[step](cleaning)
    assert next(steps) >= SLICE
    return steps


@pytest.mark.parametrize("step", STEPS)
def test_one_that_dies_fails_the_cleaning_and_another_one_makes_the_next(
    tmp_path: Path, process: CleaningProcess, step: str
) -> None:
    disk = compacted(tmp_path, process)
    before, values = files(disk), disk.values()
    steps = at(disk, step)
    assert bool(unfinished(disk)) == (step == "a segment")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(StorageError, match=r"has ended, exit code -9") as raised:
        walk(steps)

    assert type(raised.value) is StorageError, "which says nothing of the disk, or of the log"
    assert files(disk) == before and process.pid is None
    assert disk.log.failure is None and disk.log.directory.health.failure is None
    disk.clean()
    assert disk.values() == values and files(disk) != before


def test_one_that_died_between_two_segments_or_two_cleanings_is_no_loss(
    tmp_path: Path, process: CleaningProcess
) -> None:
    disk = compacted(tmp_path, process)
    values = disk.values()
    cleaning = disk.begin()
    walk(cleaning.build_map())
    walk(cleaning.write_segment())
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    assert cleaning.put(), "what was made is whole"
    assert not cleaning.is_done
    with pytest.raises(StorageError, match="has ended"):
        walk(cleaning.write_segment())
    disk.clean()
    pid = process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    filled(disk)
    values = disk.values()

    disk.clean()

    assert disk.values() == values and process.pid != pid and not unfinished(disk)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_for_the_broker_that_all_of_its_group_get_is_the_brokers_alone(
    tmp_path: Path, process: CleaningProcess, number: signal.Signals
) -> None:
    """Ctrl-C, or a terminal that is closed. The broker stops in order, which may be a while, or refuses to."""
    disk = compacted(tmp_path, process)
    values = disk.values()
    steps = at(disk, "a segment")
    pid = process.pid
    assert pid is not None
    os.kill(pid, number)
    walk(steps)
    disk.clean()
    assert disk.values() == values and process.pid == pid


class Refusing:
    """A socket for which the kernel, or the process, has no memory in one call."""

    def __init__(self, channel: socket.socket, call: str, error: Callable[[], Exception]) -> None:
        self._channel = channel
        self._call = call
        self._error = error

    def __getattr__(self, name: str) -> Any:
        if name == self._call:
            raise self._error()  # one of its own: its trace holds files open
        return getattr(self._channel, name)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("sendall", lambda: OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))),
        ("recv_into", lambda: OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))),
        ("recv_into", MemoryError),
    ],
    ids=["request", "answer", "room for the answer"],
)
def test_one_that_cannot_be_asked_is_killed_for_its_next_answer_would_be_that_to_another_question(
    tmp_path: Path, process: CleaningProcess, step: str, call: str, error: Callable[[], Exception]
) -> None:
    disk = compacted(tmp_path, process)
    before, values = files(disk), disk.values()
    steps = at(disk, step)
    pid, channel = process.pid, process._channel
    assert channel is not None
    process._channel = Refusing(channel, call, error)  # type: ignore[assignment]

    with pytest.raises(StorageError, match=rf"\({pid}\) cannot be asked \(.+\), and was killed") as raised:
        walk(steps)

    assert type(raised.value) is StorageError, "which says nothing of the disk, or of the log"
    assert files(disk) == before and process.pid is None
    assert disk.log.failure is None and disk.log.directory.health.failure is None
    disk.clean()
    assert disk.values() == values and files(disk) != before


@pytest.mark.parametrize("step", STEPS)
def test_one_that_hangs_is_killed(tmp_path: Path, process: CleaningProcess, step: str) -> None:
    disk = compacted(tmp_path, process)
    before = files(disk)
    steps = at(disk, step)
    pid = process.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    process.progress_s = 0.5

    with pytest.raises(StorageError, match=rf"\({pid}\) has made no progress for 0.5 s, and was killed"):
        walk(steps)

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert files(disk) == before


@pytest.mark.parametrize("step", STEPS)
def test_a_cleaning_that_is_abandoned_leaves_neither_process_nor_file(
    tmp_path: Path, process: CleaningProcess, step: str
) -> None:
    disk = compacted(tmp_path, process)
    before = files(disk)
    steps = at(disk, step)

    steps.close()

    assert process.pid is None and files(disk) == before


def waiting(steps: Generator[int]) -> tuple[Thread, list[str]]:
    """A thread that walks them, and the sentence with which that fails, once it has."""
    heard: list[str] = []

    def waits() -> None:
        with pytest.raises(StorageError) as raised:
            walk(steps)
        heard.append(str(raised.value))

    thread = Thread(target=waits)
    thread.start()
    return thread, heard


def test_who_waits_for_a_slice_hears_that_it_was_killed(tmp_path: Path, process: CleaningProcess) -> None:
    disk = compacted(tmp_path, process)
    steps = at(disk, "the map")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    thread, heard = waiting(steps)
    process.kill()
    thread.join(60)

    assert heard and "has ended" in heard[0]


def test_a_stop_does_not_wait_for_one_that_cannot_die(
    tmp_path: Path, process: CleaningProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the midst of a call to a disk that hangs: neither does it answer, nor does its end of the socket close."""
    disk = compacted(tmp_path, process)
    steps = at(disk, "the map")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(subprocess.Popen, "kill", lambda self: None)
        patched.setattr(cleaning_process, "DIES_S", 0.1)
        thread, heard = waiting(steps)
        process.kill()
        thread.join(20)
        is_heard = bool(heard)
    os.kill(process.pid, signal.SIGKILL)
    thread.join(60)

    assert is_heard and "was killed and has not ended" in heard[0]


def test_none_is_started_once_the_broker_stops(tmp_path: Path, process: CleaningProcess) -> None:
    """A thread may come to the first slice only then, and would wait for all of it."""
    disk = compacted(tmp_path, process)
    steps = disk.begin().build_map()
    process.kill()

    with pytest.raises(StorageError, match="the broker stops"):
        walk(steps)

    assert process.pid is None and disk.log.failure is None


def test_one_that_was_being_started_when_the_broker_stopped_is_ended(
    tmp_path: Path, process: CleaningProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = compacted(tmp_path, process)
    started: list[int] = []

    class Late(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self.pid)
            process.kill()

    monkeypatch.setattr(subprocess, "Popen", Late)
    with pytest.raises(StorageError, match="the broker stops"):
        walk(disk.begin().build_map())

    assert len(started) == 1 and process.pid is None and not _runs(started[0])


BROKER = """
import sys
from odradek.server.cleaning_process import CleaningProcess
process = CleaningProcess(1)
process._start()
print(process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("is_stopped", [False, True])
def test_it_ends_with_a_broker_that_is_killed(is_stopped: bool) -> None:
    with started(
        [sys.executable, "-c", BROKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        pid = int(broker.stdout.readline())
        eventually(lambda: len(list(Path(f"/proc/{pid}/task").iterdir())) == 2, 60, "it has begun")
        if is_stopped:
            os.kill(pid, signal.SIGSTOP)
        broker.kill()

    eventually(lambda: not _runs(pid), 60, "it has ended")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


def test_it_has_a_thread_for_processors_that_nobody_wants(process: CleaningProcess, tmp_path: Path) -> None:
    steps = at(compacted(tmp_path, process), "the map")
    tasks = sorted(int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir())

    assert [os.sched_getscheduler(task) for task in tasks] == [os.SCHED_OTHER, os.SCHED_IDLE]
    assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == "1000\n"
    steps.close()


def test_what_it_takes_of_memory_is_the_map_and_little_more(tmp_path: Path) -> None:
    process = CleaningProcess(1 << 20)
    path = tmp_path / "log"
    path.mkdir()
    disk = Compacted(path, segment_bytes=str(4 << 20))
    disk.cleaner = Cleaner(
        lambda: list(disk.manager.logs.values()), disk.manager.cleaned_to, passes_of=process.passes
    )
    for number in range(10):
        produce(disk.log, batch(900, key=b"%d" % (number % 3), value=bytes(1000)))
    steps = disk.begin().build_map()
    next(steps)

    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            assert int(line.split()[1]) < 64 << 10
            break
    else:
        raise AssertionError("no line of the memory it has had at most")
    steps.close()
    disk.clean()
    process.end()


def test_it_is_idle_when_it_has_had_nothing_to_do_for_long(tmp_path: Path) -> None:
    now = 1000.0
    process = CleaningProcess(SLICE, lambda: now)
    now += IDLE_S
    assert not process.is_idle, "there is none"
    disk = compacted(tmp_path, process)
    disk.clean()
    pid = process.pid
    now += IDLE_S - 1
    assert pid is not None and not process.is_idle
    now += 1
    assert process.is_idle
    process.end()
    assert not process.is_idle and not _runs(pid)


def test_it_cannot_be_started_and_that_says_nothing_of_the_log(
    tmp_path: Path, process: CleaningProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = compacted(tmp_path, process)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(tmp_path / "none"))
        with pytest.raises(StorageError, match="cannot be started: No such file") as raised:
            walk(disk.begin().build_map())
    assert type(raised.value) is StorageError and disk.log.failure is None

    def no_descriptor() -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socketpair", no_descriptor)
        with pytest.raises(StorageError, match="cannot be started: Too many open files"):
            walk(disk.begin().build_map())
    disk.clean()


@pytest.mark.parametrize("executable", ["", None])
def test_an_embedded_interpreter_that_knows_no_executable_compacts_by_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executable: str | None
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    loop = asyncio.new_event_loop()
    environment = Environment(loop)
    disk = compacted(tmp_path, None)
    disk.cleaner = Cleaner(
        lambda: list(disk.manager.logs.values()), disk.manager.cleaned_to, b"secret", environment.passes_of
    )
    before = contents(disk.log)

    disk.clean()

    assert contents(disk.log) != before and disk.log.failure is None
    assert not environment.cleaning_is_idle()
    environment.close()
    loop.close()


def test_none_is_started_beside_one_that_was_killed_and_does_not_end(
    tmp_path: Path, process: CleaningProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still write under the names of the next one."""
    disk = compacted(tmp_path, process)
    steps = at(disk, "a segment")
    pid = process.pid

    def waits(self: object, timeout: float | None = None) -> int:
        raise subprocess.TimeoutExpired("it", timeout or 0)

    with monkeypatch.context() as patched:
        patched.setattr(subprocess.Popen, "wait", waits)
        with pytest.raises(StorageError, match="was killed and has not ended"):
            steps.close()
        with pytest.raises(StorageError, match="was killed and has not ended"):
            walk(disk.begin().build_map())
        assert process.pid == pid
    disk.clean()


def test_a_log_that_is_moved_meanwhile_is_not_taken_for_damaged(
    tmp_path: Path, process: CleaningProcess
) -> None:
    disk = compacted(tmp_path, process)
    cleaning = disk.begin()
    walk(cleaning.build_map())
    assert cleaning.is_of_what_is_there
    (disk.path / "orders-0").rename(disk.path / "orders-0.moved")
    disk.log.directory.renamed("orders-0.moved")

    with pytest.raises(MissingFile):
        walk(cleaning.write_segment())

    assert not cleaning.is_of_what_is_there and disk.log.failure is None
    assert not unfinished(disk) and not (disk.path / "orders-0").exists()


def test_what_was_made_of_a_log_that_was_cut_meanwhile_is_not_put_in_place(
    tmp_path: Path, process: CleaningProcess
) -> None:
    disk = compacted(tmp_path, process)
    cleaning = disk.begin()
    walk(cleaning.build_map())
    walk(cleaning.write_segment())
    disk.log.truncate_to(5, NOW)
    before = contents(disk.log)

    assert not cleaning.is_of_what_is_there
    assert not cleaning.put()
    assert contents(disk.log) == before and not unfinished(disk)


def test_a_disk_that_fails_there_is_offline_here(tmp_path: Path, process: CleaningProcess) -> None:
    disk = compacted(tmp_path / "log", process)
    cleaning = disk.begin()
    walk(cleaning.build_map())
    (tmp_path / "log").rename(tmp_path / "taken away")

    with pytest.raises(MissingFile):
        walk(cleaning.write_segment())

    failure = disk.log.directory.health.failure
    assert failure is not None and str(tmp_path / "log") in failure.message


def test_errors_arrive_as_what_they_are(tmp_path: Path, process: CleaningProcess) -> None:
    disk = compacted(tmp_path / "keys", process)
    with pytest.raises(Uncleanable, match="its 30 keys do not fit"):
        for _ in range(100):
            disk.clean(map_bytes=24 * 12)
    segment = disk.path / "orders-0" / f"{0:020d}.log"
    filled(disk)
    cleaning = disk.begin()
    walk(cleaning.build_map())
    data = bytearray(segment.read_bytes())
    data[55] ^= 1  # of the base sequence
    segment.write_bytes(data)
    with pytest.raises(CorruptLog, match="the CRC of the batch at offset"):
        walk(cleaning.write_segment())
    assert not unfinished(disk) and cleaning.is_of_what_is_there
    for error in (DiskFull("full"), NoDescriptor("none"), StorageError("it"), Uncleanable("so")):
        told = error_of(failed(error, is_offline=False))
        assert (type(told), str(told)) == (type(error), str(error))


def test_a_mistake_there_is_told_and_ends_it(
    process: CleaningProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    process._start()

    with pytest.raises(StorageError, match="exit code 1"):
        process.ask(GoOn())  # nothing was begun

    assert "AssertionError" in capfd.readouterr().err
