"""The longest turn of the loop that each long request, or change of settings, brings about: `python -m benchmarks.turns`.

One broker without sockets, replication factor 1: nothing waits for followers, so what three brokers would do in several
turns falls into as few as it ever does. A turn is a call of the shell with the effects that follow from it; what a thread
does is none. Processor time in milliseconds, the least of the repeats.
"""

import argparse
import gc
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.broker.world import Node, Pending, World

from odradek.broker import effects as fx
from odradek.broker.replica_manager import Leadership
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.protocol.headers import encode_request
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.server.log_maintenance import LogMaintenance
from odradek.server.main import GC_THRESHOLDS

clock = time.process_time


class TimedWorld(World):
    """One broker, turn by turn as its shell takes them; `turns` has what each took since `watch`."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.turns: list[float] = []
        self._asked = 0
        self.users: dict[tuple[str, str], fx.StoredConfig] = {}  # as they stand in the store
        super().__init__(
            path, brokers=(1,), offsets_topic_replication_factor="1", group_max_size="100000", **settings
        )

    def watch(self) -> None:
        self.turns = []

    def turn(self, call: Callable[[], Any]) -> None:
        """`call`, and the effects that follow from it; what is left for another turn or a thread is done after it."""
        node = self[1]
        calls = deque([call])
        while calls:
            turn = calls.popleft()
            began = clock()
            turn()
            goes_on = False
            works: list[fx.RunAside] = []
            while taken := node.broker.take_effects():
                for effect in taken:
                    if isinstance(effect, fx.RunAside):
                        works.append(effect)
                    elif isinstance(effect, fx.GoOn):
                        goes_on = True
                    else:
                        self._do(node, effect)
            self.turns.append(clock() - began)
            for work in works:
                done = work.work.run()
                calls.append(partial(node.broker.answered, work.request_id, done, self.now_ms))
            if goes_on:
                calls.append(partial(self._slice, node))

    def _slice(self, node: Node) -> None:
        began = time.perf_counter()
        while node.broker.go_on(self.now_ms):
            if time.perf_counter() - began >= 0.001:
                node.broker.effects.append(fx.GoOn())
                break

    def _do(self, node: Node, effect: fx.Effect) -> None:
        if isinstance(effect, fx.HandleAgain):
            effect.place.answer(lambda: node.broker.handle(effect.request, self.now_ms))
        elif isinstance(effect, fx.StoreRequest) and isinstance(effect.question, fx.ReadConfigs):
            stored = {entity: fx.StoredConfig({}, 0) for entity in effect.question.entities}
            node.broker.answered(effect.request_id, fx.ConfigsRead(stored, {}), self.now_ms)
        elif isinstance(effect, fx.StoreRequest) and isinstance(effect.question, fx.ListConfigs):
            node.broker.answered(effect.request_id, fx.ConfigsRead(self.users, {}), self.now_ms)

    def ask(self, message: Any, version: int) -> Pending:
        self._asked += 1
        frame = encode_request(message.KEY, version, self._asked, "bench", message.encode(version))
        module = sys.modules[type(message).__module__]
        response = getattr(module, type(message).__name__.replace("Request", "Response"))
        pending = Pending(response, version)
        self.turn(lambda: self.send_frame(1, frame[4:], pending, self.connection()))
        return pending

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.turn(lambda: self[1].broker.tick(self.now_ms))


def a_world(path: Path, known: int = 0) -> TimedWorld:
    """A broker that coordinates groups and transactions; the topic `big` has so many partitions, led elsewhere."""
    world = TimedWorld(path)
    world.coordinate_alone(known)
    world.now_ms += 20
    world[1].broker.tick(world.now_ms)
    world.settle()
    return world


def commit(group: str, partitions: Iterable[int], metadata: str = "") -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestPartition(partition_index=one, committed_offset=one, committed_metadata=metadata)
        for one in partitions
    ]
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="big", partitions=rows)])


def join_request(member: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        member_id=member,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\1" + b"t" * 30)],
    )


def joined(world: TimedWorld, members: int) -> list[Any]:
    pending = [world.ask(join_request(), 3) for _ in range(members)]
    world.watch()
    for _ in range(30):  # as long as members come, the first join waits for more
        if not all(one.is_answered for one in pending):
            world.pass_time(3_000)
    return [one.message for one in pending]


# ------------------------------------------------------------------------------------------------- what is measured


def join_of_a_group(path: Path, rows: int) -> TimedWorld:
    world = a_world(path)
    joined(world, rows)
    return world


def sync_of_its_leader(path: Path, rows: int) -> TimedWorld:
    world = a_world(path)
    answers = joined(world, rows)
    leader = answers[0].leader
    generation = answers[0].generation_id
    others = [
        world.ask(SyncGroupRequest(group_id="g", generation_id=generation, member_id=one.member_id), 3)
        for one in answers
        if one.member_id != leader
    ]
    request = SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=leader,
        assignments=[
            SyncGroupRequestAssignment(member_id=one.member_id, assignment=b"a" * 20) for one in answers
        ],
    )
    world.watch()
    pending = world.ask(request, 3)
    assert pending.is_answered and all(one.is_answered for one in others)
    return world


def leave_of_all(path: Path, rows: int) -> TimedWorld:
    world = a_world(path)
    answers = joined(world, rows)
    members = [MemberIdentity(member_id=one.member_id) for one in answers]
    world.watch()
    assert world.ask(LeaveGroupRequest(group_id="g", members=members), 4).message.error_code == 0
    return world


def describe_of_a_group(path: Path, rows: int) -> TimedWorld:
    world = a_world(path)
    joined(world, rows)
    world.watch()
    assert len(world.ask(DescribeGroupsRequest(groups=["g"]), 4).message.groups[0].members) == rows
    return world


def commit_of_many(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    world.watch()
    (topic,) = world.ask(commit("g", range(rows)), 8).message.topics
    assert {one.error_code for one in topic.partitions} == {0} and len(topic.partitions) == rows
    return world


def commit_that_is_refused(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    world.watch()
    (topic,) = world.ask(commit("g", range(rows)), 8).message.topics
    assert {one.error_code for one in topic.partitions} == {28} and len(topic.partitions) == rows
    return world


def fetch_of_all(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    for at in range(0, rows, 10_000):
        world.ask(commit("g", range(at, min(at + 10_000, rows))), 8)
    world.watch()
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    (group,) = world.ask(request, 8).message.groups
    assert sum(len(topic.partitions) for topic in group.topics) == rows
    return world


def list_of_groups(path: Path, rows: int) -> TimedWorld:
    world = a_world(path)
    (shard,) = world[1].broker.groups.shards.values()
    assert shard.coordinator is not None
    for number in range(rows):
        shard.coordinator.shard.group(f"group-{number}", world.now_ms)
    world.watch()
    assert len(world.ask(ListGroupsRequest(), 4).message.groups) == rows
    return world


def _producer(world: TimedWorld) -> Any:
    world[1].broker.producer_ids._next, world[1].broker.producer_ids._end = 1_000, 2_000
    pending = world.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 4)
    return pending.message


def _added(world: TimedWorld, topic: str, partitions: list[int]) -> Any:
    producer = _producer(world)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=partitions)],
    )
    world.watch()
    (row,) = world.ask(request, 3).message.results_by_topic_v3_and_below
    assert {one.partition_error_code for one in row.results_by_partition} == {0}
    return producer


def partitions_added(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    _added(world, "big", list(range(rows)))
    return world


def end_of_a_transaction(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    producer = _added(world, "big", list(range(rows)))
    world.watch()
    request = EndTxnRequest(
        transactional_id="tx",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )
    assert world.ask(request, 3).message.error_code == 0
    return world


def commit_in_a_transaction(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    producer = _added(world, GROUPS_TOPIC, [0])
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="big",
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=one, committed_offset=one)
                    for one in range(rows)
                ],
            )
        ],
    )
    world.watch()
    (topic,) = world.ask(request, 3).message.topics
    assert {one.error_code for one in topic.partitions} == {0}
    return world


def its_marker(path: Path, rows: int) -> TimedWorld:
    world = commit_in_a_transaction(path, rows)
    world.watch()
    world.ask(_markers(GROUPS_TOPIC, [0], 1_000), 1)
    return world


def markers_written(path: Path, rows: int) -> TimedWorld:
    world = a_world(path)
    world.watch()
    pending = world.ask(_markers("t", [0] * rows, 5), 1)
    (topic,) = pending.message.markers[0].topics
    assert {one.error_code for one in topic.partitions} == {0} and len(topic.partitions) == rows
    return world


def _markers(topic: str, partitions: list[int], producer_id: int) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=0,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=partitions)],
                coordinator_epoch=0,
            )
        ]
    )


def partitions_described(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    world.watch()
    request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=rows)
    world.ask(request, 0)
    return world


def configs_altered(path: Path, rows: int) -> TimedWorld:
    world = a_world(path)
    configs = [
        AlterableConfig(name=f"name.{number}", config_operation=0, value="1") for number in range(rows)
    ]
    world.watch()
    world.ask(
        IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name="t", configs=configs)]
        ),
        1,
    )
    return world


def topics_made_by_metadata(path: Path, rows: int) -> TimedWorld:
    world = a_world(path)
    names = [MetadataRequestTopic(name=f"new-topic-{number}") for number in range(rows)]
    world.watch()
    answer = world.ask(MetadataRequest(topics=names, allow_auto_topic_creation=True), 12).message
    assert {topic.error_code for topic in answer.topics} == {5} and len(answer.topics) == rows
    return world


def groups_described(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    world.watch()
    names = [f"group-{number}" for number in range(rows)]
    answer = world.ask(DescribeGroupsRequest(groups=names), 4).message
    assert [group.group_id for group in answer.groups] == names
    return world


def offsets_of_many_groups(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    groups = [OffsetFetchRequestGroup(group_id=f"group-{number}", topics=None) for number in range(rows)]
    world.watch()
    answer = world.ask(OffsetFetchRequest(groups=groups), 8).message
    assert [group.group_id for group in answer.groups] == [group.group_id for group in groups]
    return world


def transactions_described(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    ids = [f"tx-{number}" for number in range(rows)]
    world.watch()
    answer = world.ask(DescribeTransactionsRequest(transactional_ids=ids), 0).message
    assert [row.transactional_id for row in answer.transaction_states] == ids
    return world


def a_transaction_described(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    _added(world, "big", list(range(rows)))
    world.watch()
    (row,) = world.ask(DescribeTransactionsRequest(transactional_ids=["tx"]), 0).message.transaction_states
    assert row.topics[0].partitions == list(range(rows))
    return world


def coordinators_found(path: Path, rows: int) -> TimedWorld:
    world = a_world(path, rows)
    keys = [f"group-{number}" for number in range(rows)]
    world.watch()
    answer = world.ask(FindCoordinatorRequest(coordinator_keys=keys), 4).message
    assert [row.key for row in answer.coordinators] == keys
    return world


def partitions_fetched(path: Path, rows: int) -> TimedWorld:
    """They are led elsewhere."""
    world = a_world(path, rows)
    partitions = [FetchPartition(partition=one, partition_max_bytes=1 << 20) for one in range(rows)]
    world.watch()
    request = FetchRequest(session_epoch=-1, topics=[FetchTopic(topic="big", partitions=partitions)])
    (topic,) = world.ask(request, 12).message.responses
    assert len(topic.partitions) == rows
    return world


def partitions_produced_to(path: Path, rows: int) -> TimedWorld:
    """They are led elsewhere."""
    world = a_world(path, rows)
    partitions = [PartitionProduceData(index=one, records=b"") for one in range(rows)]
    world.watch()
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="big", partition_data=partitions)])
    (topic,) = world.ask(request, 9).message.responses
    assert len(topic.partition_responses) == rows
    return world


def a_partition_produced_to(path: Path, rows: int) -> TimedWorld:
    """One that is here, again and again."""
    world = a_world(path, rows // 2)
    partitions = [PartitionProduceData(index=0, records=b"")] * rows
    world.watch()
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=partitions)])
    (topic,) = world.ask(request, 9).message.responses
    assert {row.error_code for row in topic.partition_responses} == {42, 87}
    assert len(topic.partition_responses) == rows
    return world


def groups_deleted(path: Path, rows: int) -> TimedWorld:
    """That there are not."""
    world = a_world(path, rows)
    world.watch()
    answer = world.ask(DeleteGroupsRequest(groups_names=[f"group-{number}" for number in range(rows)]), 2)
    assert len(answer.message.results) == rows
    return world


def configs_described(path: Path, rows: int) -> TimedWorld:
    """Of topics that there are not."""
    world = a_world(path, rows)
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name=f"topic-{number}", configuration_keys=None)
        for number in range(rows)
    ]
    world.watch()
    answer = world.ask(DescribeConfigsRequest(resources=resources), 4).message
    assert [row.error_code for row in answer.results] == [3] * rows
    return world


def _hosting(path: Path, topics: int, partitions: int) -> TimedWorld:
    world = TimedWorld(path)
    broker = world[1].broker
    leads = LeaderAndIsr(BrokerId(1), LeaderEpoch(1), (BrokerId(1),), 0, PartitionEpoch(1))
    told = [
        Leadership(
            TopicPartition(f"topic-{topic}", index),
            TopicId(topic.to_bytes(16, "big")),
            leads,
            ReplicaAssignment((BrokerId(1),)),
            True,
        )
        for topic in range(1, topics + 1)
        for index in range(partitions)
    ]
    for leadership in told:
        assert not any(broker.replicas.commit_slice([leadership], [], world.now_ms).values())
        for segment in world[1].logs.logs[leadership.topic_partition].segments:
            segment.close_handles()  # there are more of them than descriptors
    for topic in range(1, topics + 1):
        broker.topic_config_changed(f"topic-{topic}", {}, world.now_ms)
        while broker.go_on(world.now_ms):
            pass
    broker.take_effects()
    world.watch()
    return world


class _InAThread:
    """What a coroutine waits for that has a thread do something; whoever drives it does it between two turns."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call

    def __await__(self) -> Generator["_InAThread", Any, Any]:
        return (yield self)


