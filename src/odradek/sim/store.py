"""The metadata store as one simulated host sees it: latency, a link that can be cut, sessions that expire.

The tree itself is `store.memory`, the same that tests and one-process clusters use. What a real network and a real
ensemble add is here: a call takes time before and after it takes effect, so an answer can be lost although the write
happened; watches may come late, or be lost with a connection; a session that is out of touch for its timeout ends,
and its client must think itself gone *before* the store does.
"""

from collections.abc import Callable, Sequence
from typing import Any

from odradek.sim.loop import NOBODY, Host, Moment, SimLoop, current_host
from odradek.sim.lost_watches import Armed, arm_again, armed
from odradek.store import loop_beat
from odradek.store.api import (
    Applied,
    ConditionalOps,
    Fence,
    OnSession,
    OnWatch,
    Op,
    SessionState,
    StoreUnavailable,
    WriteAnswer,
)
from odradek.store.memory_session import MemoryEnsemble, MemorySession

# A client stops trusting its session after this share of the timeout without an answer.
CLIENT_GIVES_UP_AFTER = 2 / 3
# A loop that has not come round for this share of the timeout gets no sign of life any more.
LOOP_MAY_BE_LATE = loop_beat.PATIENCE
# How often a batch of writes takes effect in two parts, where it may.
SPLIT_PROBABILITY = 0.5


class StoreLink:
    """The way of one host to the store."""

    def __init__(self, store: "SimStore", host: Host) -> None:
        self.store = store
        self.host = host
        self.is_cut = False
        self.answers_take_s = 0.0  # on top of the usual delay
        self.calls_take_s = 0.0  # likewise, before they take effect
        self.on_written: Callable[[], None] | None = None  # a write took effect, and is not answered yet
        self.as_written: Callable[[Op], Op] | None = None  # what a process of another release writes instead
        self.sessions: list[MemorySession] = []
        self._losses = 0  # how often it has lost touch with the store
        self._forgotten: dict[int, Armed] = {}  # session id -> the watches that went with the connection

    @property
    def is_out_of_touch(self) -> bool:
        return self.is_cut or self.store.is_down

    async def open_session(self, session_timeout_ms: int = 6000) -> "HostSession":
        await self.store.delay()
        if self.is_out_of_touch:
            raise StoreUnavailable(message=f"{self.host} cannot reach the store")
        session = self.store.ensemble.open(session_timeout_ms)
        self.sessions.append(session)
        self.store.owner[session.session_id] = self
        return HostSession(session, self)

    async def close(self) -> None:
        """Sessions are closed by whoever opened them."""

    # --- what the world does to it

    def cut(self, *, forgets_watches: bool = False) -> None:
        """Calls fail from now on; if it lasts, the client gives up first, then the store expires the session."""
        if not self.is_cut:
            was_in_touch = not self.is_out_of_touch
            self.is_cut = True
            if was_in_touch:
                self.lose_touch(forgets_watches=forgets_watches)

    def heal(self) -> None:
        if self.is_cut:
            self.is_cut = False
            if not self.is_out_of_touch:
                self.regain_touch()

    def lose_touch(self, *, forgets_watches: bool) -> None:
        self._losses += 1
        for session in self._live():
            if forgets_watches and session.state is SessionState.CONNECTED:
                self._forgotten[session.session_id] = armed(self.store.ensemble.tree, session)
            self._tell(session.disconnect)
            self._end_unless_back(session, self._losses)

    def regain_touch(self) -> None:
        for session in self.sessions:  # also those that have ended: that is what their clients learn now
            then = self._forgotten.pop(session.session_id, None)
            if (
                then is not None
                and session.state is SessionState.SUSPENDED
                and session.session_id in self.store.ensemble.sessions
            ):
                arm_again(self.store.ensemble.tree, session, then)
            self._tell(session.connect)

    def host_killed(self, *, at_once: bool) -> None:
        """`at_once`: the kernel told the store (embedded); else the session goes by its timeout (ZooKeeper)."""
        for session in self._live():
            session.hold_watches()
            self._end_after(session, 0.002 if at_once else _timeout_s(session), lambda: True)

    def host_paused(self, seconds: float) -> None:
        """A stopped process sends no heartbeats. It hears nothing, and learns of its end when it goes on."""
        loop, host = self.store.loop, self.host
        for session in self._live():
            session.hold_watches()
            loop.call_later(seconds, self._resume, session, context=self.store.world_context())
            if seconds > _timeout_s(session):
                self._end_after(session, _timeout_s(session), lambda: host.paused_until > loop.time())

    def loop_hangs(self, seconds: float) -> None:
        """Its threads give signs of life for the loop until that is late (`store/loop_beat`). What they hear meanwhile the loop
        hears when it goes on."""
        loop, host = self.store.loop, self.host
        for session in self._live():
            ends_after_s = _timeout_s(session) * (1 + LOOP_MAY_BE_LATE)
            if seconds > ends_after_s:
                self._end_after(session, ends_after_s, lambda: host.paused_until > loop.time())

    def expire(self) -> None:
        """The store gives up the newest session although its client is well."""
        for session in self._live()[-1:]:
            self._end(session)

    def hold_watches(self) -> None:
        """Watches come late, though never after newer data."""
        for session in self._live():
            session.hold_watches()

    def release_watches(self) -> None:
        for session in self._live():
            self._tell(session.release_watches)

    # --- inside

    def _live(self) -> list[MemorySession]:
        return [s for s in self.sessions if s.session_id in self.store.ensemble.sessions]

    def _end(self, session: MemorySession) -> None:
        if session.session_id in self.store.ensemble.sessions:
            self._tell(self.store.ensemble.expire, session.session_id)

    def _resume(self, session: MemorySession) -> None:
        if self.host.paused_until <= self.store.loop.time():
            self._tell(session.release_watches)

    def _end_unless_back(self, session: MemorySession, losses: int) -> None:
        """`losses`: a client that was back in between, however briefly, has its whole timeout again."""
        timeout_s = _timeout_s(session)

        def is_still_away() -> bool:
            return self.is_out_of_touch and self._losses == losses

        def give_up() -> None:
            if is_still_away():
                self._tell(session.give_up)

        world = self.store.world_context()
        self.store.loop.call_later(timeout_s * CLIENT_GIVES_UP_AFTER, give_up, context=world)
        # A client that has given up will not come back to this session, link or no link.
        self._end_after(session, timeout_s, lambda: is_still_away() or session.state is SessionState.EXPIRED)

    def _end_after(self, session: MemorySession, seconds: float, is_due: Callable[[], bool]) -> None:
        """An ensemble that is away ends no session: its clocks begin anew when it is back, as ZooKeeper's do."""

        def end() -> None:
            if self.store.is_down:
                self.store.when_up.append(lambda: self._end_after(session, seconds, is_due))
            elif is_due():
                self._end(session)

        self.store.loop.call_later(seconds, end, context=self.store.world_context())

    def _tell(self, function: Callable[..., Any], *args: Any) -> None:
        """Listeners of other hosts that this reaches are put into their own context by `HostSession.listen`."""
        self.store.context_of(self.host).copy().run(function, *args)


