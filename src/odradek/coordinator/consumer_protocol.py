"""The bytes that clients of the classic protocol of type `consumer` put into JoinGroup and SyncGroup.

    ConsumerProtocolSubscription
        0  version i16, topics, user data
        1  what the member owns (KIP-429)
        2  the generation it was given that in, -1: none (KIP-792)
        3  its rack, or null (KIP-881)
    ConsumerProtocolAssignment
        0  version i16, topic -> partitions, user data; 1, 2 and 3 are the same

They are a client's choice: what cannot be read is None, and counts are believed as far as there are bytes. User data are an
assignor's own: they are not read, and none are written.
"""

from collections.abc import Mapping, Sequence
from struct import Struct, error, pack, unpack_from
from typing import NamedTuple

_I16 = Struct(">h")
_I32 = Struct(">i")
NO_DATA = -1
NO_RACK = -1
NO_GENERATION = -1
UNREADABLE = (error, ValueError)  # of which a wrong letter is one
NEWEST = 3
FIRST_WITH_OWNED, FIRST_WITH_GENERATION, FIRST_WITH_RACK = 1, 2, 3
_SMALLEST_TOPIC = _I16.size + _I32.size

Partitions = dict[str, tuple[int, ...]]


class Subscription(NamedTuple):
    """What its version has no place for is as by default."""

    version: int
    topics: tuple[str, ...]
    owned: Partitions
    generation: int = NO_GENERATION
    rack: str = ""


class Source:
    """Reads on from where it is; ValueError or struct.error: what is promised is not there."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def i16(self) -> int:
        (value,) = _I16.unpack_from(self.data, self.at)
        self.at += _I16.size
        return int(value)

    def i32(self) -> int:
        (value,) = _I32.unpack_from(self.data, self.at)
        self.at += _I32.size
        return int(value)

    def count(self, smallest: int) -> int:
        count = self.i32()
        if not 0 <= count <= (len(self.data) - self.at) // smallest:
            raise ValueError("a count of more than there is")
        return count

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise ValueError("longer than there is")
        self.at += size
        return self.data[self.at - size : self.at]

    def string(self) -> str:
        return self.take(self.i16()).decode()

    def strings(self) -> tuple[str, ...]:
        return tuple(self.string() for _ in range(self.count(_I16.size)))

    def skip_data(self) -> None:
        size = self.i32()
        if size != NO_DATA:
            self.take(size)

    def partitions(self) -> Partitions:
        found: dict[str, list[int]] = {}
        for _ in range(self.count(_SMALLEST_TOPIC)):
            topic = self.string()
            count = self.count(_I32.size)
            # A topic may come twice.
            found.setdefault(topic, []).extend(unpack_from(f">{count}i", self.data, self.at))
            self.at += count * _I32.size
        return {topic: tuple(numbers) for topic, numbers in found.items()}


def read_subscription(data: bytes) -> Subscription | None:
    try:
        source = Source(data)
        version = source.i16()
        if version < 0:
            return None
        topics = source.strings()
        source.skip_data()
        owned = source.partitions() if version >= FIRST_WITH_OWNED else {}
        generation = source.i32() if version >= FIRST_WITH_GENERATION else NO_GENERATION
        rack = ""
        if version >= FIRST_WITH_RACK:
            size = source.i16()
            rack = source.take(size).decode() if size >= 0 else ""
    except UNREADABLE:
        return None
    return Subscription(version, topics, owned, generation, rack)


def write_subscription(subscription: Subscription) -> bytes:
    """As a client of its version sends it."""
    version, topics, owned, generation, rack = subscription
    parts = [_I16.pack(version), _I32.pack(len(topics)), *map(_written, topics), _I32.pack(NO_DATA)]
    if version >= FIRST_WITH_OWNED:
        parts.append(_written_partitions(owned))
    if version >= FIRST_WITH_GENERATION:
        parts.append(_I32.pack(generation))
    if version >= FIRST_WITH_RACK:
        parts.append(_written(rack) if rack else _I16.pack(NO_RACK))
    return b"".join(parts)


def read_assignment(data: bytes) -> Partitions | None:
    """No bytes: nothing is assigned."""
    if not data:
        return {}
    try:
        source = Source(data)
        return source.partitions() if source.i16() >= 0 else None
    except UNREADABLE:
        return None


def version_of(metadata: bytes) -> int:
    """Of the subscription that a member sent, in which it is answered."""
    found = read_subscription(metadata)
    return min(found.version, NEWEST) if found is not None else 0


def write_assignment(assignment: Mapping[str, Sequence[int]], version: int) -> bytes:
    return _I16.pack(version) + _written_partitions(assignment) + _I32.pack(NO_DATA)


def _written_partitions(partitions: Mapping[str, Sequence[int]]) -> bytes:
    parts = [_I32.pack(len(partitions))]
    for topic, numbers in partitions.items():
        parts += [_written(topic), pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


def _written(text: str) -> bytes:
    data = text.encode()
    return _I16.pack(len(data)) + data
