"""The world most handlers are asked in."""

from pathlib import Path
from typing import Any

import pytest

from odradek.log.offset_checkpoint import OffsetCheckpoint
from tests.broker.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three brokers, 1 is the controller's; one topic with one replica, on 1."""
    world = World(tmp_path)
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world[1].broker.controller_status(True, 1, world.now_ms)
    return world


@pytest.fixture
def checkpoints_written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of those that are written from now on."""
    written: list[str] = []
    write = OffsetCheckpoint.write

    def noted(checkpoint: OffsetCheckpoint, offsets: Any) -> None:
        written.append(checkpoint.name)
        write(checkpoint, offsets)

    monkeypatch.setattr(OffsetCheckpoint, "write", noted)
    return written
