"""Metadata (key 3) by hand, responses 0-12: a topic is encoded once and its bytes are used again.

Clients ask for the same topics all day, and a topic changes only with an UpdateMetadata. So a response is put
together from topics that are bytes already: `encode_topic` makes them, `TopicBytes` keeps them, and
`encode_response` writes what stands around them. Held equal to the table by
tests/protocol/test_fast_metadata.py; what the fields mean stands in messages/metadata.py.
"""

from collections.abc import Callable, Sequence
from struct import Struct

from odradek.protocol.primitives import compact_nullable_string, compact_string, uvarint

FIRST_FLEXIBLE = 9
# No authorized operations were asked for.
OPERATIONS_UNKNOWN = -(1 << 31)

Ids = Sequence[int]
# (error code, partition, leader, leader epoch, replicas, isr, offline replicas)
PartitionState = tuple[int, int, int, int, Ids, Ids, Ids]
# (node id, host, port, rack)
Broker = tuple[int, str, int, str | None]

_PACK_INT = Struct(">i").pack
_PACK_SHORT = Struct(">h").pack

# One struct for a whole partition, by version and lengths of the three lists; there are few such shapes.
_SHAPES: dict[tuple[int, ...], Callable[..., bytes]] = {}


def encode_topic(
    version: int,
    *,
    name: str | None,
    topic_id: bytes,
    partitions: Sequence[PartitionState],
    error_code: int = 0,
    is_internal: bool = False,
    authorized_operations: int = OPERATIONS_UNKNOWN,
) -> bytes:
    flexible = version >= FIRST_FLEXIBLE
    parts = [_PACK_SHORT(error_code), _topic_name(version, name)]
    if version >= 10:
        assert len(topic_id) == 16, f"a topic id has 16 bytes, not {len(topic_id)}"
        parts.append(topic_id)
    if version >= 1:
        parts.append(b"\1" if is_internal else b"\0")
    parts.append(uvarint(len(partitions) + 1) if flexible else _PACK_INT(len(partitions)))
    for error, index, leader, leader_epoch, replicas, isr, offline in partitions:
        shape = (version, len(replicas), len(isr), len(offline))
        packer = _SHAPES.get(shape)
        if packer is None:
            packer = _shape(*shape)
        parts.append(packer(error, index, leader, leader_epoch, replicas, isr, offline))
    if version >= 8:
        parts.append(_PACK_INT(authorized_operations))
    if flexible:
        parts.append(b"\0")
    return b"".join(parts)


def _topic_name(version: int, name: str | None) -> bytes:
    if version >= FIRST_FLEXIBLE:
        assert name is not None or version >= 12, "a topic may be without a name from version 12 on"
        return compact_nullable_string(name)
    assert name is not None, "a topic may be without a name from version 12 on"
    content = name.encode()
    return _PACK_SHORT(len(content)) + content


def _shape(version: int, *lengths: int) -> Callable[..., bytes]:
    """A function that packs a partition whose replicas, ISR and offline replicas are this many."""
    if version < FIRST_FLEXIBLE:
        a, b, c = (_PACK_INT(length) for length in lengths)
    else:
        a, b, c = (uvarint(length + 1) for length in lengths)
    forms = "".join(f"{len(count)}s{length}i" for count, length in zip((a, b, c), lengths, strict=True))
    if version >= FIRST_FLEXIBLE:
        forms += "x"
    packer: Callable[..., bytes]
    if version >= 7:
        raw = Struct(">hiii" + forms).pack

        def packer(error: int, index: int, leader: int, epoch: int, r: Ids, i: Ids, o: Ids) -> bytes:
            return raw(error, index, leader, epoch, a, *r, b, *i, c, *o)

    elif version >= 5:
        raw = Struct(">hii" + forms).pack

        def packer(error: int, index: int, leader: int, epoch: int, r: Ids, i: Ids, o: Ids) -> bytes:
            return raw(error, index, leader, a, *r, b, *i, c, *o)

    else:
        raw = Struct(f">hii4s{lengths[0]}i4s{lengths[1]}i").pack

        def packer(error: int, index: int, leader: int, epoch: int, r: Ids, i: Ids, o: Ids) -> bytes:
            return raw(error, index, leader, a, *r, b, *i)

    if len(_SHAPES) >= 1024:  # lists of all lengths: not a cluster we were made for, so start again
        _SHAPES.clear()
    _SHAPES[version, *lengths] = packer
    return packer


def encode_response(
    version: int,
    *,
    brokers: Sequence[Broker],
    topics: Sequence[bytes],
    cluster_id: str | None = None,
    controller_id: int = -1,
    throttle_time_ms: int = 0,
    authorized_operations: int = OPERATIONS_UNKNOWN,
) -> bytes:
    """The body; `topics` are the bytes `encode_topic` made for the same version."""
    flexible = version >= FIRST_FLEXIBLE
    parts = [_PACK_INT(throttle_time_ms)] if version >= 3 else []
    parts.append(uvarint(len(brokers) + 1) if flexible else _PACK_INT(len(brokers)))
    for node_id, host, port, rack in brokers:
        if flexible:
            parts += (_PACK_INT(node_id), compact_string(host), _PACK_INT(port))
            parts += (compact_nullable_string(rack), b"\0")
        else:
            parts += (_PACK_INT(node_id), _string(host), _PACK_INT(port))
            if version >= 1:
                parts.append(_string(rack))
    if version >= 2:
        parts.append(compact_nullable_string(cluster_id) if flexible else _string(cluster_id))
    if version >= 1:
        parts.append(_PACK_INT(controller_id))
    parts.append(uvarint(len(topics) + 1) if flexible else _PACK_INT(len(topics)))
    parts += topics
    if 8 <= version <= 10:
        parts.append(_PACK_INT(authorized_operations))
    if flexible:
        parts.append(b"\0")
    return b"".join(parts)


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    content = text.encode()
    return _PACK_SHORT(len(content)) + content


class TopicBytes:
    """Encoded topics by version and name, until the topic changes."""

    __slots__ = ("_by_topic",)

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, bytes]] = {}

    def get(self, version: int, name: str, make: Callable[[], bytes]) -> bytes:
        versions = self._by_topic.setdefault(name, {})
        found = versions.get(version)
        if found is None:
            found = versions[version] = make()
        return found

    def forget(self, name: str) -> None:
        self._by_topic.pop(name, None)

    def forget_all(self) -> None:
        self._by_topic.clear()
