"""Producers in line for an offset: in what order they are answered, and who stands in the line."""

from itertools import permutations

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.replication.waiting import BEYOND_ALL, AckQueue
from tests.replication.partitions import Waits


class Slots(Waits):
    """One request whose slots are numbered by whoever adds it."""

    def __init__(self) -> None:
        super().__init__()
        self.slots: list[int] = []

    def complete(self, slot: int, error: ErrorCode) -> None:
        self.slots.append(slot)


@pytest.mark.parametrize("offsets", list(permutations((10, 20, 20, 30))), ids=str)
def test_a_line_is_in_the_order_of_offsets_and_of_coming_however_they_came(offsets: tuple[int, ...]) -> None:
    line, waits = AckQueue(), Slots()
    for slot, offset in enumerate(offsets):
        line.add(offset, waits, slot)

    assert line.next_offset == 10
    line.complete(ErrorCode.NONE, up_to=20)
    assert [offsets[slot] for slot in waits.slots] == [10, 20, 20]
    assert waits.slots[1] < waits.slots[2], "who came first"
    line.complete(ErrorCode.NONE)
    assert [offsets[slot] for slot in waits.slots] == [10, 20, 20, 30] and line.next_offset == BEYOND_ALL


def test_whoever_was_answered_by_the_deadline_stands_in_line_no_more() -> None:
    line = AckQueue()
    waiting = [Waits() for _ in range(4)]
    for offset, one in enumerate(waiting):
        line.add(offset, one, 0)
    for late in (0, 1, 3):
        waiting[late].is_done = True
    assert len(line) == 1

    line.forget_expired()

    assert (len(line), line.next_offset) == (1, 2)
    line.complete(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert [one.told for one in waiting] == [[], [], [ErrorCode.NOT_LEADER_OR_FOLLOWER], []]
    line.forget_expired()
    assert len(line) == 0
