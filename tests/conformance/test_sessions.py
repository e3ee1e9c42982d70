"""Sessions: what goes with them, who learns of it, and the race for `/controller`."""

import asyncio

import pytest

from odradek.model.cluster import BrokerRegistration, Endpoint
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch
from odradek.store import groups, layout
from odradek.store.api import (
    BadVersion,
    Create,
    NodeExists,
    SessionExpired,
    SessionState,
    Store,
    WatchEvent,
    WatchKind,
)
from odradek.store.startup import (
    Elected,
    IdInUse,
    Lost,
    Registered,
    elect,
    ensure_cluster_id,
    ensure_paths,
    register,
    resign,
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
async def test_a_lost_session_takes_its_ephemerals_in_one_transaction(world: World) -> None:
    watcher, owner = await world.open(), await world.open()
    await owner.multi([Create("/e1", ephemeral=True), Create("/e2", ephemeral=True), Create("/kept")])
    stat = await watcher.exists("/")
    assert stat is not None
    heard = Heard(watcher)
    for path in ("/e1", "/e2"):
        await watcher.exists(path, watch=True)
    seen_together = []
    watcher.listen(on_watch=seen_together.append)
    await world.lose(owner)
    await until(lambda: len(heard) == 2)
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


@on_every_store
async def test_of_two_that_stand_for_election_one_wins_and_both_fences_move(world: World) -> None:
    sessions = [await world.open() for _ in range(3)]
    await ensure_paths(sessions[0])
    outcomes = await asyncio.gather(
        *(elect(session, BrokerId(number), timestamp_ms=0) for number, session in enumerate(sessions))
    )
    winners = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Elected)]
    assert len(winners) == 1
    winner = winners[0]
    assert outcomes[winner] == Elected(ControllerEpoch(1), outcomes[winner].fence)
    for number in {0, 1, 2} - {winner}:
        assert outcomes[number] == Lost(BrokerId(winner))
    node = await sessions[0].get("/controller")
    assert layout.decode_controller(node.data) == winner
    assert node.stat.ephemeral_owner == sessions[winner].session_id
    epoch = await sessions[0].get("/controller_epoch")
    assert (epoch.data, epoch.stat.version) == (b"1", outcomes[winner].fence.version)


@on_every_store
async def test_neither_fence_moves_alone(world: World) -> None:
    """Fencing rule 1: `/controller` without the epoch, or the epoch without `/controller`, cannot be had."""
    first, second = await world.open(), await world.open()
    assert isinstance(await elect(first, BrokerId(1), timestamp_ms=0), Elected)
    epoch = await second.get("/controller_epoch")
    with pytest.raises(NodeExists):
        await second.multi(
            groups.become_controller(
                BrokerId(2), ControllerEpoch(2), expected_epoch_version=epoch.stat.version, timestamp_ms=0
            )
        )
    assert await second.get("/controller_epoch") == epoch
    await first.delete("/controller")
    with pytest.raises(BadVersion):
        await second.multi(
            groups.become_controller(
                BrokerId(2), ControllerEpoch(2), expected_epoch_version=epoch.stat.version - 1, timestamp_ms=0
            )
        )
    assert await second.exists("/controller") is None


@on_every_store
async def test_the_next_controller_has_the_next_epoch(world: World) -> None:
    first, second = await world.open(), await world.open()
    heard = Heard(second)
    won = await elect(first, BrokerId(1), timestamp_ms=0)
    assert isinstance(won, Elected)
    assert await second.exists("/controller", watch=True) is not None
    await world.lose(first)
    await until(lambda: heard)
    assert heard == [WatchEvent(WatchKind.DELETED, "/controller")]
    next_won = await elect(second, BrokerId(2), timestamp_ms=0)
    assert next_won == Elected(ControllerEpoch(2), next_won.fence)
    assert next_won.fence.version == won.fence.version + 1


@on_every_store
async def test_a_winner_that_never_heard_so_stands_again(world: World) -> None:
    """KAFKA-13407: the acknowledgement of the election was lost; returning early would leave nobody leading."""
    store = await world.open()
    first = await elect(store, BrokerId(1), timestamp_ms=0)
    second = await elect(store, BrokerId(1), timestamp_ms=0)
    assert isinstance(first, Elected)
    assert isinstance(second, Elected)
    assert second.controller_epoch == first.controller_epoch + 1


@on_every_store
async def test_a_controller_of_an_earlier_session_of_ours_is_not_us(world: World) -> None:
    earlier, later = await world.open(), await world.open()
    assert isinstance(await elect(earlier, BrokerId(1), timestamp_ms=0), Elected)
    assert await elect(later, BrokerId(1), timestamp_ms=0) == Lost(BrokerId(1))


@on_every_store
async def test_a_controller_resigns_only_what_is_still_its_own(world: World) -> None:
    first, second = await world.open(), await world.open()
    won = await elect(first, BrokerId(1), timestamp_ms=0)
    assert isinstance(won, Elected)
    assert await resign(first, won)
    assert await second.exists("/controller") is None
    assert isinstance(await elect(second, BrokerId(2), timestamp_ms=0), Elected)
    assert not await resign(first, won)
    assert await second.exists("/controller") is not None


def _registration(broker_id: int, port: int = 9092) -> BrokerRegistration:
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port)
    return BrokerRegistration(BrokerId(broker_id), BrokerEpoch(-1), (endpoint,))


@on_every_store
async def test_a_registration_has_version_1_from_birth_and_its_czxid_is_the_broker_epoch(
    world: World,
) -> None:
    store, other = await world.open(), await world.open()
    await ensure_paths(store)
    registered = await register(store, _registration(1), timestamp_ms=0)
    assert isinstance(registered, Registered)
    node = await other.get("/brokers/ids/1")
    assert node.stat.version == 1
    assert node.stat.czxid == registered.broker_epoch
    assert layout.decode_registration(BrokerId(1), node).endpoints == _registration(1).endpoints

    # A lost acknowledgement: the node is ours already.
    assert await register(store, _registration(1), timestamp_ms=0) == registered
    # The id of another session: to be waited for, not to be overwritten, and no reason to exit.
    assert await register(other, _registration(1, 9093), timestamp_ms=0) == IdInUse(store.session_id)
    heard = Heard(other)
    await world.lose(store)
    await until(lambda: heard)
    bounced = await register(other, _registration(1, 9093), timestamp_ms=0)
    assert isinstance(bounced, Registered)
    assert bounced.broker_epoch > registered.broker_epoch


@on_every_store
async def test_brokers_that_start_together_find_one_tree_and_one_cluster_id(world: World) -> None:
    sessions: list[Store] = [await world.open() for _ in range(3)]
    await asyncio.gather(*(ensure_paths(session) for session in sessions))
    ids = await asyncio.gather(
        *(ensure_cluster_id(session, f"id-{number}") for number, session in enumerate(sessions))
    )
    assert len(set(ids)) == 1
    for path in layout.PERSISTENT_PATHS:
        stat = await sessions[0].exists(path)
        assert stat is not None
        assert (stat.version, stat.ephemeral_owner) == (0, 0)
