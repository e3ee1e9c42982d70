"""`write`: groups under a fence, each on its own."""

import asyncio

import pytest

from odradek.store.api import (
    Check,
    ConditionalOps,
    Conflict,
    Create,
    Delete,
    DeleteTree,
    Fence,
    Fenced,
    InvalidPath,
    Put,
    Set,
    Store,
    Stored,
    WatchEvent,
    WatchKind,
)
from tests.conformance.worlds import Heard, World, on_every_store, until


async def _fenced(world: World) -> tuple[Store, Fence]:
    store = await world.open()
    await store.create("/controller_epoch", b"0")
    stat = await store.set("/controller_epoch", b"1")
    return store, Fence(stat.version)


def _one(*ops: object, parents: tuple[str, ...] = ()) -> ConditionalOps:
    return ConditionalOps(tuple(ops), parents)  # type: ignore[arg-type]


@on_every_store
async def test_each_group_is_stored_or_in_conflict_on_its_own(world: World) -> None:
    store, fence = await _fenced(world)
    for name in "abc":
        await store.create(f"/{name}", b"old")
    await store.set("/b", b"newer")
    answers = await store.write(
        [
            _one(Set("/a", b"new", 0)),
            _one(Set("/b", b"new", 0)),
            _one(Set("/c", b"new", 0)),
            _one(Set("/d", b"", 0)),
        ],
        fence,
    )
    assert answers == [Stored(1), Conflict("/b", b"newer", 1), Stored(1), Conflict("/d", None, -1)]
    nodes = await store.get_many(["/a", "/b", "/c"])
    assert [node.data for node in nodes if node] == [b"new", b"newer", b"new"]


@on_every_store
async def test_of_a_group_in_conflict_each_step_is_taken_back(world: World) -> None:
    """Whatever the steps before had made of the same node."""
    store, fence = await _fenced(world)
    await store.create("/a", b"old")
    await store.create("/b", b"old")
    answers = await store.write(
        [
            _one(Set("/a", b"1"), Set("/a", b"2"), Check("/none", 0)),
            _one(Delete("/b"), Create("/b", b"new"), Check("/none", 0)),
        ],
        fence,
    )
    assert answers == [Conflict("/none", None, -1)] * 2
    found = [(node.data, node.stat.version) for node in await store.get_many(["/a", "/b"]) if node]
    assert found == [(b"old", 0), (b"old", 0)]


@on_every_store
async def test_a_fence_that_moved_stops_every_group(world: World) -> None:
    store, fence = await _fenced(world)
    await store.create("/a", b"old")
    await store.set("/controller_epoch", b"2")
    answers = await store.write(
        [_one(Set("/a", b"new", 0)), _one(Create("/b")), _one(DeleteTree("/a"))], fence
    )
    assert answers == [Fenced(), Fenced(), Fenced()]
    assert (await store.get("/a")).data == b"old"
    assert await store.exists("/b") is None
    assert await store.write([_one(Set("/a", b"new", 0))], Fence(0, "/nowhere")) == [Fenced()]
    assert await store.write([_one(Set("/a", b"new", 0))], None) == [Stored(1)]


@on_every_store
async def test_a_fence_holds_for_a_group_that_would_conflict(world: World) -> None:
    """Fenced says more than Conflict: the value that conflicts may be the work of the next controller."""
    store, fence = await _fenced(world)
    await store.create("/a", b"old")
    await store.set("/a", b"by the next controller")
    await store.set("/controller_epoch", b"2")
    assert await store.write([_one(Set("/a", b"new", 0))], fence) == [Fenced()]


@on_every_store
async def test_a_group_that_moves_the_fence_fences_those_after_it(world: World) -> None:
    store, fence = await _fenced(world)
    await store.create("/a")
    answers = await store.write(
        [_one(Set("/a", b"1", 0)), _one(Set(fence.path, b"2", fence.version)), _one(Set("/a", b"2", 1))],
        fence,
    )
    assert answers == [Stored(1), Stored(fence.version + 1), Fenced()]
    assert (await store.get("/a")).data == b"1"


@on_every_store
async def test_a_group_happens_whole_or_not_at_all(world: World) -> None:
    store, fence = await _fenced(world)
    await store.create("/a", b"old")
    answers = await store.write(
        [
            _one(Create("/x"), Create("/x/y"), Set("/a", b"new", 7)),
            _one(Create("/p"), Create("/p/q", b"v"), Set("/p/q", b"w", 0), Check("/p", 0)),
            _one(Delete("/a", 0), Create("/a", b"again")),
        ],
        fence,
    )
    assert answers == [Conflict("/a", b"old", 0), Stored(-1), Stored(0)]
    assert await store.exists("/x") is None
    assert (await store.get("/p/q")).data == b"w"
    assert (await store.get("/a")).data == b"again"


