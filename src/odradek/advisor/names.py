"""What is asked about and is not there, in a sentence with what there is."""

from odradek.controller.context import ControllerContext
from odradek.model.counted import numbered
from odradek.model.ids import TopicPartition
from odradek.model.settings import nearest

MOST_NAMES = 10


def missing_topic(context: ControllerContext, topic: str) -> str:
    guess = nearest(topic, context.topics)
    if guess is not None:
        return f"there is no topic {topic}; did you mean {guess}?"
    more = ", ..." if len(context.topics) > MOST_NAMES else ""
    shown = ", ".join(sorted(context.topics)[:MOST_NAMES]) or "none"
    return f"there is no topic {topic}; topics there are: {shown}{more}"


def missing_partition(context: ControllerContext, topic_partition: TopicPartition) -> str:
    topic = topic_partition.topic
    if topic not in context.topics:
        return missing_topic(context, topic)
    count = len(context.partitions_of(topic))
    return f"{topic} has {numbered(count, 'partition')}; there is no {topic_partition.partition}"
