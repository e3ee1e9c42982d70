"""Envelope (key 58), version 0.

A client's request, passed on to the controller with its principal and address (KIP-590).
Understood, never needed: here brokers answer NOT_CONTROLLER and clients go there themselves.
"""

from odradek.protocol.fields import binary, int16
from odradek.protocol.schema import Request, Response


class EnvelopeRequest(Request, key=58, versions="0", flexible="0+"):
    request_data: bytes = binary("0+")
    request_principal: bytes | None = binary("0+", nullable="0+")
    client_host_address: bytes = binary("0+")


class EnvelopeResponse(Response, key=58, versions="0", flexible="0+"):
    response_data: bytes | None = binary("0+", nullable="0+", default=None)
    error_code: int = int16("0+")
