"""`odradek test-cluster`, as a script or a test in another language starts it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.cli.test_cluster import _stopped_by_signals, wait_for
from tests.support import started

pytestmark = pytest.mark.process

ODRADEK = [sys.executable, "-m", "odradek", "test-cluster"]
ASKS = """
import json, os, sys, urllib.request
with urllib.request.urlopen(os.environ["ODRADEK_CONTROL"]) as answer:
    about = json.load(answer)
assert about["bootstrap"] == os.environ["ODRADEK_BOOTSTRAP"]
print(len(about["brokers"]), sys.argv[1:])
sys.exit(7)
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*ODRADEK, *arguments], capture_output=True, text=True, timeout=120)


def test_a_command_runs_beside_it_and_its_exit_code_is_ours() -> None:
    done = run("--brokers", "2", "--", sys.executable, "-c", ASKS, "--brokers", "x")

    assert done.returncode == 7, done.stderr
    assert done.stdout == "2 ['--brokers', 'x']\n", "what the command says, and nothing else"


def test_a_command_that_a_signal_ends_counts_as_shells_count_it() -> None:
    done = run("-n", "1", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")

    assert done.returncode == 128 + 9


def test_a_command_that_there_is_not(tmp_path: Path) -> None:
    done = run("-n", "1", "--", "no-such-command")
    assert (done.returncode, done.stderr) == (127, "odradek: no-such-command: No such file or directory\n")

    done = run("-n", "1", "--", str(tmp_path))
    assert done.returncode == 126


def test_without_a_command_it_runs_until_it_is_stopped() -> None:
    with started([*ODRADEK, "--json"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        assert said["control"].startswith("http://127.0.0.1:")
        assert len(said["bootstrap"].split(",")) == 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_terminal_that_is_closed_leaves_no_directory_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with started([*ODRADEK, "--json"], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None and process.stdout.readline()
        assert list(tmp_path.iterdir())
        process.send_signal(signal.SIGHUP)
        process.wait(60)
    assert list(tmp_path.iterdir()) == []


def test_a_command_is_ended_with_it() -> None:
    # Signals that are blocked wait for `sigwait`; before `pause` they would be lost.
    waits = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); print('up', flush=True); signal.sigwait([15]); exit(5)"
    command = [*ODRADEK, "-n", "1", "--", sys.executable, "-c", waits]
    with started(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 5


def test_the_first_interrupt_is_the_commands_and_the_second_ends_it() -> None:
    waits = (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [2, 15]); print('up', flush=True)\n"
        "while signal.sigwait([2, 15]) == 2: print('cleans up', flush=True)\n"
        "exit(5)"
    )
    command = [*ODRADEK, "-n", "1", "--", sys.executable, "-c", waits]
    with started(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.stdout.readline() == "cleans up\n"
        assert process.poll() is None
        # Two signals that come before the first one is handled are one: on a busy machine the second has to be sent again.
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            os.killpg(process.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
        assert process.wait(1) == 5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--set", "num.partitons=3"), "did you mean num.partitions?"),
        (("--brokers", "0"), "0 is not in the range"),
        (
            ("--set", "listeners=A://:0"),
            "--set listeners: 3 brokers cannot have the same; each has its own here\n",
        ),
        (("--broker", "2", "--", "true"), "--brokers"),
    ],
)
def test_what_cannot_be_is_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    done = run(*arguments)

    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        done = run("-n", "1", "--control", str(port))

    assert done.returncode == 1
    assert done.stderr == f"odradek: --control {port}: Address already in use; 0 takes a free port\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the state of a thread is read from /proc")
def test_a_signal_that_does_not_wake_whoever_waits_is_heard() -> None:
    """One that came as the wait began, or that the system gave to another thread, was lost: a job of CI stood there for ever."""
    main = threading.main_thread()
    was_woken: list[bool] = []

    def send() -> None:
        for _ in range(1000):  # each look lets the main thread go on; then it sleeps in its wait
            while Path(f"/proc/self/task/{main.native_id}/stat").read_text().rpartition(") ")[2][0] != "S":
                pass
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        if not is_heard.wait(10):
            was_woken.append(True)
            signal.pthread_kill(main.ident or 0, signal.SIGTERM)

    is_heard = threading.Event()
    sender = threading.Thread(target=send)
    with _stopped_by_signals() as ended:
        sender.start()
        wait_for(ended)
        is_heard.set()
        sender.join()
    assert was_woken == []
