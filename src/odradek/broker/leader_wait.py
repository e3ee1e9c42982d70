"""Requests that answer when topics stand: every partition has a leader in this broker's cache, or is gone."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park
from odradek.replication.purgatory import Waiter

if TYPE_CHECKING:
    from odradek.broker.core import Broker


def topic_key(topic: str) -> tuple[str, str]:
    """What UpdateMetadata wakes waiters by."""
    return "topic", topic


class TopicWait(Waiter):
    """`is_over(topic)` for every open topic, or the deadline; then `reply(open topics, now_ms)` is the answer."""

    __slots__ = ("_broker", "_is_over", "_reply", "open", "park")

    def __init__(
        self,
        broker: "Broker",
        topics: list[str],
        *,
        is_over: Callable[[str], bool],
        reply: Callable[[list[str], int], Answer],
        park: Park,
    ) -> None:
        super().__init__()
        self._broker = broker
        self._is_over = is_over
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
