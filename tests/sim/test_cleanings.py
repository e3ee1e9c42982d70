"""A compacted log that is dirty enough is cleaned, also in a cluster at rest."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.cleanings import Cleaned, cleaned_as_asked
from odradek.sim.observed.cleanings import Cleanings
from odradek.sim.plan import Plan, draw
from odradek.sim.run import LIVENESS, OK, describe, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.support import each

MUTATIONS: dict[str, Edit] = {
    "no log is looked at": Edit(
        "log.compaction.cleaner:Cleaner.candidates", "self._has_dirty_segment(log)", "False"
    ),
    "what is due is not": Edit("log.compaction.planning:dirty_part", "dirty_bytes > 0", "False"),
    "no pass counts": Edit(
        "log.log_manager:LogManager.is_cleaned_to",
        "self._checkpoints.is_cleaned_to(log, offset, generation)",
        "pass",
    ),
    "the first round is the last": Edit(
        "server.log_maintenance:LogMaintenance._clean", "self._is_cleaning = False", "pass"
    ),
}


def short(**settings: str) -> Plan:
    """Without faults; a topic with states of a few keys, in small segments."""
    plan = next(plan for plan in map(draw, range(100)) if plan.has_states)
    states = {"cleanup.policy": "compact", "segment.bytes": "400", "min.cleanable.dirty.ratio": "0.01"}
    # Without a limit one that is cleaned again and again makes ten thousand events a second.
    limited = {**plan.settings, "log.cleaner.io.max.bytes.per.second": "6000"}
    return replace(plan, faults=(), duration_s=3.0, settings=limited, states={**states, **settings})


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small topic is cleaned within a second or two."""
    monkeypatch.setattr("odradek.sim.run.CLEANED_WITHIN_S", 4.0)


@pytest.mark.usefixtures("soon")
def test_a_world_with_a_cleaner_that_works_comes_to_rest() -> None:
    outcome = run(short())
    assert outcome.code == OK, describe(outcome)


def test_a_cleaner_may_take_many_passes_at_a_low_rate() -> None:
    """Seed 1147: an offset map of eight keys and 4,000 bytes a second."""
    cleaner = {"log.cleaner.dedupe.buffer.size": "200", "log.cleaner.io.max.bytes.per.second": "4000"}
    plan = draw(1147)
    assert plan.settings.items() >= cleaner.items() and plan.has_states
    outcome = run(replace(plan, faults=()))
    assert outcome.code == OK, describe(outcome)


@pytest.mark.usefixtures("soon")
@each(MUTATIONS)
def test_a_cleaner_that_does_not_clean_is_named(why: str) -> None:
    with applied([MUTATIONS[why]]):
        outcome = run(short())
    assert (outcome.code, {anomaly.name for anomaly in outcome.anomalies}) == (LIVENESS, {"DirtyIsCleaned"})


SEEN = Cleaned(TopicPartition("t", 0), BrokerId(1), 20, 20, 20, 1_000, 1_500, 500)


def test_what_is_cleaned_too_early_is_named() -> None:
    assert list(cleaned_as_asked(SEEN)) == []
    assert list(cleaned_as_asked(SEEN._replace(newest_ms=-1, min_lag_ms=600))) == [], "they have no time"
    assert list(cleaned_as_asked(SEEN._replace(newest_ms=9_000, min_lag_ms=0))) == [], "a clock went back"
    for change, why in (
        ({"last_stable_offset": 19}, "its last stable offset is 19"),
        ({"active": 19}, "its active segment begins at 19"),
        ({"now_ms": 1_499}, "a record there is 499 ms old, of 500"),
    ):
        (found,) = cleaned_as_asked(SEEN._replace(**change))
        assert (found.name, found.topic_partition) == ("CleaningIsAsked", SEEN.topic_partition)
        assert found.detail.endswith(why)


TOO_EARLY: dict[str, tuple[Edit, dict[str, str], str]] = {
    "the active segment as well": (
        Edit(
            "log.compaction.planning:dirty_part", "end = active_base_offset", "end = active_base_offset + 1"
        ),
        {},
        "its active segment begins at",
    ),
    "records of any age": (
        Edit("log.compaction.planning:dirty_part", "limits.min_lag_ms > 0", "False"),
        {"min.compaction.lag.ms": "2000"},
        "ms old, of 2000",
    ),
}


@each(TOO_EARLY)
def test_a_cleaner_that_takes_too_much_is_named(why: str) -> None:
    edit, settings, said = TOO_EARLY[why]
    with applied([edit]):
        outcome = run(short(**settings))
    assert {anomaly.name for anomaly in outcome.anomalies} == {"CleaningIsAsked"}, describe(outcome)
    assert said in outcome.anomalies[0].detail


def test_the_first_segment_that_was_not_cleaned_before_is_looked_at_and_none_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "odradek.sim.observed.cleanings.segment_files", lambda log: [(0, 3_000), (5, 2_000), (9, 1_000)]
    )
    monkeypatch.setattr("odradek.sim.observed.cleanings.newest_ms", lambda file: file)
    segments = [SimpleNamespace(base_offset=base, end_offset=end) for base, end in ((0, 5), (5, 9), (9, 12))]
    log: Any = SimpleNamespace(
        topic_partition=SEEN.topic_partition,
        directory=SimpleNamespace(path="t-0"),
        log_end_offset=12,
        last_stable_offset=lambda high_watermark: 12,
        segments=SimpleNamespace(active=SimpleNamespace(base_offset=12)),
        config=SimpleNamespace(min_compaction_lag_ms=500),
    )
    broker: Any = SimpleNamespace(
        broker_id=BrokerId(1),
        runtime=SimpleNamespace(logs=SimpleNamespace(logs={SEEN.topic_partition: log})),
        replica=lambda partition: SimpleNamespace(log=log, high_watermark=12),
    )
    for now_ms, count in ((2_499, 1), (2_500, 0)):
        world: Any = SimpleNamespace(on_cleaning=[], let_in=[], loop=SimpleNamespace(time=lambda: 1.0))
        job: Any = SimpleNamespace(end=12, groups=[segments[:2], segments[2:]], first_dirty=5, now_ms=now_ms)
        Cleanings(world)._begins(broker, job, log.directory)
        assert [anomaly.name for anomaly in world.let_in] == ["CleaningIsAsked"] * count
