"""LeaderAndIsr 7, UpdateMetadata 8 and StopReplica 4 by hand: what a controller says, in the versions of 3.9.

A controller that takes over tells every replica of every partition, so a partition is one `struct.pack`. The
versions are those of inter.broker.protocol.version 3.9 and no others: nothing is negotiated here. Held equal to
the tables by tests/protocol/test_fast_controller.py; what the fields mean stands in messages/leader_and_isr.py,
update_metadata.py and stop_replica.py. `type` is 0 and `isKRaftController` false in all of them.
"""

from collections.abc import Callable, Iterable, Sequence
from struct import Struct

from odradek.protocol.primitives import compact_nullable_string, compact_string, uvarint
from odradek.protocol.schema import FIRST_OWN_TAG

ELIGIBLE_TAG = FIRST_OWN_TAG  # of `eligible_leader_replicas`
LEADER_AND_ISR_VERSION, UPDATE_METADATA_VERSION, STOP_REPLICA_VERSION = 7, 8, 4

Ids = Sequence[int]
# ((topic, partition), topic id, controller epoch, leader, leader epoch, ISR, partition epoch, replicas,
#  adding replicas, removing replicas, is new, leader recovery state, eligible leader replicas)
LeaderAndIsrState = tuple[tuple[str, int], bytes, int, int, int, Ids, int, Ids, Ids, Ids, bool, int, Ids]
# ((topic, partition), topic id, controller epoch, leader, leader epoch, ISR, partition epoch, replicas,
#  offline replicas)
UpdateMetadataState = tuple[tuple[str, int], bytes, int, int, int, Ids, int, Ids, Ids]
# ((topic, partition), leader epoch, delete)
StopReplicaState = tuple[tuple[str, int], int, bool]
# (broker, host, port)
LiveLeader = tuple[int, str, int]
# (broker, [(port, host, listener, security protocol)], rack)
LiveBroker = tuple[int, Sequence[tuple[int, str, str, int]], str | None]

# controller id, is it a KRaft controller, controller epoch, broker epoch
_HEAD = Struct(">i?iq").pack
_STOP = Struct(">ii?x").pack
_INT = Struct(">i").pack
_SHORT = Struct(">h").pack

# One struct for a whole partition, by the lengths of its lists, and these lengths encoded; there are few such shapes.
LeaderAndIsrShape = tuple[Callable[..., bytes], bytes, bytes, bytes, bytes]
UpdateMetadataShape = tuple[Callable[..., bytes], bytes, bytes, bytes]
_LEADER_AND_ISR: dict[tuple[int, int, int, int], LeaderAndIsrShape] = {}
_UPDATE_METADATA: dict[tuple[int, int, int], UpdateMetadataShape] = {}
_MOST_SHAPES = 1024


def encode_leader_and_isr(
    *,
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    topics: bytes,
    live_leaders: Sequence[LiveLeader],
) -> bytes:
    """`topics` is what `encode_leader_and_isr_topics` made."""
    parts = [
        _HEAD(controller_id, False, controller_epoch, broker_epoch),
        b"\0",
        topics,
        uvarint(len(live_leaders) + 1),
    ]
    for broker, host, port in live_leaders:
        parts += (_INT(broker), compact_string(host), _INT(port), b"\0")
    parts.append(b"\0")
    return b"".join(parts)


def encode_leader_and_isr_topics(
    partitions: Iterable[LeaderAndIsrState], encoded: dict[int, bytes] | None = None
) -> bytes:
    """The part of LeaderAndIsr that is the same for all who are told of the same partitions.

    `encoded` holds what was made of a partition before, by its `id()`: several brokers are told of it. Whoever passes
    it keeps the partitions alive.
    """
    encoded = {} if encoded is None else encoded
    topics: dict[tuple[str, bytes], list[bytes]] = {}
    topic, its_id, states = None, b"", []
    known, shapes = encoded.get, _LEADER_AND_ISR.get
    for state in partitions:
        data = known(id(state))
        # fmt: off
        (
            at, topic_id, epoch, leader, leader_epoch, isr, version, replicas, adding, removing, new, recovery, eligible,
        ) = state
        # fmt: on
        if data is None:
            shape = len(isr), len(replicas), len(adding), len(removing)
            pack, a, b, c, d = shapes(shape) or _leader_and_isr_shape(shape)
            # fmt: off
            data = pack(
                at[1], epoch, leader, leader_epoch, a, *isr, version, b, *replicas, c, *adding, d, *removing,
                new, recovery,
            )
            # fmt: on
            if eligible:  # seldom: the ISR is smaller than min.insync.replicas
                data = data[:-1] + _tagged_ids(eligible)
            encoded[id(state)] = data
        if at[0] is not topic or topic_id != its_id:
            topic, its_id = at[0], topic_id
            states = topics.setdefault((topic, topic_id), [])
        states.append(data)
    parts = [uvarint(len(topics) + 1)]
    for (name, topic_id), states in topics.items():
        parts += (compact_string(name), topic_id, uvarint(len(states) + 1), *states, b"\0")
    return b"".join(parts)


