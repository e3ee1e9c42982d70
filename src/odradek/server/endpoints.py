"""Where a registered broker is reached, and error codes as they come from strangers."""

from odradek.model.cluster import BrokerRegistration, Endpoint
from odradek.model.error_codes import ErrorCode


def endpoint_of(registration: BrokerRegistration, listener: str) -> Endpoint | None:
    for endpoint in registration.endpoints:
        if endpoint.listener == listener:
            return endpoint
    return None


_ERRORS = {int(error): error for error in ErrorCode}


def error_of(code: int) -> ErrorCode:
    """A code this release does not know is an error all the same."""
    return _ERRORS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
