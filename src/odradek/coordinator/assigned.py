"""Which partitions a member of type `consumer` was given, as far as it can be read.

ConsumerProtocolAssignment: version i16, then an array of topics, each with an array of partitions; what follows is
the assignor's own affair. The bytes come from the leader of the group, a client.
"""

from struct import Struct, error

from odradek.model.ids import TopicPartition

_COUNT = Struct(">i")
_LENGTH = Struct(">h")


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...] | None:
    """In order; none where there is no assignment. None: cannot be read."""
    if not assignment:
        return ()
    found = []
    try:
        (version,) = _LENGTH.unpack_from(assignment)
        (topics,) = _COUNT.unpack_from(assignment, _LENGTH.size)
        position = _LENGTH.size + _COUNT.size
        if version < 0 or topics < 0:
            return None
        for _ in range(topics):  # a count that lies ends at the end of the bytes
            (size,) = _LENGTH.unpack_from(assignment, position)
            position += _LENGTH.size
            if size < 0 or position + size > len(assignment):
                return None
            topic = assignment[position : position + size].decode()
            (count,) = _COUNT.unpack_from(assignment, position + size)
            position += size + _COUNT.size
            if not 0 <= count <= (len(assignment) - position) // _COUNT.size:
                return None
            numbers = Struct(f">{count}i").unpack_from(assignment, position)
            position += count * _COUNT.size
            found += [TopicPartition(topic, number) for number in numbers]
    except (error, UnicodeDecodeError):
        return None
    return tuple(sorted(found))
