"""kcat: the machine's; where there is none and other clients are fetched as well, Debian's, unpacked into the cache."""

import os
import shutil
import subprocess
from functools import cache

import pytest

from tests.interop.apache import CACHE

_PACKAGES = ("kcat", "librdkafka1", "libyajl2")


def kcat() -> list[str]:
    """The command; the test is skipped where there is none."""
    found = _found()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@cache
def _found() -> list[str] | str:
    """The command, or why there is none."""
    for name in ("kcat", "kafkacat"):
        if installed := shutil.which(name):
            return [installed]
    if not os.environ.get("ODRADEK_INTEROP"):
        return "kcat is not installed; `make interop` fetches it"
    if shutil.which("apt-get") is None:
        return "kcat is not installed, and there is no apt-get to fetch it"
    directory = CACHE / "kcat"
    if not (directory / "whole").exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        got = subprocess.run(
            ["apt-get", "download", *_PACKAGES], cwd=directory, capture_output=True, text=True, timeout=300
        )
        if got.returncode != 0:
            return f"Debian does not serve kcat here ({got.stderr.strip()[-200:]})"
        for package in directory.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(directory)], check=True)
        (directory / "whole").touch()
    (library,) = directory.glob("usr/lib/*/librdkafka.so.1")
    return ["env", f"LD_LIBRARY_PATH={library.parent}", str(directory / "usr" / "bin" / "kcat")]
