"""One broker as a process: `run_broker(settings)`, called by `odradek start` and `python -m odradek.server`.

SIGTERM, SIGINT and SIGHUP are a controlled shutdown; a second SIGTERM or SIGINT stops at once. Whatever cannot be is one
sentence on standard error that says what would have worked, and an exit code (exit_codes.py).
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.settings import BROKER_SETTINGS, BrokerSettings, parse_properties
from odradek.server import descriptors, thread_starts
from odradek.server.exit_codes import FAILED, STOPPED_IN_ORDER, exit_code_of
from odradek.server.log_limits import LimitedLog, OneLine
from odradek.server.standard_error import LimitedFileHandler
from odradek.server.stopping_signals import stopping_signals

if TYPE_CHECKING:
    from odradek.server.broker_runtime import BrokerRuntime
    from odradek.server.environment import Environment
    from odradek.store.api import StoreProvider

logger = logging.getLogger("odradek.server")

# In the first log directory: the session with ZooKeeper, to be ended by whoever is started after us.
LAST_SESSION_FILE = "zookeeper-session.json"
# Objects of a broker live long or die in the callback that made them; looking for cycles finds nothing. Looking at fewer at once
# (5,000, 5) halves the turn in which 10,000 members leave a group, and costs more than it spares where a thousand partitions are made.
GC_THRESHOLDS = (50_000, 50, 100)
# A thread that runs Python (a controller's large step, a load) keeps the interpreter for so long, and the loop
# gives it away at every system call: with the 5 ms of the default a request takes 6 ms beside a busy thread, with 0.5 ms
# about 1 ms, with this one 0.2. Two busy threads get as much done as with the default.
SWITCH_INTERVAL_S = 0.00005
WARM_AGAIN_S = 1.0


def run_broker(
    settings: BrokerSettings,
    *,
    on_ready: "Callable[[BrokerRuntime], None] | None" = None,
    stop_when_closed: int | None = None,
    log_file: Path | None = None,
) -> int:
    """Runs until a signal comes; returns the exit code. `stop_when_closed` is the read end of a pipe: when
    its other end is closed, whoever started us is gone, and so shall we be. `log_file` is what standard error is.
    """
    code: int | None = None
    try:
        configure_logging(log_file)
        descriptors.take_all()
        thread_starts.bound_all()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        with asyncio.Runner(loop_factory=_loop_factory(settings)) as runner:
            code = runner.run(_serve(settings, on_ready, stop_when_closed))
        return code
    except Exception as error:
        if code is not None:  # there is no thread to wait for those by that look up names, say
            logger.warning("behind the end: %r", error)
            return code
        return _tell(error)


def _tell(error: Exception) -> int:
    code = exit_code_of(error)
    if code is None and not isinstance(error, OdradekError):
        logger.error("the broker stops: %r", error, exc_info=error)
        return FAILED
    print(f"odradek: {error}", file=sys.stderr, flush=True)
    return FAILED if code is None else code


async def _serve(
    settings: BrokerSettings,
    on_ready: "Callable[[BrokerRuntime], None] | None",
    stop_when_closed: int | None,
) -> int:
    from odradek.server.broker_runtime import BrokerRuntime
    from odradek.server.environment import Environment
    from odradek.server.warm_up import warm_up

    loop = asyncio.get_running_loop()
    stop = _StopRequest(loop)
    for number in stopping_signals():
        loop.add_signal_handler(number, stop.signalled, number)
    if stop_when_closed is not None:
        os.set_blocking(stop_when_closed, False)
        loop.add_reader(stop_when_closed, stop.parent_gone, stop_when_closed)
    environment = Environment(loop)
    descriptors.keep_spare(loop)
    runtime = BrokerRuntime(settings, environment, open_provider(settings), is_alone=True)
    starting = loop.create_task(runtime.start())
    await asyncio.wait({starting, stop.asked}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
    if starting.cancelled() or starting.exception() is not None:
        await runtime.stop(is_controlled=False)
        if starting.cancelled():
            return STOPPED_IN_ORDER
        error = starting.exception()
        assert error is not None
        raise error
    gc.set_threshold(*GC_THRESHOLDS)
    if on_ready is not None:
        on_ready(runtime)
    warming = loop.create_task(_warm(environment, warm_up))
    while not await _stopped(runtime, stop):
        stop.forget()
    warming.cancel()
    environment.close()
    return STOPPED_IN_ORDER


async def _warm(environment: "Environment", warm_up: Callable[[], None]) -> None:
    """Beside what the broker does: it may have to wait for a thread, or for a descriptor to read a file by."""
    limited = LimitedLog(logger, environment.loop.time)
    while True:
        try:
            await environment.run_blocking(warm_up)
            break
        except (OSError, MemoryError, ImportError) as error:  # ImportError: of an extension module
            limited.warning("warm", f"the rest of this program cannot be read yet: {error!r}")
            await asyncio.sleep(WARM_AGAIN_S)
    # What is here now stays: the collector need not look at it again.
    gc.collect()
    gc.freeze()


async def _stopped(runtime: "BrokerRuntime", stop: "_StopRequest") -> bool:
    """Serves until somebody asks it to stop; False when that was refused, and it serves on."""
    from odradek.server.shutdown_refusal import ShutdownRefused

    broken = runtime.broken
    awaited: set[asyncio.Future[Any]] = {stop.asked, broken}
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
    if broken.done():
        await runtime.stop(is_controlled=False)
        raise broken.result()
    stopping = asyncio.ensure_future(runtime.stop(is_controlled=stop.is_controlled))
    await asyncio.wait({stopping, stop.asked_again}, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        logger.warning("asked again: stopping at once, without the rest of the controlled shutdown")
        runtime.hurry()
        await asyncio.wait({stopping})
    try:
        stopping.result()
    except ShutdownRefused as refused:
        logger.error("%s", refused)
        return False
    return True


class _StopRequest:
    """Signals, and the end of whoever started us."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.asked: asyncio.Future[None] = loop.create_future()
        self.asked_again: asyncio.Future[None] = loop.create_future()
        self.is_controlled = True

    def forget(self) -> None:
        """What was asked was refused; it may be asked again. Without a parent nobody would."""
        self.asked = self._loop.create_future()
        self.asked_again = self._loop.create_future()
        if not self.is_controlled:
            self.asked.set_result(None)

    def signalled(self, number: int) -> None:
        if not self.asked.done():
            logger.info("%s: stopping", signal.Signals(number).name)
            self.asked.set_result(None)
        elif number != signal.SIGHUP and not self.asked_again.done():  # of a closed terminal two may come
            self.asked_again.set_result(None)

    def parent_gone(self, descriptor: int) -> None:
        if os.read(descriptor, 1024):
            return
        self._loop.remove_reader(descriptor)
        logger.info("whoever started this broker let go of it; stopping")
        # All brokers of that cluster stop now: there is nobody to hand leadership to.
        self.is_controlled = False
        if not self.asked.done():
            self.asked.set_result(None)
        elif not self.asked_again.done():
            self.asked_again.set_result(None)


