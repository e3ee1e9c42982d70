"""`odradek up`: a development cluster in this terminal, one process a broker, gone when this one is.

With `--zookeeper N` the metadata is kept by N servers of ZooKeeper, started and stopped with the brokers.

With `--json` one line says that it is ready: `{"bootstrap", "controller", "brokers": [{"id", "host", "port",
"pid", "dir"}]}`. What a broker logs is in `broker.log` of its directory, at most 64 MB of it. A broker that dies is
reported and the others go on; `odradek start --config` on the `server.properties` in its directory brings it back.
"""

import contextlib
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from odradek.cli.begun import seconds_since_start
from odradek.cli.output import fail, json_option, print_json, print_table
from odradek.cli.pairs import named_values
from odradek.model.counted import counted
from odradek.model.ids import LAST_PORT
from odradek.model.listeners import METRICS_LISTENER

if TYPE_CHECKING:
    from odradek.log.files import Lock
    from odradek.testing.process_cluster import ProcessCluster
    from odradek.testing.zookeeper import ZooKeeperEnsemble

USUAL_PORT = 9092
POLL_S = 0.1
PROBE_S = 1.0  # an address that is advertised
STOP_S = 60.0  # a busy machine needs longer than the seconds that it takes; whoever cannot wait presses Ctrl-C again
SAYS_WHY = "odradek: "  # how the last line of a broker begins that ends for a reason of its own
# What a directory may hold already: a cluster of before, or what mkfs makes.
OF_A_CLUSTER = ("broker-*", "odradek-store.sqlite", "zookeeper", "lost+found")


NUMBERS = ("broker.id", "node.id")
EACH_ITS_OWN = ("listeners", "advertised.listeners", "log.dir", "log.dirs", METRICS_LISTENER)


class Stop(BaseException):
    """SIGTERM, SIGINT or SIGHUP: stop everything, and it is no error."""


_came: list[int] = []  # signals: what one raises in the midst of an import may be swallowed there
# One that comes together with another may be heard when the brokers have stopped: a temporary directory is removed nevertheless.
_is_over = False


@click.command()
@click.option(
    "--brokers", "-n", default=3, show_default=True, type=click.IntRange(1, 64), help="How many of them."
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Kept, but for server.properties, which are written anew; without it, a temporary one.",
)
@click.option("--port", type=click.IntRange(0, LAST_PORT), help="Of the first broker; 0 takes free ones.")
@click.option(
    "--metrics-port",
    type=click.IntRange(1, LAST_PORT),
    help="Of the first broker's /metrics, for Prometheus; the others follow.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of every broker.")
@click.option(
    "--zookeeper",
    default=0,
    metavar="N",
    type=click.IntRange(0, 7),
    help="Keep the metadata in N servers of ZooKeeper, started here too; needs Java and pyspark's jars.",
)
@json_option
def up(
    brokers: int,
    directory: Path | None,
    port: int | None,
    metrics_port: int | None,
    settings: tuple[str, ...],
    zookeeper: int,
    as_json: bool,
) -> None:
    """A development cluster in this terminal; Ctrl-C stops it."""
    from odradek.server.stopping_signals import stopping_signals

    global _is_over
    _came.clear()
    _is_over = False
    with contextlib.ExitStack() as stack:
        try:
            for number in stopping_signals():
                stack.callback(signal.signal, number, signal.signal(number, _stop))
            if directory is None:
                work = tempfile.TemporaryDirectory(prefix="odradek-", ignore_cleanup_errors=True)
                directory = Path(stack.enter_context(work))
            values = parse_settings(settings, brokers)
            check_directory(directory)
            first, metrics = rows_of_ports(port, metrics_port, brokers)
            check_listeners(values, first)
            for sentence in nobody_serves_at(values, first):
                print(f"odradek: {sentence}", file=sys.stderr, flush=True)
            make_directory(directory)
            stack.callback(hold(directory).release)
            ensemble = stack.enter_context(running_zookeeper(directory, zookeeper, as_json))
            run(directory, brokers, first, metrics, values, ensemble, as_json)
        except Stop:
            pass
        finally:
            _is_over = True


