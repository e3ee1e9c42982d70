"""`odradek up` and `odradek start`: ready lines, deaths, restarts, and nothing left behind."""

import errno
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import weakref
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import click
import psutil
import pytest
from click.testing import CliRunner

from odradek import __version__
from odradek.cli import up as up_module
from odradek.cli.output import Failed
from odradek.cli.up import check_directory
from odradek.client.sync import SyncClient
from odradek.server import exit_codes
from odradek.testing.process_cluster import BrokerProcess, free_ports
from tests.cli.conftest import Shell
from tests.support import eventually, started

pytestmark = pytest.mark.process
CLOCK_TICK_MS = 10  # how exactly the system remembers when a process began
UP = [sys.executable, "-m", "odradek.cli.main", "up"]


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(") ")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.fixture
def up(tmp_path):
    """Starts `up` with these options; (process, ready line). Whatever is left at the end is killed."""
    started = []

    def start(*options, is_kept=True):
        where = ("--dir", str(tmp_path / "it's up")) if is_kept else ()
        process = subprocess.Popen(
            [*UP, "--port", "0", "--json", *where, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(tmp_path)},
        )
        started.append(process)
        line = process.stdout.readline()
        assert line, process.stderr.read()
        return process, json.loads(line)

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def swallowed(raises):
    """Python goes on behind what a callback of a weak reference raises; each import has such a callback."""

    class Lock:
        pass

    lock = Lock()
    gone = weakref.ref(lock, lambda _: raises())
    del lock
    assert gone() is None


