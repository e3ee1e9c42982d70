"""The simulated store: lost answers, cut links, sessions that end on both sides in the right order."""

import contextlib
from collections.abc import Coroutine
from typing import Any

import pytest

from odradek.sim.loop import Host, SimLoop, current_host
from odradek.sim.store import SimStore
from odradek.store.api import ConditionalOps, Put, SessionExpired, SessionState, StoreUnavailable


class World:
    def __init__(self, seed: int = 1) -> None:
        self.loop = SimLoop(seed)
        self.store = SimStore(self.loop)
        self.one, self.two = Host("b1", 1), Host("b2", 2)
        self.link = self.store.link_for(self.one)
        self.other_link = self.store.link_for(self.two)

    def run(self, coroutine: Coroutine[Any, Any, Any], host: Host | None = None) -> Any:
        async def outer() -> Any:
            return await self.loop.create_task(coroutine, context=self.loop.context_of(host or self.one))

        return self.loop.run_until_complete(outer())


def test_a_lost_answer_leaves_the_write_done() -> None:
    world = World()
    session = world.run(world.link.open_session())
    world.store.lost_answer_probability = 1.0
    with pytest.raises(StoreUnavailable):
        world.run(session.create("/a", b"1"))
    world.store.lost_answer_probability = 0.0

    assert world.run(session.get("/a")).data == b"1"
    assert world.store.lost_answers == 1


def test_a_lost_call_leaves_the_write_undone() -> None:
    world = World()
    session = world.run(world.link.open_session())
    world.store.lost_call_probability = 1.0
    with pytest.raises(StoreUnavailable):
        world.run(session.create("/a", b"1"))
    world.store.lost_call_probability = 0.0

    assert world.run(session.exists("/a")) is None


def test_a_client_out_of_touch_thinks_itself_gone_before_the_store_does() -> None:
    world = World()
    session = world.run(world.link.open_session(6000))
    world.run(session.create("/a", ephemeral=True))
    told: list[tuple[SessionState, float, bool]] = []

    def on_session(state: SessionState) -> None:
        told.append((state, world.loop.time(), "/a" in dict(world.store.ensemble.tree.walk())))

    world.run(_listen(session, on_session))
    start = world.loop.time()
    world.link.cut()
    world.loop.run_until(start + 60)

    assert [(state, still_there) for state, _, still_there in told] == [
        (SessionState.SUSPENDED, True),
        (SessionState.EXPIRED, True),
    ]
    assert told[-1][1] - start < 6
    assert "/a" not in dict(world.store.ensemble.tree.walk())


async def _listen(session: Any, on_session: Any) -> None:
    session.listen(on_session=on_session)


def test_a_short_cut_costs_no_session() -> None:
    world = World()
    session = world.run(world.link.open_session(6000))
    world.link.cut()
    with pytest.raises(StoreUnavailable):
        world.run(session.create("/a"))
    world.loop.run_until(world.loop.time() + 2)
    world.link.heal()
    world.run(session.create("/a"))
    world.loop.run_until(world.loop.time() + 60)

    assert session.state is SessionState.CONNECTED


@pytest.mark.parametrize(("at_once", "seconds"), [(True, 0.002), (False, 6.0)])
def test_a_killed_host_loses_its_session(at_once: bool, seconds: float) -> None:
    world = World()
    session = world.run(world.link.open_session(6000))
    watcher = world.run(world.other_link.open_session(), world.two)
    world.run(session.create("/a", ephemeral=True))
    heard: list[tuple[str, float]] = []

    async def watch() -> None:
        watcher.listen(on_watch=lambda event: heard.append((current_host.get().name, world.loop.time())))
        await watcher.exists("/a", watch=True)

    world.run(watch(), world.two)
    world.one.kill()
    start = world.loop.time()
    world.link.host_killed(at_once=at_once)
    world.loop.run_until(start + 60)

    assert heard == [("b2", pytest.approx(start + seconds))]


def test_a_host_stopped_past_its_timeout_learns_of_it_when_it_goes_on() -> None:
    world = World()
    session = world.run(world.link.open_session(6000))
    world.one.paused_until = world.loop.time() + 20
    world.link.host_paused(20)
    world.loop.run_until(world.loop.time() + 19)
    assert session.session_id not in world.store.ensemble.sessions
    world.loop.run_until(world.loop.time() + 2)

    with pytest.raises(SessionExpired):
        world.run(session.create("/a"))


@pytest.mark.parametrize(("seconds", "is_there"), [(7.9, True), (8.2, False)])
def test_a_loop_that_hangs_keeps_its_session_for_as_long_as_a_loop_may_be_late(
    seconds: float, is_there: bool
) -> None:
    """Signs of life are given for the loop: none after a third of the timeout, and the session ends a whole one later."""
    world = World()
    session = world.run(world.link.open_session(6000))
    start = world.loop.time()
    heard: list[SessionState] = []
    world.loop.context_of(world.one).copy().run(session.listen, on_session=lambda state: heard.append(state))
    world.one.hang(start + seconds)
    world.link.loop_hangs(seconds)
    world.loop.run_until(start + seconds - 0.01)
    assert (session.session_id in world.store.ensemble.sessions, heard) == (is_there, [])
    world.loop.run_until(start + 20)

    assert heard == ([] if is_there else [SessionState.EXPIRED]), "it hears so when it goes on"


