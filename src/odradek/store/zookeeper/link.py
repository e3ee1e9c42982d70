"""The connection with an ensemble, kept by kazoo. The only module that imports it.

kazoo has threads of its own: one for the connection, one for watches, one for answers. The last two would let an
answer overtake the watch that came before it on the wire, so we take both from the connection's thread as they
come (`_Inline`) and hand them to the event loop in that order. That is ZooKeeper's own guarantee, kept.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Exists, GetChildren2, GetData
from kazoo.protocol.states import EventType, KeeperState

from odradek.model.remedies import MORE_DESCRIPTORS, MORE_THREADS
from odradek.store.api import (
    BadVersion,
    InvalidPath,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotAllowed,
    NotEmpty,
    OutOfTouch,
    SessionExpired,
    StoreError,
    StoreUnavailable,
    WatchEvent,
    WatchKind,
)
from odradek.store.zookeeper.patience import Patience
from odradek.store.zookeeper.requests import ArmMany
from odradek.store.zookeeper.security import Security

_CODES: Mapping[int, type[StoreError]] = {
    -101: NoNode,
    -103: BadVersion,
    -108: NoChildrenForEphemerals,
    -110: NodeExists,
    -111: NotEmpty,
    -112: SessionExpired,
}
_NO_AUTH, _INVALID_ACL, _AUTH_FAILED, _BAD_ARGUMENTS, _UNIMPLEMENTED, _NOT_READ_ONLY = (
    *(-102, -114, -115),
    *(-8, -6, -119),
)
_KINDS: Mapping[str, WatchKind] = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.CHILD: WatchKind.CHILDREN,
}
_log = logging.getLogger(__name__)
THREAD_AGAIN_S = 1.0

Settle = Callable[[Any, BaseException | None, int], None]


class LinkState(Enum):
    UP = "up"
    DOWN = "down"  # kazoo is connecting again
    OVER = "over"  # the session has ended, or was refused


class SessionKey(NamedTuple):
    """Whoever has both may end the session."""

    session_id: int
    password: bytes


class KazooLink:
    """One session's connection. Whatever is heard is told on the event loop, in the order of the wire."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        security: Security,
        *,
        on_state: Callable[[LinkState], None],
        on_negotiated: Callable[[float], None],
        on_watch: Callable[[WatchEvent], None],
        is_loop_late: Callable[[], bool] = lambda: False,
        key: SessionKey | None = None,
    ) -> None:
        """`is_loop_late`: whether no signs of life are to be given (`store/loop_beat`). `key`: of the session to go on with,
        in place of a new one."""
        self._loop = asyncio.get_running_loop()
        self._on_state = on_state
        self._on_negotiated = on_negotiated
        self._on_watch = on_watch
        self._is_loop_late = is_loop_late
        self._stopped: asyncio.Future[None] | None = None
        self._refusal: Exception | None = None  # once the credentials were refused
        self._words = _LastWords(_log, {})
        patience = Patience(session_timeout_ms / 1000)
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            client_id=key,
            handler=_Inline(security, patience),
            sasl_options=security.sasl_options(),
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
            logger=self._words,
        )
        self._client.add_listener(self._kazoo_became)
        self._note_negotiated_timeout()
        self._answer_in_time(patience)
        self._ping_for_the_loop()

    @property
    def session_id(self) -> int:
        """0 where there is none: refused, or over."""
        return int(self._client._session_id or 0)

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.session_id, bytes(self._client._session_passwd))

    @property
    def last_problem(self) -> str:
        """What kazoo said last about a connection that failed."""
        return self._words.last

    def start(self) -> None:
        """StoreUnavailable: there is no descriptor, or no thread, for it. Then it is to be stopped all the same."""
        try:
            self._client.start_async()
        except (OSError, RuntimeError, MemoryError) as error:
            raise StoreUnavailable(
                message=f"a connection with ZooKeeper cannot be begun: {str(error) or 'no memory'}; "
                + (MORE_DESCRIPTORS if isinstance(error, OSError) else MORE_THREADS)
            ) from error

    def leave_server(self) -> None:
        """It says nothing any more: kazoo takes the connection for lost, and goes on to the next member."""
        connected = self._client._connection._socket
        if connected is not None:
            with suppress(OSError):  # lost already
                # TLS's own would speak to the server first.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def stop(self) -> asyncio.Future[None]:
        """In a thread of its own, for kazoo waits until its connection's thread has noticed: at once where the
        server answers, else for as long as a session timeout. Nobody has to wait for that, and whoever asks again
        waits for the same end."""
        if self._stopped is None:
            self._stopped = self._loop.create_future()
            self._begin_to_stop(self._stopped)
        return asyncio.shield(self._stopped)

    def _begin_to_stop(self, stopped: asyncio.Future[None]) -> None:
        try:
            threading.Thread(
                target=self._stop, args=(stopped,), name="store end of session", daemon=True
            ).start()
        except (RuntimeError, MemoryError):  # the machine has none left now
            self._loop.call_later(THREAD_AGAIN_S, self._begin_to_stop, stopped)

    def _stop(self, stopped: asyncio.Future[None]) -> None:
        try:
            if self._client._connection._write_sock is not None:  # else it was never begun
                self._client.stop()
            self._client.close()
        except Exception:  # kazoo names no type: its thread did not end in time, and keeps its sockets
            _log.warning("The connection with ZooKeeper could not be closed", exc_info=True)
        finally:
            self._post(stopped.set_result, None)

    # ---- requests

    def ask(self, request: Any, settle: Settle) -> None:
        """Sends; `settle(value, error, zxid)` is called on the loop, in the order of the wire."""
        answer = self._client.handler.async_result()

        def tell(heard: Any) -> None:
            # A refusal is told as one, also to whoever asks when kazoo has closed the connection over it already.
            error = heard.exception and (self._refusal or heard.exception)
            self._post(settle, heard.value, error, self._client.last_zxid)

        # In kazoo's thread, right after the answer was read: `last_zxid` is that of this answer.
        answer.rawlink(tell)
        self._client._call(request, answer)
        # kazoo clears its queue when its thread ends; what came into it behind that is answered by nobody.
        if self._client._connection.connection_stopped.is_set() and not answer.ready():
            answer.set_exception(kazoo_errors.ConnectionClosedError())

    def get_data(self, path: str, watch: bool) -> Any:
        return GetData(path, self._kazoo_told if watch else None)

    def exists(self, path: str, watch: bool) -> Any:
        return Exists(path, self._kazoo_told if watch else None)

    def get_children(self, path: str, watch: bool) -> Any:
        return GetChildren2(path, self._kazoo_told if watch else None)

    def arm_many(self, paths: Sequence[str]) -> Any:
        return _Arming(paths, self._client._data_watchers, self._kazoo_told)

    # ---- in kazoo's thread

    def _post(self, callback: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # nobody listens any more
            if not self._loop.is_closed():
                raise

    def _kazoo_became(self, state: str) -> None:
        if self._client._state == KeeperState.AUTH_FAILED:
            self._refusal = kazoo_errors.AuthFailedError()
        link_state = {KazooState.CONNECTED: LinkState.UP, KazooState.SUSPENDED: LinkState.DOWN}
        self._post(self._on_state, link_state.get(state, LinkState.OVER))

    def _kazoo_told(self, event: Any) -> None:
        kind = _KINDS.get(event.type)
        if kind is not None:  # NONE: kazoo forgets its watches on a lost connection; we have our own list
            self._post(self._on_watch, WatchEvent(kind, event.path))

    def _note_negotiated_timeout(self) -> None:
        """The server may grant less than was asked for; kazoo keeps that to itself."""
        connection = self._client._connection
        connect = connection._connect

        def noting(*arguments: Any) -> Any:
            if self._is_loop_late():  # the server would take this for a sign of life
                raise kazoo_errors.ConnectionDropped("the event loop hangs")
            read_timeout_ms, connect_timeout_ms = connect(*arguments)
            # kazoo waits for two thirds of the session's timeout.
            self._post(self._on_negotiated, read_timeout_ms * 1.5 / 1000)
            return read_timeout_ms, connect_timeout_ms

        connection._connect = noting

    def _answer_in_time(self, patience: Patience) -> None:
        """`_invoke` is what kazoo asks before a connection stands: for the session, and who we are."""
        connection = self._client._connection
        invoke = connection._invoke

        def invoking(timeout_s: float, *arguments: Any) -> Any:
            try:
                answer = invoke(min(timeout_s, patience.now_s), *arguments)
            except connection.handler.timeout_exception:
                patience.was_in_vain()
                raise
            patience.was_answered()
            return answer

        connection._invoke = invoking

    def _ping_for_the_loop(self) -> None:
        """kazoo's thread pings whatever becomes of the loop."""
        connection = self._client._connection
        ping = connection._send_ping

        def pinging(*arguments: Any) -> None:
            # One that is being stopped has no loop to speak for; a ping without an answer ends its connection.
            if self._stopped is not None or not self._is_loop_late():
                ping(*arguments)

        connection._send_ping = pinging


class _Arming(ArmMany):
    """kazoo hands an event to whom it has written down for the path: we do so before the server can tell."""

    def __init__(self, paths: Sequence[str], watchers: Any, told: Callable[[Any], None]) -> None:
        super().__init__(paths)
        self._watchers = watchers
        self._told = told

    def serialize(self) -> bytes:
        for path in self._paths:
            self._watchers[path].add(self._told)
        return super().serialize()


class _Inline(SequentialThreadingHandler):
    """Watches and answers run in the thread of the connection, in the order of the wire; connections are made
    as our settings say."""

    class _Now:
        def put(self, call: Callable[[], None]) -> None:
            call()

    def __init__(self, security: Security, patience: Patience) -> None:
        super().__init__()
        self._security = security
        self._patience = patience

    def start(self) -> None:
        self.completion_queue = self._Now()
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def create_connection(self, address: tuple[str, int], hostname: str = "", **_: Any) -> socket.socket:
        try:
            connection = socket.create_connection(address, self._patience.now_s)
        except TimeoutError:
            self._patience.was_in_vain()
            raise
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            context = self._security.tls
            return (
                connection if context is None else context.wrap_socket(connection, server_hostname=hostname)
            )
        except BaseException:
            connection.close()
            raise

    def select(self, reading: list[Any], writing: list[Any], *rest: Any) -> Any:
        """What TLS has decrypted already makes no socket readable any more."""
        if any(getattr(each, "pending", int)() for each in reading):
            ready, *others = super().select(reading, writing, rest[0], 0)
            return [each for each in reading if each in ready or getattr(each, "pending", int)()], *others
        return super().select(reading, writing, *rest)


class _LastWords(logging.LoggerAdapter):  # type: ignore[type-arg]
    """kazoo tells of each attempt to connect; the session says once that it lost its connection, and why."""

    last = ""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level < logging.WARNING:
            return
        self.last = str(msg) % args if args else str(msg)
        super().log(logging.DEBUG, msg, *args, **kwargs)


class NoReadMany(StoreUnavailable):
    """The server does not know multiRead."""

    verdict = "cannot be used"


def error_of(code: int, path: str, index: int = 0) -> StoreError:
    """An error of the protocol, as one of ours."""
    kind = _CODES.get(code)
    if kind is not None:
        return kind(path, index=index)
    if code == _BAD_ARGUMENTS:
        return InvalidPath(path, index=index)
    if code == _UNIMPLEMENTED:
        return NoReadMany(path, "this ZooKeeper is older than 3.6")
    if code == _NO_AUTH:
        return NotAllowed(
            path,
            f"ZooKeeper does not let this broker at {path}: the node's ACL names others. Give the broker the "
            "credentials that made the node, or change its ACL",
            index,
        )
    if code == _INVALID_ACL:
        return NotAllowed(
            path,
            f"ZooKeeper refuses the ACL of {path}: zookeeper.set.acl=true wants a connection that says who it "
            "is, by SASL or a TLS key",
            index,
        )
    if code == _NOT_READ_ONLY:
        return StoreUnavailable(
            path, "this ZooKeeper server is read-only: it has lost the others of its ensemble", index
        )
    if code == _AUTH_FAILED:
        return NotAllowed(path, "ZooKeeper refuses this broker's credentials", index)
    known = kazoo_errors.EXCEPTIONS.get(code)
    return StoreUnavailable(path, f"ZooKeeper: error {code} {known.__name__ if known else ''}".strip(), index)


def translated(error: BaseException, path: str) -> StoreError:
    """An exception of kazoo's, as one of ours."""
    if isinstance(error, kazoo_errors.ConnectionLoss | kazoo_errors.ConnectionClosedError):
        return OutOfTouch(path, "the connection to ZooKeeper was lost on the way")
    code = getattr(error, "code", None)
    if isinstance(error, kazoo_errors.KazooException) and isinstance(code, int):
        return error_of(code, path)
    if isinstance(error, kazoo_errors.KazooException | OSError):
        return StoreUnavailable(path, f"ZooKeeper: {type(error).__name__} {error}".strip())
    raise error
