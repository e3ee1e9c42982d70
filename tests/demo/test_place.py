"""The demo's directory, and the processes of a Spark job."""

import os
import subprocess
import sys

import pytest

from odradek.demo.place import MARK, workplace
from odradek.demo.sessions import members_of, session
from odradek.model.errors import ConfigurationError
from tests.support import eventually


def test_a_second_run_starts_clean(tmp_path):
    place = tmp_path / "d"
    with workplace(place) as first:
        (first / "table").mkdir()
        (first / "table" / "part").write_text("x")
        (first / "report.html").write_text("x")
    with workplace(place) as second:
        assert [entry.name for entry in second.iterdir()] == [MARK]


def test_a_directory_of_somebody_else_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigurationError, match="holds files that are not of a demo"), workplace(tmp_path):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ConfigurationError, match="is a file"), workplace(tmp_path / "thesis.tex"):
        pass


def test_an_input_that_would_be_removed_with_the_run_before_is_refused_and_left(tmp_path):
    """A demo's directory is emptied before each run: with it went the file that was to be read."""
    place = tmp_path / "d"
    with workplace(place):
        pass
    (place / "mine.csv").write_text("a,b\n1,2\n")
    (tmp_path / "link.csv").symlink_to(place / "mine.csv")
    (tmp_path / "elsewhere.csv").write_text("a,b\n1,2\n")
    (place / "away.csv").symlink_to(tmp_path / "elsewhere.csv")
    both = tmp_path / "link.csv", place / "away.csv"
    for given in (place / "mine.csv", *both, place / ".." / "d" / "mine.csv"):
        with pytest.raises(ConfigurationError, match="which is emptied"), workplace(place, keep=[given]):
            pass
    assert (place / "mine.csv").exists()


def test_two_demos_do_not_share_a_directory(tmp_path):
    with (
        workplace(tmp_path / "d"),
        pytest.raises(ConfigurationError, match="another demo runs in"),
        workplace(tmp_path / "d"),
    ):
        pass


def test_a_session_ends_whole_also_those_who_left_its_group(tmp_path):
    """As PySpark's worker daemon does: a process group of its own inside the session."""
    script = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import os, time; os.setpgid(0, 0); time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with session([sys.executable, "-c", script], stderr=tmp_path / "log") as process:
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        eventually(lambda: os.getpgid(grandchild) == grandchild, what="the grandchild has a group of its own")
        assert {process.pid, grandchild} <= set(members_of(process.pid))
    assert members_of(process.pid) == []
    assert process.returncode is not None
    gone = subprocess.run(["kill", "-0", str(grandchild)], capture_output=True)
    state = gone.returncode != 0 or is_zombie(grandchild)
    assert state


def is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(") ")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
