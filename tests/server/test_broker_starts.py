"""A start over log directories of which one is of no use: the others are served, in whatever order they are named."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.log.checkpoints import META_PROPERTIES
from odradek.log.errors import StorageError
from odradek.log.files import LOCK_NAME, TEMPORARY_SUFFIX
from odradek.model.settings import BrokerSettings
from odradek.server.broker_runtime import BrokerRuntime
from odradek.server.environment import Environment
from odradek.store.memory_session import MemoryEnsemble


def started(
    *paths: Path,
) -> list[str]:
    """Which directories are offline once it serves."""

    async def run() -> list[str]:
        environment = Environment(asyncio.get_running_loop())
        ensemble = MemoryEnsemble()
        settings = {
            "broker.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": ",".join(map(str, paths)),
        }
        runtime = BrokerRuntime(BrokerSettings(settings), environment, ensemble)
        try:
            await runtime.start()
            return sorted(runtime.logs.offline_directories)
        finally:
            await runtime.stop(is_controlled=False)
            await asyncio.to_thread(environment.close)

    return asyncio.run(run())


def none_at_all(path: Path) -> None:
    path.touch()


def no_lock(path: Path) -> None:
    """As on a disk that is full, or where another user made the file."""
    (path / LOCK_NAME).mkdir(parents=True)


def nothing_may_be_written(path: Path) -> None:
    (path / (META_PROPERTIES + TEMPORARY_SUFFIX)).mkdir(parents=True)


FAULTS = (none_at_all, no_lock, nothing_may_be_written)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_directory_of_no_use_is_left_out_and_the_other_serves(
    tmp_path: Path, fault: Callable[[Path], None], is_first: bool
) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    fault(bad)
    assert started(*((bad, good) if is_first else (good, bad))) == [str(bad)]
    assert (good / META_PROPERTIES).is_file()


@pytest.mark.parametrize("fault", FAULTS)
def test_where_none_is_of_use_the_start_says_why(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    bad = tmp_path / "bad"
    fault(bad)
    with pytest.raises(StorageError, match=str(bad)):
        started(bad)
