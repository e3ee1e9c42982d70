"""Groups for a store that knows only multi: what is derived, what is stale, what is too large. No server."""

import asyncio
from collections.abc import Sequence

import pytest

from odradek.store.api import (
    Applied,
    Check,
    ConditionalOps,
    Conflict,
    Create,
    Delete,
    DeleteTree,
    Fence,
    Fenced,
    NodeExists,
    NoNode,
    Op,
    Put,
    Set,
    Stored,
    StoreUnavailable,
)
from odradek.store.memory_session import MemoryEnsemble
from odradek.store.zookeeper import plan as planning
from odradek.store.zookeeper.plan import batch_at, independent, parts_of, plan, wanted_by
from odradek.store.zookeeper.write import write_groups
from tests.conformance.worlds import MultiOnly


def _group(*ops: Op, parents: tuple[str, ...] = ()) -> ConditionalOps:
    return ConditionalOps(ops, parents)


def test_a_batch_ends_where_the_packet_does() -> None:
    small = [_group(Set(f"/n{number}", b"x" * 100, 0)) for number in range(5000)]
    assert len(batch_at(small, 0, None)) == planning.MAX_BATCH_GROUPS
    assert len(batch_at(small, 4999, None)) == 1
    large = [_group(Set("/n", b"x" * 300_000, 0)) for _ in range(5)]
    assert len(batch_at(large, 0, None)) == 2
    too_large = [_group(Set("/n", b"x" * 2_000_000, 0))] * 2
    assert len(batch_at(too_large, 0, None)) == 1, "one group at least, or nothing would ever be done"


def test_trees_and_the_fence_stand_alone() -> None:
    fence = Fence(3)
    groups = [_group(Set("/a", b"", 0)), _group(DeleteTree("/b")), _group(Set("/c", b"", 0))]
    assert [len(batch_at(groups, start, fence)) for start in range(3)] == [1, 1, 1]
    groups[1] = _group(Set(fence.path, b"", 3))
    assert [len(batch_at(groups, start, fence)) for start in range(3)] == [1, 1, 1]
    assert len(batch_at(groups, 0, None)) == 3


def test_groups_are_planned_on_what_those_before_them_do() -> None:
    groups = [
        _group(Create("/t/p/0/s"), parents=("/t/p", "/t/p/0")),
        _group(Create("/t/p/1/s"), parents=("/t/p", "/t/p/1")),
        _group(Put("/c", b"1")),
        _group(Put("/c", b"2")),
        _group(Delete("/c"), Put("/c", b"3")),
    ]
    wanted = wanted_by(groups)
    assert list(wanted.exists) == ["/t/p", "/t/p/0", "/t/p/1", "/c"]
    planned = plan(groups, dict.fromkeys(wanted.exists, False), {})
    assert [each.ops for each in planned] == [
        (Create("/t/p"), Create("/t/p/0"), Create("/t/p/0/s")),
        (Create("/t/p/1"), Create("/t/p/1/s")),
        (Create("/c", b"1"),),
        (Set("/c", b"2"),),
        (Delete("/c"), Create("/c", b"3")),
    ]
    assert [list(each.derived) for each in planned] == [[0, 1], [0], [0], [0], [1]]


def test_only_what_we_derived_can_be_stale() -> None:
    (planned,) = plan(
        [_group(Create("/a/b"), Put("/c", b""), parents=("/a",))], {"/a": False, "/c": True}, {}
    )
    assert planned.ops == (Create("/a"), Create("/a/b"), Set("/c", b""))
    assert planned.is_stale(0, NodeExists("/a"))
    assert not planned.is_stale(0, NoNode("/a")), "the parent of a parent is missing: nobody asked for it"
    assert not planned.is_stale(1, NodeExists("/a/b"))
    assert planned.is_stale(2, NoNode("/c"))


def test_a_tree_goes_from_the_leaves_up() -> None:
    (planned,) = plan([_group(DeleteTree("/t"))], {}, {"/t": ["/t", "/t/a", "/t/a/b", "/t/c"]})
    assert planned.ops == (Delete("/t/a/b"), Delete("/t/a"), Delete("/t/c"), Delete("/t"))


