"""Single requests to a broker: what each handler answers, with values."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.answers import CloseConnection, NoReply
from odradek.broker.handlers.table import HANDLERS
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import LEADER_DURING_DELETE, TopicPartition
from odradek.protocol.api_keys import APIS, SERVED, ApiKey
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import allocate_producer_ids as apm
from odradek.protocol.messages import alter_partition as ap
from odradek.protocol.messages import api_versions as av
from odradek.protocol.messages import controlled_shutdown as cs
from odradek.protocol.messages import create_partitions as cp
from odradek.protocol.messages import create_topics as ct
from odradek.protocol.messages import delete_records as dr
from odradek.protocol.messages import delete_topics as dt
from odradek.protocol.messages import describe_cluster as dc
from odradek.protocol.messages import envelope as em
from odradek.protocol.messages import find_coordinator as fc
from odradek.protocol.messages import init_producer_id as ip
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import list_offsets as lm
from odradek.protocol.messages import metadata as mm
from odradek.protocol.messages import offset_commit as oc
from odradek.protocol.messages import offset_for_leader_epoch as om
from odradek.protocol.messages import produce as pm
from odradek.protocol.messages import sasl_authenticate as sa
from odradek.protocol.messages import sasl_handshake as sh
from odradek.protocol.messages import update_metadata as um
from odradek.protocol.messages import write_txn_markers as wm
from tests.broker.world import TOPIC_ID, Pending, World, batch
from tests.support import golden_lines

T0 = TopicPartition("t", 0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three brokers, 1 is the controller's; one topic with one replica, on 1."""
    world = World(tmp_path)
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world[1].broker.controller_status(True, 1, world.now_ms)
    return world


def told(world: World, kind: type, broker: int = 1) -> list[Any]:
    """Effects of one kind that broker asked for, taken away."""
    world.settle()
    node = world[broker]
    found = [effect for effect in node.told if isinstance(effect, kind)]
    node.told = [effect for effect in node.told if not isinstance(effect, kind)]
    return found


# ----------------------------------------------------------------------------------------------------- the table


