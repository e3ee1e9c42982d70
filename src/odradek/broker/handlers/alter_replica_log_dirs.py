"""AlterReplicaLogDirs (key 34), versions 1-2.

Moves replicas of this broker into other directories of its `log.dirs` (KIP-113): answered as soon as all are on
their way, a few in a turn, for each has a directory and files made for it; DescribeLogDirs tells how far they are.
A replica that is not here yet is REPLICA_NOT_AVAILABLE, and made in the directory named should it come: so a tool
asks first, and reassigns then.

v1 the response leaves before the client is throttled (KIP-219).
v2 flexible.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.broker.slices import answer_in_slices
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


# Replicas that are begun with in one turn, a millisecond or two.
AT_ONCE = 5


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = AlterReplicaLogDirsRequest.decode(version, request.body, budget=request.budget)
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}

    def steps() -> Iterator[None]:
        begun = 0
        for directory in asked.dirs:
            for wanted in directory.topics:
                topic = topics.setdefault(wanted.name, AlterReplicaLogDirTopicResult(topic_name=wanted.name))
                for index in wanted.partitions:
                    if begun == AT_ONCE:
                        yield
                        begun = 0
                    begun += 1
                    error = _ask(broker, TopicPartition(wanted.name, index), directory.path, now_ms)
                    topic.partitions.append(
                        AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                    )

    def reply() -> Reply:
        return Reply([AlterReplicaLogDirsResponse(results=list(topics.values())).encode(version)])

    return answer_in_slices(broker.slices, steps(), reply)


def _ask(broker: "Broker", topic_partition: TopicPartition, path: str, now_ms: int) -> ErrorCode:
    replicas = broker.replicas
    try:
        if topic_partition in replicas.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if replicas.moves.ask(topic_partition, path, now_ms):
            return ErrorCode.NONE
        why = replicas.why_not_hosted(*topic_partition).code
    except ProtocolError as refusal:
        return refusal.code
    return ErrorCode.REPLICA_NOT_AVAILABLE if why is ErrorCode.NOT_LEADER_OR_FOLLOWER else why
