"""A cluster of real broker processes, on the embedded store or a ZooKeeper: for tests, `odradek up` and
`odradek demo`.

Each broker has a directory with its `server.properties`, its log directory and `broker.log`; all share one
store. Nothing outlives the parent: every broker watches a pipe that only the parent holds open.
"""

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Self

from odradek.client.sync import ClusterView, SyncClient
from odradek.model.counted import counted
from odradek.model.errors import OdradekError
from odradek.model.listeners import METRICS_LISTENER
from odradek.testing.administration import Administered
from odradek.testing.checked import checked_directory, checked_ports, checked_settings
from odradek.testing.forked_process import ForkedProcess, can_fork
from odradek.testing.late_signals import late_signals
from odradek.testing.life_line import LifeLine

STORE_FILE = "odradek-store.sqlite"
WRITTEN_ANEW = (
    "# Written anew at each start of the whole cluster (odradek up): what is to last goes to its --set"
)
# Below the range from which kernels take ports for outgoing connections: a broker that is down keeps its own.
FREE_PORTS = range(20_000, 32_000)
FOR_ALL = Path("/tmp")  # ports are the machine's, whatever TMPDIR a process has


class ClusterNotReady(OdradekError):
    """The deadline passed; the message says who was missing and what its log says last."""


class BrokerProcess:
    """One broker: its files, and the process while it runs."""

    def __init__(
        self, broker_id: int, directory: Path, host: str, port: int, *, may_fork: bool = False
    ) -> None:
        self.broker_id = broker_id
        self.directory = directory
        self.host = host
        self.port = port
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._may_fork = may_fork
        self._life_line: LifeLine | None = None

    @property
    def config_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def log_file(self) -> Path:
        return self.directory / "broker.log"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def _started(self) -> "subprocess.Popen[bytes] | ForkedProcess":
        if self.process is None:
            raise AssertionError(f"broker {self.broker_id} was never started")
        return self.process

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        if self.is_running:
            raise AssertionError(f"broker {self.broker_id} runs already")
        self.let_go()
        line = LifeLine()
        try:
            with open(self.log_file, "ab", opener=for_its_owner) as log, late_signals():
                launch = self._forked if self._may_fork and can_fork() else self._spawned
                self.process = launch(log.fileno(), line.read_end)
                self._life_line = line
        except BaseException:
            if self._life_line is None:
                line.let_go()
            raise
        finally:
            line.is_handed_over()

    def _arguments(self, pipe: int) -> list[str]:
        return [
            *("--config", str(self.config_file), "--stop-when-closed", str(pipe)),
            *("--log-file", str(self.log_file)),
        ]

    def _spawned(self, log: int, pipe: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "odradek.server", *self._arguments(pipe)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(pipe,),
            process_group=0,  # Ctrl-C is for whoever started it
        )

    def _forked(self, log: int, pipe: int) -> ForkedProcess:
        from odradek.server.__main__ import main
        from odradek.server.preload import preload

        preload()
        return ForkedProcess(
            lambda: main(self._arguments(pipe)),
            name=f"broker-{self.broker_id}",
            output=log,
            keep_open=(pipe,),
        )

    def kill(self) -> None:
        """`kill -9`; returns when the process is gone."""
        self._started.kill()
        self._started.wait()
        self.let_go()

    def signal(self, number: int) -> None:
        self._started.send_signal(number)

    def wait(self, deadline_s: float) -> int:
        """The exit code. Past the deadline the process is killed and subprocess.TimeoutExpired raised."""
        try:
            code = self._started.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.let_go()
        return code

    def last_words(self, lines: int = 5) -> str:
        """The end of its log, for messages."""
        try:
            text = self.log_file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return "it has no log yet"
        if not text:
            left = shutil.disk_usage(self.directory).free
            return f"nothing is in its log, and the disk has room for {counted(left, 'byte')}"
        return "\n".join(text.splitlines()[-lines:])

    def let_go(self) -> None:
        """As if we were gone: the broker stops without handing leadership over, since all others stop too."""
        if self._life_line is not None:
            self._life_line.let_go()
            self._life_line = None


