"""What can be wrong with bytes that claim to be record batches, each with the code a client is answered."""

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import OdradekError, ProtocolError


class CorruptBatch(ProtocolError):
    """Length, CRC or structure is broken."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class InvalidRecord(ProtocolError):
    """Well-formed bytes that break a rule. `record_index` names the record where one can be named."""

    def __init__(self, message: str, record_index: int | None = None) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)
        self.record_index = record_index


class OldMessageFormat(ProtocolError):
    """Magic 0 and 1 (before Kafka 0.11): recognised, never stored. This log holds magic 2 only."""

    def __init__(self, magic: int) -> None:
        super().__init__(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"message format {magic}: only record batches of magic 2 are stored here",
        )


class TakesLong(OdradekError):
    """To look at this batch takes more than a moment, though little of it came in; nothing is wrong with it so far.
    Raised where somebody asked what can be told at once."""