class _Driven:
    """An environment, and the loop and the clock of it, whose one task takes its turns when it is told to."""

    def __init__(self) -> None:
        self.loop = self.clock = self
        self.time_ms = 0
        self.task: Coroutine[Any, Any, None] | None = None

    def now_ms(self) -> int:
        return self.time_ms

    def create_task(self, task: Coroutine[Any, Any, None]) -> "_Driven":
        self.task = task
        return self

    def add_done_callback(self, call: object) -> None:
        pass

    def run_blocking(self, function: Callable[..., Any], *arguments: Any) -> _InAThread:
        return _InAThread(partial(function, *arguments))


def _maintained(path: Path, rows: int, passed_ms: int) -> TimedWorld:
    """What is due of all logs by then, and a flush of the last one."""
    world = _hosting(path, 1, rows)
    logs = world[1].logs
    driven: Any = _Driven()
    unused: Any = None
    maintenance = LogMaintenance(
        logs,
        driven,
        BrokerSettings({"odradek.log.scrub.bytes.per.second": "0"}),
        on_flushed=unused,
        high_watermark_of=lambda log: log.log_end_offset,
        on_start_moved=unused,
        cleaning=SimpleNamespace(backoff_ms=1 << 40),  # type: ignore[arg-type]
        log=unused,
    )
    last = logs.logs[TopicPartition("topic-1", rows - 1)]
    last.flushed.rolled()
    driven.time_ms += passed_ms
    maintenance.housekeep()
    came = None
    while driven.task is not None:
        began = clock()
        try:
            work = driven.task.send(came)
        except StopIteration:
            driven.task = work = None
        world.turns.append(clock() - began)
        came = None if work is None else work.call()
    assert not last.flush_is_due(driven.time_ms)
    return world


