"""What a request handler may answer. The shell waits; handlers never do.

`Reply.buffers` is the response body (no size, no header: the shell puts them in front). A buffer is bytes, a
memoryview, or a `FileSlice` whose bytes still lie in a segment file.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from odradek.model.errors import ProtocolError


class LazyBuffer(Protocol):
    """Bytes that still lie in a file: `size_bytes` is known before anything is read. They leave in pieces."""

    @property
    def size_bytes(self) -> int: ...

    def read_piece(self, start: int, size: int) -> bytes: ...

    def send_to(self, descriptor: int, start: int, size: int) -> int: ...


Buffer = bytes | bytearray | memoryview | LazyBuffer


class Reply:
    """The answer is here. With a throttle time it is sent at once, and then its connection is not read from for so
    long (KIP-219)."""

    __slots__ = ("buffers", "throttle_time_ms")

    def __init__(self, buffers: Sequence[Buffer], throttle_time_ms: int = 0) -> None:
        self.buffers = buffers
        self.throttle_time_ms = throttle_time_ms


class NoReply:
    """The request wants no answer (Produce with acks=0). It may have used up a quota all the same."""

    __slots__ = ("throttle_time_ms",)

    def __init__(self, throttle_time_ms: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms


class CloseConnection:
    """Nothing sensible can be said to this peer; `reason` becomes one log line. With `error` it is a mistake of ours,
    and the line has its trace."""

    __slots__ = ("error", "reason")

    def __init__(self, reason: str, error: Exception | None = None) -> None:
        self.reason = reason
        self.error = error

    @classmethod
    def because(cls, error: Exception) -> "CloseConnection":
        """Of a request that could not be handled, or whose answer could not be encoded."""
        if isinstance(error, ProtocolError):
            return cls(error.message or error.code.name)
        return cls(repr(error), error)


class Park:
    """The answer comes later, exactly once: by `complete`, called by whoever makes it true or by the deadline.

    `answer` is for those that still have to make it. The shell subscribes with `on_complete` and keeps the place in the order of the connection's answers. When
    the connection goes away the shell calls `abandon`, and a later `complete` is a no-op.
    """

    __slots__ = ("_callback", "_followed", "abandoned", "result")

    def __init__(self) -> None:
        self.result: Reply | NoReply | CloseConnection | None = None
        self.abandoned = False
        self._callback: Callable[[Reply | NoReply | CloseConnection], None] | None = None
        self._followed: Park | None = None  # given up with this one

    def complete(self, result: Reply | NoReply | CloseConnection) -> None:
        """A second completion is our own mistake, so it is an assertion."""
        assert self.result is None, "a parked request was completed twice"
        self.result = result
        # Whom it follows has it as whom to call back: the two would keep the answer until somebody looks for cycles.
        callback, self._callback, self._followed = self._callback, None, None
        if callback is not None and not self.abandoned:
            callback(result)

    def answer(self, make: "Callable[[], Answer]") -> None:
        """`complete` with what `make` returns; if that is parked again, with what it will be completed with. `make` may
        return this very place: then it goes on waiting.

        Whoever makes an answer late stands somewhere in the middle: in a sweep of the purgatory, a timer, an answer of
        the controller or of the store. An answer that cannot be made, say for a string that the wire has no room for,
        must cost the connection that waits for it, and nobody else; in `handle` the shell sees to that.
        """
        try:
            result = make()
        except Exception as error:
            result = CloseConnection.because(error)
        if not isinstance(result, Park):
            self.complete(result)
        elif result is not self:
            self.follow(result)
            result.on_complete(self.complete)

    def follow(self, other: "Park") -> None:
        """Nobody waits for `other` but who waits for this."""
        self._followed = other
        if self.abandoned:
            other.abandon()

    def on_complete(self, callback: Callable[[Reply | NoReply | CloseConnection], None]) -> None:
        """Calls back at once if the answer is already here."""
        self._callback = callback
        if self.result is not None and not self.abandoned:
            callback(self.result)

    def abandon(self) -> None:
        self.abandoned = True
        if self._followed is not None:
            self._followed.abandon()


NO_REPLY = NoReply()
Answer = Reply | Park | NoReply | CloseConnection
