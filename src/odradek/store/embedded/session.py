"""The `Store` on the event loop: each call is a job for the worker, each answer comes back in order."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from odradek.model.remedies import MORE_THREADS
from odradek.store.api import (
    Applied,
    ConditionalOps,
    Fence,
    Node,
    Op,
    SessionExpired,
    SessionState,
    Stat,
    StoreGone,
    StoreUnavailable,
    WatchEvent,
    WriteAnswer,
)
from odradek.store.embedded.file import Identity, WhyNot, had_one, hold, identity_of, replaced
from odradek.store.embedded.operations import Reading
from odradek.store.embedded.worker import Job, Worker
from odradek.store.loop_beat import LoopBeat
from odradek.store.session import OVER, SessionBase

T = TypeVar("T")


class EmbeddedStores:
    """Where sessions with one file come from: the same file as long as this process runs."""

    def __init__(self, path: Path, why_not: WhyNot = had_one) -> None:
        """`why_not`: why no store may be made where there is none."""
        self._path = path
        self._why_not = why_not
        self._last: EmbeddedStore | None = None
        self._held: Callable[[], object] | None = None  # lets go of the inode

    async def open_session(self, session_timeout_ms: int) -> EmbeddedStore:
        """Raises StoreGone where another file took the place of the one that was open."""
        last = self._last
        if last is not None:
            if last.gone is not None and last.gone.is_final:
                raise last.gone.with_traceback(
                    None
                )  # else it would hold on to all who were told of it before
            self._why_not = _was_open  # by this process
            with suppress(OSError):  # told by whoever opens it
                if identity_of(self._path) != last.file_identity:
                    raise replaced(self._path)
        self._last = await EmbeddedStore.open(self._path, session_timeout_ms, self._why_not)
        if self._held is None:
            self._held = self._hold(self._last.file_identity)
        return self._last

    def _hold(self, identity: Identity) -> Callable[[], object] | None:
        """Between two sessions nobody may have the file open. Once it is removed another one would get its inode, on most file
        systems the next one that is made, and could not be told from it.
        """
        held = hold(self._path)
        if held is None:
            return None
        let_go = weakref.finalize(self, os.close, held)
        if identity_of(held) == identity:
            return let_go
        let_go()
        return None

    async def close(self) -> None:
        if self._held is not None:
            self._held()


class EmbeddedStore(SessionBase):
    """One session with the store in one file."""

    def __init__(self, path: Path, session_timeout_ms: int, why_not: WhyNot = had_one) -> None:
        """Use `open`."""
        super().__init__(session_timeout_ms, SessionState.CONNECTED)
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[int] = self._loop.create_future()
        self._loop_beat = LoopBeat(session_timeout_ms)
        self._worker = Worker(path, session_timeout_ms, self, why_not, self._loop_beat.is_late)

    @classmethod
    async def open(
        cls, path: Path, session_timeout_ms: int = 6000, why_not: WhyNot = had_one
    ) -> EmbeddedStore:
        """Raises StoreUnavailable or StoreCorrupt with a sentence that says what to do."""
        store = cls(path, session_timeout_ms, why_not)
        try:
            store._worker.start()
        except (RuntimeError, MemoryError) as error:
            store._loop_beat.stop()
            raise StoreUnavailable(
                message=f"no thread for a session with {path}: {str(error) or 'no memory'}; {MORE_THREADS}"
            ) from error
        store._session_id = await store._opened
        return store

    @property
    def gone(self) -> StoreGone | None:
        """Why the session ended, where its file was removed or replaced."""
        return self._worker.gone

    @property
    def file_identity(self) -> Identity:
        return self._worker.file_identity

    # ---- reading

    async def get(self, path: str, *, watch: bool = False) -> Node:
        def read(worker: Worker, reading: Reading) -> Node:
            node = reading.get(path)
            if watch:
                worker.watches.data.add(path)
            return node

        return await self._read(read)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        def read(worker: Worker, reading: Reading) -> Stat | None:
            stat = reading.exists(path)
            if watch:
                worker.watches.data.add(path)
            return stat

        return await self._read(read)

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        def read(worker: Worker, reading: Reading) -> list[str]:
            names = reading.children(path)
            if watch:
                worker.watches.children.add(path)
            return names

        return await self._read(read)

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        def read(worker: Worker, reading: Reading) -> list[Node | None]:
            nodes = reading.get_many(paths)
            if watch:
                worker.watches.data.update(
                    p for p, node in zip(paths, nodes, strict=True) if node is not None
                )
            return nodes

        return await self._read(read)

    async def children_many(self, paths: Sequence[str], *, watch: bool = False) -> list[list[str] | None]:
        def read(worker: Worker, reading: Reading) -> list[list[str] | None]:
            lists = reading.children_many(paths)
            if watch:
                worker.watches.children.update(
                    p for p, names in zip(paths, lists, strict=True) if names is not None
                )
            return lists

        return await self._read(read)

    # ---- writing

    async def multi(self, ops: Sequence[Op]) -> list[Applied]:
        def change(worker: Worker) -> list[Applied]:
            return worker.write(lambda writing: writing.multi(worker.session_id, ops))

        return await self._run(change)

    async def write(self, writes: Sequence[ConditionalOps], fence: Fence | None) -> list[WriteAnswer]:
        def change(worker: Worker) -> list[WriteAnswer]:
            return worker.write(lambda writing: writing.write(worker.session_id, writes, fence))

        return await self._run(change)

    async def close(self) -> None:
        if self._is_over:
            return
        with suppress(SessionExpired):  # it has ended by itself, and we were about to hear of it
            await self._run(Worker.close_session)
        self._worker.join()

    # ---- inside

    async def _read(self, body: Callable[[Worker, Reading], T]) -> T:
        return await self._run(lambda worker: worker.read(lambda reading: body(worker, reading)))

    async def _run(self, body: Callable[[Worker], T]) -> T:
        answer: asyncio.Future[T] = self._loop.create_future()

        def done(outcome: T) -> None:
            if not answer.done():
                answer.set_result(outcome)

        def failed(error: BaseException) -> None:
            if not answer.done():
                answer.set_exception(error)

        self._worker.submit(
            Job(body, lambda outcome: self._post(done, outcome), lambda error: self._post(failed, error))
        )
        return await answer

    def _post(self, callback: Callable[[T], None], argument: T) -> None:
        """Into the loop, in order. A loop that was closed hears nothing more; its worker ends with the process."""
        try:
            self._loop.call_soon_threadsafe(callback, argument)
        except RuntimeError:  # asked, not looked at before: it may be closed at any moment
            if not self._loop.is_closed():
                raise

    # ---- told by the worker, in its thread

    def opened(self, outcome: int | BaseException) -> None:
        self._post(self._set_opened, outcome)

    def heard(self, events: Sequence[WatchEvent]) -> None:
        self._post(self._tell, events)

    def became(self, state: SessionState) -> None:
        self._post(self._become, state)

    # ---- told on the loop

    def _become(self, state: SessionState) -> None:
        if state in OVER:
            self._loop_beat.stop()
        super()._become(state)

    def _set_opened(self, outcome: int | BaseException) -> None:
        if isinstance(outcome, BaseException):
            self._loop_beat.stop()
        if self._opened.cancelled():
            # Nobody waits for it any more. Where opening failed there is nothing to end.
            if not isinstance(outcome, BaseException):
                self._worker.submit(Job(Worker.close_session, _ignore, _ignore))
            return
        if isinstance(outcome, BaseException):
            self._opened.set_exception(outcome)
        else:
            self._opened.set_result(outcome)

    def _tell(self, events: Sequence[WatchEvent]) -> None:
        for event in events:
            self._hear(event)


def _was_open(path: Path) -> str:
    return "this process had one open there"


def _ignore(outcome: object) -> None:
    """Of a session that nobody waited for."""
