"""`python -m tests.pythons`: the tests on each other Python of this machine from 3.11 on.

Asked are `python3.11`, `python3.12` and so on of PATH, and the versions that pyenv keeps; or those that PYTHONS names (paths or commands,
by spaces), whose own series may be that of `make test`, which else is left out. Arguments go to pytest, in place of `-n 3 --dist loadfile -m "not process and not
spark"`. What is not here, or gets no environment, is told of and passed over; the exit code is that of the tests.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.environments import prepared, run_tests

OLDEST = (3, 11)
NEWEST = (3, 15)
ROOMS = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "not process and not spark")


def version_of(python: str) -> tuple[int, ...] | None:
    """(3, 14, 2); None where it is no Python that runs, as pyenv's command for a version that is not selected."""
    try:
        told = subprocess.run(
            [python, "-c", "import sys; print(*sys.version_info[:3])"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return tuple(map(int, told.stdout.split())) if told.returncode == 0 else None


def candidates() -> Iterator[str]:
    """Commands and paths that may be a Python, each perhaps more than once."""
    named = os.environ.get("PYTHONS")
    if named is not None:
        yield from named.split()
        return
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        yield f"python3.{minor}"
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from map(str, sorted(kept.glob("3.*/bin/python3")))


def others() -> dict[tuple[int, ...], str]:
    """One Python of each series from 3.11 on, but for that of this process; of those that are named each version. By version."""
    found: dict[tuple[int, ...], str] = {}
    is_named = "PYTHONS" in os.environ
    for candidate in candidates():
        path = shutil.which(candidate)
        version = version_of(path) if path else None
        if path is None or version is None:
            if is_named:
                print(f"{candidate}: passed over, it is no Python that runs", flush=True)
            continue
        series = version[:2]
        if is_named or (series != sys.version_info[:2] and series not in {known[:2] for known in found}):
            if series >= OLDEST:
                found.setdefault(version, path)
    return found


def main(arguments: list[str]) -> int:
    found = others()
    here = {version[:2] for version in (*found, sys.version_info)}
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        if (3, minor) not in here and "PYTHONS" not in os.environ:
            print(
                f"python3.{minor}: passed over, it is not on PATH; PYTHONS=/path/to/it names one", flush=True
            )
    failed = []
    for version, path in sorted(found.items()):
        name = "python-" + ".".join(map(str, version))
        python = prepared(name, python=path)
        if python is None:
            continue
        print(f"{name}: {path}", flush=True)
        if run_tests(python, arguments or ROOMS) != 0:
            failed.append(name)
    if failed:
        print(f"failed on {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
