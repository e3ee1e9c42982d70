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
    def begun() -> Pipeline:
        number = len(pipelines)
        (tmp_path / str(number)).mkdir()
        topic = make_topic(partitions=2)
        pipelines.append(Pipeline(cluster.bootstrap, topic, tmp_path / str(number), 12 * A_BATCH))
        return pipelines[-1]

    pipelines: list[Pipeline] = []
    pipeline = begun()
    pipeline.die(LATER_DEATHS)
    while not is_killed_underway(pipeline):
        assert len(pipelines) < 5, "each had done all before anybody saw that it was at it"
        pipeline = begun()

    for one in pipelines:
        one.end()


def is_killed_underway(pipeline: Pipeline) -> bool:
    """From outside, at no step in particular, and the Python driver alone: its JVM lives on for a moment, and the next driver
    starts beside it.

    Most of it is still to be done then. On a busy machine it may have ended all the same before it is seen, and nothing is killed.
    """
    before = len(pipeline.batches_in_table)
    process = pipeline.begin()
    try:
        eventually(lambda: len(pipeline.batches_in_table) > before, 600, "one more batch in the table")
    finally:
        process.kill()
        process.wait(60)
    assert process.returncode in (0, -signal.SIGKILL), pipeline.last_words
    return process.returncode == -signal.SIGKILL
