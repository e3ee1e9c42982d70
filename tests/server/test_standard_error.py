"""broker.log does not grow for ever."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import logging, os, sys
from pathlib import Path
from odradek.server.standard_error import LimitedFileHandler

path = Path(sys.argv[1])
log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(log, 1)
os.dup2(log, 2)
logging.basicConfig(level="INFO", format="%(message)s", handlers=[LimitedFileHandler(path, largest_bytes=1000)])
for number in range(int(sys.argv[2])):
    if number == int(sys.argv[3]):
        path.unlink()
    logging.info("line %d %s", number, "x" * 80)
os.write(1, b"a print\\n")
os.write(2, b"a trace\\n")
"""


def logged(path: Path, lines: int, *, removed_at: int = -1) -> None:
    arguments = [str(path), str(lines), str(removed_at)]
    subprocess.run([sys.executable, "-c", SCRIPT, *arguments], check=True, timeout=60)


def test_a_log_at_its_limit_is_put_aside_once(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    logged(path, 100)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["broker.log", "broker.log.1"]
    for file in tmp_path.iterdir():
        assert 0 < file.stat().st_size <= 1200
    lines = (path.with_suffix(".log.1").read_text() + path.read_text()).splitlines()
    numbers = [int(line.split()[1]) for line in lines if line.startswith("line")]
    assert numbers == list(range(numbers[0], 100)), "the last lines, in order, none of them lost"


def test_what_is_not_logged_goes_to_the_new_file_too(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    logged(path, 20)
    assert path.read_text().endswith("a print\na trace\n")


def test_a_log_that_cannot_be_put_aside_is_written_on(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    (tmp_path / "broker.log.1").mkdir()
    (tmp_path / "broker.log.1" / "in the way").write_text("")
    logged(path, 30)
    assert sum(line.startswith("line") for line in path.read_text().splitlines()) == 30


def test_a_log_that_somebody_removed_is_begun_anew_at_its_limit(tmp_path: Path) -> None:
    """Until then it goes on where nobody sees it, and takes room on the disk."""
    path = tmp_path / "broker.log"
    logged(path, 100, removed_at=5)
    assert path.read_text().endswith("a print\na trace\n")
    assert path.stat().st_size <= 1200
