"""Keys and values of `__consumer_offsets`, byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator import records
from odradek.coordinator.records import (
    NEVER_EXPIRES,
    CommittedOffset,
    GroupKey,
    GroupRecord,
    OffsetKey,
    OffsetRecord,
    decode,
    encode,
    plain_offset,
)
from odradek.protocol.errors import MalformedMessage
from tests.coordinator.traces import Json, recorded_records
from tests.support import each

RECORDED = list(recorded_records())
# What 4.x writes where 3.9 writes 3; ours writes what both read.
NEWER_VALUES = (4,)


def test_records_of_all_kinds_were_recorded() -> None:
    kinds = {
        (record["key"]["version"], record["value"] and record["value"]["version"]) for _, record in RECORDED
    }

    consumer = {(kind, value) for kind in (3, 5, 6, 7, 8, 16) for value in (0, None)}
    assert kinds == {(1, 1), (1, 3), (1, 4), (1, None), (2, 3), (2, None), (4, None)} | consumer


@pytest.mark.behaviour("G41")
@each(RECORDED, lambda recorded: recorded[0])
def test_a_recorded_record_is_read_and_written_again_to_the_byte(where: str, record: Json) -> None:
    key, value = bytes.fromhex(record["key_hex"]), record.get("value_hex")
    value = None if value is None else bytes.fromhex(value)

    found = decode(key, value)

    assert found is not None
    written_key, written_value = encode(found)
    assert written_key == key
    if record["value"] is None or record["value"]["version"] not in NEWER_VALUES:
        assert written_value == value
    else:
        assert written_value is not None and written_value[:2] == b"\x00\x03"
        assert decode(written_key, written_value) == found


@pytest.mark.behaviour("O8")
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_values_of_an_offset_are_read(version: int) -> None:
    body = (5).to_bytes(8, "big") + (b"\x00\x00\x00\x02" if version == 3 else b"") + b"\x00\x01m"
    body += (7).to_bytes(8, "big") + ((9).to_bytes(8, "big") if version == 1 else b"")

    found = decode(b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x03", version.to_bytes(2, "big") + body)

    expected = CommittedOffset(5, 2 if version == 3 else -1, "m", 7, 9 if version == 1 else -1)
    assert found == OffsetRecord(OffsetKey("g", "t", 3), expected)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_values_of_a_group_are_read(version: int) -> None:
    """Version 0 has one time-out, below 2 there is no time of the state, below 3 no instances."""
    member = b"\x00\x01m\x00\x01c\x00\x02/h" + (b"\x00\x00\x00\x14" if version else b"") + b"\x00\x00\x00\x0a"
    member += b"\x00\x00\x00\x01s\x00\x00\x00\x01a"
    body = b"\x00\x08consumer\x00\x00\x00\x04\x00\x05range\x00\x01m" + (b"\x00" * 8 if version == 2 else b"")

    found = decode(b"\x00\x02\x00\x01g", version.to_bytes(2, "big") + body + b"\x00\x00\x00\x01" + member)

    assert isinstance(found, GroupRecord) and found.value is not None
    assert found.key == GroupKey("g")
    assert found.value.generation == 4
    (only,) = found.value.members
    assert (only.session_timeout_ms, only.rebalance_timeout_ms) == (10, 20 if version else 10)
    assert (only.subscription, only.assignment) == (b"s", b"a")


@pytest.mark.parametrize("kind", [9, 15, 17, 32767])
def test_a_kind_that_a_later_broker_writes_is_none_of_ours(kind: int) -> None:
    assert decode(kind.to_bytes(2, "big") + b"anything", b"else") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", None),
        (b"\x00", None),
        (b"\xff\xff", None),
        (b"\x00\x01\x00\x05g", None),
        (b"\x00\x02\x00\x01g", b"\x00\x05"),
        (b"\x00\x02\x00\x01g", b"\xff\xff"),
        (
            b"\x00\x02\x00\x01g",
            b"\x00\x03\x00\x01t\x00\x00\x00\x01\xff\xff\xff\xff" + b"\x00" * 8 + b"\x7f\xff\xff\xff",
        ),
        (b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", b"\x00\x03\x00"),
        (b"\x00\x03\x00\x01g", b"\x00\x01\x00\x00\x00\x01\x00"),
        (b"\x00\x05\x00\x01g\x00\x01m", b""),
        (b"\x00\x08\x00\x01g\x00\x01m", b"\x00\x00\x00"),
    ],
)
def test_garbage_is_called_so(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedMessage):
        decode(key, value)


NAMES = st.text(st.characters(codec="utf-8"), max_size=8)


OFFSETS = st.builds(
    OffsetRecord,
    st.builds(OffsetKey, NAMES, NAMES, st.integers(-(2**31), 2**31 - 1)),
    st.builds(
        CommittedOffset,
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**31), 2**31 - 1),
        NAMES,
        st.integers(-(2**63), 2**63 - 1),
        st.just(NEVER_EXPIRES),
    ),
)


@given(OFFSETS)
def test_an_offset_is_read_without_the_tables_as_they_read_it(record: OffsetRecord) -> None:
    key, value = encode(record)
    assert value is not None
    assert plain_offset(key, value) == record
    assert type(plain_offset(key, value)) is OffsetRecord


@given(OFFSETS, st.data())
def test_what_is_no_plain_offset_is_left_to_the_tables(record: OffsetRecord, data: st.DataObject) -> None:
    """Cut, lengthened or with a byte changed: read as the tables read it, or refused as they refuse it."""
    parts = [bytearray(part or b"") for part in encode(record)]
    which = data.draw(st.sampled_from((0, 1)))
    part = parts[which]
    match data.draw(st.sampled_from(("cut", "longer", "changed"))):
        case "cut":
            del part[data.draw(st.integers(0, len(part) - 1)) :]
        case "longer":
            part += b"\0"
        case _:
            part[data.draw(st.integers(0, len(part) - 1))] ^= data.draw(st.integers(1, 255))
    key, value = bytes(parts[0]), bytes(parts[1])
    assert told(key, value) == told(key, value, by_tables=True)


def told(key: bytes, value: bytes, *, by_tables: bool = False) -> object:
    with pytest.MonkeyPatch.context() as patch:
        if by_tables:
            patch.setattr(records, "plain_offset", lambda *_: None)
        try:
            return decode(key, value)
        except MalformedMessage:
            return "malformed"
