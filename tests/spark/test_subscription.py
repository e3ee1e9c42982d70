"""Where a read begins and ends: by timestamps, and by offsets that are given. A real broker, no JVM."""

import json
from collections.abc import Callable, Iterable

import pytest

from odradek.client.sync import Broker, ClusterView, OffsetAndEpoch, PartitionView, SyncClient, TopicView
from odradek.client.sync_connection import Address
from odradek.model.error_codes import RETRIABLE, ErrorCode
from odradek.model.errors import ConfigurationError, ProtocolError
from odradek.model.ids import NO_TOPIC_ID, TopicPartition
from odradek.spark.data_loss import DataLoss
from odradek.spark.offsets import Offsets, Place
from odradek.spark.options import parse
from odradek.spark.source import BatchReader, schema_of
from odradek.spark.subscription import (
    Subscription,
    _refuse_others,
    existing_topic,
    is_another_topic,
    is_same_topic,
)
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import fill

FIRST_MS = 1_700_000_000_000  # of the record at offset 0; each later one is a millisecond later
BEFORE, MIDDLE, AFTER = FIRST_MS - 5, FIRST_MS + 4, FIRST_MS + 1_000
Plan = Callable[..., dict[int, tuple[int, int]]]


@pytest.fixture(scope="module")
def topic(cluster: ProcessCluster, client: SyncClient) -> str:
    """Ten records in partition 0, three in partition 1, none in partition 2."""
    from tests.spark.conftest import create_topic

    create_topic(client, "subscribed", partitions=3)
    fill(client, "subscribed", 0, [b"x"] * 10, batch=1)
    fill(client, "subscribed", 1, [b"x"] * 3, batch=1)
    return "subscribed"


@pytest.fixture
def plan(cluster: ProcessCluster, topic: str) -> Plan:
    """Partition -> first offset and end, of those of which anything is read."""

    def planned(**options: str) -> dict[int, tuple[int, int]]:
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options}
        parsed = parse(given)
        tasks = BatchReader(parsed, schema_of(parsed)).partitions()
        return {each.partition: (each.start, each.end) for task in tasks for each in task.value}

    return planned


def of_each(topic: str, *numbers: int) -> str:
    return json.dumps({topic: {str(partition): number for partition, number in enumerate(numbers)}})


def test_a_read_of_everything(plan: Plan) -> None:
    assert plan() == {0: (0, 10), 1: (0, 3)}


def test_it_begins_at_the_first_record_that_is_as_late(plan: Plan, topic: str) -> None:
    latest = {"startingOffsetsByTimestampStrategy": "latest"}

    assert plan(startingTimestamp=str(BEFORE), **latest) == {0: (0, 10), 1: (0, 3)}
    assert plan(startingTimestamp=str(MIDDLE), **latest) == {0: (4, 10)}, "partition 1 has none so late"
    assert plan(startingTimestamp=str(AFTER), **latest) == {}
    by_partition = of_each(topic, MIDDLE, FIRST_MS + 2, BEFORE)
    assert plan(startingOffsetsByTimestamp=by_partition, **latest) == {0: (4, 10), 1: (2, 3)}


