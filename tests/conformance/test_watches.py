"""Watches: once, in order, and never after newer data."""

import asyncio

import pytest

from odradek.store.api import (
    Check,
    ConditionalOps,
    Conflict,
    Create,
    Delete,
    DeleteTree,
    NoNode,
    Set,
    WatchEvent,
    WatchKind,
)
from tests.conformance.worlds import Heard, World, on_every_store, until

CREATED, CHANGED, DELETED, CHILDREN = (
    WatchKind.CREATED,
    WatchKind.CHANGED,
    WatchKind.DELETED,
    WatchKind.CHILDREN,
)


@on_every_store
async def test_a_data_watch_fires_once(world: World) -> None:
    writer, reader = await world.open(), await world.open()
    heard = Heard(reader)
    await writer.create("/a", b"0")
    await reader.get("/a", watch=True)
    await writer.set("/a", b"1")
    await until(lambda: heard)
    await writer.set("/a", b"2")
    await reader.get("/a", watch=True)
    assert heard == [WatchEvent(CHANGED, "/a")]
    await writer.delete("/a")
    await until(lambda: len(heard) > 1)
    assert heard[1:] == [WatchEvent(DELETED, "/a")]


@on_every_store
async def test_a_watch_armed_twice_fires_once(world: World) -> None:
    writer, reader = await world.open(), await world.open()
    heard = Heard(reader)
    await writer.create("/a")
    await reader.get("/a", watch=True)
    await reader.exists("/a", watch=True)
    await reader.get("/a", watch=True)
    await writer.set("/a", b"1")
    await writer.set("/a", b"2")
    assert (await reader.get("/a")).data == b"2"
    assert heard == [WatchEvent(CHANGED, "/a")]


@on_every_store
async def test_a_watch_on_existence_fires_on_creation(world: World) -> None:
    writer, reader = await world.open(), await world.open()
    heard = Heard(reader)
    assert await reader.exists("/a", watch=True) is None
    await writer.create("/a")
    await until(lambda: heard)
    assert heard == [WatchEvent(CREATED, "/a")]
    # Where there is no node, reading arms nothing.
    with pytest.raises(NoNode):
        await reader.get("/b", watch=True)
    with pytest.raises(NoNode):
        await reader.children("/b", watch=True)
    assert await reader.get_many(["/b"], watch=True) == [None]
    assert await reader.children_many(["/b"], watch=True) == [None]
    await writer.create("/b")
    await writer.create("/b/c")
    assert await reader.exists("/b/c") is not None
    assert heard == [WatchEvent(CREATED, "/a")]


@on_every_store
async def test_a_children_watch_fires_on_coming_and_going_only(world: World) -> None:
    writer, reader = await world.open(), await world.open()
    heard = Heard(reader)
    await writer.create("/a")
    await writer.create("/a/old")
    await reader.children("/a", watch=True)
    await writer.set("/a", b"data")
    await writer.set("/a/old", b"data")
    await writer.create("/a/old/grandchild")
    await reader.exists("/a")
    assert heard == []
    await writer.create("/a/new")
    await until(lambda: heard)
    assert await reader.children("/a", watch=True) == ["new", "old"]
    await writer.delete("/a/new")
    await until(lambda: len(heard) > 1)
    assert heard == [WatchEvent(CHILDREN, "/a"), WatchEvent(CHILDREN, "/a")]


@on_every_store
async def test_a_deletion_is_told_once_to_who_watched_both(world: World) -> None:
    writer, reader = await world.open(), await world.open()
    heard = Heard(reader)
    await writer.create("/a")
    await reader.get("/a", watch=True)
    await reader.children("/a", watch=True)
    await writer.delete("/a")
    await writer.create("/a")
    assert await reader.exists("/a") is not None
    assert heard == [WatchEvent(DELETED, "/a")]


@on_every_store
async def test_newer_data_is_never_seen_before_its_watch_fired(world: World) -> None:
    writer, reader = await world.open(), await world.open()
    heard = Heard(reader)
    await writer.create("/a", b"0")
    for round_number in range(1, 200):
        await reader.get("/a", watch=True)
        heard.clear()
        writing = asyncio.ensure_future(writer.set("/a", str(round_number).encode()))
        while (await reader.get("/a")).data != str(round_number).encode():
            await asyncio.sleep(0)  # the store in memory answers without letting anybody else run
        assert heard == [WatchEvent(CHANGED, "/a")]
        await writing


@on_every_store
async def test_ones_own_writes_fire_ones_own_watches_before_they_answer(world: World) -> None:
    store = await world.open()
    heard = Heard(store)
    await store.create("/a")
    await store.get("/a", watch=True)
    await store.children("/a", watch=True)
    await store.exists("/b", watch=True)
    await store.multi([Set("/a", b"1"), Create("/a/c"), Create("/b")])
    assert heard == [WatchEvent(CHANGED, "/a"), WatchEvent(CHILDREN, "/a"), WatchEvent(CREATED, "/b")]
    heard.clear()
    await store.get("/b", watch=True)
    answers = await store.write(
        [ConditionalOps((Set("/b", b"1", 7),)), ConditionalOps((Delete("/b"), DeleteTree("/a")))], None
    )
    assert len(answers) == 2
    assert heard == [WatchEvent(DELETED, "/b")]


@on_every_store
async def test_a_multi_that_failed_fires_nothing(world: World) -> None:
    store, other = await world.open(), await world.open()
    heard, others_heard = Heard(store), Heard(other)
    await store.create("/a")
    for session in (store, other):
        await session.get("/a", watch=True)
        await session.children("/", watch=True)
    with pytest.raises(NoNode):
        await store.multi([Set("/a", b"1"), Create("/b"), Delete("/missing")])
    await other.get("/a")
    assert heard == others_heard == []


