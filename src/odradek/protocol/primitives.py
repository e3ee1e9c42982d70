"""The pieces every message is made of: variable-length integers and the bounds they are held to.

An unsigned varint carries seven bits a byte, lowest first, the top bit set on all but the last; five bytes
are the most for 32 bits, ten for 64 (KIP-482, and records since magic 2). A reader looks at what is left of
the frame before it believes a length: nobody may make us allocate what they did not send (CVE-2022-34917).
"""

from collections.abc import Callable
from struct import Struct
from typing import Any

from odradek.protocol.errors import MalformedMessage

Buffer = bytes | bytearray | memoryview

# Strings are limited to what int16 can count, in the compact form too.
MAX_STRING_BYTES = 0x7FFF
# Of a sentence beside an error code. It quotes what somebody has sent, and there may be one for each row: names of 32 kB would be
# told twice, the second time cut to what a string holds, which took 20 ms of the answer to 8 MB of them.
MOST_MESSAGE_BYTES = 4_000
_LEFT_OUT = b" ... "
# What fits into a frame may still be too much for us: two bytes on the wire can become an object of sixty. So
# a message may have this many array elements in all, a struct or string counting for four (a million of them);
# a cluster of 200,000 partitions stays below.
ELEMENT_BUDGET = 1 << 22
OBJECT_COST = 4
# Tagged fields are skipped one by one, so they count like objects, and no struct has more than a few.
MAX_TAGGED_FIELDS = 127


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The unsigned varint at `position` and the position behind it; IndexError at the end of the buffer."""
    byte = buffer[position]
    if byte < 128:
        return byte, position + 1
    value = byte & 127
    for shift in (7, 14, 21, 28):
        position += 1
        byte = buffer[position]
        if byte < 128:
            value |= byte << shift
            if value > 0xFFFFFFFF:
                break
            return value, position + 1
        value |= (byte & 127) << shift
    raise MalformedMessage("varint of more than 32 bits")


def read_uvarlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """As `read_uvarint`, ten bytes at most."""
    value = 0
    for shift in range(0, 70, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128 and value <= 0xFFFFFFFFFFFFFFFF:
            return value, position
        if byte < 128:
            break
    raise MalformedMessage("varint of more than 64 bits")


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed varint of 32 bits, zigzag (0, -1, 1, -2, ...), as records use it."""
    value, position = read_uvarint(buffer, position)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    value, position = read_uvarlong(buffer, position)
    return (value >> 1) ^ -(value & 1), position


def uvarint(value: int) -> bytes:
    if 0 <= value < 128:
        return UVARINTS[value]
    if 0 <= value < 16384:
        return bytes((value & 127 | 128, value >> 7))
    if 0 <= value < 2097152:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    if value < 0:
        raise ValueError(f"an unsigned varint cannot hold {value}")
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint(value: int) -> bytes:
    return uvarint((value << 1) ^ (value >> 63))


# One-byte varints, ready made.
UVARINTS = tuple(bytes((value,)) for value in range(128))

# `unpack_from` of this many int32, ready made.
UNPACK_INTS = tuple(Struct(f">{count}i").unpack_from for count in range(16))


def compact_string(text: str) -> bytes:
    content = text.encode()
    length = len(content) + 1
    if length < 128:
        return UVARINTS[length] + content
    if length > MAX_STRING_BYTES + 1:
        raise unencodable("string", length - 1)
    return uvarint(length) + content


def read_compact_nullable_string(buffer: Buffer, position: int, name: str) -> tuple[str | None, int]:
    length, position = read_uvarint(buffer, position)
    if not length:
        return None, position
    stop = position + length - 1
    if stop > len(buffer) or length > MAX_STRING_BYTES + 1:
        raise too_long(name, length - 1, len(buffer) - position)
    try:
        return str(buffer[position:stop], "utf-8"), stop
    except UnicodeDecodeError:
        raise MalformedMessage(f"{name}: not UTF-8") from None


def read_compact_string(buffer: Buffer, position: int, name: str) -> tuple[str, int]:
    text, position = read_compact_nullable_string(buffer, position, name)
    if text is None:
        raise bad_null(name, -1)
    return text, position


