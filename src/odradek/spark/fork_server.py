"""Spark's Python processes, forked from one that has imported what they need.

Spark starts a new Python for each thing it asks of a Python data source: which there are, what one is like, who plans a
stream, who runs tasks, who commits. Each would import pyspark and Arrow anew, a third of a second of a processor and more.

    driver  ── starts, holds its standard input open ──> this server, which imports while the JVM starts
    JVM     ── starts what it takes for a Python ──> `fork_client`, which hands its arguments, environment and files over
    server  ── forks ──> the process, which then is what a new Python with these arguments would be

A client lives as long as its process: it ends with its exit code, and where the client is killed the process is told to end.
What the server cannot be (another PYTHONPATH, another hash seed, no module) the client starts itself, as an own Python.

    request   its length, then, divided by zeros: directory, number of arguments, arguments, NAME=value of the environment;
              standard input, output and error come beside it (SCM_RIGHTS)
    answer    one byte, whether there is a process, and when it has ended its exit code

The process says itself that it has taken the request, before it runs anything: whoever hears nothing may start his own, and
nothing runs twice.
"""

import array
import atexit
import contextlib
import gc
import importlib
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple, NoReturn

from odradek.spark import compiled

LENGTH = Struct(">I")
EXIT_CODE = Struct(">i")
TAKEN, REFUSED = b"\1", b"\0"
_FILES = 3
_LOOK_S = 1.0
_OF_JEMALLOC = "jemalloc_bg_thd"  # of Arrow's and of delta-rs'
_REQUEST_S = 5.0  # a client that is there has sent its request
# What Spark asks for by name, and what these import when they are at work. pyspark.daemon is run, not imported.
_PRELOADED = (
    "pyspark.worker",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.pandas.serializers",
    # Arrow does, the first time it makes an array of a Python object. What a worker imports itself, it collects garbage of
    # after every task: 15 ms of a processor.
    "pandas",
    "pyarrow.parquet",
    "odradek.spark.sink",
    "odradek.spark.subscription",
    "odradek.spark.writing",
    "odradek.spark.topic_commit",  # and what tasks write
)


class Request(NamedTuple):
    directory: str
    arguments: Sequence[str]
    environment: dict[str, str]

    @classmethod
    def of(cls, data: bytes) -> "Request":
        directory, count, *rest = os.fsdecode(data).split("\0")
        variables = (text.partition("=") for text in rest[int(count) :])
        return cls(directory, rest[: int(count)], {name: value for name, _, value in variables})

    @property
    def path(self) -> list[str]:
        return [entry for entry in self.environment.get("PYTHONPATH", "").split(os.pathsep) if entry]


