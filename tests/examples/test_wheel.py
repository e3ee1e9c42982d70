"""A wheel needs nothing of the checkout: built, installed into a fresh environment, and taken through the README's four steps."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek import __version__
from tests.examples.terminal import README, Terminal, steps
from tests.support import SHORT_LIVED_JAVA

pytestmark = [pytest.mark.process, pytest.mark.spark]

ROOT = README.parent
LAST_OF_STEP_THREE = "odradek start"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(directory), str(ROOT))
    (built,) = directory.glob("odradek-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment that holds the wheel and what a plain install brings, nothing else."""
    directory = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    python = directory / "bin" / "python"
    pip(sys.executable, "--python", str(python), "install", str(wheel))
    return python


def pip(python: str, *arguments: str) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", "--retries", "10", "-q", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def terminal(installed: Path, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, installed)
    yield terminal
    terminal.stop()


def test_a_wheel_holds_the_package_and_its_licence_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert wheel.name == f"odradek-{__version__}-py3-none-any.whl"
    tops = {name.split("/")[0] for name in names}
    assert {re.sub(r"-\d+(\.\d+)+", "", top) for top in tops} == {
        *("odradek", "odradek.dist-info"),
        *(
            "pyspark_odradek",
            "pyspark_odradek_delta",
            "pyspark_odradek_fused",
            "pyspark_odradek_parquet",
        ),  # by these names Spark finds us
        "pytest_odradek",  # and pytest by this one
    }
    assert {"odradek/py.typed", "odradek/cli/main.py"} <= set(names)
    assert {Path(name).name for name in names} >= {"LICENSE", "NOTICE"}
    assert [name for name in names if "__pycache__" in name or "/tests/" in name] == []


def test_an_installed_wheel_goes_through_the_four_steps_of_the_readme(
    terminal: Terminal, installed: Path, tmp_path: Path
) -> None:
    where = subprocess.run(
        [installed, "-c", "import odradek; print(odradek.__file__)"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert Path(where.stdout).is_relative_to(installed.parent.parent), where.stdout + where.stderr
    asked = subprocess.run(
        [installed, "-m", "odradek", "--version"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (asked.stdout, asked.stderr) == (f"{__version__}\n", "")
    typed = steps()
    (last,) = [n for n, step in enumerate(typed) if step.typed.startswith(LAST_OF_STEP_THREE)]
    terminal.follow(typed[: last + 1])

    (snippet,) = re.findall(
        r"^```python\n(from odradek.spark.*?)^```", README.read_text("utf-8"), re.M | re.S
    )
    bootstrap = terminal.environment["ODRADEK_BOOTSTRAP"]
    # Spark and Java, 400 MB, are borrowed from the environment of the tests: its odradek stands in a .pth file,
    # which is read there alone.
    borrowed = {
        **os.environ,
        **SHORT_LIVED_JAVA,
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PYSPARK_PYTHON": str(installed),
    }
    read = subprocess.run(
        [
            installed,
            "-c",
            f"import odradek; print(odradek.__file__)\n{snippet.replace('127.0.0.1:9092', bootstrap)}",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=borrowed,
        timeout=120,
    )

    assert read.returncode == 0, read.stderr
    assert Path(read.stdout.splitlines()[0]).is_relative_to(installed.parent.parent)
    rows = {
        tuple(cell.strip() for cell in line.split("|")[3:5])
        for line in read.stdout.splitlines()
        if "|" in line
    }
    assert rows >= {("alice", "one"), ("bob", "two"), ("carol", "three")}
