"""Which StopReplica an answer answers.

A broker may be told more than once to delete a replica: it was wanted again in between, or said no the first time.
While it cannot be reached all of that waits in one queue, and its answers come back one by one. Only the latest
request says that the replica is to be gone for good: behind the answer to an earlier one there may still be a
LeaderAndIsr on its way that makes the replica anew. So each StopReplica has a number, counted within a term, its answer
brings it back, and an answer counts for those partitions alone whose latest request it answers.

The number is ours and not on the wire: one connection keeps the order of answers, and what was unanswered when it failed
is sent again with the number it had.
"""

from collections.abc import Mapping

from odradek.controller.context import ControllerContext
from odradek.controller.events import StopReplicaAnswered
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.values import replace


def commit_stop_sent(
    context: ControllerContext, broker: BrokerId, stops: Mapping[TopicPartition, bool]
) -> int:
    """The number of a StopReplica that leaves now. `stops`: partition -> delete."""
    context.stops_sent += 1
    number = context.stops_sent
    deleting = [topic_partition for topic_partition, delete in stops.items() if delete]
    if deleting:
        context.deletions_told.setdefault(broker, {}).update(dict.fromkeys(deleting, number))
    return number


def commit_stop_answered(context: ControllerContext, event: StopReplicaAnswered) -> StopReplicaAnswered:
    """The answer as far as it is the latest word: `deleted` without partitions told to be deleted once more since."""
    if event.number is None:
        return event  # of a journal older than the numbers
    told = context.deletions_told.get(event.broker, {})
    latest = frozenset(tp for tp in event.deleted if told.get(tp) == event.number)
    for topic_partition in latest:
        del told[topic_partition]
    return event if len(latest) == len(event.deleted) else replace(event, deleted=latest)
