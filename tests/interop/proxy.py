"""Stands between brokers and forwards their frames, but for those it was told to hold back."""

import socket
import struct
import threading
from contextlib import suppress

from odradek.testing.process_cluster import free_ports


class Proxy:
    """Listens on a port of its own; `target` is set once the broker's address is known."""

    def __init__(self) -> None:
        self.port = free_ports(1)[0]
        self.target: tuple[str, int] = ("", 0)
        self.held: list[int] = []  # API keys of frames that were held, as they came
        self._hold: set[int] = set()
        self._changed = threading.Condition()
        self._is_closed = False
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, name=f"proxy-{self.port}", daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def hold(self, *api_keys: int) -> None:
        """Requests of these keys wait from now on, and all that comes after them on their connection."""
        with self._changed:
            self._hold |= set(api_keys)

    def release(self, *api_keys: int) -> None:
        with self._changed:
            self._hold -= set(api_keys)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._listener.close()
        for one in self._sockets:
            with suppress(OSError):
                one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(self.target, timeout=5)
                except OSError:
                    client.close()
                    continue
                broker.settimeout(None)
                self._sockets += [client, broker]
                threading.Thread(target=self._requests, args=(client, broker), daemon=True).start()
                threading.Thread(target=self._answers, args=(broker, client), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError), client, broker:
            stream = client.makefile("rb")
            while True:
                head = stream.read(4)
                if len(head) < 4:
                    return
                (size,) = struct.unpack(">i", head)
                frame = stream.read(size)
                (api_key,) = struct.unpack_from(">h", frame)
                with self._changed:
                    if api_key in self._hold:
                        self.held.append(api_key)
                        self._changed.wait_for(
                            lambda api_key=api_key: api_key not in self._hold or self._is_closed
                        )
                broker.sendall(head + frame)

    @staticmethod
    def _answers(broker: socket.socket, client: socket.socket) -> None:
        with suppress(OSError), broker, client:
            while data := broker.recv(1 << 16):
                client.sendall(data)
