"""One broker process and one Spark session for all of this directory: starting Spark takes five seconds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import pytest

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.store_server import BUCKET, Front, Store, environment, front
from tests.support import SHORT_LIVED_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = count()
LIMIT_S = 900
# The records' timestamps are constants of the past. Damage is for Spark to find, not for the broker before it. The one
# client of all tests is not to be closed because a test took long.
KEEP = {
    "log.retention.ms": "-1",
    "odradek.log.scrub.bytes.per.second": "0",
    "connections.max.idle.ms": "-1",
    # How soon a coordinator sees that a transaction is too old.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before a session is started for it: of the two parts of `make test` one has none."""
    if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("spark") is None:
        pytest.fail("it takes the fixture `spark` and is not marked `spark`", pytrace=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A query waits for a JVM, and that for its turn: of a machine that does other things too it needs more than other tests."""
    for item in items:
        if item.get_closest_marker("spark") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path_factory.mktemp("broker"), brokers=1, settings=KEEP) as running:
        yield running


@pytest.fixture(scope="session")
def client(cluster: ProcessCluster) -> Iterator[SyncClient]:
    with SyncClient(cluster.bootstrap) as connected:
        yield connected


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    from odradek.spark.session import local_session

    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SHORT_LIVED_JAVA.items():
            patch.setenv(name, value)
        session = local_session("tests", memory="768m", log=log)
    yield session
    code = session.sparkContext._gateway.proc.poll()
    if code is not None:
        words = log.read_text(encoding="utf-8", errors="replace")[-4_000:]
        pytest.fail(
            f"the JVM ended by itself, exit code {code}; its last words: {words or 'none'}", pytrace=False
        )
    session.stop()


@pytest.fixture
def make_topic(client: SyncClient) -> Callable[..., str]:
    def make(name: str | None = None, partitions: int = 1) -> str:
        name = name or f"orders-{next(_numbers)}"
        create_topic(client, name, partitions=partitions)
        return name

    return make


def create_topic(
    client: SyncClient, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
    (answer,) = client.call(CONTROLLER, CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
    assert answer.error_code == 0, answer


def fill(
    client: SyncClient,
    topic: str,
    partition: int,
    values: Sequence[bytes],
    *,
    batch: int = 100,
    codec: str = "none",
) -> None:
    """Appends the values, `batch` records a batch; record n has key `k<n % 5>` and timestamp 1.7e12 + n."""
    for start in range(0, len(values), batch):
        records = [
            NewRecord(b"k%d" % (n % 5), value, 1_700_000_000_000 + n)
            for n, value in enumerate(values[start : start + batch], start=start)
        ]
        client.produce(TopicPartition(topic, partition), build_batch(records, codec=codec))


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    pytest.importorskip("moto", reason="serves S3's interface; pip install 'odradek[test]' brings it")
    running = Store(tmp_path_factory.mktemp("store"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def one_front(store: Store) -> Iterator[Front]:
    with front(store) as one:
        yield one


@pytest.fixture
def before(one_front: Front, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    """The store's front, which the environment names."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment(one_front.url).items():
        monkeypatch.setenv(name, value)
    yield one_front
    one_front.obeys(None)


@pytest.fixture
def url(before: Front) -> str:
    return f"s3://{BUCKET}/orders-{next(_numbers)}"
