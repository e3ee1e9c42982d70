"""What members of type `consumer` subscribe to, as far as it can be read.

ConsumerProtocolSubscription: version i16, then the topics, an array of strings; what follows is the members' own
affair. The bytes are a client's choice: a count that promises more than is there, or a name that is cut short, makes
the subscription unknown. Apache 3.9 throws in the middle of a join there, and the group never recovers.
"""

from collections.abc import Iterable

from odradek.coordinator.consumer_protocol import UNREADABLE, Source

CONSUMER = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None: cannot be read."""
    try:
        source = Source(metadata)
        if source.i16() < 0:
            return None
        return frozenset(source.strings())
    except UNREADABLE:
        return None


def topics_of_all(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Of all members together; None where that of one is not known: any topic may be subscribed then."""
    together: set[str] = set()
    for one in metadata:
        topics = subscribed_topics(one)
        if topics is None:
            return None
        together |= topics
    return frozenset(together)
