"""What the wire itself can get wrong."""

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError


class MalformedMessage(ProtocolError):
    """The bytes are not what they claim to be. Nothing after them can be trusted: close the connection."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


class UnsupportedVersion(ProtocolError):
    """There is no table for this key and version."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, message)
