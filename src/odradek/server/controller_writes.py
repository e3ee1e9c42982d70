"""The controller's writes as groups of store operations, and the store's answers as the core wants them.

Every group is fenced by the version of `/controller_epoch` (KAFKA-6082) by whoever sends it.
"""

from collections.abc import Sequence

from odradek.controller import events
from odradek.controller.effects import (
    CreatePartitionState,
    RemovePreferredElectionNode,
    RemoveTopic,
    RemoveTopicConfig,
    RemoveTopicDeletion,
    Write,
    WritePartitionState,
    WritePendingDeletions,
    WriteProducerIdBlock,
    WriteReassignmentNode,
    WriteTopicAssignment,
)
from odradek.store import api, layout, transactions
from odradek.store.fields import Unreadable
from odradek.store.pending_deletions import write_pending_deletions


def encode_writes(writes: Sequence[Write]) -> list[api.ConditionalOps]:
    """One group for each write, in the same order."""
    return [
        transactions.write_partition_state(
            write.topic_partition,
            write.value,
            write.controller_epoch,
            write.isr_broker_epochs,
            write.elr_broker_epochs,
            expected_version=write.expected_version,
        )
        if write.__class__ is WritePartitionState  # nearly all of them
        else _encode(write)
        for write in writes
    ]


def _encode(write: Write) -> api.ConditionalOps:
    if isinstance(write, CreatePartitionState):
        return transactions.create_partition_state(
            write.topic_partition, write.value, write.controller_epoch, write.isr_broker_epochs
        )
    if isinstance(write, WriteTopicAssignment):
        return transactions.write_topic(
            write.topic, write.topic_id, write.partitions, expected_version=write.expected_version
        )
    if isinstance(write, RemoveTopic):
        return transactions.remove_topic(write.topic)
    if isinstance(write, RemoveTopicConfig):
        return transactions.remove_topic_config(write.topic)
    if isinstance(write, RemoveTopicDeletion):
        return transactions.remove_topic_deletion(write.topic)
    if isinstance(write, RemovePreferredElectionNode):
        return transactions.remove_preferred_election()
    if isinstance(write, WriteReassignmentNode):
        return transactions.write_reassignment(write.targets)
    if isinstance(write, WritePendingDeletions):
        return write_pending_deletions(write.broker, write.pending_deletions)
    assert isinstance(write, WriteProducerIdBlock), write
    return transactions.write_producer_id_block(write.block, expected_version=write.expected_version)


def decode_answers(writes: Sequence[Write], answers: Sequence[api.WriteAnswer]) -> events.WritesAnswered:
    stored: dict[int, events.Stored] = {}  # one for each version: there are few
    decoded: list[events.WriteAnswer] = []
    for write, answer in zip(writes, answers, strict=True):
        if answer.__class__ is api.Stored:
            known = stored.get(answer.version)
            if known is None:
                known = stored[answer.version] = events.Stored(answer.version)
            decoded.append(known)
        else:
            decoded.append(_decode(write, answer))
    return events.WritesAnswered(tuple(decoded))


def _decode(write: Write, answer: api.WriteAnswer) -> events.WriteAnswer:
    if isinstance(answer, api.Stored):
        return events.Stored(answer.version)
    if isinstance(answer, api.Fenced):
        return events.Fenced()
    return events.Conflict(_current_value(write, answer))


def _current_value(write: Write, conflict: api.Conflict) -> object | None:
    """What the node that stood in the way holds, as the fact it is."""
    value = conflict.value
    if value is None:
        return None
    try:
        if isinstance(write, (WritePartitionState, CreatePartitionState)):
            if conflict.path != layout.state_path(write.topic_partition):
                return None  # a parent is missing: the topic is gone
            return layout.decode_partition_state(conflict.path, value, conflict.version)
        if isinstance(write, WriteTopicAssignment):
            stat = api.Stat(conflict.version, 0, 0, 0)
            return layout.decode_topic(write.topic, api.Node(value, stat))
        if isinstance(write, WriteProducerIdBlock):
            return layout.decode_producer_id_block(api.Node(value, api.Stat(conflict.version, 0, 0, 0)))
    except Unreadable as error:
        return error.as_fact()
    return None
