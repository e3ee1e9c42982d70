"""Java's transactional producer and its consumer: exactly once, whoever is killed. The loop is tools/Transform.java."""

import os
from pathlib import Path

import pytest

from odradek.client import sync_transactions
from odradek.client.sync import SyncClient
from odradek.testing.process_cluster import ProcessCluster
from tests.clients.exactly_once import NAME, OF_TRANSACTIONS, arguments, comes_out_once
from tests.clients.support import coordinator_of
from tests.interop import apache

KILLS = int(os.environ.get("ODRADEK_KILLS", "3"))


@pytest.mark.parametrize("version", apache.VERSIONS)
def test_each_record_comes_out_once_whoever_is_killed(tmp_path: Path, version: str) -> None:
    apache.skip_without(version)
    program = str(apache.HERE / "tools" / "Transform.java")
    with ProcessCluster(tmp_path) as cluster:
        command = apache.java("128m", program, *arguments(cluster.bootstrap), version=version)
        lives = comes_out_once(cluster, command, kills=KILLS)
        assert lives >= 2
        epoch = last_epoch(cluster)
    # Each life raises it by one or two. With `transaction.version` 2, which 4.1 speaks, each transaction does.
    assert (epoch > 4 * lives) is (version == apache.NEWER_VERSION), f"epoch {epoch} after {lives} lives"


def last_epoch(cluster: ProcessCluster) -> int:
    found = coordinator_of(cluster, NAME, OF_TRANSACTIONS)
    with SyncClient(cluster.bootstrap) as client:
        return int(sync_transactions.describe(client, found, NAME).producer_epoch)
