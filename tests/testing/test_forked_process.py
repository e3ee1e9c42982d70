"""A forked process: alone with its descriptors, and gone at its end without a trace in its parent's affairs.

Each test forks from a process of its own with one thread: the one that runs the tests has others.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="brokers are forked on Linux only")

HEAD = """
import os, signal, subprocess, sys, time
from odradek.testing.forked_process import ForkedProcess, can_fork
assert can_fork()
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
"""


def ran(script: str, output: Path) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", HEAD + script, str(output)], capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_exit_code_is_what_it_returned_and_a_signal_is_negative(tmp_path: Path) -> None:
    said = ran(
        """
def for_ever():
    while True:
        signal.pause()

ended = ForkedProcess(lambda: 7, name="a", output=out)
print(ended.wait(30), ended.poll(), ended.returncode)
lives = ForkedProcess(for_ever, name="b", output=out)
print(lives.poll())
try:
    lives.wait(0.01)
except subprocess.TimeoutExpired:
    print("it lives")
lives.kill()
print(lives.wait(30))
lives.kill()  # of one that is gone nobody else is killed
""",
        tmp_path / "log",
    )
    assert said == "7 7 7\nNone\nit lives\n-9\n"


def test_where_ends_of_processes_are_ignored_it_has_ended_all_the_same(tmp_path: Path) -> None:
    """Whoever started us may have ignored SIGCHLD: how a process ended is told to nobody then. `odradek up` stopped, with
    "No child processes", when a broker died."""
    said = ran(
        """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
process = ForkedProcess(lambda: 7, name="a", output=out)
print(process.wait(30), process.poll())
process.kill()
""",
        tmp_path / "log",
    )
    assert said == "0 0\n"


def test_an_exception_is_in_its_output_and_does_not_unwind_its_parents_frames(tmp_path: Path) -> None:
    """Whatever the parent would clean up at its end (a directory, other processes) is not the child's to clean up."""
    said = ran(
        """
print("once")
try:
    print(ForkedProcess(lambda: 1 // 0, name="a", output=out).wait(30))
finally:
    print("cleaned up")
""",
        tmp_path / "log",
    )
    assert said == "once\n1\ncleaned up\n"
    told = (tmp_path / "log").read_text()
    assert "ZeroDivisionError" in told and "cleaned up" not in told


def test_what_its_parent_has_yet_to_write_is_not_written_by_both(tmp_path: Path) -> None:
    said = ran(
        """
sys.stdout = open(1, "w", closefd=False)  # with a buffer, whatever PYTHONUNBUFFERED says
sys.stdout.write("begun ")
assert ForkedProcess(lambda: 0, name="a", output=out).wait(30) == 0
print("done", end="", flush=True)
""",
        tmp_path / "log",
    )
    assert said == "begun done"
    assert (tmp_path / "log").read_text() == ""


def test_it_has_the_descriptors_it_was_given_and_no_other(tmp_path: Path) -> None:
    """With the write end of another broker's pipe it would keep that one alive after their parent's death."""
    ran(
        """
first = os.pipe()
second = os.pipe()

def look():
    print(sorted(int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")))
    print(second[0], os.readlink("/proc/self/fd/0"), open("/proc/self/comm").read())
    return 0

assert ForkedProcess(look, name="broker-7", output=out, keep_open=[second[0]]).wait(30) == 0
""",
        tmp_path / "log",
    )
    descriptors, others, _ = (tmp_path / "log").read_text().split("\n", 2)
    kept, stdin = others.split()[:2]
    assert descriptors == f"[0, 1, 2, {kept}]"
    assert (stdin, others.split()[2]) == ("/dev/null", "broker-7")


def test_a_signal_means_to_it_what_it_means_to_any_process(tmp_path: Path) -> None:
    said = ran(
        """
def refuse(number, frame):
    raise SystemExit("the parent's own")

signal.signal(signal.SIGTERM, refuse)
child = ForkedProcess(lambda: signal.pause() or 0, name="a", output=out)
child.send_signal(signal.SIGTERM)
print(child.wait(30))
""",
        tmp_path / "log",
    )
    assert said == "-15\n"


def test_a_process_with_threads_does_not_fork(tmp_path: Path) -> None:
    said = ran(
        """
import threading
over = threading.Event()
other = threading.Thread(target=over.wait)
other.start()
print(can_fork())
over.set()
other.join()
print(can_fork())
""",
        tmp_path / "log",
    )
    assert said == "False\nTrue\n"
