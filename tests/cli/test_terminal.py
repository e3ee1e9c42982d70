"""What a verb knows of its standard output and of Ctrl-C."""

import fcntl
import io
import os
import signal
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.cli.interrupts import end_at_once, unwind
from odradek.cli.terminal import columns, is_read


@contextmanager
def standard_output(descriptor: int) -> Iterator[None]:
    before = sys.stdout
    with open(descriptor, "w") as sys.stdout:
        try:
            yield
        finally:
            sys.stdout = before


@pytest.mark.parametrize(("wide", "found"), [(80, 80), (1, 1), (0, None)])
def test_a_terminal_says_how_wide_it_is(wide: int, found: int | None) -> None:
    outside, inside = os.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, wide, 0, 0))
    with standard_output(inside):
        assert columns() == found
        assert is_read()
    os.close(outside)


def test_a_pipe_has_no_width_and_is_read_as_long_as_somebody_has_its_other_end() -> None:
    read_end, write_end = os.pipe()
    with standard_output(write_end):
        assert columns() is None
        assert is_read()
        os.close(read_end)
        assert not is_read()


def test_a_file_is_always_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "out", "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        assert (columns(), is_read()) == (None, True)
    assert (columns(), is_read()) == (None, True), "closed: what is written says so"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert (columns(), is_read()) == (None, True), "of a program that calls a verb"


@pytest.fixture
def interrupts() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        unwind()
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_before_a_verb_has_begun_an_interrupt_ends_the_process_itself() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end_at_once()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    unwind()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interrupts")
def test_whoever_ignores_interrupts_or_handles_them_goes_on_to() -> None:
    for handler in (signal.SIG_IGN, signal.SIG_DFL, lambda *_: None):
        signal.signal(signal.SIGINT, handler)
        end_at_once()
        assert signal.getsignal(signal.SIGINT) is handler
        unwind()
        assert signal.getsignal(signal.SIGINT) is handler
