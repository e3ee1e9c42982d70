"""Brokers that are forked for tests live and end as those do that begin with a Python of their own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.server import exit_codes
from tests import forked_brokers
from tests.fork_servers import Forked
from tests.server.processes import OneBroker

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="brokers are forked on Linux only"),
]


@pytest.fixture
def broker(tmp_path: Path) -> OneBroker:
    return OneBroker(tmp_path)


def test_it_serves_and_its_exit_codes_come_back(broker: OneBroker) -> None:
    broker.start()
    process = broker.process.process
    assert isinstance(process, Forked)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.0)
    assert broker.terminate() == exit_codes.STOPPED_IN_ORDER == process.poll()
    process.kill()  # of whoever has ended already nothing is done

    broker.start()
    broker.process.kill()
    assert broker.process.process is not process
    assert broker.process.process is not None and broker.process.process.returncode == -signal.SIGKILL


def test_it_ends_when_its_pipe_is_closed(broker: OneBroker) -> None:
    broker.start()
    broker.process.let_go()
    assert broker.process.wait(60) == 0


def test_it_has_the_environment_of_its_moment(broker: OneBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_LOG_LEVEL", "ERROR")
    broker.start()
    assert broker.process.log_file.read_text() == ""
    broker.stop()


def test_one_whose_python_is_to_begin_otherwise_has_its_own(
    broker: OneBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    broker.start()
    assert isinstance(broker.process.process, subprocess.Popen)
    broker.stop()


def test_a_server_that_was_killed_is_replaced(broker: OneBroker) -> None:
    server = forked_brokers.server.process
    server.kill()
    server.wait(60)
    broker.start()
    assert isinstance(broker.process.process, Forked)
    broker.stop()
