"""The tools of the nightly run: a proxy that holds back, faults that heal, a table that says what is wrong, an end by Ctrl-C."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException

from odradek.testing.process_cluster import free_ports
from tests.clients.load import Load
from tests.clients.support import Books
from tests.nightly.__main__ import nightly
from tests.nightly.faults import terminated
from tests.nightly.hostile import Result
from tests.nightly.proxy import FROM_BROKER, Proxies
from tests.nightly.report import report
from tests.nightly.storm import PARTITIONS, Injected, Round, takes_writes
from tests.support import eventually

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def echoing() -> Iterator[tuple[socket.socket, int, Proxies]]:
    """(listening socket of the one behind, port of the proxy, proxies)"""
    (port,) = free_ports(1)
    with (
        socket.create_server(("127.0.0.1", 0)) as behind,
        Proxies({port: behind.getsockname()[1]}) as proxies,
    ):
        behind.settimeout(60)
        yield behind, port, proxies


def test_a_producer_whose_thread_has_ended_is_named_at_once_and_not_waited_for() -> None:
    """It was: a silent producer looked like a cluster that takes no writes."""
    books = Books()
    load = Load(
        "127.0.0.1:1", "t", books, partitions=PARTITIONS, records_per_second=200, options={"log_level": 0}
    )
    assert not takes_writes(load, [0] * PARTITIONS)
    for partition in range(PARTITIONS):
        books.acknowledge(partition, 0, 0)
    assert takes_writes(load, [0] * PARTITIONS)
    assert not takes_writes(load, [0] * (PARTITIONS - 1) + [1])

    load.error = KafkaException("Local: Unknown topic")
    with pytest.raises(AssertionError, match=r"the producer's thread ended with .*Unknown topic"):
        takes_writes(load, [0] * PARTITIONS)


def test_a_proxy_delivers_what_an_abandoned_connection_had_sent_and_then_its_end() -> None:
    with echoing() as (behind, port, proxies):
        client = socket.create_connection(("127.0.0.1", port), 60)
        server, _ = behind.accept()
        server.settimeout(60)
        client.sendall(b"before ")
        assert server.recv(100) == b"before "

        proxies.hold(port)
        client.sendall(b"late")
        client.close()
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.recv(100)

        server.settimeout(60)
        proxies.heal(port)
        assert server.recv(100) == b"late"
        assert server.recv(100) == b""
        server.close()


def test_a_proxy_can_hold_back_one_direction_alone() -> None:
    with echoing() as (behind, port, proxies):
        client = socket.create_connection(("127.0.0.1", port), 60)
        server, _ = behind.accept()
        server.settimeout(60)
        proxies.hold(port, (FROM_BROKER,))
        client.sendall(b"asked")
        assert server.recv(100) == b"asked"

        server.sendall(b"answered")
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(100)

        client.settimeout(60)
        proxies.heal(port)
        assert client.recv(100) == b"answered"
        client.close()
        server.close()


def test_a_cut_resets_every_connection() -> None:
    with echoing() as (behind, port, proxies):
        client = socket.create_connection(("127.0.0.1", port), 60)
        server, _ = behind.accept()
        client.sendall(b"x")
        assert server.recv(1) == b"x"
        proxies.cut(port)

        with client, server, pytest.raises(ConnectionResetError):
            client.recv(1)


def test_whoever_connects_to_a_broker_that_is_down_is_told_so() -> None:
    (port, nobody) = free_ports(2)
    # The reset may come before `connect` has returned.
    with (
        Proxies({port: nobody}),
        pytest.raises(ConnectionResetError),
        socket.create_connection(("127.0.0.1", port), 60) as client,
    ):
        client.recv(1)


def test_the_table_counts_faults_by_kind_and_ends_with_what_is_wrong() -> None:
    first = Round([Injected("kill -9", 1.0, 0.2), Injected("kill -9", 2.0, 0.8)], 70, 3.5, [])
    second = Round([Injected("SIGSTOP", 4.0, 0.1)], 30, 1.0, ["storm-1: record 7 is not there"])
    attack = Result("frames", 9, 4, 3, 2, 12.4, 34, 40, [])

    lines = report([first, second], [attack])

    assert "| SIGSTOP | 1 | 4 | 0.10, 0.10 |" in lines
    assert "| kill -9 | 2 | 3 | 0.50, 0.80 |" in lines
    assert any(line.startswith("3 faults in 2 rounds; 100 records acknowledged") for line in lines)
    assert "| frames | 9 | 4 | 3 | 2 | 12 | 34, 40 |" in lines
    assert lines[-1] == "WRONG: storm-1: record 7 is not there"
    assert report([first], [])[-1] == "Nothing was lost, doubled, moved or stuck."
    assert report([], [])[-1] == "Nothing was tried."


class Leaving:
    """A broker that was told to end and is not gone yet."""

    is_running = True

    def signal(self, number: int) -> None:
        assert number == signal.SIGTERM

    def wait(self, deadline_s: float) -> None:
        self.is_running = False


def test_a_broker_told_to_end_is_gone_at_the_end_of_the_fault_so_that_it_is_started_again() -> None:
    cluster = SimpleNamespace(brokers={1: Leaving(), 2: Leaving()})

    with terminated(cluster, [2, 1]):  # type: ignore[arg-type]
        assert cluster.brokers[2].is_running

    assert not cluster.brokers[2].is_running
    assert cluster.brokers[1].is_running


def test_control_c_among_the_hostile_input_tells_of_the_families_that_were_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def attack(*_: object, **__: object) -> Iterator[Result]:
        yield Result("frames", 9, 4, 3, 2, 12.4, 34, 40, [])
        raise KeyboardInterrupt

    monkeypatch.setattr("tests.nightly.__main__.attack", attack)
    told = CliRunner().invoke(nightly, [])

    assert told.exit_code == 1
    assert "| frames | 9 | 4 | 3 | 2 | 12 | 34, 40 |" in told.output
    assert "0 faults in 0 rounds" in told.output


@contextlib.contextmanager
def running_night(tmp_path: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.nightly", "--minutes", "30", *options]
    nightly = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell lets what it starts in the background ignore Ctrl-C, and so would all that we start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield nightly
    finally:
        nightly.kill()


def brokers_of(nightly: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(nightly.pid).children(recursive=True)


@pytest.mark.process
@pytest.mark.slow
def test_control_c_prints_the_table_so_far_and_leaves_no_process(tmp_path: Path) -> None:
    with running_night(tmp_path, "--faults-a-round", "1") as nightly:
        brokers = eventually(lambda: brokers_of(nightly), 60, "a broker runs")
        nightly.send_signal(signal.SIGINT)
        output, told = nightly.communicate(timeout=120)

    assert nightly.returncode == 1
    assert "stopped; the table so far:" in told
    # Mostly none: but the night does not wait until somebody sees its first broker.
    assert re.search(r"^[0-9]+ faults in [0-9]+ rounds; ", output, re.MULTILINE), output
    assert eventually(lambda: not any(broker.is_running() for broker in brokers), 30, "no broker runs")


@pytest.mark.process
@pytest.mark.slow
def test_a_stop_while_a_fault_holds_ends_it_and_tells_of_the_round_until_then(tmp_path: Path) -> None:
    """A broker that stands still (SIGSTOP) takes no SIGTERM: it would stay behind."""

    def stopped() -> list[psutil.Process]:
        return [one for one in brokers_of(nightly) if one.status() == psutil.STATUS_STOPPED]

    def is_held_in_a_fault() -> bool:
        """The night stands still in the midst of a fault, however busy the machine is; else it goes on."""
        if not stopped():
            return False
        nightly.send_signal(signal.SIGSTOP)
        eventually(
            lambda: psutil.Process(nightly.pid).status() == psutil.STATUS_STOPPED, 30, "it stands still"
        )
        if stopped():
            return True
        nightly.send_signal(signal.SIGCONT)
        return False

    with running_night(tmp_path, "--fault", "SIGSTOP") as nightly:
        eventually(stopped, 120, "a broker stands still")
        eventually(lambda: not stopped(), 60, "it goes on")
        eventually(is_held_in_a_fault, 120, "a later fault holds")
        brokers = brokers_of(nightly)
        nightly.send_signal(signal.SIGTERM)
        nightly.send_signal(signal.SIGCONT)
        output, told = nightly.communicate(timeout=120)

    assert nightly.returncode == 1
    assert "stopped; the table so far:" in told and "Traceback" not in told
    assert re.search(r"^[1-9][0-9]* faults in 1 rounds; 0 records acknowledged", output, re.MULTILINE), output
    assert "A round was stopped: " in output and "nothing went wrong" not in output.lower()
    assert eventually(lambda: not any(broker.is_running() for broker in brokers), 30, "no broker runs")