def test_where_no_record_is_as_late_the_strategy_decides(plan: Plan, topic: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        plan(startingTimestamp=str(MIDDLE))
    assert str(caught.value) == (
        f"{topic}-1 has no record at or after timestamp {MIDDLE}; startingOffsetsByTimestampStrategy=latest would begin at its end"
    )


def test_each_partition_has_a_timestamp_to_begin_at(plan: Plan, topic: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"startingOffsetsByTimestamp does not name {topic}-1, which is read; give it a",
    ):
        plan(startingOffsetsByTimestamp=of_each(topic, MIDDLE))
    with pytest.raises(
        ConfigurationError,
        match=f"startingOffsetsByTimestamp names {topic}-3, which is not among the partitions",
    ):
        plan(startingOffsetsByTimestamp=of_each(topic, BEFORE, BEFORE, BEFORE, BEFORE))


def test_many_partitions_are_compared_with_those_read_once_each() -> None:
    compared = 0

    class Topic(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    read = [TopicPartition("t", number) for number in range(1_000)]
    _refuse_others("startingOffsets", [TopicPartition(Topic("t"), number) for number in range(1_000)], read)
    assert compared <= 2 * len(read)


def test_it_ends_before_the_first_record_that_is_as_late_and_else_at_the_end(plan: Plan, topic: str) -> None:
    assert plan(endingTimestamp=str(MIDDLE)) == {0: (0, 4), 1: (0, 3)}
    assert plan(endingTimestamp=str(BEFORE)) == {}
    assert plan(endingTimestamp=str(AFTER)) == {0: (0, 10), 1: (0, 3)}
    # Of partitions that are not named all is read.
    assert plan(endingOffsetsByTimestamp=of_each(topic, MIDDLE)) == {0: (0, 4), 1: (0, 3)}


def test_offsets_that_are_not_named_are_the_first_and_the_last(plan: Plan, topic: str) -> None:
    assert plan(startingOffsets=of_each(topic, 7)) == {0: (7, 10), 1: (0, 3)}
    assert plan(endingOffsets=of_each(topic, 7)) == {0: (0, 7), 1: (0, 3)}
    assert plan(startingOffsets=of_each(topic, -1, -2), endingOffsets=of_each(topic, -1, 2)) == {1: (0, 2)}
    with pytest.raises(
        ConfigurationError,
        match=f"endingOffsets names {topic}-3, which is not among the partitions read: {topic}-0,",
    ):
        plan(endingOffsets=of_each(topic, 1, 1, 1, 1))


def test_what_is_wrong_with_a_topic_beside_that_there_is_none_is_told_as_it_is(
    client: SyncClient, topic: str
) -> None:
    class Refuses:
        def topic(self, name: str) -> None:
            raise ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)

    with pytest.raises(ProtocolError) as caught:
        existing_topic(Refuses(), "orders", "subscribe")  # type: ignore[arg-type]
    assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(
        ConfigurationError, match=f"subscribe names the topic {topic}s, .*; did you mean {topic}"
    ):
        existing_topic(client, f"{topic}s", "subscribe")
    with pytest.raises(
        ConfigurationError, match=r"assign names the topic -, .*; create it first, or name another$"
    ):
        existing_topic(client, "-", "assign")
    assert existing_topic(client, topic, "topic").partitions.keys() == {0, 1, 2}


def test_a_topic_is_the_same_or_another_where_both_ids_are_known() -> None:
    one, other, none = (Offsets({"t": n}, {}) for n in (b"1" * 16, b"2" * 16, NO_TOPIC_ID))

    assert is_same_topic("t", one, one) and not is_another_topic("t", one, one)
    assert is_another_topic("t", one, other) and not is_same_topic("t", one, other)
    for unknown in (none, Offsets({}, {})):
        for before, now in ((one, unknown), (unknown, one), (unknown, unknown)):
            assert not is_same_topic("t", before, now) and not is_another_topic("t", before, now)


@pytest.mark.parametrize(
    ("known", "told", "is_refused"),
    [(1, 0, True), (7, 6, True), (7, 7, False), (7, 8, False), (7, -1, False), (-1, 0, False)],
)
def test_a_leader_older_than_one_that_is_known_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, known: int, told: int, is_refused: bool
) -> None:
    """It may know of less, and be asked only because a broker's metadata are old; of another topic it may be of any age."""
    partition, ids = TopicPartition("t", 0), {"t": b"1" * 16}
    subscription = Subscription(parse({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}))
    monkeypatch.setattr(subscription, "partitions", lambda seen: (ids, [partition]))
    monkeypatch.setattr(subscription, "_places", lambda wanted: {p: Place(5, told) for p in wanted})
    monkeypatch.setattr(subscription.client, "retrying", lambda asks: asks())
    now = Offsets(ids, {partition: Place(5, told)})

    if is_refused:
        with pytest.raises(
            ProtocolError, match=f"knows leader epoch {known}, the cluster {told} only"
        ) as caught:
            subscription.latest(Offsets(ids, {partition: Place(3, known)}))
        assert caught.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH
    else:
        assert subscription.latest(Offsets(ids, {partition: Place(3, known)})) == now
    assert subscription.latest(Offsets({"t": b"2" * 16}, {partition: Place(3, known)})) == now
    subscription.close()


