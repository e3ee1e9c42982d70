"""`python -m tests.spark.versions`: tests/spark on the oldest PySpark that pyproject.toml allows, and on the newest of each later series.

The one that is installed here already is left out: `make test` runs on it. Environments are kept in ~/.cache/odradek-spark; arguments
go to pytest, in place of `-n 2 --dist loadfile tests/spark`. A version that PyPI does not serve is told of and passed over; the exit code is that of the tests.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
OTHER_SPARK = "ODRADEK_OTHER_SPARK"  # an interpreter that has another version of PySpark than the one that runs the tests
CACHE = Path(os.environ.get("ODRADEK_SPARK_CACHE", Path.home() / ".cache" / "odradek-spark"))
_ALLOWED = re.compile(r"pyspark>=(\d+)\.(\d+),<(\d+)\.(\d+)")


def requirements(pyproject: str) -> list[str]:
    """As pip takes them, oldest first."""
    (allowed,) = (
        match
        for requirement in tomllib.loads(pyproject)["project"]["optional-dependencies"]["spark"]
        if (match := _ALLOWED.fullmatch(requirement))
    )
    major, first, before_major, before = map(int, allowed.groups())
    assert major == before_major, "two majors: say here which series there are"
    later = [f"pyspark=={major}.{minor}.*" for minor in range(first + 1, before)]
    return [f"pyspark=={major}.{first}.0", *later]


def is_met(requirement: str, version: str) -> bool:
    wanted = requirement.partition("==")[2]
    return version.startswith(wanted[:-1]) if wanted.endswith("*") else version == wanted


def environment(requirement: str) -> Path | None:
    """An interpreter with this project, its tests' packages and that PySpark; None where PyPI does not serve it."""
    name = f"python-{sys.version_info.major}.{sys.version_info.minor}-{requirement.replace('*', 'x')}"
    directory = CACHE / name
    python = directory / "bin" / "python"
    if not (directory / "whole").exists():
        venv.create(directory, clear=True, with_pip=True)
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    # Each time: the project's own requirements may have changed.
    got = subprocess.run(
        [*pip, "-e", f"{ROOT}[test]", requirement], capture_output=True, text=True, check=False
    )
    if got.returncode != 0:
        print(
            f"{requirement}: passed over, pip could not install it: {got.stderr.strip()[-300:]}", flush=True
        )
        return None
    (directory / "whole").touch()
    return python


def main(arguments: list[str]) -> int:
    here = importlib.metadata.version("pyspark")
    failed = []
    for requirement in requirements((ROOT / "pyproject.toml").read_text(encoding="utf-8")):
        if is_met(requirement, here):
            print(f"{requirement}: is what `make test` runs on ({here})", flush=True)
            continue
        python = environment(requirement)
        if python is None:
            continue
        print(f"{requirement}:", flush=True)
        subprocess.run([python, "-m", "tests.spark.class_archive"], cwd=ROOT, check=True)
        command = [python, "-m", "pytest", *(arguments or ["-n", "2", "--dist", "loadfile", "tests/spark"])]
        # For tests of a job that another version of Spark goes on with.
        environ = {**os.environ, OTHER_SPARK: sys.executable}
        if subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode != 0:
            failed.append(requirement)
    if failed:
        print(f"failed on {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
