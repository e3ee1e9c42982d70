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


def test_a_brokers_log_is_kept_short_while_its_process_appends(tmp_path: Path) -> None:
    broker = ProcessCluster(tmp_path, brokers=1).brokers[1]
    broker.directory.mkdir(parents=True)
    broker.keep_log_short(10)  # there is none yet
    aside = broker.log_file.with_name("broker.log.1")
    with open(broker.log_file, "ab", buffering=0) as log:
        for text in (b"first line\n", b"second line\n"):
            log.write(text)
            broker.keep_log_short(100)
        assert not aside.exists()
        broker.keep_log_short(10)
        assert aside.read_bytes() == b"first line\nsecond line\n"
        assert stat.S_IMODE(aside.stat().st_mode) == 0o600
        log.write(b"third line\n")
        assert broker.log_file.read_bytes() == b"third line\n", "it goes on at the beginning of the file"
        broker.keep_log_short(10)
        assert aside.read_bytes() == b"third line\n"
