"""Spark's own servers out of the installed PySpark: a standalone cluster, a Spark Connect server."""

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pyspark

from odradek.spark.session import find_java
from odradek.testing.process_cluster import free_ports
from tests.support import SHORT_LIVED_SERVERS, eventually

HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {
        **own,
        **SHORT_LIVED_SERVERS,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        **(more or {}),
    }


@contextmanager
def standalone(directory: Path, *, workers: int) -> Iterator[str]:
    """The address of a master at which so many workers are registered, of two cores each."""
    (port,) = free_ports(1, "127.0.0.1")
    address = f"spark://127.0.0.1:{port}"
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, role: str, *arguments: str) -> Path:
        log = directory / f"{name}.log"
        with open(log, "wb") as file:
            command = [str(HOME / "bin" / "spark-class"), f"{_DEPLOY}.{role}", *arguments]
            command += ["--host", "127.0.0.1", "--webui-port", "0"]
            started.append(subprocess.Popen(command, stdout=file, stderr=file, env=environment()))
        return log

    try:
        start("master", "master.Master", "--port", str(port))
        logs = [
            start(
                f"worker-{n}",
                "worker.Worker",
                *(address, "--cores", "2", "--memory", "1g", "--work-dir", str(directory / f"work-{n}")),
            )
            for n in range(workers)
        ]
        for log in logs:
            eventually(
                lambda log=log: "Successfully registered with master" in log.read_text(errors="replace"),  # type: ignore[misc]
                300,
                "a worker at its master",
            )
        yield address
    finally:
        end(started)


@contextmanager
def connect_server(directory: Path, *, python: str) -> Iterator[str]:
    """The address of a Spark Connect server whose Python processes are `python`."""
    (port,) = free_ports(1, "127.0.0.1")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    log = directory / "connect-server.log"
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "768m"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", _CONNECT, "spark-internal"]
    of_python = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, cwd=directory, env=environment(of_python)
        )
    try:
        eventually(lambda: _listens(port), 300, "a Spark Connect server")
        yield f"sc://127.0.0.1:{port}"
    finally:
        end([process])


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in reversed(processes):
        process.terminate()
        process.wait(60)
