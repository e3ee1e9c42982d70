"""The log of a partition on its way into a coordinator's memory: pieces of it, each read and applied by a thread."""

from typing import TYPE_CHECKING, Any

from odradek.log.errors import StorageError
from odradek.model.errors import ProtocolError
from odradek.records.batch import BATCH_OVERHEAD, read_header

if TYPE_CHECKING:
    from odradek.coordinator.loading import Loaded
    from odradek.log.files import FileSlice
    from odradek.log.partition_log import PartitionLog

# A few tens of milliseconds of the thread.
PIECE_BYTES = 1 << 18


class Piece:
    """`run` reads the slices and applies their batches; gives the offset behind the last, or what went wrong."""

    def __init__(self, slices: "list[FileSlice]", loaded: "Loaded[Any]", offset: int) -> None:
        self._slices = slices
        self._loaded = loaded
        self._offset = offset

    def run(self) -> "int | str":
        try:
            data = memoryview(b"".join(one.read() for one in self._slices))
            return self._apply(data)
        except (ProtocolError, StorageError, OSError) as error:
            return f"cannot be read at offset {self._offset}: {error}"

    def _apply(self, data: memoryview) -> int:
        position, offset = 0, self._offset
        while position + BATCH_OVERHEAD <= len(data):
            header = read_header(data, position)
            end = position + header.size_bytes
            if end > len(data):
                break  # the last of a piece may be cut
            if header.last_offset >= offset:
                self._loaded.batch(header, data[position + BATCH_OVERHEAD : end])
                offset = header.next_offset
            position = end
        return offset


class Load:
    def __init__(self, log: "PartitionLog", loaded: "Loaded[Any]") -> None:
        self.log = log
        self.loaded = loaded
        self.offset: int = log.log_start_offset  # everything below was applied
        self.problem = ""

    @property
    def is_at_the_end(self) -> bool:
        return self.offset >= self.log.log_end_offset

    def next_piece(self) -> Piece | None:
        """None: there is nothing left, or `problem` says why not."""
        if self.is_at_the_end:
            return None
        end = self.log.log_end_offset
        try:
            read = self.log.read(
                self.offset, max_bytes=PIECE_BYTES, upper_bound_offset=end, min_one_batch=True
            )
        except (ProtocolError, StorageError) as error:
            self.problem = f"cannot be read at offset {self.offset}: {error}"
            return None
        return Piece(read.slices, self.loaded, self.offset)

    def has_read(self, came: "int | str | None") -> bool:
        """What came of a piece. False: this load is over, `problem` says why."""
        if came is None:
            self.problem = self.problem or ("" if self.is_at_the_end else "cannot be read")
        elif isinstance(came, str):
            self.problem = came
        elif came <= self.offset:
            self.problem = f"nothing can be read at offset {self.offset}"
        else:
            self.offset = came
        return not self.problem
