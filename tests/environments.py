"""Environments beside .venv, kept from run to run: `prepared(name, [requirement, ...])`, of another Python or with other packages.

They are below ~/.cache/odradek-environments, or $ODRADEK_ENVIRONMENTS.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHE = Path(os.environ.get("ODRADEK_ENVIRONMENTS", Path.home() / ".cache" / "odradek-environments"))


def prepared(
    name: str, requirements: Sequence[str] = (), *, python: str = sys.executable, oldest: bool = False
) -> Path | None:
    """The interpreter of an environment with this project, its tests' packages and `requirements` (as pip takes them).

    `oldest`: of each package that pyproject.toml names the oldest version it allows. None where they cannot be installed, or `python`
    makes no environment: one line says why.
    """
    directory = CACHE / name
    interpreter = directory / "bin" / "python"
    if not (directory / "whole").exists():
        made = _run(python, "-m", "venv", "--clear", str(directory))
        if made.returncode != 0:
            _pass_over(name, f"{python} makes no environment", made)
            return None
    pip = [str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if oldest:
        got = _run(*pip, "uv")  # pip itself knows the newest only
        pip = [str(interpreter), "-m", "uv", "pip", "install", "-q", "--resolution", "lowest-direct"]
        pip += ["--python", str(interpreter)]
    # Each time: the project's own requirements may have changed.
    if not oldest or got.returncode == 0:
        got = _run(*pip, "-e", f"{ROOT}[test]", *requirements)
    if got.returncode != 0:
        _pass_over(name, "its packages could not be installed", got)
        return None
    (directory / "whole").touch()
    return interpreter


def run_tests(python: Path, arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
    """The exit code of pytest with these arguments there; `environ` in place of this process's."""
    command = [str(python), "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _pass_over(name: str, what: str, ended: subprocess.CompletedProcess[str]) -> None:
    print(f"{name}: passed over, {what}: {(ended.stderr or ended.stdout).strip()[-300:]}", flush=True)
