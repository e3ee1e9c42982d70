"""How many connections, from where and how fast, with the clock moved by hand."""

import pytest

from odradek.model.settings import BrokerSettings
from odradek.server.connection_limits import LONGEST_TURN_S, ConnectionLimits, Full, Refused


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000


class Limits:
    def __init__(self, rates: dict[str, float] | None = None, **settings: str) -> None:
        self.clock = Clock()
        self.rates = rates or {}
        given = BrokerSettings({name.replace("_", "."): value for name, value in settings.items()})
        self.limits = ConnectionLimits(given, self.rates.get, lambda: self.clock.now_ms)

    def open(self, address: str = "10.0.0.1", here: int = 1, total: int = 1) -> Refused | float:
        return self.limits.opened(address, here=here, total=total)


def test_without_limits_everybody_comes_in_at_once() -> None:
    limits = Limits()
    assert [limits.open(here=n, total=n) for n in range(1, 1_000)] == [0.0] * 999


@pytest.mark.parametrize("step_ms", [0, 10, 100])
def test_more_than_the_rate_wait_as_long_as_they_are_too_many(step_ms: int) -> None:
    limits = Limits(max_connection_creation_rate="10")
    waits = []
    for _ in range(30):
        wait = limits.open()
        assert isinstance(wait, float)
        waits.append(wait)
        limits.clock.now_ms += step_ms
    assert waits[:10] == [0.0] * 10
    expected = max(0.0, 2.0 - 29 * step_ms / 1000)
    assert waits[-1] == pytest.approx(expected, abs=0.01)


def test_a_storm_puts_off_nobodys_turn_for_longer_than_a_client_has_patience() -> None:
    limits = Limits(max_connection_creation_rate="10")
    verdicts = [limits.open() for _ in range(60_000)]
    waiting = [verdict for verdict in verdicts if isinstance(verdict, float)]
    assert max(waiting) == pytest.approx(LONGEST_TURN_S)
    assert len(waiting) == 10 + 10 * LONGEST_TURN_S
    assert "max.connection.creation.rate=10: so many wait" in str(verdicts[-1])
    limits.clock.now_ms += 1_000
    assert limits.open() == pytest.approx(LONGEST_TURN_S - 1 + 0.1)


def test_a_rate_that_is_set_and_taken_away_counts_at_once() -> None:
    limits = Limits()
    limits.limits.settings_changed(BrokerSettings({"max.connection.creation.rate": "1"}))
    assert [limits.open() for _ in range(3)] == [0.0, 1.0, 2.0]
    limits.limits.settings_changed(BrokerSettings({}))
    assert limits.open() == 0.0


def test_an_address_above_its_own_rate_is_held_and_sent_away() -> None:
    limits = Limits({"10.0.0.1": 1.0})
    assert limits.open("10.0.0.1") == 0.0
    verdict = limits.open("10.0.0.1")
    assert isinstance(verdict, Refused)
    assert verdict.after_s == pytest.approx(1.0)
    assert "connection_creation_rate=1 of 10.0.0.1" in verdict.reason
    assert limits.open("10.0.0.2") == 0.0, "others are not held"
    limits.clock.now_ms += 1_000
    assert limits.open("10.0.0.1") == 0.0, "who was sent away did not count"


def test_who_is_not_let_in_at_all_is_held_for_a_window_of_quotas() -> None:
    """Each holds a descriptor meanwhile."""
    verdict = Limits({"10.0.0.1": 0.0}, quota_window_size_seconds="2").open()
    assert isinstance(verdict, Refused)
    assert verdict.after_s == 2


def test_as_many_as_the_limit_says_may_be_open() -> None:
    limits = Limits(max_connections="3", max_connections_per_ip="2")
    assert limits.open(here=2, total=3) == 0.0
    assert limits.open(here=1, total=4) == Refused("max.connections=3 are open")
    assert limits.open(here=3, total=3) == Refused("max.connections.per.ip=2 are open from 10.0.0.1")


def test_an_override_counts_for_its_address_alone() -> None:
    """However it is written: a connection has it in one way."""
    overrides = "10.0.0.1:2, 0:0:0:0:0:0:0:1:0, [FE80::A]:0"
    limits = Limits(max_connections_per_ip="1", max_connections_per_ip_overrides=overrides)
    assert limits.open("10.0.0.1", here=2) == 0.0
    verdicts = [limits.open("10.0.0.1", here=3), limits.open("10.0.0.2", here=2)]
    verdicts += [limits.open("::1", here=1), limits.open("fe80::a", here=1)]
    reasons = [verdict.reason for verdict in verdicts if isinstance(verdict, Refused)]
    assert reasons == [
        "max.connections.per.ip.overrides=2 are open from 10.0.0.1",
        "max.connections.per.ip=1 are open from 10.0.0.2",
        "max.connections.per.ip.overrides=0 are open from ::1",
        "max.connections.per.ip.overrides=0 are open from fe80::a",
    ]


def test_a_protected_listener_is_free_of_what_counts_for_the_whole_broker() -> None:
    limits = Limits(max_connections="3", max_connections_per_ip="2", max_connection_creation_rate="1")

    def open_protected(here: int, total: int) -> Refused | Full | float:
        return limits.limits.opened("10.0.0.1", here=here, total=total, is_protected=True)

    assert [open_protected(here=1, total=3) for _ in range(3)] == [0.0] * 3
    assert limits.open() == 0.0, "and takes nothing of the rate of others"
    assert open_protected(here=2, total=4) == Full("max.connections=3 are open")
    assert open_protected(here=3, total=4) == Refused("max.connections.per.ip=2 are open from 10.0.0.1")
