"""Sessions: what goes with them, who learns of it, and the race for `/controller`."""

import asyncio

import pytest

from odradek.model.cluster import BrokerRegistration, Endpoint
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch
from odradek.store import layout, transactions
from odradek.store.api import (
    Applied,
    BadVersion,
    ConditionalOps,
    Create,
    Fence,
    Fenced,
    NodeExists,
    Op,
    SessionExpired,
    SessionState,
    Set,
    Store,
    Stored,
    WatchEvent,
    WatchKind,
)
from tests.conformance.worlds import Heard, World, on_every_store, until


@on_every_store
async def test_a_closed_session_takes_its_ephemerals_with_it(world: World) -> None:
    owner, other = await world.open(), await world.open()
    await owner.create("/kept")
    await owner.create("/kept/1", ephemeral=True)
    await owner.create("/kept/2-", ephemeral=True, sequential=True)
    await other.create("/others", ephemeral=True)
    await owner.close()
    assert owner.state is SessionState.CLOSED
    assert await other.children("/kept") == []
    assert await other.exists("/others") is not None
    with pytest.raises(SessionExpired):
        await owner.get("/kept")
    with pytest.raises(SessionExpired):
        await owner.create("/after", ephemeral=True)
    await owner.close()  # a second time is no error


@on_every_store
async def test_who_has_stopped_listening_does_not_hear_of_the_end(world: World) -> None:
    session = await world.open()
    heard: list[SessionState] = []
    session.listen(on_session=heard.append)()
    await session.close()
    assert session.state is SessionState.CLOSED and not heard


@on_every_store
async def test_who_stops_listening_when_it_hears_keeps_nobody_else_from_hearing(world: World) -> None:
    session, other = await world.open(), await world.open()
    heard: list[str] = []

    def once(_: object) -> None:
        heard.append("once")
        stop()

    stop = session.listen(on_watch=once, on_session=once)
    session.listen(on_watch=lambda _: heard.append("always"), on_session=lambda _: heard.append("always"))
    await session.exists("/a", watch=True)
    await other.create("/a")
    await until(lambda: heard == ["once", "always"])
    session.listen(on_session=lambda _: (stop_again(), heard.append("end"))[1])
    stop_again = session.listen(on_session=lambda _: heard.append("stopped"))
    session.listen(on_session=lambda _: heard.append("last"))
    await session.close()
    await until(lambda: heard[2:4] == ["always", "end"] and heard[-1] == "last")


@on_every_store
async def test_a_lost_session_takes_its_ephemerals_in_one_transaction(world: World) -> None:
    watcher, owner = await world.open(), await world.open()
    await owner.multi([Create("/e1", ephemeral=True), Create("/e2", ephemeral=True), Create("/kept")])
    heard = Heard(watcher)
    for path in ("/e1", "/e2"):
        await watcher.exists(path, watch=True)
    await world.lose(owner)
    await until(lambda: heard)
    # Who hears of the first finds the second gone too.
    assert await watcher.get_many(["/e1", "/e2"]) == [None, None]
    assert await watcher.exists("/kept") is not None


@on_every_store
async def test_session_ids_are_never_used_again(world: World) -> None:
    ids = []
    for _ in range(3):
        session = await world.open()
        ids.append(session.session_id)
        await session.close()
    assert len(set(ids)) == 3
    assert 0 not in ids


@on_every_store
async def test_a_session_that_is_over_tells_its_owner(world: World) -> None:
    session, other = await world.open(), await world.open()
    states: list[SessionState] = []
    session.listen(on_session=states.append)
    assert session.state is SessionState.CONNECTED
    await session.create("/e", ephemeral=True)
    await world.lose(session)
    await until(lambda: session.state is SessionState.EXPIRED)
    assert states[-1] is SessionState.EXPIRED
    with pytest.raises(SessionExpired):
        await session.get("/")
    await other.exists("/e", watch=True)
    while await other.exists("/e") is not None:
        await asyncio.sleep(0)
    # Starting again is a new session, which may take the name at once.
    again = await world.open()
    await again.create("/e", ephemeral=True)


async def stand(session: Store, broker_id: int) -> Fence | None:
    """Stand for election once, as a broker does: read the epoch, then both fences in one transaction."""
    node = await session.get("/controller_epoch")
    epoch = ControllerEpoch(layout.decode_controller_epoch(node.data) + 1)
    ops = transactions.become_controller(
        BrokerId(broker_id), epoch, expected_epoch_version=node.stat.version, timestamp_ms=0
    )
    try:
        stat = (await session.multi(ops))[1].stat
    except (NodeExists, BadVersion):
        return None
    assert stat is not None
    return Fence(stat.version)


