"""Nodes, versions, transactions: what every store must do alike."""

import pytest

from odradek.store.api import (
    BadVersion,
    Check,
    Create,
    Delete,
    InvalidPath,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Set,
)
from tests.conformance.worlds import World, on_every_store


@on_every_store
async def test_a_node_keeps_its_data_and_counts_its_versions(world: World) -> None:
    store = await world.open()
    path, created = await store.create("/a", b"one")
    assert path == "/a"
    assert created is not None
    assert (created.version, created.cversion, created.ephemeral_owner) == (0, 0, 0)
    assert created.czxid == created.mzxid > 0
    assert (await store.get("/a")).data == b"one"

    changed = await store.set("/a", b"two")
    assert changed.version == 1
    assert changed.czxid == created.czxid
    assert changed.mzxid > created.mzxid
    node = await store.get("/a")
    assert node.data == b"two"
    assert node.stat == changed == await store.exists("/a")


@on_every_store
async def test_transaction_ids_grow_strictly(world: World) -> None:
    store, other = await world.open(), await world.open()
    ids = []
    for number, session in enumerate([store, other, store, other]):
        stat = (await session.create(f"/n{number}")).stat
        assert stat is not None
        ids.append(stat.czxid)
        ids.append((await session.set(f"/n{number}", b"x")).mzxid)
    assert ids == sorted(set(ids))


@on_every_store
async def test_a_set_under_the_wrong_version_changes_nothing(world: World) -> None:
    store = await world.open()
    await store.create("/a", b"one")
    await store.set("/a", b"two", 0)
    with pytest.raises(BadVersion) as caught:
        await store.set("/a", b"three", 0)
    assert caught.value.path == "/a"
    assert (await store.get("/a")).data == b"two"


@on_every_store
async def test_errors_are_named_by_what_is_wrong(world: World) -> None:
    store = await world.open()
    await store.create("/a")
    await store.create("/a/b")
    with pytest.raises(NodeExists):
        await store.create("/a")
    with pytest.raises(NoNode):
        await store.create("/missing/child")
    with pytest.raises(NoNode):
        await store.get("/missing")
    with pytest.raises(NoNode):
        await store.children("/missing")
    with pytest.raises(NoNode):
        await store.set("/missing", b"")
    with pytest.raises(NoNode):
        await store.delete("/missing")
    with pytest.raises(NotEmpty):
        await store.delete("/a")
    with pytest.raises(BadVersion):
        await store.delete("/a/b", 7)
    assert await store.exists("/missing") is None
    assert await store.children("/a") == ["b"]


@on_every_store
async def test_a_deleted_node_begins_anew(world: World) -> None:
    store = await world.open()
    first = (await store.create("/a", b"one")).stat
    await store.set("/a", b"two")
    await store.delete("/a", 1)
    assert await store.exists("/a") is None
    second = (await store.create("/a", b"three")).stat
    assert first is not None
    assert second is not None
    assert second.version == 0
    assert second.czxid > first.czxid


@on_every_store
async def test_children_are_sorted_and_counted(world: World) -> None:
    store = await world.open()
    await store.create("/a")
    for name in ("2", "10", "1", "b"):
        await store.create(f"/a/{name}")
    assert await store.children("/a") == ["1", "10", "2", "b"]
    await store.delete("/a/10")
    stat = await store.exists("/a")
    assert stat is not None
    assert stat.cversion == 5  # four came, one went
    assert stat.version == 0
    assert "a" in await store.children("/")
    assert await store.children("/a/b") == []


@on_every_store
async def test_the_children_of_one_node_are_not_those_of_its_namesake(world: World) -> None:
    """`/a` and `/ab`, `/a/b` and `/a-/b`: prefixes that are no parents."""
    store = await world.open()
    for path in ("/a", "/ab", "/a-", "/a0", "/a/b", "/ab/c", "/a-/d", "/a0/e", "/a/b/f"):
        await store.create(path)
    assert await store.children("/a") == ["b"]
    assert await store.children("/ab") == ["c"]
    assert await store.children("/a/b") == ["f"]


@on_every_store
async def test_sequential_names_carry_the_parents_count_of_creations(world: World) -> None:
    store = await world.open()
    await store.create("/q")
    first = await store.create("/q/n-", sequential=True)
    assert first.path == "/q/n-0000000000"
    await store.create("/q/other")
    second = await store.create("/q/n-", b"data", sequential=True)
    assert second.path == "/q/n-0000000002"
    await store.delete(first.path)
    third = await store.create("/q/n-", sequential=True)
    assert third.path == "/q/n-0000000003"
    assert (await store.get(second.path)).data == b"data"


