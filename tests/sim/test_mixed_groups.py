"""A group that is converted from one protocol to the other and back in simulated worlds: what is wrong on purpose is named, the group
is converted while members, coordinators and brokers fail, and it outlives that."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest

from odradek.model.ids import TopicPartition
from odradek.sim.checkers.groups import Committed, Fetched
from odradek.sim.checkers.mixed import Conversions, MixedHistory, check_mixed
from odradek.sim.checkers.sharers import Held, MemberAnswer, Taken
from odradek.sim.clients.mixed_group import shared_out
from odradek.sim.plan import ASSIGNORS, GROUP_KINDS, Fault, Plan, _of_mixed_groups, draw
from odradek.sim.run import LIVENESS, OK, Outcome, describe, run
from odradek.sim.world import World
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.mutants.worlds import MIXED, WORLDS
from tests.sim.plans import three_brokers

T = TopicPartition("orders", 0)
P, Q = ("id", 0), ("id", 1)


def history(*events: MemberAnswer | Held | Taken | Committed | Fetched) -> MixedHistory:
    """In which somebody is a member all the time."""
    found = MixedHistory()
    found.was_there("s", 0.0, 100.0)
    for event in events:
        match event:
            case MemberAnswer():
                found.sharing.told.append(event)
            case Held():
                found.sharing.held.append(event)
            case Taken():
                found.sharing.taken.append(event)
            case _:
                found.offsets.events.append(event)
    return found


def names(found: MixedHistory, **options: bool) -> list[str]:
    return [anomaly.name for anomaly in check_mixed(found, **options)]


def told(member: str, epoch: int, at_s: float, *, is_join: bool = False) -> MemberAnswer:
    return MemberAnswer(member, epoch, at_s, at_s + 0.1, is_join, frozenset({P}))


def test_members_of_both_protocols_are_judged_together() -> None:
    assert names(history(Held("x0", P, 1.0, 2.0), Held("x2", P, 2.0, 3.0))) == []
    assert names(history(Held("x0", P, 1.0, 2.0), Held("x2", P, 1.9, 3.0))) == ["owned-twice"]
    assert names(history(told("x0", 3, 0.0), told("x2", 3, 1.0))) == ["share-twice"]
    assert names(history(told("x0", 3, 0.0), told("x2", 4, 1.0), Taken("x0", 3, P, 2.0))) == ["fenced-commit"]
    assert names(history(Committed(T, 2, 0.0, 0.1), Fetched(T, 1, 0.2, 0.3))) == ["lost-commit"]
    assert names(history(Committed(T, 2, 0.0, 0.1), Fetched(T, 2, 0.2, 0.3))) == []


def test_epochs_go_on_through_a_conversion_while_somebody_is_a_member() -> None:
    fallen = told("x0", 7, 0.0), told("x2", 1, 5.0, is_join=True)
    found = history(*fallen)
    assert names(found) == ["group-epoch-fell"]
    assert names(history(told("x0", 7, 0.0), told("x0", 1, 5.0))) == ["member-epoch-fell"]
    found.presence = {"x0": [(0.1, 2.0)], "x1": [(1.9, 5.05)]}
    assert names(found) == ["group-epoch-fell"], "one of them was there all the time"
    found.presence = {"x0": [(0.1, 2.0)], "x2": [(5.1, 7.0)]}
    assert names(found) == [], "nobody may have been there between 2 and 5.1 s"


def test_when_nobody_is_owed_a_thing_ownership_and_epochs_are_not_judged() -> None:
    found = history(Held("x0", P, 1.0, 2.0), Held("x2", P, 1.9, 3.0), told("x0", 7, 0.0), told("x0", 1, 5.0))
    assert sorted(names(found)) == ["member-epoch-fell", "owned-twice"]
    assert names(found, is_lossy=True) == names(found, have_clocks_jumped=True) == []
    assert list(check_mixed(found, [T])) == [], "with the topic its id has gone"
    found.offsets.events += [Committed(T, 2, 0.0, 0.1), Fetched(T, 1, 0.2, 0.3)]
    assert names(found, have_clocks_jumped=True) == ["lost-commit"]


def test_a_member_is_known_as_long_as_its_session_lasts() -> None:
    found = MixedHistory()
    found.was_there("x0", 1.0, 3.0)
    found.was_there("x0", 2.0, 4.0)
    found.is_none("x0", 3.5)
    found.is_none("x0", 3.6)
    assert names(found) == ["sent-off"], "once"
    after, left, other = MixedHistory(), MixedHistory(), MixedHistory()
    for one in (after, left, other):
        one.was_there("x0", 1.0, 3.0)
    after.is_none("x0", 3.1)
    left.left("x0", 1.5)
    left.is_none("x0", 2.0)
    other.is_none("x1", 2.0)
    assert names(after) == names(left) == names(other) == []


def test_a_commit_in_a_former_epoch_and_a_classic_member_without_its_instance_are_named() -> None:
    found = MixedHistory()
    found.in_former_epochs.append(("x0", 1.0, 3))
    found.refused.append(("i1", 2.0))
    assert names(found) == ["former-epoch", "instance-refused"]
    assert names(found, is_lossy=True) == []


def test_conversions_are_counted_by_what_members_were_told() -> None:
    found = MixedHistory()
    found.was_there("x0", 0.0, 9.0)
    for told_s, epoch, is_of_kip_848 in (
        (1, 1, False),
        (2, 2, True),
        (3, 2, True),
        (4, 4, False),
        (5, 3, True),
        (6, 5, True),
    ):
        found.was_of(epoch, told_s, is_of_kip_848=is_of_kip_848)
    assert found.conversions() == Conversions(2, 1), "an answer of an epoch before says nothing"
    assert found.was_last_classic(3.5) is False and found.was_last_classic(9.0) is None
    found.was_there("x0", 20.0, 30.0)
    found.was_of(1, 20.0, is_of_kip_848=False)
    assert found.conversions() == Conversions(2, 1), "it began anew"
    found.was_of(2, 21.0, is_of_kip_848=True)
    assert found.conversions() == Conversions(3, 1)


def test_a_leader_gives_nobody_what_another_one_has() -> None:
    partitions = [TopicPartition("orders", n) for n in range(4)]
    assert shared_out({"a": {}, "b": {}}, partitions) == {"a": {"orders": (0, 2)}, "b": {"orders": (1, 3)}}
    assert shared_out({"a": {"orders": (0, 1)}, "b": {}}, partitions) == {
        "a": {"orders": (0, 2)},
        "b": {"orders": (3,)},
    }
    assert shared_out({"a": {"orders": (0,)}, "b": {"orders": (0,)}}, partitions[:1]) == {"a": {}, "b": {}}


class Ran(NamedTuple):
    outcome: Outcome
    amid_faults: Conversions
    in_all: Conversions
    history: MixedHistory


def once(plan: Plan) -> Ran:
    amid_faults, found = Conversions(0, 0), MixedHistory()

    def observe(world: World) -> None:
        nonlocal amid_faults, found
        if world.clients is not None:
            found = world.clients.mixed_history
            if not world.is_healed:
                amid_faults = found.conversions()

    outcome = run(plan, observe=observe)
    return Ran(outcome, amid_faults, found.conversions(), found)


@cache
def drawn(seed: int) -> Ran:
    return once(draw(seed))


@pytest.mark.parametrize("seed", [103, 545])
def test_a_group_is_converted_in_both_directions_while_there_are_faults_and_afterwards(seed: int) -> None:
    found = drawn(seed)

    assert found.outcome.code == OK, describe(found.outcome)
    assert found.outcome.faults > 5
    assert min(found.amid_faults) >= 1, found.amid_faults
    assert found.in_all.upgrades > found.amid_faults.upgrades
    assert found.in_all.downgrades > found.amid_faults.downgrades
    judged = found.history.sharing
    assert min(len(judged.told), len(judged.held), len(judged.taken), len(found.history.offsets.events)) > 10


UNMARKED = Edit("coordinator.downgrading:downgrade", "IN_NO_STATE", "draft.now_ms")


def test_a_seed_shows_the_bug_that_was_found_by_it(seed: int = 51) -> None:
    assert drawn(seed).outcome.code == OK, describe(drawn(seed).outcome)
    with applied([UNMARKED]):
        found = run(draw(seed))

    assert found.code == LIVENESS and "of a mixed group" in found.reason


@pytest.mark.parametrize("plan", WORLDS[MIXED], ids=lambda plan: f"{plan.seed}")
def test_small_worlds_convert_a_group_again_and_again(plan: Plan) -> None:
    found = once(plan)

    assert found.outcome.code == OK, describe(found.outcome)
    assert found.amid_faults.upgrades >= 1 and found.in_all.upgrades > found.amid_faults.upgrades
    assert found.in_all.downgrades >= 1


UNMOVED = Edit("coordinator.draft:Draft.remove", "self.move_epoch(is_changed=True)", "pass")
REFUSED = Edit(
    "coordinator.classic_members:_join",
    "take_place(draft, known, member_id)",
    "raise ProtocolError(ErrorCode.UNRELEASED_INSTANCE_ID)",
)

UNCOMMITTED = Edit(
    "coordinator.committing:_why_not",
    "if group is None: ...",
    "return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS",
)


@pytest.mark.parametrize(
    ("plan", "edit", "reason"),
    [
        (0, UNMOVED, "classic members and one of KIP-848 have all partitions of a mixed group"),
        (1, UNCOMMITTED, "classic members have all partitions of a mixed group between them, and commit"),
        (3, REFUSED, "instance-refused"),
    ],
)
def test_small_worlds_show_that_members_leave_and_come_back(plan: int, edit: Edit, reason: str) -> None:
    with applied([edit]):
        found = run(WORLDS[MIXED][plan])

    assert found.code != OK and reason in found.reason


@pytest.mark.parametrize("kind", sorted(GROUP_KINDS))
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_group_outlives_its_members_and_its_coordinator(kind: str, assignor: str) -> None:
    plan = three_brokers(
        seed=2,
        partitions=6,
        mixed_group=assignor,
        settings=_of_mixed_groups(3, 2),
        duration_s=10.5,
        faults=tuple(
            Fault(3.5 * n - 2.5, kind, 0.0, 0.5, 4.0 if kind == "member_paused" else 1.0) for n in (1, 2, 3)
        ),
    )
    found = once(plan)

    assert found.outcome.code == OK, describe(found.outcome)
    assert len(found.outcome.injected) == 3
    after = max(fault.at_s for fault in found.outcome.injected)
    assert [one for one in found.history.sharing.told if one.asked_s > after]
    assert found.in_all.upgrades >= 2 and found.in_all.downgrades >= 1, found.in_all


def test_some_seeds_have_one_and_they_have_no_other_group() -> None:
    plans = [draw(seed) for seed in range(400)]
    mixed = [plan for plan in plans if plan.mixed_group]

    assert 30 <= len(mixed) <= 60
    assert {plan.mixed_group for plan in mixed} == set(ASSIGNORS)
    assert {plan.has_static_members for plan in mixed} == {False, True}
    assert not any(plan.has_group or plan.has_sharers for plan in mixed)
    assert any(plan.has(frozenset(GROUP_KINDS)) for plan in mixed)


@pytest.mark.parametrize("seed", [103])
def test_other_members_than_these_have_no_part_in_it(seed: int) -> None:
    """Without the group the same plan converts nothing: what is counted is its own."""
    found = once(replace(draw(seed), mixed_group=""))

    assert (found.outcome.code, found.in_all) == (OK, Conversions(0, 0))
