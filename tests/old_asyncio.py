"""What asyncio did otherwise before Python 3.11.4, which Debian 12 has."""

from asyncio.selector_events import _SelectorTransport  # type: ignore[attr-defined]
from typing import Any

import pytest


def begin_to_read_though_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transports begin to read behind `connection_made`, also those that were told to pause there."""

    def add_reader(transport: Any, *arguments: Any) -> None:
        if not transport._closing:
            transport._loop._add_reader(*arguments)

    monkeypatch.setattr(_SelectorTransport, "_add_reader", add_reader)
