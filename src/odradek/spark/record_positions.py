"""Where the records of many batches begin, found without decoding any of them.

A record begins with its own length, so the next start is known only after the last: a chain per batch. There
are three ways to walk the chains; tests hold their answers equal, the choice is one of speed alone.

*Compiled*, where numba is installed (`odradek.spark.compiled`): 4 ns a record. What it does not find right the others look at.

*One by one*: plain Python on the bytes, 200 ns a record. Always right, and what the other falls back on.

*In lockstep*: one step moves all chains one record on, with numpy, 70 ns a record. A step costs some 15 us
however few the chains, so it wants hundreds of them. Where there are few batches with thousands of records
each, these are cut into more chains at positions that look like the start of a record. The look proves
nothing, a value may hold anything; the walk does: the first chain of a batch begins at a true start, every
record reached from a true start is one, and each chain must end exactly where the next begins.

Records of one size behind one another (keys and values of fixed width) are passed in one step, up to 32 of a chain:
where the length that stands at a start stands again as many bytes further on, there is the next start.
"""

import numpy as np
import numpy.typing as npt

from odradek.records.errors import CorruptBatch
from odradek.spark.compiled import kernels

Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# Records of a chain, about; a batch of more than twice as many is cut.
CHAIN_RECORDS = 100
# Fewer chains than this cost more than they bring, and looking for starts costs with the size of records.
FEWEST_CHAINS = 50
LARGEST_RECORDS = 400
# How many records a step looks at for such as have the size of the first: a few, and many where these have.
_FEW, _MANY = 4, 32
# Length, attributes, two deltas, two lengths, number of headers: one byte each is the least.
_SMALLEST_RECORD = 7


def record_starts(data: Bytes, begins: Positions, ends: Positions, counts: Positions) -> Positions:
    """The position of each record's length, batch after batch, and every batch checked to meet its end.

    `begins` and `ends` border the records of each batch in `data`; `counts` is what their headers claim.
    """
    # The claim decides how much is allocated.
    if bool((counts < 0).any()) or bool((counts * _SMALLEST_RECORD > ends - begins).any()):
        raise CorruptBatch("a batch claims more records than its bytes can hold")
    if bool((ends > begins)[counts == 0].any()):
        raise CorruptBatch("a batch holds more bytes than the records its header counts")
    total, longest = int(counts.sum()), int(counts.max(initial=0))
    if (compiled := kernels(total)) is not None:
        starts = np.empty(total, dtype=np.int64)
        if compiled.record_starts(data, begins, ends, counts, starts):
            return starts
    has_small_records = int((ends - begins).sum()) <= LARGEST_RECORDS * total
    steps = min(longest, 2 * CHAIN_RECORDS) if has_small_records else longest
    found = starts_in_lockstep(data, begins, ends, counts) if total > FEWEST_CHAINS * steps else None
    return starts_one_by_one(data, begins, ends, counts) if found is None else found


def starts_one_by_one(data: Bytes, begins: Positions, ends: Positions, counts: Positions) -> Positions:
    starts: list[int] = []
    append = starts.append
    for begin, end, count in zip(begins.tolist(), ends.tolist(), counts.tolist(), strict=True):
        body = data[begin:end].tobytes()  # an index into bytes is twice as fast as one into an array
        position = 0
        try:
            for _ in range(count):
                append(position + begin)
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


