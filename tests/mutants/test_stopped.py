"""Ctrl-C in the midst of drawn mutations: nothing is left running, what was found is kept and shown, and the next run goes on."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.mutants import reach, trial
from tests.mutants.reach import TestsFail, learn_tests
from tests.support import eventually

ROOT = Path(__file__).parents[2]
# The judges run it; it says that it is there, and waits for ever.
WAITS = """
import os, pathlib, threading

def test_waits():
    pathlib.Path({here!r}).write_text(str(os.getpid()))
    threading.Event().wait()
"""


@pytest.mark.process
def test_control_c_ends_the_child_that_judges_and_prints_the_table_so_far(tmp_path: Path) -> None:
    """The child is a group of its own: Ctrl-C does not reach it."""
    results, here = tmp_path / "mutants.jsonl", tmp_path / "here"
    (tmp_path / "test_it.py").write_text(WAITS.format(here=str(here)))
    learned = tmp_path / "mutants.reached"
    learned.mkdir()  # by an earlier run; a test that it does not know is shown every mutation
    (learned / "alone.jsonl").write_text(json.dumps({"of": "", "took_s": 0.0, "functions": []}) + "\n")
    command = [sys.executable, "-m", "tests.mutants", "--rooms", "records", "--count", "3"]
    drawn = subprocess.run([*command, "--list"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = drawn.stdout.splitlines()
    results.write_text(json.dumps({"name": names[0], "test": "tests/test_x.py::test_y"}) + "\n")
    running = subprocess.Popen(
        [*command, "--judges", "tests", "--tests", str(tmp_path / "test_it.py"), "--results", str(results)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell lets what it starts in the background ignore Ctrl-C, and so would all that we start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        child = psutil.Process(
            int(eventually(lambda: here.exists() and here.read_text(), 60, "a child judges"))
        )
        running.send_signal(signal.SIGINT)
        output, told = running.communicate(timeout=60)
    finally:
        running.kill()

    assert running.returncode == 1
    assert "stopped; the table so far:" in told and "Traceback" not in told
    assert [line.split() for line in output.splitlines() if line.startswith("all ")] == [
        ["all", "3", "1", "0", "0", "0"]
    ]
    assert eventually(lambda: not child.is_running(), 30, "no child judges")
    assert len(results.read_text().splitlines()) == 1, "no verdict on what was stopped"


def test_control_c_ends_the_tests_of_a_mutant_that_has_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[str]] = []

    class Interrupted(subprocess.Popen[str]):
        def communicate(self, *_: object, **__: object) -> tuple[str, str]:
            started.append(self)
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        trial._run(tmp_path, ["-c", "import threading; threading.Event().wait()"], 60)

    (process,) = started
    assert process.returncode == -signal.SIGKILL
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize("ends", ["stopped", "red"])
def test_what_tests_enter_is_learned_anew_where_the_run_that_learned_it_did_not_end(
    ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all that follow would judge by the tests that had run by then."""
    folder, runs = tmp_path / "mutants.reached", []

    def run(command: list[str], *, env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        runs.append(command)
        line = {"of": f"t.py::{len(runs)}", "took_s": 0.1, "functions": []}
        Path(env["ODRADEK_REACHED"], f"{len(runs)}.jsonl").write_text(json.dumps(line) + "\n")
        if len(runs) == 1 and ends == "stopped":
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(command, int(len(runs) == 1))

    monkeypatch.setattr(reach.subprocess, "run", run)
    with pytest.raises(KeyboardInterrupt if ends == "stopped" else TestsFail):
        learn_tests(folder, ["t.py"], 1)

    assert set(learn_tests(folder, ["t.py"], 1).entered) == {"t.py::2"}
    assert set(learn_tests(folder, ["t.py"], 1).entered) == {"t.py::2"}
    assert len(runs) == 2