def open_provider(settings: BrokerSettings) -> "StoreProvider":
    """The store the settings name: `zookeeper.connect`'s ensemble, or the file of the embedded store.

    For the broker alone, once it has the lock on its log directories: with it ends the session of the process
    before.
    """
    connect = settings.zookeeper_connect
    if connect and settings.odradek_store:
        raise ConfigurationError(
            f"zookeeper.connect={connect} and odradek.store={settings.odradek_store} name two stores; set one"
        )
    if connect:
        try:
            from odradek.store.zookeeper.last_session import LastSession
            from odradek.store.zookeeper.stores import ZooKeeperStores
        except ImportError as error:
            raise ConfigurationError(
                "zookeeper.connect needs kazoo: pip install 'odradek[zookeeper]'; without zookeeper.connect, "
                "brokers of one host share the file that odradek.store names"
            ) from error
        return ZooKeeperStores.of(
            settings, LastSession(Path(settings.log_directories[0]) / LAST_SESSION_FILE)
        )
    from odradek.store.embedded import EmbeddedStores
    from odradek.store.embedded.file import had_one

    path = settings.store_file
    assert path is not None, "store_file is None only with zookeeper.connect"
    return EmbeddedStores(Path(path), lambda path: _has_cluster(settings) or had_one(path))


def _has_cluster(settings: BrokerSettings) -> str | None:
    """As half a sentence; None where no log directory names a cluster. One that cannot be read is told by whoever
    claims it."""
    from odradek.log import checkpoints

    for directory in settings.log_directories:
        with suppress(OSError, checkpoints.MalformedCheckpoint):
            data = (Path(directory) / checkpoints.META_PROPERTIES).read_bytes()
            cluster_id = checkpoints.read_meta_properties(data).cluster_id
            if cluster_id is not None:
                return f"log directory {directory} belongs to cluster {cluster_id}"
    return None


def _loop_factory(settings: BrokerSettings) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if settings.odradek_uvloop:
        try:
            from odradek.server.uv_loop import Loop
        except ImportError:
            return None
        return Loop
    return None


def configure_logging(log_file: Path | None = None) -> None:
    """One line per event on standard error. What the program around us configured is left alone."""
    if logging.getLogger().handlers:
        return
    level = os.environ.get("ODRADEK_LOG_LEVEL", "INFO").upper()
    if level not in logging.getLevelNamesMapping():
        raise ConfigurationError(f"ODRADEK_LOG_LEVEL={level}: expected DEBUG, INFO, WARNING or ERROR")
    handler = logging.StreamHandler(sys.stderr) if log_file is None else LimitedFileHandler(log_file)
    handler.setFormatter(OneLine("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
    logging.basicConfig(level=level, handlers=[handler])


def read_configuration(path: str) -> BrokerSettings:
    """The settings of a properties file; ConfigurationError says what is wrong with it."""
    try:
        with open(path, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            properties = parse_properties(file.read())
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}; --config wants a properties file") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not a text in UTF-8 ({error.reason})") from error
    try:
        settings = settings_from(properties)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    secrets = [name for name in sorted(settings.given) if BROKER_SETTINGS[name].is_sensitive]
    if secrets and mode & 0o077:
        logger.warning(
            "%s can be read by other users and holds %s: chmod 600 %s", path, ", ".join(secrets), path
        )
    return settings


def settings_from(properties: Mapping[str, str]) -> BrokerSettings:
    settings = BrokerSettings.from_properties(properties)
    if settings.broker_id < 0:
        name = "node.id" if "node.id" in properties else "broker.id"
        found = f"{name}={settings.broker_id}" if name in properties else f"{name} is not set"
        raise ConfigurationError(f"{found}; give each broker of a cluster its own number, 0 or more")
    return settings
