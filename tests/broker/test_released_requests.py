"""A request that is answered is let go at once: the collector of cycles comes seldom, and a request may have megabytes."""

from pathlib import Path

import pytest

from odradek.broker import effects as fx
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages import request_class
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.test_features import answer_store, update
from tests.broker.test_row_limits import LAST, WAYS, filled, give
from tests.broker.world import World
from tests.support import left_over

ROWS = 3
# What the controller, or the store, is asked, and nobody answers in that test.
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


def test_a_change_of_features_that_was_answered_is_in_no_cycle(tmp_path: Path) -> None:
    """The store is asked twice each time, for another one has changed the node in between."""
    world = World(tmp_path, brokers=(1,))
    world[1].broker.controller_status(True, 1, world.now_ms)
    with left_over(UpdateFeaturesRequest) as left:
        for _ in range(ROWS):
            asked = update(world, FeatureUpdateKey(feature="theirs", max_version_level=0, upgrade_type=2))
            for outcome in ("conflict", "stored"):
                answer_store(world, fx.FeaturesRead({"theirs": 3}, 1, {}))
                answer_store(world, fx.ConfigsWritten((outcome,)))
            assert asked.message.results[0].error_code == 0
            del asked
        assert len(left()) == 0
