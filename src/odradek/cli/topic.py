"""`odradek topic`: create, alter, delete, list, describe, produce, consume. Works against any Kafka-compatible cluster."""

import click

from odradek.cli.main import LazyGroup

VERBS = {
    "create": ("odradek.cli.topic_create", "create", "Make a topic."),
    "alter": ("odradek.cli.topic_alter", "alter", "More partitions, other settings."),
    "delete": ("odradek.cli.topic_delete", "delete", "With all its records, once confirmed."),
    "list": ("odradek.cli.topic_list", "list_topics", "Names, partitions, replicas."),
    "describe": ("odradek.cli.topic_describe", "describe", "Leaders, ISR and settings of topics."),
    "produce": ("odradek.cli.topic_produce", "produce", "Records from standard input, a line each."),
    "consume": ("odradek.cli.topic_consume", "consume", "Records to standard output."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def topic() -> None:
    """Create, alter, delete, list topics; produce and consume."""
