"""A range that is read from the replica in the reader's rack (KIP-392): as far as it goes, and the rest from the leader."""

from collections.abc import Iterator

import pytest

from odradek.client.sync import SyncClient
from odradek.client.sync_fetch import Fetched, read_range
from odradek.client.sync_segments import LogPlaces
from odradek.model.ids import TopicPartition
from odradek.model.settings import RACK_AWARE_SELECTOR
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from odradek.protocol.schema import Request
from odradek.records.builder import NewRecord, build_batch
from odradek.testing.running_cluster import RunningCluster, running_cluster
from odradek.testing.topic_names import topic_name_for
from tests.client.test_sync_fetch import ORDERS, ScriptedLog

RECORDS, OF_BATCH = 200, 10
PIECE_BYTES = 1_000  # a few batches
CLIENT = "reader"


@pytest.fixture(scope="module")
def racks() -> Iterator[RunningCluster]:
    settings = {"broker.rack": "$broker", "replica.selector.class": RACK_AWARE_SELECTOR}
    with running_cluster(settings=settings) as cluster:
        yield cluster


@pytest.fixture
def client(racks: RunningCluster) -> Iterator[SyncClient]:
    with SyncClient(racks.bootstrap, client_id=CLIENT, request_timeout_s=60) as connected:
        yield connected


class Topic:
    """One partition with records, and how many Fetches of the reader its leader and a follower have heard."""

    def __init__(self, racks: RunningCluster, client: SyncClient, name: str) -> None:
        racks.create_topic(name, replication_factor=3)
        self.partition = TopicPartition(name, 0)
        for first in range(0, RECORDS, OF_BATCH):
            records = [NewRecord(None, b"%04d" % n) for n in range(first, first + OF_BATCH)]
            client.produce(self.partition, build_batch(records))
        leader = racks.leader(name)
        self.near = next(broker for broker in racks.isr(name) if broker != leader)
        self.at_leader, self.at_near = (
            racks.inject("Fetch", delay_s=0.001, broker=broker, client_id=CLIENT, topic=name)
            for broker in (leader, self.near)
        )

    @property
    def fetches(self) -> tuple[int, int]:
        return self.at_leader.hits, self.at_near.hits

    def stop_counting(self) -> None:
        self.at_leader.remove()
        self.at_near.remove()

    def read(
        self, client: SyncClient, rack: str | None = None, places: LogPlaces | None = None
    ) -> Iterator[Fetched]:
        return read_range(
            client,
            self.partition,
            0,
            RECORDS,
            max_bytes=PIECE_BYTES,
            rack=f"broker-{self.near}" if rack is None else rack,
            places=places,
        )


@pytest.fixture
def topic(racks: RunningCluster, client: SyncClient, request: pytest.FixtureRequest) -> Iterator[Topic]:
    made = Topic(racks, client, topic_name_for(request.node.name))
    yield made
    made.stop_counting()


def offsets(found: list[Fetched]) -> list[int]:
    return [fetched.next_offset for fetched in found]


def test_the_leader_is_asked_once_and_the_replica_in_the_rack_for_the_range(
    topic: Topic, client: SyncClient
) -> None:
    found = list(topic.read(client))

    assert offsets(found)[-1] == RECORDS and len(found) > 2
    assert topic.fetches == (1, len(found))


@pytest.mark.parametrize("rack", ["", "elsewhere"])
def test_without_a_replica_in_the_rack_the_leader_is_read_from(
    topic: Topic, client: SyncClient, rack: str
) -> None:
    found = list(topic.read(client, rack))

    assert offsets(found)[-1] == RECORDS
    assert topic.fetches == (len(found), 0)


def test_whoever_would_read_the_leaders_files_reads_the_replica_in_its_rack(
    topic: Topic, client: SyncClient
) -> None:
    found = list(topic.read(client, places=LogPlaces(client, anywhere=True)))

    assert offsets(found)[-1] == RECORDS
    assert not any(fetched.is_in_place for fetched in found)
    assert topic.fetches == (1, len(found))


@pytest.mark.parametrize("error", ["OFFSET_OUT_OF_RANGE", "UNKNOWN_TOPIC_ID", "FENCED_LEADER_EPOCH"])
def test_what_the_replica_says_is_not_there_the_leader_has(
    racks: RunningCluster, topic: Topic, client: SyncClient, error: str
) -> None:
    topic.stop_counting()
    with racks.inject("Fetch", error=error, broker=topic.near, client_id=CLIENT, times=1, skip=1) as fault:
        assert offsets(list(topic.read(client)))[-1] == RECORDS
    assert fault.hits == 1


@pytest.mark.parametrize("ends", ["killed", "paused"])
def test_the_rest_comes_from_the_leader_when_the_replica_is_gone(
    racks: RunningCluster, topic: Topic, client: SyncClient, ends: str
) -> None:
    client.request_timeout_s = 2  # of one that is silent; whoever leads has all of the range's patience
    reading = topic.read(client)
    found = [next(reading)]
    if ends == "killed":
        racks.kill(topic.near)
    else:
        racks.pause(topic.near, session_ends_after_s=None)
    found += reading
    if ends == "killed":
        racks.start(topic.near)
    else:
        racks.resume(topic.near)

    assert offsets(found)[-1] == RECORDS
    assert offsets(found) == sorted(set(offsets(found)))


class Far(ScriptedLog):
    """A leader that sends its readers to broker 2."""

    def __init__(self, near: ScriptedLog) -> None:
        super().__init__()
        self.near = near

    def metadata(self) -> MetadataResponse:
        answer = super().metadata()
        answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=self.near.port))
        return answer

    def _fetch(self, request: Request, version: int) -> FetchResponse:
        answer = super()._fetch(request, version)
        assert isinstance(request, FetchRequest)
        if request.rack_id:
            (found,) = answer.responses[0].partitions
            found.records, found.preferred_read_replica = b"", 2
        return answer


def test_a_replica_that_has_less_is_read_as_far_as_it_goes() -> None:
    """That nothing is left before the end, as where compaction has left a hole, the leader alone can say."""
    with ScriptedLog(end=20) as near, Far(near) as far, SyncClient(far.address) as client:
        near.high_watermark = 50
        found = list(read_range(client, ORDERS, 5, 50, rack="a"))

    assert offsets(found) == [10, 20, 30, 40, 50]
    assert (near.fetched_at, far.fetched_at) == ([5, 10, 20], [5, 20, 30, 40])
