"""Every golden vector of a version we have a table for, in both directions and through both codecs."""

from collections import Counter

from odradek.protocol import reference
from odradek.protocol.api_keys import APIS, SERVED
from tests.protocol.golden import (
    OF_4_1,
    Vector,
    all_vectors,
    has_table,
    has_vectors,
    message_versions,
    vectors,
)
from tests.support import each

BY_MESSAGE = {}
for _vector in vectors():
    BY_MESSAGE.setdefault(_vector.message, []).append(_vector)


def test_the_golden_file_is_all_there() -> None:
    left_out = [vector for vector in all_vectors() if not has_table(vector)]
    assert (len(all_vectors()), len(vectors()), len(left_out)) == (2992, 2624, 368)
    # Left out are versions below the baseline, and delegation tokens (38-41).
    assert all(
        38 <= vector.key <= 41 or vector.version < APIS[vector.key].first_version for vector in left_out
    )


def test_every_version_of_every_message_has_vectors() -> None:
    seen = Counter((vector.message, vector.version) for vector in vectors())
    assert set(seen) == {one for one in message_versions() if has_vectors(*one)}
    assert min(seen.values()) >= 5


def test_every_served_version_has_vectors() -> None:
    covered = {(vector.key, vector.version) for vector in vectors()}
    served = {(key, v) for key, (low, high) in SERVED.items() for v in range(low, high + 1)}
    assert {(key, v) for key, v in served if v < OF_4_1.get(key, v + 1)} <= covered


@each(BY_MESSAGE, lambda message: message.__name__)
def test_bytes_become_the_json_that_apache_prints(message: type) -> None:
    for vector in BY_MESSAGE[message]:
        decoded = vector.message.decode(vector.version, vector.body)
        assert decoded.to_json(vector.version) == vector.json, vector.name
        assert reference.decode(vector.message, vector.version, vector.body) == decoded, vector.name


@each(BY_MESSAGE, lambda message: message.__name__)
def test_json_becomes_the_bytes_that_apache_writes(message: type) -> None:
    for vector in BY_MESSAGE[message]:
        value = vector.message.from_json(vector.version, vector.json)
        expected = vector.body
        if vector.sample == "unknown-tag":
            expected = _without_unknown_tags(vector)
        assert value.encode(vector.version) == expected, vector.name
        assert reference.encode(value, vector.version) == expected, vector.name


def _without_unknown_tags(vector: Vector) -> bytes:
    """The top-level tags 10000 and 10001 are the last there are: cut them off, and count two tags less."""
    unknown = bytes.fromhex("904e03010203914e00")
    assert vector.body.endswith(unknown)
    known = vector.body[: -len(unknown)]
    twin = next(
        other
        for other in vectors()
        if (other.message, other.version, other.sample) == (vector.message, vector.version, "full")
    )
    assert twin.json == vector.json
    assert len(twin.body) == len(known), "the same message, the same length, another count of tags"
    return twin.body


def test_unknown_tags_are_skipped_in_nested_structs_too() -> None:
    message = next(v for v in vectors() if v.name == "FetchRequest-v12-full")
    decoded = message.message.decode(12, message.body)
    decoded.topics = decoded.topics[:1]
    decoded.topics[0].partitions = decoded.topics[0].partitions[:1]
    plain = decoded.encode(12)
    # The partition's own tags: its max bytes, then a count of 0. Give it tag 99 of two bytes.
    needle = decoded.topics[0].partitions[0].partition_max_bytes.to_bytes(4, "big") + b"\0"
    assert plain.count(needle) == 1
    tagged = plain.replace(needle, needle[:-1] + b"\1\x63\2\xab\xcd")
    assert message.message.decode(12, tagged) == decoded
    assert reference.decode(message.message, 12, tagged) == decoded
