"""The README's commands, typed into a shell of their own: what is shown beside each, and what was said instead."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support import eventually

README = Path(__file__).parent.parent.parent / "README.md"
# What changes nothing is typed again until the cluster has come to what is shown.
LOOKS = (
    *("odradek topic describe", "odradek topic consume", "odradek what-if", "odradek why"),
    *("odradek shutdown-impact", "odradek roll plan", "odradek reassign plan"),
)
PROCESS = re.compile(r"^ *\d+ +[\d.]+:\d+ +(\d+) ", re.M)  # a row of what `up` prints


class Step(NamedTuple):
    typed: str
    shown: str


def steps() -> list[Step]:
    """Every line after a `$`, with the lines below it."""
    blocks = re.findall(r"^```\n(\$ .*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    parts = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.M)
    return [Step(typed, shown) for typed, shown in parts]


def shape(line: str) -> str:
    """The line without numbers, ids, who is controller, and the widths of columns."""
    plain = re.sub(r"\bid [\w-]{22}\b", "id", line).removesuffix("  controller")
    return " ".join(re.sub(r"\d+", "#", plain).split())


def missing(shown: str, said: str) -> list[str]:
    shapes = {shape(line) for line in said.splitlines()}
    return [line for line in shown.splitlines() if shape(line) not in shapes]


def program() -> str:
    """`read.py`, which step 2 shows."""
    (found,) = re.findall(
        r"^```python\n(from confluent_kafka import Consumer\n.*?)^```",
        README.read_text(encoding="utf-8"),
        re.M | re.S,
    )
    return str(found)


class Terminal:
    """A shell in a directory of its own, where README's /tmp/cluster, ports and process ids are others."""

    def __init__(self, directory: Path, python: Path = Path(sys.executable)) -> None:
        self.directory = directory
        command = directory / "bin" / "odradek"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec "{python}" -m odradek "$@"\n')
        command.chmod(0o755)
        # The client of step 2 is none of ours: it runs where the tests do, also beside an installed wheel.
        client = command.with_name("python")
        client.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        client.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
        self.others = {"/tmp/cluster": str(directory / "cluster"), "--port 9092": "--port 0"}
        self.running: list[subprocess.Popen[str]] = []

    def here(self, typed: str) -> str:
        for shown, real in self.others.items():
            typed = typed.replace(shown, real)
        return typed

    def start(self, typed: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            ["bash", "-c", f"exec {self.here(typed)}"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.directory,
            env=self.environment,
        )
        self.running.append(process)
        return process

    def up(self, step: Step) -> str:
        """What it has said when it is ready."""
        process = self.start(step.typed)
        assert process.stdout is not None
        said = ""
        while not said.endswith("Ctrl-C stops the cluster.\n"):
            line = process.stdout.readline()
            assert line, said
            said += line
        (bootstrap,) = re.findall(r"bootstrap (\S+)", said)
        self.environment["ODRADEK_BOOTSTRAP"] = bootstrap
        (self.directory / "read.py").write_text(program().replace("127.0.0.1:9092", bootstrap))
        for shown, real in zip(PROCESS.findall(step.shown), PROCESS.findall(said), strict=True):
            self.others[f"kill -9 {shown}"] = f"kill -9 {real}"
        return said.replace(str(self.directory / "cluster"), "/tmp/cluster")

    def says(self, typed: str) -> str:
        answer = subprocess.run(
            ["bash", "-c", self.here(typed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.directory,
            env=self.environment,
            timeout=120,
        )
        return answer.stdout

    def follow(self, steps: list[Step]) -> None:
        """Types every step; AssertionError with the lines that are missing."""
        first, *others = steps
        assert missing(first.shown, self.up(first)) == []
        for typed, shown in others:
            if typed.endswith("&"):
                self.start(typed.removesuffix("&"))
            elif typed.startswith(LOOKS):
                said = [""]

                def is_shown(typed: str = typed, shown: str = shown, said: list[str] = said) -> bool:
                    said[0] = self.says(typed)
                    return missing(shown, said[0]) == []

                eventually(is_shown, 60, f"$ {typed}\nas shown")
            else:
                said_now = self.says(typed)
                assert missing(shown, said_now) == [], f"$ {typed}\n{said_now}"

    def stop(self) -> None:
        """The broker that was started by itself goes first: it hands over to those that are still there."""
        for process in reversed(self.running):
            process.terminate()
            process.communicate(timeout=120)
