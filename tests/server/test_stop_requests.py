"""What a broker makes of signals, and of the end of whoever started it."""

import asyncio
import os
import signal

from odradek.server.main import _StopRequest


def parent_ends(stop: _StopRequest) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    stop.parent_gone(reading)
    os.close(reading)


def test_the_end_of_the_parent_cuts_a_controlled_shutdown_short() -> None:
    async def run() -> None:
        stop = _StopRequest(asyncio.get_running_loop())
        stop.signalled(signal.SIGINT)
        assert not stop.asked_again.done()
        parent_ends(stop)
        assert stop.asked_again.done()
        assert not stop.is_controlled

    asyncio.run(run())


def test_a_stop_that_was_refused_comes_once_the_parent_has_ended() -> None:
    async def run() -> None:
        stop = _StopRequest(asyncio.get_running_loop())
        stop.signalled(signal.SIGINT)
        parent_ends(stop)
        stop.forget()
        assert stop.asked.done()
        assert not stop.asked_again.done()

    asyncio.run(run())
