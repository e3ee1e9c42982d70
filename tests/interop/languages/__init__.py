"""Clients in other languages: Go and JavaScript, fetched and built by the tools of these, into the cache.

Each client is one program with the verbs `produce`, `member` and `transform`: `go/franz`, `go/sarama` and `js`.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.interop.apache import CACHE

HERE = Path(__file__).parent


def franz_go() -> list[str]:
    return _or_skip(_go("franz"))


def sarama() -> list[str]:
    return _or_skip(_go("sarama"))


def kafkajs() -> list[str]:
    return _or_skip(_kafkajs())


def _or_skip(made: list[str] | str) -> list[str]:
    if isinstance(made, str):
        pytest.skip(made)
    return made


@cache
def _go(name: str) -> list[str] | str:
    """The command, or why there is none."""
    if shutil.which("go") is None:
        return "no go on this machine"
    directory = CACHE / "go"
    program = directory / name
    places = {
        "GOMODCACHE": str(directory / "mod"),
        "GOCACHE": str(directory / "build"),
        "GOTOOLCHAIN": "local",
    }
    failed = _failure_of(["go", "build", "-o", str(program), f"./{name}"], HERE / "go", places)
    return f"go does not build {name} here ({failed})" if failed else [str(program)]


@cache
def _kafkajs() -> list[str] | str:
    """The command, or why there is none."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            return f"no {tool} on this machine"
    directory = CACHE / "js"
    shutil.copytree(HERE / "js", directory, dirs_exist_ok=True)
    failed = _failure_of(["npm", "install", "--no-audit", "--no-fund", "--prefer-offline"], directory)
    return f"npm does not install KafkaJS here ({failed})" if failed else ["node", str(directory / "main.js")]


def _failure_of(command: Sequence[str], directory: Path, settings: Mapping[str, str] | None = None) -> str:
    """What a command said that failed; empty where it succeeded."""
    environment = {**os.environ, **(settings or {})}
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    return "" if done.returncode == 0 else (done.stderr + done.stdout).strip()[-300:]