@contextlib.contextmanager
def running_zookeeper(directory: Path, servers: int, as_json: bool) -> "Iterator[ZooKeeperEnsemble | None]":
    """It outlives the brokers, which need it to stop in order."""
    if not servers:
        yield None
        return
    from odradek.testing.zookeeper import ZooKeeperEnsemble, missing

    if reason := missing():
        fail(f"--zookeeper: {reason}")

    def tell(sentence: str) -> None:
        if not as_json:
            print(sentence, flush=True)

    begun = time.perf_counter()
    ensemble = ZooKeeperEnsemble(directory / "zookeeper", servers=servers, is_synced=True)
    tell(f"starting {counted(servers, 'ZooKeeper server')} at {ensemble.connect}")
    with ensemble:
        tell(f"ZooKeeper serves after {(time.perf_counter() - begun) * 1000:.0f} ms; starting the brokers")
        yield ensemble
    tell("everything is stopped")


def run(
    directory: Path,
    brokers: int,
    port: int | None,
    metrics_port: int | None,
    settings: dict[str, str],
    ensemble: "ZooKeeperEnsemble | None",
    as_json: bool,
) -> None:
    from odradek.testing.process_cluster import ProcessCluster

    cluster = ProcessCluster(
        directory,
        brokers=brokers,
        settings=settings,
        first_port=port,
        zookeeper=None if ensemble is None else ensemble.connect,
        metrics_port=metrics_port,
        may_fork=True,
    )
    try:
        cluster.start()
        ready_ms = seconds_since_start() * 1000
        report = describe(cluster)
        if as_json:
            print_json(report)
        else:
            show(report, ready_ms)
        watch(cluster, ensemble)
    finally:
        # Not in a function of its own: one that came together with the first would be heard at its begin, before `try`.
        try:
            cluster.stop(deadline_s=STOP_S)
        except Stop:  # a second Ctrl-C while the brokers stop kills them at once
            cluster.stop(deadline_s=0)


def describe(cluster: "ProcessCluster") -> dict[str, Any]:
    from odradek.client.sync import SyncClient

    with SyncClient(cluster.bootstrap) as client:
        controller = client.cluster([]).controller_id
    store = {} if cluster.zookeeper is None else {"zookeeper": cluster.zookeeper}
    return {
        **store,
        "bootstrap": cluster.bootstrap,
        "controller": controller,
        "brokers": [
            {
                "id": broker.broker_id,
                "host": broker.host,
                "port": broker.port,
                "pid": broker.pid,
                "dir": str(broker.directory),
                **({} if (url := cluster.metrics_url(broker)) is None else {"metrics": url}),
            }
            for broker in cluster.brokers.values()
        ],
    }


def show(report: dict[str, Any], ready_ms: float) -> None:
    count = len(report["brokers"])
    print(f"{counted(count, 'broker')} ready in {ready_ms:.0f} ms, bootstrap {report['bootstrap']}")
    print_table(
        ("broker", "address", "pid", "directory", "role"),
        [
            (
                broker["id"],
                f"{broker['host']}:{broker['port']}",
                broker["pid"],
                broker["dir"],
                "controller" if broker["id"] == report["controller"] else "",
            )
            for broker in report["brokers"]
        ],
    )
    if urls := [broker["metrics"] for broker in report["brokers"] if "metrics" in broker]:
        print(f"metrics at {', '.join(urls)}")
    print("Ctrl-C stops the cluster.", flush=True)


