"""Apache Kafka as the tests use it: its jars by Maven, its brokers as processes, its tools in one JVM."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import IO, Self

import pytest

from odradek.testing.process_cluster import BrokerProcess
from tests.support import die_with_parent

KAFKA_VERSION = "3.9.1"
NEWER_VERSION = "4.1.2"
VERSIONS = (KAFKA_VERSION, NEWER_VERSION)  # of clients; brokers are of the first
HERE = Path(__file__).parent
CACHE = Path(os.environ.get("ODRADEK_INTEROP_CACHE", Path.home() / ".cache" / "odradek-interop"))

# Command-line tools with the clients, Streams, Connect with its file connectors, and a logger that writes; of the first
# version the server, too.
_CLIENTS = ("kafka-tools", "kafka-streams", "connect-file")
_ARTIFACTS = {KAFKA_VERSION: ("kafka_2.13", *_CLIENTS), NEWER_VERSION: _CLIENTS}
# Small and quick to start rather than fast: four brokers and a ZooKeeper share two cores.
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")


def _pom(version: str) -> str:
    def dependency(group: str, artifact: str, its_version: str) -> str:
        return (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{its_version}</version></dependency>"
        )

    wanted = [dependency("org.apache.kafka", artifact, version) for artifact in _ARTIFACTS[version]]
    wanted.append(dependency("org.slf4j", "slf4j-reload4j", "1.7.36"))
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>interop</groupId><artifactId>interop</artifactId><version>1</version>"
        f"<dependencies>{''.join(wanted)}</dependencies></project>\n"
    )


@cache
def missing(version: str = KAFKA_VERSION) -> str | None:
    """Why there is no Apache Kafka here; None when its jars are there, fetched now if need be."""
    if not os.environ.get("ODRADEK_INTEROP"):
        return "Apache Kafka is started by `make interop` only"
    if shutil.which("java") is None:
        return "no java on this machine"
    fetched_by = jars(version) / "pom.xml"
    if fetched_by.exists() and fetched_by.read_text(encoding="utf-8") == _pom(version):
        return None
    if shutil.which("mvn") is None:
        return "no mvn on this machine to fetch Apache Kafka's jars"
    wanted = jars(version).with_suffix(".part")
    shutil.rmtree(wanted, ignore_errors=True)
    wanted.mkdir(parents=True)
    pom = wanted / "pom.xml"
    pom.write_text(_pom(version), encoding="utf-8")
    fetch = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={wanted}"]
    got = subprocess.run(fetch, capture_output=True, text=True, timeout=900)
    if got.returncode != 0:
        return f"Maven does not serve Apache Kafka's jars here ({(got.stdout + got.stderr).strip()[:200]})"
    shutil.rmtree(jars(version), ignore_errors=True)
    wanted.rename(jars(version))  # whole or not at all
    return None


def skip_without(version: str) -> None:
    reason = missing(version)
    if reason is not None:
        pytest.skip(reason)


def jars(version: str = KAFKA_VERSION) -> Path:
    return CACHE / f"apache-kafka-{version}-jars"


def java(heap: str, *arguments: str, version: str = KAFKA_VERSION) -> list[str]:
    """The command; the program is a class, or a file `*.java` of one class."""
    config = HERE / "tools" / "log4j.properties"
    program, *rest = arguments
    classes = f"{jars(version)}/*"
    if program.endswith(".java"):
        classes = f"{_compiled(Path(program), version)}:{classes}"
        program = Path(program).stem
    return [
        *("java", f"-Xmx{heap}", "-Xms64m", *_JVM, f"-Dlog4j.configuration=file:{config}"),
        *("-cp", classes, program, *rest),
    ]


@cache
def _compiled(source: Path, version: str) -> Path:
    """Where its classes are. Compiled once: a program that is killed thirty times is not to be compiled by each of its lives."""
    directory = CACHE / f"classes-{version}" / source.stem
    classes = ":".join(map(str, jars(version).glob("*.jar")))
    subprocess.run(
        [
            "java",
            "-m",
            "jdk.compiler/com.sun.tools.javac.Main",
            "-d",
            str(directory),
            "-cp",
            classes,
            str(source),
        ],
        check=True,
        timeout=300,
    )
    return directory


class ApacheBroker(BrokerProcess):
    """One broker of Apache's; like ours from outside."""

    def start(self) -> None:
        assert not self.is_running, f"broker {self.broker_id} runs already"
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                java("256m", "kafka.Kafka", str(self.config_file)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )

    def let_go(self) -> None:
        """A controlled shutdown of the last broker would wait for others: nothing of it is kept, so no."""
        if self.is_running:
            self.kill()  # which lets go of what is left


class Printed(str):
    """What a tool printed; `code` is its exit code."""

    code: int

    def __new__(cls, text: str, code: int) -> Self:
        printed = super().__new__(cls, text)
        printed.code = code
        return printed


class Tools:
    """Apache's command-line tools and clients, one after the other in one JVM (tools/Tools.java)."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java("256m", str(HERE / "tools" / "Tools.java")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=die_with_parent,
        )

    def run(self, name: str, *arguments: str | int) -> Printed:
        """What `name` (a class, or a command of Tools.java) prints, on both of its streams."""
        words: Sequence[str] = [name, *map(str, arguments)]
        assert not any("\t" in word or "\n" in word for word in words), words
        self._stream(self._process.stdin).write("\t".join(words).encode() + b"\n")
        self._stream(self._process.stdin).flush()
        answers = self._stream(self._process.stdout)
        head = answers.readline().split()
        assert len(head) == 2, f"the JVM of the tools ended at {words}"
        code, size = map(int, head)
        return Printed(answers.read(size).decode(), code)

    @staticmethod
    def _stream(stream: IO[bytes] | None) -> IO[bytes]:
        assert stream is not None
        return stream

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
