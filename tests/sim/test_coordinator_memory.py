"""What a coordinator remembers is what its log says, and is told where it is not; members of a group come back to it."""

import pytest

from odradek.coordinator.loading import Loaded
from odradek.model.ids import TopicPartition
from odradek.sim.checkers.memories import apart
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


@pytest.mark.parametrize(("world", "plan"), [(GROUP, 0), (TRANSACTIONS, 1)])
def test_records_that_are_not_loaded_are_seen(world: str, plan: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of logs that nobody loads in these worlds, but who compares."""
    monkeypatch.setattr(Loaded, "record", lambda *record: None)
    outcome = run(WORLDS[world][plan])

    assert outcome.code == CORRECTNESS, describe(outcome)
    assert {anomaly.name for anomaly in outcome.anomalies} == {"MemoryIsLog"}