class Process(NamedTuple):
    """What a fork becomes."""

    client: socket.socket
    request: Request
    files: Sequence[int]

    def become(self) -> int:
        """Runs the module as `python -m MODULE ARGUMENTS` would; its exit code, or it raises what the module raises."""
        for number, file in enumerate(self.files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(self.request.directory)
        os.environ.clear()
        os.environ.update(self.request.environment)
        sys.path[0] = self.request.directory
        sys.path[1:1] = [entry for entry in self.request.path if entry not in sys.path]
        _, module, *arguments = self.request.arguments
        sys.argv = [module, *arguments]
        sys.modules.pop(module, None)  # it is run, as a new Python has it, and what it imports is there
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            if not isinstance(ended.code, int | None):
                raise
            return ended.code or 0
        return 0


class Server:
    """One thread, so that it may be forked."""

    def __init__(self, listening: socket.socket, own: Path) -> None:
        """`own` is the directory of Spark's own entries of a PYTHONPATH: what is there is imported already."""
        self._listening = listening
        self._own = own
        self._waking, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._clients: dict[int, socket.socket] = {}  # by process
        self._driver = os.getppid()

    def serve(self) -> Process | None:
        """In a fork: what it is to become. In the server None, once the driver is gone."""
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._woken.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for file in (self._listening, self._waking, sys.stdin):
            self._selector.register(file, selectors.EVENT_READ)
        while os.getppid() == self._driver:
            for key, _ in self._selector.select(_LOOK_S):
                if key.fileobj is sys.stdin:
                    return None
                if key.fileobj is self._waking:
                    self._waking.recv(4096)
                elif key.fileobj is self._listening:
                    process = self._asked()
                    if process is not None and self._is_fork(process):
                        return process
                else:
                    self._hung_up(key.data)
            self._tell_ends()
        return None

    def _asked(self) -> Process | None:
        client, _ = self._listening.accept()
        files: list[int] = []
        try:
            client.settimeout(_REQUEST_S)
            request = _received(client, files)
            if len(files) == _FILES and self._can_be(request):
                return Process(client, request, files)
            client.sendall(REFUSED)
        except OSError:
            pass  # it was not answered, so it starts a Python of its own
        _close(client, files)
        return None

    def _can_be(self, request: Request) -> bool:
        """Whether a new Python would import the same from the same places."""
        if len(request.arguments) < 2 or request.arguments[0] != "-m":
            return False
        seed = request.environment.get("PYTHONHASHSEED", "random")
        if seed not in ("random", os.environ.get("PYTHONHASHSEED")):
            return False
        return request.environment.get("TZ") == os.environ.get("TZ") and all(
            entry in sys.path or Path(entry).is_relative_to(self._own) or not Path(entry).exists()
            for entry in request.path
        )

    def _is_fork(self, process: Process) -> bool:
        try:
            pid = os.fork()
        except OSError:  # no memory, or no process more
            with contextlib.suppress(OSError):
                process.client.sendall(REFUSED)
            _close(process.client, process.files)
            return False
        if pid:
            _close(None, process.files)
            self._clients[pid] = process.client
            self._selector.register(process.client, selectors.EVENT_READ, pid)
            return False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        try:
            process.client.sendall(TAKEN)
        except OSError:
            os._exit(1)  # the client is gone, or has started a Python of its own
        for end in (self._listening, self._waking, self._woken, process.client, *self._clients.values()):
            end.close()
        return True

    def _hung_up(self, pid: int) -> None:
        """Whoever started the process has ended its client, and means the process."""
        self._selector.unregister(self._clients[pid])
        os.kill(pid, signal.SIGTERM)

    def _tell_ends(self) -> None:
        while self._clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            client = self._clients.pop(pid)
            if client.fileno() in self._selector.get_map():
                self._selector.unregister(client)
            with contextlib.suppress(OSError):
                client.sendall(EXIT_CODE.pack(os.waitstatus_to_exitcode(status)))
            client.close()


def _received(client: socket.socket, files: list[int]) -> Request:
    """OSError where it is cut short. The files that came with it are added as they come."""
    data, ancillary, _, _ = client.recvmsg(1 << 16, socket.CMSG_SPACE(_FILES * array.array("i").itemsize))
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.extend(array.array("i", content))
    while len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack_from(data)[0]:
        more = client.recv(1 << 16)
        if not more:
            raise ConnectionResetError("a request that was cut short")
        data += more
    return Request.of(data[LENGTH.size :])


def _may_be_forked() -> bool:
    """A lock that another thread holds would stay locked in a fork for ever; but jemalloc sees to its own when one is made."""
    threads = Path("/proc/self/task").iterdir()
    names = [(thread / "comm").read_text().strip() for thread in threads if int(thread.name) != os.getpid()]
    return all(name == _OF_JEMALLOC for name in names)


def _close(client: socket.socket | None, files: Iterable[int]) -> None:
    if client is not None:
        client.close()
    for file in files:
        os.close(file)


def start(address: Path, pyspark_home: Path) -> "subprocess.Popen[bytes]":
    """Serves at this path until the pipe to its standard input is closed, or this process ends in another way.

    OSError where no socket can be there (a path of more than some 100 bytes).
    """
    environment = {
        **os.environ,
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),  # as Spark gives it to its processes
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),  # so does Spark; and a fork has one thread
        "OPENBLAS_NUM_THREADS": "1",
    }
    with socket.socket(socket.AF_UNIX) as listening:
        # Here, so that nobody who asks comes too early: he waits.
        listening.bind(str(address))
        listening.listen(64)
        number = listening.fileno()
        return _spawned([str(number), str(pyspark_home)], environment, number)


def _spawned(
    arguments: Sequence[str], environment: dict[str, str], listening: int
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", __name__, *arguments]
    # In a session of its own: Ctrl-C is for the driver.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, env=environment, start_new_session=True, pass_fds=(listening,)
    )


def _ended(code: int) -> NoReturn:
    """Ends as a Python does, but for taking apart what was imported: page by page it would be copied first, only to be let go."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for those that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code & 0xFF)


def _take_descriptors() -> None:
    """As many as are allowed, as a JVM does for itself and what it starts: a commit opens a file of each task at once."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    number, own = sys.argv[1:]
    _take_descriptors()
    with socket.socket(fileno=int(number)) as listening:
        for module in _PRELOADED:
            with contextlib.suppress(ImportError):  # whoever needs it says so
                importlib.import_module(module)
        compiled.load()
        if not _may_be_forked():
            return
        gc.freeze()  # what the collector does not touch stays shared
        process = Server(listening, Path(own)).serve()
    if process is not None:
        _ended(process.become())


if __name__ == "__main__":
    main()
