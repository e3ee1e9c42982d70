"""Memory that connections hold, counted over all of a broker."""

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar


class HeldByOne(Protocol):
    """What one connection holds."""

    connection_id: int
    size_bytes: int

    def seconds_left(self, now: float) -> float:
        """Until it lets go of it, if it goes on as lately."""


H = TypeVar("H", bound=HeldByOne)


class HeldMemory(Generic[H]):
    """Of a broker."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.look_from = 0.0  # before, nobody is looked for who might be reset
        self._waiting: dict[int, H] = {}  # by connection

    @property
    def waiting(self) -> Mapping[int, H]:
        """The connections that hold some."""
        return self._waiting

    def changed(self, one: H, by_bytes: int) -> None:
        self.size_bytes += by_bytes
        if one.size_bytes:
            self._waiting[one.connection_id] = one
        else:
            self._waiting.pop(one.connection_id, None)
