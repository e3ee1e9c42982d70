"""kcat, where it is installed."""

import shutil
import subprocess

import pytest

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import create_topic, leader_of

KCAT = shutil.which("kcat") or shutil.which("kafkacat")

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(KCAT is None, reason="kcat is not installed"),
]

RECORDS = 2000


def test_nothing_acknowledged_is_lost_when_a_leader_is_killed(cluster: ProcessCluster) -> None:
    assert KCAT is not None
    create_topic(cluster, "orders")
    producing = subprocess.Popen(
        [
            KCAT,
            "-P",
            "-b",
            cluster.bootstrap,
            "-t",
            "orders",
            "-p",
            "0",
            "-X",
            "acks=all",
            "-X",
            "linger.ms=1",
        ],
        stdin=subprocess.PIPE,
    )
    assert producing.stdin is not None
    for number in range(RECORDS):
        producing.stdin.write(f"{number}\n".encode())
        if number == RECORDS // 2:
            producing.stdin.flush()
            cluster.kill(leader_of(cluster, "orders"))
    producing.stdin.close()
    assert producing.wait(60) == 0

    read = subprocess.run(
        [KCAT, "-C", "-b", cluster.bootstrap, "-t", "orders", "-p", "0", "-o", "beginning", "-e", "-q"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert {int(line) for line in read.stdout.split()} == set(range(RECORDS))
