"""What a coordinator remembers is what its log says, and is told where it is not; members of a group come back to it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.coordinator.consumer_records import (
    Current,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberRecord,
    MemberState,
    Subscriber,
    TargetRecord,
)
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.loading import Loaded
from odradek.coordinator.records import CoordinatorRecord, GroupKey, GroupRecord, StoredGroup, StoredMember
from odradek.coordinator.stored import Stored
from odradek.model.ids import TopicPartition
from odradek.sim.checkers.memories import apart, groups_as_recorded, left_over
from odradek.sim.observed.coordinator_memory import _is_settled, _memory
from odradek.sim.run import CORRECTNESS, describe, run
from tests.mutants.worlds import GROUP, TRANSACTIONS, WORLDS

OFFSETS = TopicPartition("__consumer_offsets", 1)


def found(memory: dict[str, object], replayed: dict[str, object]) -> list[str]:
    return [anomaly.detail for anomaly in apart("b1", OFFSETS, memory, replayed)]


def test_what_is_remembered_otherwise_is_named() -> None:
    assert found({"group a": 1, "group b": 2}, {"group b": 2, "group a": 1}) == []
    assert found({"group a": 1}, {"group a": 2}) == ["b1 remembers 1 of group a, and its log says 2"]
    assert found({"group a": 1}, {}) == ["b1 remembers 1 of group a, and its log says nothing"]
    assert found({}, {"group a": 1}) == ["b1 remembers nothing of group a, and its log says 1"]


def test_what_is_left_of_a_group_or_of_a_member_is_named() -> None:
    stored = Stored()

    def after(*records: CoordinatorRecord) -> list[str]:
        stored.replay_all(records, 0, -1)
        return [anomaly.detail for anomaly in left_over("b1", OFFSETS, stored)]

    member = Subscriber(None, None, "c", "/", ("t",), "", 1, None)
    has = Current(1, 0, MemberState.STABLE, {}, {})
    begins = EpochRecord("g", GroupEpoch(1, 0)), MemberRecord("g", "m", member), CurrentRecord("g", "m", has)
    group = GroupRecord(GroupKey("g"), StoredGroup("consumer", 1, None, None, 0, ()))
    assert after(*begins) == []
    assert after(group) == ["b1 has records of g as a group of either protocol"]
    assert after(group._replace(value=None)) == []
    assert after(MemberRecord("g", "m", None)) == [
        "b1 has records of what ['m'] had, who are no members of g"
    ]
    assert after(EpochRecord("g", None)) == ["b1 has records of a group g of KIP-848 that is none"]
    assert after(CurrentRecord("g", "m", None)) == []


def test_groups_that_are_empty_are_settled_too_once_nothing_is_on_its_way() -> None:
    for state, storing, is_settled in (
        (GroupState.EMPTY, None, True),
        (GroupState.STABLE, None, True),
        (GroupState.EMPTY, object(), False),
        (GroupState.PREPARING, None, False),
    ):
        assert _is_settled(cast(Any, SimpleNamespace(state=state, storing=storing))) is is_settled


def test_offsets_of_a_transaction_that_goes_on_are_remembered_as_well() -> None:
    stored = Stored()
    before = _memory(stored)
    cast(Any, stored.offsets).pending[7] = {"g": {"a place": 3}}
    assert _memory(stored) != before


def test_what_a_member_that_left_was_to_have_is_named() -> None:
    stored = Stored()
    stored.replay_all((EpochRecord("g", GroupEpoch(1, 0)), TargetRecord("g", "m", {})), 0, -1)
    assert [anomaly.name for anomaly in left_over("b1", OFFSETS, stored)] == ["LeftOver"]


@pytest.mark.parametrize(("world", "plan"), [(GROUP, 0), (TRANSACTIONS, 1)])
def test_records_that_are_not_loaded_are_seen(world: str, plan: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of logs that nobody loads in these worlds, but who compares."""
    monkeypatch.setattr(Loaded, "record", lambda *record: None)
    outcome = run(WORLDS[world][plan])

    assert outcome.code == CORRECTNESS, describe(outcome)
    assert {anomaly.name for anomaly in outcome.anomalies} == {"MemoryIsLog"}


def test_a_group_that_is_not_what_its_record_says_is_named() -> None:
    one = StoredMember("m", None, "c", "/", 1, 2, b"subscription", b"assignment")
    group = StoredGroup("consumer", 3, "range", "m", 70, (one,))
    nobody = StoredGroup("consumer", 4, None, None, 70, ())

    def named(now: StoredGroup, last: StoredGroup | None) -> list[str]:
        stored = {} if last is None else {"g": last}
        return [
            anomaly.detail.split(" as ")[0]
            for anomaly in groups_as_recorded("b1", OFFSETS, {"g": now}, stored)
        ]

    assert named(group, group._replace(state_since_ms=5)) == []
    assert named(nobody, nobody) == [] and named(nobody, None) == [], (
        "one that was only asked for has no record"
    )
    assert named(group, None) == ["b1 has 1 members of group g, and no record of it"]
    for other in (
        group._replace(generation=2),
        group._replace(protocol="roundrobin"),
        group._replace(leader=None),
        group._replace(members=(one._replace(assignment=b""),)),
        nobody,
    ):
        assert named(group, other) == ["b1 has group g"], other
    kept = nobody._replace(protocol="range")
    assert named(kept, kept) == ["b1 has nobody in group g, and its protocol range, led by None"]
