"""Drivers of Spark for tests, forked from a process that has imported what they and Spark's Python processes need.

Of a session that lives for seconds, a new Python and the server of forks that it starts (`odradek.spark.fork_server`) take two
seconds of a processor, as much as the JVM does. Here both are forks (`tests/fork_servers.py`), and otherwise what they are for a
user: processes of their own, the server a child of the driver, the JVM another.
"""

import atexit
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NoReturn

from odradek.testing.forked_process import ForkedProcess
from tests.fork_servers import Forked, ForkServer, is_as_we_began, serve_until_closed
from tests.support import die_with_parent

# As a server of Spark's Python processes begins (`odradek.spark.fork_server.start`).
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_PRELOADED = (
    "pyspark.sql",
    "deltalake",
    "odradek.cli.main",
    "odradek.spark.jobs.topic_to_table",
    "odradek.spark.jobs.tables",
    "odradek.spark.jobs.transform",
    "odradek.spark.kernels",
)
Started = subprocess.Popen[bytes] | Forked
server = ForkServer(__spec__.name, _ENVIRONMENT)


def start(
    command: Sequence[str],
    *,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes],
    stderr: IO[bytes],
    cwd: Path | None = None,
    env: Mapping[str, str],
) -> Started:
    """`command` is `[sys.executable, "-m", MODULE, *ARGUMENTS]`; without `stdin` it reads nothing. It is killed when
    we end, however we end."""
    python, option, *_ = command
    if python != sys.executable or option != "-m" or not is_as_we_began(env):
        return subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env, preexec_fn=die_with_parent
        )
    with open(os.devnull, "rb") as nothing:
        files = [(stdin or nothing).fileno(), stdout.fileno(), stderr.fileno()]
        return Forked(server, [str(cwd or Path.cwd()), list(command[1:]), dict(env)], files)


def forked(asked: list[Any], files: list[int]) -> ForkedProcess:
    from odradek.spark import fork_server

    directory, (option, module, *arguments), environment = asked
    found = find_spec(module)
    if found is not None and found.submodule_search_locations:  # a package, which stays imported
        module += ".__main__"
    request = fork_server.Request(directory, [option, module, *arguments], environment)

    def run() -> NoReturn:
        die_with_parent()
        tempfile.tempdir = None  # the environment names it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        fork_server._spawned = _forked_server
        try:
            code = fork_server.Process(None, request, files).become()
        except SystemExit as why:  # in a sentence
            print(why, file=sys.stderr)
            code = 1
        except BaseException:
            traceback.print_exc()
            code = 1
        fork_server._ended(code)

    return ForkedProcess(run, name="driver", output=files[1], keep_open=files)


class _ForkedServer:
    """What of subprocess.Popen the session needs of its server of forks."""

    def __init__(self, process: ForkedProcess, stdin: IO[bytes]) -> None:
        self.pid = process.pid
        self.stdin = stdin
        self.wait = process.wait
        self.poll = process.poll

    def terminate(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


def _forked_server(arguments: Sequence[str], environment: Mapping[str, str], listening: int) -> Any:
    """In place of `fork_server._spawned`, in a driver that has no threads yet."""
    from odradek.spark import fork_server

    if not fork_server._may_be_forked():
        return _new_server(arguments, environment, listening)
    ours, theirs = os.pipe()

    def run() -> int:
        os.dup2(ours, 0)
        os.close(ours)
        os.environ.update(environment)
        sys.argv[1:] = arguments
        atexit._clear()  # what the driver does at its end, its server and the forks of that do not
        fork_server.main()
        return 0

    process = ForkedProcess(run, name="fork_server", output=2, keep_open=(ours, listening))
    os.close(ours)
    return _ForkedServer(process, open(theirs, "wb"))


def _preload() -> None:
    from odradek.spark import fork_server

    for module in (*fork_server._PRELOADED, *_PRELOADED):
        with suppress(ImportError):  # whoever needs it says so
            importlib.import_module(module)
    assert fork_server._may_be_forked(), "what was imported has started threads"


if __name__ == "__main__":
    from odradek.spark.fork_server import _spawned as _new_server

    serve_until_closed(_preload, forked)
