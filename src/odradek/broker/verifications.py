"""Whether a transactional batch belongs to a transaction that its coordinator has open (KIP-890).

A log in which the producer has its transaction open, in this epoch, needs no question. Else the coordinator is asked,
and its word holds for what is appended before the next marker, in the same term of the leader: a batch that comes behind
the marker of its transaction would open one that nobody ends.

Clients of `transaction.version` 2 have partitions added by their leaders, so an open transaction that one of them writes
to must be the one it was added for. It may be another: a client that ended its last one the older way, in the same epoch,
need not wait for the marker of that. So a leader remembers what it had added, and asks where it does not know.
"""

from collections.abc import Mapping
from typing import NamedTuple

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import INT32_MAX, TopicId, TopicPartition
from odradek.records.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    HEADER,
    MAGIC,
    MAGIC_OFFSET,
    TRANSACTIONAL,
    BatchHeader,
)
from odradek.replication.partition import Partition

# Producers that were refused and never came again leave theirs behind; the oldest goes first.
MOST_OPEN = 10_000


class Writer(NamedTuple):
    """Who a transactional batch says has written it, and which batch it is."""

    producer_id: int
    epoch: int
    first_sequence: int


def writer_of(records: memoryview | None) -> Writer | None:
    """Of the first batch; None if it is not transactional, or none."""
    if records is None or len(records) < BATCH_OVERHEAD or records[MAGIC_OFFSET] != MAGIC:
        return None
    if not int.from_bytes(records[ATTRIBUTES_OFFSET : ATTRIBUTES_OFFSET + 2], "big") & TRANSACTIONAL:
        return None
    *_, producer_id, epoch, sequence, _ = HEADER.unpack_from(records)
    return Writer(producer_id, epoch, sequence)


def has_open(partition: Partition, writer: Writer) -> bool:
    """Whether the log has this producer's transaction open in this epoch."""
    known = partition.log.producers.get(writer.producer_id)
    return known is not None and known.producer_epoch == writer.epoch and known.transaction_first_offset >= 0