@on_every_store
async def test_a_group_in_conflict_fires_nothing_and_its_watches_stay_armed(world: World) -> None:
    """What was done of it is taken back, and nobody is told of it."""
    store, other = await world.open(), await world.open()
    heard, others_heard = Heard(store), Heard(other)
    await store.create("/a")
    for session in (store, other):
        await session.get("/a", watch=True)
        await session.children("/", watch=True)
    group = ConditionalOps((Set("/a", b"1"), Create("/b"), Delete("/missing")), parents=("/p",))
    assert await store.write([group], None) == [Conflict("/missing", None, -1)]
    assert (await other.get("/a")).data == b""
    assert heard == others_heard == []
    await store.set("/a", b"2")
    await until(lambda: len(heard) == len(others_heard) == 1)
    assert heard == others_heard == [WatchEvent(CHANGED, "/a")]


@on_every_store
async def test_events_come_in_the_order_of_the_changes(world: World) -> None:
    writer, reader = await world.open(), await world.open()
    heard = Heard(reader)
    paths = [f"/n{number:02d}" for number in range(40)]
    for path in paths:
        await writer.create(path)
    order = paths[::3] + paths[1::3] + paths[2::3]
    await reader.get_many(paths, watch=True)
    for path in order:
        await writer.set(path, b"x")
    await until(lambda: len(heard) == len(paths))
    assert [event.path for event in heard] == order


@on_every_store
async def test_a_few_watches_are_found_among_many_changes(world: World) -> None:
    writer, reader = await world.open(), await world.open()
    heard = Heard(reader)
    await writer.create("/t")
    await writer.write([ConditionalOps((Create(f"/t/{number}"),)) for number in range(500)], None)
    await reader.get_many(["/t/7", "/t/400"], watch=True)
    await reader.children("/t/20", watch=True)
    await writer.write([ConditionalOps((Set(f"/t/{number}", b"x", 0),)) for number in range(500)], None)
    await until(lambda: len(heard) == 2)
    assert heard == [WatchEvent(CHANGED, "/t/7"), WatchEvent(CHANGED, "/t/400")]
    await writer.write([ConditionalOps((DeleteTree("/t"),))], None)
    await until(lambda: len(heard) == 3)
    assert heard[2:] == [WatchEvent(DELETED, "/t/20")]


@on_every_store
async def test_every_listener_hears_until_it_stops(world: World) -> None:
    store = await world.open()
    first, second = [], []
    stop = store.listen(on_watch=first.append)
    store.listen(on_watch=second.append)
    await store.exists("/a", watch=True)
    await store.create("/a")
    stop()
    await store.get("/a", watch=True)
    await store.set("/a", b"x")
    assert [event.kind for event in first] == [CREATED]
    assert [event.kind for event in second] == [CREATED, CHANGED]


@on_every_store
async def test_the_end_of_a_session_fires_the_watches_on_its_nodes(world: World) -> None:
    watcher, owner = await world.open(), await world.open()
    heard = Heard(watcher)
    await owner.create("/ids")
    await owner.create("/ids/1", b"x", ephemeral=True)
    await owner.create("/ids/2", b"x", ephemeral=True)
    await watcher.children("/ids", watch=True)
    await watcher.get("/ids/2", watch=True)
    await world.lose(owner)
    await until(lambda: len(heard) == 2)
    assert sorted(heard, key=lambda event: event.path) == [
        WatchEvent(CHILDREN, "/ids"),
        WatchEvent(DELETED, "/ids/2"),
    ]
    assert await watcher.children("/ids") == []


@on_every_store
async def test_a_transaction_that_changes_nothing_fires_nothing(world: World) -> None:
    writer, reader = await world.open(), await world.open()
    heard = Heard(reader)
    await writer.create("/a", b"0")
    await reader.get("/a", watch=True)
    await writer.multi([Check("/a", 0)])
    assert (await reader.get("/a")).data == b"0"
    assert not heard
    await writer.set("/a", b"1")
    await until(lambda: heard)
    assert heard == [WatchEvent(CHANGED, "/a")]


@on_every_store
async def test_nothing_is_missed_among_many_that_are_read_while_they_change(world: World) -> None:
    """Each is known as it stands, or a hint says that it moved since: whichever way the many are read."""
    writer, reader = await world.open(60_000), await world.open(60_000)
    paths = [f"/n{number:03d}" for number in range(300)]
    await writer.write([ConditionalOps((Create(path, b"0"),)) for path in paths], None)
    known: dict[str, bytes] = {}
    moved: set[str] = set()
    reader.listen(on_watch=lambda event: moved.add(event.path))

    async def change() -> None:
        for turn in range(1, 6):
            for start in range(0, 300, 25):
                await writer.write(
                    [ConditionalOps((Set(path, str(turn).encode()),)) for path in paths[start : start + 25]],
                    None,
                )

    changing = asyncio.ensure_future(change())
    wanted = list(paths)
    while wanted or not changing.done():
        moved.difference_update(wanted)  # what is heard from here on is about something newer
        for path, node in zip(wanted, await reader.get_many(wanted, watch=True), strict=True):
            assert node is not None
            known[path] = node.data
        await asyncio.sleep(0)
        wanted = sorted(moved)
    await changing

    def is_settled() -> bool:
        return all(known[path] == b"5" or path in moved for path in paths)

    await until(is_settled, "every change was told or read")
    assert [node is not None and node.data for node in await reader.get_many(paths)] == [b"5"] * 300
