"""Slow members of groups, and silent ones, in simulated worlds: they act, are survived, and show a session or a deadline that is lost."""

from dataclasses import replace

import pytest

from odradek.sim.checkers.open_transactions import Open, OpenTransactions
from odradek.sim.checkers.silences import Present, Silences
from odradek.sim.checkers.transactions import Repeat, TransactionHistory, check_transactions
from odradek.sim.plan import (
    MIXED_SLOW_KINDS,
    SLOW_KINDS,
    SLOW_TRANSACTION_KINDS,
    Fault,
    Plan,
    _of_groups,
    _of_mixed_groups,
    _of_sharers,
    _of_transactions,
    draw,
)
from odradek.sim.run import CORRECTNESS, OK, describe, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.plans import three_brokers
from tests.sim.test_further_faults import notes
from tests.support import each

FOR_LONG_S = 6.0
ONLY_WAITED, IS_REFUSED = (
    0.9,
    0.2,
)  # the amount of `member_falls_silent`: whether somebody joins while it is parked


def classic(*faults: Fault, is_static: bool = False) -> Plan:
    return three_brokers(
        partitions=3,
        has_group=True,
        has_static_members=is_static,
        settings=_of_groups(3, 2),
        faults=faults,
        duration_s=9.0,
    )


def mixed(*faults: Fault, is_static: bool = False) -> Plan:
    return three_brokers(
        seed=2,
        partitions=6,
        mixed_group="range",
        has_static_members=is_static,
        settings=_of_mixed_groups(3, 2),
        faults=faults,
        duration_s=9.0,
    )


def of_kip_848(*faults: Fault) -> Plan:
    return three_brokers(
        partitions=3, has_sharers=True, settings=_of_sharers(3, 2), faults=faults, duration_s=9.0
    )


def transactional(*faults: Fault) -> Plan:
    return three_brokers(
        partitions=1,
        acks=-1,
        has_transactions=True,
        bumping_owners=0,
        settings=_of_transactions(3, 2),
        faults=faults,
        duration_s=6.0,
    )


def silent(at_s: float, amount: float, target: float = 0.1) -> Fault:
    return Fault(at_s, "member_falls_silent", target, amount, FOR_LONG_S)


WORLDS = {
    "leader_shares_late": classic(*(Fault(at_s, "leader_shares_late", 0.0, 0.5, 4.0) for at_s in (1.0, 5.0))),
    "member_falls_silent": classic(silent(1.0, ONLY_WAITED)),
    "member_falls_silent, refused": classic(silent(1.0, IS_REFUSED)),
    "member_falls_silent, at once": classic(silent(1.0, ONLY_WAITED, 0.9)),
    "static_member_falls_silent": classic(
        Fault(3.0, "static_member_falls_silent", 0.4, 0.5, 0.4), is_static=True
    ),
    "guest_stays": mixed(*(Fault(at_s / 2, "guest_stays", 0.0, 0.5, 4.0) for at_s in range(1, 15))),
    "falls_silent_as_guest_goes": mixed(Fault(1.0, "falls_silent_as_guest_goes", 0.0, 0.5), is_static=True),
    "transaction_grows": transactional(*(Fault(at_s, "transaction_grows", 0.0, 0.5) for at_s in (1.0, 3.0))),
    "init_is_repeated": transactional(
        *(Fault(at_s, "init_is_repeated", 0.0, 0.2) for at_s in (1.0, 2.0, 3.0))
    ),
}


@each(WORLDS)
def test_they_act_and_are_survived(name: str) -> None:
    outcome = run(WORLDS[name])

    assert outcome.code == OK, describe(outcome)
    assert {fault.kind for fault in outcome.injected} == {name.partition(",")[0]}
    assert bool(notes(outcome, "falls silent")) == ("silent" in name)


