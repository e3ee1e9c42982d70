from collections.abc import Callable
from socket import socket
from threading import Event
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

class ConnectionHandler:
    handler: SequentialThreadingHandler
    connection_stopped: Event
    _socket: socket | None
    _write_sock: socket | None
    # Attributes and not methods: link.py puts functions of its own in their places.
    _connect: Callable[..., tuple[float, float]]  # read and connect timeout, ms
    _invoke: Callable[..., Any]
    _send_ping: Callable[..., None]
