"""The compiled codec is the reference codec, only faster: for every message and every version."""

from collections.abc import Callable

from odradek.protocol import reference
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.schema import Message
from tests.protocol.drawing import damaged, messages
from tests.protocol.golden import has_vectors, message_classes, vectors
from tests.support import each

SEEDS = {
    (vector.message, vector.version): vector.body
    for vector in vectors()
    if vector.sample in ("full", "random-1")
}
EVERY = each(message_classes(), lambda message: message.__name__)


def versions(message: type[Message]) -> range:
    return range(message.VERSIONS.first, message.VERSIONS.last + 1)


def outcome(decode: Callable[..., object], *arguments: object) -> object:
    try:
        return decode(*arguments)
    except MalformedMessage:
        return "malformed"


@EVERY
def test_both_codecs_write_the_same_bytes_and_read_them_back(message: type[Message]) -> None:
    for version in versions(message):
        for value in messages(message, version, 12):
            encoded = value.encode(version)
            assert encoded == reference.encode(value, version), (version, value)
            assert message.decode(version, encoded) == value, version
            assert reference.decode(message, version, encoded) == value, version
            assert message.from_json(version, value.to_json(version)) == value, version
            assert message.decode(version, b"xyz" + encoded, 3) == value, version


@EVERY
def test_both_codecs_agree_on_what_is_malformed(message: type[Message]) -> None:
    for version in versions(message):
        seed = SEEDS[message, version if has_vectors(message, version) else version - 1]
        for body in damaged(seed, f"{message.__name__} {version}", 30):
            compiled = outcome(message.decode, version, body)
            # Floats may come out as NaN, which equals nothing: then their bytes must be equal.
            expected = outcome(reference.decode, message, version, body)
            if compiled != expected:
                assert isinstance(compiled, message) and isinstance(expected, message), (version, body.hex())
                assert compiled.encode(version) == expected.encode(version), (version, body.hex())
