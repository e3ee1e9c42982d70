"""Whoever listens on the wire to what brokers are asked and answer, each answer with what it is an answer to."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from odradek.sim.network import SimTransport
from odradek.sim.world import SimBroker, World

T = TypeVar("T")  # what is remembered of a request until it is answered


class AnswersHeard(Generic[T]):
    """A listener says what it waits for (`expect`, in `heard`) and goes through `answers` (in `answered`)."""

    def __init__(self, world: World, about: str, api_key: int) -> None:
        """`about`: what it listens to, for the message where it fails. `api_key`: of the requests that it hears."""
        self._world = world
        self._about = about
        self._key = api_key.to_bytes(2, "big")
        # By the end of whoever asks: correlation id -> what is remembered.
        self._asked: dict[SimTransport, dict[int, T]] = {}
        world.network.taps.append(self._written)

    def heard(self, transport: SimTransport, data: bytes) -> None:
        """`data` is written at this end, where no answer is awaited, and nobody has it yet. It may hold a request with the key."""
        raise NotImplementedError

    def answered(self, transport: SimTransport, data: bytes) -> None:
        """As `heard`, and an answer is awaited."""
        raise NotImplementedError

    def expect(self, transport: SimTransport, correlation_id: int, asked: T) -> None:
        self._asked.setdefault(transport, {})[correlation_id] = asked

    def answers(self, transport: SimTransport, data: bytes) -> Iterator[tuple[SimBroker, T, memoryview]]:
        """Those that were awaited: the broker, what it was asked, and the frame without its size."""
        peer = transport.peer
        assert peer is not None
        waiting = self._asked[peer]
        broker = next((b for b in self._world.brokers.values() if b.host is transport.host), None)
        for frame in frames(data):
            asked = waiting.pop(int.from_bytes(frame[:4], "big"), None)
            if asked is not None and broker is not None:
                yield broker, asked, frame
        if not waiting:
            del self._asked[peer]

    def _written(self, transport: SimTransport, data: bytes) -> None:
        """A listener that fails is a mistake of the simulator: the broker that writes must not hear of it."""
        try:
            if transport.peer in self._asked:
                self.answered(transport, data)
            # Nearly always that is one frame, with another key.
            elif data[4:6] == self._key or len(data) != 4 + int.from_bytes(data[:4], "big"):
                self.heard(transport, data)
        except Exception as error:
            self._world.loop.call_exception_handler(
                {"message": f"whoever listened to {self._about}", "exception": error}
            )
            self._world.loop.interrupt()


def frames(data: bytes) -> Iterator[memoryview]:
    """Whole frames of what was written at once, without their sizes. Requests and answers of producers are small."""
    view, at = memoryview(data), 0
    while at + 4 <= len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            return
        yield view[at + 4 : end]
        at = end
