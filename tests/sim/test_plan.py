"""What a seed draws before anything runs."""

from dataclasses import replace

import pytest

from odradek.sim.plan import (
    ALONE,
    LOSE_ONE,
    PACE,
    QUIET_SHARE,
    SETS_MIN_ISR,
    SINGLE,
    Fault,
    at_pace,
    draw,
    with_a_quiet_quarter,
)


def longest_quiet_s(faults: tuple[Fault, ...], duration_s: float) -> float:
    longest, until = 0.0, 0.0
    for fault in sorted(faults):
        longest = max(longest, fault.at_s - until)
        until = max(until, fault.at_s + fault.lasts_s)
    return max(longest, duration_s - until)


def test_a_quarter_of_the_time_of_every_seed_is_free_of_faults() -> None:
    for seed in range(500):
        plan = draw(seed)
        assert longest_quiet_s(plan.faults, plan.duration_s) >= QUIET_SHARE * plan.duration_s - 1e-9, seed


def test_what_waits_until_everybody_is_well_does_not_strike_in_the_quiet_time() -> None:
    plan = replace(
        draw(5), duration_s=10.0, faults=(Fault(1.0, "pause", 0, 0, 1.0), Fault(7.0, "pause", 0, 0))
    )

    assert [plan.not_quiet(at_s) for at_s in (1.5, 2.0, 6.9, 7.0, 8.0)] == [1.5, 7.0, 7.0, 7.0, 8.0]


def test_no_fault_is_left_out_for_it() -> None:
    faults = [Fault(float(n), "pause", 0.5, 0.5, 3.0) for n in range(12)]
    placed = with_a_quiet_quarter(7, 12.0, faults)

    assert len(placed) == len(faults)
    assert all(0 <= fault.at_s < 12.0 and 0 <= fault.lasts_s <= 3.0 for fault in placed)
    assert list(placed) == sorted(placed)


def test_a_plan_is_played_in_half_of_its_time_with_all_of_its_faults() -> None:
    faults = [Fault(4.0, "pause", 0.5, 0.25, 3.0), Fault(9.0, "bounce", 0.0, 0.0)]

    assert PACE == 0.5
    assert at_pace(faults) == (Fault(2.0, "pause", 0.5, 0.25, 1.5), Fault(4.5, "bounce", 0.0, 0.0))
    for plan in map(draw, range(100)):
        assert 2.0 <= plan.duration_s <= 8.0
        assert all(fault.at_s <= plan.duration_s for fault in plan.faults)


def test_lags_waits_and_sessions_are_within_the_time_of_a_seed() -> None:
    for seed in range(200):
        settings = draw(seed).settings
        lag_ms, wait_ms = (int(settings[f"replica.{name}.max.ms"]) for name in ("lag.time", "fetch.wait"))
        assert 1_000 <= lag_ms <= 5_000 and wait_ms <= lag_ms / 2
        assert int(settings["zookeeper.session.timeout.ms"]) < 8_000


def test_one_seed_of_four_has_sockets_without_send_buffers() -> None:
    assert sum(not draw(seed).has_send_buffers for seed in range(100)) == 25


def test_a_plan_is_drawn_from_its_seed_alone() -> None:
    assert draw(11) == draw(11)
    assert len({draw(seed).faults for seed in range(50)}) > 45


def test_seeds_differ_in_which_faults_they_have() -> None:
    """Swarm testing: no seed has all kinds, and no two have to have the same."""
    kinds = [frozenset(fault.kind for fault in draw(seed).faults) for seed in range(200)]

    assert len(set(kinds)) > 120
    assert max(map(len, kinds)) < len(frozenset().union(*kinds))


@pytest.mark.parametrize("kind", ["lost_watches", "store_restart", "pause_controller_between_steps"])
def test_it_is_drawn_now_and_then(kind: str) -> None:
    assert sum(any(f.kind == kind for f in draw(seed).faults) for seed in range(300)) >= 5


def test_what_few_seeds_have_finds_what_it_strikes() -> None:
    """A group or a transaction whose coordinator may be alone; and producers that ask for ids, which they do when they begin."""
    kinds = set()
    for plan in map(draw, range(500)):
        alone = plan.has(ALONE)
        asked = [fault for fault in plan.faults if fault.kind == "lost_allocations"]
        kinds |= {"alone"} if alone else set()
        kinds |= {"asked"} if asked else set()
        assert not alone or plan.has_group or plan.has_sharers or plan.mixed_group or plan.has_transactions
        assert not alone or plan.settings["replica.lag.time.max.ms"] == "1000"
        assert not asked or plan.acks == -1 or plan.has_transactions
        assert [fault.at_s for fault in asked] in ([], [0.0])
    assert kinds == {"alone", "asked"}


def test_where_a_disk_loses_what_others_have_one_copy_is_never_enough() -> None:
    """Of an emptied disk it was so only in seeds that did not empty one in the end."""
    plans = [draw(seed) for seed in range(700)]
    losing = [plan for plan in plans if plan.has(SINGLE | LOSE_ONE)]

    assert any(plan.has(SINGLE) for plan in losing) and any(plan.has(SETS_MIN_ISR) for plan in plans)
    assert [plan.seed for plan in losing if plan.has(SETS_MIN_ISR)] == []