@pytest.mark.parametrize(("known", "is_refused"), [(b"1" * 16, True), (b"2" * 16, False)])
def test_a_broker_that_has_not_heard_of_a_partition_that_is_read_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, known: bytes, is_refused: bool
) -> None:
    """Told of again it would be new to the query, and read from its beginning a second time."""
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    subscription = Subscription(parse({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}))
    monkeypatch.setattr(subscription, "partitions", lambda seen: ({"t": b"1" * 16}, partitions[:1]))
    monkeypatch.setattr(subscription, "_places", lambda wanted: dict.fromkeys(wanted, Place(5, 0)))
    monkeypatch.setattr(subscription.client, "retrying", lambda asks: asks())
    seen = Offsets({"t": known}, dict.fromkeys(partitions, Place(5, 0)))

    if is_refused:
        with pytest.raises(ProtocolError, match="t-1: this query has read it, and the cluster") as caught:
            subscription.latest(seen)
        assert caught.value.code in RETRIABLE
    else:
        assert list(subscription.latest(seen).places) == partitions[:1]
    subscription.close()


@pytest.mark.parametrize("ending", [{}, {"endingOffsets": '{"t":{"0":4}}'}])
def test_a_batch_ends_in_each_partition_in_which_it_begins(
    monkeypatch: pytest.MonkeyPatch, ending: dict[str, str]
) -> None:
    """Whoever is asked for the ends may not have heard of one yet: its records would be left out in silence."""
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    subscription = Subscription(parse({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", **ending}))
    told = [partitions, partitions[:1], partitions]
    monkeypatch.setattr(subscription, "partitions", lambda *_: ({"t": b"1" * 16}, told.pop(0)))
    monkeypatch.setattr(subscription, "_places", lambda wanted: dict.fromkeys(wanted, Place(5, 0)))
    monkeypatch.setattr(subscription.client, "retrying", again)

    start = subscription.start(default="earliest")
    end, latest = subscription.ends(start)

    assert list(end.places) == list(latest.places) == partitions
    subscription.close()


def again(ask: Callable[[], Offsets]) -> Offsets:
    try:
        return ask()
    except ProtocolError as error:
        assert error.code in RETRIABLE
    return ask()


class Started(SyncClient):
    """Of a broker that was told of the brokers and of no topic yet, which says so of one that is asked for by name; or that heard
    of none since it lost its controller."""

    def __init__(self, has_lost_its_controller: bool = False) -> None:
        super().__init__("127.0.0.1:1")
        self.has_lost_its_controller = has_lost_its_controller
        self.answers = 0

    def cluster(self, topics: Iterable[str] | None = None, *, timeout_s: float | None = None) -> ClusterView:
        self.answers += 1
        there = {"orders-1": TopicView(b"1" * 16, False, {0: PartitionView(1, 0, (1,), (1,), ())})}
        found = there if self.answers > 2 else {}
        missing = set(topics or ()) - set(found)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        error = unknown if found or self.has_lost_its_controller else ErrorCode.LEADER_NOT_AVAILABLE
        self._brokers = {1: Broker(1, Address("127.0.0.1", 1), None)}
        return ClusterView("cluster", 1, self._brokers, found, dict.fromkeys(missing, error))


@pytest.mark.parametrize(
    ("seen", "has_lost_its_controller"),
    [
        (Offsets({}, {}), False),
        (Offsets({"orders-1": b"1" * 16}, {TopicPartition("orders-1", 0): Place(5, 0)}), False),
        (Offsets({"orders-1": b"1" * 16}, {TopicPartition("orders-1", 0): Place(5, 0)}), True),
    ],
)
def test_topics_that_a_broker_does_not_list_yet_are_not_taken_for_gone(
    seen: Offsets, has_lost_its_controller: bool
) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribePattern": "orders-.*"}
    subscription = Subscription(parse(given))
    subscription._client = Started(has_lost_its_controller)

    assert subscription.partitions(seen) == ({"orders-1": b"1" * 16}, [TopicPartition("orders-1", 0)])


def test_a_leader_that_tells_no_epoch_has_cut_nothing() -> None:
    """A broker before Kafka 2.8, say: nobody can tell then; a query goes on where it was."""
    partition = TopicPartition("t", 0)
    subscription = Subscription(parse({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}))

    for before, now in ((Place(5, 3), Place(9, -1)), (Place(5, -1), Place(9, 3)), (Place(5, 3), Place(9, 3))):
        found = subscription.standing(Offsets({}, {partition: before}), Offsets({}, {partition: now}))
        assert found == {partition: before}


def test_each_leader_is_asked_what_its_own_log_still_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a query that stands still while leaders change: the one before had all of it."""
    partition, stands = TopicPartition("t", 0), Place(5, 3)
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
    subscription = Subscription(parse(given))
    told = [OffsetAndEpoch(5, 3), OffsetAndEpoch(2, 3)]
    monkeypatch.setattr(
        subscription.client, "ends_of_epochs", lambda asked: dict.fromkeys(asked, told.pop(0))
    )

    def standing(epoch: int) -> Place:
        now = Offsets({}, {partition: Place(9, epoch)})
        return subscription.standing(Offsets({}, {partition: stands}), now)[partition]

    assert standing(4) == standing(4) == stands, "one leader is asked once"
    with pytest.raises(DataLoss, match="in the log of leader epoch 5 that epoch ends at 2"):
        standing(5)
    subscription.close()


def test_of_what_is_assigned_no_other_partition_is_read(cluster: ProcessCluster, topic: str) -> None:
    def planned(members: list[int]) -> set[TopicPartition]:
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "assign": json.dumps({topic: members})}
        parsed = parse(given)
        tasks = BatchReader(parsed, schema_of(parsed)).partitions()
        return {each.topic_partition for task in tasks for each in task.value}

    assert planned([1]) == {TopicPartition(topic, 1)}
    with pytest.raises(ConfigurationError, match=f"assign names partition 3 of {topic}, which has 3: 0 to 2"):
        planned([0, 3])


class Behind(SyncClient):
    """Of a broker that lists one topic, and knows the other of which it is asked by name."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1")

    def cluster(self, topics: Iterable[str] | None = None, *, timeout_s: float | None = None) -> ClusterView:
        one = PartitionView(1, 0, (1,), (1,), ())
        found = {name: TopicView(b"1" * 16, False, {0: one}) for name in topics or ("orders-2",)}
        self._brokers = {1: Broker(1, Address("127.0.0.1", 1), None)}
        return ClusterView("cluster", 1, self._brokers, found, {})


def test_of_a_topic_that_is_read_and_not_among_those_listed_somebody_is_asked_by_name() -> None:
    """Taken for gone it would be read from its beginning once it is listed again."""
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribePattern": "orders-.*"}
    subscription = Subscription(parse(given))
    subscription._client = Behind()
    seen = Offsets({"orders-1": b"1" * 16}, {TopicPartition("orders-1", 0): Place(5, 0)})

    _, partitions = subscription.partitions(seen)

    assert partitions == [TopicPartition("orders-1", 0), TopicPartition("orders-2", 0)]
