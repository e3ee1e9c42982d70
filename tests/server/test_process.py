"""A broker as a process: how it starts, stops, comes back, and what it says when it cannot."""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from odradek.client.sync import SyncClient
from odradek.client.sync_connection import ConnectionLost
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.server import exit_codes
from odradek.server.warm_up import MODULES
from odradek.testing.process_cluster import ClusterNotReady, ProcessCluster
from tests.server.processes import OneBroker, create_topic, leaders
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("new_pythons")]

ELECTED = "] elected with epoch"
LONG_MS = 110_000  # longer than any deadline here


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    one = OneBroker(tmp_path)
    yield one
    one.stop()


def produce(address: str, topic: str, value: bytes) -> int:
    with SyncClient(address) as client:
        return client.produce(TopicPartition(topic, 0), batch_of(value))


def batch_of(value: bytes) -> bytes:
    return build_batch([NewRecord(None, value)])


def end_of(address: str, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    with SyncClient(address) as client:
        return client.end_offsets([partition])[partition]


# --- starting and stopping


def test_sigterm_stops_in_order_and_the_next_start_finds_everything(broker: OneBroker) -> None:
    broker.start()
    broker.create_topic("orders")
    produce(broker.address, "orders", b"one")

    assert broker.terminate() == exit_codes.STOPPED_IN_ORDER
    assert (broker.data / ".kafka_cleanshutdown").exists()
    broker.start()

    assert not (broker.data / ".kafka_cleanshutdown").exists(), "a crash from here on is unclean"
    assert end_of(broker.address, "orders") == 1
    assert produce(broker.address, "orders", b"two") == 1


def test_sigint_does_the_same(broker: OneBroker) -> None:
    broker.start()
    broker.process.signal(signal.SIGINT)

    assert broker.process.wait(60) == exit_codes.STOPPED_IN_ORDER
    assert (broker.data / ".kafka_cleanshutdown").exists()


def test_a_killed_broker_comes_back_at_once_with_what_it_had_acknowledged(broker: OneBroker) -> None:
    broker.configure(zookeeper_session_timeout_ms=str(LONG_MS))
    broker.start()
    broker.create_topic("orders")
    for number in range(20):
        produce(broker.address, "orders", b"%d" % number)
    broker.process.kill()

    broker.start()  # within a part of that: its old registration is gone, and nobody waits for the session's end

    assert end_of(broker.address, "orders") == 20


@pytest.mark.parametrize("uvloop", ["true", "false"])
def test_it_runs_on_either_loop(tmp_path: Path, uvloop: str) -> None:
    broker = OneBroker(tmp_path, odradek_uvloop=uvloop)
    try:
        broker.start()
        broker.create_topic("orders")
        assert produce(broker.address, "orders", b"one") == 0
        assert broker.terminate() == 0
    finally:
        broker.stop()


def test_a_controlled_shutdown_hands_leadership_over_first(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, brokers=3) as cluster:
        create_topic(cluster.bootstrap, "orders", 3, partitions=6)
        before = leaders(cluster, "orders")
        leaving = before[0][0]

        assert cluster.terminate(leaving) == 0

        assert "it may still lead partitions" not in cluster.brokers[leaving].log_file.read_text()

        def is_handed_over() -> bool:
            after = leaders(cluster, "orders").values()
            return all(leader not in (-1, leaving) and set(isr) == others for leader, isr in after)

        others = set(cluster.brokers) - {leaving}
        eventually(is_handed_over, 60, "all brokers have heard of it")
        cluster.restart(leaving)
        cluster.wait_until(
            lambda: all(len(isr) == 3 for _, isr in leaders(cluster, "orders").values()), "full ISRs"
        )


def test_a_second_signal_ends_the_waiting(tmp_path: Path) -> None:
    """Nobody can take over, so the shutdown would ask three times, far apart."""
    settings = {"controlled.shutdown.retry.backoff.ms": str(LONG_MS)}
    with ProcessCluster(tmp_path, brokers=2, settings=settings) as cluster:
        create_topic(cluster.bootstrap, "orders", 2)
        cluster.kill(1)
        broker = cluster.brokers[2]
        eventually(lambda: leaders(cluster, "orders")[0] == (2, (2,)), 60, "broker 2 leads alone")
        broker.signal(signal.SIGTERM)
        eventually(lambda: "attempt 1 of 3" in broker.log_file.read_text(), 60, "the first attempt")

        broker.signal(signal.SIGTERM)

        assert broker.wait(60) == 0
        assert (broker.directory / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("before, stops_at", [("SIG_DFL", "SIGHUP"), ("SIG_IGN", "SIGTERM")])
def test_a_broker_whose_terminal_is_closed_stops_in_order_unless_nohup_started_it(
    tmp_path: Path, before: str, stops_at: str
) -> None:
    broker = OneBroker(tmp_path)
    begin = (
        "import signal, sys; signal.signal(signal.SIGHUP, getattr(signal, sys.argv[2]))\n"
        "from odradek.server.main import read_configuration, run_broker\n"
        "sys.exit(run_broker(read_configuration(sys.argv[1])))"
    )
    command = [sys.executable, "-c", begin, str(broker.process.config_file), before]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            next(line for line in process.stderr if " serves at " in line)
            process.send_signal(signal.SIGHUP)
            if stops_at == "SIGTERM":
                process.send_signal(signal.SIGTERM)
            told = process.stderr.read()
            assert process.wait(60) == 0, told
        finally:
            process.kill()
    assert f"{stops_at}: stopping" in told and (broker.data / ".kafka_cleanshutdown").exists()


def test_a_survivor_reads_no_python_file_when_the_controller_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it was imported in the quiet, in the order of `MODULES` (`server/warm_up.py`)."""
    monkeypatch.setenv("PYTHONVERBOSE", "1")
    with ProcessCluster(tmp_path, brokers=3) as cluster:
        create_topic(cluster.bootstrap, "orders", 3)
        logs = {number: broker.log_file for number, broker in cluster.brokers.items()}
        for log in logs.values():
            eventually(
                lambda log=log: f"import '{MODULES[-1]}'" in log.read_text(errors="replace"),
                60,
                "everything imported",
            )
        (dead,) = [number for number, log in logs.items() if ELECTED in log.read_text()]
        survivors = [log for number, log in logs.items() if number != dead]
        journals = [
            broker.directory / "data" / "state-change.log"
            for n, broker in cluster.brokers.items()
            if n != dead
        ]
        quiet = {log: len(log.read_text()) for log in survivors}

        cluster.kill(dead)
        eventually(lambda: leaders(cluster, "orders")[0][0] not in (-1, dead), 60, "another leader")

        eventually(
            lambda: any(file.exists() and "[Controller id=" in file.read_text() for file in journals),
            60,
            "its first step is told",
        )

        said = [log.read_text()[quiet[log] :] for log in survivors]
        assert any(ELECTED in lines for lines in said)
        imported = [line for lines in said for line in lines.splitlines() if line.startswith("import '")]
        assert imported == []


# --- nobody is left behind


def test_a_broker_ends_when_whoever_started_it_is_gone(broker: OneBroker) -> None:
    broker.start()

    broker.process.let_go()

    assert broker.process.wait(60) == exit_codes.STOPPED_IN_ORDER


def test_a_killed_parent_leaves_no_process_behind(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from odradek.testing.process_cluster import ProcessCluster\n"
        f"cluster = ProcessCluster({str(tmp_path)!r}, brokers=2).start()\n"
        "print(*[broker.pid for broker in cluster.brokers.values()], flush=True)\n"
        "time.sleep(1000)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2 and all(psutil.pid_exists(pid) for pid in pids)
    finally:
        parent.kill()
        parent.wait()

    eventually(lambda: not any(is_alive(pid) for pid in pids), 60, "the brokers are gone")


def test_ctrl_c_in_a_terminal_reaches_no_broker(broker: OneBroker) -> None:
    """The terminal signals the group of whoever has it; a broker is in one of its own."""
    broker.start()

    assert os.getpgid(broker.process.pid) == broker.process.pid


def test_a_cluster_that_does_not_start_says_at_once_what_its_broker_said(tmp_path: Path) -> None:
    cluster = ProcessCluster(tmp_path, brokers=1, settings={"broker.rackk": "a"})
    with pytest.raises(ClusterNotReady) as refused, cluster:
        pass
    first, second = str(refused.value).splitlines()
    assert first == f"broker 1 exited with code {exit_codes.CONFIGURATION}:"
    assert "broker.rackk: no such broker setting" in second


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


# --- refusing, with one sentence


def test_a_port_in_use(broker: OneBroker) -> None:
    with socket.create_server((broker.process.host, broker.process.port)):
        code, said = broker.refuses()

    assert code == exit_codes.PORT
    assert said == (
        f"odradek: port {broker.process.port} is in use, so PLAINTEXT://{broker.address} cannot be opened; "
        "stop what listens there, or choose another port in listeners (0 takes a free one)"
    )


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    broker = OneBroker(tmp_path, listeners="PLAINTEXT://192.0.2.7:19092")

    code, said = broker.refuses()

    assert code == exit_codes.PORT
    assert "choose an address of this machine" in said and said.count("\n") == 0


def test_the_directory_of_another_broker(broker: OneBroker, tmp_path: Path) -> None:
    broker.start()
    assert broker.terminate() == 0
    before = (broker.data / "meta.properties").read_bytes()
    other = OneBroker(tmp_path / "other", broker_id=2, log_dirs=str(broker.data))

    code, said = other.refuses()

    assert code == exit_codes.LOG_DIRECTORY
    assert "belongs to broker 1, this is broker 2" in said and said.count("\n") == 0
    assert (broker.data / "meta.properties").read_bytes() == before
    broker.start()


def test_a_directory_in_use(broker: OneBroker, tmp_path: Path) -> None:
    broker.start()
    other = OneBroker(tmp_path / "other", log_dirs=str(broker.data))

    code, said = other.refuses()

    assert code == exit_codes.LOG_DIRECTORY
    assert "is in use by another process" in said and said.count("\n") == 0
    assert broker.is_serving()


def test_an_id_that_lives_already(broker: OneBroker, tmp_path: Path) -> None:
    broker.start()
    other = OneBroker(
        tmp_path / "other",
        odradek_store=str(broker.data / "odradek-store.sqlite"),
        zookeeper_session_timeout_ms="1000",
    )

    code, said = other.refuses_with(exit_codes.BROKER_ID)

    assert code == exit_codes.BROKER_ID
    assert f"broker 1 is registered at {broker.address} by a process that lives" in said
    assert broker.is_serving()


def test_a_store_of_a_newer_release(broker: OneBroker) -> None:
    broker.start()
    assert broker.terminate() == 0
    store = sqlite3.connect(broker.data / "odradek-store.sqlite")
    store.execute("PRAGMA user_version = 99")
    store.close()

    code, said = broker.refuses()

    assert code == exit_codes.STORE
    assert "99" in said and said.count("\n") == 0


def test_a_truncated_store(broker: OneBroker) -> None:
    broker.start()
    assert broker.terminate() == 0
    os.truncate(broker.data / "odradek-store.sqlite", 100)

    code, said = broker.refuses()

    assert code == exit_codes.STORE
    assert "odradek-store.sqlite" in said and said.count("\n") == 0


def test_a_misspelt_setting(broker: OneBroker) -> None:
    broker.configure(num_partition="3")

    code, said = broker.refuses()

    assert code == exit_codes.CONFIGURATION
    assert broker.process.config_file.name in said.partition(": num.partition: ")[0]
    assert said.endswith(": num.partition: no such broker setting; did you mean num.partitions?")


def test_a_missing_configuration_file(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "odradek.server", "--config", str(tmp_path / "none.properties")],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ended.returncode == exit_codes.CONFIGURATION
    assert "No such file or directory; --config wants a properties file" in ended.stderr


def test_a_level_of_logging_that_there_is_not(broker: OneBroker) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "odradek.server", "--config", str(broker.process.config_file)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "ODRADEK_LOG_LEVEL": "loud"},
    )

    assert ended.returncode == exit_codes.CONFIGURATION
    assert ended.stderr == "odradek: ODRADEK_LOG_LEVEL=LOUD: expected DEBUG, INFO, WARNING or ERROR\n"


# --- disks that refuse


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four mebibytes; only root may mount one."""
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    where = tmp_path / "disk"
    where.mkdir()
    if subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(where)], capture_output=True
    ).returncode:
        pytest.skip("no file system may be mounted here")
    yield where
    subprocess.run(["umount", str(where)], check=True)


