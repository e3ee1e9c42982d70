"""One real broker process with its own configuration, for tests of how it starts, stops and refuses."""

import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.testing.process_cluster import BrokerProcess, ProcessCluster, free_ports
from tests.support import eventually


class OneBroker:
    """`start` waits until it serves; `refuses` until it has exited and said why."""

    def __init__(
        self, directory: Path, *, broker_id: int = 1, port: int | None = None, **settings: str
    ) -> None:
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.process = BrokerProcess(
            broker_id, directory, "127.0.0.1", free_ports(1)[0] if port is None else port
        )
        directory.mkdir(parents=True, exist_ok=True)
        self.configure()

    def configure(self, **more: str) -> None:
        self.settings.update({name.replace("_", "."): value for name, value in more.items()})
        properties = {
            "broker.id": str(self.process.broker_id),
            "listeners": f"PLAINTEXT://{self.process.address}",
            "log.dirs": str(self.process.directory / "data"),
            **self.settings,
        }
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        self.process.config_file.write_text(text, encoding="utf-8")

    @property
    def data(self) -> Path:
        return self.process.directory / "data"

    @property
    def address(self) -> str:
        return self.process.address

    def start(self) -> None:
        self.process.start()
        eventually(self.is_serving, 60, f"{self.process.config_file} serves")

    def is_serving(self) -> bool:
        assert self.process.is_running, self.process.last_words()
        try:
            with SyncClient(self.address, bootstrap_timeout_s=10, request_timeout_s=10) as client:
                return client.cluster([]).controller_id >= 0
        except Exception:
            return False

    def refuses(self, deadline_s: float = 60) -> tuple[int, str]:
        """Exit code and what it said on standard error."""
        ended = subprocess.run(
            [sys.executable, "-m", "odradek.server", "--config", str(self.process.config_file)],
            capture_output=True,
            text=True,
            timeout=deadline_s,
            env={**os.environ, "ODRADEK_LOG_LEVEL": "ERROR"},
        )
        return ended.returncode, ended.stderr.strip()

    def refuses_with(self, code: int) -> tuple[int, str]:
        """Where its session is short, a busy machine may end that first; then it is started once more."""
        return eventually(lambda: (refused := self.refuses())[0] == code and refused, 60)  # type: ignore[return-value]

    def terminate(self, deadline_s: float = 60) -> int:
        self.process.signal(signal.SIGTERM)
        return self.process.wait(deadline_s)

    def stop(self) -> None:
        if self.process.is_running:
            self.process.kill()

    def create_topic(self, name: str, replication_factor: int = 1, partitions: int = 1) -> None:
        create_topic(self.address, name, replication_factor, partitions)

    def connect(self) -> socket.socket:
        connection = socket.create_connection((self.process.host, self.process.port), timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024


def create_topic(bootstrap: str, name: str, replication_factor: int = 1, partitions: int = 1) -> None:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)],
        timeout_ms=30_000,
    )
    with SyncClient(bootstrap) as client:
        (answer,) = client.call(CONTROLLER, request).topics
        assert answer.error_code == 0, answer


def leaders(cluster: ProcessCluster, topic: str) -> dict[int, tuple[int, tuple[int, ...]]]:
    """Leader and ISR of each partition, as a broker that lives sees them."""
    alive = ",".join(broker.address for broker in cluster.brokers.values() if broker.is_running)
    with SyncClient(alive) as client:
        view = client.cluster([topic]).topics[topic]
    return {index: (p.leader, tuple(sorted(p.isr))) for index, p in view.partitions.items()}


def receive(connection: socket.socket) -> bytes:
    """One frame without its length; b"" when the peer has closed."""
    head = receive_exactly(connection, 4)
    if not head:
        return b""
    (size,) = struct.unpack(">i", head)
    return receive_exactly(connection, size)


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def is_closed_by_peer(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
