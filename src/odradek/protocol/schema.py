"""Messages: tables (`fields`) that are decoded and encoded, by codecs that `compiler` makes at the first use of a version.

A field that a version does not know is not written and comes back as its default: which versions can carry what is for the
handlers to know.
"""

from struct import error as struct_error
from typing import Any, ClassVar, Self

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import NEVER, Decoder, Encoder, MessageTable, VersionRange
from odradek.protocol.primitives import ELEMENT_BUDGET, Buffer


class Message(MessageTable):
    """A request or a response of one API key."""

    DECODERS: ClassVar[dict[int, Decoder]]
    ENCODERS: ClassVar[dict[int, Encoder]]

    def __init_subclass__(
        cls, *, key: int = -1, versions: str = "", flexible: str | None = None, flat: bool = False
    ) -> None:
        cls.KEY = key
        cls.IS_FLAT = flat
        if versions:
            cls.VERSIONS = VersionRange.parse(versions)
            cls.FLEXIBLE = VersionRange.parse(flexible) if flexible else NEVER
            cls.DECODERS = {}
            cls.ENCODERS = {}

    @classmethod
    def decode(cls, version: int, buffer: Buffer, offset: int = 0, *, budget: int = ELEMENT_BUDGET) -> Self:
        """The message that fills `buffer` from `offset` to its end; MalformedMessage if it does not, or if it has more
        array elements than `budget`, a struct or string counting for four."""
        decoder = cls.DECODERS.get(version)
        if decoder is None:
            from odradek.protocol import compiler

            cls.check_version(version)
            decoder = cls.DECODERS[version] = compiler.decoder_of(cls, version)
        try:
            message: Self = decoder(buffer, offset, budget)
        except (struct_error, IndexError):
            raise cls.malformed(version, f"ends too early, after {len(buffer) - offset} bytes") from None
        except UnicodeDecodeError as error:
            raise cls.malformed(version, f"a string is not UTF-8 ({error.reason})") from None
        except MalformedMessage as error:
            raise cls.malformed(version, error.message) from None
        return message

    @classmethod
    def malformed(cls, version: int, why: str) -> MalformedMessage:
        return MalformedMessage(f"{cls.__name__} version {version}: {why}")

    def encode(self, version: int) -> bytes:
        encoder = self.ENCODERS.get(version)
        if encoder is None:
            from odradek.protocol import compiler

            self.check_version(version)
            encoder = self.ENCODERS[version] = compiler.encoder_of(type(self), version)
        return encoder(self)

    def to_json(self, version: int) -> dict[str, Any]:
        """Kafka's JSON form of this version, records and bytes in base64."""
        from odradek.protocol import json_form

        self.check_version(version)
        return json_form.to_json(self, version)

    @classmethod
    def from_json(cls, version: int, value: Any) -> Self:
        from odradek.protocol import json_form

        cls.check_version(version)
        message: Self = json_form.from_json(cls, version, value)
        return message


class Request(Message):
    TYPE = "request"


class Response(Message):
    TYPE = "response"
