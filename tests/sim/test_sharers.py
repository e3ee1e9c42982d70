"""A group of KIP-848 in simulated worlds: what is wrong on purpose is named, and the group outlives its coordinator."""

import pytest

from odradek.sim.checkers.removals import Removal
from odradek.sim.checkers.sharers import (
    Committing,
    Held,
    Left,
    MemberAnswer,
    Shared,
    SharingHistory,
    Taken,
    check_sharing,
)
from odradek.sim.plan import GROUP_KINDS, Fault, _of_sharers
from odradek.sim.run import CORRECTNESS, OK, describe, run
from odradek.sim.world import World
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.plans import three_brokers

P, Q = ("id", 0), ("id", 1)


def found(*events: MemberAnswer | Held | Taken, removals: tuple[Removal, ...] = ()) -> list[str]:
    history = SharingHistory(
        [event for event in events if isinstance(event, MemberAnswer)],
        [event for event in events if isinstance(event, Held)],
        [event for event in events if isinstance(event, Taken)],
    )
    return [anomaly.name for anomaly in check_sharing(history, removals=removals)]


def test_a_partition_has_one_owner_at_a_time() -> None:
    assert found(Held("a", P, 1.0, 2.0), Held("b", P, 2.0, 3.0), Held("b", Q, 1.0, 3.0)) == []
    assert found(Held("a", P, 1.0, 2.0), Held("b", P, 1.5, 3.0)) == ["owned-twice"]
    assert found(Held("a", P, 1.0, 9.0), Held("b", P, 2.0, 3.0), Held("c", P, 4.0, 5.0)) == [
        "owned-twice",
        "owned-twice",
    ]
    assert found(Held("a", P, 1.0, 2.0), Held("a", P, 1.5, 3.0)) == [], "it owns it already"
    assert found(Held("a", P, 3.0, 2.0), Held("b", P, 2.0, 4.0)) == [], "its session was over by then"


def test_epochs_rise() -> None:
    a = MemberAnswer("a", 1, 0.0, 0.1, True), MemberAnswer("a", 3, 1.0, 1.1, False)
    assert found(*a, MemberAnswer("a", 3, 2.0, 2.1, False), MemberAnswer("b", 3, 2.0, 2.1, True)) == []
    assert found(*a, MemberAnswer("a", 2, 2.0, 2.1, False)) == ["member-epoch-fell"]
    assert found(*a, MemberAnswer("b", 2, 2.0, 2.1, True)) == ["group-epoch-fell"]
    assert found(*a, MemberAnswer("b", 2, 1.0, 2.1, True)) == [], "asked before it was told"
    assert found(*a, MemberAnswer("b", 2, 2.0, 2.1, False)) == [], "it has still to let go of some"


def test_a_commit_is_not_taken_of_who_lost_the_partition() -> None:
    b = MemberAnswer("b", 4, 1.0, 1.1, False, frozenset({P}))
    assert found(b, Taken("a", 3, Q, 2.0), Taken("b", 4, P, 2.0)) == []
    assert found(b, Taken("a", 3, P, 2.0)) == ["fenced-commit"]
    assert found(b, Taken("a", 3, P, 1.05)) == [], "under way at the same time"
    assert found(b, Taken("a", 5, P, 2.0)) == [], "it got it back"


def test_in_an_epoch_a_partition_is_assigned_to_one_member() -> None:
    one, both = frozenset({P}), frozenset({P, Q})
    a = MemberAnswer("a", 1, 0.0, 0.1, True, one)
    assert (
        found(a, MemberAnswer("a", 1, 1.0, 1.1, False, both), MemberAnswer("b", 2, 2.0, 2.1, True, one)) == []
    )
    assert found(a, MemberAnswer("b", 1, 9.0, 9.1, True, both)) == ["share-twice"]
    assert found(a, MemberAnswer("b", 1, 9.0, 9.1, True)) == [], "it is told of nothing"


