"""The two peers, started, measured and stopped in the same way: ours, and Apache Kafka with ZooKeeper."""

import compileall
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import crc32c  # noqa: F401  (imported before any clock runs)
from tests.support import die_with_parent

from odradek.testing.late_signals import late_signals

KAFKA_VERSION = "3.9.1"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>peer</groupId><artifactId>peer</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{version}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""
# What bin/kafka-run-class.sh of the distribution sets.
JVM = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]
TICKS = os.sysconf("SC_CLK_TCK")
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now; held together so that they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Process:
    """One broker process: what it costs, and its end."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    def cpu_s(self) -> float:
        """With its children, also those that have ended."""
        return sum(_ticks(pid) for pid in self._family()) / TICKS

    def rss_mb(self) -> float:
        return sum(_rss_mb(pid) for pid in self._family())

    def _family(self) -> list[int]:
        """Itself and its children."""
        return [self.pid, *(pid for pid in _pids() if _parent(pid) == self.pid)]

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def stop(self) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


def _pids() -> Iterator[int]:
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())


def _stat(pid: int) -> list[str]:
    """What follows the name; zeros where it has just ended: its parent's figures have it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["0"] * 15


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _ticks(pid: int) -> int:
    return sum(map(int, _stat(pid)[11:15]))


def _rss_mb(pid: int) -> float:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return 0.0


class Cluster:
    """Brokers numbered from 1 on this machine, with their directories under one."""

    name = ""

    def __init__(self, brokers: int, directory: Path, settings: Mapping[str, str] = NO_SETTINGS) -> None:
        """`settings` beside those every run has; both peers understand them."""
        self.settings = dict(settings)
        self.size = brokers
        self.directory = directory
        self.ports = free_ports(brokers)
        self.processes: dict[int, Process] = {}

    @property
    def bootstrap(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self.ports]

    def command(self, broker: int) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def prepare(self) -> None:
        """Whatever must run before a broker can."""

    def start_broker(self, broker: int) -> None:
        log = self.directory / f"broker-{broker}.out"
        with late_signals():  # whoever is started is known, and stopped
            self.processes[broker] = Process(self.command(broker), log, self.environment())

    def start(self) -> "Cluster":
        self.prepare()
        for broker in range(1, self.size + 1):
            self.start_broker(broker)
        return self

    def wait(self, deadline_s: float = 90.0) -> "Cluster":
        """Until every broker answers Metadata with all brokers."""
        from benchmarks import raw_frames

        end = time.monotonic() + deadline_s
        for address in self.bootstrap:
            while True:
                for broker, process in self.processes.items():
                    if process.popen.poll() is not None:
                        tail = process.log.read_text(errors="replace")[-2000:]
                        raise RuntimeError(f"{self.name} broker {broker} ended: {tail}")
                try:
                    client = raw_frames.any_broker([address], timeout_s=5)
                    found = client.metadata(None)
                    client.close()
                    if len(found.brokers) == self.size and found.controller in found.brokers:
                        break
                except (OSError, TimeoutError):
                    pass
                if time.monotonic() > end:
                    raise TimeoutError(f"{self.name}: {address} did not come up in {deadline_s} s")
                time.sleep(0.02)
        return self

    def cpu_s(self) -> float:
        return sum(process.cpu_s() for process in self.processes.values())

    def rss_mb(self) -> float:
        """The largest broker."""
        return max(process.rss_mb() for process in self.processes.values())

    def kill(self, broker: int) -> None:
        self.processes[broker].kill()

    def stop(self) -> None:
        for process in self.processes.values():
            process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class Odradek(Cluster):
    """Ours, one process a broker, the embedded store; what `odradek start --config` runs."""

    name = "odradek"

    def config(self, broker: int) -> Path:
        path = self.directory / f"broker-{broker}.properties"
        if not path.exists():
            lines = {
                "broker.id": str(broker),
                "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker - 1]}",
                "log.dirs": str(self.directory / f"data-{broker}"),
                "odradek.store": str(self.directory / "store.sqlite"),
                "odradek.cluster.size": str(self.size),
                "auto.create.topics.enable": "false",
                **self.settings,
            }
            path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()), encoding="utf-8")
        return path

    def prepare(self) -> None:
        """Bytecode first, as an installed package has it, also where PYTHONDONTWRITEBYTECODE is set."""
        package = importlib.util.find_spec("odradek")
        assert package is not None and package.origin is not None
        compileall.compile_dir(Path(package.origin).parent, quiet=2)

    def command(self, broker: int) -> list[str]:
        return [sys.executable, "-m", "odradek.server", "--config", str(self.config(broker))]


