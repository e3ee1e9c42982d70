"""SaslHandshake (key 17), versions 0-1.

Chooses the SASL mechanism.
v0 raw SASL tokens follow on the connection. v1 they travel in SaslAuthenticate (KIP-152). Never flexible.
"""

from odradek.protocol.fields import array, int16, string
from odradek.protocol.schema import Request, Response


class SaslHandshakeRequest(Request, key=17, versions="0-1"):
    mechanism: str = string("0+")


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    error_code: int = int16("0+")
    mechanisms: list[str] = array("string", "0+")
