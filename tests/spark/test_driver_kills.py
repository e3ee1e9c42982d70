"""`kill -9` of the driver and its JVM at every step of the exactly-once protocol, by real signals.

At no step in particular, and the driver alone, it is killed by `test_random_kills`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.spark.kill_switch import STEPS
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.kills.pipeline import A_BATCH, Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]

# In the order in which they happen, and the batch whose step it is. The first four leave their batch to be done again.
DEATHS = (
    ("before-write", 1),
    ("after-write", 1),
    ("before-commit", 2),
    ("after-commit", 2),
    ("before-checkpoint", 3),
)


def test_no_row_is_lost_or_doubled_whenever_the_driver_is_killed(
    cluster: ProcessCluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    assert tuple(step for step, _ in DEATHS) == STEPS
    pipeline = Pipeline(cluster.bootstrap, make_topic(partitions=2), tmp_path, 5 * A_BATCH)

    pipeline.die(DEATHS)
    pipeline.end()
