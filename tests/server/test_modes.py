"""Files that may hold passwords, and how long they get."""

import logging
import os
import stat
from pathlib import Path

import pytest

from odradek.server.main import read_configuration
from odradek.testing.process_cluster import ProcessCluster


def test_what_a_cluster_writes_is_its_owners(tmp_path: Path) -> None:
    cluster = ProcessCluster(tmp_path / "c", brokers=1)
    directory = cluster.brokers[1].directory
    directory.mkdir(parents=True)
    (directory / "server.properties").touch(mode=0o644)  # as an older version left it
    old = os.umask(0)
    try:
        cluster.write_configurations()
    finally:
        os.umask(old)
    assert stat.S_IMODE((directory / "server.properties").stat().st_mode) == 0o600
    other = ProcessCluster(tmp_path / "d", brokers=1)
    other.write_configurations()
    assert stat.S_IMODE(other.brokers[1].directory.stat().st_mode) == 0o700


@pytest.mark.parametrize(("mode", "is_said"), [(0o600, False), (0o640, True), (0o644, True)])
def test_a_configuration_with_a_password_that_others_may_read_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, is_said: bool
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nodradek.zookeeper.sasl.jaas.config=secret\n")
    file.chmod(mode)
    with caplog.at_level(logging.WARNING):
        read_configuration(str(file))
    assert (f"chmod 600 {file}" in caplog.text) is is_said
    assert "secret" not in caplog.text


def test_one_without_a_password_may_be_read_by_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\n")
    file.chmod(0o644)
    read_configuration(str(file))
    assert caplog.text == ""
