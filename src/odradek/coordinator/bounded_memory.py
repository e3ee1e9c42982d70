"""Memory that is counted in parts, one of each coordinator, and bounded over all of a broker."""

SAID_AGAIN_MS = 60_000


class BoundedMemory:
    """Of a broker, as of the last step of each of its coordinators."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.refused = 0
        self._said_at_ms: int | None = None

    def refuse(self, now_ms: int) -> str | None:
        """And what an operator is to know, from time to time."""
        self.refused += 1
        if self._said_at_ms is not None and now_ms < self._said_at_ms + SAID_AGAIN_MS:
            return None
        self._said_at_ms = now_ms
        return self.line()

    def line(self) -> str:
        raise NotImplementedError


class Part:
    """What one coordinator has of it."""

    __slots__ = ("_memory", "_told_bytes")

    def __init__(self, memory: BoundedMemory) -> None:
        self._memory = memory
        self._told_bytes = 0

    def tell(self, held_bytes: int) -> None:
        """What the others are to know of it."""
        self._memory.size_bytes += held_bytes - self._told_bytes
        self._told_bytes = held_bytes

    def with_others(self, held_bytes: int) -> int:
        """What all have, if this one has so much by now."""
        return held_bytes + self._memory.size_bytes - self._told_bytes


def of_text(*texts: str) -> int:
    """At most: each letter takes four bytes where one is beyond U+FFFF (PEP 393)."""
    return sum(len(text) if text.isascii() else 4 * len(text) for text in texts)
