"""A session with a ZooKeeper ensemble.

Three things kazoo leaves to us:
- *A lost connection forgets the watches.* On coming back every armed one is armed again, and what has changed
  meanwhile is told, before any call is let through.
- *The client gives up first.* The server ends a session that it has not heard of for the timeout. We measure from
  the sending of the last request that was answered, which the server heard no earlier, and give up after four
  fifths of the timeout. After half of that we leave a server that says nothing, so that another one can be asked:
  kazoo itself would notice only where nothing was sent meanwhile.
- *An expired session is replaced silently.* Not here: the session is over and its owner starts again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from odradek.store.api import (
    NO_OWNER,
    Applied,
    ConditionalOps,
    Create,
    DeleteTree,
    Fence,
    Node,
    NoNode,
    NotAllowed,
    Op,
    OutOfTouch,
    Put,
    SessionExpired,
    SessionState,
    Set,
    Stat,
    StoreUnavailable,
    WatchEvent,
    WriteAnswer,
    check_path,
    check_paths,
)
from odradek.store.loop_beat import LoopBeat
from odradek.store.session import SessionBase
from odradek.store.zookeeper.link import (
    KazooLink,
    LinkState,
    NoReadMany,
    SessionKey,
    error_of,
    translated,
)
from odradek.store.zookeeper.requests import ListMany, Multi, ReadMany, Refused, SetMany, check_size
from odradek.store.zookeeper.security import OPEN, Security
from odradek.store.zookeeper.watches import ArmedWatches, missed
from odradek.store.zookeeper.write import write_groups

T = TypeVar("T")
W = TypeVar("W")

OWN_PATIENCE = 0.8
_BEATS_PER_TIMEOUT = 8
_STOP_PATIENCE_S = 2.0
_READ_AT_ONCE = 250

logger = logging.getLogger(__name__)


class ZooKeeperStore(SessionBase):
    """One session. All state is touched on the event loop alone."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        security: Security,
        acl_of: Callable[[str], bytes],
        in_flight: int,
    ) -> None:
        """Use `open`."""
        super().__init__(session_timeout_ms, SessionState.SUSPENDED)
        self._loop = asyncio.get_running_loop()
        self._hosts = hosts
        self._acl_of = acl_of
        self._in_flight = in_flight
        self._negotiated_s = session_timeout_ms / 1000
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._last_contact = self._loop.time()
        self._lost_at = 0.0
        self._watches = ArmedWatches()
        self._has_read_many = True  # until a server older than 3.6 says no
        self._beat: asyncio.Task[None] | None = None
        self._coming_back: asyncio.Task[None] | None = None
        self._asked: set[asyncio.Future[Any]] = set()  # and not answered
        self._stopping: asyncio.Task[None] | None = None
        self._has_stopped = False
        self.was_closed_in_touch = False  # so the server has heard that it is over
        self._loop_beat = LoopBeat(session_timeout_ms)
        self._link = KazooLink(
            hosts,
            session_timeout_ms,
            security,
            on_state=self._link_became,
            on_negotiated=self._negotiated,
            on_watch=self._fire,
            is_loop_late=self._loop_beat.is_late,
        )

    @classmethod
    async def open(
        cls,
        hosts: str,
        session_timeout_ms: int = 6000,
        connection_timeout_ms: int = 18_000,
        *,
        security: Security | None = None,
        acl_of: Callable[[str], bytes] = lambda path: OPEN,
        in_flight: int = 10,
    ) -> ZooKeeperStore:
        """Raises StoreUnavailable with a sentence that says what to do."""
        security = security or Security()
        store = cls(hosts, session_timeout_ms, security, acl_of, in_flight)
        try:
            store._link.start()
            async with asyncio.timeout(connection_timeout_ms / 1000):
                await store._connected
                # Credentials are looked at after that: the first answer says that they are good.
                await store._ask(store._link.exists("/", watch=False), "/", lambda answer: None)
        except TimeoutError:
            problem = store._link.last_problem
            await store._stop()
            raise StoreUnavailable(
                message=f"no ZooKeeper answered at {hosts} within {connection_timeout_ms} ms"
                + (f" ({problem})" if problem else "")
                + f". Is it running, is zookeeper.connect right, and do both sides {_tls_or_not(security)}?"
            ) from None
        except BaseException:
            await store._stop()
            raise
        store._beat = asyncio.ensure_future(store._beat_on())
        return store

    @property
    def session_timeout_ms(self) -> int:
        """What the server grants, which may be more or less than was asked for."""
        return round(self._negotiated_s * 1000)

    @property
    def key(self) -> SessionKey:
        """Whoever has it may end the session."""
        return self._link.key

    def _negotiated(self, timeout_s: float) -> None:
        self._negotiated_s = timeout_s
        self._loop_beat.timeout_s = min(self._session_timeout_ms / 1000, timeout_s)

    # ---- reading

    async def get(self, path: str, *, watch: bool = False) -> Node:
        self._check_usable()
        return await self._get(path, watch)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        self._check_usable()
        return await self._exists(path, watch)

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        self._check_usable()
        return await self._children(path, watch)

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        nodes = await self._by_many(paths, self._watch_many if watch else self._read_many)
        if nodes is None:
            return await self._reads(paths, lambda path: _or_none(self._get(path, watch)))
        return await self._read_again(paths, nodes) if watch else nodes

    async def children_many(self, paths: Sequence[str], *, watch: bool = False) -> list[list[str] | None]:
        lists = None if watch else await self._by_many(paths, self._list_many)
        if lists is None:
            return await self._reads(paths, lambda path: _or_none(self._children(path, watch)))
        return lists

    async def _by_many(
        self, paths: Sequence[str], read: Callable[[Sequence[str]], asyncio.Future[list[T]]]
    ) -> list[T] | None:
        """Many in one request; None where that is not worth it, or the server is too old for it."""
        if not self._has_read_many or len(paths) < 2:
            return None
        chunks = [paths[start : start + _READ_AT_ONCE] for start in range(0, len(paths), _READ_AT_ONCE)]
        try:
            return [found for many in await self._reads(chunks, read) for found in many]
        except NoReadMany:
            self._has_read_many = False
            return None

    async def _reads(
        self, wanted: Iterable[W], read: Callable[[W], asyncio.Future[T]], *, coming_back: bool = False
    ) -> list[T]:
        """Pipelined: as many as zookeeper.max.in.flight.requests are sent before the first is answered."""
        found: list[T] = []
        sent: deque[asyncio.Future[T]] = deque()
        try:
            for each in wanted:
                if len(sent) >= self._in_flight:
                    found.append(await sent.popleft())
                if not coming_back:
                    self._check_usable()
                sent.append(read(each))
            while sent:
                found.append(await sent.popleft())
        finally:
            for future in sent:  # of a read that failed: nobody waits for the others
                future.cancel()
        return found

    def _read_many(self, paths: Sequence[str]) -> asyncio.Future[list[Node | None]]:
        for path in paths:
            check_path(path)
        return self._ask(ReadMany(paths), paths[0], lambda answer: _each(paths, answer))

    def _list_many(self, paths: Sequence[str]) -> asyncio.Future[list[list[str] | None]]:
        for path in paths:
            check_path(path)
        return self._ask(ListMany(paths), paths[0], lambda answer: _each(paths, answer))

    def _watch_many(self, paths: Sequence[str]) -> asyncio.Future[list[Node | None]]:
        """multiRead arms nothing, so the watches go ahead of it; one that fires between the two is used up, and
        its node is looked at again."""
        for path in paths:
            check_path(path)
        arming = self._watches.begin(paths)

        def read(answer: list[Node | int | None]) -> list[Node | None]:
            nodes = _each(paths, answer)
            arming.end(nodes)
            return nodes

        self._ask(self._link.arm_many(paths), paths[0], lambda answer: None).add_done_callback(_retrieve)
        found = self._ask(ReadMany(paths), paths[0], read)
        found.add_done_callback(lambda future: self._watches.forget(arming))
        return found

    async def _read_again(self, paths: Sequence[str], nodes: Sequence[Node | None]) -> list[Node | None]:
        found = list(nodes)
        unarmed = [
            index
            for index, (path, node) in enumerate(zip(paths, nodes, strict=True))
            if node is not None and path not in self._watches.data
        ]
        again = await self._reads([paths[i] for i in unarmed], lambda path: _or_none(self._get(path, True)))
        for index, node in zip(unarmed, again, strict=True):
            found[index] = node
        return found

    def _get(self, path: str, watch: bool) -> asyncio.Future[Node]:
        check_path(path)

        def read(answer: tuple[bytes | None, Any]) -> Node:
            node = Node(answer[0] or b"", _stat(answer[1]))
            if watch:
                self._watches.data[path] = node.stat
            return node

        return self._ask(self._link.get_data(path, watch), path, read)

    def _exists(self, path: str, watch: bool) -> asyncio.Future[Stat | None]:
        check_path(path)

        def read(answer: Any) -> Stat | None:
            stat = _stat_or_none(answer)
            if watch:
                self._watches.data[path] = stat
            return stat

        return self._ask(self._link.exists(path, watch), path, read)

    def _children(self, path: str, watch: bool) -> asyncio.Future[list[str]]:
        check_path(path)

        def read(answer: tuple[list[str], Any]) -> list[str]:
            if watch:
                self._watches.children[path] = _stat(answer[1])
            return sorted(answer[0])

        return self._ask(self._link.get_children(path, watch), path, read)

    # ---- writing

    async def multi(self, ops: Sequence[Op]) -> list[Applied]:
        self._check_usable()
        for op in ops:
            assert not isinstance(op, DeleteTree | Put), f"ZooKeeper's multi knows no {op}: use write"
            check_path(op.path)
        return await self._transaction(ops) if ops else []

    async def write(self, writes: Sequence[ConditionalOps], fence: Fence | None) -> list[WriteAnswer]:
        self._check_usable()
        return await write_groups(self, writes, fence)

    async def set_all(self, sets: Sequence[Set], fence: Fence | None) -> list[int]:
        """The new version of each node; one transaction, behind a check of the fence."""
        self._check_usable()
        check_paths([op.path for op in sets])
        request = SetMany(sets, fence)
        check_size(request, sets)

        def read(outcome: list[list[int] | Refused]) -> list[int]:
            (versions,) = outcome
            if isinstance(versions, Refused):
                place = versions.index - (fence is not None)
                path = sets[place].path if place >= 0 or fence is None else fence.path
                raise error_of(versions.code, path, versions.index)
            return versions

        return await self._ask(request, "", read)

    def _transaction(self, ops: Sequence[Op]) -> asyncio.Future[list[Applied]]:
        request = Multi(ops, self._acl_of)
        check_size(request, ops)

        def read(outcomes: list[str | Stat | Refused | None], zxid: int) -> list[Applied]:
            first = outcomes[0]
            if isinstance(first, Refused):
                raise error_of(first.code, ops[first.index].path, first.index)
            return [self._applied(op, outcome, zxid) for op, outcome in zip(ops, outcomes, strict=True)]

        return self._ask(request, "", read, with_zxid=True)

    def _applied(self, op: Op, outcome: str | Stat | Refused | None, zxid: int) -> Applied:
        if isinstance(op, Create):
            # The protocol answers with the path alone; the rest follows from what a creation is.
            assert isinstance(outcome, str)
            return Applied(outcome, Stat(0, 0, zxid, zxid, self._session_id if op.ephemeral else NO_OWNER))
        return Applied(op.path, outcome if isinstance(outcome, Stat) else None)

    # ---- asking

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
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        sent = self._loop.time()

        def settle(value: Any, error: BaseException | None, zxid: int) -> None:
            if error is None:
                self._last_contact = max(self._last_contact, sent)
            if future.done():
                return
            try:
                if error is not None:
                    raise translated(error, path)
                if self._state is not SessionState.CONNECTED and not coming_back:
                    # Sent again by kazoo on a new connection, whose watches are not armed yet: the reader
                    # would see newer data before its watch fired.
                    raise OutOfTouch(path, "the connection to ZooKeeper was lost on the way")
                future.set_result(read(value, zxid) if with_zxid else read(value))
            except Exception as failure:  # a mistake of ours too: whoever asked must hear of it
                future.set_exception(failure)

        self._link.ask(request, settle)
        return future

    def _fire(self, event: WatchEvent) -> None:
        if self._watches.fire(event):
            self._hear(event)

    # ---- the life of the session

    def _check_usable(self) -> None:
        if self._is_over:
            raise self._ended()
        if self._is_silent():
            self._give_up(SessionState.EXPIRED)
            raise self._ended()
        if self._state is SessionState.SUSPENDED:
            raise OutOfTouch(message="the connection to ZooKeeper is lost; trying to get it back")

    def _is_silent(self, patience: float = OWN_PATIENCE) -> bool:
        timeout_s = min(self._session_timeout_ms / 1000, self._negotiated_s)
        return self._loop.time() - self._last_contact > timeout_s * patience

    def _link_became(self, state: LinkState) -> None:
        if self._is_over:
            return
        if state is LinkState.UP:
            session_id = self._link.session_id
            if not session_id:
                return  # refused meanwhile, which is told next
            if not self._connected.done():
                self._session_id = session_id
                self._last_contact = self._loop.time()
                self._become(SessionState.CONNECTED)
                self._connected.set_result(None)
            elif session_id != self._session_id:  # kazoo made itself a new one
                self._end(SessionState.EXPIRED)
            else:
                self._coming_back = asyncio.ensure_future(self._come_back())
        elif state is LinkState.DOWN:
            if self._coming_back is not None:
                self._coming_back.cancel()
            if self._state is SessionState.CONNECTED:
                self._lost_at = self._loop.time()
                logger.warning(
                    "the connection to ZooKeeper at %s is lost (%s); trying to get it back",
                    self._hosts,
                    self._link.last_problem,
                )
            self._become(SessionState.SUSPENDED)
        elif self._connected.done():
            self._end(SessionState.EXPIRED)
        else:
            self._connected.set_exception(
                StoreUnavailable(message="ZooKeeper refused the session; are its credentials right?")
            )

    async def _come_back(self) -> None:
        """Arm every watch again, tell what has changed meanwhile, and only then let calls through.

        What is read here is kept nowhere: where the connection is lost again, at whatever moment, the next time begins
        anew, from what was known before.
        """
        data, children = dict(self._watches.data), dict(self._watches.children)
        try:
            # Where nothing is armed this alone says that the server has heard of us.
            await self._ask(self._link.exists("/", watch=False), "/", lambda answer: None, coming_back=True)
            data_now = await self._data_again(data)
            parents = await self._reads(
                children, lambda path: _or_none(self._children_stat(path)), coming_back=True
            )
        except (StoreUnavailable, SessionExpired):
            return
        children_now = dict(zip(children, parents, strict=True))
        for event in missed(data, children, data_now, children_now):
            self._fire(event)
        self._become(SessionState.CONNECTED)
        logger.warning("connected to ZooKeeper again, after %.1f s", self._loop.time() - self._lost_at)

    async def _data_again(self, data: Mapping[str, Stat | None]) -> dict[str, Stat | None]:
        """The stat of each node, watched again. Of nodes that were there many in a request: a controller watches one for each topic,
        and nobody gets through before all are armed."""
        now: dict[str, Stat | None] = {}
        there = [path for path, stat in data.items() if stat is not None] if self._has_read_many else []
        chunks = [there[start : start + _READ_AT_ONCE] for start in range(0, len(there), _READ_AT_ONCE)]
        try:
            for chunk, stats in zip(
                chunks, await self._reads(chunks, self._many_stats, coming_back=True), strict=True
            ):
                now.update(zip(chunk, stats, strict=True))
        except NoReadMany:  # another member, of an older release
            self._has_read_many = False
        except NotAllowed:  # one is not ours to read any more: to look whether it is there is everybody's
            now.clear()
        others = [path for path in data if path not in now]
        now.update(zip(others, await self._reads(others, self._data_stat, coming_back=True), strict=True))
        return now

    def _many_stats(self, paths: Sequence[str]) -> asyncio.Future[list[Stat | None]]:
        """Armed first, as by `_watch_many`. What fires between the two is told at once, for it was armed before."""

        def read(answer: list[Node | int | None]) -> list[Stat | None]:
            return [None if node is None else node.stat for node in _each(paths, answer)]

        armed = self._ask(self._link.arm_many(paths), paths[0], lambda answer: None, coming_back=True)
        armed.add_done_callback(_retrieve)
        return self._ask(ReadMany(paths), paths[0], read, coming_back=True)

    def _data_stat(self, path: str) -> asyncio.Future[Stat | None]:
        return self._ask(self._link.exists(path, watch=True), path, _stat_or_none, coming_back=True)

    def _children_stat(self, path: str) -> asyncio.Future[Stat]:
        def read(answer: tuple[list[str], Any]) -> Stat:
            return _stat(answer[1])

        return self._ask(self._link.get_children(path, watch=True), path, read, coming_back=True)

    async def _beat_on(self) -> None:
        """kazoo's own pings keep the session; ours tell us that they do."""
        timeout_s = min(self._session_timeout_ms / 1000, self._negotiated_s)
        while not self._is_over:
            if self._is_silent():
                self._give_up(SessionState.EXPIRED)
                return
            if self._state is SessionState.CONNECTED:
                if self._is_silent(OWN_PATIENCE / 2):
                    self._link.leave_server()
                else:
                    beat = self._ask(self._link.exists("/", watch=False), "/", lambda answer: None)
                    beat.add_done_callback(_retrieve)
            await asyncio.sleep(timeout_s / _BEATS_PER_TIMEOUT)

    def _give_up(self, state: SessionState) -> None:
        """Ends it from our side. Whoever waits hears of it from us: kazoo tells them when its connection is closed, which a
        server that says nothing may delay for long."""
        self._end(state)
        for future in [future for future in self._asked if not future.done()]:
            future.set_exception(self._ended())

    def _end(self, state: SessionState) -> None:
        if self._is_over:
            return
        self._watches.clear()
        self._become(state)
        # Where the server can be reached it ends the session at once.
        self._stopping = asyncio.ensure_future(self._stop())

    async def close(self) -> None:
        is_in_touch = self._state is SessionState.CONNECTED
        if not self._is_over:
            self._give_up(SessionState.CLOSED)
        if self._stopping is not None:
            await self._stopping
        self.was_closed_in_touch |= is_in_touch and self._has_stopped

    async def _stop(self) -> None:
        self._loop_beat.stop()
        for task in (self._beat, self._coming_back):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        stopped = self._link.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_PATIENCE_S):
                await stopped
                self._has_stopped = True


