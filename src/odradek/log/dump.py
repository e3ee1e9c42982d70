"""What is in the files of a log, as values and as the lines that Apache's DumpLogSegments prints for them."""

from collections.abc import Iterator
from typing import Any

from odradek.log.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    MalformedCheckpoint,
    read_epochs,
    read_partition_metadata,
)
from odradek.log.errors import MissingFile
from odradek.log.files import Directory
from odradek.log.indexes import OFFSET_ENTRY, TIME_ENTRY, TransactionIndex
from odradek.log.producers import MalformedSnapshot, Producer, read_snapshot
from odradek.log.scan import scan_batches
from odradek.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    is_offset,
)
from odradek.model.errors import ProtocolError
from odradek.model.ids import topic_id_to_text
from odradek.records.batch import BatchHeader, check_crc
from odradek.records.compression import CODEC_NAMES
from odradek.records.control import control_type, end_transaction, type_name
from odradek.records.reader import Record, decode_batch

Item = dict[str, Any]
SUFFIXES = (INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


def dump_names(directory: Directory) -> list[str]:
    """The files of a log that can be dumped, in the order DumpLogSegments is given them by a shell."""
    names = [name for name in directory.names() if is_of_a_segment(name)]
    return names + [name for name in (LEADER_EPOCHS, PARTITION_METADATA) if directory.exists(name)]


def is_of_a_segment(name: str) -> bool:
    """`<offset>.log` and what lies beside it; a broker's own `broker.log` is none."""
    return name.endswith(SUFFIXES) and is_offset(name.partition(".")[0])


def dump_file(directory: Directory, name: str, *, with_records: bool) -> Iterator[Item]:
    """One item per entry, producer, transaction, batch; MissingFile if there is no such file.

    An item with `error` tells where the file stops making sense, and is the last.
    """
    if name.endswith(LOG_SUFFIX):
        yield from _batches(directory, name, with_records)
        return
    data = directory.read(name)
    if data is None:
        raise MissingFile(f"{directory.path}/{name}: no such file")
    try:
        yield from _entries(name, data)
    except (MalformedCheckpoint, MalformedSnapshot) as error:
        yield {"error": str(error)}


def _entries(name: str, data: bytes) -> Iterator[Item]:
    """Of any file but a log."""
    if name == LEADER_EPOCHS:
        for entry in read_epochs(data):
            yield {"epoch": entry.epoch, "startOffset": entry.start_offset}
    elif name == PARTITION_METADATA:
        yield {"topicId": topic_id_to_text(read_partition_metadata(data))}
    elif name.endswith(SNAPSHOT_SUFFIX):
        for producer in read_snapshot(data):
            yield _producer(producer)
    elif name.endswith(TRANSACTION_INDEX_SUFFIX):
        for transaction in TransactionIndex.from_bytes(data):
            yield {
                "version": 0,
                "producerId": transaction.producer_id,
                "firstOffset": transaction.first_offset,
                "lastOffset": transaction.last_offset,
                "lastStableOffset": transaction.last_stable_offset,
            }
    elif name.endswith(TIME_INDEX_SUFFIX):
        base_offset = int(name.partition(".")[0])
        for timestamp, relative in TIME_ENTRY.iter_unpack(
            data[: len(data) // TIME_ENTRY.size * TIME_ENTRY.size]
        ):
            yield {"timestamp": timestamp, "offset": base_offset + relative}
    elif name.endswith(INDEX_SUFFIX):
        base_offset = int(name.partition(".")[0])
        for relative, position in OFFSET_ENTRY.iter_unpack(
            data[: len(data) // OFFSET_ENTRY.size * OFFSET_ENTRY.size]
        ):
            yield {"offset": base_offset + relative, "position": position}


def _batches(directory: Directory, name: str, with_records: bool) -> Iterator[Item]:
    file = directory.open(name, read_only=True)
    for position, header, data in scan_batches(file, 0, file.size_bytes):
        if isinstance(header, str):
            yield {"error": header, "position": position, "bytesLeft": file.size_bytes - position}
            return
        is_valid = check_crc(data, 0, header)
        item = _batch(position, header, is_valid)
        if with_records and is_valid:
            try:
                item["records"] = [_record(record, header) for record in decode_batch(data, verify_crc=False)]
            except ProtocolError as error:
                item["error"] = error.message
        yield item


def _batch(position: int, header: BatchHeader, is_valid: bool) -> Item:
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "position": position,
        "timestampType": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "maxTimestamp": header.max_timestamp,
        "size": header.size_bytes,
        "magic": header.magic,
        "compresscodec": CODEC_NAMES[header.codec] if header.codec < len(CODEC_NAMES) else str(header.codec),
        "crc": header.crc,
        "isvalid": is_valid,
    }


def _record(record: Record, header: BatchHeader) -> Item:
    item: Item = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": record.sequence,
        "headerKeys": [key for key, _ in record.headers],
    }
    if header.is_control:
        item["controlType"] = type_name(control_type(record))
        marker = end_transaction(record)
        if marker is not None:
            item["coordinatorEpoch"] = marker.coordinator_epoch
    else:
        item["key"] = None if record.key is None else record.key.decode("utf-8", "replace")
        item["payload"] = None if record.value is None else record.value.decode("utf-8", "replace")
    return item


def _producer(producer: Producer) -> Item:
    last = producer.batches[-1] if producer.batches else None
    first_offset = producer.transaction_first_offset
    return {
        "producerId": producer.producer_id,
        "producerEpoch": producer.producer_epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "currentTxnFirstOffset": None if first_offset < 0 else first_offset,
        "lastTimestamp": producer.last_timestamp,
        "firstSequence": last.first_sequence if last else -1,
        "lastSequence": last.last_sequence if last else -1,
        "lastOffset": last.last_offset if last else -1,
        "offsetDelta": last.offset_delta if last else 0,
        "timestamp": last.timestamp if last else -1,
    }


def lines(name: str, shown_as: str, items: Iterator[Item]) -> Iterator[str]:
    """The items of one file as text, word for word as DumpLogSegments has them where it has any."""
    yield f"Dumping {shown_as}"
    if name.endswith(LOG_SUFFIX):
        yield f"Log starting offset: {int(name.partition('.')[0])}"
    count = 0
    for item in items:
        count += 1
        if "bytesLeft" in item:
            yield f"Found {item['bytesLeft']} invalid bytes at the end of {shown_as}: {item['error']}"
        elif "baseOffset" in item:
            yield _batch_line(item)
            for record in item.get("records", ()):
                yield _record_line(record, item["timestampType"])
            if "error" in item:
                yield f"| cannot be read: {item['error']}"
        else:
            yield " ".join(f"{key}: {_value(key, value)}" for key, value in item.items())
    if count == 0 and name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)):
        yield f"{shown_as} is empty."


def _value(key: str, value: Any) -> Any:
    if key in ("currentTxnFirstOffset", "deleteHorizonMs"):
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    return value


def _batch_line(item: Item) -> str:
    fields = []
    for key, value in item.items():
        if key == "timestampType":
            fields.append(f"{value}: {item['maxTimestamp']}")
        elif key not in ("maxTimestamp", "records", "error"):
            text = str(value).lower() if isinstance(value, bool) else _value(key, value)
            fields.append(f"{key}: {text}")
    return " ".join(fields)


def _record_line(record: Item, timestamp_type: str) -> str:
    text = (
        f"| offset: {record['offset']} {timestamp_type}: {record['timestamp']} keySize: {record['keySize']} "
        f"valueSize: {record['valueSize']} sequence: {record['sequence']} "
        f"headerKeys: [{','.join(record['headerKeys'])}]"
    )
    kind = record.get("controlType")
    if kind in ("ABORT", "COMMIT"):
        return f"{text} endTxnMarker: {kind} coordinatorEpoch: {record['coordinatorEpoch']}"
    if kind is not None:
        return f"{text} controlType: {kind}"
    if record["key"] is not None:
        text += f" key: {record['key']}"
    return text if record["payload"] is None else f"{text} payload: {record['payload']}"
