"""The one thread of a session: everything that blocks happens here, in one order.

It sleeps until somebody rings the session's bell (our own event loop with a job, another process after a
commit), until another session's process dies, or until the next tick, four times a second, which beats the
heart and looks at what nobody rang for. So a change is told within a fraction of a millisecond, and an idle
store costs nothing.

The promises of `store.api`, and who keeps them:
- *Newer data never before the watch*: each job first reads the changes since the last read, inside its own
  transaction, and what they fire is handed to the loop before the job's answer.
- *Gone before the store says so*: a heartbeat later than four fifths of the timeout is not sent any more; the
  session ends itself. Others end it after the whole timeout. A write also finds out inside its transaction.
- *For the loop*: no heart beats for a loop that does not come round (`store/loop_beat`).
- *Exactly once*: whoever ends a session deletes its row and its ephemerals in one transaction; the second one
  finds no row. Every survivor tries, so nobody needs to take over from one who dies while trying. Where no
  survivor is left, the next session that opens the store does it before anything else.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from odradek.store.api import (
    SessionExpired,
    SessionState,
    StoreError,
    StoreGone,
    StoreUnavailable,
    WatchEvent,
)
from odradek.store.embedded import liveness
from odradek.store.embedded.database import Database
from odradek.store.embedded.file import Identity, WhyNot, replaced
from odradek.store.embedded.liveness import OwnLife, PeerLife
from odradek.store.embedded.operations import SESSION_ENDED, SESSION_NEW, Reading, Writing
from odradek.store.embedded.watches import ArmedWatches

T = TypeVar("T")

logger = logging.getLogger(__name__)

TICK_S = 0.25
# Of the timeout, after which the owner gives itself up; the others wait for the whole.
OWN_PATIENCE = 0.8
# A death whose lock is not free yet is checked again after this.
_AGAIN_S = 0.001
_AGAIN_TIMES = 50
_PRUNE_EVERY_S = 30.0
# Changes are kept for at least this long, and for as long as any session may be silent and still live.
_KEEP_CHANGES_S = 120.0


class Listener(Protocol):
    """The session on the event loop. All are called from the worker's thread, and heard in that order."""

    def opened(self, outcome: int | BaseException) -> None: ...

    def heard(self, events: Sequence[WatchEvent]) -> None: ...

    def became(self, state: SessionState) -> None: ...


class Job(NamedTuple):
    body: Callable[[Worker], Any]
    done: Callable[[Any], None]
    failed: Callable[[BaseException], None]


