"""The compiled codec is the reference codec, only faster: for every message and every version."""

import pytest
from hypothesis import HealthCheck, given, settings

from odradek.protocol import reference
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.schema import Message
from tests.protocol.golden import has_vectors, message_versions, vectors
from tests.protocol.mutations import mutated
from tests.protocol.strategies import messages

SEEDS = {
    (vector.message, vector.version): vector.body
    for vector in vectors()
    if vector.sample in ("full", "random-1")
}


def _name(value: object) -> str:
    return value.__name__ if isinstance(value, type) else f"v{value}"


def outcome(decode: object, *arguments: object) -> object:
    try:
        return decode(*arguments)  # type: ignore[operator]
    except MalformedMessage:
        return "malformed"


@pytest.mark.parametrize(("message", "version"), message_versions(), ids=_name)
def test_both_codecs_write_the_same_bytes_and_read_them_back(message: type[Message], version: int) -> None:
    @settings(
        max_examples=8,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(value=messages(message, version))
    def check(value: Message) -> None:
        encoded = value.encode(version)
        assert encoded == reference.encode(value, version)
        assert message.decode(version, encoded) == value
        assert reference.decode(message, version, encoded) == value
        assert message.from_json(version, value.to_json(version)) == value
        assert message.decode(version, b"xyz" + encoded, 3) == value

    check()


@pytest.mark.parametrize(("message", "version"), message_versions(), ids=_name)
def test_both_codecs_agree_on_what_is_malformed(message: type[Message], version: int) -> None:
    seed = SEEDS[message, version if has_vectors(message, version) else version - 1]

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(body=mutated(seed))
    def check(body: bytes) -> None:
        compiled = outcome(message.decode, version, body)
        # Floats may come out as NaN, which equals nothing: then their bytes must be equal.
        expected = outcome(reference.decode, message, version, body)
        if compiled != expected:
            assert isinstance(compiled, message) and isinstance(expected, message)
            assert compiled.encode(version) == expected.encode(version)

    check()