def test_every_served_key_has_a_handler_and_api_versions_says_so(world: World) -> None:
    answer = world.call(1, av.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    listed = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert listed == dict(SERVED) == {key: (first, last) for key, (_, first, last) in HANDLERS.items()}
    assert listed[0] == (0, 11), "some librdkafka releases compress only when Produce starts at 0"
    assert not listed.keys() & {8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 28, 42, 47}


def test_an_unknown_version_of_api_versions_is_answered_in_version_0_with_its_own_range(world: World) -> None:
    frame = encode_request(18, 4, 7, "new", b"\x02x\x02y\0")[4:]
    frame = frame[:2] + (99).to_bytes(2, "big") + frame[4:]
    pending = world.send_frame(1, frame, Pending(av.ApiVersionsResponse, 0), world.connection())
    answer = pending.message
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(r.api_key, r.min_version, r.max_version) for r in answer.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("name", ["", "-x", "x-", "has space", "ünicode"])
def test_api_versions_refuses_a_software_name_that_is_none(world: World, name: str) -> None:
    answer = world.call(1, av.ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


WITHOUT_COORDINATOR = [8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 28, 42, 47]


@pytest.mark.parametrize("key", WITHOUT_COORDINATOR)
def test_group_and_transaction_requests_get_unsupported_version_in_every_version_and_one_log_line(
    world: World, key: int
) -> None:
    from importlib import import_module

    api = APIS[key]
    name = ApiKey(key).name.lower()
    module = import_module(f"odradek.protocol.messages.{name}")
    camel = "".join(part.capitalize() for part in name.split("_"))
    request, response = getattr(module, camel + "Request"), getattr(module, camel + "Response")
    connection = world.connection()
    for version in range(api.first_version, api.last_version + 1):
        sample = request.decode(version, _sample(key, version))
        pending = world.send(1, sample, version, connection=connection)
        codes = _error_codes(response.decode(version, pending.body))
        assert codes, f"{name} v{version} says nothing"
        assert set(codes) == {int(ErrorCode.UNSUPPORTED_VERSION)}, f"{name} v{version}: {codes}"
    lines = [line.text for line in told(world, fx.LogLine)]
    assert len(lines) == 1
    assert "not served here" in lines[0]


def _sample(key: int, version: int) -> bytes:
    for line in golden_lines("wire.jsonl.gz"):
        if (line["key"], line["version"], line["type"], line["sample"]) == (key, version, "request", "full"):
            return bytes.fromhex(line["hex"])
    raise AssertionError(f"no golden request of key {key} version {version}")


def _error_codes(message: Any) -> list[int]:
    """Every error code anywhere in an answer."""
    found = []
    for line in message.TABLE:
        value = getattr(message, line.name)
        if line.name.endswith("error_code"):
            found.append(value)
        elif line.kind == "array" and isinstance(line.of, type):
            for item in value or []:
                found += _error_codes(item)
    # A version that has no room at the top leaves the field at its default.
    return [code for code in found if code]


@pytest.mark.parametrize(("key", "version"), [(8, 99), (29, 1), (38, 0), (1000, 0), (1, 3), (0, 12)])
def test_a_request_nobody_could_read_an_answer_to_closes_the_connection(
    world: World, key: int, version: int
) -> None:
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1" + b"\xff\xff\0"
    pending = world.send_frame(1, frame, Pending(None, 0), world.connection())
    assert isinstance(pending.result, CloseConnection)


# -------------------------------------------------------------------------------------------------------- Produce


def test_produce_answers_with_offsets_and_the_start_of_the_log(world: World) -> None:
    first = world.produce(1, b"a", b"b", acks=1).message.responses[0].partition_responses[0]
    second = world.produce(1, b"c", acks=-1).message.responses[0].partition_responses[0]
    assert (first.error_code, first.base_offset, first.log_append_time_ms, first.log_start_offset) == (
        0,
        0,
        -1,
        0,
    )
    assert (second.error_code, second.base_offset) == (0, 2)


@pytest.mark.parametrize("version", range(3, 12))
def test_every_version_of_produce_appends(world: World, version: int) -> None:
    assert world.produced(world.produce(1, b"a", version=version)) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_of_produce_are_refused_per_partition(world: World, version: int) -> None:
    request = pm.ProduceRequest(
        acks=1,
        topic_data=[
            pm.TopicProduceData(
                name="t", partition_data=[pm.PartitionProduceData(index=i, records=b"old") for i in (0, 7)]
            )
        ],
    )
    answer = world.call(1, request, version)
    rows = answer.responses[0].partition_responses
    assert [(r.index, r.error_code) for r in rows] == [(0, 35), (7, 35)]
    request.acks = 0
    assert isinstance(world.send(1, request, version).result, CloseConnection)


def test_acks_0_is_not_answered_and_a_failure_closes_the_connection(world: World) -> None:
    assert isinstance(world.produce(1, b"a", acks=0).result, NoReply)
    assert world[1].values() == [b"a"]
    failed = world.produce(1, b"a", acks=0, index=9)
    assert isinstance(failed.result, CloseConnection)
    assert "t-9" in failed.result.reason


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_acks_are_0_1_or_all(world: World, acks: int) -> None:
    assert world.produced(world.produce(1, b"a", acks=acks))[0] == ErrorCode.INVALID_REQUIRED_ACKS


def test_what_is_wrong_with_records_is_said_with_its_code(world: World) -> None:
    damaged = bytearray(batch(b"a"))
    damaged[-1] ^= 1
    old = next(
        bytes.fromhex(line["hex"])
        for line in golden_lines("records.jsonl.gz")
        if line["name"].startswith("v1")
    )
    cases = {
        ErrorCode.CORRUPT_MESSAGE: bytes(damaged),
        ErrorCode.INVALID_RECORD: b"",
        ErrorCode.MESSAGE_TOO_LARGE: batch(b"x" * 2_000_000),
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: old,
    }
    for error, records in cases.items():
        assert world.produced(world.produce(1, records=records))[0] == error
    assert world[1].partition().log.log_end_offset == 0


def test_the_record_that_was_refused_is_named(world: World) -> None:
    world[1].broker.topic_config_changed("t", {"cleanup.policy": "compact"}, world.now_ms)
    row = world.produce(1, b"keyless", version=8).message.responses[0].partition_responses[0]
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [e.batch_index for e in row.record_errors] == [0]
    assert row.error_message


def test_one_bad_partition_does_not_hold_up_the_others(world: World) -> None:
    request = pm.ProduceRequest(
        acks=-1,
        timeout_ms=1_000,
        topic_data=[
            pm.TopicProduceData(
                name="t",
                partition_data=[
                    pm.PartitionProduceData(index=0, records=batch(b"a")),
                    pm.PartitionProduceData(index=5, records=batch(b"b")),
                ],
            ),
            pm.TopicProduceData(
                name="no-such", partition_data=[pm.PartitionProduceData(index=0, records=batch(b"c"))]
            ),
        ],
    )
    answer = world.call(1, request, 9)
    codes = [(t.name, p.index, p.error_code) for t in answer.responses for p in t.partition_responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [("t", 0, 0), ("t", 5, unknown), ("no-such", 0, unknown)]


def test_an_idempotent_retry_gets_the_first_answer_again(world: World) -> None:
    data = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    assert world.produced(world.produce(1, records=data)) == (ErrorCode.NONE, 0)
    assert world.produced(world.produce(1, records=data)) == (ErrorCode.NONE, 0)
    gap = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=7)
    assert world.produced(world.produce(1, records=gap))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world[1].values() == [b"a"]


def test_a_transactional_produce_is_refused_while_there_is_no_coordinator(world: World) -> None:
    request = pm.ProduceRequest(
        transactional_id="tx",
        acks=-1,
        topic_data=[
            pm.TopicProduceData(
                name="t", partition_data=[pm.PartitionProduceData(index=0, records=batch(b"a"))]
            )
        ],
    )
    row = world.call(1, request, 9).responses[0].partition_responses[0]
    assert row.error_code == ErrorCode.INVALID_TXN_STATE
    smuggled = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert world.produced(world.produce(1, records=smuggled))[0] == ErrorCode.INVALID_TXN_STATE
    assert world[1].values() == []


def test_a_produce_that_is_not_committed_in_time_is_told_so_and_the_records_stay(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    asked = world.produce(1, b"a", timeout_ms=500)
    world.advance(499)
    assert not asked.is_answered
    world.advance(10)
    assert world.produced(asked)[0] == ErrorCode.REQUEST_TIMED_OUT
    assert world[1].values() == [b"a"]
    assert len(world[1].partition().commit_line) == 0


# ---------------------------------------------------------------------------------------------------- ListOffsets


def list_offsets(
    world: World,
    timestamp: int,
    *,
    version: int = 9,
    replica_id: int = -1,
    to: int = 1,
    epoch: int = -1,
    isolation: int = 0,
) -> Any:
    request = lm.ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[
            lm.ListOffsetsTopic(
                name="t",
                partitions=[
                    lm.ListOffsetsPartition(
                        partition_index=0, timestamp=timestamp, current_leader_epoch=epoch
                    )
                ],
            )
        ],
    )
    return world.call(to, request, version).topics[0].partitions[0]


def test_list_offsets_by_place_and_by_time(world: World) -> None:
    from odradek.records.builder import NewRecord, build_batch

    for time in (100, 300, 200):
        world.produce(1, records=build_batch([NewRecord(None, b"x", time)]))
    cases = {
        -1: (3, -1),
        -2: (0, -1),
        -3: (1, 300),
        -4: (0, -1),
        -5: (-1, -1),
        150: (1, 300),
        300: (1, 300),
        301: (-1, -1),
    }
    for timestamp, expected in cases.items():
        row = list_offsets(world, timestamp)
        assert (row.offset, row.timestamp) == expected, timestamp
        assert row.error_code == 0
    assert list_offsets(world, -1).leader_epoch == 0
    assert list_offsets(world, -3, version=6).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_replica_gets_the_log_end_and_a_consumer_the_high_watermark(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    world.produce(1, b"a", b"b", acks=1)
    assert list_offsets(world, -1).offset == 0
    assert list_offsets(world, -1, replica_id=2).offset == 2
    assert list_offsets(world, 1_000).offset == -1, "not committed: nobody may read it"
    assert list_offsets(world, -1, to=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert list_offsets(world, -1, to=2, replica_id=-2).offset == 0, "anybody may be asked by -2"


def test_a_new_leader_whose_mark_lags_does_not_name_an_end_yet(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.lead(1, is_new=True)
    world.produce(1, b"a")
    world.settle()
    world.kill(1)
    world.cut.add((3, 2))
    world.lead(2, isr=(2, 3))
    assert world[2].partition().high_watermark < world[2].partition().leader_epoch_start_offset
    for timestamp in (-1, 5_000):
        assert list_offsets(world, timestamp, to=2).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert list_offsets(world, timestamp, to=2, version=4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert list_offsets(world, -2, to=2).offset == 0
    assert list_offsets(world, -1, to=2, replica_id=3).offset == 1
    world.cut.clear()
    world.settle()
    assert list_offsets(world, -1, to=2).offset == 1


def test_epochs_are_fenced_both_ways_in_list_offsets_and_offset_for_leader_epoch(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1,))
    for epoch, error in (
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, 0),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, 0),
    ):
        assert list_offsets(world, -1, epoch=epoch).error_code == error
        assert end_of_epoch(world, 0, current=epoch).error_code == error


def end_of_epoch(
    world: World, epoch: int, *, current: int = -1, to: int = 1, replica_id: int = -1, version: int = 4
) -> Any:
    request = om.OffsetForLeaderEpochRequest(
        replica_id=replica_id,
        topics=[
            om.OffsetForLeaderTopic(
                topic="t",
                partitions=[
                    om.OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
                ],
            )
        ],
    )
    return world.call(to, request, version).topics[0].partitions[0]


def test_the_end_of_an_epoch_is_told_with_the_largest_epoch_not_above_the_asked_one(world: World) -> None:
    world.produce(1, b"a", b"b")
    world.lead(1, isr=(1,), replicas=(1,), epoch=4)
    world.produce(1, b"c")
    for asked, expected in {0: (0, 2), 2: (0, 2), 4: (4, 3), 5: (-1, -1)}.items():
        row = end_of_epoch(world, asked)
        assert (row.leader_epoch, row.end_offset) == expected
    assert end_of_epoch(world, 9, replica_id=-2).end_offset == 3, "what it holds, for an unclean election"


# ------------------------------------------------------------------------------------------------------- Metadata


def metadata(
    world: World, *names: str, version: int = 9, to: int = 2, auto: bool = False, **options: Any
) -> Any:
    topics = [mm.MetadataRequestTopic(name=name) for name in names]
    request = mm.MetadataRequest(topics=topics, allow_auto_topic_creation=auto, **options)
    return world.call(to, request, version)


def test_metadata_tells_brokers_leaders_and_offline_replicas(world: World) -> None:
    world.lead(1, isr=(1, 2), replicas=(1, 2))
    world.kill(2)
    world.tell_metadata()
    answer = metadata(world, "t", to=3)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (1, "localhost", 9001),
        (3, "localhost", 9003),
    ]
    assert (answer.cluster_id, answer.controller_id) == ("test-cluster", 1)
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (1, 1, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1, 2], [1, 2], [2])


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
    world.tell_metadata()
    (partition,) = metadata(world, "t").topics[0].partitions
    assert (partition.leader_id, partition.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)


def test_topics_are_found_by_id(world: World) -> None:
    request = mm.MetadataRequest(
        topics=[mm.MetadataRequestTopic(name=None, topic_id=i) for i in (TOPIC_ID, bytes([5] * 16))]
    )
    found, unknown = world.call(1, request, 12).topics
    assert (found.name, found.error_code) == ("t", 0)
    assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


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


@pytest.mark.parametrize("name", ["..", "a b", "x" * 250, "ü"])
def test_a_topic_is_not_made_under_an_illegal_name(world: World, name: str) -> None:
    assert metadata(world, name, auto=True).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_with_too_few_brokers_a_topic_is_refused_with_one_line_that_says_what_to_set(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,), default_replication_factor="3")
    answer = metadata(world, "new", auto=True, to=1)
    assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    (line,) = told(world, fx.LogLine)
    assert "default.replication.factor" in line.text


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


