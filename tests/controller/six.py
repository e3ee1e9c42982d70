"""Six brokers and a partition that moves between them."""

from odradek.controller.effects import Effects
from odradek.model.controller_requests import AlterReassignmentsAnswer
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId
from tests.controller.world import (
    World,
    stops,
    tp,
)


def six(*assignment: list[int]) -> World:
    world = World().brokers(1, 2, 3, 4, 5, 6)
    world.elect(1)
    world.create("r", *(assignment or ([1, 2, 3],)))
    return world


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(b) for b in brokers)


def result(effects: Effects, text: str = "r-0") -> tuple[ErrorCode, str]:
    answer = effects.answers[-1].body
    assert isinstance(answer, AlterReassignmentsAnswer)
    return answer.partitions[tp(text)]


def told_to_delete(effects: Effects) -> list[int]:
    return [r.broker for r in stops(effects) if any(p.delete for p in r.partitions)]
