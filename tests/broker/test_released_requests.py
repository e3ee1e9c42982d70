"""A request that is answered is let go at once: the collector of cycles comes seldom, and a request may have megabytes."""

from pathlib import Path

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages import request_class
from tests.broker.test_row_limits import LAST, WAYS, filled, give
from tests.broker.world import World
from tests.support import left_over

ROWS = 3
# What the controller, or the store, is asked, and nobody here answers.
WAIT_ON = (ApiKey.ELECT_LEADERS, ApiKey.UPDATE_FEATURES)
ANSWERED = [(key, path) for key, path in WAYS if key not in WAIT_ON]


@pytest.mark.parametrize(("key", "path"), ANSWERED, ids=str)
def test_what_was_answered_is_in_no_cycle(tmp_path: Path, key: int, path: tuple[str, ...]) -> None:
    world = World(tmp_path, brokers=(1,))
    world.coordinate_alone(0)
    world[1].broker.controller_status(True, 1, world.now_ms)
    world.now_ms += 20
    world[1].broker.tick(world.now_ms)
    world.settle()
    cls = request_class(key)
    body = filled(cls, LAST[key], path, ROWS).encode(LAST[key])
    with left_over(cls) as left:
        for _ in range(ROWS):
            give(world, key, LAST[key], body)
            world.settle()
        assert len(left()) == 0