def test_many_trees_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of notifications that a controller finds must not be a round each."""

    async def main() -> None:
        session = MemoryEnsemble().open()
        paths = [f"/t/n{number}" for number in range(50)]
        await session.multi([Create(path) for path in ("/t", *paths, "/t/n7/below")])
        looks: list[int] = []
        children_many = session.children_many

        async def looked(paths: Sequence[str]) -> list[list[str] | None]:
            looks.append(len(paths))
            return await children_many(paths)

        monkeypatch.setattr(session, "children_many", looked)
        group = _group(*(DeleteTree(path) for path in [*paths, "/t/gone"]))
        assert await write_groups(session, [group], None) == [Stored(-1)]
        assert looks == [51, 1]
        assert await session.children("/t") == []

    asyncio.run(main())


def test_behind_a_lost_election_nothing_more_is_asked_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller of 100,000 partitions would send all that it wanted, to be told each time that it leads no more."""
    monkeypatch.setattr(planning, "MAX_BATCH_GROUPS", 4)

    class Counting(MultiOnly):
        asked = 0

        async def multi(self, ops: Sequence[Op]) -> list[Applied]:
            Counting.asked += 1
            return await super().multi(ops)

    async def main() -> None:
        session = MemoryEnsemble().open()
        await session.create("/controller_epoch")
        fence = Fence((await session.set("/controller_epoch", b"2")).version - 1)
        await session.multi([Create(f"/n{number}") for number in range(400)])
        session.__class__ = Counting
        # One in between that goes by itself: behind it the others go together again.
        writes = [_group(Set(f"/n{number}", b"x", 0)) for number in range(400)]
        writes[40] = _group(Set("/n40", b"x", 0), Set("/n41", b"x", 0))
        assert await write_groups(session, writes, fence) == [Fenced()] * 400  # type: ignore[arg-type]
        assert Counting.asked <= 2 * planning.MAX_UNDER_WAY + 2

    asyncio.run(main())


def test_a_tree_too_large_for_a_packet_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MAX_BATCH_BYTES", 1000)
    paths = ["/t", *(f"/t/{number}" for number in range(30))]
    (planned,) = plan([_group(DeleteTree("/t"))], {}, {"/t": paths})
    parts = parts_of(planned)
    assert len(parts) > 2
    assert [op for part in parts for op in part.ops] == list(planned.ops)
    assert all(part.is_stale(0, NoNode("/x")) for part in parts)

    async def run() -> None:
        session = MemoryEnsemble().open()
        for path in paths:
            await session.create(path)
        assert await write_groups(session, [_group(DeleteTree("/t"))], None) == [Stored(-1)]
        assert await session.children("/") == []

    asyncio.run(run())


