"""kcat, where it is installed; `make interop` fetches it."""

import subprocess

import pytest

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.kcat import kcat
from tests.clients.programs import reader
from tests.clients.support import create_topic, leader_of
from tests.clients.test_groups import GROUP, TOPIC, goes_on_where_it_was

pytestmark = pytest.mark.process

RECORDS = 2000


@pytest.fixture
def command() -> list[str]:
    """Before `cluster`, which nobody starts in vain."""
    return kcat()


def test_nothing_acknowledged_is_lost_when_a_leader_is_killed(
    command: list[str], cluster: ProcessCluster
) -> None:
    create_topic(cluster, TOPIC)
    where = ("-b", cluster.bootstrap, "-t", TOPIC, "-p", "0")
    producing = subprocess.Popen(
        [*command, "-P", *where, "-X", "acks=all", "-X", "linger.ms=1"],
        stdin=subprocess.PIPE,
    )
    assert producing.stdin is not None
    for number in range(RECORDS):
        producing.stdin.write(f"{number}\n".encode())
        if number == RECORDS // 2:
            producing.stdin.flush()
            cluster.kill(leader_of(cluster, TOPIC))
    producing.stdin.close()
    assert producing.wait(60) == 0

    read = subprocess.run(
        [*command, "-C", *where, "-o", "beginning", "-e", "-q"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert {int(line) for line in read.stdout.split()} == set(range(RECORDS))


def test_a_group_goes_on_where_it_was_when_its_coordinator_is_killed(
    command: list[str], cluster: ProcessCluster
) -> None:
    def at(bootstrap: str) -> list[str]:
        settings = ("-X", "auto.offset.reset=earliest", "-X", "auto.commit.interval.ms=200")
        # -E: a connection that is refused is no reason to end.
        return [*command, "-b", bootstrap, "-G", GROUP, "-E", "-u", "-f", "%p %o %s\n", *settings, TOPIC]

    goes_on_where_it_was(cluster, reader(at))