def whole_records(data: bytearray, begin: int, end: int, most: int) -> tuple[Positions, int]:
    """Where the records begin that lie whole in data[begin:end], at most so many, and where the last of them ends.

    For a batch of which only a part is there, so that its end says nothing. It is walked one by one to see how large its
    records are, then in lockstep as far as starts can be guessed, and one by one to the last.
    """
    first, position = _whole_one_by_one(data, begin, end, min(most, CHAIN_RECORDS))
    left = most - len(first)
    if len(first) < CHAIN_RECORDS or not left:
        return first, position
    about = min(left, (end - position) * len(first) // (position - begin))
    view = np.frombuffer(data, np.uint8)[:end]
    middle = _up_to_a_guess(view, position, about) if about > CHAIN_RECORDS * FEWEST_CHAINS else first[:0]
    middle = middle[: left + 1]
    if len(middle):
        # The last of them is where the next one begins.
        middle, position = middle[:-1], int(middle[-1])
    last, position = _whole_one_by_one(data, position, end, left - len(middle))
    return np.concatenate((first, middle, last)), position


def _up_to_a_guess(data: Bytes, begin: int, about: int) -> Positions:
    """Starts of the some `about` records behind `begin`, none if a guess was wrong; the end of the data says nothing."""
    one = np.array([begin])
    guesses = _guesses(data, one, np.array([len(data)]), np.array([about]))
    guesses = np.unique(guesses[guesses > begin])
    if not len(guesses):
        return guesses
    starts = _walked(data, np.concatenate((one, guesses[:-1])), guesses)
    return one[:0] if starts is None else np.append(starts, guesses[-1])


def _whole_one_by_one(data: bytearray, begin: int, end: int, most: int) -> tuple[Positions, int]:
    starts: list[int] = []
    position = begin
    while position < end and len(starts) < most:
        byte = data[position]
        after = position + 1 + (byte >> 1) if byte < 0x80 else position + record_size(data, position, end)
        if after > end:
            break
        starts.append(position)
        position = after
    return np.array(starts, dtype=np.int64), position


def record_size(data: bytearray, position: int, end: int) -> int:
    """Of the record at `position`, its length included. Where that is cut off by `end`: one byte more than is there."""
    try:
        length, width = _long_varint(data[position : min(end, position + 10)], 0)
    except IndexError:
        return end - position + 1
    return width + length


def starts_in_lockstep(
    data: Bytes, begins: Positions, ends: Positions, counts: Positions
) -> Positions | None:
    """None if the chains do not meet: a guess was wrong, or the data are; who walks one by one will see."""
    starts = _walked(data, *_chains(data, begins, ends, counts))
    if starts is None:
        return None
    counted = np.searchsorted(starts, ends) - np.searchsorted(starts, begins)
    return starts if bool((counted == counts).all()) else None


def _walked(data: Bytes, position: Positions, limit: Positions) -> Positions | None:
    """The starts in all chains, in order; None if one does not end where it must."""
    found = [position[:0]]
    run = _FEW
    while len(position):
        found.append(position)
        length, body = varints(data, position, strict=False)
        if int(length.min()) < _SMALLEST_RECORD - 1 or int(length.max()) > len(data):
            return None
        if run:
            of_runs, position = _past_runs(data, position, body, length, limit, run)
            found.append(of_runs)
            if len(of_runs) < len(position):
                run = 0
            elif 2 * len(of_runs) > run * len(position):
                run = _MANY
        else:
            position = body + length
        if bool((position > limit).any()):
            return None
        going_on = position < limit
        if not going_on.all():
            position, limit = position[going_on], limit[going_on]
    starts: Positions = np.sort(np.concatenate(found))
    return starts


def _past_runs(
    data: Bytes, position: Positions, body: Positions, length: Positions, limit: Positions, run: int
) -> tuple[Positions, Positions]:
    """The starts behind each position of up to `run` records as large as the one there, and the start behind these.

    The first of them is where the record at the position ends; each proves the next.
    """
    size = body + length - position
    most = min(run, int(((limit - position) // size).max()))
    starts = position[:, None] + size[:, None] * np.arange(1, most + 1)
    # A length of two bytes at most; where it has one, what follows are the attributes, which have no bit in use.
    is_alike = (starts < limit[:, None]) & (body - position <= 2)[:, None]
    for byte in (0, 1):
        is_alike &= data.take(starts + byte, mode="clip") == data.take(position + byte, mode="clip")[:, None]
    is_alike = np.logical_and.accumulate(is_alike, axis=1)
    count = is_alike.sum(axis=1)
    return starts[is_alike], position + size * (count + 1)


def _chains(
    data: Bytes, begins: Positions, ends: Positions, counts: Positions
) -> tuple[Positions, Positions]:
    """Where chains begin and where each must end: the batches, the long ones cut at guessed starts."""
    begin, end = begins[counts > 0], ends[counts > 0]
    is_long = counts > 2 * CHAIN_RECORDS
    guesses = _guesses(data, begins[is_long], ends[is_long], counts[is_long])
    chain_begin = np.unique(np.concatenate((begin, guesses)))
    chain_end = np.empty_like(chain_begin)
    chain_end[:-1] = chain_begin[1:]
    # The last chain of a batch ends with the batch: what begins next lies behind the next header.
    chain_end[np.searchsorted(chain_begin, end) - 1] = end
    return chain_begin, chain_end


def _guesses(data: Bytes, begins: Positions, ends: Positions, counts: Positions) -> Positions:
    """Positions inside the batches that look like starts of records, about every `CHAIN_RECORDS`.

    A start looks like this: a length of up to three bytes that stays inside the batch, attributes of zero, an
    offset delta; and the record after it has the next offset delta. (In a compacted batch few have that.)
    """
    pieces = counts // CHAIN_RECORDS
    owner = np.repeat(np.arange(len(counts)), pieces)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cuts = begins[owner] + (ends - begins)[owner] * number // pieces[owner]
    # Behind each cut, look through half as much again as a record takes on average.
    window = int((ends - begins).sum()) * 3 // (2 * max(1, int(counts.sum()))) + 8
    chosen = (number > 0) & (cuts + window + 3 <= len(data))
    cuts, limit = cuts[chosen], ends[owner[chosen]]
    if not len(cuts):
        return cuts
    bytes_at = np.lib.stride_tricks.sliding_window_view(data, window + 3)[cuts]
    first, second, third = bytes_at[:, :-3], bytes_at[:, 1:-2], bytes_at[:, 2:-1]
    is_one, is_two = first < 0x80, second < 0x80
    attributes = np.where(is_one, second, np.where(is_two, third, bytes_at[:, 3:]))
    # An even first byte belongs to a length that is not negative (zigzag).
    seems = (attributes == 0) & (first & 1 == 0) & (is_one | is_two | (third < 0x80))
    row, column = np.nonzero(seems)
    position = cuts[row] + column
    delta, following = _seems_record(data, position, limit[row])
    next_delta, _ = _seems_record(data, following, limit[row])
    good = (delta >= 0) & (next_delta == delta + 1)
    _, earliest = np.unique(row[good], return_index=True)
    guessed: Positions = position[good][earliest]
    return guessed


def _seems_record(data: Bytes, position: Positions, limit: Positions) -> tuple[Positions, Positions]:
    """The offset delta of what seems to be a record, -1 if it can be none, and where it would end."""
    length, body = varints(data, position, strict=False)
    after = body + length
    _, at = varints(data, body + 1, strict=False)
    delta, at = varints(data, at, strict=False)
    possible = (length >= _SMALLEST_RECORD - 1) & (after > position) & (after < limit) & (at < after)
    possible &= data.take(body, mode="clip") == 0
    return np.where(possible, delta, -1), np.where(possible, after, position)


def varints(data: Bytes, at: Positions, *, strict: bool = True) -> tuple[Positions, Positions]:
    """The zigzag varint at each position, and the position after it.

    Positions outside the data read its border bytes: garbage, which the caller's checks of lengths refuse. A
    varint of more than 64 bits is corrupt, or with `strict` off any number.
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
        while shift <= 63:
            if dense:
                byte = data.take(after, mode="clip")
                value |= ((byte & 0x7F).astype(np.int64) << shift) * more
                after += more
                top = byte * more
                more &= byte >= 0x80
                is_done = not more.any()
            else:
                byte = data.take(after[rest], mode="clip")
                value[rest] |= (byte & 0x7F).astype(np.int64) << shift
                after[rest] += 1
                top = byte
                rest = rest[byte >= 0x80]
                is_done = not len(rest)
            if strict and shift == 63 and bool((top > 1).any()):
                raise CorruptBatch("a varint does not fit into 64 bits")
            if is_done:
                break
            shift += 7
    unsigned = value.view(np.uint64)
    decoded: Positions = (unsigned >> np.uint64(1)).view(np.int64) ^ -(value & 1)
    return decoded, after


def _long_varint(body: bytes | bytearray, position: int) -> tuple[int, int]:
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
