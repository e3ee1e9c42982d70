"""The topics a group can be assigned, by name and by id: groups of KIP-848 name them by their ids."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Protocol


class TopicIds(Protocol):
    @property
    def changes(self) -> int:
        """Grows whenever a topic came, grew or went, at the least."""

    def id_of(self, name: str) -> bytes | None: ...
    def name_of(self, topic_id: bytes) -> str | None: ...


class NoTopicIds:
    changes = 0

    def id_of(self, name: str) -> bytes | None:
        return None

    def name_of(self, topic_id: bytes) -> str | None:
        return None


def partitions_by_id(names: Iterable[str], topics: Mapping[str, int], ids: TopicIds) -> dict[bytes, int]:
    """Of those that are there."""
    found: dict[bytes, int] = {}
    for name in names:
        topic_id, count = ids.id_of(name), topics.get(name, 0)
        if topic_id is not None and count:
            found[topic_id] = count
    return found


def metadata_hash(names: Iterable[str], topics: Mapping[str, int], ids: TopicIds) -> int:
    """64 bits, signed, that differ when a topic came, grew, went or was made again; 0: none of them is there.

    Apache Kafka's differ. Whoever takes the group over finds another hash, and moves the group's epoch on once.
    """
    found = partitions_by_id(names, topics, ids)
    if not found:
        return 0
    digest = blake2b(digest_size=8)
    for topic_id, count in sorted(found.items()):
        digest.update(topic_id + count.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True) or 1