def test_a_signal_that_an_import_swallowed_stops_the_cluster_once_it_is_ready(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    monkeypatch.setattr(up_module, "_came", [])
    swallowed(lambda: up_module._stop(signal.SIGINT, None))
    assert [unraisable.exc_type for unraisable in told] == [up_module.Stop]
    brokers = {1: SimpleNamespace(broker_id=1, is_running=True)}
    with pytest.raises(up_module.Stop):
        up_module.watch(SimpleNamespace(brokers=brokers, directory=Path()))


def test_a_terminal_that_is_closed_is_not_a_second_ctrl_c(monkeypatch):
    """A login shell passes its SIGHUP on, and when it ends the kernel sends another: brokers were killed by it, or left."""
    monkeypatch.setattr(up_module, "_came", [])
    with pytest.raises(up_module.Stop):
        up_module._stop(signal.SIGHUP, None)
    up_module._stop(signal.SIGHUP, None)
    with pytest.raises(up_module.Stop):
        up_module._stop(signal.SIGINT, None)
    up_module._stop(signal.SIGTERM, None)  # what is killed already is waited for


def test_brokers_have_a_minute_to_stop_in_order_and_a_second_ctrl_c_kills_them(monkeypatch, tmp_path):
    """On a busy machine they were killed after ten seconds, and each log had to be recovered at the next start."""
    asked = []

    def stop(deadline_s=10.0):
        asked.append(deadline_s)
        if len(asked) == 1:
            raise up_module.Stop

    def start():
        raise up_module.Stop

    cluster = SimpleNamespace(start=start, stop=stop)
    monkeypatch.setattr("odradek.testing.process_cluster.ProcessCluster", lambda *_, **__: cluster)
    with pytest.raises(up_module.Stop):
        up_module.run(tmp_path, 1, None, None, {}, None, True)
    assert asked == [60.0, 0]


def test_ctrl_c_while_a_verb_is_imported_ends_the_command_at_once():
    program = (
        "import signal, sys\n"
        "from odradek.cli import group, main\n"
        "from tests.cli.test_up import swallowed\n"
        "def imported(name, of=group.importlib.import_module):\n"
        "    swallowed(lambda: signal.raise_signal(signal.SIGINT))\n"
        "    return of(name)\n"
        "group.importlib.import_module = imported\n"
        "sys.argv[1:] = ['topic', 'list', '-b', '127.0.0.1:1']\n"
        "sys.exit(main.main())\n"
    )
    default = partial(
        signal.signal, signal.SIGINT, signal.SIG_DFL
    )  # also where the tests were started with `&`
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, preexec_fn=default
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_ready_line_tells_all_and_a_signal_stops_everything(up, number):
    process, ready = up("--brokers", "2")
    assert set(ready) == {"bootstrap", "controller", "brokers"}
    assert [set(broker) for broker in ready["brokers"]] == [{"id", "host", "port", "pid", "dir"}] * 2
    assert ready["controller"] in [broker["id"] for broker in ready["brokers"]]
    with SyncClient(ready["bootstrap"]) as client:
        view = client.cluster()
    assert {(b.broker_id, b.address.port) for b in view.brokers.values()} == {
        (broker["id"], broker["port"]) for broker in ready["brokers"]
    }
    process.send_signal(number)
    assert process.wait(60) == 0
    assert not any(is_alive(broker["pid"]) for broker in ready["brokers"])


def test_two_signals_at_once_stop_everything_and_are_no_error(up, tmp_path):
    """The second came before the brokers were waited for, when the temporary directory was removed, which stayed, or when the
    handlers were put back, and was a trace."""
    process, ready = up("--brokers", "1", is_kept=False)
    process.send_signal(signal.SIGSTOP)
    eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):
        process.send_signal(number)
    assert (process.wait(60), process.stderr.read()) == (0, "")
    assert not is_alive(ready["brokers"][0]["pid"])
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_in_a_terminal_stops_a_cluster_that_has_partitions_at_once_and_in_order(tmp_path):
    """A terminal sends it to every process of the group. A broker that took it for a wish to stop alone would look for
    other leaders among brokers that stop as well, for longer than it is waited for."""
    directory = tmp_path / "up"
    process = subprocess.Popen(
        [*UP, "--port", "0", "--json", "--dir", str(directory)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        ready = json.loads(process.stdout.readline())
        shell = Shell(ready["bootstrap"])
        shell.ok("topic", "create", "orders", "-p", 6, "-r", 3)
        groups = {os.getpgid(broker["pid"]) for broker in ready["brokers"]}
        assert process.pid not in groups
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    for log in directory.glob("broker-*/broker.log"):
        said = log.read_text()
        assert said.endswith("has stopped (odradek.server)\n"), said
        assert "controlled shutdown, attempt" not in said


def test_it_says_how_long_it_took_since_it_was_typed(tmp_path):
    """Half a second passes before Python has read a line of ours: that is part of it."""
    script = (
        "import sys, time; time.sleep(0.5); from odradek.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    options = ["--brokers", "1", "--port", "0", "--dir", str(tmp_path / "up")]
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", script, "up", *options], stdout=subprocess.PIPE, text=True
    )
    try:
        said = process.stdout.readline()
        passed_ms = (time.monotonic() - begun) * 1000
    finally:
        process.terminate()
        process.communicate(timeout=60)
    (claimed_ms,) = re.findall(r"^1 broker ready in (\d+) ms, bootstrap ", said)
    assert 500 < int(claimed_ms) <= passed_ms + CLOCK_TICK_MS


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it counts from the first line of ours")
def test_what_passes_before_the_first_line_of_ours_is_counted():
    script = "import time; time.sleep(0.5); from odradek.cli.begun import seconds_since_start; print(seconds_since_start())"
    begun = time.monotonic()
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert 0.5 < float(answer.stdout) <= time.monotonic() - begun + CLOCK_TICK_MS / 1000


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each broker is a new Python")
def test_brokers_are_forked_from_one_import(up):
    """Each in a session of imports of its own would take three times the processor."""
    process, ready = up("--brokers", "2")
    for broker in ready["brokers"]:
        child = psutil.Process(broker["pid"])
        assert child.ppid() == process.pid
        assert child.cmdline() == psutil.Process(process.pid).cmdline()
        assert child.name() == f"broker-{broker['id']}"
    log = Path(ready["brokers"][0]["dir"]) / "broker.log"
    assert eventually(lambda: " serves at " in log.read_text(), what="the broker says where it serves")
    assert f"(odradek {__version__}) serves at " in log.read_text(), "in a roll: which release runs here"


def test_the_brokers_die_with_a_terminal_that_was_killed(up):
    process, ready = up("--brokers", "2")
    process.kill()
    process.wait()
    eventually(
        lambda: not any(is_alive(broker["pid"]) for broker in ready["brokers"]), what="no broker is left"
    )


def test_a_broker_that_ends_for_a_reason_is_reported_with_it(capsys, tmp_path):
    full = "append to 00000000000000000000.log: No space left on device. Make room, then restart this broker"
    broker = BrokerProcess(1, tmp_path, "127.0.0.1", 1)
    broker.log_file.write_text(f"[2026-11-28 22:00:53,349] INFO broker 1 has stopped\nodradek: {full}\n")
    broker.process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(5)"])
    broker.process.wait()
    with pytest.raises(Failed, match="no broker is left"):
        up_module.watch(SimpleNamespace(brokers={1: broker}, directory=tmp_path))
    assert f"broker 1 ended with code 5: {full}; start it again with: " in capsys.readouterr().err


def test_where_a_log_is_empty_the_room_on_its_disk_is_said(tmp_path):
    broker = BrokerProcess(1, tmp_path, "127.0.0.1", 1)
    broker.log_file.write_text("")
    assert re.fullmatch(r"nothing is in its log, and the disk has room for \d+ bytes", broker.last_words())


def test_a_killed_broker_is_reported_and_start_brings_it_back(up):
    process, ready = up("--brokers", "3")
    victim = next(broker for broker in ready["brokers"] if broker["id"] != ready["controller"])
    os.kill(victim["pid"], signal.SIGKILL)
    told = process.stderr.readline()
    config = f"{victim['dir']}/server.properties"
    assert told == (
        f"odradek: broker {victim['id']} ended by signal 9; start it again with: "
        f"odradek start --config {shlex.quote(config)}\n"
    )
    again = subprocess.Popen(
        [sys.executable, "-m", "odradek.cli.main", "start", "--config", config, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        line = json.loads(again.stdout.readline())
        assert (line["id"], line["pid"], line["ready"]) == (victim["id"], again.pid, True)
        with SyncClient(ready["bootstrap"]) as client:
            eventually(lambda: victim["id"] in client.cluster([]).brokers, what="it is in the cluster again")
    finally:
        again.terminate()
        assert again.wait(60) == 0
        again.stdout.close()


def test_without_a_directory_nothing_stays_on_disk(tmp_path):
    process = subprocess.Popen(
        [*UP, "--brokers", "1", "--port", "0", "--json"], stdout=subprocess.PIPE, text=True
    )
    try:
        ready = json.loads(process.stdout.readline())
        directory = ready["brokers"][0]["dir"]
        assert os.path.exists(f"{directory}/server.properties")
    finally:
        process.terminate()
        assert process.wait(60) == 0
        process.stdout.close()
    assert not os.path.exists(os.path.dirname(directory))


def test_a_port_in_use_is_one_sentence(tmp_path):
    """And nothing is left of what was refused."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        answer = subprocess.run(
            [*UP, "--brokers", "1", "--port", str(port), "--dir", str(tmp_path / "new")],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (answer.returncode, answer.stdout) == (1, "")
    assert not any(tmp_path.iterdir())
    assert answer.stderr == f"odradek: port {port} is in use; --port 0 takes free ones, --port N others\n"


def test_a_port_that_needs_privileges_is_not_called_in_use(monkeypatch):
    def refused(self: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket.socket, "bind", refused)
    said = "port 81 cannot be opened (Permission denied); --port 0 takes free ones, --port N others"
    with pytest.raises(Failed, match=re.escape(said)):
        up_module.first_port(81, 1)


def test_a_second_cluster_in_the_same_directory_leaves_the_first_one_as_it_is(up):
    """Its ports would stand in the server.properties that brings a broker of the first one back."""
    _, ready = up("--brokers", "1")
    (broker,) = ready["brokers"]
    config = Path(broker["dir"]) / "server.properties"
    before = config.read_text()
    directory = str(config.parent.parent)
    answer = subprocess.run(
        [*UP, "--brokers", "1", "--port", "0", "--dir", directory], capture_output=True, text=True, timeout=60
    )
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        f"odradek: a cluster runs in {directory} already; stop it, or name another --dir\n"
    )
    assert config.read_text() == before


def test_of_two_that_begin_in_one_directory_at_once_one_has_it(tmp_path):
    """Each took the other's broker for its own, or waited a minute for one that served at another port."""
    command = [*UP, "--brokers", "1", "--port", "0", "--json", "--dir", str(tmp_path / "both")]
    with (
        started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one,
        started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as other,
    ):
        eventually(lambda: one.poll() is not None or other.poll() is not None, 60, "one of them is refused")
        refused, has_it = (one, other) if one.poll() is not None else (other, one)
        assert (refused.returncode, refused.stdout.read()) == (1, "")
        said = json.loads(refused.stderr.read())["error"]
        assert said == f"a cluster runs in {tmp_path / 'both'} already; stop it, or name another --dir"
        assert json.loads(has_it.stdout.readline())["brokers"], "and the other one serves"
        has_it.send_signal(signal.SIGINT)
        assert has_it.wait(60) == 0


def test_who_looks_for_a_cluster_takes_no_lock_from_a_broker_that_starts(tmp_path):
    """The look itself had the lock of each log directory for a moment, and a broker that started just then found it in use."""
    data = tmp_path / "broker-1" / "data"
    data.mkdir(parents=True)
    lock = up_module.hold(tmp_path)
    with pytest.raises(Failed, match=r"a cluster runs in .* already"):
        check_directory(tmp_path)
    assert list(data.iterdir()) == []
    lock.release()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".lock").touch()
    check_directory(tmp_path / "other")  # of one that ended before it had made a broker
    check_directory(tmp_path)
    up_module.hold(tmp_path).release()


def test_up_says_before_it_waits_that_nobody_serves_at_an_advertised_address(monkeypatch):
    monkeypatch.setattr(up_module, "run", lambda *_: None)
    options = ["--brokers", "1", "--port", "0", "--set", "advertised.listeners=PLAINTEXT://nobody.invalid:0"]
    answer = CliRunner().invoke(up_module.up, options)
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert answer.stderr.startswith("odradek: --set advertised.listeners: PLAINTEXT sends clients to nobody")


def test_a_directory_whose_lock_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / ".lock").mkdir()
    with pytest.raises(Failed, match=f"--dir {tmp_path}: .*; name another --dir"):
        up_module.hold(tmp_path)


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    directory = str(tmp_path / "file" / "up")
    answer = subprocess.run([*UP, "--dir", directory], capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        f"odradek: --dir {directory}: Not a directory; name a directory that you may write\n"
    )


def test_a_directory_with_other_files_is_left_as_it_is(tmp_path):
    """Its logs and its store among somebody's files would be hard to tell from them."""
    (tmp_path / "thesis.txt").write_text("years")
    answer = subprocess.run(
        [*UP, "--port", "0", "--dir", str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        f"odradek: --dir {tmp_path}: there are other files and no cluster; name an empty directory, or a new one\n"
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["broker-1", "odradek-store.sqlite", "zookeeper", "lost+found"])
def test_a_directory_of_a_cluster_may_hold_other_files_too(name, tmp_path):
    (tmp_path / name).mkdir()
    (tmp_path / "notes.txt").write_text("")
    check_directory(tmp_path)


def test_zookeeper_without_what_it_needs_is_one_sentence_before_anything_starts(tmp_path):
    script = (
        "import sys\n"
        "sys.modules['kazoo'] = None\n"
        "from odradek.cli.main import main\n"
        f"sys.exit(main(['up', '--zookeeper', '1', '--dir', {str(tmp_path / 'up')!r}]))\n"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "pip install 'odradek[spark,zookeeper]'" in answer.stderr and answer.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "min.insync.replica=2"], "did you mean min.insync.replicas?"),
        (["--set", "num.partitions=0"], "must be 1 or more"),
        (["--set", "nothing"], "expected NAME=VALUE"),
        (["--set", "broker.id=5", "--brokers", "1"], "--set broker.id: brokers are numbered from 1"),
        (
            ["--set", "log.dirs=/nowhere"],
            "--set log.dirs: 3 brokers cannot have the same; say --port or --dir",
        ),
        (["--brokers", "0"], "0"),
        (["--port", "65534"], "--port 65534: 3 brokers would need ports up to 65536, and 65535 is the last"),
        (["--dir", __file__], "is a file"),
    ],
)
def test_a_wrong_setting_is_refused_before_any_broker_starts(options, words):
    answer = subprocess.run([*UP, *options], capture_output=True, text=True, timeout=30)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert words in answer.stderr and answer.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("broker.id=1\nlistenrs=PLAINTEXT://:9092\n", "did you mean listeners?"),
        ("listeners=PLAINTEXT://127.0.0.1:0\n", "broker.id is not set; give each"),
        ("broker.id=-3\n", "broker.id=-3; give each"),
        ("node.id=-1\n", "node.id=-1; give each"),
    ],
)
def test_start_refuses_a_wrong_configuration_in_one_sentence(tmp_path, text, words):
    config = tmp_path / "server.properties"
    if text is not None:
        config.write_text(text)
    answer = subprocess.run(
        [sys.executable, "-m", "odradek.cli.main", "start", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == exit_codes.CONFIGURATION
    assert words in answer.stderr and answer.stderr.count("\n") == 1


def test_each_broker_serves_its_metrics_where_the_ready_line_says(up):
    (port,) = free_ports(1)
    process, ready = up("--brokers", "1", "--metrics-port", str(port))
    url = ready["brokers"][0]["metrics"]
    assert url == f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    assert "kafka_controller_kafkacontroller_activecontrollercount 1" in lines
    second = subprocess.run(
        [*UP, "--port", "0", "--metrics-port", str(port)], capture_output=True, text=True, timeout=60
    )
    assert second.returncode == 1
    assert second.stderr == f"odradek: port {port} is in use; --metrics-port N takes others\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--metrics-port", "65534"), "3 brokers would need ports up to 65536, and 65535 is the last"),
        (
            ("--set", "odradek.metrics.listener=http://localhost:9404"),
            "3 brokers cannot have the same; say --metrics-port",
        ),
    ],
)
def test_ports_of_metrics_that_cannot_be_are_said(options, sentence):
    ended = subprocess.run([*UP, "--port", "0", *options], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert sentence in " ".join(ended.stderr.split())


def test_a_server_of_zookeeper_that_ended_is_told_once(monkeypatch, capsys, tmp_path):
    looks = []
    monkeypatch.setattr(up_module, "_came", came := [])
    monkeypatch.setattr(
        up_module.time, "sleep", lambda _: looks.append(1) or len(looks) < 3 or came.append(15)
    )
    cluster = SimpleNamespace(brokers={1: SimpleNamespace(broker_id=1, is_running=True)}, directory=tmp_path)
    servers = [
        SimpleNamespace(address=f"h:{port}", is_running=port != 2, log_file=tmp_path / "log")
        for port in (1, 2)
    ]
    with pytest.raises(up_module.Stop):
        up_module.watch(cluster, SimpleNamespace(servers=servers))
    assert capsys.readouterr().err == (
        f"odradek: the ZooKeeper server at h:2 ended; 1 is left. Its log is {tmp_path / 'log'}\n"
    )


def test_the_last_port_is_one_too(monkeypatch):
    monkeypatch.setattr(up_module, "why_not_free", lambda port: "")
    assert up_module.first_port(65_534, 2) == 65_534
    with pytest.raises(click.UsageError, match="3 brokers would need ports up to 65536"):
        up_module.first_port(65_534, 3)


def test_the_usual_ports_are_left_where_one_of_them_is_taken(monkeypatch):
    monkeypatch.setattr(up_module, "why_not_free", lambda port: "is in use" if port == 9094 else "")
    assert [up_module.first_port(None, brokers) for brokers in (2, 3)] == [9092, None]


def test_a_port_whose_last_connection_was_just_closed_is_free():
    """A cluster that is stopped and begun again, under clients that were connected."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            server.accept()[0].close()
            assert client.recv(1) == b""
    assert up_module.why_not_free(port) == ""


def test_a_directory_is_made_for_its_owner_alone(tmp_path):
    """Records are in it, and what --set says: passwords perhaps."""
    before = os.umask(0o022)
    try:
        up_module.make_directory(tmp_path / "new")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_port_of_metrics_that_is_a_brokers_own_is_a_wrong_question(monkeypatch):
    """One broker of three told that its port was in use, and to stop what listened there: the one beside it."""
    monkeypatch.setattr(up_module, "why_not_free", lambda port: "")
    assert up_module.rows_of_ports(7000, 7003, 3) == (7000, 7003)
    assert up_module.rows_of_ports(0, 9092, 3) == (None, 9092)
    for port, metrics_port, shared, first in (
        (7000, 7002, 7002, 7000),
        (7002, 7000, 7002, 7002),
        (None, 9092, 9092, 9092),
    ):
        said = f"--metrics-port {metrics_port}: port {shared} is that of a broker; theirs begin with {first}"
        with pytest.raises(click.UsageError, match=said):
            up_module.rows_of_ports(port, metrics_port, 3)


def test_listeners_of_ones_own_have_the_port_at_which_the_broker_is_waited_for():
    """It served at another one; after a minute it was stopped, because it did not answer."""
    settings = up_module.parse_settings(("listeners=A://127.0.0.1:7001,B://0.0.0.0:7000",), 1)
    up_module.check_listeners(settings, 7000)
    up_module.check_listeners({}, None)
    for first in (9092, None):
        with pytest.raises(
            click.UsageError, match=r"--set listeners: none has the port of --port.*; say --port 7001"
        ):
            up_module.check_listeners(settings, first)
    any_port = up_module.parse_settings(("listeners=A://127.0.0.1:0,B://127.0.0.1:7002",), 1)
    with pytest.raises(click.UsageError, match="; say --port 7002"):
        up_module.check_listeners(any_port, None)
    with pytest.raises(click.UsageError, match="; name a port there, and the same with --port"):
        up_module.check_listeners(
            {"listeners": "A://127.0.0.1:0"}, None
        )  # --port 0 is refused by the same rule
    with pytest.raises(click.UsageError, match="2 brokers cannot have the same"):
        up_module.parse_settings(("listeners=A://127.0.0.1:7001",), 2)


def test_an_advertised_address_at_which_nobody_serves_is_said_and_one_that_is_forwarded_is_not():
    """Clients waited, and `up` did for a minute, without a word."""
    with socket.create_server(("127.0.0.1", 0)) as forwarder, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        there, nowhere = forwarder.getsockname()[1], closed.getsockname()[1]

        def said(advertised, listeners="A://127.0.0.1:7000"):
            given = (f"listeners={listeners}", f"advertised.listeners={advertised}")
            return list(up_module.nobody_serves_at(up_module.parse_settings(given, 1), 7000))

        assert said(f"A://127.0.0.1:{there}") == said("A://127.0.0.1:7000") == said("A://127.0.0.1:0") == []
        (sentence,) = said(f"A://127.0.0.1:{nowhere}")
        assert (
            f"A sends clients to 127.0.0.1:{nowhere}, where nobody answers (Connection refused)" in sentence
        )
        assert "name an address of the broker's, or forward that one to it" in sentence
        for unknown in ("nobody.invalid", "a" * 64, "a..b"):
            for port in (7000, 0, nowhere):
                (sentence,) = said(f"A://{unknown}:{port}")
                assert f"to {unknown}:{port}, where nobody answers (" in sentence
        (sentence,) = said(f"A://[::1]:{nowhere}")
        assert f"[::1]:{nowhere}, where" in sentence
        both = "A://127.0.0.1:7000,B://127.0.0.1:7001"
        (sentence,) = said(f"A://127.0.0.1:7000,B://127.0.0.1:{nowhere}", both)
        assert ": B sends clients" in sentence
        alone = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{nowhere}"}
        assert len(list(up_module.nobody_serves_at(alone, 7000))) == 1
        assert list(up_module.nobody_serves_at(alone, nowhere)) == []
