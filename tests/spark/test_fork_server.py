"""Processes forked from one that has imported what they need: each is what a new Python would be."""

import array
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from odradek.spark import fork_client, fork_server, session
from tests.support import eventually

HOME = Path(__file__).parent  # of Spark's own entries of a path
TELLS = """
import os, sys
print(os.getpid(), os.getcwd(), sys.argv, os.environ["GREETING"], sys.stdin.read(), "pyarrow" in sys.modules)
print("aside", file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture(scope="module")
def short() -> Iterator[Path]:
    """A directory for sockets, whose paths have 107 bytes at most, whatever TMPDIR is."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def address(short: Path) -> Iterator[Path]:
    address = short / "address"
    yield address
    address.unlink()


@pytest.fixture(scope="module")
def server(short: Path) -> Iterator["subprocess.Popen[bytes]"]:
    address = short / "server"
    running = fork_server.start(address, HOME)
    running.address = address  # type: ignore[attr-defined]
    yield running
    session._ended(running, os.getpid())
    address.unlink()


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """`python -m tells` in this directory."""
    (tmp_path / "tells.py").write_text(TELLS)
    return tmp_path


def command(server: "subprocess.Popen[bytes]", *arguments: str) -> list[str]:
    address = str(server.address)  # type: ignore[attr-defined]
    return [sys.executable, "-I", "-S", fork_client.__file__, address, sys.executable, *arguments]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "GREETING": "a=b\nc", "PYTHONHASHSEED": "0", **more}


def run(
    server: "subprocess.Popen[bytes]", where: Path, *arguments: str, **more: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(server, *arguments),
        input="from outside",
        capture_output=True,
        text=True,
        cwd=where,
        env=environment(**more),
        timeout=120,
    )


def test_where_the_working_directory_is_gone_a_python_of_its_own_runs(
    server: "subprocess.Popen[bytes]", module: Path
) -> None:
    """As it would without the server."""
    (module / "ends.py").write_text("raise SystemExit(7)")
    gone = module / "gone"
    gone.mkdir()
    then = command(server, "-m", "ends")
    first = f"import os; os.rmdir({str(gone)!r}); os.execv({then[0]!r}, {then!r})"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", first],
        cwd=gone,
        env=environment(PYTHONPATH=str(module)),
        capture_output=True,
        timeout=120,
    )

    assert (done.returncode, done.stderr) == (7, b"")


def test_a_module_runs_with_the_arguments_the_environment_and_the_files_of_who_asked(
    server: "subprocess.Popen[bytes]", module: Path
) -> None:
    found = run(server, module, "-m", "tells", "one", "")

    pid, rest = found.stdout.split(" ", 1)
    assert rest == f"{module} {[str(module / 'tells.py'), 'one', '']} a=b\nc from outside True\n"
    assert (found.stderr, found.returncode) == ("aside\n", 7)
    assert int(pid) != server.pid
    assert run(server, module, "-m", "tells").stdout.split(" ")[0] != pid


def test_a_request_may_be_as_large_as_arguments_and_environment_of_a_process(
    server: "subprocess.Popen[bytes]", module: Path
) -> None:
    (module / "sizes.py").write_text(
        "import os\nprint(os.getppid(), [len(os.environ.get(n, '')) for n in 'ABC'])"
    )

    found = run(server, module, "-m", "sizes", **dict.fromkeys("ABC", "x" * 120_000))

    assert found.stdout == f"{server.pid} {[120_000] * 3}\n"


def test_signals_of_a_module_are_as_a_new_python_has_them(
    server: "subprocess.Popen[bytes]", module: Path
) -> None:
    """What the server is told of by a descriptor would be written into the module's own file of that number."""
    (module / "signals.py").write_text(
        "import os, signal\n"
        "every = [str(signal.getsignal(n)) for n in sorted(signal.valid_signals())]\n"
        "print([name.split(' at ')[0] for name in every], signal.set_wakeup_fd(-1))\n"
        "print(os.getppid())"
    )
    of_fork = run(server, module, "-m", "signals").stdout.splitlines()
    alone = subprocess.check_output([sys.executable, "-m", "signals"], cwd=module, text=True).splitlines()

    assert of_fork[0] == alone[0] and of_fork[1] == str(server.pid)


