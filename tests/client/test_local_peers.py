"""What is sent within a host is not paced; what leaves it goes as the machine's owner has it."""

import socket
import time
from typing import Any

import pytest

from odradek.client.local_peers import UNPACED, no_pacing_within_a_host
from odradek.client.sync_connection import Address, _connect

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="no TCP_CONGESTION here")


class Addresses:
    """A socket as far as it is asked; `chosen` is what was set."""

    def __init__(self, here: Any, there: Any, refusal: OSError | None = None) -> None:
        self.here, self.there, self.refusal = here, there, refusal
        self.chosen: list[bytes] = []

    def getsockname(self) -> Any:
        return self.here

    def getpeername(self) -> Any:
        if isinstance(self.there, OSError):
            raise self.there
        return self.there

    def setsockopt(self, level: int, name: int, value: bytes) -> None:
        if self.refusal is not None:
            raise self.refusal
        assert (level, name) == (socket.IPPROTO_TCP, socket.TCP_CONGESTION)
        self.chosen.append(value)


@pytest.mark.parametrize(
    ("here", "there", "chosen"),
    [
        (("127.0.0.1", 9092), ("127.0.0.1", 40_000), [UNPACED]),
        (("10.0.0.7", 9092), ("10.0.0.7", 40_000), [UNPACED]),
        (("::1", 9092, 0, 0), ("::1", 40_000, 0, 0), [UNPACED]),
        (("10.0.0.7", 9092), ("10.0.0.8", 40_000), []),
        (("127.0.0.1", 9092), OSError(107, "Transport endpoint is not connected"), []),
        ("/run/a.sock", "/run/a.sock", []),
    ],
)
def test_only_what_stays_within_the_host_is_not_paced(here: Any, there: Any, chosen: list[bytes]) -> None:
    found = Addresses(here, there)
    no_pacing_within_a_host(found)
    assert found.chosen == chosen


def test_where_it_is_not_allowed_the_connection_goes_on_as_it_is() -> None:
    no_pacing_within_a_host(Addresses(("::1", 1), ("::1", 2), PermissionError(1, "Operation not permitted")))


def test_the_blocking_client_does_not_pace_within_a_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = _connect(Address("127.0.0.1", server.getsockname()[1]), time.monotonic() + 10)
        chosen = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        made.close()
    assert chosen.startswith(UNPACED)
