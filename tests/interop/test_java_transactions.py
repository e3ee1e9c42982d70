"""Java's transactional producer and its consumer: exactly once, whoever is killed. The loop is tools/Transform.java."""

import os
from pathlib import Path

import pytest

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.exactly_once import arguments, comes_out_once
from tests.interop import apache

KILLS = int(os.environ.get("ODRADEK_KILLS", "3"))


@pytest.mark.parametrize("version", apache.VERSIONS)
def test_each_record_comes_out_once_whoever_is_killed(tmp_path: Path, version: str) -> None:
    apache.skip_without(version)
    program = str(apache.HERE / "tools" / "Transform.java")
    with ProcessCluster(tmp_path) as cluster:
        command = apache.java("128m", program, *arguments(cluster.bootstrap), version=version)
        assert comes_out_once(cluster, command, kills=KILLS) >= 2
