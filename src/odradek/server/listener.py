"""Where the broker listens, and what it tells others to connect to.

`listeners` says where; `advertised.listeners` what clients are told, as it stands. Only when it is unset and
the listener is `localhost`, an IPv4 address is told: librdkafka resolves the name to ::1 first, where nobody
listens.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable

from odradek.model.cluster import Endpoint
from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.listeners import ListenerAddress, parse_advertised, parse_listeners
from odradek.model.settings import BrokerSettings

# Where the kernel finds no room it drops what asks to connect, and the client tries again after a second. With Apache's
# 50 a restarted broker that 5,000 clients come back to is not reached by all of them for half a minute; with 1,024 every
# second time it takes 1.2 s instead of 0.3. The kernel takes less where net.core.somaxconn says so (4,096 by default).
LEAST_BACKLOG = 16_384
# asyncio accepts as many in one turn of the loop as it believes to be waiting. A connection costs some 60 us.
ACCEPTED_A_TURN = 64


class PortInUse(OdradekError):
    """Somebody else listens there."""


class CannotListen(OdradekError):
    """The address is not ours, or the port is reserved."""


def security_protocols(settings: BrokerSettings) -> dict[str, str]:
    """`listener.security.protocol.map` as a dictionary."""
    protocols = {}
    for pair in settings.listener_security_protocol_map.split(","):
        name, colon, protocol = pair.strip().partition(":")
        if not colon:
            raise ConfigurationError(
                f"listener.security.protocol.map: {pair!r} is no pair; "
                "NAME:PROTOCOL would do, e.g. INTERNAL:PLAINTEXT"
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def protocol_of(listener: str, protocols: dict[str, str]) -> str:
    protocol = protocols.get(listener)
    if protocol is None:
        raise ConfigurationError(
            f"listeners: {listener} has no security protocol; "
            f"add {listener}:PLAINTEXT to listener.security.protocol.map"
        )
    if protocol != "PLAINTEXT":
        raise ConfigurationError(
            f"listeners: {listener} wants {protocol}; PLAINTEXT is what is served so far"
        )
    return protocol


def inter_broker_listener(settings: BrokerSettings) -> str:
    """The name of the listener brokers talk over; it must be one of `listeners`."""
    listeners = parse_listeners("listeners", settings.listeners)
    names = [listener.name for listener in listeners]
    wanted = settings.inter_broker_listener_name
    if wanted is not None:
        if wanted.upper() not in names:
            raise ConfigurationError(
                f"inter.broker.listener.name={wanted}: not among listeners ({', '.join(names)})"
            )
        return str(wanted).upper()
    protocols = security_protocols(settings)
    for name in names:
        if protocol_of(name, protocols) == settings.security_inter_broker_protocol:
            return name
    raise ConfigurationError(
        f"no listener has the protocol {settings.security_inter_broker_protocol} that brokers talk over; "
        "set inter.broker.listener.name"
    )


async def bind(
    loop: asyncio.AbstractEventLoop,
    listener: ListenerAddress,
    make_protocol: Callable[[], asyncio.BaseProtocol],
    *,
    setting: str = "listeners",
    queue: int = ACCEPTED_A_TURN,
) -> asyncio.Server:
    """Bound and listening; the kernel keeps `queue` connections until they are accepted. PortInUse or CannotListen say what to change in `setting`."""
    # `localhost` is told to clients as 127.0.0.1 (see endpoints), so that is where we listen.
    host = "127.0.0.1" if listener.host == "localhost" else (listener.host or None)
    if host is None and listener.port == 0:
        host = "0.0.0.0"  # every interface and a free port: one port, so one family
    # uvloop accepts one at a time, asyncio as many as it is told that the kernel keeps.
    in_turns = isinstance(loop, asyncio.BaseEventLoop)
    try:
        server = await loop.create_server(
            make_protocol, host, listener.port, backlog=ACCEPTED_A_TURN if in_turns else queue
        )
    except UnicodeError as error:  # a label of the name is empty, or too long
        unknown = socket.gaierror(socket.EAI_NONAME, "no name can be like that")
        raise _named(unknown, listener, setting) from error
    except OSError as error:
        raise _named(error, listener, setting) from error
    if in_turns and queue > ACCEPTED_A_TURN:
        for listening in server.sockets:
            _lengthen_queue(listening.fileno(), queue)
    return server


class Listeners:
    """The open server sockets of one broker."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self.bound: list[ListenerAddress] = []

    async def open(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: BrokerSettings,
        make_protocol: Callable[[str], asyncio.BaseProtocol],
    ) -> None:
        """`make_protocol(listener name)` is called for each connection. On failure nothing stays open.

        Bound and listening in one step: between the two another process could take the port, and uvloop does
        not tell of a `listen` that fails.
        """
        protocols = security_protocols(settings)
        try:
            for listener in parse_listeners("listeners", settings.listeners):
                protocol_of(listener.name, protocols)
                server = await self._open_one(loop, listener, settings, make_protocol)
                self._servers.append(server)
                port = server.sockets[0].getsockname()[1]
                self.bound.append(listener._replace(port=port))
        except BaseException:
            self.close()
            raise

    async def _open_one(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: ListenerAddress,
        settings: BrokerSettings,
        make_protocol: Callable[[str], asyncio.BaseProtocol],
    ) -> asyncio.Server:
        queue = max(settings.socket_listen_backlog_size, LEAST_BACKLOG)
        return await bind(loop, listener, lambda: make_protocol(listener.name), queue=queue)

    def endpoints(self, settings: BrokerSettings, host_name: Callable[[], str]) -> tuple[Endpoint, ...]:
        """What is registered. `host_name` names this machine where a listener is every interface."""
        protocols = security_protocols(settings)
        bound = {listener.name: listener for listener in self.bound}
        advertised = (
            parse_advertised(settings.advertised_listeners, bound) if settings.advertised_listeners else None
        )
        found = []
        for listener in advertised or self.bound:
            host = listener.host
            if advertised is None and host == "localhost":
                host = "127.0.0.1"
            elif not host or host in ("0.0.0.0", "::"):
                host = host_name()
            # Port 0 in advertised.listeners means the one that was found.
            port = listener.port or bound[listener.name].port
            found.append(Endpoint(listener.name, protocol_of(listener.name, protocols), host, port))
        return tuple(found)

    def close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()


def _lengthen_queue(descriptor: int, backlog: int) -> None:
    """The kernel's queue of a socket that listens already; how many asyncio accepts in a turn stays as it is."""
    with socket.socket(fileno=os.dup(descriptor)) as same:
        same.listen(backlog)


def _named(error: OSError, listener: ListenerAddress, setting: str) -> PortInUse | CannotListen:
    shown = f"{listener.name}://{listener.host}:{listener.port}"
    if error.errno == errno.EADDRINUSE:
        return PortInUse(
            f"port {listener.port} is in use, so {shown} cannot be opened; "
            f"stop what listens there, or choose another port in {setting} (0 takes a free one)"
        )
    if isinstance(error, socket.gaierror):
        return CannotListen(
            f"{shown} cannot be opened: the name {listener.host} is not known ({error.strerror}); "
            f"choose a name or an address of this machine in {setting}"
        )
    if error.errno in (errno.EADDRNOTAVAIL, errno.EACCES):
        return CannotListen(
            f"{shown} cannot be opened ({error.strerror}); "
            f"choose an address of this machine and a port above 1023 in {setting}"
        )
    return CannotListen(f"{shown} cannot be opened: {error}")
