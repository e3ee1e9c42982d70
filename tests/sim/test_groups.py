"""A group of consumers in simulated worlds: what is wrong on purpose is named, and a group outlives its coordinator."""

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.sim.checkers.groups import (
    Committed,
    Fetched,
    GroupHistory,
    HandedOut,
    Joined,
    SentOff,
    Term,
    Tried,
    check_groups,
    judged_too_early,
)
from odradek.sim.checkers.removals import Removal
from odradek.sim.clients.group_member import GroupMember
from odradek.sim.plan import GROUP_KINDS, Fault, _of_groups, draw
from odradek.sim.run import OK, describe, run
from odradek.sim.world import World
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.plans import three_brokers
from tests.support import each

T, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


HERE, THERE = Term("b1", 1, 4), Term("b2", 1, 5)


def found(
    *events: Joined | Committed | Fetched | HandedOut,
    gone: tuple[TopicPartition, ...] = (),
    removals: tuple[Removal, ...] = (),
) -> list[str]:
    history = GroupHistory(
        [event for event in events if not isinstance(event, HandedOut)],
        [event for event in events if isinstance(event, HandedOut)],
    )
    return [anomaly.name for anomaly in check_groups(history, gone, removals=removals)]


def handed_out(
    generation: int, leader: str, members: str = "", *, at_s: float = 0.0, term: Term = HERE
) -> HandedOut:
    """To the leader, if there are members."""
    return HandedOut(
        term, generation, leader, leader if members else "f", frozenset(members), at_s, at_s + 0.1
    )


def test_what_is_committed_only_rises() -> None:
    assert found(Committed(T, 1, 0.0, 0.1), Fetched(T, 1, 0.2, 0.3), Committed(T, 2, 0.4, 0.5)) == []
    assert found(Committed(T, 2, 0.0, 0.1), Fetched(T, 1, 0.2, 0.3)) == ["lost-commit"]
    assert found(Committed(T, 2, 0.0, 0.1), Fetched(T, -1, 0.2, 0.3)) == ["lost-commit"]
    assert found(Committed(T, 2, 0.0, 0.1), Committed(T, 1, 0.2, 0.3)) == ["lost-commit"], "by a zombie"


def test_an_offset_that_nobody_has_asked_to_commit_is_named() -> None:
    assert found(Committed(T, 2, 0.0, 0.1), Fetched(T, 3, 0.2, 0.3)) == ["unasked-offset"]
    assert found(Fetched(T, 0, 0.2, 0.3)) == ["unasked-offset"], "and not -1"
    assert found(Committed(OTHER, 9, 0.0, 0.1), Fetched(T, 9, 0.2, 0.3)) == ["unasked-offset"], "of another"
    assert found(Fetched(T, 2, 0.2, 0.3), Committed(T, 2, 0.4, 0.5)) == ["unasked-offset"], "as yet"
    assert found(Fetched(T, -1, 0.2, 0.3)) == found(Fetched(T, 7, 0.2, 0.3), gone=(T,)) == []
    unheard = GroupHistory([Fetched(T, 5, 0.2, 0.3)], tried=[Tried(T, 5, 0.1)])
    assert list(check_groups(unheard)) == [], "it may have been carried out, and its answer lost"


WRONG_OFFSETS = {
    # What is told, in which seed, and what that is.
    "of nobody": ("stood.committed._replace(offset=stood.committed.offset + 1000)", 6, "unasked-offset"),
    # The topic may have unclean elections; what the group commits does not hang on its records.
    "of long ago": ("stood.committed._replace(offset=max(stood.committed.offset - 3, 0))", 60, "lost-commit"),
}


@each(WRONG_OFFSETS)
def test_a_coordinator_that_tells_other_offsets_is_found(whose: str) -> None:
    wrong, seed, name = WRONG_OFFSETS[whose]
    with applied([Edit("coordinator.fetching:_partition", "stood.committed", wrong)]):
        seen = run(draw(seed))
    assert name in {anomaly.name for anomaly in seen.anomalies}


