"""Metadata and DescribeCluster: the cluster as this broker was told it, and topics made by asking."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker import core
from odradek.broker import effects as fx
from odradek.broker.answers import CloseConnection, Park
from odradek.broker.departures import DEPARTED_SHOWN_MS, LONGEST_IGNORANCE_MS
from odradek.broker.group_shards import GroupShards
from odradek.broker.handlers import metadata as metadata_handler
from odradek.broker.metadata_cache import TOPICS_EXPECTED_MS
from odradek.broker.request import Request
from odradek.model.cluster import Endpoint
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import LEADER_DURING_DELETE, NO_TOPIC_ID, BrokerId, TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC, problem_with
from odradek.protocol.headers import decode_request_header, encode_request
from odradek.protocol.messages import describe_cluster as dc
from odradek.protocol.messages import metadata as mm
from odradek.protocol.messages import update_metadata as um
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.world import T0, TOPIC_ID, Pending, World, told


def metadata(
    world: World, *names: str, version: int = 9, to: int = 2, auto: bool = False, **options: Any
) -> Any:
    topics = [mm.MetadataRequestTopic(name=name) for name in names]
    request = mm.MetadataRequest(topics=topics, allow_auto_topic_creation=auto, **options)
    return world.call(to, request, version)


@pytest.mark.parametrize("version", range(9))
def test_every_version_of_update_metadata_tells_brokers_and_leaders(tmp_path: Path, version: int) -> None:
    world = World(tmp_path, brokers=(1,))
    listener = "INSIDE" if version >= 3 else "PLAINTEXT"
    places = {
        number: um.UpdateMetadataEndpoint(
            host="h", port=77, security_protocol=0, listener=name if version >= 3 else ""
        )
        for number, name in ((1, "PLAINTEXT"), (7, listener))
    }
    state = um.UpdateMetadataPartitionState(
        topic_name="t", controller_epoch=1, leader=7, leader_epoch=4, isr=[7], replicas=[7, 8]
    )
    request = um.UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=world[1].epoch if version >= 5 else -1,
        live_brokers=[
            um.UpdateMetadataBroker(id=number, v0_host="h", v0_port=77, endpoints=[place], rack=None)
            for number, place in places.items()
        ],
    )
    if version < 5:
        request.ungrouped_partition_states = [state]
    else:
        topic = um.UpdateMetadataTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])
        request.topic_states = [topic]

    assert world.call(1, request, version).error_code == 0

    known = world[1].broker.metadata
    assert known.brokers[BrokerId(7)].endpoints == {listener: Endpoint(listener, "PLAINTEXT", "h", 77)}
    partition = known.partition("t", 0)
    assert partition is not None and (partition.leader, partition.leader_epoch) == (7, 4)
    assert (list(partition.isr), list(partition.replicas)) == ([7], [7, 8])
    assert known.topic_id("t") == (TOPIC_ID if version >= 7 else NO_TOPIC_ID)


def test_metadata_tells_brokers_leaders_and_offline_replicas(world: World) -> None:
    world.lead(1, isr=(1, 2), replicas=(1, 2))
    world.kill(2)
    world.notify_metadata()
    world.advance(DEPARTED_SHOWN_MS)
    answer = metadata(world, "t", to=3)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (1, "localhost", 9001),
        (3, "localhost", 9003),
    ]
    assert (answer.cluster_id, answer.controller_id) == ("test-cluster", 1)
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (1, 1, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1, 2], [1, 2], [2])


def test_version_0_which_knows_no_offline_replicas_names_those_alone_that_can_be_reached(
    world: World,
) -> None:
    world.lead(1, isr=(1, 2), replicas=(1, 2))
    world.kill(2)
    world.notify_metadata()
    world.advance(DEPARTED_SHOWN_MS)
    answer = world.call(3, mm.MetadataRequest(topics=[mm.MetadataRequestTopic(name="t")]), 0)
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.error_code) == (1, ErrorCode.REPLICA_NOT_AVAILABLE)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1], [1])


def test_version_0_says_nothing_is_missing_where_nothing_is(world: World) -> None:
    world.lead(1, isr=(1, 2), replicas=(1, 2))
    world.notify_metadata()
    answer = world.call(3, mm.MetadataRequest(topics=[mm.MetadataRequestTopic(name="t")]), 0)
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.error_code) == (1, ErrorCode.NONE)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1, 2], [1, 2])


@pytest.mark.parametrize("version", range(13))
def test_every_version_of_metadata_lists_all_topics(world: World, version: int) -> None:
    request = mm.MetadataRequest(topics=[] if version == 0 else None)
    answer = world.call(1, request, version)
    assert [t.name for t in answer.topics] == ["t"]
    assert answer.topics[0].partitions[0].leader_id == 1


@pytest.mark.parametrize(
    ("version", "flags"), [(9, b"\1\0\0"), (10, b"\1\0\0"), (11, b"\1\0"), (12, b"\1\0")]
)
def test_librdkafkas_way_of_asking_for_all_topics_is_understood(
    world: World, version: int, flags: bytes
) -> None:
    """Its null array is four bytes long in flexible versions too; found with confluent-kafka's list_topics()."""
    body = b"\0\0\0\0" + flags + b"\0"
    frame = encode_request(3, version, 7, "rdkafka", body)[4:]
    pending = world.send_frame(1, frame, Pending(mm.MetadataResponse, version), world.connection())
    assert [t.name for t in pending.message.topics] == ["t"]


