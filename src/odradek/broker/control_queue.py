"""Requests of controllers one after the other: what takes long is obeyed in slices, and the others wait for its end.

A LeaderAndIsr with a thousand new partitions makes a thousand logs. At once it would keep everybody else waiting for as
long as that takes, so it is obeyed a few partitions at a time (`at_once`), its answer parked until the last one; between two
slices clients and followers are served. Between two slices nothing else of a controller is obeyed: LeaderAndIsr,
StopReplica and UpdateMetadata wait here as they came, unjudged, for what they say may rest on the one before. Whether they
are stale or late is judged when their turn comes, just as if they had arrived then.

Who is registered anew meanwhile has another broker epoch, and what is left of an older one's request is refused (KIP-380).
The connection may close; what was begun is brought to its end all the same, for the controller tells it again and will hear
that it is done. What only waits is dropped with its connection.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from odradek.broker.answers import Answer, CloseConnection, Park, Reply
from odradek.broker.effects import Effect, GoOn

if TYPE_CHECKING:
    from odradek.broker.request import Request

# Partitions that are taken over at once: that many take less than the millisecond after which the shell lets others go
# first. A new log costs 0.2 ms, where three brokers make theirs on two cores 1.5 ms: one at once.
AT_ONCE = 8
NEW_LOG = AT_ONCE
# Copies of what waits. Beyond it the connection is closed: a controller tells again what was not answered.
MOST_WAITING_BYTES = 64 * 1024 * 1024


class Work(Protocol):
    """A request that is obeyed in slices."""

    park: Park

    def go_on(self, most: int, now_ms: int) -> Reply | None:
        """The next `most` partitions, fewer where logs are made; the answer when all are done."""
        ...


class _Waiting(NamedTuple):
    request: "Request"
    park: Park


class ControlQueue:
    def __init__(
        self,
        handle: Callable[["Request", int], Answer],
        effects: list[Effect],
        at_once: int = AT_ONCE,
    ) -> None:
        self.at_once = at_once
        self._handle = handle
        self._effects = effects
        self._work: Work | None = None
        self._waiting: list[_Waiting] = []
        self._is_taking_up = False

    def wait(self, request: "Request") -> Park | CloseConnection | None:
        """None: it is this one's turn."""
        if self._work is None and (self._is_taking_up or not self._waiting):
            return None
        # A controller that heard nothing sends it again on another connection.
        self._waiting = [other for other in self._waiting if not other.park.abandoned]
        taken = sum(len(other.request.body) for other in self._waiting)
        if taken and taken + len(request.body) > MOST_WAITING_BYTES:
            return CloseConnection(f"{taken} bytes of controllers' requests wait already")
        park = Park()
        self._waiting.append(_Waiting(request.kept(), park))
        return park

    def obey(self, work: Work, now_ms: int) -> Reply | Park:
        answer = work.go_on(self.at_once, now_ms)
        if answer is not None:
            return answer
        assert self._work is None, "one after the other"
        self._work = work
        self._effects.append(GoOn())
        return work.park

    def go_on(self, now_ms: int) -> bool:
        """A slice, or the next one that waits; whether there is more."""
        work = self._work
        if work is None:
            self._take_up(now_ms)
            return self._is_there_more
        try:
            answer = work.go_on(self.at_once, now_ms)
        except Exception:
            # Our caller says why; the controller tells it again.
            self._end(work, CloseConnection("what it asked for could not be done"))
            raise
        if answer is not None:
            self._end(work, answer)
        return self._is_there_more

    @property
    def _is_there_more(self) -> bool:
        return self._work is not None or bool(self._waiting)

    def _end(self, work: Work, answer: Reply | CloseConnection) -> None:
        """What waits is taken up in a turn of its own: reading it may take as long as a slice."""
        self._work = None
        work.park.complete(answer)
        if self._waiting:
            self._effects.append(GoOn())

    def _take_up(self, now_ms: int) -> None:
        """The first that somebody still waits for."""
        while self._waiting:
            one = self._waiting.pop(0)
            if one.park.abandoned:
                continue
            self._is_taking_up = True
            try:
                one.park.answer(partial(self._handle, one.request, now_ms))
            finally:
                self._is_taking_up = False
            return