class ProcessCluster(Administered):
    """Use it in a `with`, or call `start` and `stop`."""

    def __init__(
        self,
        directory: str | Path,
        *,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        first_port: int | None = None,
        zookeeper: str | None = None,
        metrics_port: int | None = None,
        may_fork: bool = False,
    ) -> None:
        """`zookeeper`: its `zookeeper.connect`, in place of the embedded store. `metrics_port`: of the first broker's
        `/metrics`, the others follow. `may_fork`: brokers are made by fork
        where that is safe; for a process that does nothing else and has one thread."""
        self.settings = checked_settings(brokers, settings)
        self.zookeeper = zookeeper
        self._metrics_ports = (
            None if metrics_port is None else checked_ports(metrics_port, brokers, "metrics_port")
        )
        self.directory = checked_directory(Path(directory).absolute())
        self.host = host
        self._paused: set[int] = set()
        ports = free_ports(brokers, host) if first_port is None else checked_ports(first_port, brokers)
        self.brokers = {
            broker_id: BrokerProcess(
                broker_id, self.directory / f"broker-{broker_id}", host, port, may_fork=may_fork
            )
            for broker_id, port in enumerate(ports, start=1)
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def store_file(self) -> Path:
        return self.directory / STORE_FILE

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop(deadline_s=0)
            raise

    def __exit__(self, *exc: object) -> None:
        self.stop(deadline_s=0 if exc[0] is not None else 10)

    def properties_of(self, broker: BrokerProcess) -> dict[str, str]:
        return {
            "broker.id": str(broker.broker_id),
            "listeners": f"PLAINTEXT://{broker.address}",
            "log.dirs": str(broker.directory / "data"),
            **self._store_properties(),
            "odradek.cluster.size": str(len(self.brokers)),
            **self._metrics_properties(broker),
            **self.settings,
        }

    def _metrics_properties(self, broker: BrokerProcess) -> dict[str, str]:
        url = self.metrics_url(broker)
        return {} if url is None else {METRICS_LISTENER: url.removesuffix("/metrics")}

    def metrics_url(self, broker: BrokerProcess) -> str | None:
        """Where Prometheus finds this broker, if it does."""
        if self._metrics_ports is None:
            return None
        return f"http://{self.host}:{self._metrics_ports[broker.broker_id - 1]}/metrics"

    def _store_properties(self) -> dict[str, str]:
        if self.zookeeper is not None:
            return {"zookeeper.connect": self.zookeeper}
        return {"odradek.store": str(self.store_file)}

    def write_configurations(self) -> None:
        for broker in self.brokers.values():
            broker.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            settings = self.properties_of(broker).items()
            lines = [WRITTEN_ANEW, *(f"{name}={_escaped(value)}" for name, value in settings)]
            # It may hold passwords. Anew, for one that others have open or may read would stay theirs.
            broker.config_file.unlink(missing_ok=True)
            with open(broker.config_file, "x", encoding="utf-8", opener=for_its_owner) as file:
                file.write("\n".join(lines) + "\n")

    def start(self, deadline_s: float = 60.0) -> Self:
        """All processes at once; returns when every broker knows of all of them and of a controller."""
        self.write_configurations()
        for broker in self.brokers.values():
            broker.start()
        self.wait_ready(deadline_s, started=self.brokers)
        return self

    def wait_ready(self, deadline_s: float = 60.0, *, started: Collection[int] = ()) -> None:
        """`started`: also those that have ended already, which is told as of any other. Paused ones are not waited for."""
        end = time.monotonic() + deadline_s
        running = {broker.broker_id for broker in self.brokers.values() if broker.is_running}
        expected = (running - self._paused) | set(started)
        for broker in list(self.brokers.values()):
            if broker.broker_id in expected:
                self._wait_for(broker, expected, end)

    def _wait_for(self, broker: BrokerProcess, expected: set[int], end: float) -> None:
        """Asks this broker alone, so that each has heard of the others from the controller."""
        pause_s = 0.005
        while True:
            for other in self.brokers.values():
                if other.broker_id in expected and not other.is_running:
                    raise ClusterNotReady(
                        f"broker {other.broker_id} exited with code {other._started.returncode}:\n"
                        f"{other.last_words()}"
                    )
            view = self._view_of(broker)
            if view is not None and expected <= set(view.brokers):
                # One that was started beside this cluster may be its controller, too.
                others = set(view.brokers) - self.brokers.keys()
                if view.controller_id in expected | others:
                    return
            if time.monotonic() > end:
                found = "it does not answer" if view is None else f"it knows of {view}"
                raise ClusterNotReady(
                    f"broker {broker.broker_id} is not ready: {found}; its log ends with\n{broker.last_words()}"
                )
            time.sleep(pause_s)
            pause_s = min(0.05, pause_s * 1.5)

    def _view_of(self, broker: BrokerProcess) -> ClusterView | None:
        with contextlib.closing(socket.socket()) as probe:
            probe.settimeout(1.0)
            if probe.connect_ex((broker.host, broker.port)) != 0:
                return None
        try:
            with SyncClient(broker.address, bootstrap_timeout_s=2.0, request_timeout_s=2.0) as client:
                return client.cluster([])
        except OdradekError:
            return None

    def kill(self, broker_id: int) -> None:
        """`kill -9`."""
        self._broker(broker_id).kill()
        self._paused.discard(broker_id)

    def terminate(self, broker_id: int, deadline_s: float = 60.0) -> int:
        """SIGTERM: a controlled shutdown. Returns the exit code."""
        broker = self._broker(broker_id)
        broker.signal(signal.SIGTERM)
        return broker.wait(deadline_s)

    def restart(self, broker_id: int, *, wait: bool = True, deadline_s: float = 60.0) -> None:
        """Starts a broker that was killed or stopped, on the files it left."""
        self._broker(broker_id).start()
        self._paused.discard(broker_id)  # as the process before it may have ended
        if wait:
            self.wait_ready(deadline_s, started=(broker_id,))

    def pause(self, broker_id: int) -> None:
        """SIGSTOP. The others notice when its session with the store ends (`zookeeper.session.timeout.ms`)."""
        self._broker(broker_id).signal(signal.SIGSTOP)
        self._paused.add(broker_id)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        self._broker(broker_id).signal(signal.SIGCONT)
        self._paused.discard(broker_id)

    def _answering(self) -> list[str]:
        return [b.address for i, b in self.brokers.items() if b.is_running and i not in self._paused]

    def _broker(self, broker_id: int) -> BrokerProcess:
        known = ", ".join(map(str, self.brokers))
        if broker_id not in self.brokers:
            raise AssertionError(f"there is no broker {broker_id}; there are {known}")
        return self.brokers[broker_id]

    def stop(self, deadline_s: float = 10.0) -> None:
        """All at once: logs are closed in order, leadership goes nowhere. `kill -9` after the deadline."""
        running = [broker for broker in self.brokers.values() if broker.is_running]
        for broker in running:
            if broker.broker_id in self._paused:
                self.resume(broker.broker_id)  # or it would not notice
        for broker in self.brokers.values():
            broker.let_go()
        end = time.monotonic() + deadline_s
        for broker in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                broker.wait(max(0.0, end - time.monotonic()))

    def wait_until(
        self, holds: Callable[[], bool], what: str, deadline_s: float = 60.0, pause_s: float = 0.02
    ) -> None:
        """Waits on a condition of the cluster; the message of the failure ends with the brokers' last words."""
        super().wait_until(holds, what, deadline_s, pause_s)

    def _too_late(self, sentence: str) -> Exception:
        words = [f"broker {broker.broker_id}: {broker.last_words(3)}" for broker in self.brokers.values()]
        return ClusterNotReady("\n".join([sentence, *words]))


def for_its_owner(path: str, flags: int) -> int:
    """An `opener` for `open`: a file that is made is not to be read by others."""
    return os.open(path, flags, 0o600)


_given_here: set[int] = set()


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports nobody listens on now. They are held open together, so no two are the same, and no other process is given one of
    them while this one lives: between this and the moment in which a broker listens, and while it is down. Nor is this one
    again, as long as there are others."""
    found: list[socket.socket] = []
    candidates = random.SystemRandom().sample(FREE_PORTS, k=min(len(FREE_PORTS), 200 + count))
    candidates.sort(key=_given_here.__contains__)
    try:
        for port in candidates:
            if not _is_ours(port):
                continue
            held = socket.socket()
            try:
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held.bind((host, port))
            except OSError:
                held.close()
                continue
            found.append(held)
            if len(found) == count:
                ports = [held.getsockname()[1] for held in found]
                _given_here.update(ports)
                return ports
    finally:
        for held in found:
            held.close()
    raise ClusterNotReady(f"no {count} free ports between {FREE_PORTS.start} and {FREE_PORTS.stop} on {host}")


def _is_ours(port: int) -> bool:
    """Of all processes of this user on the machine; the lock ends with this one. True as well where nothing can be locked."""
    descriptor = _ports_taken(os.getpid())
    if descriptor < 0:
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@cache
def _ports_taken(process_id: int) -> int:
    """A file of which one byte is locked for each port. Nobody closes it, for that would end the locks; one that was forked opens
    it anew. -1: there is none.
    """
    try:
        directory = FOR_ALL if os.access(FOR_ALL, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
        path = directory / f"odradek-ports-{os.getuid()}"
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return -1


def _escaped(value: str) -> str:
    """A blank at its beginning would be taken for one of those around `=`."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{text}" if text[:1] in (" ", "\t", "\f") else text
