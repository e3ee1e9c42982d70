"""What is not served: a key without a handler, or a version outside its range.

The connection is closed, as nothing the peer could read can be said; ApiVersions alone has an answer in a version that
everybody reads. One log line per connection and key, and not more than one in a while per address.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, CloseConnection
from odradek.broker.effects import LogLine
from odradek.broker.handlers.api_versions import unsupported_version
from odradek.model.error_codes import ErrorCode
from odradek.model.printable import shown
from odradek.protocol.api_keys import APIS, SERVED, ApiKey

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

ERROR = ErrorCode.UNSUPPORTED_VERSION


def refuse(broker: "Broker", request: "Request") -> Answer:
    key, version = request.api_key, request.api_version
    api = APIS.get(key)
    name = api.name if api is not None else f"API key {key}"
    if key not in request.connection.told:
        request.connection.told.add(key)
        connection = request.connection
        client = f" ({shown(request.client_id)})" if request.client_id else ""
        broker.effects.append(
            LogLine(
                "warning",
                f"{name} version {version} of {connection.peer}{client} is not served here{_those_that_are(key, version)}",
                key=f"unserved {connection.address}",
            )
        )
    if key == ApiKey.API_VERSIONS:
        return unsupported_version(broker)
    return CloseConnection(f"{name} version {version} is not served")


def _those_that_are(key: int, version: int) -> str:
    """The versions of the key that are served, and who asks for one below them (KIP-896)."""
    if key not in SERVED:
        return ""
    first, last = SERVED[key]
    served = f", {first} to {last} are"
    return f"{served}: so asks a client from before Kafka 2.1" if version < first else served