class Worker(threading.Thread):
    def __init__(
        self,
        path: Path,
        session_timeout_ms: int,
        listener: Listener,
        why_not: WhyNot,
        is_loop_late: Callable[[], bool],
    ) -> None:
        super().__init__(name=f"store {path.name}", daemon=True)
        self._path = path
        self._why_not = why_not
        self._is_loop_late = is_loop_late
        self._timeout_ms = session_timeout_ms
        self._patience_ns = int(session_timeout_ms * 1_000_000 * OWN_PATIENCE)
        self._listener = listener
        self._directory = liveness.directory_of(path)
        self._life: OwnLife | None = None
        self._database: Database
        self.session_id = 0
        self._seen_zxid = 0
        self._data_version = 0
        self._last_contact_ns = time.monotonic_ns()
        self._state = SessionState.CONNECTED
        self._is_mute = False  # our heartbeats cannot be written
        self.watches = ArmedWatches()
        self.gone: StoreGone | None = None  # why the session ended, where its file went
        self.file_identity: Identity = (0, 0)

        self._lock = threading.Lock()  # guards the next two between `submit` and the end
        self._jobs: deque[Job] = deque()
        self._is_over = False

        self._peers: dict[int, PeerLife] = {}
        self._peers_changed = False
        self._poll = select.poll()
        self._bells: dict[int, int] = {}  # a peer's bell -> its session
        self._suspects: dict[int, int] = {}  # whose bell hung up -> checks left
        self._told_of: set[int] = set()  # sessions that could not be ended
        self._next_tick = 0.0
        self._next_prune = time.monotonic() + _PRUNE_EVERY_S
        self._seen_when: deque[tuple[float, int]] = deque()  # (when, zxid then)

    # ---- from the event loop

    def submit(self, job: Job) -> None:
        """Run `job` in this thread, after those submitted before. Raises SessionExpired when all is over."""
        with self._lock:
            if self._is_over:
                raise self._ended()
            self._jobs.append(job)
            assert self._life is not None
            self._life.ring()

    def _ended(self) -> SessionExpired:
        return SessionExpired(message=f"session {self.session_id} is {self._state.value}; open another one")

    # ---- the thread

    def run(self) -> None:
        try:
            self._open()
        except BaseException as error:
            self._listener.opened(error)
            return
        self._listener.opened(self.session_id)
        try:
            while not self._is_over:
                self._turn()
        except BaseException:
            # Our mistake, so it is not hidden; but nobody may wait for ever, and others may take us for dead.
            self._finish(SessionState.EXPIRED)
            raise

    def _open(self) -> None:
        self._database = Database(self._path, while_waiting=self._while_waiting, why_not=self._why_not)
        self.file_identity = self._database.file.identity
        try:
            liveness.make_directory(self._path)
            self._database.write(self._begin_session)
            assert self._life is not None
            self._poll.register(self._life.bell_fd, select.POLLIN)
            self._meet_peers()
            self._ring_peers()
            # The sessions of processes that died while nobody looked: before anything else, so that a broker
            # that was killed and comes back does not meet its own old registration.
            self._bury_the_dead()
        except BaseException:
            if not self._is_over:  # else `_finish` has let go of all that
                if self._life is not None:
                    self._life.end()
                self._database.close()
            raise

    def _begin_session(self) -> None:
        writing = Writing(self._database)
        self.session_id = writing.open_session(self._timeout_ms, os.getpid())
        # Inside the transaction: nobody sees the row before its signs of life are there.
        self._life = OwnLife(self._directory, self.session_id, time.monotonic_ns())
        writing.finish()
        self._seen_zxid = writing.zxid

    def _turn(self) -> None:
        assert self._life is not None
        wait_s = _AGAIN_S if self._suspects else max(0.0, self._next_tick - time.monotonic())
        is_rung = False
        for fd, _ in self._poll.poll(wait_s * 1000):
            if fd == self._life.bell_fd:
                self._life.hush()
                is_rung = True
            else:  # the only thing we wait for there is the hang-up
                self._poll.unregister(fd)
                self._suspects[self._bells.pop(fd)] = _AGAIN_TIMES
        if not self._beat():
            self._expire_ourselves()
            return
        while self._jobs and not self._is_over:
            self._do(self._jobs.popleft())
        if not self._is_over:
            self._poll_store(is_rung)

    def _do(self, job: Job) -> None:
        try:
            outcome = job.body(self)
        except BaseException as error:
            job.failed(error)
        else:
            job.done(outcome)
        if not self._is_over:
            self._beat()

    def _poll_store(self, is_rung: bool) -> None:
        now = time.monotonic()
        is_tick = now >= self._next_tick
        if is_tick:
            self._next_tick = now + TICK_S
        try:
            if is_tick:
                self._database.file.check()
            if (is_rung or is_tick) and self._database.data_version() != self._data_version:
                self.read(lambda reading: None)
            if is_tick and self._peers_changed:
                self._meet_peers()
            self._last_contact_ns = time.monotonic_ns()
            if self._suspects or is_tick:
                self._bury_the_dead()
            if now >= self._next_prune:
                self._prune(now)
        except SessionExpired:
            self._finish(SessionState.EXPIRED)
        except StoreGone as gone:
            self._lose(gone)
        except StoreUnavailable:
            self._lose_touch()
            if time.monotonic_ns() - self._last_contact_ns > self._patience_ns:
                self._expire_ourselves()

    def _beat(self) -> bool:
        """False when the last one is too long ago: then no other is sent, and the session must end."""
        assert self._life is not None
        now = time.monotonic_ns()
        if now - self._life.last_beat_ns > self._patience_ns:
            return False
        if self._is_loop_late():
            return True  # not for a loop that hangs: it comes round in time, or the session ends
        try:
            self._life.beat(now)
            if self._is_mute:
                self._is_mute = False
                self._data_version = -1  # look at the next tick, and be in touch again
        except StoreUnavailable:
            # A disk that turned read-only, say. It may pass; until then nobody is told that all is well.
            self._is_mute = True
            self._become(SessionState.SUSPENDED)
        return True

    def _while_waiting(self) -> None:
        if self._life is not None:
            self._beat()

    # ---- transactions

    def read(self, body: Callable[[Reading], T]) -> T:
        """The changes since the last read, then `body`, both of one state of the store."""
        reading = Reading(self._database)

        def read() -> T:
            self._hear_news(reading)
            return body(reading)

        self._data_version = self._database.data_version()
        return self._transaction(lambda: self._database.read(read))

    def write(self, body: Callable[[Writing], T]) -> T:
        """`body` under the lock, on disk when this returns; its own changes fire our watches too."""
        lines: list[str] = []
        zxid = 0

        def change() -> T:
            nonlocal lines, zxid
            writing = Writing(self._database)
            self._hear_news(writing)
            if not writing.has_session(self.session_id):
                raise SessionExpired(message=f"session {self.session_id} was ended by another process")
            outcome = body(writing)
            writing.finish()
            lines, zxid = writing.lines, writing.zxid
            return outcome

        def commit() -> T:
            outcome = self._database.write(change)
            self._seen_zxid = zxid
            self._ring_peers()
            self._hear(lines)
            return outcome

        return self._transaction(commit)

    def _transaction(self, step: Callable[[], T]) -> T:
        try:
            outcome = step()
        except SessionExpired:
            self._finish(SessionState.EXPIRED)
            raise
        except StoreGone as gone:
            self._lose(gone)
            raise
        except StoreUnavailable:
            self._lose_touch()
            raise
        if self._peers_changed:
            # The step is done, whatever comes of this: the next tick does it.
            with suppress(StoreUnavailable):
                self._meet_peers()
        if not self._is_mute:
            self._become(SessionState.CONNECTED)
        return outcome

    def _lose_touch(self) -> None:
        """What others have committed may not have been read, though we know of it: the next tick looks again."""
        self._data_version = -1
        self._become(SessionState.SUSPENDED)

    def _hear_news(self, reading: Reading) -> None:
        """What others have committed since the last read. Told at once: it is true whatever becomes of us."""
        zxid, pruned = reading.zxids()
        if zxid == self._seen_zxid:
            return
        if zxid < self._seen_zxid:  # ids only grow
            raise replaced(self._path)
        if self._seen_zxid < pruned:
            raise SessionExpired(
                message=f"session {self.session_id} slept through changes that are not kept any more"
            )
        changes = reading.changes_after(self._seen_zxid)
        # A transaction of checks alone has an id and changed nothing.
        lines = "\n".join(changes).split("\n") if changes else []
        self._seen_zxid = zxid
        if lines:
            self._hear(lines)

    def _hear(self, lines: list[str]) -> None:
        try:
            events = self.watches.fire(lines)
            if events:
                self._listener.heard(events)
        except MemoryError:  # what has fired fires no more, and this was read: it would never be told
            message = f"session {self.session_id} has no memory to tell of what has changed"
            raise SessionExpired(message=message) from None
        if any(line[:1] in (SESSION_NEW, SESSION_ENDED) for line in lines):
            self._peers_changed = True
            if f"{SESSION_ENDED}{self.session_id}" in lines:
                raise SessionExpired(message=f"session {self.session_id} was ended by another process")

    # ---- other sessions

    def _meet_peers(self) -> None:
        rows = {
            row.session_id: row for row in self._database.read(lambda: Reading(self._database).sessions())
        }
        self._peers_changed = False
        for session_id in [known for known in self._peers if known not in rows]:
            self._part_from(session_id)
        for session_id, row in rows.items():
            if session_id == self.session_id or session_id in self._peers:
                continue
            try:
                peer = PeerLife(self._directory, session_id, row.timeout_ms, row.pid)
            except OSError:
                # No descriptor is left, or the file is of a user that we may not look at. Whom we cannot see we do not
                # take for dead, and our own session does not end for it: look again at the next tick.
                self._peers_changed = True
                continue
            self._peers[session_id] = peer
            if peer.bell_fd >= 0:
                self._bells[peer.bell_fd] = session_id
                self._poll.register(peer.bell_fd, 0)  # nothing but the hang-up
            # It may have died before we held its bell, and then no hang-up comes.
            self._suspects[session_id] = 1

    def _part_from(self, session_id: int) -> None:
        peer = self._peers.pop(session_id)
        self._suspects.pop(session_id, None)
        self._told_of.discard(session_id)
        if self._bells.pop(peer.bell_fd, None) is not None:
            self._poll.unregister(peer.bell_fd)
        peer.close()

    def _ring_peers(self) -> None:
        for peer in self._peers.values():
            peer.ring()

    def _bury_the_dead(self) -> None:
        # Before the look: whom nobody can end now, as on a full disk, is looked at again once a tick.
        self._suspects = {suspect: left - 1 for suspect, left in self._suspects.items() if left > 1}
        for session_id in tuple(self._peers):
            peer = self._peers.get(session_id)
            if peer is None:  # ended by another survivor, which we heard of during the last round
                continue
            if peer.is_dead() or peer.is_silent(time.monotonic_ns()):
                self._expire(peer)

    def _expire(self, peer: PeerLife) -> None:
        """Whoever is first does it. A paused process that woke up meanwhile has beaten its heart: look again."""
        session_id = peer.session_id

        def end(writing: Writing) -> bool:
            still = peer.is_dead() or peer.is_silent(time.monotonic_ns())
            return still and writing.end_session(session_id)

        try:
            is_ended = self.write(end)
        except StoreUnavailable as error:
            if session_id not in self._told_of:  # and not again at each tick
                self._told_of.add(session_id)
                logger.warning(
                    "process %d is dead or silent, and its session cannot be ended: %s. Until that can be written its "
                    "broker counts as live, and nobody else leads its partitions",
                    peer.pid,
                    error,
                )
            raise
        if is_ended:
            liveness.remove(self._directory, session_id)

    def _lose(self, gone: StoreGone) -> None:
        """What the session said stands in a file without a name, where nobody else will look. So the session ends now:
        nothing is decided by it any more.
        """
        self.gone = gone
        self._finish(SessionState.EXPIRED)

    def _expire_ourselves(self) -> None:
        """We slept through our timeout. End the session in order, so that nobody has to wait for us.

        Where that cannot be done, others do it: `_finish` lets go of the lock.
        """
        with suppress(StoreError):
            self._database.write(self._end_own_session)
        self._finish(SessionState.EXPIRED)

    def _end_own_session(self) -> None:
        writing = Writing(self._database)
        writing.end_session(self.session_id)
        writing.finish()

    # ---- the end

    def close_session(self) -> None:
        """The last job: end the session in order."""
        try:
            self._database.write(self._end_own_session)
        finally:
            self._finish(SessionState.CLOSED)

    def _finish(self, state: SessionState) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            left, self._jobs = self._jobs, deque()
        try:
            self._let_go()
        finally:  # whatever became of that: whoever is not told would wait for ever
            self._become(state)
            for job in left:
                job.failed(self._ended())

    def _let_go(self) -> None:
        assert self._life is not None
        liveness.remove(self._directory, self.session_id)
        self._life.end()
        self._ring_peers()
        for session_id in tuple(self._peers):
            self._part_from(session_id)
        self._database.close()

    def _become(self, state: SessionState) -> None:
        if state is not self._state:
            self._state = state
            self._listener.became(state)

    # ---- keeping the change log short

    def _prune(self, now: float) -> None:
        self._next_prune = now + _PRUNE_EVERY_S
        self._seen_when.append((now, self._seen_zxid))
        timeouts_ms = [self._timeout_ms, *(peer.timeout_ms for peer in self._peers.values())]
        keep_s = max(_KEEP_CHANGES_S, max(timeouts_ms) / 1000)
        old = 0
        while now - self._seen_when[0][0] > keep_s:
            old = self._seen_when.popleft()[1]
        if old:
            self.write(lambda writing: writing.forget_changes_until(old))
