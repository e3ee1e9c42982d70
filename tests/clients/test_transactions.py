"""Consume, transform, produce, exactly once, while the client itself, the leader of a partition and the coordinators are
killed with `kill -9`, one after the other. The loops are in `transforms/`, one a client, for readers to take."""

import os

import pytest

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.exactly_once import comes_out_once, python_loop

pytestmark = pytest.mark.process

KILLS = int(os.environ.get("ODRADEK_KILLS", "3"))  # `make interop` says 20


@pytest.mark.parametrize("client", ["confluent", "aio", "kafka_python"])
def test_each_record_comes_out_once_whoever_is_killed(cluster: ProcessCluster, client: str) -> None:
    lives = comes_out_once(cluster, python_loop(client)(cluster.bootstrap), kills=KILLS)
    assert lives >= 2
