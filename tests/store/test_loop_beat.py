"""A loop that hangs gets no signs of life, though its session's thread goes on."""

import asyncio
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from odradek.store import loop_beat
from odradek.store.api import SessionExpired, SessionState
from odradek.store.embedded import EmbeddedStore
from odradek.store.loop_beat import PATIENCE, LoopBeat

LONG_MS = 120_000
PATIENCE_S = 40.0


def test_a_loop_is_late_after_a_third_of_the_timeout_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]

    async def scenario() -> None:
        monkeypatch.setattr(loop_beat.time, "monotonic", lambda: now[0])
        try:
            beat = LoopBeat(6000)
            now[0] += 2.0
            assert not beat.is_late()
            now[0] += 0.001
            assert beat.is_late()
            beat._beat()  # it came round
            assert not beat.is_late()
            beat.timeout_s = 3.0
            now[0] += 1.001
            assert beat.is_late()
            beat.stop()
        finally:
            monkeypatch.undo()

    asyncio.run(scenario())


def test_the_session_of_a_loop_that_hangs_ends_and_it_finds_that_out_when_it_comes_round(
    tmp_path: Path,
) -> None:
    file = tmp_path / "store.db"
    is_there, is_gone = threading.Event(), threading.Event()

    async def watch() -> None:
        store = await EmbeddedStore.open(file, LONG_MS)
        changed = asyncio.Event()
        store.listen(on_watch=lambda event: changed.set())
        for has_changed in (is_there, is_gone):
            while (await store.exists("/e", watch=True) is not None) is (has_changed is is_gone):
                await changed.wait()
                changed.clear()
            has_changed.set()
        await store.close()

    async def hang() -> None:
        while not is_there.is_set():
            # A busy machine may let it sleep through so short a timeout before the other has seen it.
            store = await EmbeddedStore.open(file, 1500)
            with suppress(SessionExpired):
                await store.create("/e", ephemeral=True)
            while store.state is not SessionState.EXPIRED and not is_there.is_set():
                await asyncio.sleep(0.01)
        # The loop stands still in this call, as in one that never returns; the store's thread goes on.
        assert is_gone.wait(PATIENCE_S), "others take over while it hangs"
        with pytest.raises(SessionExpired):
            while True:
                await store.create("/late")
        async with asyncio.timeout(PATIENCE_S):
            while store.state is not SessionState.EXPIRED:
                await asyncio.sleep(0)

    watcher = threading.Thread(target=lambda: asyncio.run(watch()), daemon=True)
    watcher.start()
    asyncio.run(hang())
    watcher.join(PATIENCE_S)


class Witness(threading.Thread):
    """Runs beside the loop and the store's thread: how long the machine let it stand still at most, and so perhaps them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stood_still_s = 0.0
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        last = time.monotonic()
        while not self._is_over.wait(0.01):
            now = time.monotonic()
            self.stood_still_s, last = max(self.stood_still_s, now - last), now


def test_a_loop_that_works_long_and_comes_round_keeps_its_session(tmp_path: Path) -> None:
    """Twice the timeout altogether, a fifth of it at a time. Of five times it computes once, and holds the lock of the interpreter as
    well; else it stands still in a call, which is the same to the store's thread and leaves the processor to other tests.

    Where it is lost after the machine let a thread stand still for long enough to lose it, a longer one is tried."""

    async def is_kept(timeout_s: float) -> bool:
        try:
            store = await EmbeddedStore.open(tmp_path / "store.db", int(timeout_s * 1000))
            await store.create("/e", ephemeral=True)
            never = threading.Event()
            for number in range(10):
                until = time.monotonic() + timeout_s / 5
                while time.monotonic() < until:
                    if number % 5:
                        never.wait(until - time.monotonic())
                await asyncio.sleep(0)
            assert await store.exists("/e") is not None and store.state is SessionState.CONNECTED
        except SessionExpired:
            return False
        await store.close()
        return True

    for timeout_s in (3.0, 9.0, 27.0):
        with Witness() as witness:
            if asyncio.run(is_kept(timeout_s)):
                return
        assert witness.stood_still_s > timeout_s * (PATIENCE - 1 / 5) / 2, (
            f"a session of {timeout_s:g} s was lost, and nothing stood still for more than {witness.stood_still_s:.2f} s"
        )
    raise AssertionError("each time the machine stood still for seconds")
