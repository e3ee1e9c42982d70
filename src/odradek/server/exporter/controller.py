"""What the controller knows of the cluster, where this broker is it."""

from collections.abc import Iterator

from odradek.server.exporter.families import EXPORTER, ROWS_AT_ONCE, Family, one, pieces, table
from odradek.server.exporter.seen import Seen


def _controller(name: str, text: str) -> Family:
    return Family(
        f"kafka_controller_kafkacontroller_{name.lower()}",
        "gauge",
        f"{text} Told by the controller alone.",
        source=f"kafka.controller:type=KafkaController,name={name}",
    )


FAMILIES = table(
    _controller("OfflinePartitionsCount", "Partitions without a leader."),
    _controller(
        "PreferredReplicaImbalanceCount",
        "Partitions that another than their first replica leads, but for topics that are being deleted.",
    ),
    _controller("GlobalTopicCount", "Topics of the cluster."),
    _controller("GlobalPartitionCount", "Partitions of the cluster."),
    Family(
        "kafka_brokers",
        "gauge",
        "Brokers that are registered. Told by the controller alone.",
        source=EXPORTER,
    ),
    Family(
        "kafka_topic_partitions",
        "gauge",
        "Partitions of a topic. Told by the controller alone.",
        ("topic",),
        EXPORTER,
    ),
)


def collect(seen: Seen) -> Iterator[str]:
    core = seen.controller.core
    context = None if core is None else core.context
    if context is None:
        return  # not the controller; or one that is reading the store, or in the midst of a large step
    imbalanced = 0
    for at, (topic_partition, assignment) in enumerate(list(context.assignments.items())):
        if not at % (10 * ROWS_AT_ONCE):
            yield ""
        leadership = context.leaderships.get(topic_partition)
        if topic_partition.topic in context.topics_to_delete:
            continue  # nobody elects a leader for it any more
        if leadership is not None and assignment.replicas:
            imbalanced += leadership.leader_and_isr.leader != assignment.replicas[0]
    prefix = "kafka_controller_kafkacontroller_"
    yield one(FAMILIES[f"{prefix}offlinepartitionscount"], len(context.leaderless))
    yield one(FAMILIES[f"{prefix}preferredreplicaimbalancecount"], imbalanced)
    yield one(FAMILIES[f"{prefix}globaltopiccount"], len(context.topics))
    yield one(FAMILIES[f"{prefix}globalpartitioncount"], len(context.assignments))
    yield one(FAMILIES["kafka_brokers"], len(context.brokers))
    # Of a copy, which is made at one go: a thread may be stepping the core by now.
    sizes = [(name, len(topic.partitions)) for name, topic in list(context.topics.items())]
    yield from pieces(FAMILIES["kafka_topic_partitions"], (((name,), size) for name, size in sizes))
