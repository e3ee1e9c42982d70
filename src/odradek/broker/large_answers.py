"""Answers whose rows would keep the loop for longer than a turn may: gathered in slices, and encoded by a thread.

One at a time, for the rows of a hundred thousand partitions are some ten megabytes. Who asks for the same while it is made,
or waits to be, gets the same answer.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple, Protocol

from odradek.broker.answers import CloseConnection, Park, Reply
from odradek.broker.aside import Aside, Made
from odradek.broker.slices import END, Slices


class LargeAnswer(Protocol):
    def steps(self) -> Iterator[None]:
        """Gathers the rows, each step well below a millisecond or two."""

    def gathered(self, now_ms: int) -> Callable[[], bytes]:
        """There are no more steps. What encodes the answer, in a thread: it touches nothing that changes."""

    def made(self, answer: bytes) -> None: ...


class _Asked(NamedTuple):
    key: Hashable
    answer: LargeAnswer
    steps: Iterator[None]
    places: list[Park]


class LargeAnswers:
    def __init__(self, slices: Slices, aside: Aside) -> None:
        self._slices = slices
        self._aside = aside
        # Invariant: the same in both, and while there is one the first is worked at.
        self._line: deque[_Asked] = deque()
        self._by_key: dict[Hashable, _Asked] = {}

    def ask(self, key: Hashable, answer: LargeAnswer) -> Park:
        """`key`: of two with the same, one answer serves both."""
        asked = self._by_key.get(key)
        if asked is None:
            asked = self._by_key[key] = _Asked(key, answer, answer.steps(), [])
            self._line.append(asked)
            if len(self._line) == 1:
                self._slices.begin(self._slice)
        park = Park()
        asked.places.append(park)
        return park

    def _slice(self, now_ms: int) -> bool:
        first = self._line[0]
        if all(place.abandoned for place in first.places):
            self._end(CloseConnection("nobody waits for it"))
            return False
        try:
            if next(first.steps, END) is not END:
                return True
            make = first.answer.gathered(now_ms)
        except Exception as mistake:  # ours: whoever waits hears that there is no answer
            self._end(CloseConnection.because(mistake))
            return False
        self._aside.ask(self._aside.lookups, lambda: Made(make), self._made, now_ms)
        return False

    def _made(self, data: bytes | None, later_ms: int) -> None:
        if data is None:
            return self._end(CloseConnection("its answer could not be made"))
        try:
            self._line[0].answer.made(data)
        except Exception as mistake:  # ours, as above: no other may wait for ever
            return self._end(CloseConnection.because(mistake))
        return self._end(Reply([data]))

    def _end(self, result: Reply | CloseConnection) -> None:
        ended = self._line.popleft()
        del self._by_key[ended.key]
        if self._line:
            self._slices.begin(self._slice)
        for place in ended.places:
            place.complete(result)