def test_a_group_that_was_removed_begins_anew_and_one_that_was_not_does_not() -> None:
    once, one = (Removal(1.0, 1.1),), frozenset({P})
    before = MemberAnswer("a", 1, 0.0, 0.1, True, one), MemberAnswer("a", 7, 0.2, 0.3, False)
    after = MemberAnswer("b", 1, 2.0, 2.1, True, one), MemberAnswer("a", 2, 2.0, 2.1, True)
    names = ["group-epoch-fell", "group-epoch-fell", "member-epoch-fell", "share-twice"]

    assert found(*before, *after, removals=once) == []
    assert sorted(found(*before, *after)) == names
    assert sorted(found(*before, *after, removals=(Removal(3.0, 3.1),))) == names, "later"
    assert found(*before, *after, MemberAnswer("c", 1, 3.0, 3.1, True), removals=once) == ["group-epoch-fell"]
    owned_twice = Held("a", P, 0.5, 3.0), Held("b", P, 2.0, 3.0)
    assert found(*before, *after, *owned_twice, removals=once) == ["owned-twice"]


def test_a_commit_is_not_taken_of_a_member_of_a_group_that_was_removed() -> None:
    once, a = (Removal(1.0, 1.1),), MemberAnswer("a", 7, 0.0, 0.1, True)

    assert found(a, Taken("a", 7, P, 2.0), removals=once) == ["fenced-commit"]
    assert found(a, Taken("a", 7, P, 0.5), removals=once) == [], "before"
    assert found(a, MemberAnswer("a", 1, 1.5, 1.6, True), Taken("a", 1, P, 2.0), removals=once) == []


def test_what_is_left_in_the_end_is_the_last_that_was_taken_or_one_of_which_nobody_was_told() -> None:
    taken = Committing(P, 1, 1.0, 1.1), Committing(P, 2, 2.0, 2.1)
    unheard = Committing(P, 3, 3.0)

    def names(offset: int, *committing: Committing, at: Shared = P) -> list[str]:
        history = SharingHistory(committing=list(committing), left=[Left(at, offset)])
        return [anomaly.name for anomaly in check_sharing(history)]

    assert names(2, *taken) == names(2, *taken, unheard) == names(3, *taken, unheard) == []
    assert names(-1) == names(-1, unheard) == names(-1, *taken, at=Q) == []
    assert names(1, *taken) == names(-1, *taken) == ["lost-commit"]
    assert names(1, Committing(P, 1, 1.0), *taken[1:]) == [], "it may have been carried out late"
    assert names(1, Committing(P, 1, 1.0, 2.1), *taken[1:]) == [], "under way at the same time"
    assert names(2, taken[1], Committing(P, 1, 3.0, 3.1)) == ["lost-commit"], (
        "the last one, and not the largest"
    )
    assert names(9, *taken) == names(2, *taken, at=Q) == ["unasked-offset"]


ANOTHER = Edit("coordinator.committing:_commit", "one.committed_offset", "one.committed_offset + 1")
UNWRITTEN = Edit(
    "coordinator.committing:_commit",
    "shard.append(records, after, producer, kept_bytes=kept_bytes)",
    "after.committed(shard, now_ms)",
)


@pytest.mark.parametrize(("edit", "name"), [(ANOTHER, "unasked-offset"), (UNWRITTEN, "lost-commit")])
def test_an_offset_that_is_not_kept_is_found_in_a_world(edit: Edit, name: str) -> None:
    with applied([edit]):
        seen = run(three_brokers(partitions=3, has_sharers=True, settings=_of_sharers(3, 2), duration_s=4.0))
    assert (seen.code, {anomaly.name for anomaly in seen.anomalies}) == (CORRECTNESS, {name})


@pytest.mark.parametrize("kind", sorted(GROUP_KINDS))
def test_a_group_outlives_its_members_and_its_coordinator(kind: str) -> None:
    history = SharingHistory()
    lasts_s = 4.0 if kind == "member_paused" else 1.0

    def observe(world: World) -> None:
        nonlocal history
        history = world.clients.sharing_history

    plan = three_brokers(
        partitions=3,
        has_sharers=True,
        settings=_of_sharers(3, 2),
        duration_s=10.5,
        faults=tuple(Fault(3.5 * n - 2.5, kind, 0.0, 0.5, lasts_s) for n in range(1, 4)),
    )
    outcome = run(plan, observe=observe)

    assert outcome.code == OK, describe(outcome)
    assert len(outcome.injected) == 3
    after = max(fault.at_s for fault in outcome.injected)
    assert [one for one in history.told if one.asked_s > after]
    assert len({one.member for one in history.held}) >= 3
