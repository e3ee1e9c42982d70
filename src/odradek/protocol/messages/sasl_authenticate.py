"""SaslAuthenticate (key 36), versions 0-2.

One token of a SASL exchange (KIP-152).
v1 session lifetime (KIP-368). v2 flexible.
"""

from odradek.protocol.fields import binary, int16, int64, string
from odradek.protocol.schema import Request, Response


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = binary("0+")


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+")
    session_lifetime_ms: int = int64("1+")