def _timeout_s(session: MemorySession) -> float:
    return session.session_timeout_ms / 1000


class HostSession:
    """A `Store` whose listeners run in the context of the host they belong to, and not at all once it is dead."""

    def __init__(self, session: MemorySession, link: StoreLink) -> None:
        self._session = session
        self._link = link
        # Asked for at every turn, and found without `__getattr__`.
        self.get, self.exists, self.children = session.get, session.exists, session.children
        self.get_many, self.children_many = session.get_many, session.children_many

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def multi(self, ops: Sequence[Op]) -> list[Applied]:
        as_written = self._link.as_written
        return await self._session.multi(ops if as_written is None else [as_written(op) for op in ops])

    async def write(self, writes: Sequence[ConditionalOps], fence: Fence | None) -> list[WriteAnswer]:
        """With ZooKeeper each write is a transaction of its own, one behind the other on one connection: whoever
        dies on the way, or loses touch, leaves the first of them done and the others not."""
        store, answers = self._link.store, list[WriteAnswer]()
        if len(writes) > 1 and store.splits_batches and store.loop.random.random() < SPLIT_PROBABILITY:
            first = 1 + int(store.loop.random.random() * (len(writes) - 1))
            answers = await self._session.write(writes[:first], fence)
            writes = writes[first:]
        return [*answers, *await self._session.write(writes, fence)]

    def listen(
        self, *, on_watch: OnWatch | None = None, on_session: OnSession | None = None
    ) -> Callable[[], None]:
        host, store = current_host.get(), self._link.store

        def at_home(callback: Any) -> Any:
            def tell(what: Any) -> None:
                if not host.is_alive:
                    return
                if host.paused_until > store.loop.time():  # a stopped process hears it when it goes on
                    store.loop.call_as(host, callback, what)
                else:
                    store.context_of(host).copy().run(callback, what)

            return None if callback is None else tell

        return self._session.listen(on_watch=at_home(on_watch), on_session=at_home(on_session))


