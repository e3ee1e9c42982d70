"""Headers as Apache writes them, and frames of strangers."""

import json
import struct
from random import Random

import pytest

from odradek.protocol import headers
from odradek.protocol.api_keys import APIS
from odradek.protocol.errors import MalformedMessage, UnsupportedVersion
from tests.protocol.drawing import damaged
from tests.support import GOLDEN

GOLDEN_HEADERS = json.loads((GOLDEN / "headers.json").read_text())
# A key and version that has each request header version.
EXAMPLE = {0: (7, 0), 1: (3, 8), 2: (18, 3)}


def test_every_key_and_version_has_the_header_versions_of_apache() -> None:
    compared = 0
    for row in GOLDEN_HEADERS["mapping"]:
        key, version = row["key"], row["version"]
        if key in APIS and version <= APIS[key].last_version:
            compared += 1
            assert headers.request_header_version(key, version) == row["request_header"], row
            assert headers.response_header_version(key, version) == row["response_header"], row
    assert compared >= sum(api.last_version - api.first_version + 1 for api in APIS.values())


def vectors(kind: str) -> list[dict]:
    return [vector for vector in GOLDEN_HEADERS["vectors"] if vector["type"] == kind]


# Those with a note have an unknown tag, which is read and never written.
WRITTEN = [vector for vector in vectors("request") if "note" not in vector]


@pytest.mark.parametrize("vector", vectors("request"), ids=lambda v: f"{v['header_version']}-{v['hex'][16:]}")
def test_request_headers_of_apache_are_read(vector: dict) -> None:
    version = vector["header_version"]
    raw = bytes.fromhex(vector["hex"])
    if version != 2:
        # The vectors all say ApiVersions 3; let the key say what the header version is.
        key, api_version = EXAMPLE[version]
        raw = struct.pack(">hh", key, api_version) + raw[4:]
    for tail in (b"", b"body"):
        for buffer in (raw + tail, bytearray(raw + tail), memoryview(raw + tail)):
            if version == 0 and tail:
                continue
            header = headers.decode_request_header(buffer)
            assert (header.api_key, header.api_version) == EXAMPLE[version]
            assert header.correlation_id == vector["json"]["correlationId"]
            assert header.client_id == vector["json"].get("clientId")
            assert header.body_offset == len(raw)


def test_controlled_shutdown_0_has_no_client_id_whatever_follows() -> None:
    raw = struct.pack(">hhi", 7, 0, 5)
    for body in (b"", b"\0", b"\0\0\0\1", b"\xff\xff\xff\xff", b"\x7f\xff\0\0"):
        header = headers.decode_request_header(raw + body)
        assert header == (7, 0, 5, None, 8)


@pytest.mark.parametrize("vector", WRITTEN, ids=lambda v: f"{v['header_version']}-{v['hex'][16:]}")
def test_requests_are_framed_as_apache_frames_them(vector: dict) -> None:
    version = vector["header_version"]
    key, api_version = EXAMPLE[version]
    expected = struct.pack(">hh", key, api_version) + bytes.fromhex(vector["hex"])[4:] + b"body"
    frame = headers.encode_request(
        key, api_version, vector["json"]["correlationId"], vector["json"].get("clientId"), b"body"
    )
    assert frame == len(expected).to_bytes(4, "big") + expected


def test_response_headers_are_written_and_read_as_apache_does() -> None:
    by_version = {vector["header_version"]: vector for vector in vectors("response")}
    for header_version, (key, version) in ((0, (3, 8)), (1, (3, 9))):
        raw = bytes.fromhex(by_version[header_version]["hex"])
        assert headers.response_header(key, version, -2) == raw
        assert headers.decode_response_header(key, version, raw + b"body") == (-2, len(raw))


def test_tags_in_a_response_header_are_skipped() -> None:
    raw = b"\0\0\0\7" + b"\1\x05\2ab"
    assert headers.decode_response_header(3, 9, raw + b"body") == (7, len(raw))


def test_api_versions_answers_with_header_0_in_every_version() -> None:
    for version in (0, 3, 4, 99):
        assert headers.response_header(18, version, 1) == b"\0\0\0\1"
        assert headers.decode_response_header(18, version, b"\0\0\0\1\0") == (1, 4)


def test_an_unknown_version_of_api_versions_has_a_header_that_can_be_read() -> None:
    raw = struct.pack(">hhih", 18, 99, 5, 3) + b"abc" + b"\0" + b"whatever"
    assert headers.decode_request_header(raw) == (18, 99, 5, "abc", 14)


def test_an_unknown_key_is_readable_up_to_the_client_id() -> None:
    for key in (-1, 38, 9999, 32767):
        raw = struct.pack(">hhih", key, 0, 5, 3) + b"abc"
        assert headers.decode_request_header(raw) == (key, 0, 5, "abc", 13)
        with pytest.raises(UnsupportedVersion):
            headers.response_header(key, 0, 5)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        bytes(7),
        struct.pack(">hhi", 3, 8, 1),
        struct.pack(">hhih", 3, 8, 1, -2),
        struct.pack(">hhih", 3, 8, 1, 4) + b"abc",
        struct.pack(">hhih", 3, 8, 1, 2) + b"\xff\xfe",
        struct.pack(">hhih", 3, 9, 1, 3) + b"abc",
        struct.pack(">hhih", 3, 9, 1, -1) + b"\x80\x80\x80\x80\x80\x01",
        struct.pack(">hhih", 3, 9, 1, -1) + b"\x01\x05\x7fab",
        struct.pack(">hhih", 3, 9, 1, -1) + b"\xff\xff\xff\xff\x0f",
    ],
)
def test_a_header_of_nonsense_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        headers.decode_request_header(raw)


def test_a_response_header_of_nonsense_is_malformed() -> None:
    for raw in (b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\1"):
        with pytest.raises(MalformedMessage):
            headers.decode_response_header(3, 9, raw)


def test_no_bytes_at_all_raise_anything_else() -> None:
    chance = Random("headers")
    frame = headers.encode_request(3, 9, 77, "client", b"body")[4:]
    nonsense = [chance.randbytes(n % 41) for n in range(400)]
    known = [struct.pack(">hh", 3, n % 14) + chance.randbytes(n % 37) for n in range(400)]
    decoded = 0
    for raw in [*damaged(frame, "headers", 500), *nonsense, *known]:
        try:
            header = headers.decode_request_header(raw)
        except MalformedMessage:
            continue
        assert 8 <= header.body_offset <= len(raw), raw.hex()
        decoded += 1
    assert decoded > 50