@on_every_store
async def test_parents_are_made_where_they_are_missing(world: World) -> None:
    store, fence = await _fenced(world)
    await store.create("/t", b"assignment")
    groups = [
        _one(
            Create(f"/t/partitions/{number}/state", b"s"),
            parents=("/t/partitions", f"/t/partitions/{number}"),
        )
        for number in range(3)
    ]
    assert await store.write(groups, fence) == [Stored(0)] * 3
    assert await store.children("/t/partitions") == ["0", "1", "2"]
    # Again, as after a lost acknowledgement: the parents are no conflict, the nodes are, with what they hold.
    assert await store.write(groups[:1], fence) == [Conflict("/t/partitions/0/state", b"s", 0)]
    assert (await store.get("/t")).data == b"assignment"


@on_every_store
async def test_a_group_that_failed_leaves_no_parents_behind(world: World) -> None:
    store, fence = await _fenced(world)
    answers = await store.write([_one(Set("/t/x", b"", 0), parents=("/t",))], fence)
    assert answers == [Conflict("/t/x", None, -1)]
    assert await store.exists("/t") is None


@on_every_store
async def test_deleting_a_tree_takes_all_of_it_and_finds_nothing_no_conflict(world: World) -> None:
    store, fence = await _fenced(world)
    for path in ("/t", "/t/a", "/t/a/b", "/t/a/b/c", "/t/z", "/tt", "/t-", "/t-/x", "/t0", "/t0/x"):
        await store.create(path)
    assert await store.write([_one(DeleteTree("/t")), _one(DeleteTree("/t"))], fence) == [
        Stored(-1),
        Stored(-1),
    ]
    assert await store.get_many(["/t", "/t/a/b/c"]) == [None, None]
    assert None not in await store.get_many(["/tt", "/t-", "/t-/x", "/t0", "/t0/x"])


@on_every_store
async def test_put_creates_or_overwrites(world: World) -> None:
    store, fence = await _fenced(world)
    assert await store.write([_one(Put("/c", b"1")), _one(Put("/c", b"2"))], fence) == [Stored(0), Stored(1)]
    node = await store.get("/c")
    assert (node.data, node.stat.version) == (b"2", 1)
    assert await store.write([_one(Put("/c/d/e", b"1"))], fence) == [Conflict("/c/d/e", None, -1)]


@on_every_store
async def test_groups_are_done_in_their_order(world: World) -> None:
    store, fence = await _fenced(world)
    await store.create("/a", b"0")
    groups = [_one(Set("/a", str(number + 1).encode(), number)) for number in range(50)]
    assert await store.write(groups, fence) == [Stored(number + 1) for number in range(50)]
    assert (await store.get("/a")).data == b"50"


@on_every_store
async def test_many_sets_with_a_conflict_in_the_middle(world: World) -> None:
    """The fast way for many sets must answer as the slow one does."""
    store, fence = await _fenced(world)
    await store.create("/t")
    paths = [f"/t/{number}" for number in range(300)]
    await store.write([_one(Create(path)) for path in paths], fence)
    await store.set(paths[77], b"moved")
    watcher = await world.open()
    heard = Heard(watcher)
    await watcher.get_many([paths[77], paths[78]], watch=True)
    answers = await store.write([_one(Set(path, b"x", 0)) for path in paths], fence)
    assert answers[77] == Conflict(paths[77], b"moved", 1)
    assert answers[:77] + answers[78:] == [Stored(1)] * 299
    assert await watcher.exists(paths[78]) is not None
    assert [event.path for event in heard] == [paths[78]], "what was in conflict has not changed"
    again = await store.write([_one(Set(path, b"y", 1)) for path in paths], fence)
    assert again == [Stored(2)] * 300
    stats = [node.stat for node in await store.get_many(paths) if node]
    # Several groups may share a transaction, where the store has only multi.
    assert [stat.mzxid for stat in stats] == sorted(stat.mzxid for stat in stats)
    assert (await store.set("/t", b"later")).mzxid > stats[-1].mzxid


@on_every_store
async def test_many_changes_with_their_parents(world: World) -> None:
    """As of one: what is missing above what another store, or a person, has taken away is made again."""
    store, fence = await _fenced(world)
    paths = [f"/n{number}" for number in range(40)]
    await store.write([_one(Create(path)) for path in paths], fence)
    changes = [_one(Set(path, b"x", 0), parents=("/p", f"/p/{number}")) for number, path in enumerate(paths)]
    assert await store.write(changes, fence) == [Stored(1)] * len(paths)
    assert len(await store.children("/p")) == len(paths)


def _states(numbers: range) -> list[ConditionalOps]:
    return [
        _one(Create(f"/t/p/{number}/state", b"s"), parents=("/t/p", f"/t/p/{number}")) for number in numbers
    ]