@on_every_store
async def test_a_multi_happens_whole_or_not_at_all(world: World) -> None:
    store = await world.open()
    await store.create("/a", b"one")
    applied = await store.multi(
        [
            Check("/a", 0),
            Create("/a/b", b"x"),
            Set("/a", b"two", 0),
            Set("/a/b", b"y"),
            Create("/a/b/c"),
            Delete("/a/b/c"),
        ]
    )
    assert [each.path for each in applied] == ["/a", "/a/b", "/a", "/a/b", "/a/b/c", "/a/b/c"]
    assert [each.stat.version if each.stat else None for each in applied] == [None, 0, 1, 1, 0, None]
    ids = {each.stat.mzxid for each in applied if each.stat}
    assert len(ids) == 1, "one transaction has one id"

    before = [await store.get("/a"), await store.get("/a/b"), await store.children("/")]
    with pytest.raises(BadVersion) as caught:
        await store.multi([Set("/a", b"three"), Create("/z"), Delete("/a/b"), Check("/a", 99)])
    assert (caught.value.path, caught.value.index) == ("/a", 3)
    with pytest.raises(NodeExists):
        await store.multi([Create("/z"), Create("/z/1"), Create("/a")])
    assert [await store.get("/a"), await store.get("/a/b"), await store.children("/")] == before
    assert await store.exists("/z") is None


@on_every_store
async def test_a_multi_that_failed_leaves_no_gap_in_sequential_names(world: World) -> None:
    store = await world.open()
    await store.create("/q")
    with pytest.raises(NoNode):
        await store.multi([Create("/q/n-", sequential=True), Delete("/missing")])
    assert (await store.create("/q/n-", sequential=True)).path == "/q/n-0000000000"


@on_every_store
async def test_the_root_stays(world: World) -> None:
    store = await world.open()
    with pytest.raises(NodeExists):
        await store.create("/")
    stat = await store.exists("/")
    assert stat is not None
    assert stat.ephemeral_owner == 0


@on_every_store
async def test_paths_that_name_no_node_are_refused(world: World) -> None:
    store = await world.open()
    await store.create("/a")
    for path in ("", "a", "/a/", "//a", "/a//b", "/a/./b", "/a/../b", "/a\0b", "/a\nb", "/a\ud800"):
        with pytest.raises(InvalidPath):
            await store.create(path)
        for call in (store.exists, store.get, store.children, store.delete):
            with pytest.raises(InvalidPath):
                await call(path)
        with pytest.raises(InvalidPath):
            await store.set(path, b"")
        for paths in ([path], [path] * 100):
            with pytest.raises(InvalidPath):
                await store.get_many(paths)
    for path in ("/.a", "/a.b", "/a..b", "/ü", "/a b", "/<default>"):
        await store.create(path)
        assert await store.exists(path) is not None


@on_every_store
async def test_an_ephemeral_node_has_an_owner_and_no_children(world: World) -> None:
    store, other = await world.open(), await world.open()
    created = await store.create("/e", b"x", ephemeral=True)
    assert created.stat is not None
    assert created.stat.ephemeral_owner == store.session_id != 0
    assert (await other.get("/e")).stat.ephemeral_owner == store.session_id
    with pytest.raises(NoChildrenForEphemerals):
        await other.create("/e/child")
    await other.set("/e", b"y")  # anybody may write it
    assert (await store.get("/e")).data == b"y"
    await other.delete("/e")
    assert await store.exists("/e") is None


@on_every_store
async def test_many_nodes_are_read_in_one_round(world: World) -> None:
    store = await world.open()
    await store.create("/t")
    for number in range(100):
        await store.multi([Create(f"/t/{number}"), Create(f"/t/{number}/state", str(number).encode())])
    states = [f"/t/{number}/state" for number in range(0, 120, 3)]
    found = await store.get_many(states)
    assert [node.data if node else None for node in found] == [
        str(number).encode() if number < 100 else None for number in range(0, 120, 3)
    ]
    node = await store.get("/t/3/state")
    assert found[1] == node
    # Many of one parent, in the order asked for, one of them twice.
    names = [f"/t/{number}" for number in range(99, -1, -1)] + ["/t/5", "/nowhere"]
    assert [node is not None for node in await store.get_many(names)] == [True] * 101 + [False]
    assert await store.get_many([]) == []
    lists = await store.children_many(["/t/1", "/missing", "/t/2/state"])
    assert lists == [["state"], None, []]


@on_every_store
async def test_a_node_may_be_large_and_hold_any_bytes(world: World) -> None:
    store = await world.open()
    data = bytes(range(256)) * 3500
    await store.create("/large", data)
    assert (await store.get("/large")).data == data
    await store.create("/empty")
    assert (await store.get("/empty")).data == b""