# ---------------------------------------------------------------------------------- topics, by way of the controller


def create(
    world: World, *topics: ct.CreatableTopic, to: int = 1, version: int = 7, **options: Any
) -> Pending:
    request = ct.CreateTopicsRequest(topics=list(topics), timeout_ms=5_000, **options)
    return world.send(to, request, version)


def topic(name: str, partitions: int = 1, factor: int = 1, **options: Any) -> ct.CreatableTopic:
    return ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **options)


def test_only_the_controller_changes_topics_and_answers_for_itself(world: World) -> None:
    assert create(world, topic("new"), to=2).message.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    deletion = dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="t")], timeout_ms=1_000)
    assert world.call(2, deletion, 6).responses[0].error_code == ErrorCode.NOT_CONTROLLER
    growth = cp.CreatePartitionsRequest(
        topics=[cp.CreatePartitionsTopic(name="t", count=3, assignments=None)]
    )
    assert world.call(2, growth, 3).results[0].error_code == ErrorCode.NOT_CONTROLLER
    assert world.call(2, ap.AlterPartitionRequest(), 3).error_code == ErrorCode.NOT_CONTROLLER
    assert world.call(2, cs.ControlledShutdownRequest(), 3).error_code == ErrorCode.NOT_CONTROLLER
    assert world.call(2, apm.AllocateProducerIdsRequest(), 0).error_code == ErrorCode.NOT_CONTROLLER


