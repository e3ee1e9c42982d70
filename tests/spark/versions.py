"""`python -m tests.spark.versions`: tests/spark on the oldest PySpark that pyproject.toml allows, and on the newest of each later series.

The one that is installed here already is left out: `make test` runs on it. Arguments go to pytest, in place of `-n 2 --dist loadfile
tests/spark`. A version that PyPI does not serve is told of and passed over; the exit code is that of the tests.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib

from tests.environments import ROOT, prepared, run_tests

OTHER_SPARK = "ODRADEK_OTHER_SPARK"  # an interpreter that has another version of PySpark than the one that runs the tests
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


def main(arguments: list[str]) -> int:
    here = importlib.metadata.version("pyspark")
    failed = []
    for requirement in requirements((ROOT / "pyproject.toml").read_text(encoding="utf-8")):
        if is_met(requirement, here):
            print(f"{requirement}: is what `make test` runs on ({here})", flush=True)
            continue
        name = f"python-{sys.version_info.major}.{sys.version_info.minor}-{requirement.replace('*', 'x')}"
        python = prepared(name, [requirement])
        if python is None:
            continue
        print(f"{requirement}:", flush=True)
        subprocess.run([python, "-m", "tests.spark.class_archive"], cwd=ROOT, check=True)
        # For tests of a job that another version of Spark goes on with.
        environ = {**os.environ, OTHER_SPARK: sys.executable}
        if run_tests(python, arguments or ["-n", "2", "--dist", "loadfile", "tests/spark"], environ) != 0:
            failed.append(requirement)
    if failed:
        print(f"failed on {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
