"""The world most handlers are asked in."""

from pathlib import Path

import pytest

from tests.broker.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three brokers, 1 is the controller's; one topic with one replica, on 1."""
    world = World(tmp_path)
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world[1].broker.controller_status(True, 1, world.now_ms)
    return world