def watch(cluster: "ProcessCluster", ensemble: "ZooKeeperEnsemble | None" = None) -> None:
    """Until a signal comes or no broker is left; says once of each that died how to start it again."""
    told: set[int] = set()
    servers = [] if ensemble is None else list(ensemble.servers)
    while len(told) < len(cluster.brokers):
        if _came:
            raise Stop
        for server in [server for server in servers if not server.is_running]:
            servers.remove(server)
            print(
                f"odradek: the ZooKeeper server at {server.address} ended; {'1 is' if len(servers) == 1 else f'{len(servers)} are'} left. Its log is "
                f"{server.log_file}",
                file=sys.stderr,
                flush=True,
            )
        for broker in cluster.brokers.values():
            if broker.broker_id not in told and not broker.is_running:
                told.add(broker.broker_id)
                assert broker.process is not None
                code = broker.process.returncode
                assert code is not None
                how = f"by signal {-code}" if code < 0 else f"with code {code}"
                why = broker.last_words(1)
                if code > 0 and why.startswith(SAYS_WHY):
                    how += f": {why.removeprefix(SAYS_WHY)}"
                print(
                    f"odradek: broker {broker.broker_id} ended {how}; start it again with: "
                    f"odradek start --config {shlex.quote(str(broker.config_file))}",
                    file=sys.stderr,
                    flush=True,
                )
        time.sleep(POLL_S)
    fail(f"no broker is left; the logs are in {cluster.directory}/broker-*/broker.log")


def check_directory(directory: Path) -> None:
    """Before anything is written. A second cluster would put its ports over those of one that runs there; among files
    of somebody else it would be hard to remove."""
    from odradek.log.errors import DirectoryInUse
    from odradek.log.files import LOCK_NAME, OsDirectory

    try:
        names = [name for name in os.listdir(directory) if name != LOCK_NAME]
    except FileNotFoundError:
        return
    except OSError as error:
        _cannot_be_had(directory, error)
    if not names:
        return
    if not any(fnmatch(name, of_ours) for name in names for of_ours in OF_A_CLUSTER):
        fail(
            f"--dir {directory}: there are other files and no cluster; name an empty directory, or a new one"
        )
    lock = hold(directory)  # another `up` starts brokers here: the look would be in the way of theirs
    try:
        for data in sorted(directory.glob("broker-*/data")):
            OsDirectory(str(data)).lock().release()
    except DirectoryInUse:
        _runs_already(directory)
    finally:
        lock.release()


def make_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        _cannot_be_had(directory, error)


def hold(directory: Path) -> "Lock":
    """Until it is released: of two that begin at once neither has a broker whose directory would be in use."""
    from odradek.log.errors import DirectoryInUse, StorageError
    from odradek.log.files import OsDirectory

    try:
        return OsDirectory(str(directory)).lock()
    except DirectoryInUse:
        _runs_already(directory)
    except StorageError as error:
        fail(f"--dir {directory}: {error.message}; name another --dir")


def _runs_already(directory: Path) -> NoReturn:
    fail(f"a cluster runs in {directory} already; stop it, or name another --dir")


def _cannot_be_had(directory: Path, error: OSError) -> NoReturn:
    fail(f"--dir {directory}: {error.strerror}; name a directory that you may write")


def rows_of_ports(port: int | None, metrics_port: int | None, brokers: int) -> tuple[int | None, int | None]:
    """The first port of the brokers and of their metrics; None: any, or no metrics."""
    first = first_port(port, brokers)
    if metrics_port is None:
        return first, None
    metrics = row_of_ports("--metrics-port", metrics_port, brokers)
    if first is not None and abs(first - metrics) < brokers:
        raise click.UsageError(
            f"--metrics-port {metrics}: port {max(first, metrics)} is that of a broker; theirs begin with {first}"
        )
    return first, metrics


def first_port(asked: int | None, brokers: int) -> int | None:
    """The first of `brokers` ports in a row, or None for any that are free."""
    if asked == 0:
        return None
    if asked is not None:
        return row_of_ports("--port", asked, brokers, "--port 0 takes free ones, --port N others")
    return USUAL_PORT if taken_of(USUAL_PORT, brokers) is None else None


