"""The metadata store as one simulated host sees it: latency, a link that can be cut, sessions that expire.

The tree itself is `store.memory`, the same that tests and one-process clusters use. What a real network and a real
ensemble add is here: a call takes time before and after it takes effect, so an answer can be lost although the write
happened; watches may come late; a session that is out of touch for its timeout ends, and its client must think
itself gone *before* the store does.
"""

from collections.abc import Callable
from typing import Any

from odradek.sim.loop import NOBODY, Host, SimLoop, current_host, wake
from odradek.store.api import OnSession, OnWatch, StoreUnavailable
from odradek.store.memory_session import MemoryEnsemble, MemorySession

# A client stops trusting its session after this share of the timeout without an answer.
CLIENT_GIVES_UP_AFTER = 2 / 3


class StoreLink:
    """The way of one host to the store."""

    def __init__(self, store: "SimStore", host: Host) -> None:
        self.store = store
        self.host = host
        self.is_cut = False
        self.answers_take_s = 0.0  # on top of the usual delay
        self.sessions: list[MemorySession] = []

    async def open_session(self, session_timeout_ms: int = 6000) -> "HostSession":
        await self.store.delay()
        if self.is_cut:
            raise StoreUnavailable(message=f"{self.host} cannot reach the store")
        session = self.store.ensemble.open(session_timeout_ms)
        self.sessions.append(session)
        self.store.owner[session.session_id] = self
        return HostSession(session, self)

    async def close(self) -> None:
        """Sessions are closed by whoever opened them."""

    # --- what the world does to it

    def cut(self) -> None:
        """Calls fail from now on; if it lasts, the client gives up first, then the store expires the session."""
        if self.is_cut:
            return
        self.is_cut = True
        for session in self._live():
            self._tell(session.disconnect)
            self._expire_unless_healed(session)

    def heal(self) -> None:
        if not self.is_cut:
            return
        self.is_cut = False
        for session in self.sessions:  # also those that have ended: that is what their clients learn now
            self._tell(session.connect)

    def host_killed(self, *, at_once: bool) -> None:
        """`at_once`: the kernel told the store (embedded); else the session goes by its timeout (ZooKeeper)."""
        for session in self._live():
            session.hold_watches()
            delay = 0.002 if at_once else session.session_timeout_ms / 1000
            self.store.loop.call_later(delay, self._end, session, context=self.store.world_context())

    def host_paused(self, seconds: float) -> None:
        """A stopped process sends no heartbeats. It hears nothing, and learns of its end when it goes on."""
        for session in self._live():
            session.hold_watches()
            self.store.loop.call_later(seconds, self._resume, session, context=self.store.world_context())
            if seconds * 1000 > session.session_timeout_ms:
                self.store.loop.call_later(
                    session.session_timeout_ms / 1000, self._end, session, context=self.store.world_context()
                )

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
        self._tell(session.release_watches)

    def _expire_unless_healed(self, session: MemorySession) -> None:
        timeout_s = session.session_timeout_ms / 1000

        def give_up() -> None:
            if self.is_cut:
                self._tell(session.give_up)

        def expire() -> None:
            # A client that has given up will not come back to this session, link or no link.
            if self.is_cut or session.state.value == "expired":
                self._end(session)

        world = self.store.world_context()
        self.store.loop.call_later(timeout_s * CLIENT_GIVES_UP_AFTER, give_up, context=world)
        self.store.loop.call_later(timeout_s, expire, context=world)

    def _tell(self, function: Callable[..., Any], *args: Any) -> None:
        """Listeners of other hosts that this reaches are put into their own context by `HostSession.listen`."""
        self.store.context_of(self.host).copy().run(function, *args)


class HostSession:
    """A `Store` whose listeners run in the context of the host they belong to, and not at all once it is dead."""

    def __init__(self, session: MemorySession, link: StoreLink) -> None:
        self._session = session
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

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
        self.is_down = False  # the ensemble is being restarted
        # Looks at the tree after every write, before anybody else does.
        self.on_write: Callable[[], None] | None = None

    def link_for(self, host: Host) -> StoreLink:
        return StoreLink(self, host)

    def context_of(self, host: Host) -> Any:
        return self.loop.context_of(host)

    def world_context(self) -> Any:
        return self.loop.context_of(NOBODY)

    async def delay(self, longer_s: float = 0.0) -> None:
        future = self.loop.create_future()
        seconds = self.latency_s + self.loop.random.random() * self.jitter_s + longer_s
        self.loop.call_later(seconds, wake, future)
        await future

    # --- the gate (`store.memory_session.Gate`)

    async def before(self, session_id: int, call: str) -> None:
        await self.delay()
        self._fail_if_unreachable(session_id)
        if self.lost_call_probability and self.loop.random.random() < self.lost_call_probability:
            raise StoreUnavailable(message=f"the call {call} was lost")

    async def after(self, session_id: int, call: str) -> None:
        if self.on_write is not None and call in ("multi", "write"):
            self.on_write()
        await self.delay()
        link = self.owner.get(session_id)
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