def test_what_was_under_way_at_the_same_time_of_another_partition_or_of_a_deleted_topic_is_no_loss() -> None:
    assert found(Committed(T, 2, 0.0, 0.3), Fetched(T, 1, 0.2, 0.4)) == []
    assert found(Committed(T, 2, 0.0, 0.1), Fetched(OTHER, -1, 0.2, 0.3)) == []
    assert found(Committed(T, 2, 0.0, 0.1), Fetched(T, -1, 0.2, 0.3), gone=(T,)) == []


def test_generations_rise_and_have_one_leader() -> None:
    assert (
        found(Joined(1, "a", "a", 0.0, 0.1), Joined(1, "a", "b", 0.0, 0.1), Joined(2, "b", "b", 1, 1)) == []
    )
    assert found(Joined(2, "a", "a", 0.0, 0.1), Joined(1, "b", "b", 0.2, 0.3)) == ["generation-fell"]
    assert found(Joined(1, "a", "a", 0.0, 0.1), Joined(1, "b", "b", 0.2, 0.3)) == ["generation-twice"]
    assert found(Joined(2, "a", "a", 0.0, 0.3), Joined(1, "b", "b", 0.2, 0.4)) == [], "asked before"


def test_a_leader_stores_no_generation_once_a_later_one_was_told() -> None:
    later = Joined(2, "b", "b", 0.0, 0.2, 0.1)
    assert found(later, Joined(1, "a", "a", 0.0, 0.5, 0.3)) == ["generation-twice"], "asked to join before"
    assert found(later, Joined(1, "a", "b", 0.0, 0.5, 0.3)) == [], "a follower, of what was stored before"
    assert found(later, Joined(1, "a", "a", 0.0, 0.5, 0.15)) == [], "under way at the same time"
    assert found(later, Joined(2, "b", "b", 0.0, 0.5, 0.3)) == [], "its first answer was lost"


def test_in_a_generation_a_partition_is_one_members_and_a_member_has_one_share() -> None:
    one, other = frozenset({T}), frozenset({OTHER})

    def told(generation: int, member: str, share: frozenset[TopicPartition]) -> Joined:
        return Joined(generation, "a", member, 0.0, 0.2, 0.1, share)

    assert found(told(1, "a", one), told(1, "b", other), told(2, "b", one), told(1, "a", one)) == []
    assert found(told(1, "a", one), told(1, "b", one | other)) == ["share-twice"]
    assert found(told(1, "a", one), told(1, "a", other)) == ["share-twice"]
    assert found(told(1, "a", one), told(1, "a", one | other)) == ["share-twice"]


def test_a_commit_is_not_taken_once_a_later_generation_was_told() -> None:
    joined = Joined(2, "a", "a", 0.0, 0.2)
    assert found(joined, Committed(T, 1, 0.3, 0.4, generation=2), Committed(T, 2, 0.3, 0.4)) == []
    assert found(joined, Committed(T, 1, 0.1, 0.4, generation=1)) == [], "under way at the same time"
    assert found(joined, Committed(T, 1, 0.3, 0.4, generation=1)) == ["fenced-commit"]


def test_a_group_that_was_removed_begins_anew_and_one_that_was_not_does_not() -> None:
    once = (Removal(0.5, 0.6),)
    four, one = Joined(4, "a", "a", 0.0, 0.2, 0.1), Joined(1, "b", "b", 1.0, 1.2, 1.1, frozenset({T}))
    first = Joined(1, "a", "a", 0.0, 0.1, 0.0, frozenset({T}))
    twice = ["generation-twice", "share-twice", "generation-fell", "generation-twice"]

    assert found(first, four, one, removals=once) == []
    assert sorted(found(first, four, one)) == sorted(twice)
    assert sorted(found(first, four, one, removals=(Removal(2.0, 2.1),))) == sorted(twice), "later"
    assert found(handed_out(4, "a"), handed_out(1, "b", at_s=1.0), removals=once) == [], "in one term"
    assert found(four, one, Joined(1, "c", "c", 2.0, 2.2), removals=once) == ["generation-twice"], (
        "since then"
    )
    assert found(Joined(4, "a", "a", 0.0, 0.55), Joined(1, "b", "b", 0.56, 0.7), removals=once) == [], (
        "meanwhile"
    )


