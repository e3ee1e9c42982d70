"""What members of type `consumer` subscribe to, as far as it can be read.

ConsumerProtocolSubscription: version i16, then the topics, an array of strings; what follows is the members' own
affair. The bytes are a client's choice: a count that promises more than is there, or a name that is cut short, makes
the subscription unknown. Apache 3.9 throws in the middle of a join there, and the group never recovers.
"""

from collections.abc import Iterable
from struct import Struct, error

CONSUMER = "consumer"
_COUNT = Struct(">i")
_LENGTH = Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None: cannot be read."""
    try:
        (version,) = _LENGTH.unpack_from(metadata)
        (count,) = _COUNT.unpack_from(metadata, _LENGTH.size)
        position = _LENGTH.size + _COUNT.size
        if version < 0 or not 0 <= count <= (len(metadata) - position) // _LENGTH.size:
            return None
        topics = []
        for _ in range(count):
            (size,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if size < 0 or position + size > len(metadata):
                return None
            topics.append(metadata[position : position + size].decode())
            position += size
    except (error, UnicodeDecodeError):
        return None
    return frozenset(topics)


def topics_of_all(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Of all members together; None where that of one is not known: any topic may be subscribed then."""
    together: set[str] = set()
    for one in metadata:
        topics = subscribed_topics(one)
        if topics is None:
            return None
        together |= topics
    return frozenset(together)
