"""Which partitions a member of type `consumer` was given, as far as it can be read."""

from odradek.coordinator.consumer_protocol import read_assignment
from odradek.model.ids import TopicPartition


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...] | None:
    """In order; none where there is no assignment. None: cannot be read."""
    found = read_assignment(assignment)
    if found is None:
        return None
    return tuple(sorted(TopicPartition(topic, one) for topic, numbers in found.items() for one in numbers))
