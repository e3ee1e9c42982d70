"""Who gets the last file descriptors: never a client."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from odradek.log import files
from odradek.log.files import OsDirectory
from odradek.model.settings import BrokerSettings
from odradek.server import descriptors
from odradek.server.connection_limits import ConnectionLimits, Full, Refused


def test_a_broker_takes_as_many_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda kind: (1024, 4096))
    monkeypatch.setattr(descriptors.resource, "setrlimit", lambda kind, limits: given.append((kind, limits)))
    before = os.listdir("/dev/fd")
    descriptors.take_all()
    assert given == [(resource.RLIMIT_NOFILE, (4096, 4096))]
    assert os.listdir("/dev/fd") == before


@pytest.mark.parametrize(("hard", "said"), [(1023, 1), (1024, 0), (resource.RLIM_INFINITY, 0)])
def test_a_broker_that_may_have_few_says_so_at_its_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hard: int, said: int
) -> None:
    """It serves: but whoever started it learnt why clients were turned away only when they were."""
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda kind: (hard, hard))
    monkeypatch.setattr(descriptors, "_enlarge_table", lambda: None)
    descriptors.take_all()
    assert len(caplog.messages) == said
    assert all("only 1023 file descriptors" in line and "ulimit -n" in line for line in caplog.messages)


@pytest.mark.parametrize(("limit", "first_refused"), [(64, 48), (1024, 896), (1 << 20, (1 << 20) - 4096)])
def test_the_last_of_them_are_kept_for_the_logs(
    monkeypatch: pytest.MonkeyPatch, limit: int, first_refused: int
) -> None:
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda kind: (limit, limit))
    limits = ConnectionLimits(BrokerSettings({}), {}.get, lambda: 0)
    assert limits.opened("10.0.0.1", here=1, total=1, descriptor=first_refused - 1) == 0.0
    refused = limits.opened("10.0.0.1", here=1, total=1, descriptor=first_refused)
    assert isinstance(refused, Refused) and refused.key == "descriptors"
    assert f"{first_refused} of {limit} file descriptors are taken" in refused.reason


def test_a_broker_may_have_some_that_are_kept_for_the_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a protected listener; another connection goes for it, so that their number stays."""
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda kind: (1024, 1024))
    limits = ConnectionLimits(BrokerSettings({}), {}.get, lambda: 0)

    def verdict(descriptor: int) -> Refused | Full | float:
        return limits.opened("10.0.0.1", here=1, total=1, descriptor=descriptor, is_protected=True)

    assert verdict(895) == 0.0
    for descriptor in (896, 959):
        full = verdict(descriptor)
        assert isinstance(full, Full) and f"{descriptor} of 1024 file descriptors" in full.reason
    refused = verdict(960)
    assert isinstance(refused, Refused) and "the last 64 are kept for the logs" in refused.reason


@pytest.fixture
def spare() -> Iterator[None]:
    files.hold_spare(3)
    yield
    while files._spare:
        os.close(files._spare.pop())


def test_a_log_gets_one_when_connections_have_taken_all_others(
    tmp_path: Path, spare: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is full but for what is held for it: each that is let go is one that can be opened."""
    free = [0]
    real_open, real_close = os.open, os.close

    def full(*arguments: object, **options: object) -> int:
        if free[0] <= 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        free[0] -= 1
        return real_open(*arguments, **options)  # type: ignore[arg-type]

    def close(descriptor: int) -> None:
        real_close(descriptor)
        free[0] += 1

    held: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", full)
        patch.setattr(files.os, "close", close)
        directory = OsDirectory(str(tmp_path))
        for n in range(3):
            held.append(directory.open(f"{n}.log", create=True))
        with pytest.raises(files.StorageError, match="Too many open files"):
            directory.open("3.log", create=True)
        assert directory.health.failure is None
        files.hold_spare(3)  # there is none to be had: no reason to fail
        held.pop()
        files.hold_spare(3)
        assert directory.read("0.log") == b""


class Loop:
    """As far as `keep_spare` needs one: it is called again when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.due: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Callable[..., None], *arguments: object) -> None:
        self.due.append(partial(call, *arguments))

    def second(self) -> None:
        self.now_s += 1
        self.due.pop()()


def test_that_there_is_none_for_a_connection_is_said_while_it_lasts(
    spare: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """uvloop tries to accept again and again, and says nothing of it; nor does a client that is not let in reach any line of ours."""

    def full(*arguments: object, **options: object) -> int:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

    loop = Loop()
    monkeypatch.setattr(descriptors, "SPARE", 3)
    descriptors.keep_spare(loop)  # type: ignore[arg-type]
    loop.second()
    assert not caplog.records
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", full)
        for _ in range(9):
            loop.second()
    loop.second()
    assert [record.getMessage() for record in caplog.records] == [
        "no file descriptor is left, so connections are not accepted: raise the limit of open files (ulimit -n, LimitNOFILE=), or of the "
        "whole machine (fs.file-max)"
    ]


def test_that_the_kernel_has_no_memory_for_one_is_said_and_they_are_held_again_afterwards(
    spare: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*arguments: object, **options: object) -> int:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    loop = Loop()
    monkeypatch.setattr(descriptors, "SPARE", 3)
    descriptors.keep_spare(loop)  # type: ignore[arg-type]
    os.close(files._spare.pop())
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", refuse)
        loop.second()
    loop.second()
    assert len(files._spare) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "the kernel has no memory for another file descriptor, so connections are not accepted: give the machine, or the container, more memory"
    ]


SEEN_BY_A_CHILD = """
import os, resource
from odradek.server import descriptors

def table_size():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("FDSize"))

before, held = table_size(), len(os.listdir("/proc/self/fd"))
descriptors.take_all()
print(before, table_size(), min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 16))
assert len(os.listdir("/proc/self/fd")) == held
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the size of the table is told by Linux alone"
)
def test_the_table_of_a_broker_is_as_large_as_it_may_get_before_there_are_threads() -> None:
    """Where threads share the table, the `open` that finds it full waits until every processor has rescheduled."""
    child = subprocess.run(
        [sys.executable, "-c", SEEN_BY_A_CHILD], capture_output=True, text=True, check=True
    )
    before, after, limit = map(int, child.stdout.split())
    assert before < limit <= after
