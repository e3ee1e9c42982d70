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
    """`is_over(topic)` for every open topic, or the deadline; then `encode(open topics)` is the answer."""

    __slots__ = ("_broker", "_encode", "_is_over", "open", "park")

    def __init__(
        self,
        broker: "Broker",
        topics: list[str],
        *,
        is_over: Callable[[str], bool],
        encode: Callable[[list[str]], bytes],
        park: Park,
    ) -> None:
        super().__init__()
        self._broker = broker
        self._is_over = is_over
        self._encode = encode
        self.open = topics
        self.park = park

    def start(self, deadline_ms: int, now_ms: int) -> None:
        self._broker.purgatory.park(
            self, deadline_ms=deadline_ms, keys=[topic_key(topic) for topic in self.open]
        )
        self.try_complete(now_ms)

    def try_complete(self, now_ms: int) -> bool:
        self.open = [topic for topic in self.open if not self._is_over(topic)]
        if self.open:
            return False
        self._finish()
        return True

    def expire(self, now_ms: int) -> None:
        self.try_complete(now_ms)
        if not self.is_done:
            self._finish()

    def _finish(self) -> None:
        self._broker.purgatory.leave(self)
        self.park.complete(Reply([self._encode(self.open)]))