@on_every_store
async def test_many_creations_with_their_parents(world: World) -> None:
    store, fence = await _fenced(world)
    watcher = await world.open()
    heard = Heard(watcher)
    await store.create("/t", b"topic")
    for path in ("/t", "/t/p/250", "/t/p/250/state"):
        await watcher.exists(path, watch=True)
    await watcher.children("/t", watch=True)
    assert await store.write(_states(range(300)), fence) == [Stored(0)] * 300
    await until(lambda: len(heard) == 3)
    assert [(event.kind.value, event.path) for event in heard] == [
        ("children", "/t"),
        ("created", "/t/p/250"),
        ("created", "/t/p/250/state"),
    ]
    assert len(await store.children("/t/p")) == 300
    topic, partitions, partition, state = await store.get_many(["/t", "/t/p", "/t/p/7", "/t/p/7/state"])
    assert topic and partitions and partition and state
    assert (topic.data, topic.stat.version, topic.stat.cversion) == (b"topic", 0, 1)
    assert partitions.stat.cversion == 300
    assert (partition.stat.cversion, partition.stat.czxid) == (1, state.stat.czxid)
    assert (state.data, state.stat.cversion) == (b"s", 0)
    # Every count is right: what was made can be taken away, and sequential names go on from there.
    (applied,) = await store.multi([Create("/t/p/s-", sequential=True)])
    assert applied.path == "/t/p/s-0000000300"
    await store.delete("/t/p/7/state")
    await store.delete("/t/p/7")
    # More of them, some there already.
    answers = await store.write(_states(range(250, 350)), fence)
    assert answers == [Conflict(f"/t/p/{n}/state", b"s", 0) for n in range(250, 300)] + [Stored(0)] * 50
    assert len(await store.children("/t/p")) == 350


@on_every_store
async def test_many_creations_of_which_one_cannot_be(world: World) -> None:
    store, fence = await _fenced(world)
    await store.create("/t")
    await store.create("/e", ephemeral=True)

    watcher = await world.open()
    heard = Heard(watcher)
    await watcher.children("/e", watch=True)
    await watcher.exists("/nowhere/x", watch=True)

    def with_one(bad: ConditionalOps) -> list[ConditionalOps]:
        return [*_states(range(50)), bad, *_states(range(50, 100))]

    for bad, expected in [
        (_one(Create("/nowhere/x")), Conflict("/nowhere/x", None, -1)),
        (_one(Create("/u/v/x"), parents=("/u/v",)), Conflict("/u/v", None, -1)),
        (_one(Create("/e/x")), Conflict("/e/x", None, -1)),
        (_one(Create("/e/y/x"), parents=("/e/y",)), Conflict("/e/y", None, -1)),
        (_one(Create("/t/p/3/state")), Conflict("/t/p/3/state", b"s", 0)),
        (_one(Create("/")), Conflict("/", b"", 0)),
        (_one(Create("/t/p/60"), parents=("/t/p",)), Stored(0)),
    ]:
        answers = await store.write(with_one(bad), fence)
        assert answers == [Stored(0)] * 50 + [expected] + [Stored(0)] * 50
        assert len(await store.children("/t/p")) == 100
        assert await store.exists("/nowhere") is None
        assert await store.children("/e") == []
        assert heard == []
        assert await store.write([_one(DeleteTree("/t/p"))], fence) == [Stored(-1)]


@on_every_store
async def test_a_tree_goes_with_one_above_it_in_the_same_group(world: World) -> None:
    store, fence = await _fenced(world)
    for path in ("/t", "/t/a", "/t/a/b", "/t/z"):
        await store.create(path)
    assert await store.write([_one(DeleteTree("/t/a"), DeleteTree("/t"))], fence) == [Stored(-1)]
    assert await store.exists("/t") is None


@on_every_store
async def test_nothing_to_write_is_no_error(world: World) -> None:
    store, fence = await _fenced(world)
    assert await store.write([], fence) == []


@on_every_store
async def test_a_malformed_group_changes_nothing_at_all(world: World) -> None:
    """Our own mistake, not a conflict: it is raised."""
    store, fence = await _fenced(world)
    with pytest.raises(InvalidPath):
        await store.write([_one(Create("/good"), Create("//bad"))], fence)
    assert await store.exists("/good") is None

    watcher = await world.open()
    heard = Heard(watcher)
    await store.create("/a", b"old")
    await watcher.get("/a", watch=True)
    for bad in (_one(Create("//bad")), _one(Create("/a/b"), parents=("//bad",)), _one(Delete("bad"))):
        with pytest.raises(InvalidPath):
            await store.write([_one(Set("/a", b"new", 0)), bad], fence)
        assert (await watcher.get("/a")).data == b"old", "newer data is seen, and its watch has not fired"
    assert heard == []
    await store.set("/a", b"new")
    await until(lambda: heard == [WatchEvent(WatchKind.CHANGED, "/a")])


@on_every_store
async def test_writers_that_race_lose_nothing(world: World) -> None:
    """Compare-and-set by three sessions at once: the counter ends at the number of successes."""
    sessions = [await world.open() for _ in range(3)]
    await sessions[0].create("/counter", b"0")

    async def count(session: Store) -> int:
        successes = 0
        while successes < 30:
            node = await session.get("/counter")
            group = _one(Set("/counter", str(int(node.data) + 1).encode(), node.stat.version))
            (answer,) = await session.write([group], None)
            if isinstance(answer, Stored):
                successes += 1
            else:
                assert isinstance(answer, Conflict)
                assert answer.version > node.stat.version
            await asyncio.sleep(0)
        return successes

    assert sum(await asyncio.gather(*map(count, sessions))) == 90
    node = await sessions[1].get("/counter")
    assert (node.data, node.stat.version) == (b"90", 90)
