"""Quotas of clients in simulated worlds: each of the three holds somebody up, and who is held up goes on when there is none any more."""

from odradek.model.ids import BrokerId
from odradek.sim.checkers.waits import Muted, Mutes
from odradek.sim.plan import Fault, Plan, draw
from odradek.sim.run import CORRECTNESS, OK, Outcome, describe, run
from odradek.sim.world import World
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.plans import three_brokers
from tests.support import each

# What is held up by it -> the target of `set_quota`.
QUOTAS = {"produce": 0.1, "fetch": 0.5, "request": 0.9}


def limited(target: float, amount: float = 0.0) -> Plan:
    quota = Fault(1.0, "set_quota", target, amount, 4.0)
    return three_brokers(partitions=2, acks=-1, faults=(quota,), duration_s=7.0)


def played(plan: Plan) -> tuple[Outcome, set[str]]:
    """And by what clients were held up."""
    seen: set[str] = set()

    def observe(world: World) -> None:
        for broker in world.brokers.values():
            if broker.runtime is not None and broker.is_serving:
                counters = broker.runtime.broker.throttles.counters
                seen.update(name.split("_")[0] for name, count in counters.items() if count)

    return run(plan, observe=observe), seen


@each(QUOTAS)
def test_each_holds_clients_up_and_is_survived(held_up: str) -> None:
    outcome, seen = played(limited(QUOTAS[held_up]))

    assert outcome.code == OK, describe(outcome)
    assert seen == {held_up}


def test_half_of_the_time_is_used_up_as_well() -> None:
    outcome, seen = played(limited(QUOTAS["request"], 0.9))

    assert outcome.code == OK, describe(outcome)
    assert seen == {"request"}


def test_time_that_is_not_counted_holds_nobody_up() -> None:
    uncounted = Edit(
        "broker.client_throttles:ClientThrottles.time_spent", "limit.rate.record(nanoseconds, now_ms)", "pass"
    )
    with applied([uncounted]):
        outcome, seen = played(limited(QUOTAS["request"]))

    assert (outcome.code, seen) == (OK, set())


NOT_RELEASED = {
    "nobody looks for them": Edit(
        "server.gateway:Gateway.end_turn", "self._throttles.changes != self._quotas_seen", "False"
    ),
    "they stay where they are": Edit(
        "server.gateway:Gateway._release_some",
        "self._to_be_released.pop().release()",
        "self._to_be_released.pop()",
    ),
    "the wait is as long as before": Edit(
        "server.connection:Connection.release", "self._muted_until = self._host.monotonic()", "pass"
    ),
}


@each(NOT_RELEASED)
def test_who_is_not_released_is_found(why: str) -> None:
    with applied([NOT_RELEASED[why]]):
        outcome, _ = played(limited(QUOTAS["fetch"]))

    assert outcome.code == CORRECTNESS and outcome.reason.startswith("NotMuted: "), describe(outcome)


def test_only_a_quota_of_time_has_requests_take_any() -> None:
    assert [limited(target).times_requests for target in QUOTAS.values()] == [False, False, True]
    assert {draw(seed).times_requests for seed in range(150)} == {False, True}


def test_who_stays_muted_is_named() -> None:
    mutes, one = Mutes(), Muted(BrokerId(1), 7, "c1:1", 3.0)
    assert list(mutes.observe([one], 1.0)) == []
    assert list(mutes.observe([one], 1.0 + Mutes.WITHIN_S)) == []
    (found,) = mutes.observe([one, one._replace(connection=8)], 1.25 + Mutes.WITHIN_S)
    assert found.name == "NotMuted" and "c1:1" in found.detail
    assert list(mutes.observe([], 2.0)) == []
    assert list(mutes.observe([one], 2.25)) == [], "muted anew"
