"""A signal unwinds a command once: what it started is cleaned up whole, and its exit code is the shell's."""

import subprocess
import sys

import pytest

STOPPED = """
import signal, sys
from odradek.testing.interruption import interruptible

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests themselves may be started by nohup
before = signal.getsignal(signal.SIGTERM)
try:
    with interruptible("verb"):
        try:
            signal.raise_signal(int(sys.argv[1]))
            print("went on")
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.raise_signal(number)
            print("cleaned up")
finally:
    print(signal.getsignal(signal.SIGTERM) is before)
"""

LATE = """
import os, signal, sys
from odradek.testing.late_signals import late_signals

class Stop(BaseException):
    pass

def stop(number, frame):
    raise Stop

signal.signal(int(sys.argv[1]), stop)
try:
    with late_signals():
        signal.raise_signal(int(sys.argv[1]))
        print("whole")
except Stop:
    print("stopped", signal.getsignal(int(sys.argv[1])) is stop)
"""


IGNORED = """
import signal
from odradek.server.stopping_signals import stopping_signals
from odradek.testing.interruption import interruptible

signal.signal(signal.SIGHUP, signal.SIG_IGN)
print(*map(int, stopping_signals()))
with interruptible("verb"):
    signal.raise_signal(signal.SIGHUP)
    print("went on")
print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
"""


def ran(script: str, number: int) -> tuple[int, str, str]:
    """(exit code, standard output, standard error)"""
    answer = subprocess.run(
        [sys.executable, "-c", script, str(number)], capture_output=True, text=True, timeout=60
    )
    return answer.returncode, answer.stdout, answer.stderr


@pytest.mark.parametrize("number", [1, 2, 15], ids=["SIGHUP", "SIGINT", "SIGTERM"])
def test_the_first_signal_unwinds_and_later_ones_change_nothing(number: int) -> None:
    assert ran(STOPPED, number) == (
        128 + number,
        "cleaned up\nTrue\n",
        "verb: stopped; nothing is left running\n",
    )


def test_what_was_started_by_nohup_goes_on_when_its_terminal_is_closed() -> None:
    assert ran(IGNORED, 0) == (0, "2 15\nwent on\nTrue\n", "")


@pytest.mark.parametrize("number", [1, 2, 15], ids=["SIGHUP", "SIGINT", "SIGTERM"])
def test_a_signal_waits_for_the_end_of_what_is_to_be_whole(number: int) -> None:
    assert ran(LATE, number) == (0, "whole\nstopped True\n", "")