LOST = {
    "of who was parked in SyncGroup until it was assigned": (
        "member_falls_silent",
        Edit(
            "coordinator.syncing:AssignmentStored.committed",
            "shard.renew_sessions(group, told, now_ms)",
            "pass",
        ),
        "stays-silent",
    ),
    "of who was parked in SyncGroup when somebody joined": (
        "member_falls_silent, refused",
        Edit("coordinator.rebalance:prepare", "shard.renew_session(group, member, now_ms)", "pass"),
        "stays-silent",
    ),
    "of a static member that came back": (
        "static_member_falls_silent",
        Edit("coordinator.joining:_take_place", "member.session_timer_at_ms = None", "pass"),
        "stays-silent",
    ),
    "of a group that is classic again": (
        "falls_silent_as_guest_goes",
        Edit("coordinator.turns:_begin_classic", "shard.renew_session(group, member, now_ms)", "pass"),
        "stays-silent",
    ),
    # Of a classic member of a group of KIP-848: it joined in time, and is removed for not having joined.
    "of who has joined again": (
        "guest_stays",
        Edit(
            "coordinator.classic_members:_join", "found.drop_deadline(Kind.CLASSIC_JOIN, member_id)", "pass"
        ),
        "owned-twice",
    ),
    "of who has asked for its assignment": (
        "guest_stays",
        Edit(
            "coordinator.classic_members:sync_consumer_group",
            "group.drop_deadline(Kind.CLASSIC_SYNC, member_id)",
            "pass",
        ),
        "owned-twice",
    ),
    "of a transaction that grows": (
        "transaction_grows",
        Edit("coordinator.transaction_timeouts:TimeOuts.tick", "value.started_at_ms", "value.updated_at_ms"),
        "open-too-long",
    ),
    "of the epoch that was asked for again": (
        "init_is_repeated",
        Edit(
            "coordinator.initialising:_next",
            "Turn(value.producer_id, value.epoch, last_epoch, before)",
            "Turn(value.producer_id, value.epoch, NO_EPOCH, before)",
        ),
        "repeat-refused",
    ),
}


@each(LOST)
def test_a_session_or_a_deadline_that_is_lost_or_kept_is_found(whose: str) -> None:
    world, edit, name = LOST[whose]
    with pytest.MonkeyPatch.context() as patch, applied([edit]):
        # Which sees a timer that is missing before anybody is silent.
        patch.setattr("odradek.sim.observed.watch.parts_are_whole", lambda _: [])
        found = run(WORLDS[world])

    assert found.code == CORRECTNESS and name in {one.name for one in found.anomalies}, describe(found)


KILLED = Fault(2.0, "member_killed", 0.4, 0.5, 6.0)
SHARING = {
    "killed": of_kip_848(KILLED),
    "killed, and loaded": of_kip_848(KILLED, Fault(2.2, "kill_coordinator", 0.1, 0.1, 1.0)),
}
# Of a group of KIP-848.
KEPT = {
    "when its session ends": (
        "killed",
        Edit(
            "coordinator.group_coordinator:GroupCoordinator._pass",
            "deadlines_passed(shard, timers, now_ms)",
            "pass",
        ),
    ),
    "whose removal is not written": (
        "killed",
        Edit("coordinator.consumer_leaving:deadlines_passed", "take_turn(...)", "pass"),
    ),
    "that was loaded": (
        "killed, and loaded",
        Edit("coordinator.turns:take_over", "renew_session(shard, group, member_id, now_ms)", "pass"),
    ),
}


@each(SHARING)
def test_a_group_of_kip_848_goes_on_without_who_is_killed(name: str) -> None:
    outcome = run(SHARING[name])

    assert outcome.code == OK, describe(outcome)
    assert len(outcome.injected) == len(SHARING[name].faults)


@each(KEPT)
def test_a_member_of_kip_848_that_is_kept_is_found(whose: str) -> None:
    world, edit = KEPT[whose]
    with pytest.MonkeyPatch.context() as patch, applied([edit]):
        patch.setattr("odradek.sim.observed.watch.parts_are_whole", lambda _: [])
        found = run(SHARING[world])

    assert found.code == CORRECTNESS and "stays-silent" in {one.name for one in found.anomalies}, describe(
        found
    )


GROUP_OBJECT, OTHER = object(), object()


def judged(*looks: tuple[float, object | None], spoke_s: float = 1.0) -> list[str]:
    """At each time the member is there, in a group that is this object, or it is not."""
    silences, found = Silences(), []
    for now_s, group in looks:
        rows = [] if group is None else [Present("b1", "g", "a", 2.0, group)]
        found += [one.name for one in silences.observe(rows, {"a": spoke_s}, now_s)]
    return found


def every_quarter(
    from_s: float, to_s: float, group: object | None = GROUP_OBJECT
) -> list[tuple[float, object | None]]:
    return [(quarter / 4, group) for quarter in range(int(4 * from_s), int(4 * to_s) + 1)]


