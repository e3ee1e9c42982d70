"""Where the records of many batches begin, found without decoding any of them.

A record begins with its own length, so the next start is known only after the last: a chain per batch. Two
ways to walk it. *In lockstep*: one step moves every batch one record on, with numpy, which pays when there
are many batches. *One by one*: plain Python on the bytes, which pays when a few batches hold thousands of
records each. Both give the same array (held equal by a test), so the choice is one of speed alone.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from odradek.records.errors import CorruptBatch

Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# A lockstep step costs some 15 us whatever the number of batches, a plain step 0.1 us for its one batch.
LOCKSTEP_FROM = 128


def record_starts(data: Bytes, begins: Positions, ends: Positions, counts: Positions) -> Positions:
    """The position of each record's length, batch after batch, and each chain checked to meet its end.

    `begins` and `ends` border the records of each batch in `data`; `counts` is what their headers claim.
    """
    # The claim decides how much is allocated, and a record has at least seven bytes.
    if bool((counts < 0).any()) or bool((counts * 7 > ends - begins).any()):
        raise CorruptBatch("a batch claims more records than its bytes can hold")
    longest = int(counts.max(initial=0))
    if longest and int(counts.sum()) >= LOCKSTEP_FROM * longest:
        return starts_in_lockstep(data, begins, ends, counts)
    return starts_one_by_one(data, begins, ends, counts)


def starts_in_lockstep(data: Bytes, begins: Positions, ends: Positions, counts: Positions) -> Positions:
    """All batches move on one record at a time; those with most records first, so the rest drops off the end."""
    order = np.argsort(-counts, kind="stable")
    place = (np.cumsum(counts) - counts)[order]
    position = begins[order].copy()
    limit = ends[order]
    left = counts[order]
    starts = np.empty(int(counts.sum()), dtype=np.int64)
    steps = int(left[0]) if len(left) else 0
    # active[k]: how many batches have more than k records
    active = len(left) - np.searchsorted(left[::-1], np.arange(steps), side="right")
    for step in range(steps):
        at = position[: active[step]]
        starts[place[: active[step]] + step] = at
        length, body = varints(data, at)
        after = body + length
        if bool((length < 0).any()) or bool((after > limit[: active[step]]).any()):
            raise CorruptBatch("a record reaches beyond the end of its batch")
        position[: active[step]] = after
    if bool((position != limit).any()):
        raise CorruptBatch("a batch holds more bytes than the records its header counts")
    return starts


def starts_one_by_one(data: Bytes, begins: Positions, ends: Positions, counts: Positions) -> Positions:
    starts: list[int] = []
    append = starts.append
    for begin, end, count in zip(begins.tolist(), ends.tolist(), counts.tolist(), strict=True):
        body = data[begin:end].tobytes()  # an index into bytes is twice as fast as one into an array
        shift = begin
        position = 0
        try:
            for _ in range(count):
                append(position + shift)
                byte = body[position]
                if byte < 0x80:
                    position += 1 + (byte >> 1)
                    continue
                second = body[position + 1]
                if second < 0x80:
                    position += 2 + ((byte & 0x7F | second << 7) >> 1)
                    continue
                value, width = _long_varint(body, position)
                position += width + value
        except IndexError:
            raise CorruptBatch("a record reaches beyond the end of its batch") from None
        if position != end - begin:
            raise CorruptBatch("a batch holds more bytes than the records its header counts")
    return np.array(starts, dtype=np.int64)


def varints(data: Bytes, at: Positions) -> tuple[Positions, Positions]:
    """The zigzag varint at each position, and the position after it.

    Positions outside the data read its border bytes: garbage, which the caller's checks of lengths refuse.
    """
    byte = data.take(at, mode="clip")
    after = at + 1
    value = byte.astype(np.int64)
    more = byte >= 0x80
    if more.any():
        value &= 0x7F
        rest = np.flatnonzero(more)
        shift = 7
        # Few long ones among many are followed by index; else all are, masked: indexing costs five times more.
        dense = 4 * len(rest) >= len(at)
        while True:
            if dense:
                byte = data.take(after, mode="clip")
                if shift == 63 and bool((byte[more] > 1).any()):
                    raise CorruptBatch("a varint does not fit into 64 bits")
                value |= ((byte & 0x7F).astype(np.int64) << shift) * more
                after += more
                more &= byte >= 0x80
                if not more.any():
                    break
            else:
                byte = data.take(after[rest], mode="clip")
                if shift == 63 and bool((byte > 1).any()):
                    raise CorruptBatch("a varint does not fit into 64 bits")
                value[rest] |= (byte & 0x7F).astype(np.int64) << shift
                after[rest] += 1
                rest = rest[byte >= 0x80]
                if not len(rest):
                    break
            shift += 7
    unsigned = value.view(np.uint64)
    decoded: Positions = (unsigned >> np.uint64(1)).view(np.int64) ^ -(value & 1)
    return decoded, after


def join(parts: Sequence[bytes | memoryview]) -> tuple[Bytes, Positions]:
    """The parts in one buffer, and where each begins."""
    sizes = np.array([len(part) for part in parts], dtype=np.int64)
    data = np.frombuffer(b"".join(parts), dtype=np.uint8)
    return data, np.cumsum(sizes) - sizes


def _long_varint(body: bytes, position: int) -> tuple[int, int]:
    value = 0
    width = 0
    while True:
        byte = body[position + width]
        value |= (byte & 0x7F) << (7 * width)
        width += 1
        if byte < 0x80:
            break
        if width == 10:
            raise CorruptBatch("a varint does not fit into 64 bits")
    value = (value >> 1) ^ -(value & 1)
    if value < 0:
        raise CorruptBatch("a record of negative length")
    return value, width
