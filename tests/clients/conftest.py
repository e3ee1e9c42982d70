"""Three real broker processes for each module of this directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.testing.process_cluster import ProcessCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path, brokers=3) as running:
        yield running