def _each(paths: Sequence[str], answer: Sequence[T | int | None]) -> list[T | None]:
    """What was found at each path; raises the error of the first that could not be read."""
    found: list[T | None] = []
    for path, one in zip(paths, answer, strict=True):
        if isinstance(one, int):
            raise error_of(one, path)
        found.append(one)
    return found


def _stat(stat: Any) -> Stat:
    return Stat(stat.version, stat.cversion, stat.czxid, stat.mzxid, stat.ephemeralOwner)


def _stat_or_none(stat: Any) -> Stat | None:
    return None if stat is None else _stat(stat)


def _or_none(answer: asyncio.Future[T]) -> asyncio.Future[T | None]:
    """The same answer, with None in place of NoNode."""
    found: asyncio.Future[T | None] = answer.get_loop().create_future()

    def settle(answer: asyncio.Future[T]) -> None:
        if answer.cancelled():
            found.cancel()
            return
        error = answer.exception()
        if found.done():
            return
        if error is None:
            found.set_result(answer.result())
        elif isinstance(error, NoNode):
            found.set_result(None)
        else:
            found.set_exception(error)

    answer.add_done_callback(settle)
    return found


def _tls_or_not(security: Security) -> str:
    return "speak TLS" if security.tls is not None else "speak without TLS"


def _retrieve(future: asyncio.Future[Any]) -> None:
    """A request that failed says nothing that the next one, or the look at the clock, does not say."""
    if not future.cancelled():
        future.exception()
