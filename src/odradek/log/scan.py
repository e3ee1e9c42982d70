"""Walking over the batches of a segment file by their headers, a window at a time."""

from collections.abc import Iterator

from odradek.log.errors import CorruptLog
from odradek.log.files import File
from odradek.model.errors import ProtocolError
from odradek.records.batch import BATCH_OVERHEAD, BatchHeader, read_header

# Two index intervals: what a search reads when the index is as dense as it should be.
HEADER_WINDOW = 8192
SCAN_WINDOW = 1 << 20


def scan_headers(
    file: File, position: int, end: int, window: int = HEADER_WINDOW
) -> Iterator[tuple[int, BatchHeader]]:
    """Headers only. CorruptLog where there is none, or where the last batch reaches beyond `end`."""
    data = b""
    at = 0
    while position + at < end:
        if at + BATCH_OVERHEAD > len(data):
            position += at
            at = 0
            data = file.read_at(position, min(window, end - position))
        try:
            header = read_header(data, at)
        except ProtocolError as error:
            raise CorruptLog(f"{file.name} at {position + at}: {error.message}") from None
        size_bytes = header.size_bytes
        if position + at + size_bytes > end:
            raise CorruptLog(
                f"{file.name} at {position + at}: batch of {size_bytes} bytes where {end - position - at} are left"
            )
        yield position + at, header
        at += size_bytes


def scan_batches(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader | str, memoryview]]:
    """Whole batches, for whoever checks them. Where no batch can be, yields the reason once and ends."""
    data = memoryview(b"")
    at = 0
    window = SCAN_WINDOW
    while position + at < end:
        left = len(data) - at
        header: BatchHeader | str = ""
        if left >= BATCH_OVERHEAD or position + len(data) >= end:
            try:
                header = read_header(data, at)
            except ProtocolError as error:
                yield position + at, error.message, data[at:]
                return
            size_bytes = header.size_bytes
            if size_bytes <= left:
                yield position + at, header, data[at : at + size_bytes]
                at += size_bytes
                continue
            if position + at + size_bytes > end:
                reason = f"batch of {size_bytes} bytes where {end - position - at} are left"
                yield position + at, reason, data[at:]
                return
            window = max(SCAN_WINDOW, size_bytes)
        position += at
        at = 0
        data = memoryview(file.read_at(position, min(window, end - position)))
        if len(data) == 0:
            yield position, "the file ends before its length", data
            return
