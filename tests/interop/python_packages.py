"""An interpreter with packages of PyPI that the project itself does not need, in an environment of its own."""

import hashlib
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

import pytest

from tests.interop.apache import CACHE


@cache
def _made(requirements: tuple[str, ...]) -> Path | str:
    """The interpreter, or why there is none."""
    name = requirements[0]
    if len(requirements) > 1:
        name = f"{name}-and-{hashlib.sha256(' '.join(requirements).encode()).hexdigest()[:12]}"
    directory = CACHE / f"python-{sys.version_info.major}.{sys.version_info.minor}-{name}"
    python = directory / "bin" / "python"
    whole = directory / "whole"
    if not whole.exists():
        venv.create(directory, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements]
        got = subprocess.run(install, capture_output=True, text=True, timeout=500)
        if got.returncode != 0:
            return f"PyPI does not serve {', '.join(requirements)} here ({got.stderr.strip()[-200:]})"
        whole.touch()
    return python


def interpreter_with(*requirements: str) -> Path:
    made = _made(requirements)
    if isinstance(made, str):
        pytest.skip(made)
    return made
