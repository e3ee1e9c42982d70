"""What the README shows is what comes out: its commands are typed one after the other, on the cluster they start.

Numbers, ids and the order of rows differ from run to run, so lines are compared without them. A command may say more than
is shown (that the broker that dies is the controller), and nothing that is shown may be missing.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.terminal import README, Terminal, missing, steps

pytestmark = pytest.mark.process


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.stop()


def test_the_commands_of_the_readme_say_what_it_shows(terminal: Terminal) -> None:
    typed = steps()
    assert len(typed) > 10
    terminal.follow(typed)
    (job,) = re.findall(r"`(odradek spark tables [^`]*)`", README.read_text(encoding="utf-8"))
    assert "\ncolumns  value STRING " in terminal.says(f"{' '.join(job.split())} --explain")


def test_a_line_that_is_not_said_is_missed() -> None:
    shown = "orders-1   new leader   3 -> 2  3,2,1 -> 2,1        2\n"
    assert missing(shown, "orders-0 new leader 1 -> 3  1,3,2 -> 3,2 2\n") == []
    assert missing(shown, "orders-0 goes offline 1 -> none  1,3,2 -> 3,2 2\n") == [shown.rstrip("\n")]


def test_the_cluster_within_a_test_runs_as_printed(tmp_path: Path) -> None:
    (snippet,) = re.findall(
        r"^```python\n(from confluent_kafka import Producer.*?)^```",
        README.read_text(encoding="utf-8"),
        re.M | re.S,
    )
    answer = subprocess.run(
        [sys.executable, "-c", snippet], capture_output=True, text=True, cwd=tmp_path, timeout=240
    )
    assert answer.returncode == 0, answer.stderr
