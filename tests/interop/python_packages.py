"""An interpreter with packages of PyPI that the project itself does not need, in an environment of its own."""

import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

import pytest

from tests.interop.apache import CACHE


@cache
def _made(requirement: str) -> Path | str:
    """The interpreter, or why there is none."""
    directory = CACHE / f"python-{sys.version_info.major}.{sys.version_info.minor}-{requirement}"
    python = directory / "bin" / "python"
    whole = directory / "whole"
    if not whole.exists():
        venv.create(directory, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", requirement]
        got = subprocess.run(install, capture_output=True, text=True, timeout=500)
        if got.returncode != 0:
            return f"PyPI does not serve {requirement} here ({got.stderr.strip()[-200:]})"
        whole.touch()
    return python


def interpreter_with(requirement: str) -> Path:
    made = _made(requirement)
    if isinstance(made, str):
        pytest.skip(made)
    return made
