"""`odradek test-cluster`: a cluster in this one process, for tests in any language, with an address at which it is told what to suffer.

With a command behind `--` the command runs beside it, with the addresses in its environment; the cluster ends with it, and the
exit code is the command's.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import click

from odradek.cli.begun import seconds_since_start
from odradek.cli.output import fail, json_option, print_json
from odradek.model.counted import counted
from odradek.model.ids import LAST_PORT

BOOTSTRAP, CONTROL = "ODRADEK_BOOTSTRAP", "ODRADEK_CONTROL"
NOT_FOUND, NOT_RUN = 127, 126  # as shells have them
LOOK_S = 0.1


@click.command(name="test-cluster", context_settings={"allow_interspersed_args": False})
@click.option(
    "--brokers", "-n", default=3, show_default=True, type=click.IntRange(1, 16), help="How many of them."
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of every broker.")
@click.option(
    "--control",
    "control_port",
    default=0,
    type=click.IntRange(0, LAST_PORT),
    help="Port of the HTTP control; 0 takes a free one.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@json_option
def test_cluster(
    brokers: int, settings: tuple[str, ...], control_port: int, command: tuple[str, ...], as_json: bool
) -> None:
    """A cluster in one process for tests in any language, controlled over HTTP: -- COMMAND runs beside it."""
    from odradek.cli.up import parse_settings
    from odradek.testing.control_server import ControlServer
    from odradek.testing.running_cluster import running_cluster

    values = parse_settings(settings, brokers, has_ports=False)
    with contextlib.ExitStack() as stack:
        ended = stack.enter_context(_stopped_by_signals())
        cluster = stack.enter_context(running_cluster(brokers=brokers, settings=values))
        try:
            control = stack.enter_context(ControlServer(cluster, port=control_port))
        except OSError as error:
            fail(f"--control {control_port}: {error.strerror}; 0 takes a free port")
        ready_ms = seconds_since_start() * 1000
        if as_json:
            print_json({"bootstrap": cluster.bootstrap, "control": control.url})
        elif not command:
            print(f"{counted(brokers, 'broker')} ready in {ready_ms:.0f} ms, bootstrap {cluster.bootstrap}")
            print(f"control {control.url}; Ctrl-C stops the cluster.", flush=True)
        if not command:
            wait_for(ended)
            return
        code = _run(command, {BOOTSTRAP: cluster.bootstrap, CONTROL: control.url}, ended)
    sys.exit(code)


def wait_for(ended: threading.Event) -> None:
    """Step by step. Python's handler of a signal runs when this thread does, and one that comes as the wait begins, or is given to
    another thread, does not end the wait."""
    while not ended.wait(LOOK_S):
        pass


def _run(command: tuple[str, ...], addresses: dict[str, str], ended: threading.Event) -> int:
    _leave_first_interrupt_to_command(ended)
    try:
        process = subprocess.Popen(command, env={**os.environ, **addresses})
    except OSError as error:
        print(f"odradek: {command[0]}: {error.strerror}", file=sys.stderr)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUN
    watcher = threading.Thread(target=_end_with, args=(ended, process), daemon=True)
    watcher.start()
    code: int | None = None
    while code is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(LOOK_S)  # as `wait_for` does
    return code if code >= 0 else 128 - code  # as shells say it of a signal


def _end_with(ended: threading.Event, process: "subprocess.Popen[bytes]") -> None:
    ended.wait()
    process.terminate()


def _leave_first_interrupt_to_command(ended: threading.Event) -> None:
    """A terminal sends Ctrl-C to the command as well, which may need a while to clean up. The second one ends it."""

    def first(*_: object) -> None:
        signal.signal(signal.SIGINT, lambda *_: _end(ended))

    signal.signal(signal.SIGINT, first)


def _end(ended: threading.Event) -> None:
    """From a handler of signals, which another signal may interrupt: the lock of an event is not to be held here."""
    threading.Thread(target=ended.set, daemon=True).start()


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Set at SIGINT and SIGTERM, and where the terminal is closed."""
    from odradek.server.stopping_signals import stopping_signals

    ended = threading.Event()
    before = {number: signal.signal(number, lambda *_: _end(ended)) for number in stopping_signals()}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