def test_a_commit_is_not_taken_of_a_member_of_a_group_that_was_removed() -> None:
    once = (Removal(0.5, 0.6),)
    joined, again = Joined(4, "a", "a", 0.0, 0.2), Joined(1, "a", "a", 0.7, 0.8)

    assert found(joined, Committed(T, 1, 0.9, 1.0, 4, "a"), removals=once) == ["fenced-commit"]
    assert found(joined, again, Committed(T, 1, 0.9, 1.0, 1, "a"), removals=once) == []
    assert found(joined, Committed(T, 1, 0.3, 0.4, 4, "a"), removals=once) == [], "before"
    assert found(joined, Committed(T, 1, 0.55, 1.0, 4, "a"), removals=once) == [], "under way meanwhile"
    twice, late = (*once, Removal(1.5, 1.6)), Committed(T, 1, 1.9, 2.0, 1, "a")
    assert found(joined, again, late, removals=twice) == ["fenced-commit"], "by the second removal"


def test_a_coordinator_hands_a_generation_out_once_and_none_before_it_again() -> None:
    one, two = handed_out(1, "a", "ab"), handed_out(2, "b", "b", at_s=1.0)
    assert found(one, handed_out(1, "a"), handed_out(1, "a", "ab"), two) == []
    assert found(one, handed_out(1, "b")) == ["generation-twice"], "with another leader"
    assert found(one, handed_out(1, "a", "a")) == ["generation-twice"], "with other members"
    assert found(two, handed_out(1, "a", at_s=2.0)) == ["generation-fell"]
    assert found(two, handed_out(1, "a", at_s=1.05)) == [], "under way at the same time"
    assert found(two, handed_out(1, "b", "b", at_s=2.0, term=THERE)) == [], (
        "another one, that never heard of it"
    )


def test_a_coordinator_takes_no_commit_of_a_generation_before_the_one_it_has_handed_out() -> None:
    two = handed_out(2, "b", "b")

    def commit(generation: int, member: str, *, at_s: float = 0.2, term: Term | None = HERE) -> Committed:
        return Committed(T, 1, at_s, at_s + 0.1, generation, member, term)

    assert found(two, commit(2, "b")) == []
    assert found(two, commit(1, "a")) == ["fenced-commit"]
    assert found(two, commit(1, "a", at_s=0.05)) == [], "under way at the same time"
    assert found(two, commit(1, "a", term=THERE)) == [], "another one, that never heard of it"
    assert found(two, commit(1, "a", term=None)) == [], "nobody knows which"
    assert found(two, commit(2, "a")) == ["fenced-commit"], "by who is no member of it"


@pytest.mark.parametrize("kind", sorted(GROUP_KINDS))
def test_a_group_outlives_its_members_and_its_coordinator(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Joined | Committed | Fetched] = []
    codes: list[int] = []
    judge = GroupMember._judge
    monkeypatch.setattr(GroupMember, "_judge", lambda self, code: (codes.append(code), judge(self, code)))
    lasts_s = 4.0 if kind == "member_paused" else 1.0

    def observe(world: World) -> None:
        told[:] = world.clients.group_history.events

    plan = three_brokers(
        partitions=3,
        has_group=True,
        settings=_of_groups(3, 2),
        faults=tuple(Fault(3.5 * n, kind, 0.0, 0.5, lasts_s) for n in range(1, 4)),
    )
    outcome = run(plan, observe=observe)
    fenced = codes.count(ErrorCode.UNKNOWN_MEMBER_ID)

    assert outcome.code == OK, describe(outcome)
    assert len(outcome.injected) == 3
    assert max(event.generation for event in told if isinstance(event, Joined)) > 1
    after = max(fault.at_s for fault in outcome.injected)
    assert [event for event in told if isinstance(event, Committed) and event.asked_s > after]
    assert fenced or kind != "member_paused", "it goes on as who it was"


@pytest.mark.parametrize("told_s", [0.0, 1.0, 2.9])
def test_who_is_sent_off_while_its_session_lasts_is_named(told_s: float) -> None:
    assert [a.name for a in judged_too_early([SentOff("a", told_s, 3.0)])] == ["sent-off"]
    assert list(judged_too_early([SentOff("a", 3.0, 3.0), SentOff("b", told_s, 0.0)])) == []
