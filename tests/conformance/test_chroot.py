"""Two clusters in one store, each below its own node (behaviour 5)."""

import asyncio

import pytest

from odradek.store import chroot
from odradek.store.api import (
    ConditionalOps,
    Conflict,
    Create,
    Fence,
    NoNode,
    NotAllowed,
    Set,
    Store,
    Stored,
    WatchEvent,
    WatchKind,
)
from odradek.store.chroot import ChrootedStores
from odradek.store.memory_session import MemoryEnsemble
from tests.conformance.worlds import LONG_MS, Heard, World, on_every_store, until


class _Stores:
    def __init__(self, world: World) -> None:
        self._world = world

    async def open_session(self, session_timeout_ms: int) -> Store:
        return await self._world.open(session_timeout_ms)

    async def close(self) -> None:
        """The world closes its own."""


@on_every_store
async def test_a_chrooted_session_sees_its_own_tree_only(world: World) -> None:
    plain = await world.open()
    red = await ChrootedStores(_Stores(world), "/clusters/red").open_session(LONG_MS)
    blue = await ChrootedStores(_Stores(world), "/clusters/blue").open_session(LONG_MS)
    assert (await red.create("/controller_epoch", b"1")).path == "/controller_epoch"
    assert await blue.exists("/controller_epoch") is None
    assert await red.children("/") == ["controller_epoch"]
    assert (await plain.get("/clusters/red/controller_epoch")).data == b"1"
    heard = Heard(red)
    await red.get("/controller_epoch", watch=True)
    await red.children("/", watch=True)
    await plain.set("/clusters/red/controller_epoch", b"2")
    await plain.create("/clusters/red/other")
    await until(lambda: len(heard) == 2)
    assert heard == [WatchEvent(WatchKind.CHANGED, "/controller_epoch"), WatchEvent(WatchKind.CHILDREN, "/")]


def test_others_have_their_turns_while_many_paths_are_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller writes and reads a node for each of 100,000 partitions."""
    monkeypatch.setattr(chroot, "AT_ONCE", 10)
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    async def main() -> None:
        session = await ChrootedStores(MemoryEnsemble(), "/red").open_session(LONG_MS)
        paths = ["/a", *(f"/a/{number}" for number in range(99))]
        turn()
        made = await session.write([ConditionalOps((Create(path),)) for path in paths], None)
        assert made == [Stored(0)] * 100 and turns >= 18
        before = turns
        assert None not in await session.get_many(paths)
        assert turns >= before + 9
        before = turns
        assert len(await session.children_many(["/", *paths])) == 101
        assert turns >= before + 9

    asyncio.run(main())


@on_every_store
async def test_writes_errors_and_conflicts_name_inner_paths(world: World) -> None:
    red = await ChrootedStores(_Stores(world), "/red").open_session(LONG_MS)
    await red.create("/controller_epoch", b"1")
    answers = await red.write(
        [
            ConditionalOps((Create("/a/b"),), parents=("/a",)),
            ConditionalOps((Set("/a/b", b"", 5),)),
        ],
        Fence(0),
    )
    assert answers == [Stored(0), Conflict("/a/b", b"", 0)]
    (applied,) = await red.multi([Create("/a/s-", sequential=True)])
    assert applied.path == "/a/s-0000000001"
    with pytest.raises(NoNode) as caught:
        await red.get("/missing")
    assert caught.value.path == "/missing"
    assert "/red" not in str(caught.value)
    assert [node is None for node in await red.get_many(["/a", "/x"])] == [False, True]
    assert await red.children_many(["/a", "/x"]) == [["b", "s-0000000001"], None]


def test_two_brokers_that_start_together_find_one_root() -> None:
    class Faster:
        """Makes the node that another is about to make."""

        async def before(self, session_id: int, call: str) -> None:
            if call == "multi" and "/clusters" not in dict(ensemble.tree.walk()):
                ensemble.tree.multi(session_id, [Create("/clusters")])

        async def after(self, session_id: int, call: str) -> None:
            """Nothing is done."""

    ensemble = MemoryEnsemble(gate=Faster())

    async def main() -> None:
        session = await ChrootedStores(ensemble, "/clusters/red").open_session(LONG_MS)
        assert await session.children("/") == []

    asyncio.run(main())


def test_a_session_whose_root_cannot_be_looked_at_is_none() -> None:
    """Whoever asks for one asks again, ten times a second: each that is left open has threads and a connection."""

    class Closed:
        async def before(self, session_id: int, call: str) -> None:
            raise NotAllowed("/cluster", "the ACL names others")

        async def after(self, session_id: int, call: str) -> None:
            """Nothing is done."""

    async def main() -> None:
        ensemble = MemoryEnsemble(gate=Closed())
        with pytest.raises(NotAllowed):
            await ChrootedStores(ensemble, "/cluster").open_session(LONG_MS)
        assert not ensemble.tree.sessions

    asyncio.run(main())
