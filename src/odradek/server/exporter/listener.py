"""`odradek.metrics.listener`: the page of metrics, over HTTP, for Prometheus.

`GET /metrics` and nothing else, one request a connection. What is asked is read up to 8 KiB and within seconds; the page is made while it
is sent, and no faster than its reader reads. A reader that reads nothing is left after half a minute, and more than a few at
once are turned away: whoever may connect here can make a broker work, so the address is one of a network that is trusted.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import cast

from odradek.model.listeners import METRICS_LISTENER, ListenerAddress
from odradek.server.exporter.busy_time import BusyTime
from odradek.server.exporter.families import CONTENT_TYPE
from odradek.server.listener import bind
from odradek.server.log_limits import LimitedLog

LARGEST_REQUEST_BYTES = 8192
MOST_AT_ONCE = 8
REQUEST_TIMEOUT_S = 5.0
PAGE_TIMEOUT_S = 30.0
PLAIN_TEXT = "text/plain; charset=utf-8"


class MetricsListener:
    """From `open` to `close`. There is no page before `show`: the broker is starting."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: LimitedLog) -> None:
        self.page: Callable[[], Iterator[str]] | None = None
        self.busy = BusyTime(loop)
        self.address: ListenerAddress | None = None  # as bound
        self._loop = loop
        self._log = log
        self._server: asyncio.Server | None = None
        self._conversations: set[_Conversation] = set()

    async def open(self, address: ListenerAddress) -> None:
        """PortInUse or CannotListen say what would do."""
        self._server = await bind(self._loop, address, lambda: _Conversation(self), setting=METRICS_LISTENER)
        self.address = address._replace(port=self._server.sockets[0].getsockname()[1])

    def show(self, page: Callable[[], Iterator[str]]) -> None:
        """`page` makes a new one in pieces."""
        self.page = page
        self.busy.start()

    def close(self) -> None:
        self.busy.stop()
        if self._server is not None:
            self._server.close()
        for conversation in list(self._conversations):
            conversation.abort()

    # --- for conversations

    def begun(self, conversation: "_Conversation") -> bool:
        """Whether there is room for it."""
        self._conversations.add(conversation)
        return len(self._conversations) <= MOST_AT_ONCE

    def ended(self, conversation: "_Conversation") -> None:
        self._conversations.discard(conversation)

    def later(self, delay_s: float, do: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, do)

    def failed(self, error: Exception) -> None:
        self._log.failure("metrics", f"the page of metrics could not be made: {error!r}", error)


class _Conversation(asyncio.Protocol):
    """One connection: a request, its answer, the end."""

    def __init__(self, listener: MetricsListener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._asked = bytearray()
        self._is_answered = False
        self._is_paused = False
        self._is_chunked = False
        self._left: Iterator[str] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._next: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._listener.begun(self):
            self._timer = self._listener.later(REQUEST_TIMEOUT_S, self.abort)
        else:
            self._refuse("503 Service Unavailable", f"{MOST_AT_ONCE} others are being answered; ask again")

    def connection_lost(self, exc: Exception | None) -> None:
        self._left = None
        self._listener.ended(self)
        for handle in (self._timer, self._next):
            if handle is not None:
                handle.cancel()

    def data_received(self, data: bytes) -> None:
        if self._is_answered:
            return  # nothing is wanted any more
        self._asked += data
        head, end, _ = bytes(self._asked).partition(b"\r\n\r\n")
        if end:
            self._answer(head)
        elif len(self._asked) > LARGEST_REQUEST_BYTES:
            self._refuse(
                "431 Request Header Fields Too Large", f"at most {LARGEST_REQUEST_BYTES} bytes are read"
            )

    def eof_received(self) -> bool:
        return self._is_answered  # who has asked may close that side, and reads on

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._go_on()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- private

    def _answer(self, head: bytes) -> None:
        line = head.split(b"\r\n", 1)[0].decode("latin-1")
        words = line.split(" ")
        if len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
            self._refuse("400 Bad Request", "GET /metrics HTTP/1.1 would do")
            return
        method, target, version = words
        if target[:7].lower() == "http://":  # as a proxy is asked; servers have to take it (RFC 9112, 3.2.2)
            target = "/" + target[7:].partition("/")[2]
        if target.partition("?")[0] != "/metrics":
            self._refuse("404 Not Found", "the metrics are at /metrics")
        elif method not in ("GET", "HEAD"):
            self._refuse("405 Method Not Allowed", "GET is what is served", "Allow: GET, HEAD")
        elif self._listener.page is None:
            self._refuse("503 Service Unavailable", "the broker is starting")
        else:
            self._send_page(self._listener.page(), is_wanted=method == "GET", version=version)

    def _refuse(self, status: str, sentence: str, *headers: str) -> None:
        self._is_answered = True
        body = f"{sentence}\n".encode()
        self._write(_head(status, PLAIN_TEXT, f"Content-Length: {len(body)}", *headers) + body)
        self._end()

    def _send_page(self, page: Iterator[str], *, is_wanted: bool, version: str) -> None:
        self._is_answered = True
        self._is_chunked = version == "HTTP/1.1"
        self._write(_head("200 OK", CONTENT_TYPE, *["Transfer-Encoding: chunked"] * self._is_chunked))
        if not is_wanted:
            self._end()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._listener.later(PAGE_TIMEOUT_S, self.abort)
        self._left = page
        self._go_on()

    def _go_on(self) -> None:
        """One piece, and the next in another turn of the loop; none while its reader is behind."""
        if self._left is None or self._is_paused or (self._next is not None and not self._next.cancelled()):
            return
        self._next = self._listener.later(0, self._send_piece)

    def _send_piece(self) -> None:
        self._next = None
        left = self._left
        if left is None:
            return
        try:
            piece = next(left, None)
        except Exception as error:  # told, and the page is seen to be cut off: its last chunk does not come
            self._listener.failed(error)
            self.abort()
            return
        if piece is None:
            self._left = None
            if self._is_chunked:
                self._write(b"0\r\n\r\n")
            self._end()
            return
        if piece:
            body = piece.encode(errors="replace")
            self._write(b"%x\r\n%b\r\n" % (len(body), body) if self._is_chunked else body)
        self._go_on()

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def _end(self) -> None:
        """What was written still leaves; whoever does not take it is left."""
        assert self._transport is not None
        self._transport.close()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._listener.later(REQUEST_TIMEOUT_S, self.abort)


def _head(status: str, content_type: str, *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Type: {content_type}", "Connection: close", *headers, "", "")
    return "\r\n".join(lines).encode("latin-1")
