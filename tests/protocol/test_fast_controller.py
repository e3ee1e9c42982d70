"""LeaderAndIsr, UpdateMetadata and StopReplica by hand are those of the tables."""

from hypothesis import given, settings

from odradek.protocol import fast_controller as fast
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.protocol.strategies import messages

few = settings(max_examples=100, deadline=None, derandomize=True, database=None)


Told = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


def as_we_say_it(message: Told) -> None:
    """No KRaft controller, only changes; each topic named once, and none without partitions."""
    message.is_k_raft_controller = False
    if not isinstance(message, StopReplicaRequest):
        message.type = 0
    named = {(t.topic_name, getattr(t, "topic_id", b"")): t for t in message.topic_states}
    message.topic_states = [topic for topic in named.values() if topic.partition_states]  # type: ignore[assignment]


@few
@given(message=messages(LeaderAndIsrRequest, fast.LEADER_AND_ISR_VERSION))
def test_leader_and_isr_is_written_as_the_table_writes_it(message: LeaderAndIsrRequest) -> None:
    as_we_say_it(message)
    partitions: list[fast.LeaderAndIsrState] = [
        (
            (topic.topic_name, p.partition_index),
            topic.topic_id,
            p.controller_epoch,
            p.leader,
            p.leader_epoch,
            p.isr,
            p.partition_epoch,
            p.replicas,
            p.adding_replicas,
            p.removing_replicas,
            p.is_new,
            p.leader_recovery_state,
            p.eligible_leader_replicas,
        )
        for topic in message.topic_states
        for p in topic.partition_states
    ]
    by_hand = fast.encode_leader_and_isr(
        controller_id=message.controller_id,
        controller_epoch=message.controller_epoch,
        broker_epoch=message.broker_epoch,
        topics=fast.encode_leader_and_isr_topics(partitions),
        live_leaders=[(leader.broker_id, leader.host_name, leader.port) for leader in message.live_leaders],
    )
    assert by_hand == message.encode(fast.LEADER_AND_ISR_VERSION)


@few
@given(message=messages(UpdateMetadataRequest, fast.UPDATE_METADATA_VERSION))
def test_update_metadata_is_written_as_the_table_writes_it(message: UpdateMetadataRequest) -> None:
    as_we_say_it(message)
    topics = fast.encode_update_metadata_topics(
        [
            (
                (topic.topic_name, p.partition_index),
                topic.topic_id,
                p.controller_epoch,
                p.leader,
                p.leader_epoch,
                p.isr,
                p.zk_version,
                p.replicas,
                p.offline_replicas,
            )
            for topic in message.topic_states
            for p in topic.partition_states
        ]
    )
    by_hand = fast.encode_update_metadata(
        controller_id=message.controller_id,
        controller_epoch=message.controller_epoch,
        broker_epoch=message.broker_epoch,
        topics=topics,
        live_brokers=[
            (
                broker.id,
                [(e.port, e.host, e.listener, e.security_protocol) for e in broker.endpoints],
                broker.rack,
            )
            for broker in message.live_brokers
        ],
    )
    assert by_hand == message.encode(fast.UPDATE_METADATA_VERSION)


@few
@given(message=messages(StopReplicaRequest, fast.STOP_REPLICA_VERSION))
def test_stop_replica_is_written_as_the_table_writes_it(message: StopReplicaRequest) -> None:
    as_we_say_it(message)
    by_hand = fast.encode_stop_replica(
        controller_id=message.controller_id,
        controller_epoch=message.controller_epoch,
        broker_epoch=message.broker_epoch,
        partitions=[
            ((topic.topic_name, p.partition_index), p.leader_epoch, p.delete_partition)
            for topic in message.topic_states
            for p in topic.partition_states
        ],
    )
    assert by_hand == message.encode(fast.STOP_REPLICA_VERSION)


def test_partitions_of_a_topic_that_come_apart_are_told_together() -> None:
    def state(topic: str, index: int) -> fast.LeaderAndIsrState:
        # Names that are equal and not the same object: they come from different nodes of the store.
        name = "".join(list(topic))
        return (name, index), bytes(16), 1, 1, 2, (1,), 3, (1, 2), (), (), False, 0, ()

    body = fast.encode_leader_and_isr(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=1,
        topics=fast.encode_leader_and_isr_topics([state("orders", 0), state("users", 0), state("orders", 1)]),
        live_leaders=[],
    )
    told = LeaderAndIsrRequest.decode(fast.LEADER_AND_ISR_VERSION, body)
    assert [(t.topic_name, [p.partition_index for p in t.partition_states]) for t in told.topic_states] == [
        ("orders", [0, 1]),
        ("users", [0]),
    ]


def test_lists_longer_than_a_byte_can_count() -> None:
    many = tuple(range(200))
    partition = (("t", 0), bytes(16), 1, 1, 2, many, 3, many, many[:130], (), True, 1, many)
    body = fast.encode_leader_and_isr(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=1,
        topics=fast.encode_leader_and_isr_topics([partition]),
        live_leaders=[],
    )
    (topic,) = LeaderAndIsrRequest.decode(fast.LEADER_AND_ISR_VERSION, body).topic_states
    (state,) = topic.partition_states
    assert (state.isr, state.replicas, state.adding_replicas) == (list(many), list(many), list(many[:130]))
    assert state.eligible_leader_replicas == list(many)
