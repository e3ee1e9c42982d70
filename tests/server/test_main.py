"""What a process is set to before a broker runs in it."""

import sys

import pytest

from odradek.model.settings import BrokerSettings
from odradek.server import main


def test_a_busy_thread_gives_way_to_the_loop_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    async def seen(*_: object) -> int:
        return round(sys.getswitchinterval() * 1e6)

    monkeypatch.setattr(main, "_serve", seen)
    before = sys.getswitchinterval()
    try:
        assert main.run_broker(BrokerSettings({"broker.id": "1"})) == 50
    finally:
        sys.setswitchinterval(before)
