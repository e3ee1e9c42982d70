"""What the records of a batch have in common, read in one walk that makes no record: for those who check batches.

The rules are those of `reader`, which makes the records; here only what a leader asks of a producer's batch is kept.
"""

from struct import Struct
from typing import NamedTuple

from odradek.records.batch import Buffer
from odradek.records.errors import InvalidRecord, TakesLong
from odradek.records.reader import headers_count, skip_headers, varint

SMALLEST_RECORD_BYTES = 7  # length, attributes, two deltas, no key, no value, no headers
# Of a batch, as of its records: two bytes make a header, and to read it takes 0.4 us, half of what a record takes.
MOST_HEADERS = 1_000_000

_SIX_BYTES = Struct("6B").unpack_from
_EIGHT_BYTES = Struct(">Q").unpack_from
# How the only record of a batch begins that `is_plain` and has no key follows from how many bytes it has: up to its value,
# as a number that lacks the last so many of eight bytes' bits. Kept for the sizes seen first.
_plain_starts: dict[int, tuple[int, int]] = {}
_MOST_PLAIN_STARTS = 1000


class Survey(NamedTuple):
    """`first_without_key` is the index of a record, -1 if each has a key. Deltas are as they stand in the records."""

    smallest_timestamp_delta: int
    largest_timestamp_delta: int
    first_without_key: int


def survey(data: Buffer, count: int, *, headers_at_once: int | None = None) -> Survey:
    """Of all `count` records, which fill `data` exactly. InvalidRecord names the first that is none, or whose offset
    delta is not its index: a producer leaves no gaps (KIP-98). TakesLong where there are more than
    `headers_at_once`."""
    return _walk(data, count, count, headers_at_once)


def survey_first(data: Buffer, count: int, *, headers_at_once: int | None = None) -> None:
    """The same of the first record alone, and that the others have room behind it."""
    _walk(data, count, 1, headers_at_once)


def is_plain(view: memoryview, at: int, end: int, count: int) -> bool:
    """Whether the records that fill `view` from `at` to `end` begin as clients write them: the first with no
    attributes, no deltas, and a length that leaves room for the others. A single one is looked at to its end, and has
    no headers. No is no verdict: they may still be records.
    """
    if count == 1:
        known = _plain_starts.get(end - at)
        if known is not None and _EIGHT_BYTES(view, at)[0] >> known[1] == known[0]:
            return not view[end - 1]
    start = at
    first, second, third, fourth, fifth, sixth = _SIX_BYTES(view, at)
    # Lengths of up to 13 bits, and even: a zigzag number is odd when it is negative.
    if first < 0x80:
        if first & 1 or second or third or fourth:
            return False
        key = fifth
        behind = at + 1 + (first >> 1)
        at += 5
    else:
        if first & 1 or second >= 0x80 or third or fourth or fifth:
            return False
        key = sixth
        behind = at + 2 + ((first & 0x7F | second << 7) >> 1)
        at += 6
    if count > 1:
        return bool(behind + (count - 1) * SMALLEST_RECORD_BYTES <= end)
    if behind != end:
        return False
    if key != 1:
        if key & 0x81:
            return False
        at += key >> 1
    if at > end - 2:
        return False
    value = view[at]
    at += 1
    if value >= 0x80:
        second = view[at]
        if second >= 0x80:
            return False
        at += 1
        value = value & 0x7F | second << 7
    if value & 1 or at + (value >> 1) != end - 1 or view[end - 1]:
        return False
    if key == 1 and end - start >= 8 and len(_plain_starts) < _MOST_PLAIN_STARTS:
        behind_value_length = 8 * (8 - (at - start))
        _plain_starts[end - start] = _EIGHT_BYTES(view, start)[0] >> behind_value_length, behind_value_length
    return True


def _walk(data: Buffer, count: int, looked_at: int, headers_at_once: int | None) -> Survey:
    smallest, largest = 1 << 64, -1 << 64
    keyless = -1
    position = index = headers = 0
    most_headers = MOST_HEADERS if headers_at_once is None else headers_at_once
    available = len(data) - (count - looked_at) * SMALLEST_RECORD_BYTES
    try:
        for index in range(looked_at):
            # One byte is what nearly every field of a small record takes: looked at before anything is called.
            size = data[position]
            position += 1
            if size < 0x80:
                size = (size >> 1) ^ -(size & 1)
            else:
                size, position = varint(data, position - 1)
            end = position + size
            if size < SMALLEST_RECORD_BYTES - 1 or end > available:
                raise InvalidRecord(f"{size} bytes long where {available - position} are left")
            delta = data[position + 1]
            if delta < 0x80:
                delta = (delta >> 1) ^ -(delta & 1)
                at = position + 2
            else:
                delta, at = varint(data, position + 1)
            if delta > largest:
                largest = delta
            if delta < smallest:
                smallest = delta
            delta = data[at]
            if delta < 0x80:
                delta = (delta >> 1) ^ -(delta & 1)
                at += 1
            else:
                delta, at = varint(data, at)
            if delta != index:
                raise InvalidRecord(f"it has offset delta {delta}")
            length = data[at]
            if length < 0x80:
                length = (length >> 1) ^ -(length & 1)
                at += 1
            else:
                length, at = varint(data, at)
            if length >= 0:
                at += length
            elif length == -1:
                if keyless < 0:
                    keyless = index
            else:
                raise InvalidRecord(f"a key of {length} bytes; only -1 stands for null")
            length = data[at]
            if length < 0x80:
                length = (length >> 1) ^ -(length & 1)
                at += 1
            else:
                length, at = varint(data, at)
            if length >= 0:
                at += length
            elif length != -1:
                raise InvalidRecord(f"a value of {length} bytes; only -1 stands for null")
            if data[at]:
                length, at = headers_count(data, at, end)
                headers += length
                if headers > most_headers:
                    if headers_at_once is not None:
                        raise TakesLong(f"record {index} of {count}: {headers} headers")
                    raise InvalidRecord(f"{headers} headers up to here; {most_headers} are read in a batch")
                at = skip_headers(data, at, end, length)
            else:
                at += 1
            if at != end:
                raise InvalidRecord(f"{end - at} bytes are left over in it")
            position = end
    except IndexError:
        raise InvalidRecord(f"record {index} of {count}: the block ends inside it", index) from None
    except InvalidRecord as error:
        raise InvalidRecord(f"record {index} of {count}: {error.message}", index) from None
    if looked_at == count and position != available:
        raise InvalidRecord(f"{available - position} bytes behind the last of {count} records")
    return Survey(smallest, largest, keyless)
