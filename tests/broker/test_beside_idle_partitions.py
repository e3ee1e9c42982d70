"""A round trip with acks=all costs the same beside partitions that are followed and do not change."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from odradek.model.error_codes import ErrorCode
from tests.broker.world import World

OTHERS = 120


def calls_of_a_round_trip(world: World) -> "Counter[str]":
    """What is called, and how often, from a producer's request to the last follower's next fetch."""
    called: Counter[str] = Counter()

    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            called[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            called[argument.__qualname__] += 1

    sys.setprofile(count)
    try:
        pending = world.produce(1, b"a", acks=-1)
        world.settle()
    finally:
        sys.setprofile(None)
    assert world.produced(pending)[0] == ErrorCode.NONE
    return called


def test_a_round_trip_takes_the_same_steps_beside_partitions_that_do_not_change(tmp_path: Path) -> None:
    alone = World(tmp_path / "alone")
    beside = World(tmp_path / "beside")
    for index in range(OTHERS):
        beside.lead(1, topic="others", index=index, topic_id=b"others".ljust(16), is_new=True, settle=False)
    counts = []
    for world in (alone, beside):
        world.lead(1, is_new=True)
        for _ in range(3):  # the first one opens sessions, and is told where everything ends
            world.produce(1, b"a", acks=-1)
            world.settle()
            world.advance(1_000)
        counts.append(calls_of_a_round_trip(world))
    (session, *_) = beside[1].broker.fetch_sessions._sessions.values()
    assert len(session.wanted) == OTHERS + 1

    assert counts[0] == counts[1]
