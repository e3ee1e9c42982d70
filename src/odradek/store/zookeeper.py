"""A session with a ZooKeeper ensemble, through kazoo. The only module that imports it.

kazoo has threads of its own: one for the connection, one for watches, one for answers. The last two would let an
answer overtake the watch that came before it on the wire, so we take both from the connection's thread as they
come (`_Inline`) and hand them to the event loop in that order. That is ZooKeeper's own guarantee, kept.

Three things kazoo leaves to us:
- *A lost connection forgets the watches.* On coming back every armed one is armed again, and what has changed
  meanwhile is told, before any call is let through.
- *The client gives up first.* The server ends a session that it has not heard of for the timeout. We measure from
  the sending of the last request that was answered, which the server heard no earlier, and give up after four
  fifths of the timeout.
- *An expired session is replaced silently.* Not here: the session is over and its owner starts again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import (
    CheckVersion,
    Exists,
    GetChildren2,
    GetData,
    SetData,
    Transaction,
)
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.protocol.serialization import Delete as DeleteRequest
from kazoo.protocol.states import EventType
from kazoo.security import OPEN_ACL_UNSAFE

from odradek.store.api import (
    ANY_VERSION,
    NO_OWNER,
    Applied,
    BadVersion,
    Check,
    ConditionalOps,
    Create,
    Delete,
    DeleteTree,
    Fence,
    InvalidPath,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    OnSession,
    OnWatch,
    Op,
    Put,
    SessionExpired,
    SessionState,
    Set,
    Stat,
    Store,
    StoreError,
    StoreUnavailable,
    WatchEvent,
    WatchKind,
    WriteAnswer,
    check_path,
)
from odradek.store.chroot import ChrootedStores
from odradek.store.zookeeper_read_many import ReadMany
from odradek.store.zookeeper_watches import ArmedWatches, missed
from odradek.store.zookeeper_write import write_groups

T = TypeVar("T")
W = TypeVar("W")

OWN_PATIENCE = 0.8
_BEATS_PER_TIMEOUT = 8
_STOP_PATIENCE_S = 2.0
_READ_AT_ONCE = 250
_IN_FLIGHT = 2_000  # reads sent before the first is answered

_ERRORS: Mapping[type[Exception], type[StoreError]] = {
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: NotEmpty,
    kazoo_errors.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    kazoo_errors.BadArgumentsError: InvalidPath,
    kazoo_errors.SessionExpiredError: SessionExpired,
}
_KINDS: Mapping[str, WatchKind] = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.CHILD: WatchKind.CHILDREN,
}
_log = logging.getLogger(__name__)


class ZooKeeperStores:
    """Sessions with the ensemble that `connect` names: `host:port,host:port/chroot`, as zookeeper.connect."""

    def __init__(
        self, connect: str, *, connection_timeout_ms: int = 18_000, options: Mapping[str, Any] | None = None
    ) -> None:
        self._hosts, _, chroot = connect.partition("/")
        self._chroot = f"/{chroot}".rstrip("/") or "/"
        check_path(self._chroot)
        self._connection_timeout_ms = connection_timeout_ms
        self._options = dict(options or {})  # of KazooClient: TLS, SASL

    async def open_session(self, session_timeout_ms: int) -> Store:
        return await ChrootedStores(_Unrooted(self), self._chroot).open_session(session_timeout_ms)

    async def open_unrooted(self, session_timeout_ms: int) -> ZooKeeperStore:
        return await ZooKeeperStore.open(
            self._hosts, session_timeout_ms, self._connection_timeout_ms, self._options
        )

    async def close(self) -> None:
        """Nothing is held between sessions."""


class _Unrooted:
    def __init__(self, stores: ZooKeeperStores) -> None:
        self._stores = stores

    async def open_session(self, session_timeout_ms: int) -> Store:
        return await self._stores.open_unrooted(session_timeout_ms)

    async def close(self) -> None:
        await self._stores.close()


class _Inline(SequentialThreadingHandler):  # type: ignore[misc]
    """Watches and answers run in the thread of the connection, in the order of the wire."""

    class _Now:
        def put(self, call: Callable[[], None]) -> None:
            call()

    def start(self) -> None:
        self.completion_queue = self._Now()
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)


class ZooKeeperStore:
    """One session. All state is touched on the event loop alone; kazoo's thread only posts to it."""

    def __init__(self, hosts: str, session_timeout_ms: int, options: Mapping[str, Any]) -> None:
        """Use `open`."""
        self._loop = asyncio.get_running_loop()
        self._session_timeout_ms = session_timeout_ms
        self._negotiated_s = session_timeout_ms / 1000
        self._state = SessionState.SUSPENDED
        self._session_id = 0
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._last_contact = self._loop.time()
        self._on_watch: list[OnWatch] = []
        self._on_session: list[OnSession] = []
        self._watches = ArmedWatches()
        self._has_read_many = True  # until a server older than 3.6 says no
        self._beat: asyncio.Task[None] | None = None
        self._coming_back: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            handler=_Inline(),
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
            logger=_log,
            **options,
        )
        self._client.add_listener(lambda state: self._post(self._kazoo_became, state))
        self._note_negotiated_timeout()

    @classmethod
    async def open(
        cls,
        hosts: str,
        session_timeout_ms: int = 6000,
        connection_timeout_ms: int = 18_000,
        options: Mapping[str, Any] | None = None,
    ) -> ZooKeeperStore:
        store = cls(hosts, session_timeout_ms, options or {})
        store._client.start_async()
        try:
            async with asyncio.timeout(connection_timeout_ms / 1000):
                await store._connected
        except TimeoutError:
            await store._stop_client()
            raise StoreUnavailable(
                message=f"no ZooKeeper answered at {hosts} within {connection_timeout_ms} ms. Is it running, "
                "and is zookeeper.connect right?"
            ) from None
        except BaseException:
            await store._stop_client()
            raise
        store._beat = asyncio.ensure_future(store._beat_on())
        return store

    def _note_negotiated_timeout(self) -> None:
        """The server may grant less than was asked for; kazoo keeps that to itself."""
        connection = self._client._connection
        connect = connection._connect

        def noting(*arguments: Any) -> Any:
            read_timeout_ms, connect_timeout_ms = connect(*arguments)
            # kazoo waits for two thirds of the session's timeout.
            self._post(self._negotiated, read_timeout_ms * 1.5 / 1000)
            return read_timeout_ms, connect_timeout_ms

        connection._connect = noting

    def _negotiated(self, timeout_s: float) -> None:
        self._negotiated_s = timeout_s

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._session_timeout_ms

    @property
    def state(self) -> SessionState:
        return self._state

    def listen(
        self, *, on_watch: OnWatch | None = None, on_session: OnSession | None = None
    ) -> Callable[[], None]:
        if on_watch is not None:
            self._on_watch.append(on_watch)
        if on_session is not None:
            self._on_session.append(on_session)

        def stop() -> None:
            if on_watch in self._on_watch:
                self._on_watch.remove(on_watch)
            if on_session in self._on_session:
                self._on_session.remove(on_session)

        return stop

    # ---- reading

    async def get(self, path: str, *, watch: bool = False) -> Node:
        return (await self._reads([path], lambda path: self._get(path, watch)))[0]

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        return (await self._reads([path], lambda path: self._exists(path, watch)))[0]

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return (await self._reads([path], lambda path: self._children(path, watch)))[0]

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        if not watch and self._has_read_many and len(paths) > 1:
            starts = range(0, len(paths), _READ_AT_ONCE)
            chunks = [tuple(paths[start : start + _READ_AT_ONCE]) for start in starts]
            try:
                return [node for nodes in await self._reads(chunks, self._read_many) for node in nodes]
            except _NoReadMany:
                self._has_read_many = False
        return await self._reads(paths, lambda path: _or_none(self._get(path, watch)))

    async def children_many(self, paths: Sequence[str], *, watch: bool = False) -> list[list[str] | None]:
        return await self._reads(paths, lambda path: _or_none(self._children(path, watch)))

    async def _reads(self, wanted: Sequence[W], read: Callable[[W], Awaitable[T]]) -> list[T]:
        """Pipelined: all are sent before the first is answered, within reason."""
        found: list[T] = []
        for start in range(0, len(wanted), _IN_FLIGHT):
            self._check_usable()
            found += await asyncio.gather(*[read(each) for each in wanted[start : start + _IN_FLIGHT]])
        return found

    def _read_many(self, paths: Sequence[str]) -> Awaitable[list[Node | None]]:
        for path in paths:
            check_path(path)

        def read(answer: list[Node | int | None]) -> list[Node | None]:
            nodes: list[Node | None] = []
            for path, node in zip(paths, answer, strict=True):
                if isinstance(node, int):
                    raise _translated(kazoo_errors.EXCEPTIONS[node](), path)
                nodes.append(node)
            return nodes

        return self._ask(ReadMany(paths), paths[0], read)

    def _get(self, path: str, watch: bool) -> Awaitable[Node]:
        check_path(path)

        def read(answer: tuple[bytes | None, Any]) -> Node:
            node = Node(answer[0] or b"", _stat(answer[1]))
            if watch:
                self._watches.data[path] = node.stat
            return node

        return self._ask(GetData(path, self._kazoo_told if watch else None), path, read)

    def _exists(self, path: str, watch: bool, coming_back: bool = False) -> Awaitable[Stat | None]:
        check_path(path)

        def read(answer: Any) -> Stat | None:
            stat = None if answer is None else _stat(answer)
            if watch:
                self._watches.data[path] = stat
            return stat

        request = Exists(path, self._kazoo_told if watch else None)
        return self._ask(request, path, read, coming_back=coming_back)

    def _children(self, path: str, watch: bool) -> Awaitable[list[str]]:
        check_path(path)

        def read(answer: tuple[list[str], Any]) -> list[str]:
            if watch:
                self._watches.children[path] = _stat(answer[1])
            return sorted(answer[0])

        return self._ask(GetChildren2(path, self._kazoo_told if watch else None), path, read)

    # ---- writing

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Applied:
        return (await self.multi([Create(path, data, ephemeral, sequential)]))[0]

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stat = (await self.multi([Set(path, data, version)]))[0].stat
        assert stat is not None
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, ops: Sequence[Op]) -> list[Applied]:
        self._check_usable()
        for op in ops:
            assert not isinstance(op, DeleteTree | Put), f"ZooKeeper's multi knows no {op}: use write"
            check_path(op.path)
        return await self._transaction(ops) if ops else []

    async def write(self, writes: Sequence[ConditionalOps], fence: Fence | None) -> list[WriteAnswer]:
        self._check_usable()
        return await write_groups(self, writes, fence)

    def _transaction(self, ops: Sequence[Op]) -> Awaitable[list[Applied]]:
        def read(answer: list[Any], zxid: int) -> list[Applied]:
            for index, (op, outcome) in enumerate(zip(ops, answer, strict=True)):
                if isinstance(outcome, kazoo_errors.KazooException) and not isinstance(
                    outcome, kazoo_errors.RolledBackError | kazoo_errors.RuntimeInconsistency
                ):
                    raise _translated(outcome, op.path, index)
            return [self._applied(op, outcome, zxid) for op, outcome in zip(ops, answer, strict=True)]

        return self._ask(Transaction([_request(op) for op in ops]), "", read, with_zxid=True)

    def _applied(self, op: Op, outcome: Any, zxid: int) -> Applied:
        if isinstance(op, Create):
            # The protocol answers with the path alone; the rest follows from what a creation is.
            return Applied(outcome, Stat(0, 0, zxid, zxid, self._session_id if op.ephemeral else NO_OWNER))
        return Applied(op.path, _stat(outcome) if isinstance(op, Set) else None)

    # ---- between the loop and kazoo's thread

    def _post(self, callback: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _ask(
        self,
        request: Any,
        path: str,
        read: Callable[..., T],
        *,
        with_zxid: bool = False,
        coming_back: bool = False,
    ) -> asyncio.Future[T]:
        """Send, and have `read` make of the answer what the caller gets: on the loop, in the order of the wire."""
        future: asyncio.Future[T] = self._loop.create_future()
        answer = self._client.handler.async_result()

        def settle(value: Any, error: BaseException | None, zxid: int) -> None:
            if future.done():
                return
            try:
                if error is not None:
                    raise _translated(error, path)
                if self._state is not SessionState.CONNECTED and not coming_back:
                    # Sent again by kazoo on a new connection, whose watches are not armed yet: the reader
                    # would see newer data before its watch fired.
                    raise StoreUnavailable(path, "the connection to ZooKeeper was lost on the way")
                future.set_result(read(value, zxid) if with_zxid else read(value))
            except StoreError as failure:
                future.set_exception(failure)

        # In kazoo's thread, right after the answer was read: `last_zxid` is that of this answer.
        answer.rawlink(lambda a: self._post(settle, a.value, a.exception, self._client.last_zxid))
        self._client._call(request, answer)
        return future

    def _kazoo_told(self, event: Any) -> None:
        kind = _KINDS.get(event.type)
        if kind is not None:  # NONE: kazoo forgets its watches on a lost connection; we have our own list
            self._post(self._fire, WatchEvent(kind, event.path))

    def _fire(self, event: WatchEvent) -> None:
        if self._watches.fire(event):
            for on_watch in tuple(self._on_watch):
                on_watch(event)

    # ---- the life of the session

    def _check_usable(self) -> None:
        if self._state in (SessionState.EXPIRED, SessionState.CLOSED):
            raise self._ended()
        if self._is_silent():
            self._end(SessionState.EXPIRED)
            raise self._ended()
        if self._state is SessionState.SUSPENDED:
            raise StoreUnavailable(message="the connection to ZooKeeper is lost; trying to get it back")

    def _ended(self) -> SessionExpired:
        return SessionExpired(
            message=f"session {self._session_id:#x} is {self._state.value}; open another one"
        )

    def _is_silent(self) -> bool:
        timeout_s = min(self._session_timeout_ms / 1000, self._negotiated_s)
        return self._loop.time() - self._last_contact > timeout_s * OWN_PATIENCE

    def _kazoo_became(self, state: str) -> None:
        if self._state in (SessionState.EXPIRED, SessionState.CLOSED):
            return
        if state == KazooState.CONNECTED:
            session_id = self._client._session_id
            if not self._connected.done():
                self._session_id = session_id
                self._last_contact = self._loop.time()
                self._become(SessionState.CONNECTED)
                self._connected.set_result(None)
            elif session_id != self._session_id:  # kazoo made itself a new one
                self._end(SessionState.EXPIRED)
            else:
                self._coming_back = asyncio.ensure_future(self._come_back())
        elif state == KazooState.SUSPENDED:
            if self._coming_back is not None:
                self._coming_back.cancel()
            self._become(SessionState.SUSPENDED)
        elif self._connected.done():
            self._end(SessionState.EXPIRED)
        else:
            self._connected.set_exception(
                StoreUnavailable(message="ZooKeeper refused the session; are its credentials right?")
            )

    async def _come_back(self) -> None:
        """Arm every watch again, tell what has changed meanwhile, and only then let calls through."""
        data, children = dict(self._watches.data), dict(self._watches.children)
        begun = self._loop.time()
        try:
            stats = await asyncio.gather(*[self._exists(p, watch=True, coming_back=True) for p in data])
            parents = await asyncio.gather(*[_or_none(self._children_stat(p)) for p in children])
        except (StoreUnavailable, SessionExpired):
            # Lost again; the next time begins anew, from what was known before.
            self._watches.data, self._watches.children = data, children
            return
        data_now = dict(zip(data, stats, strict=True))
        children_now = dict(zip(children, parents, strict=True))
        for event in missed(data, children, data_now, children_now):
            self._fire(event)
        self._last_contact = begun
        self._become(SessionState.CONNECTED)

    def _children_stat(self, path: str) -> Awaitable[Stat]:
        def read(answer: tuple[list[str], Any]) -> Stat:
            return _stat(answer[1])

        return self._ask(GetChildren2(path, self._kazoo_told), path, read, coming_back=True)

    async def _beat_on(self) -> None:
        """kazoo's own pings keep the session; ours tell us that they do."""
        timeout_s = min(self._session_timeout_ms / 1000, self._negotiated_s)
        while self._state in (SessionState.CONNECTED, SessionState.SUSPENDED):
            if self._is_silent():
                self._end(SessionState.EXPIRED)
                return
            if self._state is SessionState.CONNECTED:
                sent = self._loop.time()
                self._ask(
                    Exists("/", None), "/", lambda answer, sent=sent: self._touch(sent)
                ).add_done_callback(_retrieve)
            await asyncio.sleep(timeout_s / _BEATS_PER_TIMEOUT)

    def _touch(self, sent: float) -> None:
        self._last_contact = max(self._last_contact, sent)

    def _become(self, state: SessionState) -> None:
        if state is not self._state:
            self._state = state
            if self._connected.done():
                for on_session in tuple(self._on_session):
                    on_session(state)

    def _end(self, state: SessionState) -> None:
        if self._state in (SessionState.EXPIRED, SessionState.CLOSED):
            return
        self._watches.clear()
        self._become(state)
        # Where the server can be reached it ends the session at once.
        self._stopping = asyncio.ensure_future(self._stop_client())

    async def close(self) -> None:
        if self._state in (SessionState.CONNECTED, SessionState.SUSPENDED):
            self._end(SessionState.CLOSED)
        if self._stopping is not None:
            await self._stopping

    async def _stop_client(self) -> None:
        """In a thread of its own, for kazoo waits until its connection's thread has noticed: at once where the
        server answers, else for as long as a session timeout. Nobody has to wait for that."""
        for task in (self._beat, self._coming_back):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        stopped: asyncio.Future[None] = self._loop.create_future()

        def settle() -> None:
            if not stopped.done():
                stopped.set_result(None)

        def stop() -> None:
            self._client.stop()
            self._client.close()
            self._post(settle)

        threading.Thread(target=stop, name="store end of session", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_PATIENCE_S):
                await stopped


class _NoReadMany(StoreUnavailable):
    """The server does not know multiRead."""


def _request(op: Op) -> Any:
    if isinstance(op, Create):
        flags = (1 if op.ephemeral else 0) | (2 if op.sequential else 0)
        return CreateRequest(op.path, op.data, OPEN_ACL_UNSAFE, flags)
    if isinstance(op, Set):
        return SetData(op.path, op.data, op.version)
    if isinstance(op, Delete):
        return DeleteRequest(op.path, op.version)
    assert isinstance(op, Check), op
    return CheckVersion(op.path, op.version)


def _stat(stat: Any) -> Stat:
    return Stat(stat.version, stat.cversion, stat.czxid, stat.mzxid, stat.ephemeralOwner)


def _translated(error: BaseException, path: str, index: int = 0) -> StoreError:
    for kind, ours in _ERRORS.items():
        if isinstance(error, kind):
            return ours(path, index=index)
    if isinstance(error, kazoo_errors.UnimplementedError):
        return _NoReadMany(path, "this ZooKeeper is older than 3.6")
    if isinstance(error, kazoo_errors.KazooException | OSError):
        return StoreUnavailable(path, f"ZooKeeper: {type(error).__name__} {error}".strip(), index)
    raise error


async def _or_none(answer: Awaitable[T]) -> T | None:
    try:
        return await answer
    except NoNode:
        return None


def _retrieve(future: asyncio.Future[Any]) -> None:
    """A heartbeat that failed says nothing that the next look at the clock does not say."""
    if not future.cancelled():
        future.exception()
