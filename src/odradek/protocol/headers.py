"""What stands in front of every body: key, version, correlation id, client id.

Request headers: 0 without client id (ControlledShutdown 0 only), 1 with it, 2 with tagged fields behind it,
for flexible versions (KIP-482); the client id stays a plain nullable string even there, so that a broker can
read it whatever the version. Response headers: 0 the correlation id alone, 1 with tagged fields; ApiVersions
always answers with 0, since the client cannot know yet what the broker speaks (KIP-511).
"""

from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from odradek.protocol.api_keys import APIS, ApiKey
from odradek.protocol.errors import MalformedMessage, UnsupportedVersion
from odradek.protocol.primitives import Buffer, bad_null, skip_tagged_fields, too_long

_FIXED = Struct(">hhi")
_FIXED_AND_LENGTH = Struct(">hhih")
_FRAME = Struct(">ihhih")
_SIZE_AND_FIXED = Struct(">ihhi")
_CORRELATION_ID = Struct(">i")

_FIRST_FLEXIBLE = {int(key): api.first_flexible for key, api in APIS.items()}
# Plain integers, for these are compared with for every frame.
_CONTROLLED_SHUTDOWN, _API_VERSIONS = int(ApiKey.CONTROLLED_SHUTDOWN), int(ApiKey.API_VERSIONS)


# A named tuple made without the Python function that usually makes it: three times as quick.
_NEW = tuple.__new__


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def request_header_version(api_key: int, version: int) -> int:
    if api_key == _CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version >= (_FIRST_FLEXIBLE.get(api_key) or _first_flexible(api_key)) else 1


def response_header_version(api_key: int, version: int) -> int:
    if api_key == _API_VERSIONS:
        return 0
    return 1 if version >= (_FIRST_FLEXIBLE.get(api_key) or _first_flexible(api_key)) else 0


def decode_request_header(buffer: Buffer) -> RequestHeader:
    """The header at the start of a frame. A key without a table counts as not flexible: it is refused anyway.

    An unknown version of ApiVersions is still readable, its header is that of the newest (KIP-511).
    """
    try:
        api_key, version, correlation_id, length = _FIXED_AND_LENGTH.unpack_from(buffer)
    except struct_error:
        return _short_header(buffer)
    position = 10
    client_id = None
    if length >= 0:
        if api_key == _CONTROLLED_SHUTDOWN and version == 0:
            return RequestHeader(api_key, version, correlation_id, None, 8)
        position += length
        if position > len(buffer):
            raise too_long("client id", length, len(buffer) - 10)
        try:
            client_id = str(buffer[10:position], "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessage("request header: the client id is not UTF-8") from None
    elif api_key == _CONTROLLED_SHUTDOWN and version == 0:
        return RequestHeader(api_key, version, correlation_id, None, 8)
    elif length != -1:
        raise bad_null("client id", length)
    if version >= _FIRST_FLEXIBLE.get(api_key, 32767):
        try:
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
        except IndexError:
            raise MalformedMessage(f"request header: ends too early, after {len(buffer)} bytes") from None
    return _NEW(RequestHeader, (api_key, version, correlation_id, client_id, position))


def _short_header(buffer: Buffer) -> RequestHeader:
    """Less than a client id's length: only version 0 of ControlledShutdown gets by with that."""
    if len(buffer) >= 8:
        api_key, version, correlation_id = _FIXED.unpack_from(buffer)
        if api_key == _CONTROLLED_SHUTDOWN and version == 0:
            return RequestHeader(api_key, version, correlation_id, None, 8)
    raise MalformedMessage(f"request header: ends too early, after {len(buffer)} bytes")


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: Buffer
) -> bytes:
    """A whole frame: size, header, body."""
    header_version = request_header_version(api_key, version)
    if header_version == 0:
        return b"".join((_SIZE_AND_FIXED.pack(8 + len(body), api_key, version, correlation_id), body))
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    if header_version == 1:
        size = 10 + len(name) + len(body)
        return b"".join((_FRAME.pack(size, api_key, version, correlation_id, length), name, body))
    size = 11 + len(name) + len(body)
    return b"".join((_FRAME.pack(size, api_key, version, correlation_id, length), name, b"\0", body))


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    if response_header_version(api_key, version) == 0:
        return _CORRELATION_ID.pack(correlation_id)
    return _CORRELATION_ID.pack(correlation_id) + b"\0"


def decode_response_header(api_key: int, version: int, buffer: Buffer) -> tuple[int, int]:
    """Correlation id and offset of the body."""
    if len(buffer) < 4:
        raise MalformedMessage(f"response header: ends too early, after {len(buffer)} bytes")
    correlation_id: int = _CORRELATION_ID.unpack_from(buffer)[0]
    if response_header_version(api_key, version) == 0:
        return correlation_id, 4
    try:
        return correlation_id, 5 if buffer[4] == 0 else skip_tagged_fields(buffer, 4)
    except IndexError:
        raise MalformedMessage(f"response header: ends too early, after {len(buffer)} bytes") from None


def _first_flexible(api_key: int) -> int:
    try:
        return _FIRST_FLEXIBLE[api_key]
    except KeyError:
        raise UnsupportedVersion(f"API key {api_key} is not known") from None