class Apache(Cluster):
    """Apache Kafka with ZooKeeper, the distribution's JVM options and default settings."""

    name = "apache"
    jars: Path | None = None

    def __init__(self, brokers: int, directory: Path, settings: Mapping[str, str] = NO_SETTINGS) -> None:
        super().__init__(brokers, directory, settings)
        self.zookeeper_port = free_ports(1)[0]
        self.zookeeper: Process | None = None

    def java(self, heap: str, main: str, config: Path) -> list[str]:
        assert self.jars is not None
        return ["java", f"-Xmx{heap}", f"-Xms{heap}", *JVM, "-cp", f"{self.jars}/*", main, str(config)]

    def prepare(self) -> None:
        config = self.directory / "zookeeper.properties"
        config.write_text(
            f"dataDir={self.directory}/zookeeper\nclientPort={self.zookeeper_port}\n"
            "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n",
            encoding="utf-8",
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self.zookeeper = Process(self.java("512M", main, config), self.directory / "zookeeper.out")
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.zookeeper_port), 1).close()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def command(self, broker: int) -> list[str]:
        path = self.directory / f"broker-{broker}.properties"
        if not path.exists():
            lines = {
                "broker.id": str(broker),
                "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker - 1]}",
                "log.dirs": f"{self.directory}/data-{broker}",
                "zookeeper.connect": f"127.0.0.1:{self.zookeeper_port}",
                "auto.create.topics.enable": "false",
                "offsets.topic.replication.factor": str(min(3, self.size)),
                "offsets.topic.num.partitions": "4",
                **self.settings,
            }
            path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()), encoding="utf-8")
        return self.java("1G", "kafka.Kafka", path)

    def stop(self) -> None:
        for process in self.processes.values():
            # A controlled shutdown of the last brokers would wait for retries; nothing here is kept.
            process.kill()
        if self.zookeeper is not None:
            self.zookeeper.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def running(
    kind: type[Cluster],
    brokers: int,
    base: Path | None,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Iterator[Cluster]:
    """A cluster that is up, and gone afterwards whatever happens."""
    directory = Path(tempfile.mkdtemp(prefix=f"bench-{kind.name}-", dir=base))
    cluster = kind(brokers, directory, settings)
    try:
        yield cluster.start().wait()
    finally:
        cluster.stop()


def find_apache(cache: Path) -> str | None:
    """Apache's jars by Maven; None when they are there, else why there is no Apache in this run."""
    jars = cache / f"apache-kafka-{KAFKA_VERSION}"
    if shutil.which("java") is None:
        return "no java on this machine"
    if not list(jars.glob("kafka_2.13-*.jar")):
        if shutil.which("mvn") is None:
            return "no mvn on this machine to fetch its jars"
        with tempfile.TemporaryDirectory() as work:
            pom = Path(work) / "pom.xml"
            pom.write_text(POM.format(version=KAFKA_VERSION), encoding="utf-8")
            got = subprocess.run(
                [
                    "mvn",
                    "-q",
                    "-B",
                    "-f",
                    str(pom),
                    "dependency:copy-dependencies",
                    f"-DoutputDirectory={jars}",
                ],
                capture_output=True,
                text=True,
                timeout=900,
            )
        if got.returncode != 0:
            shutil.rmtree(jars, ignore_errors=True)
            return f"Maven does not serve its jars here ({(got.stdout + got.stderr).strip()[:120]})"
    Apache.jars = jars
    return None