def test_a_module_has_no_variable_that_the_server_alone_has(
    server: "subprocess.Popen[bytes]", module: Path
) -> None:
    (module / "lists.py").write_text("import os\nprint(*os.environ, sep='\\n')")
    given = {name: value for name, value in environment().items() if name != "OPENBLAS_NUM_THREADS"}

    found = subprocess.check_output(
        command(server, "-m", "lists"), text=True, cwd=module, env=given, timeout=120
    )

    assert "GREETING" in found and "OPENBLAS_NUM_THREADS" not in found.splitlines()


@pytest.mark.parametrize("more", [{"PYTHONHASHSEED": "1"}, {"TZ": "Asia/Tokyo"}, {"PYTHONPATH": "ELSEWHERE"}])
def test_what_a_fork_cannot_be_is_a_python_of_its_own(
    server: "subprocess.Popen[bytes]", module: Path, more: dict[str, str]
) -> None:
    """Where other modules would be found first, say, or sets be in another order."""
    found = run(
        server, module, "-m", "tells", **{k: v.replace("ELSEWHERE", str(module)) for k, v in more.items()}
    )

    assert found.stdout.endswith("from outside False\n")
    assert found.returncode == 7


def test_entries_of_sparks_own_are_no_other_path(server: "subprocess.Popen[bytes]", module: Path) -> None:
    found = run(server, module, "-m", "tells", PYTHONPATH=f"{HOME / 'test_fork_server.py'}:/not/there")

    assert (
        found.stdout.split(" ", 1)[1] == f"{module} {[str(module / 'tells.py')]} a=b\nc from outside True\n"
    )
    assert (found.stderr, found.returncode) == ("aside\n", 7)


