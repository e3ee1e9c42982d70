"""DescribeTopicPartitions (key 75), version 0.

Partitions of topics in the order of their names, page by page: at most `max.request.partition.size.limit` in one answer,
or fewer if the client wishes so. The cursor of an answer names the partition that comes next; whoever sends it back goes
on there, among the topics that it names again. Topics that came or went in between come or go.

Which replicas are eligible outside the ISR is known to controllers and leaders alone, so those lists are empty. They are not
null, as the protocol allows: Java's AdminClient (3.9.1, 4.1.2) ends with a NullPointerException then.

v0 the first (KIP-966).
"""

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.broker.handlers.metadata import FIRST_WITH_LISTENER_NOT_FOUND, TOPIC_OPERATIONS, partition_row
from odradek.broker.slices import answer_in_slices
from odradek.broker.topic_creation import INTERNAL_TOPICS
from odradek.model.error_codes import ErrorCode
from odradek.model.topic_names import problem_with
from odradek.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

# Topics that are looked at in one turn: some two milliseconds, where there are none of these names.
NAMES_AT_ONCE = 1_000


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = DescribeTopicPartitionsRequest.decode(version, request.body, budget=request.budget)
    cursor = asked.cursor
    after = "" if cursor is None else cursor.topic_name
    names = {topic.name for topic in asked.topics}
    if cursor is not None and (cursor.partition_index < 0 or (names and after not in names)):
        return Reply([_refused(asked).encode(version)])
    limit = max(1, min(broker.settings.max_request_partition_size_limit, asked.response_partition_limit))
    if names:
        wanted: Sequence[str] = sorted(name for name in names if name >= after)
    else:
        # Each has a partition at least, and one more says where the next page begins.
        wanted = nsmallest(limit + 1, (name for name in broker.metadata.topics if name >= after))
    begin = {after: cursor.partition_index} if cursor is not None else {}
    listener = request.connection.listener
    page = DescribeTopicPartitionsResponse(next_cursor=None)
    steps = _fill(page, broker, listener, wanted, begin, limit, asks_all=not names)
    return answer_in_slices(broker.slices, steps, lambda: Reply([page.encode(version)]))


def _fill(
    response: DescribeTopicPartitionsResponse,
    broker: "Broker",
    listener: str,
    names: Sequence[str],
    begin: dict[str, int],
    limit: int,
    *,
    asks_all: bool,
) -> Iterator[None]:
    """`begin`: the first partition wanted of a topic, if it is not 0. `limit`: partitions of the page. A step each NAMES_AT_ONCE."""
    left = limit
    for place, name in enumerate(names):
        if place and not place % NAMES_AT_ONCE:
            yield
        if not left:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        partitions = broker.metadata.topics.get(name)
        if partitions is None:
            if not asks_all:
                response.topics.append(_unknown(broker, name))
            continue
        indexes = sorted(index for index in partitions if index >= begin.get(name, 0))
        rows = []
        for index in indexes[:left]:
            error, _, leader, epoch, replicas, isr, offline = partition_row(
                broker, FIRST_WITH_LISTENER_NOT_FOUND, listener, index, partitions[index]
            )
            rows.append(
                DescribeTopicPartitionsResponsePartition(
                    error_code=error,
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=epoch,
                    replica_nodes=list(replicas),
                    isr_nodes=list(isr),
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                    offline_replicas=list(offline),
                )
            )
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=broker.metadata.topic_id(name),
                is_internal=name in INTERNAL_TOPICS,
                partitions=rows,
                topic_authorized_operations=TOPIC_OPERATIONS,
            )
        )
        if len(indexes) > left:
            response.next_cursor = Cursor(topic_name=name, partition_index=indexes[left])
            break
        left -= len(rows)
    else:
        if asks_all and len(names) > limit:
            # One was deleted meanwhile, or has no partitions from the cursor on: the page has room, and there may be more topics.
            following = min((name for name in broker.metadata.topics if name > names[-1]), default=None)
            if following is not None:
                response.next_cursor = Cursor(topic_name=following, partition_index=0)


def _unknown(broker: "Broker", name: str) -> DescribeTopicPartitionsResponseTopic:
    # As in Metadata: a broker that was told of nobody yet cannot know which topics there are.
    error = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if broker.metadata.brokers else ErrorCode.LEADER_NOT_AVAILABLE
    )
    if problem_with(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=error, name=name, is_internal=name in INTERNAL_TOPICS
    )


def _refused(asked: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """A cursor at no partition, or in a topic that is not among those asked for. There is no field for the error of the
    whole, so every topic has it."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in asked.topics
        ],
        next_cursor=None,
    )
