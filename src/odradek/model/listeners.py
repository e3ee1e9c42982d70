"""`listeners` and `advertised.listeners` as they are written: NAME://host:port, several with commas between.

What is advertised goes into the broker's registration, from which every other broker and tool reads it: an address
that a reader cannot make out makes the broker as good as dead, so it is refused where it is set.
"""

import ipaddress
import re
from collections.abc import Collection
from typing import NamedTuple

from odradek.model.errors import ConfigurationError
from odradek.model.ids import LAST_PORT, number_in

# The characters of Apache's EndPoint, and as long as a name in DNS may be.
_HOST = re.compile(r"[0-9a-zA-Z\-._]{0,253}")
_PORT = re.compile(r"[0-9]{1,5}")
METRICS_LISTENER = "odradek.metrics.listener"
_EVERY_INTERFACE = ("0.0.0.0", "::")


class ListenerAddress(NamedTuple):
    name: str
    host: str  # "" is every interface
    port: int  # 0 is a free one


def parse_listeners(setting: str, text: str) -> tuple[ListenerAddress, ...]:
    """`NAME://host:port,...`; ConfigurationError says what would have worked."""
    found = []
    for part in (p.strip() for p in text.split(",")):
        if not part:
            continue
        name, separator, address = part.partition("://")
        host, colon, port_text = address.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        if (number_in(port_text) or 0) > LAST_PORT:
            raise ConfigurationError(f"{setting}: {part!r}: {LAST_PORT} is the last port")
        is_port = _PORT.fullmatch(port_text) is not None and int(port_text) <= LAST_PORT
        if not (separator and _HOST.fullmatch(name) and name and colon and is_port and _is_host(host)):
            raise ConfigurationError(
                f"{setting}: {part!r} is no listener; NAME://host:port would do, e.g. PLAINTEXT://localhost:9092"
            )
        found.append(ListenerAddress(name.upper(), host, int(port_text)))
    names = [listener.name for listener in found]
    if not found:
        raise ConfigurationError(
            f"{setting} is empty; NAME://host:port would do, e.g. PLAINTEXT://localhost:9092"
        )
    if len(set(names)) != len(names):
        raise ConfigurationError(f"{setting}={text}: two listeners have the same name; give each its own")
    return tuple(found)


def parse_advertised(text: str, listeners: Collection[str]) -> tuple[ListenerAddress, ...]:
    """What others are told. Here no host means the name of this machine (as in Apache), and port 0 the one that is open.
    `listeners` are the names of those that are."""
    advertised = parse_listeners("advertised.listeners", text)
    for listener in advertised:
        if listener.name not in listeners:
            raise ConfigurationError(
                f"advertised.listeners: {listener.name} is not among listeners ({', '.join(sorted(listeners))})"
            )
        if listener.host in _EVERY_INTERFACE:
            raise ConfigurationError(
                f"advertised.listeners: no client can connect to {listener.host}; name an address of this machine"
            )
    return advertised


def parse_metrics_listener(text: str | None) -> ListenerAddress | None:
    """`http://host:port`; None where nothing is set."""
    if not text:
        return None
    try:
        (address,) = parse_listeners(METRICS_LISTENER, text)
    except (ConfigurationError, ValueError):
        address = None
    if address is None or address.name != "HTTP":
        raise ConfigurationError(
            f"{METRICS_LISTENER}: {text!r} is no address; http://host:port would do, e.g. http://localhost:9404"
        )
    return address


def _is_host(host: str) -> bool:
    if ":" not in host:
        return _HOST.fullmatch(host) is not None
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True