def asked(server: "subprocess.Popen[bytes]", body: bytes, files: Sequence[int], *, length: int = 0) -> bytes:
    """What the server answers first; b"" where it only closes the connection. With a `length` that is not that of the body the
    client says that no more will come."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(server.address))  # type: ignore[attr-defined]
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        client.sendmsg([fork_server.LENGTH.pack(length or len(body)) + body], beside)
        if length:
            client.shutdown(socket.SHUT_WR)
        return client.recv(1)


def request(where: Path, *arguments: str) -> bytes:
    variables = [f"{name}={os.environ[name]}" for name in ("TZ",) if name in os.environ]
    fields = [str(where), str(len(arguments)), *arguments, "PYTHONHASHSEED=0", *variables]
    return os.fsencode("\0".join(fields))


@pytest.mark.parametrize("count", [0, 2])
def test_who_does_not_send_three_files_is_refused(
    server: "subprocess.Popen[bytes]", module: Path, count: int
) -> None:
    """The process would read and write what is the server's."""
    (module / "runs.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    body = request(module, "-m", "runs")

    assert asked(server, body, range(count)) == fork_server.REFUSED
    assert not (module / "ran").exists()
    with open(os.devnull, "rb") as nothing, open(module / "said", "wb") as said:
        own = nothing.fileno(), said.fileno(), said.fileno()
        assert asked(server, body, own) == fork_server.TAKEN, "what it is refused for are the files"


@pytest.mark.parametrize("arguments", [("-m",), ("-c", "pass"), ("tells",), ()])
def test_what_is_no_module_is_refused(
    server: "subprocess.Popen[bytes]", module: Path, arguments: tuple[str, ...]
) -> None:
    with open(os.devnull, "rb") as nothing:
        assert asked(server, request(module, *arguments), [nothing.fileno()] * 3) == fork_server.REFUSED


def test_a_request_that_is_cut_short_is_not_answered(server: "subprocess.Popen[bytes]", module: Path) -> None:
    body = request(module, "-m", "tells")
    with open(os.devnull, "rb") as nothing:
        assert asked(server, body, [nothing.fileno()] * 3, length=len(body) + 1) == b""
    assert run(server, module, "-m", "tells").returncode == 7


def test_what_a_terminal_sends_at_ctrl_c_is_for_the_driver(server: "subprocess.Popen[bytes]") -> None:
    assert os.getsid(server.pid) == server.pid != os.getsid(0)
    assert os.getpgid(server.pid) == server.pid


class Preempted(socket.socket):
    """After its request is sent its process runs again only when the other end is closed."""

    def sendmsg(self, *arguments: Any) -> int:  # type: ignore[override]
        sent = super().sendmsg(*arguments)
        gone = select.poll()
        gone.register(self, 0)  # POLLHUP is always asked for
        assert gone.poll(60_000), "the server closes the connection"
        return sent


def test_a_process_that_ended_before_its_client_looked_is_not_run_again(
    address: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit, say. Sending on a connection whose other end is closed is an error, also of no bytes at all."""
    monkeypatch.setattr(fork_client, "_socket", socket)
    monkeypatch.setattr(socket, "socket", Preempted)

    def serve(listening: socket.socket) -> None:
        client, _ = listening.accept()
        with client:
            files: list[int] = []
            fork_server._received(client, files)
            fork_server._close(None, files)
            client.sendall(fork_server.TAKEN + fork_server.EXIT_CODE.pack(7))

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen()
        serving = threading.Thread(target=serve, args=(listening,))
        serving.start()
        assert fork_client.forked(str(address), ["-m", "tells"]) == 7
        serving.join(60)


def test_a_process_whose_server_is_gone_is_not_run_again(address: Path, module: Path) -> None:
    """How it ends nobody hears, and whoever started it begins with what it has not done."""
    (module / "once.py").write_text(
        "import os, signal, sys\nprint('run', flush=True)\nos.kill(int(sys.argv[1]), signal.SIGKILL)\n"
    )
    with fork_server.start(address, HOME) as killed:
        killed.address = address  # type: ignore[attr-defined]
        done = run(killed, module, "-m", "once", str(killed.pid))

    assert (done.stdout, done.returncode) == ("run\n", 1)


def test_a_request_whose_client_is_gone_is_not_run(server: "subprocess.Popen[bytes]", module: Path) -> None:
    """He may have started a Python of his own."""
    (module / "leaves.py").write_text(
        "import os, pathlib\npathlib.Path('ran').write_text(str(os.getpid()))\n"
    )
    fields = [str(module).encode(), b"2", b"-m", b"leaves", b"PYTHONHASHSEED=0"]
    fields += [b"TZ=" + os.environb[b"TZ"]] if b"TZ" in os.environb else []
    body = b"\0".join(fields)
    # It stands still until the client is gone: it would be taken at its word before that.
    server.send_signal(signal.SIGSTOP)
    stands_still = psutil.Process(server.pid)
    eventually(lambda: stands_still.status() == psutil.STATUS_STOPPED, 60, "the server stands still")
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(server.address))  # type: ignore[attr-defined]
    files = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (0, 1, 2)))
    client.sendmsg([fork_server.LENGTH.pack(len(body)) + body], [files])
    client.close()
    server.send_signal(signal.SIGCONT)

    # The server takes one after the other: whoever is answered now came after it.
    assert run(server, module, "-m", "tells").stdout.endswith("from outside True\n")
    eventually(lambda: not psutil.Process(server.pid).children(), 60, "every process has ended")
    assert not (module / "ran").exists()


def test_where_no_process_can_be_made_the_client_hears_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError("no process more")

    monkeypatch.setattr(os, "fork", fork)
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    process = fork_server.Process(theirs, fork_server.Request("/", (), {}), [write])

    with socket.socket(socket.AF_UNIX) as listening, ours:
        assert not fork_server.Server(listening, HOME)._is_fork(process)
        assert ours.recv(2) == fork_server.REFUSED and ours.recv(1) == b""
    assert os.read(read, 1) == b"", "the files that it sent are closed"
    os.close(read)


def test_without_a_server_the_client_becomes_the_python(module: Path) -> None:
    class Nobody:
        address = module / "nobody"

    found = run(Nobody(), module, "-m", "tells")  # type: ignore[arg-type]

    assert found.stdout.endswith("from outside False\n")
    assert found.returncode == 7


def test_a_process_ends_with_who_asked_for_it_and_tells_how_it_ended(
    server: "subprocess.Popen[bytes]", module: Path
) -> None:
    (module / "waits.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")

    def begun() -> "tuple[subprocess.Popen[str], psutil.Process]":
        client = subprocess.Popen(
            command(server, "-m", "waits"), stdout=subprocess.PIPE, text=True, cwd=module, env=environment()
        )
        assert client.stdout is not None
        return client, psutil.Process(int(client.stdout.readline()))

    client, process = begun()
    client.kill()
    client.wait()
    process.wait(60)  # it was told to end

    client, process = begun()
    process.send_signal(signal.SIGKILL)
    assert client.wait(60) == 128 + signal.SIGKILL


ENDS = """
import atexit, os, sys, threading, time
class Held:
    def __del__(self, write=os.write): write(1, b"taken apart\\n")
sys.held = Held()
atexit.register(print, "at the end")
print("begun")
threading.Thread(target=lambda: (time.sleep(0.2), print("a thread"))).start()
"""


@pytest.mark.parametrize(
    ("last", "code", "error"),
    [
        ("", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('a sentence')", 1, "a sentence\n"),
        ("raise ValueError('wrong')", 1, "ValueError: wrong\n"),
    ],
)
def test_a_process_ends_with_its_threads_and_all_it_has_said(
    server: "subprocess.Popen[bytes]", module: Path, last: str, code: int, error: str
) -> None:
    """Without an error nothing that was imported is taken apart, which would only copy its pages."""
    (module / "ends.py").write_text(ENDS + last)

    found = run(server, module, "-m", "ends")

    said = ["begun", "a thread", "at the end", *["taken apart"] * bool(error)]
    assert found.stdout.splitlines() == said
    assert found.returncode == code
    assert found.stderr.endswith(error) and bool(found.stderr) == bool(error)


def test_a_process_may_have_as_many_files_open_as_one_of_the_jvm(address: Path, module: Path) -> None:
    """The JVM raises its own limit to what is allowed, and what it starts inherits that; a shell mostly has 1,024."""
    (module / "limit.py").write_text("import resource\nprint(*resource.getrlimit(resource.RLIMIT_NOFILE))")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = 512
    # A driver of its own: this process may have more files open than that.
    script = (
        "import resource, sys; from pathlib import Path; from odradek.spark import fork_server\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[3])))\n"
        "fork_server.start(Path(sys.argv[1]), Path()); print(flush=True); sys.stdin.read()"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", script, str(address), str(low), str(hard)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    driver.address = address  # type: ignore[attr-defined]
    try:
        assert driver.stdout is not None and driver.stdout.readline() == b"\n"
        found = run(driver, module, "-m", "limit")
    finally:
        driver.communicate()

    assert found.stdout.split() == [str(hard), str(hard)] and hard != low


def test_the_server_ends_with_its_driver(address: Path) -> None:
    """Killed, it has no time to close anything."""
    script = (
        "import sys, time; from pathlib import Path; from odradek.spark import fork_server\n"
        "print(fork_server.start(Path(sys.argv[1]), Path()).pid, flush=True); time.sleep(600)"
    )
    driver = subprocess.Popen([sys.executable, "-c", script, str(address)], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    server = psutil.Process(int(driver.stdout.readline()))

    driver.kill()
    driver.wait()

    eventually(
        lambda: not server.is_running() or server.status() == "zombie", 60, "it sees that nobody is there"
    )


def test_a_driver_ends_whoever_of_its_own_forks_still_holds_the_pipe(address: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from odradek.spark import fork_server, session\n"
        "server = fork_server.start(Path(sys.argv[1]), Path())\n"
        "read, write = os.pipe()\n"
        "if not os.fork():\n"
        "    os.close(write); os.read(read, 1); os._exit(0)  # as long as the driver lives\n"
        "session._ended(server, os.getpid())"
    )
    command = [sys.executable, "-c", script, str(address)]

    assert subprocess.run(command, timeout=60, check=False).returncode == 0


def test_a_fork_of_a_driver_that_ends_leaves_the_driver_its_server() -> None:
    """As of a program that forks itself (`os.fork`), and whose child ends as programs do."""
    script = (
        "import os; from odradek.spark import fork_server, session\n"
        "class Server:\n"
        "    stdin = open(os.devnull)\n"
        "    def terminate(self): print('server', flush=True)\n"
        "    def wait(self): pass\n"
        "fork_server.start = lambda *_: Server()\n"
        "session._python()\n"
        "if fork := os.fork():\n"
        "    os.waitpid(fork, 0); print('fork', flush=True)"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True).stdout

    assert told.split() == [b"fork", b"server"]
