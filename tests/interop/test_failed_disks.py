"""A log directory fails under a broker of one kind, and the controller is of the other."""

import shutil
from pathlib import Path

import pytest

from tests.interop.cluster import APACHES, OURS, MixedCluster
from tests.interop.load import Writing

PARTITIONS = 6


@pytest.mark.parametrize(("controller", "broken"), [(OURS, 2), (APACHES, 1)])
def test_a_failed_disk_costs_its_replicas_alone_and_is_refilled_when_it_is_replaced(
    controller: str, broken: int, tmp_path: Path
) -> None:
    """Told by a node under /log_dir_event_notification, found out by LeaderAndIsr, refilled by fetching."""
    with MixedCluster(tmp_path, ours=(1,), apaches=(2,), first=controller, disks=2) as cluster:
        cluster.create_topic("t", {number: [1, 2] if number % 2 else [2, 1] for number in range(PARTITIONS)})
        lost_disk = cluster.disks_of(broken)[1]
        lost = [number for number in range(PARTITIONS) if (lost_disk / f"t-{number}").exists()]
        kept = [number for number in range(PARTITIONS) if number not in lost]
        assert lost and kept
        with Writing(cluster, "t", PARTITIONS) as writing:
            writing.wait_for_more()
            # At once: while a tree is removed file by file a broker makes new ones in it.
            shutil.rmtree(lost_disk.rename(tmp_path / "gone"))
            cluster.wait_until(
                lambda: all(cluster.isr("t", number) == {3 - broken} for number in lost),
                f"{lost} are in sync on the other broker alone",
            )
            assert all(cluster.leader("t", number) == 3 - broken for number in lost)
            writing.wait_for_more()
            assert all(cluster.isr("t", number) == {1, 2} for number in kept)

            cluster.terminate(broken)
            lost_disk.mkdir()
            cluster.restart(broken)
            cluster.wait_full("t")
            writing.wait_for_more()
        writing.check()