def test_a_second_cut_does_not_end_the_session_by_the_clock_of_the_first() -> None:
    """The store heard of the client in between: it has its whole timeout again."""
    world = World()
    session = world.run(world.link.open_session(6000))
    start = world.loop.time()
    world.link.cut()
    world.loop.run_until(start + 3)
    world.link.heal()
    world.loop.run_until(start + 5.9)
    world.link.cut()
    world.loop.run_until(start + 9)
    assert session.session_id in world.store.ensemble.sessions
    assert session.state is SessionState.SUSPENDED
    world.loop.run_until(start + 5.9 + 6.1)

    assert session.session_id not in world.store.ensemble.sessions


def test_a_store_that_is_away_ends_no_session_and_fires_no_watch() -> None:
    """A broker that died while the store was away is gone a whole timeout after the store is back."""
    world = World()
    session = world.run(world.link.open_session(6000))
    world.run(session.create("/a", ephemeral=True))
    watcher = world.run(world.other_link.open_session(60_000), world.two)
    heard: list[float] = []
    states: list[SessionState] = []

    async def watch() -> None:
        watcher.listen(on_watch=lambda event: heard.append(world.loop.time()), on_session=states.append)
        await watcher.exists("/a", watch=True)

    world.run(watch(), world.two)
    start = world.loop.time()
    world.store.go_down()
    world.one.kill()
    world.link.host_killed(at_once=False)
    with pytest.raises(StoreUnavailable):
        world.run(watcher.exists("/a"), world.two)
    world.loop.run_until(start + 20)
    assert heard == [] and session.session_id in world.store.ensemble.sessions
    world.store.come_up()
    world.loop.run_until(start + 60)

    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert heard == [pytest.approx(start + 26, abs=0.01)]


@pytest.mark.parametrize("forgets", [True, False])
def test_watches_that_fire_while_a_connection_is_lost(forgets: bool) -> None:
    """Lost for good is what came and went; what differs is told, in the order of what was armed, and armed again."""
    world = World()
    session = world.run(world.link.open_session(6000))
    other = world.run(world.other_link.open_session(6000), world.two)
    heard: list[tuple[str, str]] = []

    async def watch() -> None:
        session.listen(on_watch=lambda event: heard.append((event.kind.name, event.path)))
        for path in ("/never", "/changed", "/gone", "/untouched"):
            await session.exists(path, watch=True)
        await session.children("/parent", watch=True)

    for path in ("/changed", "/gone", "/untouched", "/parent"):
        world.run(other.create(path), world.two)
    world.run(watch())
    world.link.cut(forgets_watches=forgets)
    world.run(other.create("/parent/child"), world.two)
    for path in ("/never", "/gone"):
        if path == "/never":
            world.run(other.create(path), world.two)
        world.run(other.delete(path), world.two)
    world.run(other.set("/changed", b"1"), world.two)
    world.link.heal()
    world.loop.run_until(world.loop.time() + 1)

    told = [("CHANGED", "/changed"), ("DELETED", "/gone"), ("CHILDREN", "/parent")]
    assert sorted(heard) == sorted(told if forgets else [*told, ("CREATED", "/never")])
    heard.clear()
    world.run(other.create("/never"), world.two)
    world.run(other.set("/untouched", b"1"), world.two)
    still_armed = [("CREATED", "/never"), ("CHANGED", "/untouched")]
    assert heard == (still_armed if forgets else still_armed[1:])


def test_a_lost_connection_that_was_never_missed_loses_what_was_late_neither() -> None:
    world = World()
    session = world.run(world.link.open_session(6000))
    other = world.run(world.other_link.open_session(6000), world.two)
    heard: list[str] = []

    async def watch() -> None:
        session.listen(on_watch=lambda event: heard.append(event.path))
        await session.exists("/a", watch=True)

    world.run(watch())
    world.link.hold_watches()
    world.run(other.create("/a"), world.two)
    world.link.cut(forgets_watches=True)
    world.link.heal()
    assert heard == []
    world.link.release_watches()

    assert heard == ["/a"]


@pytest.mark.parametrize("splits", [True, False])
def test_a_batch_of_writes_may_be_cut_in_the_middle(splits: bool) -> None:
    """Whoever writes loses touch at any moment: with ZooKeeper the first may be done and the others not."""
    done: set[int] = set()
    for seed in range(40):
        world = World(seed)
        world.store.splits_batches = splits
        session = world.run(world.link.open_session(6000))
        writes = [ConditionalOps((Put(f"/w{n}", b"1"),)) for n in range(4)]
        world.loop.call_later(0.0002 * (seed % 10), world.link.cut, context=world.store.world_context())
        with contextlib.suppress(StoreUnavailable):
            world.run(session.write(writes, None))
        tree = dict(world.store.ensemble.tree.walk())
        names = [n for n in range(4) if f"/w{n}" in tree]
        assert names == list(range(len(names))), "in their order"
        done.add(len(names))

    assert {0, 4} <= done
    assert bool(done & {1, 2, 3}) == splits
