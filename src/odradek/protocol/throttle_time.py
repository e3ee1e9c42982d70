"""Puts `throttle_time_ms` into an answer that is encoded already.

Who is held up is known when the answer is there, and hardly any is: so handlers encode as if nobody were. In
most answers the field comes first and is written over; in Produce and ApiVersions it stands behind what varies,
and they are read and written again. Some have none (SaslAuthenticate, early versions): those stay as they are, and so does the
answer to a version that is not known (ApiVersions, KIP-511), which is one of version 0.
"""

from struct import Struct

from odradek.protocol.messages import response_class

_INT = Struct(">i")
_NAME = "throttle_time_ms"


def with_throttle_time(key: int, version: int, body: bytes, throttle_time_ms: int) -> bytes:
    response = response_class(key)
    if version not in response.VERSIONS:
        return body
    names = [line.name for line in response.TABLE if version in line.versions and line.tag is None]
    if _NAME not in names:
        return body
    if names[0] == _NAME:
        return _INT.pack(throttle_time_ms) + body[_INT.size :]
    message = response.decode(version, body)
    setattr(message, _NAME, throttle_time_ms)
    return message.encode(version)