def row_of_ports(option: str, first: int, brokers: int, remedy: str = "") -> int:
    """`first`, where it and as many behind it as there are brokers are free."""
    if first + brokers - 1 > LAST_PORT:
        raise click.UsageError(
            f"{option} {first}: {brokers} brokers would need ports up to {first + brokers - 1}, and {LAST_PORT} is the last"
        )
    taken = taken_of(first, brokers)
    if taken is None:
        return first
    port, why = taken
    return fail(f"port {port} {why}; {remedy or f'{option} N takes others'}")


def check_listeners(settings: dict[str, str], first: int | None) -> None:
    """Those of a cluster of one broker: it is waited for, and asked, at `first`."""
    from odradek.model.listeners import parse_listeners

    if "listeners" not in settings:
        return
    ports = [listener.port for listener in parse_listeners("listeners", settings["listeners"])]
    if first not in ports:
        named = [port for port in ports if port]  # 0 is any, as it is to --port
        remedy = f"say --port {named[0]}" if named else "name a port there, and the same with --port"
        raise click.UsageError(
            f"--set listeners: none has the port of --port, at which the broker is waited for; {remedy}"
        )


def nobody_serves_at(settings: dict[str, str], first: int | None) -> Iterator[str]:
    """A sentence for each address of `advertised.listeners` whose name is not known, or that is no port of the broker's and that nobody
    forwards yet."""
    import socket

    from odradek.client.sync_connection import Address
    from odradek.model.listeners import parse_listeners

    advertised = settings.get("advertised.listeners")
    if not advertised:
        return
    own = {0, first}
    if "listeners" in settings:
        own.update(listener.port for listener in parse_listeners("listeners", settings["listeners"]))
    for name, host, port in parse_listeners("advertised.listeners", advertised):
        address = Address(host or socket.gethostname(), port)
        try:
            if port in own:  # nobody can be there before the broker
                socket.getaddrinfo(*address)
            else:
                socket.create_connection(address, PROBE_S).close()
        except (OSError, UnicodeError) as error:  # of a name with an empty label, or one of 64 characters
            why = getattr(error, "strerror", None) or error
            yield (
                f"--set advertised.listeners: {name} sends clients to {address}, where nobody answers ({why}); name an address of the "
                "broker's, or forward that one to it. The broker reaches itself by the listener of brokers, and is not ready before it does"
            )


def taken_of(first: int, count: int) -> tuple[int, str] | None:
    """Of as many ports in a row the first that cannot be opened, and why."""
    for port in range(first, first + count):
        why = why_not_free(port)
        if why:
            return port, why
    return None


def why_not_free(port: int) -> str:
    """Empty where it is free."""
    import errno
    import socket

    with socket.socket() as probe:
        # As the listener does it: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return "is in use" if error.errno == errno.EADDRINUSE else f"cannot be opened ({error.strerror})"
    return ""


def parse_settings(pairs: tuple[str, ...], brokers: int, *, has_ports: bool = True) -> dict[str, str]:
    """NAME=VALUE pairs, checked here so that a wrong one is one sentence and not three dead brokers, or brokers that are
    waited for where they are not. `has_ports`: the verb has options for what each broker has of its own."""
    from odradek.model.errors import ConfigurationError
    from odradek.model.settings import BrokerSettings

    settings = named_values(pairs, "--set ", "min.insync.replicas=2")
    for name in settings:
        if name in NUMBERS:
            raise click.UsageError(f"--set {name}: brokers are numbered from 1")
        if name in EACH_ITS_OWN and brokers > 1:
            how = "say --metrics-port" if name == METRICS_LISTENER else "say --port or --dir"
            raise click.UsageError(
                f"--set {name}: {brokers} brokers cannot have the same; "
                f"{how if has_ports else 'each has its own here'}"
            )
    try:
        BrokerSettings(settings)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    return settings


def _stop(number: int, _frame: FrameType | None) -> None:
    if _is_over or len(_came) > 1:
        return  # the second has killed what there is
    if number == signal.SIGHUP and _came:
        return  # a terminal that is closed may say so twice
    _came.append(number)
    raise Stop