def flushes_of_logs(path: Path, rows: int) -> TimedWorld:
    return _maintained(path, rows, 1_000)


def retention_of_logs(path: Path, rows: int) -> TimedWorld:
    return _maintained(path, rows, 30_000)


def topics_checked(path: Path, rows: int) -> TimedWorld:
    """Each with a setting of its own; none of them is made."""
    world = a_world(path)
    world[1].broker.controller_status(True, 1, world.now_ms)
    topics = [
        CreatableTopic(
            name=f"new-topic-{number}",
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="retention.ms", value=str(number))],
        )
        for number in range(rows)
    ]
    world.watch()
    answer = world.ask(CreateTopicsRequest(topics=topics, validate_only=True), 7).message
    assert {topic.error_code for topic in answer.topics} == {0} and len(answer.topics) == rows
    return world


def elections_refused(path: Path, rows: int) -> TimedWorld:
    """By a broker that is not the controller."""
    world = a_world(path, rows)
    named = [TopicPartitions(topic="big", partitions=list(range(rows)))]
    world.watch()
    request = ElectLeadersRequest(election_type=0, topic_partitions=named)
    (topic,) = world.ask(request, 2).message.replica_election_results
    assert len(topic.partition_result) == rows
    return world


def _with_users(path: Path, rows: int) -> TimedWorld:
    world = TimedWorld(path)
    config = {"consumer_byte_rate": "1000", "SCRAM-SHA-256": "salt=s,iterations=4096"}
    world.users = {("users", f"user-{number}"): fx.StoredConfig(config, 0) for number in range(rows)}
    world.watch()
    return world