class Verification:
    """One question under way, or answered and not used yet. `lowest_sequence`: of all that asked meanwhile, so that a
    batch whose own question failed is not overtaken by the one behind it.

    Also made in place of a question that is not needed, and remembered by nobody: it holds as long as the log has the
    transaction open. `partition`: a topic that is made again begins with the leader epochs of the former one. None where
    partitions are made of images, and none is made again."""

    __slots__ = ("epoch", "is_adding", "leader_epoch", "lowest_sequence", "partition")

    def __init__(
        self,
        epoch: int,
        leader_epoch: int,
        sequence: int,
        *,
        is_adding: bool,
        partition: Partition | None = None,
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.leader_epoch = leader_epoch
        self.lowest_sequence = sequence
        self.is_adding = is_adding

    def is_of(self, partition: Partition) -> bool:
        """In the same term of its leader."""
        return self.leader_epoch == partition.leader_epoch and self.partition in (None, partition)


class Verifications:
    def __init__(self) -> None:
        self._open: dict[tuple[TopicPartition, int], Verification] = {}
        # The epoch of the producer and of the leader in which a transaction that is open in the log was added, and of which topic of
        # that name the log is.
        self._added: dict[tuple[TopicPartition, int], tuple[int, int, TopicId]] = {}

    def needs_none(self, partition: Partition, writer: Writer, *, is_adding: bool) -> bool:
        if not has_open(partition, writer):
            return False
        added = self._added.get((partition.topic_partition, writer.producer_id))
        return not is_adding or added == (writer.epoch, partition.leader_epoch, partition.topic_id)

    def begin(self, partition: Partition, writer: Writer, *, is_adding: bool) -> Verification:
        key = partition.topic_partition, writer.producer_id
        # A sequence that the log has of this epoch is a late copy's: no transaction begins with it.
        known = partition.log.producers.get(writer.producer_id)
        is_copy = (
            known is not None
            and known.producer_epoch == writer.epoch
            and writer.first_sequence <= known.last_sequence
        )
        sequence = INT32_MAX if is_copy else writer.first_sequence
        found = self._open.get(key)
        if found is not None and found.is_of(partition) and writer.epoch < found.epoch:
            # As Apache's entry, it keeps the larger epoch. What the older producer may write is for the coordinator to say.
            return found
        if found is None or found.epoch != writer.epoch or not found.is_of(partition):
            if len(self._open) >= MOST_OPEN:
                del self._open[next(iter(self._open))]
            found = Verification(
                writer.epoch, partition.leader_epoch, sequence, is_adding=is_adding, partition=partition
            )
            self._open[key] = found
        found.lowest_sequence = min(found.lowest_sequence, sequence)
        return found

    def opened(self, partition: Partition, writer: Writer, *, is_added: bool) -> None:
        """A batch of the transaction is in the log; or was already, and the question is of the transaction after its own."""
        if not has_open(partition, writer):
            return
        key = partition.topic_partition, writer.producer_id
        self._open.pop(key, None)
        if is_added:
            if len(self._added) >= MOST_OPEN and key not in self._added:
                del self._added[next(iter(self._added))]  # it is asked again
            self._added[key] = writer.epoch, partition.leader_epoch, partition.topic_id

    def ended(self, topic_partition: TopicPartition, producer_id: int) -> None:
        """A marker is in the log; or the producer is not the owner."""
        self._open.pop((topic_partition, producer_id), None)
        self._added.pop((topic_partition, producer_id), None)

    def still_holds(self, partition: Partition, writer: Writer, verified: Verification) -> bool:
        """Whether the coordinator's word counts for what is appended now."""
        if has_open(partition, writer):
            return True
        found = self._open.get((partition.topic_partition, writer.producer_id))
        return found is verified and found.is_of(partition)

    def why_not(self, partition: Partition, writer: Writer, verified: Verification) -> ProtocolError | None:
        """Asked when the batch is to be appended."""
        if not self.still_holds(partition, writer, verified):
            if not verified.is_of(partition):  # the client sends it again, and it is asked in this term
                return ProtocolError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    "a leader was elected while the coordinator was asked about it",
                )
            return ProtocolError(
                ErrorCode.INVALID_TXN_STATE, "its transaction ended while the coordinator was asked about it"
            )
        if not has_open(partition, writer) and writer.first_sequence > verified.lowest_sequence:
            return ProtocolError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {writer.producer_id}: sequence {writer.first_sequence} of a transaction whose first batch has "
                f"{verified.lowest_sequence}",
            )
        is_unknown = partition.log.producers.get(writer.producer_id) is None
        if verified.is_adding and is_unknown and writer.first_sequence:
            # Each of its transactions has an epoch of its own, in which sequences begin at 0.
            return ProtocolError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {writer.producer_id}: the first sequence here is {writer.first_sequence}, expected 0",
            )
        return None


class Admission:
    """What became of the questions of one transactional Produce. `refused`: told instead of appending; `verified`: of each
    partition that was led here when it came, by the coordinator, or by the log where the transaction was open. `asks`: nothing
    opens a transaction that neither of them knows. `is_adding`: of `transaction.version` 2."""

    def __init__(
        self,
        verifications: Verifications,
        refused: Mapping[TopicPartition, ProtocolError],
        verified: Mapping[TopicPartition, Verification],
        *,
        asks: bool,
        is_adding: bool,
    ) -> None:
        self._asks = asks
        self._is_adding = is_adding
        self._verifications = verifications
        self._refused = refused
        self._verified = verified

    def check(self, partition: Partition, records: memoryview | None) -> None:
        """Asked when it is appended. ProtocolError: it is not."""
        topic_partition = partition.topic_partition
        refusal = self._refused.get(topic_partition)
        if refusal is None and self._asks:
            verified = self._verified.get(topic_partition)
            writer = writer_of(records)
            if writer is None:
                pass  # of a partition that is named twice the other batch may be outside the transaction
            elif verified is not None:
                refusal = self._verifications.why_not(partition, writer, verified)
            else:
                refusal = ProtocolError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    "it was not led here when others of its request were asked about",
                )
        if refusal is not None:
            raise refusal

    def appended(self, partition: Partition, first: BatchHeader) -> None:
        """The transaction is open in the log now."""
        writer = Writer(first.producer_id, first.producer_epoch, first.base_sequence)
        self._verifications.opened(partition, writer, is_added=self._is_adding)
