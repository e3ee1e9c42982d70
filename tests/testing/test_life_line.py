"""What a process holds open so that others live, it alone holds open."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.testing.life_line import LifeLine
from odradek.testing.process_cluster import BrokerProcess, ClusterNotReady, ProcessCluster
from tests.support import descriptors

FORKED = """
import os
from odradek.testing.life_line import LifeLine
kept, dropped = LifeLine(), LifeLine()
dropped.let_go()
worker_begins, let_it_end = os.pipe()
if os.fork() == 0:
    os.close(let_it_end)
    os.read(worker_begins, 1)
    kept.let_go()  # of its parent's, as a `with` that it unwinds
    os._exit(0)
kept.let_go()
print(os.read(kept.read_end, 1), os.read(dropped.read_end, 1), flush=True)
os.close(let_it_end)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_worker_that_was_forked_does_not_keep_alive_what_its_parent_lets_go() -> None:
    """Brokers of a test with such a worker were waited for until the deadline, and killed."""
    answer = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60)
    assert (answer.stdout, answer.stderr) == ("b'' b''\n0\n", "")


def test_a_line_is_let_go_once() -> None:
    before = descriptors()
    line = LifeLine()
    line.is_handed_over()
    line.let_go()
    taken = os.open(os.devnull, os.O_RDONLY)  # gets the number that has become free
    line.let_go()
    os.close(taken)
    assert descriptors() == before


@pytest.mark.process
def test_a_broker_that_has_ended_before_it_is_waited_for_is_told_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = BrokerProcess.start

    def start_and_end(broker: BrokerProcess) -> None:
        start(broker)
        broker._started.wait(60)

    monkeypatch.setattr(BrokerProcess, "start", start_and_end)
    with (
        pytest.raises(
            ClusterNotReady, match=r"broker 1 exited with code 2:\n(.*\n)*.*log\.retention\.ms=soon"
        ),
        ProcessCluster(tmp_path, brokers=1, settings={"log.retention.ms": "soon"}),
    ):
        pass


def test_a_cluster_whose_brokers_ended_by_themselves_leaves_nothing_open(tmp_path: Path) -> None:
    def ends() -> None:
        with (
            pytest.raises(ClusterNotReady, match="broker 1 exited with code 2"),
            ProcessCluster(tmp_path, brokers=1, settings={"log.retention.ms": "soon"}),
        ):
            pass

    ends()  # what the first start opens stays: the file of the ports, the way to the process that forks brokers
    before = descriptors()
    ends()
    assert descriptors() == before
