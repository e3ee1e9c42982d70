"""`kill -9` of the driver behind the commit and at any moment, by real signals."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.testing.process_cluster import ProcessCluster
from tests.spark.kills.pipeline import A_BATCH, Pipeline
from tests.spark.test_driver_kills import LATER_DEATHS
from tests.support import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]


def test_no_row_is_lost_or_doubled_whenever_the_driver_is_killed_later(
    cluster: ProcessCluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    pipeline = Pipeline(cluster.bootstrap, make_topic(partitions=2), tmp_path, 12 * A_BATCH)

    pipeline.die(LATER_DEATHS)
    # From outside, at no step in particular, and the Python driver alone: its JVM lives on for a moment, and
    # the next driver starts beside it.
    process = pipeline.begin()
    try:
        # Then most of it is still to be done: it does not end before it is killed.
        eventually(lambda: len(pipeline.batches_in_table) >= 4, 600, "one more batch in the table")
    finally:
        process.kill()
        process.wait(60)
    assert process.returncode == -signal.SIGKILL

    pipeline.end()