def test_of_a_tree_too_large_for_a_packet_nothing_goes_where_the_fence_has_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another controller was elected: what this one was about to delete is not its to delete any more."""
    monkeypatch.setattr(planning, "MAX_BATCH_BYTES", 1000)

    async def run() -> None:
        session = MemoryEnsemble().open()
        await session.create("/controller_epoch")
        await session.set("/controller_epoch", b"2")
        for path in ("/t", *(f"/t/{number}" for number in range(30))):
            await session.create(path)
        assert await write_groups(session, [_group(DeleteTree("/t"))], Fence(0)) == [Fenced()]
        assert len(await session.children("/t")) == 30

    asyncio.run(run())


class _Meddled(MultiOnly):
    """Somebody else is faster: `meddling` happens between our look and our multi, as often as there is some."""

    meddling: list[list[Op]]
    multis: int = 0
    ops: int = 0
    sent: list[list[str]]

    async def multi(self, ops: list[Op]) -> list[Applied]:
        self.multis += 1
        self.ops += len(ops)
        self.sent.append([op.path for op in ops if not isinstance(op, Check)])
        await asyncio.sleep(0)  # as a server does, it lets others go on
        if self.meddling:
            await super().multi(self.meddling.pop(0))
        return await super().multi(ops)


def _meddled(*meddling: list[Op]) -> _Meddled:
    ensemble = MemoryEnsemble()
    session = _Meddled(ensemble, ensemble.tree.open_session(6000), 6000)
    session.meddling = list(meddling)
    session.sent = []
    return session


@pytest.mark.parametrize(
    ("meddling", "group", "rounds"),
    [
        ([Create("/a")], _group(Create("/a/b"), parents=("/a",)), 2),
        ([Create("/c", b"theirs")], _group(Put("/c", b"ours")), 2),
        ([Create("/t/young")], _group(DeleteTree("/t")), 2),
        ([Delete("/t/old")], _group(DeleteTree("/t")), 2),
        ([Delete("/t/old"), Delete("/t")], _group(DeleteTree("/t")), 1),  # nothing is left to do
    ],
)
def test_a_look_that_was_overtaken_is_taken_again(
    meddling: list[Op], group: ConditionalOps, rounds: int
) -> None:
    async def run() -> None:
        session = _meddled()
        await session.create("/t")
        await session.create("/t/old")
        session.meddling.append(meddling)
        session.multis = 0
        (answer,) = await write_groups(session, [group], None)
        assert isinstance(answer, Stored)
        assert session.multis == rounds
        if group.ops == (DeleteTree("/t"),):
            assert await session.exists("/t") is None

    asyncio.run(run())


def test_others_who_are_always_faster_are_named() -> None:
    async def run() -> None:
        session = _meddled(*[[Create("/c")] if turn % 2 == 0 else [Delete("/c")] for turn in range(100)])
        with pytest.raises(StoreUnavailable, match="others were faster"):
            await write_groups(session, [_group(Put("/c", b""))], None)

    asyncio.run(run())


def test_an_undisturbed_write_is_one_round_and_a_conflict_costs_two_more() -> None:
    async def run() -> None:
        session = _meddled()
        for number in range(100):
            await session.create(f"/n{number}")
        groups = [_group(Set(f"/n{number}", b"", 0)) for number in range(100)]
        session.multis = 0
        assert await write_groups(session, groups, None) == [Stored(1)] * 100
        assert session.multis == 1
        groups = [_group(Set(f"/n{number}", b"", 0 if number == 40 else 1)) for number in range(100)]
        session.multis = 0
        answers = await write_groups(session, groups, None)
        assert answers == [Stored(2)] * 40 + [Conflict("/n40", b"", 1)] + [Stored(2)] * 59
        assert session.multis == 4  # failed; those before; the one; those after

    asyncio.run(run())


def test_where_all_conflict_no_large_batch_is_sent_in_vain() -> None:
    """Another controller has written them all: the answer to each is what stands there now."""
    count = 2_000

    async def run() -> None:
        session = _meddled()
        for number in range(count):
            await session.create(f"/n{number}", b"theirs")
        session.ops = 0
        groups = [_group(Set(f"/n{number}", b"ours", 7)) for number in range(count)]
        answers = await write_groups(session, groups, None)
        assert answers == [Conflict(f"/n{number}", b"theirs", 0) for number in range(count)]
        assert session.ops < 20 * count, "each conflict cost a whole batch"

    asyncio.run(run())


def test_after_a_conflict_batches_grow_again() -> None:
    count = 4_000

    async def run() -> None:
        session = _meddled()
        for number in range(count):
            await session.create(f"/n{number}")
        session.multis = 0
        groups = [_group(Set(f"/n{number}", b"", 7 if number == 0 else 0)) for number in range(count)]
        answers = await write_groups(session, groups, None)
        assert answers == [Conflict("/n0", b"", 0)] + [Stored(1)] * (count - 1)
        assert session.multis < 8

    asyncio.run(run())


def _sets(count: int, wrong: int = -1) -> list[ConditionalOps]:
    return [_group(Set(f"/n{number}", b"", 7 if number == wrong else 0)) for number in range(count)]


def test_conditional_sets_of_different_nodes_are_under_way_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MAX_BATCH_GROUPS", 2)

    async def run() -> None:
        session = _meddled()
        for number in range(6):
            await session.create(f"/n{number}")
        session.sent.clear()
        answers = await write_groups(session, _sets(6, wrong=1), None)
        assert answers == [Stored(1), Conflict("/n1", b"", 0), *[Stored(1)] * 4]
        assert session.sent[:3] == [["/n0", "/n1"], ["/n2", "/n3"], ["/n4", "/n5"]]
        assert sorted(path for paths in session.sent[3:] for path in paths) == ["/n0", "/n0", "/n1", "/n1"]

    asyncio.run(run())


def test_what_was_done_before_the_fence_moved_is_told_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MAX_BATCH_GROUPS", 2)

    async def run() -> None:
        session = _meddled()
        await session.create("/controller_epoch")
        for number in range(8):
            await session.create(f"/n{number}")
        session.meddling = [[], [], [Set("/controller_epoch", b"2")]]
        answers = await write_groups(session, _sets(8), Fence(0))
        assert answers == [Stored(1)] * 4 + [Fenced()] * 4
        assert [(await session.get(f"/n{number}")).stat.version for number in range(8)] == [1] * 4 + [0] * 4

    asyncio.run(run())


@pytest.mark.parametrize(
    "other",
    [
        _group(Set("/n0", b"", 1)),  # of a node that one before it writes
        _group(Set("/n9", b"")),  # whatever stands there
        _group(Set("/controller_epoch", b"", 0)),
        _group(Create("/n9")),
        _group(Delete("/n9")),
        _group(Put("/n9", b"")),
        _group(DeleteTree("/n9")),
        _group(Set("/n8", b"", 0), Set("/n9", b"", 0)),
        _group(Set("/n9", b"", 0), parents=("/p",)),
    ],
)
def test_whatever_could_depend_on_what_is_before_it_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, other: ConditionalOps
) -> None:
    monkeypatch.setattr(planning, "MAX_BATCH_GROUPS", 2)
    groups = [*_sets(5), other]
    batches = list(independent(groups, 0, Fence(0), 2))
    assert batches[:2] == [[group.ops[0] for group in groups[at : at + 2]] for at in (0, 2)]
    assert not any(op in batch for batch in batches for op in other.ops)


def test_a_fence_that_moves_between_two_batches_stops_the_rest() -> None:
    async def run() -> None:
        session = _meddled()
        await session.create("/controller_epoch")
        await session.create("/t")
        session.meddling = [[Check("/controller_epoch", 0)], [Set("/controller_epoch", b"2")]]
        groups = [_group(Create("/a")), _group(DeleteTree("/t")), _group(Create("/b"))]
        assert await write_groups(session, groups, Fence(0)) == [Stored(0), Fenced(), Fenced()]
        assert await session.children("/") == ["a", "controller_epoch", "t"]

    asyncio.run(run())
