"""Every line of tests/golden/records.jsonl.gz: batches as Apache's Java code wrote them."""

from typing import Any

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.records import control
from odradek.records.batch import BatchHeader, check_crc, iter_batches, read_header
from odradek.records.builder import rebuild_batch
from odradek.records.compression import CODEC_NAMES
from odradek.records.reader import Record, decode_batch
from tests.support import each, golden_lines

VECTORS = list(golden_lines("records.jsonl.gz"))
MAGIC_2 = [v for v in VECTORS if v["name"].startswith("v2-") and v["name"] != "v2-bad-crc"]
OLD = [v for v in VECTORS if not v["name"].startswith("v2-")]


def named(vector: dict[str, Any]) -> str:
    return str(vector["name"])


def parts(vector: dict[str, Any]) -> list[dict[str, Any]]:
    return vector.get("batches") or [vector]


def as_golden(header: BatchHeader, valid: bool) -> dict[str, Any]:
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "size_in_bytes": header.size_bytes,
        "magic": header.magic,
        "batch_length": header.size_bytes - 12,
        "partition_leader_epoch": header.leader_epoch,
        "crc": header.crc,
        "attributes": header.attributes,
        "last_offset_delta": header.last_offset_delta,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "record_count": header.record_count,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.delete_horizon_ms,
        "compression": CODEC_NAMES[header.codec],
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "max_timestamp_decoded": header.max_timestamp,
        "is_valid": valid,
    }


def record_as_golden(record: Record, is_control: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key_hex": None if record.key is None else record.key.hex(),
        "value_hex": None if record.value is None else record.value.hex(),
        "sequence": record.sequence,
        "headers": [[key, None if value is None else value.hex()] for key, value in record.headers],
    }
    if is_control:
        told["control_type"] = control.type_name(control.control_type(record))
        marker = control.end_transaction(record)
        if marker is not None:
            told["coordinator_epoch"] = marker.coordinator_epoch
    return told


def test_the_golden_file_holds_all_formats_and_codecs() -> None:
    assert len(VECTORS) > 60 and len(OLD) >= 10
    assert {CODEC_NAMES[part["batch"]["attributes"] & 7] for v in MAGIC_2 for part in parts(v)} == set(
        CODEC_NAMES
    )


@each(MAGIC_2, named)
def test_header_and_records_read_as_recorded(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    found = list(iter_batches(data))
    assert len(found) == len(parts(vector))
    for (position, header), expected in zip(found, parts(vector), strict=True):
        assert as_golden(header, check_crc(data, position, header)) == expected["batch"]
        records = [record_as_golden(r, header.is_control) for r in decode_batch(data, position)]
        assert records == expected["records"]


@each(MAGIC_2, named)
def test_a_batch_is_built_again_from_its_records(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    for position, header in iter_batches(data):
        original = data[position : position + header.size_bytes]
        built = rebuild_batch(header, decode_batch(original, created=True))
        if header.codec == 0:
            assert built == original
        else:
            # The compressed bytes are the encoder's own affair; the records and the header are not.
            assert decode_batch(built) == decode_batch(original)
            again = read_header(built)
            assert again._replace(size_bytes=0, crc=0) == header._replace(size_bytes=0, crc=0)


@each(MAGIC_2, named)
def test_a_batch_moves_to_every_codec_and_keeps_its_records(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    for position, header in iter_batches(data):
        original = data[position : position + header.size_bytes]
        records = decode_batch(original)
        for codec in CODEC_NAMES:
            moved = rebuild_batch(header, decode_batch(original, created=True), codec=codec)
            assert decode_batch(moved) == records, codec


def test_the_broken_checksum_is_seen() -> None:
    (vector,) = (v for v in VECTORS if v["name"] == "v2-bad-crc")
    data = bytes.fromhex(vector["hex"])
    header = read_header(data)
    assert as_golden(header, check_crc(data, 0, header)) == vector["batch"]
    with pytest.raises(ProtocolError) as caught:
        decode_batch(data)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@each(OLD, named)
def test_magic_0_and_1_are_recognised_and_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as caught:
        list(iter_batches(bytes.fromhex(vector["hex"])))
    assert caught.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert f"format {vector['name'][1]}" in caught.value.message
