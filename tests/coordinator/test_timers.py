"""What is due when: entries without a meaning go, and none that has one."""

import pytest

from odradek.coordinator import timers as timers_module
from odradek.coordinator.consumer_group import ConsumerGroup
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.coordinator.timers import Kind, Timer, Timers

OTHERS = 4


class World:
    """One group of KIP-848 whose timers are the only ones."""

    def __init__(self) -> None:
        self.timers = Timers(self._due_of)
        self.group = ConsumerGroup("g", ConsumerImage(), self.timers)

    def _due_of(self, timer: Timer) -> int | None:
        return self.group.due_of(timer)

    def fired(self, now_ms: int) -> list[str]:
        found = []
        while (timer := self.timers.pop_due(now_ms)) is not None:
            self.group.has_fired(timer)
            self.group.drop_deadline(timer.kind, timer.key)
            found.append(timer.key)
        return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """With a deadline that was put forward, so there are two entries of it, and swept as soon as there are others."""
    monkeypatch.setattr(timers_module, "_SWEEP_FROM", OTHERS + 2)
    world = World()
    world.timers._sweep_at = OTHERS + 2
    group = world.group
    group.set_deadline(Kind.CONSUMER_SESSION, "first", 1)
    for due_ms in (2_000, 1_000):
        group.set_deadline(Kind.REVOCATION, "m", due_ms)
    group.set_deadline(Kind.REVOCATION, "m", 1_500)
    for number in range(OTHERS):
        group.set_deadline(Kind.CONSUMER_SESSION, f"other {number}", 9_000 + number)
    assert len(world.timers._heap) == OTHERS + 2, "swept: of each owner there is one"
    return world


def test_of_a_deadline_that_was_dropped_nothing_is_left(world: World) -> None:
    world.group.drop_deadline(Kind.REVOCATION, "m")
    assert world.fired(3_000) == ["first"]
    assert (Kind.REVOCATION, "m") not in world.group._armed


def test_a_deadline_that_is_set_again_after_a_sweep_comes(world: World) -> None:
    world.group.drop_deadline(Kind.REVOCATION, "m")
    assert world.fired(3_000) == ["first"]
    world.group.set_deadline(Kind.REVOCATION, "m", 4_000)
    assert world.fired(3_999) == []
    assert world.fired(4_000) == ["m"]


def test_a_deadline_comes_once_and_in_time_after_a_sweep(world: World) -> None:
    assert world.fired(1_499) == ["first"]
    assert world.fired(1_500) == ["m"]
    assert world.fired(8_999) == []
    assert len(world.fired(10_000)) == OTHERS
    assert not world.group._armed and not world.timers._heap
