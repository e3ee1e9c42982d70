"""Connections within one host, where there is no network to be careful with.

A kernel whose congestion control is BBR paces what it sends: a timer for nearly every packet, which on the loopback
device costs as much as everything else about sending. Reno paces nothing, is in every kernel and open to every user.
Each end chooses for what it sends itself. decisions/0021 has the figures.
"""

import socket
from contextlib import suppress
from typing import Any, Protocol

_CONGESTION: int | None = getattr(socket, "TCP_CONGESTION", None)  # of Linux and FreeBSD
UNPACED = b"reno"


class Socket(Protocol):
    """What is used of one: `socket.socket`, and what transports show of theirs."""

    def getsockname(self) -> Any: ...

    def getpeername(self) -> Any: ...

    def setsockopt(self, level: int, name: int, value: bytes, /) -> object: ...


def no_pacing_within_a_host(connected: Socket) -> None:
    """For a peer with the same IP address as this end; other connections stay as the machine's owner has them."""
    if _CONGESTION is None:
        return
    with suppress(OSError):  # not allowed here, or the peer has gone: it is sent as everything else
        if is_within_a_host(connected):
            connected.setsockopt(socket.IPPROTO_TCP, _CONGESTION, UNPACED)


def is_within_a_host(connected: Socket) -> bool:
    """Whether the peer has the same IP address as this end. OSError where it has gone."""
    here, there = connected.getsockname(), connected.getpeername()
    return isinstance(here, tuple) and bool(here[0] == there[0])