def encode_update_metadata_topics(partitions: Iterable[UpdateMetadataState]) -> bytes:
    """The part of UpdateMetadata that is the same for every broker."""
    topics: dict[tuple[str, bytes], list[bytes]] = {}
    topic, its_id, states = None, b"", []
    shapes = _UPDATE_METADATA.get
    for at, topic_id, epoch, leader, leader_epoch, isr, version, replicas, offline in partitions:
        name, index = at
        if name is not topic or topic_id != its_id:
            topic, its_id = name, topic_id
            states = topics.setdefault((name, topic_id), [])
        shape = (len(isr), len(replicas), len(offline))
        pack, a, b, c = shapes(shape) or _update_metadata_shape(shape)
        states.append(pack(index, epoch, leader, leader_epoch, a, *isr, version, b, *replicas, c, *offline))
    parts = [uvarint(len(topics) + 1)]
    for (name, topic_id), states in topics.items():
        parts += (compact_string(name), topic_id, uvarint(len(states) + 1), *states, b"\0")
    return b"".join(parts)


def encode_update_metadata(
    *,
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    topics: bytes,
    live_brokers: Sequence[LiveBroker],
) -> bytes:
    """`topics` is what `encode_update_metadata_topics` made."""
    parts = [
        _HEAD(controller_id, False, controller_epoch, broker_epoch),
        topics,
        uvarint(len(live_brokers) + 1),
    ]
    for broker, endpoints, rack in live_brokers:
        parts += (_INT(broker), uvarint(len(endpoints) + 1))
        for port, host, listener, security_protocol in endpoints:
            parts += (
                _INT(port),
                compact_string(host),
                compact_string(listener),
                _SHORT(security_protocol),
                b"\0",
            )
        parts += (compact_nullable_string(rack), b"\0")
    parts.append(b"\0")
    return b"".join(parts)


def encode_stop_replica(
    *, controller_id: int, controller_epoch: int, broker_epoch: int, partitions: Iterable[StopReplicaState]
) -> bytes:
    topics: dict[str, list[bytes]] = {}
    for (name, index), leader_epoch, delete in partitions:
        topics.setdefault(name, []).append(_STOP(index, leader_epoch, delete))
    parts = [_HEAD(controller_id, False, controller_epoch, broker_epoch), uvarint(len(topics) + 1)]
    for name, states in topics.items():
        parts += (compact_string(name), uvarint(len(states) + 1), *states, b"\0")
    parts.append(b"\0")
    return b"".join(parts)


def _leader_and_isr_shape(shape: tuple[int, int, int, int]) -> LeaderAndIsrShape:
    a, b, c, d = (uvarint(length + 1) for length in shape)
    pack = Struct(
        f">iiii{len(a)}s{shape[0]}ii{len(b)}s{shape[1]}i{len(c)}s{shape[2]}i{len(d)}s{shape[3]}i?bx"
    ).pack
    if len(_LEADER_AND_ISR) >= _MOST_SHAPES:  # lists of all lengths: not a cluster we were made for
        _LEADER_AND_ISR.clear()
    made = _LEADER_AND_ISR[shape] = pack, a, b, c, d
    return made


def _tagged_ids(ids: Ids) -> bytes:
    """One tagged field and no other: a list of brokers."""
    value = uvarint(len(ids) + 1) + b"".join(map(_INT, ids))
    return b"".join((uvarint(1), uvarint(ELIGIBLE_TAG), uvarint(len(value)), value))


def _update_metadata_shape(shape: tuple[int, int, int]) -> UpdateMetadataShape:
    a, b, c = (uvarint(length + 1) for length in shape)
    pack = Struct(f">iiii{len(a)}s{shape[0]}ii{len(b)}s{shape[1]}i{len(c)}s{shape[2]}ix").pack
    if len(_UPDATE_METADATA) >= _MOST_SHAPES:
        _UPDATE_METADATA.clear()
    made = _UPDATE_METADATA[shape] = pack, a, b, c
    return made
