"""`kill -9` of the driver at the steps of the exactly-once protocol up to the commit, by real signals."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.spark.kill_switch import STEPS
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.kills.pipeline import A_BATCH, Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]

# In the order in which they happen, and the batch whose step it is. The first two leave batch 1 to be done again.
DEATHS = (("before-write", 1), ("after-write", 1), ("before-commit", 2))
LATER_DEATHS = (("after-commit", 1), ("before-checkpoint", 2))


def test_no_row_is_lost_or_doubled_whenever_the_driver_is_killed_before_its_commit(
    cluster: ProcessCluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    assert tuple(step for step, _ in DEATHS + LATER_DEATHS) == STEPS
    pipeline = Pipeline(cluster.bootstrap, make_topic(partitions=2), tmp_path, 6 * A_BATCH)

    pipeline.die(DEATHS)
    pipeline.end()