@on_every_store
async def test_of_three_that_stand_for_election_one_wins_and_both_fences_move(world: World) -> None:
    sessions = [await world.open() for _ in range(3)]
    await sessions[0].create("/controller_epoch", b"0")
    fences = await asyncio.gather(*(stand(session, number) for number, session in enumerate(sessions)))
    (winner,) = [number for number, fence in enumerate(fences) if fence is not None]
    node = await sessions[0].get("/controller")
    assert layout.decode_controller(node.data) == winner
    assert node.stat.ephemeral_owner == sessions[winner].session_id
    epoch = await sessions[0].get("/controller_epoch")
    assert (epoch.data, Fence(epoch.stat.version)) == (b"1", fences[winner])


@on_every_store
async def test_neither_fence_moves_alone(world: World) -> None:
    """Fencing rule 1: `/controller` without the epoch, or the epoch without `/controller`, cannot be had."""
    first, second = await world.open(), await world.open()
    await first.create("/controller_epoch", b"0")
    assert await stand(first, 1) is not None
    epoch = await second.get("/controller_epoch")
    version = epoch.stat.version
    with pytest.raises(NodeExists):
        await second.multi(_become_controller(2, 2, version))
    assert await second.get("/controller_epoch") == epoch
    await first.delete("/controller")
    with pytest.raises(BadVersion):
        await second.multi(_become_controller(2, 2, version - 1))
    assert await second.exists("/controller") is None
    assert len(await second.multi(_become_controller(2, 2, version))) == 2


def _become_controller(broker_id: int, epoch: int, version: int) -> tuple[Op, ...]:
    return transactions.become_controller(
        BrokerId(broker_id), ControllerEpoch(epoch), expected_epoch_version=version, timestamp_ms=0
    )


@on_every_store
async def test_a_lost_controller_is_followed_by_one_that_fences_it_out(world: World) -> None:
    first, second = await world.open(), await world.open()
    heard = Heard(second)
    await first.create("/controller_epoch", b"0")
    await first.create("/state", b"")
    old_fence = await stand(first, 1)
    assert old_fence is not None
    assert await stand(second, 2) is None
    assert await second.exists("/controller", watch=True) is not None
    await world.lose(first)
    await until(lambda: heard)
    assert heard == [WatchEvent(WatchKind.DELETED, "/controller")]
    new_fence = await stand(second, 2)
    assert new_fence == Fence(old_fence.version + 1)
    write = [ConditionalOps((Set("/state", b"x", 0),))]
    assert await second.write(write, old_fence) == [Fenced()]
    assert await second.write(write, new_fence) == [Stored(1)]


@on_every_store
async def test_a_controller_resigns_only_what_is_still_its_own(world: World) -> None:
    first, second = await world.open(), await world.open()
    await first.create("/controller_epoch", b"0")
    fence = await stand(first, 1)
    assert fence is not None
    await first.multi(transactions.resign_controller(fence.version))
    assert await second.exists("/controller") is None
    assert await stand(second, 2) is not None
    with pytest.raises(BadVersion):
        await first.multi(transactions.resign_controller(fence.version))
    assert await second.exists("/controller") is not None


@on_every_store
async def test_a_registration_has_version_1_from_birth_and_a_bounce_has_a_larger_epoch(world: World) -> None:
    store, other = await world.open(), await world.open()
    await store.write([ConditionalOps((), parents=("/brokers", "/brokers/ids"))], None)
    (created, _) = await store.multi(_register(1, 9092))
    node = await other.get("/brokers/ids/1")
    assert node.stat.version == 1
    registration = layout.decode_registration(BrokerId(1), node)
    assert (registration.epoch, registration.endpoints) == (_czxid(created), _endpoints(9092))

    # The id of another session is not overwritten.
    with pytest.raises(NodeExists):
        await other.multi(_register(1, 9093))
    heard = Heard(other)
    await other.exists("/brokers/ids/1", watch=True)
    await world.lose(store)
    await until(lambda: heard)
    (bounced, _) = await other.multi(_register(1, 9093))
    assert _czxid(bounced) > _czxid(created)


def _endpoints(port: int) -> tuple[Endpoint, ...]:
    return (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port),)


def _register(broker_id: int, port: int) -> tuple[Op, ...]:
    registration = BrokerRegistration(BrokerId(broker_id), BrokerEpoch(-1), _endpoints(port))
    return transactions.register_broker(registration, timestamp_ms=0)


def _czxid(applied: Applied) -> int:
    assert applied.stat is not None
    return applied.stat.czxid


@on_every_store
async def test_brokers_that_start_together_find_one_tree(world: World) -> None:
    sessions: list[Store] = [await world.open() for _ in range(3)]
    parents = tuple(dict.fromkeys(part for path in layout.PERSISTENT_PATHS for part in _ancestors(path)))
    tree = [ConditionalOps((), parents)]
    answers = await asyncio.gather(*(session.write(tree, None) for session in sessions))
    assert answers == [[Stored(-1)]] * 3
    for path in layout.PERSISTENT_PATHS:
        stat = await sessions[0].exists(path)
        assert stat is not None
        assert (stat.version, stat.ephemeral_owner) == (0, 0)


def _ancestors(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(2, len(parts) + 1)]
