"""Drivers that are forked for tests begin, are told, and end as those do that begin with a Python of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import forked_drivers
from tests.fork_servers import Forked
from tests.support import eventually

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="drivers are forked on Linux only"),
]
SAYS = "import atexit, os, sys\natexit.register(print, 'at exit')\n"


class Program:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._out, self._err, self._in = (directory / name for name in ("out", "err", "in"))

    def start(
        self, code: str, *arguments: str, told: str = "", environment: Mapping[str, str] = os.environ
    ) -> forked_drivers.Started:
        (self._directory / "driver_of_a_test.py").write_text(SAYS + code)
        self._in.write_text(told)
        with open(self._in, "rb") as stdin, open(self._out, "wb") as out, open(self._err, "wb") as err:
            command = [sys.executable, "-m", "driver_of_a_test", *arguments]
            return forked_drivers.start(
                command, stdin=stdin, stdout=out, stderr=err, cwd=self._directory, env=environment
            )

    def out(self) -> list[str]:
        return self._out.read_text().splitlines()

    def err(self) -> str:
        return self._err.read_text()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_it_has_what_it_was_started_with_and_its_exit_code_comes_back(program: Program) -> None:
    code = "print(*sys.argv[1:], input(), os.getcwd(), os.environ.get('OF_THE_TEST'))\nsys.exit(3)"

    process = program.start(code, "a", "b c", told="word\n", environment={**os.environ, "OF_THE_TEST": "x"})

    assert isinstance(process, Forked)
    assert process.wait(60) == 3
    assert program.out() == [f"a b c word {Path(program._directory)} x", "at exit"]


def test_a_sentence_and_an_exception_are_told_as_a_python_tells_them(program: Program) -> None:
    assert program.start("sys.exit('why not')").wait(60) == 1
    assert (program.out(), program.err()) == (["at exit"], "why not\n")

    assert program.start("{}['nobody']").wait(60) == 1
    assert program.out() == ["at exit"]
    assert program.err().endswith("KeyError: 'nobody'\n")


def test_it_is_killed_and_interrupted_as_any_process(program: Program) -> None:
    waits = (
        "import time\ntry:\n print('waits', flush=True)\n time.sleep(60)\n"
        "except KeyboardInterrupt:\n sys.exit(7)"
    )
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 7)):
        process = program.start(waits)
        eventually(lambda: program.out() == ["waits"])
        process.send_signal(number)
        assert process.wait(60) == code


def test_its_server_of_forks_is_its_child_and_forks(program: Program) -> None:
    """Beside it, not in it: a driver's death is what ends it."""
    (program._directory / "forked.py").write_text(
        "import os, sys\nprint(os.getppid(), 'pandas' in sys.modules, os.environ['PYTHONHASHSEED'])"
    )
    code = """
import subprocess
from pathlib import Path
from odradek.spark import fork_client, fork_server
server = fork_server.start(Path("socket").absolute(), Path("nowhere"))
client = [sys.executable, "-I", "-S", fork_client.__file__, "socket", sys.executable, "-m", "forked"]
found = subprocess.run(client, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True)
parent = Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
print(found.stdout.split() == [str(server.pid), "True", "0"], parent == str(os.getpid()), type(server).__name__)
server.stdin.close()
print(server.wait(60))
"""
    assert program.start(code).wait(60) == 0, program.err()
    assert program.out() == ["True True _ForkedServer", "0", "at exit"]


def test_one_whose_python_is_to_begin_otherwise_has_its_own(program: Program) -> None:
    process = program.start(
        "print(os.environ['PYTHONHASHSEED'])", environment={**os.environ, "PYTHONHASHSEED": "7"}
    )

    assert isinstance(process, subprocess.Popen)
    assert process.wait(60) == 0
    assert program.out() == ["7", "at exit"]
