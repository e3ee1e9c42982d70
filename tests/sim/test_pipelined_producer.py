"""Producers with several requests in flight: they send again in order, raise their epochs, leave gaps; and are judged."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from odradek.sim.clients.pipelined_producer import MOST_IN_FLIGHT, PipelinedProducer
from odradek.sim.plan import Fault, Plan, draw
from odradek.sim.run import CORRECTNESS, OK, describe, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_further_faults import plan_with

FAILOVERS = tuple(Fault(2.0 + n, "kill_leader", 0.3 * (n % 3), 0.4, 0.8) for n in range(7))
SLOW = Fault(0.5, "slow_link", 0.1, 0.2, 8.0)
RECONNECTS = (SLOW, *(Fault(1.0 + n, "clients_reconnect", 0.0, 0.0, 0.3) for n in range(9)))


def plan(*faults: Fault, **more: object) -> Plan:
    fast = replace(
        plan_with(*faults),
        in_flight=5,
        leaves_gaps=True,
        pause_between_sends_s=0.05,
        partitions=1,
        duration_s=9.0,
    )
    return replace(fast, settings={**fast.settings, "log.segment.bytes": "20000"}, **more)  # type: ignore[arg-type]


def test_five_are_in_flight_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: Counter[tuple[str, object, float]] = Counter()
    place = PipelinedProducer._place

    def counted(self: PipelinedProducer, partition: object, *args: Any) -> None:
        sent[self.name, partition, self.client.loop.time()] += 1
        place(self, partition, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(PipelinedProducer, "_place", counted)
    outcome = run(plan(SLOW))

    assert outcome.code == OK, describe(outcome)
    assert max(sent.values()) == MOST_IN_FLIGHT
    assert Counter(sent.values())[MOST_IN_FLIGHT] > 10


@pytest.mark.parametrize("faults", [FAILOVERS, RECONNECTS], ids=["failovers", "reconnects"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_what_they_send_stands_once_and_in_order(faults: tuple[Fault, ...], codec: str) -> None:
    outcome = run(plan(*faults, codec=codec))
    assert outcome.code == OK, describe(outcome)

    sends = outcome.history.sends()
    gaps = [send for send in sends if send.producer.endswith("-gap")]
    assert sum(send.outcome == "failed" for send in gaps) > 2, "a gap is refused"
    assert outcome.acked_batches > 100


def test_epochs_are_raised_where_sequences_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[str] = []
    anew = PipelinedProducer._restart

    def restart(self: PipelinedProducer, *args: object) -> None:
        raised.append(self.name)
        anew(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(PipelinedProducer, "_restart", restart)
    forgets = Edit(
        "log.producers:Producers.check",
        "batch.last_sequence == last and batch.first_sequence == first",
        "False",
    )
    monkeypatch.setattr(
        "odradek.sim.observed.acknowledgements.refused", lambda *_: iter(())
    )  # who would name this bug
    with applied([forgets]):
        outcome = run(plan(*RECONNECTS))
    assert outcome.code == OK, describe(outcome)
    assert raised
    assert any(send.outcome == "unknown" for send in outcome.history.sends())


def test_a_log_that_takes_any_sequence_is_seen() -> None:
    bug = Edit("log.producers:Producers.check", "first != expected", "False")
    with applied([bug]):
        outcome = run(plan(*RECONNECTS))

    assert outcome.code == CORRECTNESS
    assert outcome.anomalies[0].name in ("duplicate", "G1a")


def test_two_of_five_with_idempotence_have_them() -> None:
    plans = [draw(seed) for seed in range(400)]
    several = [p for p in plans if p.in_flight > 1]

    assert 0.3 < len(several) / sum(p.is_idempotent for p in plans) < 0.5
    assert all(p.is_idempotent for p in several)
    codecs = Counter(p.codec for p in plans)
    assert all(20 < codecs[name] < 80 for name in ("gzip", "snappy", "lz4", "zstd")), codecs
