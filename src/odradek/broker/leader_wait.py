"""Requests that answer when topics stand: every partition has a leader in this broker's cache, or is gone."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.answers import Park, Reply
from odradek.replication.purgatory import Waiter

if TYPE_CHECKING:
    from odradek.broker.core import Broker


def topic_key(topic: str) -> tuple[str, str]:
    """What UpdateMetadata wakes waiters by."""
    return "topic", topic


class TopicWait(Waiter):
    """`is_over(topic)` for every open topic, or the deadline; then `encode(open topics)` is the answer, or
    `reply(open topics, now_ms)` where the answer says more than its body."""

    __slots__ = ("_broker", "_is_over", "_reply", "open", "park")

    def __init__(
        self,
        broker: "Broker",
        topics: list[str],
        *,
        is_over: Callable[[str], bool],
        encode: Callable[[list[str]], bytes] | None = None,
        reply: Callable[[list[str], int], Reply] | None = None,
        park: Park,
    ) -> None:
        super().__init__()
        self._broker = broker
        self._is_over = is_over
        if encode is not None:
            self._reply = _body_alone(encode)
        else:
            assert reply is not None
            self._reply = reply
        self.open = topics
        self.park = park

    def start(self, deadline_ms: int, now_ms: int) -> None:
        self._broker.purgatory.park(
            self, deadline_ms=deadline_ms, keys=[topic_key(topic) for topic in self.open]
        )
        self._broker.purgatory.attempt(self, now_ms)

    def is_over(self, now_ms: int) -> bool:
        self.open = [topic for topic in self.open if not self._is_over(topic)]
        return not self.open

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        if is_late:
            self.is_over(now_ms)
        self.park.answer(lambda: self._reply(self.open, now_ms))


def _body_alone(encode: Callable[[list[str]], bytes]) -> Callable[[list[str], int], Reply]:
    return lambda still_open, now_ms: Reply([encode(still_open)])