def test_a_full_disk_stops_the_broker_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    broker = OneBroker(
        tmp_path / "one",
        log_dirs=str(small_disk / "data"),
        odradek_store=str(tmp_path / "store.sqlite"),
        odradek_journal_dir=str(tmp_path / "journal"),
        auto_create_topics_enable="false",
    )
    try:
        broker.start()
        broker.create_topic("orders")
        acknowledged = 0
        batch = batch_of(bytes(200_000))
        with SyncClient(broker.address) as client:
            for _ in range(100):
                try:
                    client.produce(TopicPartition("orders", 0), batch)
                except (ConnectionLost, ProtocolError):  # it says why, or is gone before it can
                    break
                acknowledged += 1
        assert 0 < acknowledged < 100
        assert broker.process.wait(60) == exit_codes.DISK
        assert "No space left on device" in broker.process.last_words(3)

        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        broker.start()
        assert end_of(broker.address, "orders") == acknowledged
    finally:
        broker.stop()


def test_a_read_only_disk(small_disk: Path, tmp_path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    broker = OneBroker(
        tmp_path / "one", log_dirs=str(small_disk / "data"), odradek_store=str(tmp_path / "store.sqlite")
    )

    code, said = broker.refuses()

    assert code == exit_codes.DISK
    assert "Read-only file system" in said and said.count("\n") == 0


def test_a_log_directory_that_is_there_and_read_only(small_disk: Path, tmp_path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    broker = OneBroker(
        tmp_path / "one", log_dirs=str(small_disk), odradek_store=str(tmp_path / "store.sqlite")
    )

    code, said = broker.refuses()

    assert code == exit_codes.DISK
    assert said == (
        f"odradek: log directory {small_disk} must be one that this broker may read and write: "
        "Read-only file system"
    )