class SimStore:
    """One ensemble for the whole world; also the gate between its sessions and the tree."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.ensemble = MemoryEnsemble(gate=self)
        self.owner: dict[int, StoreLink] = {}
        self.latency_s = 0.0002
        self.jitter_s = 0.001
        self.lost_answer_probability = 0.0  # the write happened, the client hears StoreUnavailable (F13)
        self.lost_call_probability = 0.0
        self.lost_answers = 0
        self.splits_batches = False  # as ZooKeeper does; the embedded store writes a batch in one transaction
        self.is_down = False  # the ensemble is being restarted: `go_down`, `come_up`
        self.when_up: list[Callable[[], None]] = []
        self.links: list[StoreLink] = []
        # Looks at the tree after every write, before anybody else does.
        self.on_write: Callable[[], None] | None = None

    def link_for(self, host: Host) -> StoreLink:
        link = StoreLink(self, host)
        self.links = [*(known for known in self.links if known.host.is_alive), link]
        return link

    def go_down(self, *, forgets_watches: bool = False) -> None:
        """Every client loses touch, no watch fires and no session ends. Sessions outlive it if it is short."""
        if self.is_down:
            return
        in_touch = [link for link in self.links if link.host.is_alive and not link.is_out_of_touch]
        self.is_down = True
        for link in in_touch:
            link.lose_touch(forgets_watches=forgets_watches)

    def come_up(self) -> None:
        if not self.is_down:
            return
        self.is_down = False
        for link in self.links:
            if link.host.is_alive and not link.is_out_of_touch:
                link.regain_touch()
        waiting, self.when_up = self.when_up, []
        for begin in waiting:
            begin()

    def sessions_about_to_end(self) -> list[str]:
        """Their clients have given them up while they were out of touch, and the store has not: what hangs on them goes yet."""
        return [
            f"the end of session {session.session_id:#x}, which its client has given up,"
            for session in self.ensemble.sessions.values()
            if session.state is SessionState.EXPIRED
        ]

    def context_of(self, host: Host) -> Any:
        return self.loop.context_of(host)

    def world_context(self) -> Any:
        return self.loop.context_of(NOBODY)

    def delay(self, longer_s: float = 0.0) -> Moment:
        """To be awaited at once."""
        loop = self.loop
        return Moment(loop, loop.now + (self.latency_s + loop.random.random() * self.jitter_s + longer_s))

    # --- the gate (`store.memory_session.Gate`)

    async def before(self, session_id: int, call: str) -> None:
        link = self.owner.get(session_id)
        await self.delay(0.0 if link is None else link.calls_take_s)
        self._fail_if_unreachable(session_id)
        if self.lost_call_probability and self.loop.random.random() < self.lost_call_probability:
            raise StoreUnavailable(message=f"the call {call} was lost")

    async def after(self, session_id: int, call: str) -> None:
        if self.on_write is not None and call in ("multi", "write"):
            self.on_write()
        link = self.owner.get(session_id)
        if link is not None and link.on_written is not None and call in ("multi", "write"):
            link.on_written()
        await self.delay()
        if link is not None and link.answers_take_s:
            await self.delay(link.answers_take_s)
        self._fail_if_unreachable(session_id)
        if (
            call in ("multi", "write")
            and self.lost_answer_probability
            and self.loop.random.random() < self.lost_answer_probability
        ):
            self.lost_answers += 1
            raise StoreUnavailable(message=f"the answer to {call} was lost; it took effect")

    def _fail_if_unreachable(self, session_id: int) -> None:
        link = self.owner.get(session_id)
        if self.is_down or (link is not None and link.is_cut):
            raise StoreUnavailable(message="the store cannot be reached")