def read_tag_count(buffer: Buffer, position: int) -> tuple[int, int]:
    count, position = read_uvarint(buffer, position)
    if count > MAX_TAGGED_FIELDS:
        raise MalformedMessage(f"{count} tagged fields announced, {MAX_TAGGED_FIELDS} are accepted")
    return count, position


def read_tag(buffer: Buffer, position: int) -> tuple[int, int, int]:
    """Of a tagged field: its number, where its content starts and where it stops."""
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    if size > len(buffer) - position:
        raise too_long("tagged field", size, len(buffer) - position)
    return tag, position, position + size


def skip_tagged_fields(buffer: Buffer, position: int) -> int:
    """The position behind a section of tagged fields none of which this version knows."""
    count, position = read_tag_count(buffer, position)
    for _ in range(count):
        _, _, position = read_tag(buffer, position)
    return position


def wrong_tag_size(name: str) -> MalformedMessage:
    return MalformedMessage(f"tagged field {name}: its size is not the size of its content")


def check_count(name: str, count: int, element_size: int, left: int) -> None:
    if count * element_size > left:
        raise too_many(name, count, element_size, left)


def too_many(name: str, count: int, element_size: int, left: int) -> MalformedMessage:
    return MalformedMessage(
        f"{name}: {count} elements of at least {element_size} bytes announced, {left} bytes left"
    )


def left_over(size: int) -> MalformedMessage:
    return MalformedMessage(f"{size} bytes left over")


def over_budget(name: str) -> MalformedMessage:
    return MalformedMessage(f"{name}: more elements than one message may have")


def too_long(name: str, size: int, left: int) -> MalformedMessage:
    return MalformedMessage(f"{name}: {size} bytes announced, {left} left")


def bad_null(name: str, length: int) -> MalformedMessage:
    if length == -1:
        return MalformedMessage(f"{name}: null, but it cannot be null in this version")
    return MalformedMessage(f"{name}: negative length {length}")


def message_bytes(text: str) -> bytes:
    """MOST_MESSAGE_BYTES of a sentence at most, in whole characters: its beginning, and how it ends. In between it quotes, as a
    rule, what somebody has sent."""
    if len(text) > MOST_MESSAGE_BYTES:
        text = text[:MOST_MESSAGE_BYTES] + text[-MOST_MESSAGE_BYTES:]  # no more of it than is looked at
    content = text.encode()
    if len(content) <= MOST_MESSAGE_BYTES:
        return content
    half = (MOST_MESSAGE_BYTES - len(_LEFT_OUT)) // 2
    head, tail = (part.decode(errors="ignore").encode() for part in (content[:half], content[-half:]))
    return head + _LEFT_OUT + tail


class Unencodable(ValueError):
    """What somebody wants sent has no room in the message."""


def unencodable(name: str, size: int) -> Unencodable:
    return Unencodable(f"{name}: {size} bytes, the wire allows {MAX_STRING_BYTES}")


def size_of(records: Any) -> int:
    """The size in bytes of what somebody wants sent as records."""
    kind = type(records)
    if kind is bytes or kind is memoryview or kind is bytearray:
        return len(records)
    if kind is list or kind is tuple:
        return sum(map(size_of, records))
    size: int = records.size_bytes
    return size


class RowShapes(dict[tuple[int, ...], tuple[Any, ...]]):
    """How a row of integers and lists of integers is packed at once: lengths of the lists -> `pack`, and these lengths as
    they are written. There are few such shapes in a cluster.

    `runs`: letters of struct.Struct before the first list, between the lists and behind the last.
    """

    MOST = 1024

    def __init__(self, runs: tuple[str, ...], *, is_flexible: bool) -> None:
        super().__init__()
        self._runs = runs
        self._length: Callable[[int], bytes] = _compact_length if is_flexible else _INT.pack

    def make(self, sizes: tuple[int, ...]) -> tuple[Any, ...]:
        lengths = [self._length(size) for size in sizes]
        letters = self._runs[0] + "".join(
            f"{len(length)}s{size}i{run}"
            for size, length, run in zip(sizes, lengths, self._runs[1:], strict=True)
        )
        if len(self) >= self.MOST:  # lists of all lengths: not a cluster we were made for
            self.clear()
        made = self[sizes] = (Struct(">" + letters).pack, *lengths)
        return made


def _compact_length(size: int) -> bytes:
    return uvarint(size + 1)


_INT = Struct(">i")
