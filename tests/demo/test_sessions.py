"""A signal in the middle of starting a process: whoever is started is known, and ended."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from odradek.demo.sessions import members_of, session
from odradek.testing.interruption import Interrupted
from odradek.testing.late_signals import late_signals
from odradek.testing.process_cluster import ProcessCluster


@pytest.fixture
def interruptible() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[Any]]:
    """Every process there was, and a signal comes as soon as there is one."""
    processes: list[subprocess.Popen[Any]] = []
    popen = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> Any:
        processes.append(popen(*arguments, **options))
        signal.raise_signal(signal.SIGINT)
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return processes


def test_a_signal_while_a_session_is_started_leaves_nobody_of_it(
    interruptible: None, started: list[subprocess.Popen[Any]], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(1000)"]
    with pytest.raises(Interrupted), session(command, stderr=tmp_path / "log"):
        raise AssertionError("the block is not entered")
    (process,) = started
    try:
        assert members_of(process.pid) == [] and process.returncode == -signal.SIGKILL
    finally:
        process.kill()


@pytest.mark.usefixtures("new_pythons")
def test_a_signal_while_a_broker_is_started_leaves_no_broker(
    interruptible: None, started: list[subprocess.Popen[Any]], tmp_path: Path
) -> None:
    with pytest.raises(Interrupted), ProcessCluster(tmp_path, brokers=2):
        raise AssertionError("the block is not entered")
    (process,) = started
    try:
        assert process.returncode is not None, "it was waited for"
    finally:
        process.kill()


def test_a_signal_that_came_is_told_at_the_end_and_handlers_are_as_before(interruptible: None) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    steps = []
    with pytest.raises(Interrupted, match=str(int(signal.SIGTERM))), late_signals():
        signal.raise_signal(signal.SIGTERM)
        steps.append("the block goes on")
    assert steps == ["the block goes on"]
    assert signal.getsignal(signal.SIGTERM) is handler


def test_in_other_threads_nothing_is_changed(interruptible: None) -> None:
    handler, found = signal.getsignal(signal.SIGINT), []

    def body() -> None:
        with late_signals():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert found == [handler]


def test_a_name_that_is_no_text_keeps_nobody_of_a_session_alive(tmp_path: Path) -> None:
    """A process may be called by any 15 bytes: a name in UTF-8 is cut in the middle of a letter."""
    named = "open('/proc/self/comm', 'wb').write(bytes([255])); print('up', flush=True); import time; time.sleep(1000)"
    with session([sys.executable, "-c", named], stderr=tmp_path / "log") as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        assert members_of(process.pid) == [process.pid]
    assert process.returncode == -signal.SIGKILL
