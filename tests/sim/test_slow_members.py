"""Slow members of groups, and silent ones, in simulated worlds: they act, are survived, and show a session or a deadline that is lost."""

from dataclasses import replace

import pytest

from odradek.sim.checkers.silences import Present, Silences
from odradek.sim.plan import (
    MIXED_SLOW_KINDS,
    SLOW_KINDS,
    Fault,
    Plan,
    _of_groups,
    _of_mixed_groups,
    draw,
)
from odradek.sim.run import CORRECTNESS, OK, Outcome, describe, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.plans import three_brokers
from tests.support import each

FOR_LONG_S = 8.0
ONLY_WAITED, IS_REFUSED = 0.9, 0.2  # the amount of `member_falls_silent`: whether somebody joins while it is parked


def classic(*faults: Fault, is_static: bool = False) -> Plan:
    return three_brokers(
        partitions=3,
        has_group=True,
        has_static_members=is_static,
        settings=_of_groups(3, 2),
        faults=faults,
        duration_s=12.0,
    )


def mixed(*faults: Fault, is_static: bool = False) -> Plan:
    return three_brokers(
        seed=2,
        partitions=6,
        mixed_group="range",
        has_static_members=is_static,
        settings=_of_mixed_groups(3, 2),
        faults=faults,
        duration_s=12.0,
    )


def silent(at_s: float, amount: float, target: float = 0.1) -> Fault:
    return Fault(at_s, "member_falls_silent", target, amount, FOR_LONG_S)


def notes(outcome: Outcome, text: str) -> list[str]:
    return [note for _, note in outcome.notes if text in note]


WORLDS = {
    "leader_shares_late": classic(*(Fault(at_s, "leader_shares_late", 0.0, 0.5, 4.0) for at_s in (2.0, 7.0))),
    "member_falls_silent": classic(silent(2.0, ONLY_WAITED)),
    "member_falls_silent, refused": classic(silent(2.0, IS_REFUSED)),
    "member_falls_silent, at once": classic(silent(2.0, ONLY_WAITED, 0.9)),
    "static_member_falls_silent": classic(
        Fault(3.0, "static_member_falls_silent", 0.4, 0.5, 0.4), is_static=True
    ),
    "guest_stays": mixed(*(Fault(at_s / 2, "guest_stays", 0.0, 0.5, 4.0) for at_s in range(1, 20))),
    "falls_silent_as_guest_goes": mixed(
        *(Fault(at_s / 2, "falls_silent_as_guest_goes", 0.0, 0.5) for at_s in range(4, 16)), is_static=True
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
        Edit("coordinator.syncing:AssignmentStored.committed", "shard.renew_sessions(group, told, now_ms)", "pass"),
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
}
