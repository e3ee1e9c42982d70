"""uvloop, of a process to which the machine gives no thread, descriptor or memory for a moment.

libuv starts threads of its own at the first name that is looked up, an address to listen at included, and ends the process (abort,
without a word) where there is none. And where a connection cannot be accepted for want of memory or of descriptors it tells
nobody, and is told by the kernel again at once that there is one: a processor does nothing else.
"""

import asyncio
import errno
import logging
import select
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import uvloop

from odradek.client.addresses import is_ip
from odradek.log.errors import NO_DESCRIPTOR
from odradek.model.remedies import MORE_MEMORY
from odradek.server.log_limits import LimitedLog

logger = logging.getLogger("odradek.server")

# Of two looks, between which a connection waits and none is accepted.
LOOK_EVERY_S = 0.5
ACCEPT_AGAIN_S = 1.0

MakeProtocol = Callable[[], asyncio.BaseProtocol]


class Served(Protocol):
    def close(self) -> None: ...


class Loop(uvloop.Loop):
    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[Any]:
        """RuntimeError: there is no thread (as asyncio's own)."""
        look_up = partial(socket.getaddrinfo, host, port, family, type, proto, flags)
        return await self.run_in_executor(None, look_up)

    async def create_server(  # type: ignore[override]
        self, make_protocol: MakeProtocol, host: str | None, port: int, *, backlog: int
    ) -> "Listening":
        """At every address of `host`, None: all of this machine."""
        if host is None or is_ip(host):  # nobody has to be asked
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        else:
            found = await self.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)

        async def serve(make: MakeProtocol, listening: socket.socket) -> Served:
            return await super(Loop, self).create_server(make, sock=listening, backlog=backlog)

        async def take(make: MakeProtocol, accepted: socket.socket) -> None:
            await self.connect_accepted_socket(make, accepted)

        listening = Listening(self, _bound(found, backlog), make_protocol, serve, take)
        try:
            await listening.begin()
        except BaseException:
            listening.close()
            raise
        return listening


def _bound(found: Sequence[Any], backlog: int) -> list[socket.socket]:
    """Listening, too: of a `listen` that fails uvloop does not tell. Of several addresses one that is not of this machine (no IPv6) is
    left out, as asyncio does it (bpo-30945), and told where its family is here: the name may have an address that has moved."""
    bound: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                opened = socket.socket(family, kind, protocol)
            except OSError as error:
                if error.errno != errno.EAFNOSUPPORT:  # a kernel without IPv6
                    raise
                missing = error
                continue
            bound.append(opened)
            opened.setblocking(False)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                opened.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:  # IPv6 that is switched off, as in containers
                    raise
                missing = error
                logger.warning(
                    f"nothing listens at {address[0]}, which the listener's name has: {error.strerror}"
                )
                bound.pop().close()
                continue
            opened.listen(backlog)
        if not bound and missing is not None:
            raise missing
    except BaseException:
        for opened in bound:
            opened.close()
        raise
    return bound


class Listening:
    """The addresses of one listener. From time to time somebody looks whether a connection waits that libuv does not accept; then
    it is asked no more until one can be accepted."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: list[socket.socket],
        make_protocol: MakeProtocol,
        serve: Callable[[MakeProtocol, socket.socket], Awaitable[Served]],
        take: Callable[[MakeProtocol, socket.socket], Awaitable[None]],
    ) -> None:
        """`serve` accepts from a socket, which is its own, until that is closed; `take` is given what was accepted here."""
        self.sockets = tuple(sockets)
        self._loop = loop
        self._make_protocol = make_protocol
        self._serve = serve
        self._take = take
        self._log = LimitedLog(logger, loop.time)
        self._served: list[Served] | None = None  # None: nobody accepts
        self._accepted = 0
        self._accepted_before = -1  # when a connection was seen to wait; -1: none was
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._work: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        served: list[Served] = []
        try:
            for listening in self.sockets:
                own = listening.dup()
                try:
                    served.append(await self._serve(self._made, own))
                except BaseException:
                    own.close()
                    raise
        except BaseException:
            for one in served:
                one.close()
            raise
        self._served = served
        self._accepted_before = -1
        self._again(LOOK_EVERY_S, self._look)

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._work):
            task.cancel()
        self._stop()
        for listening in self.sockets:
            listening.close()
        self.sockets = ()

    def _stop(self) -> None:
        served, self._served = self._served or [], None
        for one in served:
            one.close()

    def _again(self, delay_s: float, call: Callable[[], None]) -> None:
        if not self._is_closed:
            self._timer = self._loop.call_later(delay_s, call)

    def _made(self) -> asyncio.BaseProtocol:
        self._accepted += 1
        return self._make_protocol()

    def _look(self) -> None:
        waits = any(_is_readable(listening) for listening in self.sockets)
        if waits and self._accepted_before == self._accepted:
            self._stop()
            self._try()
            return
        self._accepted_before = self._accepted if waits else -1
        self._again(LOOK_EVERY_S, self._look)

    def _try(self) -> None:
        """One connection of each address, if it can be had."""
        for listening in self.sockets:
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:  # that is said by `descriptors.keep_spare`
                    more = f": {MORE_MEMORY}" if error.errno in (errno.ENOMEM, errno.ENOBUFS) else ""
                    self._log.warning("accept", f"connections cannot be accepted ({error.strerror}){more}")
                self._again(ACCEPT_AGAIN_S, self._try)
                return
            accepted.setblocking(False)
            self._do(self._take(self._made, accepted))
        self._do(self._resume())

    async def _resume(self) -> None:
        try:
            await self.begin()
        except OSError:  # of a descriptor for it
            self._again(ACCEPT_AGAIN_S, self._try)

    def _do(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work, loop=self._loop)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._work.discard(task)
        with suppress(asyncio.CancelledError):
            error = task.exception()
            if error is not None:
                self._log.failure("accepting", f"a connection was not served: {error!r}", error)


def _is_readable(listening: socket.socket) -> bool:
    poll = select.poll()
    poll.register(listening, select.POLLIN)
    return bool(poll.poll(0))
