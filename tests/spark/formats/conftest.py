from collections.abc import Iterator

import pytest

from tests.spark.formats.registry_server import RegistryServer, registry


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry() as running:
        yield running
