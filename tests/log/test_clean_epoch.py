"""Which life of a broker lost nothing: the marker of a clean stop names its epoch (KIP-966)."""

from pathlib import Path

import pytest

from odradek.log.checkpoints import CLEAN_SHUTDOWN, clean_shutdown_to_bytes, read_clean_shutdown
from odradek.log.files import OsDirectory
from odradek.log.log_manager import LogManager
from odradek.model.settings import BrokerSettings


def manager(*paths: Path) -> LogManager:
    logs = LogManager([OsDirectory.create(str(path)) for path in paths], BrokerSettings({}))
    logs.load(0)
    return logs


def test_a_clean_stop_tells_the_next_life_which_one_it_was(tmp_path: Path) -> None:
    manager(tmp_path / "a", tmp_path / "b").close({}, broker_epoch=42)

    assert manager(tmp_path / "a", tmp_path / "b").clean_epoch == 42
    assert manager(tmp_path / "a", tmp_path / "b").clean_epoch == -1, "that life was not closed"


def test_one_directory_that_was_not_closed_makes_the_whole_stop_unclean(tmp_path: Path) -> None:
    manager(tmp_path / "a", tmp_path / "b").close({}, broker_epoch=42)
    (tmp_path / "b" / CLEAN_SHUTDOWN).unlink()

    assert manager(tmp_path / "a", tmp_path / "b").clean_epoch == -1


@pytest.mark.parametrize(
    ("data", "epoch"),
    [
        (clean_shutdown_to_bytes(7), 7),
        (clean_shutdown_to_bytes(), -1),
        (b"", -1),
        (b"nonsense", -1),
        (b'{"version":0}', -1),
        (b'{"brokerEpoch":"7"}', -1),
        (b"[]", -1),
    ],
)
def test_markers(data: bytes, epoch: int) -> None:
    assert read_clean_shutdown(data) == epoch