def test_who_stays_after_its_session_is_named() -> None:
    assert judged(*every_quarter(1.0, 4.0)) == []
    assert judged(*every_quarter(1.0, 4.25)) == ["stays-silent"]
    assert judged(*every_quarter(1.0, 6.0), spoke_s=3.0) == [], "it asked since then"
    assert judged(*every_quarter(1.0, 3.5), *every_quarter(3.75, 6.5, OTHER)) == [], (
        "of another coordinator, or life of the group"
    )
    assert judged(*every_quarter(1.0, 3.5), (3.75, None), *every_quarter(4.0, 6.75)) == [], (
        "it waited for an answer meanwhile"
    )
    assert judged(*every_quarter(1.0, 2.0), *every_quarter(3.0, 6.0)) == [], "or may have, unseen"


def test_members_of_whom_nobody_speaks_are_not_judged() -> None:
    silences = Silences()
    rows = [Present("b1", "g", "stranger", 2.0, GROUP_OBJECT)]
    assert [list(silences.observe(rows, {}, now_s)) for now_s, _ in every_quarter(1.0, 9.0)] == [[]] * 33


def open_too_long(
    *looks: tuple[float, object | None], begun_s: float = 1.0, second_from_s: float = 99.0
) -> list[str]:
    """Of a transaction with two seconds and a half; another one, in the next epoch, from `second_from_s` on."""
    checker, found = OpenTransactions(), []
    for now_s, memory in looks:
        producer = 7, int(now_s >= second_from_s)
        rows = [] if memory is None else [Open("b1", "pay", producer, 2.5, memory)]
        found += [one.name for one in checker.observe(rows, {"pay": begun_s}, now_s)]
    return found


def test_a_transaction_that_is_open_beyond_its_time_out_is_named() -> None:
    assert open_too_long(*every_quarter(1.0, 4.0)) == []
    assert open_too_long(*every_quarter(1.0, 4.25)) == ["open-too-long"]
    assert open_too_long(*every_quarter(1.0, 5.0), begun_s=2.0) == [], "it is the next one, in the same epoch"
    assert open_too_long(*every_quarter(1.0, 5.0), second_from_s=2.0) == [], "or in another one"
    assert open_too_long(*every_quarter(1.0, 3.5), *every_quarter(3.75, 6.75, OTHER)) == [], (
        "of another coordinator"
    )
    assert open_too_long(*every_quarter(1.0, 3.5), (3.75, None), *every_quarter(4.0, 7.0)) == [], (
        "it was being written, or could not be"
    )
    assert open_too_long(*every_quarter(1.0, 2.0), *every_quarter(3.0, 6.0)) == [], "nobody looked"


def test_a_repeated_question_for_an_epoch_that_is_answered_differently_is_named() -> None:
    def names(*told: tuple[int, int] | None) -> list[str]:
        history = TransactionHistory(repeats=[Repeat("pay", 1.0, told)])
        return [one.name for one in check_transactions(history)]

    assert names((7, 3), (7, 3), (7, 3)) == names((7, 3)) == []
    assert names((7, 3), (7, 3), None) == names((7, 3), (7, 4)) == names((7, 3), (8, 3)) == ["repeat-refused"]


def test_one_of_six_seeds_with_transactions_or_fewer_has_each_of_their_slow_kinds() -> None:
    plans = [plan for plan in map(draw, range(600)) if plan.has_transactions]
    for kind in SLOW_TRANSACTION_KINDS:
        assert 0.06 < sum(plan.has({kind}) for plan in plans) / len(plans) < 0.20


def test_one_of_six_seeds_with_a_classic_group_has_slow_members_and_no_other() -> None:
    plans = [draw(seed) for seed in range(600)]
    slow = [plan for plan in plans if plan.has_slow_members]
    may_be = [plan for plan in plans if plan.has_group or plan.mixed_group]

    assert 0.10 < len(slow) / len(may_be) < 0.20
    assert all(plan.has_group or plan.mixed_group for plan in slow)
    assert {fault.kind for plan in slow for fault in plan.faults} >= {*SLOW_KINDS, *MIXED_SLOW_KINDS}
    assert not any(plan.has(frozenset(MIXED_SLOW_KINDS)) for plan in slow if plan.has_group)


def test_without_them_a_group_has_its_usual_sessions() -> None:
    slow = WORLDS["leader_shares_late"]
    assert slow.has_slow_members and not replace(slow, faults=()).has_slow_members
