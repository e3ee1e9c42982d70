"""Who starts a thread that has no memory to begin with does not wait for it for ever."""

import threading
from collections.abc import Iterator

import pytest

from odradek.model.settings import BrokerSettings
from odradek.server import main, thread_starts

# What makes a thread of the system, in CPython 3.11 and 3.12, and from 3.13 on.
MAKE = [name for name in ("_start_new_thread", "_start_joinable_thread") if hasattr(threading, name)]


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)  # put back afterwards
    monkeypatch.setattr(thread_starts, "WAIT_S", 0.001)
    thread_starts.bound_all()
    yield


def test_a_thread_that_dies_before_it_begins_is_told(bound: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.enumerate()
    thread = threading.Thread(target=lambda: None)
    with monkeypatch.context() as want:
        for name in MAKE:
            want.setattr(threading, name, lambda *_, **__: None)
        with pytest.raises(RuntimeError, match="can't start new thread: it did not begin"):
            thread.start()
    assert threading.enumerate() == before
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_threads_begin_and_end_as_ever(bound: None) -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.set)
    thread.start()
    assert done.wait(60)
    thread.join(60)
    with pytest.raises(RuntimeError, match="threads can only be started once"):
        thread.start()


def test_a_thread_without_a_beginning_is_told_as_ever(bound: None) -> None:
    class Careless(threading.Thread):
        def __init__(self) -> None:
            """Forgets that of its base."""

    with pytest.raises(RuntimeError, match=r"__init__\(\) not called"):
        Careless().start()


def test_a_python_whose_threads_begin_otherwise_has_them_begin_so(
    bound: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names that are needed are private ones of CPython 3.11 to 3.15."""
    done = threading.Event()
    monkeypatch.setattr(thread_starts, "_start", lambda thread: done.set())  # waits for nothing
    threading.Thread(target=lambda: None).start()
    assert done.is_set()
    monkeypatch.setattr(threading.Thread, "start", start := thread_starts._start)
    with monkeypatch.context() as other:
        other.delattr(threading, "_limbo")
        thread_starts.bound_all()
    assert threading.Thread.start is start


def test_the_process_of_a_broker_does_so(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    async def serve(*_: object) -> int:
        seen.append(threading.Thread.start)
        return 0

    monkeypatch.setattr(threading.Thread, "start", thread_starts._start)
    monkeypatch.setattr(main, "_serve", serve)
    monkeypatch.setattr(main.sys, "setswitchinterval", lambda seconds: None)
    assert main.run_broker(BrokerSettings({"broker.id": "1"})) == 0
    assert seen == [thread_starts._start_or_raise]
