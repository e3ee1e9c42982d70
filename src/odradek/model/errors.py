"""The root of every error this package raises on purpose.

Three kinds, three manners (docs/decisions/0001). *The peer is wrong*: `ProtocolError`, answered with its
code. *The world is wrong*: a named error such as `StoreUnavailable`, handled by the caller that can do
something. *We are wrong*: an assertion, or `IllegalTransition`; the part that can no longer be trusted stops.
"""

from odradek.model.error_codes import ErrorCode


class OdradekError(Exception):
    """A sentence for a person: what was asked, what was found, what would have worked."""


class ProtocolError(OdradekError):
    """The peer is wrong, or asks for what cannot be had: answered with `code`."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class ConfigurationError(OdradekError):
    """A setting is unknown, malformed or out of range; the message names what would have worked."""


class InvalidValue(ConfigurationError):
    """A value that its setting cannot have. `kafka_message` is how Apache Kafka says it, for its clients."""

    def __init__(self, message: str, kafka_message: str | None = None) -> None:
        super().__init__(message)
        self.kafka_message = message if kafka_message is None else kafka_message