def test_create_topics_answers_when_every_partition_has_a_leader_here(world: World) -> None:
    config = ct.CreatableTopicConfig(name="retention.ms", value="1000")
    asked = create(world, topic("new", 2, 3, configs=[config]))
    (request,) = told(world, fx.StoreRequest)
    (new,) = request.question.topics
    assert (new.topic, new.config) == ("new", {"retention.ms": "1000"})
    assert sorted(new.assignment) == [0, 1]
    assert all(sorted(replicas) == [1, 2, 3] for replicas in new.assignment.values())
    broker = world[1].broker
    broker.store_answered(request.request_id, fx.TopicsWritten({"new": (ErrorCode.NONE, "")}), world.now_ms)
    world.lead(1, topic="new", topic_id=new.topic_id, index=0)
    assert not asked.is_answered, "partition 1 has no leader yet"
    world.lead(2, topic="new", topic_id=new.topic_id, index=1)
    (row,) = asked.message.topics
    assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 2, 3)
    assert bytes(row.topic_id) == new.topic_id
    values = {c.name: (c.value, c.config_source) for c in row.configs}
    assert values["retention.ms"] == ("1000", 1)
    assert values["max.message.bytes"] == ("1048588", 5)


def test_create_topics_times_out_with_the_topic_made(world: World) -> None:
    asked = create(world, topic("new"))
    (request,) = told(world, fx.StoreRequest)
    world[1].broker.store_answered(
        request.request_id, fx.TopicsWritten({"new": (ErrorCode.NONE, "")}), world.now_ms
    )
    world.advance(4_990)
    assert not asked.is_answered
    world.advance(20)
    assert asked.message.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_what_the_store_refuses_is_answered_at_once(world: World) -> None:
    asked = create(world, topic("new"), topic("other"))
    (request,) = told(world, fx.StoreRequest)
    there = (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'new' already exists.")
    broken = (ErrorCode.UNKNOWN_SERVER_ERROR, "no")
    world[1].broker.store_answered(
        request.request_id, fx.TopicsWritten({"new": there, "other": broken}), world.now_ms
    )
    world.settle()
    assert [(t.error_code, t.error_message) for t in asked.message.topics] == [there, broken]
    asked = create(world, topic("third"))
    (request,) = told(world, fx.StoreRequest)
    world[1].broker.store_answered(request.request_id, fx.StoreFailed("session lost"), world.now_ms)
    world.settle()
    assert asked.message.topics[0].error_message == "session lost"


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (topic("t"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("new", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("new", -2), ErrorCode.INVALID_PARTITIONS),
        (topic("new", 1_000_000), ErrorCode.INVALID_PARTITIONS),
        (topic("new", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("new", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (
            topic("new", configs=[ct.CreatableTopicConfig(name="nonsense", value="1")]),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            topic("new", configs=[ct.CreatableTopicConfig(name="segment.bytes", value="x")]),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            topic("new", configs=[ct.CreatableTopicConfig(name="segment.bytes", value=None)]),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            topic(
                "new", 1, 1, assignments=[ct.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
            ),
            ErrorCode.INVALID_REQUEST,
        ),
        *(
            (
                topic(
                    "new",
                    -1,
                    -1,
                    assignments=[
                        ct.CreatableReplicaAssignment(partition_index=p, broker_ids=brokers)
                        for p, brokers in rows
                    ],
                ),
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            )
            for rows in (
                [(1, [1])],
                [(0, [1, 1])],
                [(0, [])],
                [(0, [9])],
                [(0, [-1])],
                [(0, [1, 2]), (1, [1])],
                [(0, [1]), (0, [2])],
            )
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_before_anything_is_written(
    world: World, wanted: ct.CreatableTopic, error: ErrorCode
) -> None:
    row = create(world, wanted).message.topics[0]
    assert row.error_code == error
    assert row.error_message
    assert told(world, fx.StoreRequest) == []


def test_names_that_differ_only_in_dots_and_underscores_collide(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1,), topic="a.b", topic_id=bytes([7] * 16))
    row = create(world, topic("a_b")).message.topics[0]
    assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "a.b" in row.error_message


def test_the_same_topic_twice_in_one_request_is_refused_once(world: World) -> None:
    rows = create(world, topic("new"), topic("new", 3)).message.topics
    assert [(r.name, r.error_code) for r in rows] == [("new", ErrorCode.INVALID_REQUEST)]


def test_validate_only_writes_nothing(world: World) -> None:
    row = create(world, topic("new", -1, -1), validate_only=True).message.topics[0]
    assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 1, 1)
    assert told(world, fx.StoreRequest) == []


def test_delete_topics_is_written_and_answered_when_the_topic_has_left_the_cache(world: World) -> None:
    request = dt.DeleteTopicsRequest(
        topics=[dt.DeleteTopicState(name=None, topic_id=TOPIC_ID), dt.DeleteTopicState(name="none")],
        timeout_ms=5_000,
    )
    asked = world.send(1, request, 6)
    (effect,) = told(world, fx.StoreRequest)
    assert effect.question == fx.DeleteTopics(("t",))
    world[1].broker.store_answered(
        effect.request_id, fx.TopicsWritten({"t": (ErrorCode.NONE, "")}), world.now_ms
    )
    world.settle()
    assert not asked.is_answered
    world.leadership[T0]["leader"] = LEADER_DURING_DELETE
    world.tell_metadata()
    world.settle()
    assert [(r.name, r.error_code) for r in asked.message.responses] == [("t", 0), ("none", 3)]


def test_deletion_can_be_switched_off(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,), delete_topic_enable="false")
    world.lead(1, isr=(1,), replicas=(1,))
    world[1].broker.controller_status(True, 1, world.now_ms)
    for version, error in ((1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)):
        request = dt.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000)
        assert world.call(1, request, version).responses[0].error_code == error


def grow(world: World, count: int, assignments: Any = None, name: str = "t", **options: Any) -> Pending:
    request = cp.CreatePartitionsRequest(
        topics=[cp.CreatePartitionsTopic(name=name, count=count, assignments=assignments)],
        timeout_ms=5_000,
        **options,
    )
    return world.send(1, request, 3)


def test_create_partitions_goes_on_where_the_topic_began(world: World) -> None:
    world.lead(2, isr=(2, 3), replicas=(2, 3))
    asked = grow(world, 4)
    (effect,) = told(world, fx.StoreRequest)
    assert effect.question == fx.AddPartitions("t", {1: (3, 2), 2: (1, 3), 3: (2, 3)})
    world[1].broker.store_answered(
        effect.request_id, fx.TopicsWritten({"t": (ErrorCode.NONE, "")}), world.now_ms
    )
    for index in (1, 2, 3):
        world.settle()
        assert not asked.is_answered
        world.lead(1, index=index, isr=(1,), replicas=(1,))
    assert asked.message.results[0].error_code == 0


@pytest.mark.parametrize(
    ("count", "assignments", "error"),
    [
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (0, None, ErrorCode.INVALID_PARTITIONS),
        (1_000_000, None, ErrorCode.INVALID_PARTITIONS),
        (3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(
    world: World, count: int, assignments: list[list[int]] | None, error: ErrorCode
) -> None:
    rows = None
    if assignments is not None:
        rows = [cp.CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    row = grow(world, count, rows).message.results[0]
    assert row.error_code == error
    assert row.error_message
    assert told(world, fx.StoreRequest) == []


def test_partitions_are_added_only_to_topics_there_are(world: World) -> None:
    assert grow(world, 3, name="none").message.results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --------------------------------------------------------------------------- requests for the controller in here


def test_alter_partition_becomes_a_question_to_the_controller_and_its_answer_the_response(
    world: World,
) -> None:
    member = ap.BrokerState(broker_id=2, broker_epoch=22)
    data = ap.AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=3,
        new_isr_with_epochs=[member],
        partition_epoch=4,
        leader_recovery_state=0,
    )
    request = ap.AlterPartitionRequest(
        broker_id=2,
        broker_epoch=22,
        topics=[ap.AlterPartitionRequestTopicData(topic_id=TOPIC_ID, partitions=[data])],
    )
    asked = world.send(1, request, 3)
    (effect,) = told(world, fx.ControllerRequest)
    assert effect.ask == fx.AlterPartitionAsked(
        3, 2, 22, (fx.AlterPartitionItem(None, TOPIC_ID, 0, 3, 4, (fx.IsrMember(2, 22),), 0),)
    )
    from tests.replication.partitions import leadership

    outcome = fx.AlterPartitionOutcome("t", TOPIC_ID, 0, ErrorCode.NONE, leadership(2, 3, (2,), 5))
    world[1].broker.controller_answered(
        effect.request_id, fx.AlterPartitionAnswered(ErrorCode.NONE, (outcome,)), world.now_ms
    )
    (row,) = asked.message.topics[0].partitions
    assert (row.error_code, row.leader_id, row.leader_epoch, row.isr, row.partition_epoch) == (
        0,
        2,
        3,
        [2],
        5,
    )


def test_controlled_shutdown_and_producer_ids_travel_the_same_way(world: World) -> None:
    shutdown = world.send(1, cs.ControlledShutdownRequest(broker_id=2, broker_epoch=22), 3)
    ids = world.send(1, apm.AllocateProducerIdsRequest(broker_id=2, broker_epoch=22), 0)
    first, second = told(world, fx.ControllerRequest)
    assert first.ask == fx.ControlledShutdownAsked(2, 22)
    assert second.ask == fx.AllocateProducerIdsAsked(2, 22)
    broker = world[1].broker
    broker.controller_answered(
        first.request_id, fx.ControlledShutdownAnswered(ErrorCode.NONE, (T0,)), world.now_ms
    )
    broker.controller_answered(
        second.request_id, fx.AllocateProducerIdsAnswered(ErrorCode.NONE, 5_000, 1_000), world.now_ms
    )
    assert [(r.topic_name, r.partition_index) for r in shutdown.message.remaining_partitions] == [("t", 0)]
    assert (ids.message.producer_id_start, ids.message.producer_id_len) == (5_000, 1_000)


# ----------------------------------------------------------------------------------------------------- producer ids


def test_producer_ids_come_from_blocks_asked_for_when_they_run_low(world: World) -> None:
    def init() -> Pending:
        return world.send(2, ip.InitProducerIdRequest(transactional_id=None), 4)

    waiting = [init(), init()]
    (effect,) = told(world, fx.SendToController, 2)
    assert (effect.api_key, effect.message.broker_id, effect.message.broker_epoch) == (67, 2, world[2].epoch)
    answered = apm.AllocateProducerIdsResponse(producer_id_start=1_000, producer_id_len=1_000)
    world[2].broker.controller_channel_answered(effect.request_id, answered, world.now_ms)
    world.settle()
    assert [p.message.producer_id for p in waiting] == [1_000, 1_001]
    assert [p.message.producer_epoch for p in waiting] == [0, 0]
    ids = [init().message.producer_id for _ in range(998)]
    assert ids == list(range(1_002, 2_000))
    (effect,) = told(world, fx.SendToController, 2)
    assert not init().is_answered
    answered = apm.AllocateProducerIdsResponse(producer_id_start=7_000, producer_id_len=1_000)
    world[2].broker.controller_channel_answered(effect.request_id, answered, world.now_ms)
    assert init().message.producer_id == 7_001


def test_a_controller_that_cannot_be_reached_is_asked_again_and_the_client_hears_to_retry(
    world: World,
) -> None:
    asked = world.send(2, ip.InitProducerIdRequest(transactional_id=None), 4)
    for _ in range(3):
        (effect,) = told(world, fx.SendToController, 2)
        world[2].broker.controller_channel_answered(effect.request_id, None, world.now_ms)
        world.advance(60)
    told(world, fx.SendToController, 2)
    world.advance(11_000)
    assert asked.message.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("name", "timeout", "error"),
    [
        ("tx", 60_000, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("tx", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("tx", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("", 60_000, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_transactional_producer_is_told_that_there_is_no_coordinator(
    world: World, name: str, timeout: int, error: ErrorCode
) -> None:
    request = ip.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout)
    answer = world.call(1, request, 4)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)


# ------------------------------------------------------------------------------------------------------- the rest


def test_no_sasl_mechanism_is_enabled(world: World) -> None:
    answer = world.call(1, sh.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, [])
    answer = world.call(1, sa.SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 2)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_transaction_marker_is_appended_as_a_control_batch_and_waits_for_its_commit(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    marker = wm.WritableTxnMarker(
        producer_id=5,
        producer_epoch=0,
        transaction_result=True,
        topics=[wm.WritableTxnMarkerTopic(name="t", partition_indexes=[0, 8])],
        coordinator_epoch=3,
    )
    asked = world.send(1, wm.WriteTxnMarkersRequest(markers=[marker]), 1)
    world.settle()
    assert not asked.is_answered
    world.cut.clear()
    world.settle()
    rows = asked.message.markers[0].topics[0].partitions
    assert [(r.partition_index, r.error_code) for r in rows] == [
        (0, 0),
        (8, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    from odradek.records.batch import read_header

    assert read_header(world[1].raw()).is_control


def test_an_envelope_is_opened_and_its_answer_comes_back_inside(world: World) -> None:
    inner = ct.CreateTopicsRequest(topics=[topic("t")], timeout_ms=100)
    data = encode_request(19, 7, 77, "client", inner.encode(7))[4:]
    request = em.EnvelopeRequest(
        request_data=data, request_principal=b"\0\0\x05User\x06alice\0\0", client_host_address=b"\x7f\0\0\1"
    )
    answer = world.call(1, request, 0)
    assert answer.error_code == 0
    assert answer.response_data[:5] == b"\0\0\0\x4d\0"
    row = ct.CreateTopicsResponse.decode(7, bytes(answer.response_data), 5).topics[0]
    assert row.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_envelopes_are_refused_where_they_cannot_be(world: World) -> None:
    def refused(to: int = 1, **options: Any) -> int:
        fields = {"request_data": b"", "request_principal": None, "client_host_address": b""} | options
        return int(world.call(to, em.EnvelopeRequest(**fields), 0).error_code)

    assert refused(to=2) == ErrorCode.NOT_CONTROLLER
    assert refused() == ErrorCode.INVALID_REQUEST
    assert refused(request_principal=b"\0\x09junk") == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    produce = encode_request(0, 9, 1, None, b"")[4:]
    assert refused(request_data=produce) == ErrorCode.INVALID_REQUEST


def test_delete_records_moves_the_start_and_answers_when_all_replicas_have_followed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.lead(1, is_new=True)
    for n in range(5):
        world.produce(1, b"%d" % n)
    world.advance(10)

    def delete(offset: int) -> Pending:
        wanted = dr.DeleteRecordsPartition(partition_index=0, offset=offset)
        request = dr.DeleteRecordsRequest(
            topics=[dr.DeleteRecordsTopic(name="t", partitions=[wanted])], timeout_ms=1_000
        )
        return world.send(1, request, 2)

    def row(pending: Pending) -> tuple[int, int]:
        found = pending.message.topics[0].partitions[0]
        return found.error_code, found.low_watermark

    asked = delete(2)
    world.advance(20)
    assert row(asked) == (0, 2)
    assert world[3].partition().log.log_start_offset == 2
    assert row(delete(6)) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    world.cut.add((3, 1))
    asked = delete(-1)
    world.advance(20)
    assert not asked.is_answered
    world.advance(1_000)
    assert row(asked) == (ErrorCode.REQUEST_TIMED_OUT, 2)
    assert world[1].partition().log.log_start_offset == 5
    world[1].broker.topic_config_changed("t", {"cleanup.policy": "compact"}, world.now_ms)
    assert row(delete(5))[0] == ErrorCode.POLICY_VIOLATION


# ------------------------------------------------------------------------------------- what a controller tells us


@pytest.mark.behaviour(148)
def test_stop_replica_by_epoch(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1,), epoch=5)
    world.produce(1, b"a")
    assert world.stop_replica(1, T0, leader_epoch=4, delete=True) == ErrorCode.FENCED_LEADER_EPOCH
    assert world[1].values() == [b"a"], "a late request deletes nothing (KIP-570)"
    assert world.stop_replica(1, TopicPartition("u", 3), leader_epoch=0, delete=True) == ErrorCode.NONE
    assert world.stop_replica(1, T0, leader_epoch=5) == ErrorCode.NONE
    assert not world[1].partition().is_leader
    assert world[1].values() == [b"a"]
    assert world.stop_replica(1, T0, leader_epoch=-1, delete=True) == ErrorCode.NONE
    assert T0 not in world[1].broker.replicas.partitions
    assert not (world[1].path / "t-0").exists()


def test_a_request_for_an_earlier_life_of_this_broker_is_refused(world: World) -> None:
    """KIP-380: sent before we restarted; it could delete what we have now."""
    node = world[1]
    request = world.leader_and_isr(T0, broker_epoch=node.epoch - 1)
    assert world.call(1, request, 7).error_code == ErrorCode.STALE_BROKER_EPOCH
    metadata_request = um.UpdateMetadataRequest(controller_epoch=1, broker_epoch=node.epoch - 1)
    assert world.call(1, metadata_request, 8).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert world[1].broker.metadata.brokers, "and changed nothing"
    world.leadership[T0]["leader_epoch"] += 1
    later = world.leader_and_isr(T0, broker_epoch=node.epoch + 1)
    assert world.call(1, later, 7).error_code == 0, "the controller may know our registration before we do"


def test_a_kraft_controller_is_refused(world: World) -> None:
    request = world.leader_and_isr(T0)
    request.is_k_raft_controller = True
    assert world.call(1, request, 7).error_code == ErrorCode.INVALID_REQUEST
    metadata_request = um.UpdateMetadataRequest(is_k_raft_controller=True, controller_epoch=9)
    assert world.call(1, metadata_request, 8).error_code == ErrorCode.INVALID_REQUEST
    assert world[1].broker.replicas.controller_epoch == 1


def test_another_topic_of_the_same_name_does_not_get_the_old_ones_replica(world: World) -> None:
    world.leadership[T0]["topic_id"] = bytes([8] * 16)
    world.leadership[T0]["leader_epoch"] = 9
    assert world.tell_leader(1, T0) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert world[1].partition().topic_id == TOPIC_ID
    assert world[1].partition().leader_epoch == 0


def test_a_partition_this_broker_has_no_replica_of_is_refused(world: World) -> None:
    world.leadership[T0]["replicas"] = [2, 3]
    world.leadership[T0]["leader_epoch"] = 9
    assert world.tell_leader(1, T0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(8))
def test_every_version_of_leader_and_isr_makes_a_leader(tmp_path: Path, version: int) -> None:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), tell=())
    request = world.leader_and_isr(T0)
    if version < 2:
        (state,) = request.topic_states[0].partition_states
        state.topic_name = "t"
        request.topic_states, request.ungrouped_partition_states = [], [state]
    request.live_leaders = [lai.LeaderAndIsrLiveLeader(broker_id=1, host_name="h", port=1)]
    answer = world.call(1, request, version)
    errors = answer.partition_errors if version < 5 else answer.topics[0].partition_errors
    assert [(e.partition_index, e.error_code) for e in errors] == [(0, 0)]
    assert world[1].partition().is_leader


def test_strays_are_put_aside_after_a_full_request_by_topic_id_and_never_after_a_partial_one(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, brokers=(1,))
    for number, name in enumerate(("a", "b", "c")):
        world.lead(1, isr=(1,), replicas=(1,), topic=name, topic_id=bytes([number + 1] * 16))
        world.produce(1, name.encode(), topic=name)
    world.kill(1)
    world.restart(1)
    world.tell_metadata()
    keep, made_again = TopicPartition("a", 0), TopicPartition("b", 0)
    world.leadership[made_again]["topic_id"] = bytes([99] * 16)
    for state in world.leadership.values():
        state["leader_epoch"] += 1
    partial = world.leader_and_isr(keep)
    world.call(1, partial, 7)
    assert (world[1].path / "c-0").exists()
    for state in world.leadership.values():
        state["leader_epoch"] += 1
    full = world.leader_and_isr(keep)
    full.topic_states += world.leader_and_isr(made_again).topic_states
    full.type = 2
    answer = world.call(1, full, 7)
    errors = [e.error_code for t in answer.topics for e in t.partition_errors]
    assert errors == [0, ErrorCode.INCONSISTENT_TOPIC_ID]
    names = sorted(
        p.name.split(".")[0] + ("-stray" if p.name.endswith("-stray") else "")
        for p in world[1].path.iterdir()
        if p.is_dir()
    )
    assert names == ["a-0", "b-0-stray", "c-0-stray"]
    assert world[1].values("a") == [b"a"]


def test_a_topic_being_deleted_leaves_the_cache(world: World) -> None:
    world.leadership[T0]["leader"] = LEADER_DURING_DELETE
    world.tell_metadata()
    assert metadata(world, "t").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world[2].broker.metadata.names == {}


def test_find_coordinator_and_offset_commit_say_what_was_asked_for(world: World) -> None:
    answer = world.call(1, fc.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert [(c.key, c.error_code) for c in answer.coordinators] == [("g", ErrorCode.UNSUPPORTED_VERSION)]
    commit = oc.OffsetCommitRequest(
        topics=[
            oc.OffsetCommitRequestTopic(
                name="t", partitions=[oc.OffsetCommitRequestPartition(partition_index=4)]
            )
        ]
    )
    rows = world.call(1, commit, 8).topics
    assert [(t.name, p.partition_index, p.error_code) for t in rows for p in t.partitions] == [("t", 4, 35)]
