"""Control records: the markers that end a transaction, and the leader change of KRaft logs, only named.

Key: version i16, type i16. Value of an end marker: version i16, coordinator epoch i32 (KIP-98).
"""

from struct import Struct
from typing import NamedTuple

from odradek.model.errors import ProtocolError
from odradek.records.batch import BatchHeader, Buffer
from odradek.records.builder import NewRecord, build_batch
from odradek.records.compression import decompress_prefix
from odradek.records.errors import InvalidRecord
from odradek.records.reader import Record, decode_records, varint

ABORT = 0
COMMIT = 1
LEADER_CHANGE = 2
TYPE_NAMES = {
    ABORT: "ABORT",
    COMMIT: "COMMIT",
    LEADER_CHANGE: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}

# A marker has 4 and 6 bytes, and whoever wrote it may say a little more.
MOST_MARKER_BYTES = 4096

_KEY = Struct(">hh")
_END_MARKER = Struct(">hi")


class EndTransaction(NamedTuple):
    is_commit: bool
    coordinator_epoch: int


def control_type(record: Record) -> int:
    """The type number in the key; a version above the one we know changes nothing about its place."""
    if record.key is None or len(record.key) < _KEY.size:
        raise InvalidRecord(f"control record at offset {record.offset}: its key has no version and type")
    version, kind = _KEY.unpack_from(record.key)
    if version < 0:
        raise InvalidRecord(f"control record at offset {record.offset}: key version {version}")
    return int(kind)


def type_name(kind: int) -> str:
    return TYPE_NAMES.get(kind, "UNKNOWN")


def end_transaction(record: Record) -> EndTransaction | None:
    """What the marker says; None for a control record of another type."""
    kind = control_type(record)
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _END_MARKER.size:
        raise InvalidRecord(f"end marker at offset {record.offset}: its value has no coordinator epoch")
    version, coordinator_epoch = _END_MARKER.unpack_from(record.value)
    if version < 0:
        raise InvalidRecord(f"end marker at offset {record.offset}: value version {version}")
    return EndTransaction(kind == COMMIT, coordinator_epoch)


def end_marker_of(header: BatchHeader, block: Buffer) -> EndTransaction | None:
    """What the first record of a control batch says, opened no further than that takes. `block` is what stands behind
    the header. None for another type, and for one that cannot be read: it ends nothing, and nothing stops at it.
    """
    if header.record_count == 0:
        return None  # compaction took the marker and kept the batch
    try:
        data, _ = decompress_prefix(header.codec, block, MOST_MARKER_BYTES)
        size, position = varint(data, 0)
        first = bytes(data[: position + max(size, 0)])
        records = decode_records(header, first, count=1)
        return end_transaction(records[0])
    except (ProtocolError, IndexError):
        return None


def build_end_marker(
    *,
    producer_id: int,
    producer_epoch: int,
    is_commit: bool,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """A control batch of one record, as a transaction coordinator has it written."""
    record = NewRecord(
        _KEY.pack(0, COMMIT if is_commit else ABORT), _END_MARKER.pack(0, coordinator_epoch), timestamp
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