def quotas_described(path: Path, rows: int) -> TimedWorld:
    world = _with_users(path, rows)
    assert len(world.ask(DescribeClientQuotasRequest(components=[]), 1).message.entries) == rows
    return world


def credentials_described(path: Path, rows: int) -> TimedWorld:
    world = _with_users(path, rows)
    assert len(world.ask(DescribeUserScramCredentialsRequest(users=None), 0).message.results) == rows
    return world


def settings_of_a_topic_changed(path: Path, rows: int) -> TimedWorld:
    world = _hosting(path, 1, rows)
    broker = world[1].broker
    world.turn(lambda: broker.topic_config_changed("topic-1", {"min.insync.replicas": "2"}, world.now_ms))
    assert {one.min_insync_replicas for one in broker.replicas.partitions.values()} == {2}
    return world


def settings_of_a_broker_changed(path: Path, rows: int) -> TimedWorld:
    """Of as many topics as partitions."""
    world = _hosting(path, rows, 1)
    broker = world[1].broker
    world.turn(lambda: broker.broker_config_changed("1", {"min.insync.replicas": "2"}, world.now_ms))
    assert {one.min_insync_replicas for one in broker.replicas.partitions.values()} == {2}
    return world


CASES: dict[str, tuple[Callable[[Path, int], TimedWorld], int]] = {
    "JoinGroup: a group begins its generation": (join_of_a_group, 10_000),
    "SyncGroup: assignments of the leader": (sync_of_its_leader, 5_000),
    "LeaveGroup: all members at once": (leave_of_all, 10_000),
    "DescribeGroups: members": (describe_of_a_group, 10_000),
    "DeleteGroups: groups that there are not": (groups_deleted, 48_000),
    "DescribeGroups: groups": (groups_described, 20_000),
    "ListGroups: groups": (list_of_groups, 100_000),
    "OffsetCommit: partitions": (commit_of_many, 10_000),
    "OffsetCommit: partitions, refused": (commit_that_is_refused, 100_000),
    "OffsetFetch: all of a group": (fetch_of_all, 100_000),
    "OffsetFetch: groups": (offsets_of_many_groups, 20_000),
    "TxnOffsetCommit: partitions": (commit_in_a_transaction, 10_000),
    "WriteTxnMarkers: offsets that become visible": (its_marker, 10_000),
    "WriteTxnMarkers: partitions": (markers_written, 10_000),
    "AddPartitionsToTxn: partitions": (partitions_added, 10_000),
    "EndTxn: partitions": (end_of_a_transaction, 10_000),
    "DescribeTopicPartitions: partitions": (partitions_described, 10_000),
    "DescribeTransactions: ids": (transactions_described, 20_000),
    "DescribeTransactions: partitions": (a_transaction_described, 20_000),
    "FindCoordinator: keys": (coordinators_found, 20_000),
    "DescribeConfigs: topics that there are not": (configs_described, 20_000),
    "IncrementalAlterConfigs: settings": (configs_altered, 5_000),
    "Fetch: partitions": (partitions_fetched, 48_000),
    "Produce: partitions, refused": (partitions_produced_to, 48_000),
    "Produce: one partition many times": (a_partition_produced_to, 48_000),
    "CreateTopics: topics with a setting, checked": (topics_checked, 2_500),
    "ElectLeaders: partitions, refused": (elections_refused, 48_000),
    "DescribeClientQuotas: users": (quotas_described, 20_000),
    "DescribeUserScramCredentials: users": (credentials_described, 20_000),
    "A topic's settings change: partitions": (settings_of_a_topic_changed, 10_000),
    "A broker's settings change: topics": (settings_of_a_broker_changed, 10_000),
    "Every second, flushes that are due: logs": (flushes_of_logs, 10_000),
    "Every five minutes, retention: logs": (retention_of_logs, 10_000),
    "Metadata: topics that are made": (topics_made_by_metadata, 4_900),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)  # as a broker does
    print(f"| {'request':<44} |    rows | longest turn, ms | turns |")
    for name, (measure, rows) in CASES.items():
        if options.only not in name:
            continue
        best: list[float] | None = None
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as path:
                turns = measure(Path(path), rows).turns
            best = turns if best is None or max(turns) < max(best) else best
        assert best is not None
        print(f"| {name:<44} | {rows:>7,} | {1000 * max(best):>16.1f} | {len(best):>5} |", flush=True)


if __name__ == "__main__":
    main()