def test_an_empty_list_means_no_topics_but_in_version_0(world: World) -> None:
    assert metadata(world).topics == []


def test_a_dead_leader_is_told_as_not_available(world: World) -> None:
    world.leadership[T0]["leader"] = 9
    world.notify_metadata()
    (partition,) = metadata(world, "t").topics[0].partitions
    assert (partition.leader_id, partition.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)


def test_topics_are_found_by_id(world: World) -> None:
    request = mm.MetadataRequest(
        topics=[mm.MetadataRequestTopic(name=None, topic_id=i) for i in (TOPIC_ID, bytes([5] * 16))]
    )
    found, unknown = world.call(1, request, 12).topics
    assert (found.name, found.error_code) == ("t", 0)
    assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


def test_where_a_topic_has_an_id_and_a_name_the_id_decides(world: World) -> None:
    """As Apache 3.9.1, from the version on that can ask by id."""
    request = mm.MetadataRequest(
        topics=[mm.MetadataRequestTopic(name=name, topic_id=TOPIC_ID) for name in ("t", "other")]
        + [mm.MetadataRequestTopic(name="t", topic_id=bytes([5] * 16))]
    )
    rows = world.call(1, request, 12).topics
    assert [(row.name, row.error_code) for row in rows] == [
        ("t", 0),
        ("t", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_what_is_allowed_is_told_of_a_topic_that_does_not_exist_too(world: World) -> None:
    """As Apache 3.9.1."""
    rows = [mm.MetadataRequestTopic(name=name) for name in ("t", "none")]
    request = mm.MetadataRequest(
        topics=rows, allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )
    known, unknown = world.call(1, request, 12).topics
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown.topic_authorized_operations == known.topic_authorized_operations == 3576


def test_an_unknown_topic_is_made_when_request_and_broker_allow_it(world: World) -> None:
    assert metadata(world, "new").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(world, fx.StoreRequest, 2) == []
    for _ in range(2):
        assert metadata(world, "new", auto=True).topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    (request,) = told(world, fx.StoreRequest, 2)
    (new,) = request.question.topics
    assert new.topic == "new"
    assert len(new.topic_id) == 16
    assert list(new.assignment) == [0]
    assert new.assignment[0][0] in (1, 2, 3)


@pytest.mark.parametrize("topic", [GROUPS_TOPIC, TRANSACTIONS_TOPIC])
def test_an_internal_topic_that_metadata_makes_is_as_findcoordinator_makes_it(
    world: World, topic: str
) -> None:
    """Sarama asks for `__consumer_offsets` by name while there is no coordinator."""
    (answer,) = metadata(world, topic, auto=True, to=1).topics
    assert (answer.error_code, answer.is_internal) == (ErrorCode.LEADER_NOT_AVAILABLE, True)

    kind = (GROUPS_TOPIC, TRANSACTIONS_TOPIC).index(topic)
    world.call(2, FindCoordinatorRequest(key="a", key_type=kind), 2)

    made = [
        one.question.topics[0]
        for broker in (1, 2)
        for one in told(world, fx.StoreRequest, broker=broker)
        if isinstance(one.question, fx.CreateTopics)
    ]
    assert len(made) == 2
    assert made[0].topic == made[1].topic == topic
    assert made[0].config == made[1].config and made[0].config["cleanup.policy"] == "compact"
    for one in made:
        assert len(one.assignment) == 50 and {len(replicas) for replicas in one.assignment.values()} == {3}


def test_a_broker_that_was_told_of_nobody_yet_says_of_no_topic_that_it_does_not_exist(world: World) -> None:
    """librdkafka forgets a topic that is said not to exist, and fails what its application produces to it."""
    world.kill(2)
    world.restart(2)
    world.advance(LONGEST_IGNORANCE_MS)  # until then questions wait (`departures`)
    by_id = mm.MetadataRequest(topics=[mm.MetadataRequestTopic(name=None, topic_id=TOPIC_ID)])

    for auto in (False, True):
        (topic,) = metadata(world, "t", auto=auto).topics
        assert (topic.name, topic.error_code) == ("t", ErrorCode.LEADER_NOT_AVAILABLE)
    (topic,) = world.call(2, by_id, 12).topics
    assert (topic.name, topic.topic_id, topic.error_code) == (None, TOPIC_ID, ErrorCode.LEADER_NOT_AVAILABLE)
    assert told(world, fx.StoreRequest, 2) == []  # nothing is created on the strength of knowing nothing

    world.notify_metadata()
    assert [t.error_code for t in metadata(world, "t", "u").topics] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert world.call(2, by_id, 12).topics[0].error_code == 0


def test_a_broker_that_was_told_of_brokers_alone_waits_for_the_topics(world: World) -> None:
    """A controller that takes over names the brokers first, and the partitions once its first writes are stored."""
    world.kill(2)
    world.topics_at_start = {"t"}
    world.restart(2)
    world.notify_metadata(to=[2], bare=True)

    for auto in (False, True):
        assert metadata(world, "t", auto=auto).topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert told(world, fx.StoreRequest, 2) == []

    world.notify_metadata(to=[2])
    assert [t.error_code for t in metadata(world, "t", "u").topics] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_broker_that_was_told_of_brokers_alone_does_not_say_that_there_are_no_topics(world: World) -> None:
    """`odradek cluster health` called a cluster healthy, with 0 partitions, and a pattern of a consumer matched nothing. An answer without
    brokers is that of one that is starting: clients ask again."""
    world.kill(2)
    world.topics_at_start = {"t"}
    world.restart(2)
    world.notify_metadata(to=[2], bare=True)

    for version, every in ((0, []), (1, None), (12, None)):
        assert world.call(2, mm.MetadataRequest(topics=every), version).brokers == []
    assert (
        len(world.call(2, mm.MetadataRequest(topics=[]), 12).brokers) == 3
    )  # who asks for none is told the rest

    world.notify_metadata(to=[2])
    answer = world.call(2, mm.MetadataRequest(topics=None), 12)
    assert ([topic.name for topic in answer.topics], len(answer.brokers)) == (["t"], 3)


def test_no_coordinator_is_made_by_a_broker_that_was_told_of_brokers_alone(world: World) -> None:
    """The topic of groups is there, as a rule: with fewer brokers than it wants the log said that it could not be made."""
    world.kill(2)
    world.topics_at_start = {GROUPS_TOPIC}
    world.restart(2)
    world.notify_metadata(to=[2], bare=True)
    answer = world.call(2, FindCoordinatorRequest(key="a"), 2)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert told(world, fx.StoreRequest, 2) == []
    world.notify_metadata(to=[2])
    world.call(2, FindCoordinatorRequest(key="a"), 2)
    (asked,) = told(world, fx.StoreRequest, 2)
    assert [new.topic for new in asked.question.topics] == [GROUPS_TOPIC]


def test_topics_that_never_come_are_not_waited_for_without_end(world: World) -> None:
    """They were deleted while this broker started, and nobody tells a broker of what it has never heard."""
    world.kill(2)
    world.topics_at_start = {"deleted"}
    world.restart(2)
    world.notify_metadata(to=[2], bare=True)
    assert metadata(world, "deleted").topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    world.advance(TOPICS_EXPECTED_MS)
    assert metadata(world, "deleted").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_request_that_names_all_there_is_says_which_topics_are_gone(world: World) -> None:
    """Deleted while nobody could tell it: a topic, a partition of another one, and one whose name is another's now."""
    for topic, index in (("u", 0), ("u", 1), ("again", 0)):
        world.lead(1, topic=topic, index=index, topic_id=topic.ljust(16).encode())
    known = world[2].broker.metadata
    before = known.epoch
    del world.leadership[T0], world.leadership[TopicPartition("u", 1)]
    world.leadership[TopicPartition("again", 0)]["topic_id"] = b"another".ljust(16)

    world.notify_metadata(to=[2])
    assert (known.partition_count, known.topic_id("t")) == (4, TOPIC_ID), "it need not be all"

    world.notify_metadata(to=[2], is_full=True)
    assert {topic: sorted(partitions) for topic, partitions in known.topics.items()} == {
        "u": [0],
        "again": [0],
    }
    assert known.names == {b"u".ljust(16): "u", b"another".ljust(16): "again"}
    assert known.topic_id("t") == NO_TOPIC_ID and known.epoch > before
    assert metadata(world, "t").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_coordinators_hear_of_topics_that_a_full_request_does_not_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They drop the offsets of these."""
    told: list[frozenset[str]] = []
    monkeypatch.setattr(GroupShards, "topics_deleted", lambda self, topics, now_ms: told.append(topics))
    for topic, index in (("goes", 0), ("shrinks", 0), ("shrinks", 1)):
        world.lead(1, topic=topic, index=index, topic_id=topic.ljust(16).encode())
    del world.leadership[TopicPartition("goes", 0)], world.leadership[TopicPartition("shrinks", 1)]
    world.notify_metadata(to=[2], is_full=True)
    assert told == [frozenset({"goes"})]


@pytest.mark.parametrize("is_full", [True, False])
def test_coordinators_hear_of_a_topic_whose_name_another_one_has_now(
    world: World, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """Of its deletion this broker was not told. Groups would begin the new one at offsets of the old one."""
    told: list[frozenset[str]] = []
    monkeypatch.setattr(GroupShards, "topics_deleted", lambda self, topics, now_ms: told.append(topics))
    for topic_id in (NO_TOPIC_ID, b"1" * 16, b"1" * 16, b"2" * 16):
        world.lead(1, topic="again", topic_id=topic_id, tell=[])
        assert told == []
        world.notify_metadata(to=[2], is_full=is_full)
    assert told == [frozenset({"again"})]


@pytest.mark.parametrize("is_full", [True, False])
def test_a_topic_whose_name_another_one_has_now_has_none_of_the_partitions_of_the_former(
    world: World, is_full: bool
) -> None:
    """It had more. Clients would send half of their records where nobody ever leads."""
    for index in (0, 1):
        world.lead(1, topic="again", index=index, topic_id=b"1" * 16)
    del world.leadership[TopicPartition("again", 1)]
    world.lead(1, topic="again", topic_id=b"2" * 16, tell=[])

    world.notify_metadata(to=[2], is_full=is_full)

    (topic,) = metadata(world, "again", version=12).topics
    assert (topic.topic_id, [one.partition_index for one in topic.partitions]) == (b"2" * 16, [0])
    assert b"1" * 16 not in world[2].broker.metadata.names


def test_in_a_cluster_that_has_no_topics_any_more_a_full_request_says_so(world: World) -> None:
    world.kill(2)
    world.topics_at_start = {"deleted"}
    world.restart(2)
    world.notify_metadata(to=[2], bare=True, is_full=True)
    assert metadata(world, "deleted").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_in_a_cluster_without_topics_the_first_request_says_so(world: World) -> None:
    world.kill(2)
    world.restart(2)
    world.notify_metadata(to=[2], bare=True)
    assert metadata(world, "t").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["..", "a b", "x" * 250, "ü"])
def test_a_topic_is_not_made_under_an_illegal_name(world: World, name: str) -> None:
    assert metadata(world, name, auto=True).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_an_illegal_name_is_told_as_such_where_no_topic_is_made(world: World) -> None:
    """It would never come to be, and its client asks for it as long as it hears that it is unknown."""
    for asked in ("", "a b"):
        assert metadata(world, asked).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    world.kill(2)
    world.topics_at_start = {"t"}
    world.restart(2)
    world.notify_metadata(to=[2], bare=True)
    assert metadata(world, "a b").topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_with_too_few_brokers_a_topic_is_refused_with_one_line_that_says_what_to_set(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,), default_replication_factor="3")
    answer = metadata(world, "new", auto=True, to=1)
    assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    (line,) = told(world, fx.LogLine)
    assert "default.replication.factor" in line.text


def test_with_too_few_brokers_for_an_internal_topic_its_own_setting_is_named(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,))
    (answer,) = metadata(world, GROUPS_TOPIC, auto=True, to=1).topics
    assert answer.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    (line,) = told(world, fx.LogLine)
    assert "set offsets.topic.replication.factor" in line.text


def test_a_cached_answer_is_dropped_when_the_metadata_change(world: World) -> None:
    request = mm.MetadataRequest(topics=None)
    assert world.call(2, request, 9).topics[0].partitions[0].leader_epoch == 0
    world.lead(1, isr=(1,), replicas=(1,))
    assert world.call(2, request, 9).topics[0].partitions[0].leader_epoch == 1


def test_describe_cluster_tells_the_same(world: World) -> None:
    answer = world.call(3, dc.DescribeClusterRequest(), 1)
    assert (answer.cluster_id, answer.controller_id) == ("test-cluster", 1)
    assert [b.broker_id for b in answer.brokers] == [1, 2, 3]
    refused = world.call(3, dc.DescribeClusterRequest(endpoint_type=2), 1)
    assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def test_a_topic_being_deleted_leaves_the_cache(world: World) -> None:
    world.leadership[T0]["leader"] = LEADER_DURING_DELETE
    world.notify_metadata()
    assert metadata(world, "t").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world[2].broker.metadata.names == {}


def test_answers_are_kept_up_to_so_many_bytes_of_them_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may ask for any set of topics, and each set is an answer of its own."""
    broker = world[1].broker
    monkeypatch.setattr(core, "MOST_CACHED_BYTES", 1_000)
    for number in range(50):
        assert broker.recall(("Metadata", number)) is None
        answer = broker.remember(("Metadata", number), bytes(300))
        assert broker.recall(("Metadata", number)) is answer
        assert sum(map(len, broker._cached_answers.values())) <= 1_000
    assert len(broker._cached_answers) == 2
    broker.remember("large", bytes(5_000))
    assert list(broker._cached_answers) == ["large"], "one alone is kept however large it is"


@pytest.mark.parametrize(("size_bytes", "count"), [(250, 4), (251, 3), (1, 5)])
def test_answers_are_kept_up_to_so_many_each_time_the_metadata_change(
    world: World, monkeypatch: pytest.MonkeyPatch, size_bytes: int, count: int
) -> None:
    broker = world[1].broker
    monkeypatch.setattr(core, "MOST_CACHED_BYTES", 1_000)
    monkeypatch.setattr(core, "MOST_CACHED_ANSWERS", 5)
    for _ in range(2):
        world.lead(1, isr=(1,), replicas=(1,))
        for number in range(count):
            assert broker.recall(number) is None
            broker.remember(number, bytes(size_bytes))
        assert list(broker._cached_answers) == list(range(count))
        broker.remember("one more", bytes(size_bytes))
        assert list(broker._cached_answers) == ["one more"]


def test_a_topic_that_broker_0_leads_has_its_leader(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(0, 1))
    world.lead(0, isr=(0, 1), replicas=(0, 1))
    assert world[1].broker.metadata.has_leaders("t", 1)
    assert not world[1].broker.metadata.has_leaders("t", 2)


@pytest.fixture
def large(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Four topics, which are so many that each is told in a turn of its own."""
    for number, name in enumerate(("a", "b", "c")):
        world.lead(1, isr=(1,), replicas=(1,), topic=name, topic_id=bytes([10 + number] * 16), is_new=True)
    monkeypatch.setattr(metadata_handler, "MOST_AT_ONCE", 3)
    monkeypatch.setattr(metadata_handler, "OF_A_SLICE", 1)
    return world


def asked(world: World, *names: str | None, auto: bool = False) -> Pending:
    topics = [mm.MetadataRequestTopic(name=name) for name in names] if names else None
    return world.send(1, mm.MetadataRequest(topics=topics, allow_auto_topic_creation=auto), 12)


def finish(world: World) -> None:
    """The slices whose effect a test has taken away."""
    while world[1].broker.go_on(world.now_ms):
        pass
    world.settle()


def test_very_many_partitions_are_told_in_turns_and_as_if_in_one(
    large: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand took a quarter of a second of the loop, each time for who names them."""
    broker = large[1].broker
    for names in ((), ("a", "b", "c", "t", "new")):
        pending = [asked(large, *names, auto=True), asked(large, *names, auto=True)]
        broker.take_effects()
        for _ in range(3):
            assert broker.go_on(large.now_ms)
        assert not pending[0].is_answered
        finish(large)
        monkeypatch.setattr(metadata_handler, "MOST_AT_ONCE", 1_000)
        broker.metadata.epoch += 1  # forgets what it has told
        broker.being_created.clear()
        at_once = asked(large, *names, auto=True)
        assert at_once.is_answered
        assert pending[0].body == pending[1].body == at_once.body
        monkeypatch.setattr(metadata_handler, "MOST_AT_ONCE", 3)
    (row,) = [row for row in pending[0].message.topics if row.name == "new"]
    assert row.error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_very_many_names_of_topics_that_there_are_not_are_told_in_turns_too(large: World) -> None:
    names = ["n1", "n2", "n3", "n4", "n5"]
    pending = asked(large, *names)
    large[1].broker.take_effects()
    assert not pending.is_answered
    finish(large)
    assert [(row.name, row.error_code) for row in pending.message.topics] == [
        (name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names
    ]


@pytest.mark.parametrize(
    ("kind", "first", "others", "most"),
    [
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        ("new", ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.LEADER_NOT_AVAILABLE, 2),
    ],
)
def test_of_very_many_topics_that_cannot_be_made_few_are_planned_in_a_turn(
    large: World,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    first: ErrorCode,
    others: ErrorCode,
    most: int,
) -> None:
    """A hundred thousand were refused within a second of one turn."""
    monkeypatch.setattr(metadata_handler, "MOST_CREATED", 2)
    planned = []

    def refused(broker: core.Broker, name: str, **options: Any) -> Any:
        planned.append(name)
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if problem_with(name) else first
        raise ProtocolError(code)

    monkeypatch.setattr(metadata_handler, "plan_topic", refused)
    names = [f"{kind}{number}" for number in range(5)]
    pending = asked(large, *names, auto=True)
    finish(large)

    assert [(row.name, row.error_code) for row in pending.message.topics] == [
        *((name, first) for name in names[:2]),
        *((name, others) for name in names[2:]),
    ]
    assert len(planned) == most


def test_only_so_many_topics_wait_for_the_store_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many a client asks for while the store is slow; it asks again, and is told the same."""
    monkeypatch.setattr(metadata_handler, "MOST_BEING_CREATED", 3)
    names = [f"n{number}" for number in range(5)]

    def made() -> list[str]:
        rows = asked(world, *names, auto=True).message.topics
        assert {row.error_code for row in rows} == {ErrorCode.LEADER_NOT_AVAILABLE}
        return [topic.topic for one in told(world, fx.StoreRequest) for topic in one.question.topics]

    assert (made(), made()) == (names[:3], [])
    world[1].broker.being_created.discard(names[0])  # the store has answered
    assert made() == [names[0]]
    world[1].broker.being_created.add("__consumer_offsets")  # FindCoordinator makes it, however many wait
    assert made() == []


def test_what_was_told_in_turns_is_kept_unless_something_changed_meanwhile(large: World) -> None:
    broker = large[1].broker
    first = asked(large)
    broker.take_effects()
    broker.go_on(large.now_ms)
    large.leadership[TopicPartition("c", 0)]["leader"] = LEADER_DURING_DELETE
    large.notify_metadata([1])
    second = asked(large)
    finish(large)
    assert [row.name for row in first.message.topics] == ["a", "b", "t"], "c is gone since"
    assert second.message.topics == first.message.topics
    large.lead(1, isr=(1,), replicas=(1,), topic="d", topic_id=bytes([20] * 16), is_new=True)
    large.lead(1, isr=(1,), replicas=(1,), topic="e", topic_id=bytes([21] * 16), is_new=True)
    third = asked(large)
    large.settle()
    fourth = asked(large)
    assert fourth.is_answered, "as it was told before"
    assert fourth.body == third.body != first.body


def test_of_large_answers_one_is_made_at_a_time_and_none_that_nobody_waits_for(large: World) -> None:
    """The rows of each are some megabytes."""
    broker = large[1].broker
    frame = encode_request(3, 12, 1, "test", mm.MetadataRequest(topics=None).encode(12))
    header = decode_request_header(frame[4:])
    request = Request(*header[:4], memoryview(frame)[4 + header.body_offset :], large.connection())
    given_up = broker.handle(request, large.now_ms)
    waiting = asked(large, "a", "b", "c", "t")
    assert isinstance(given_up, Park)
    given_up.abandon()
    broker.take_effects()
    assert broker.go_on(large.now_ms) and not told(large, fx.RunAside)
    assert isinstance(given_up.result, CloseConnection), "it was not begun with"
    finish(large)
    assert waiting.is_answered
