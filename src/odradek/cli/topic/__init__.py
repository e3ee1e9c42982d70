"""`odradek topic`: create, alter, delete, list, describe, produce, consume. Works against any Kafka-compatible cluster."""

import click

from odradek.cli.group import LazyGroup

VERBS = {
    "create": ("odradek.cli.topic.create", "create", "Create a topic."),
    "alter": ("odradek.cli.topic.alter", "alter", "More partitions, other settings."),
    "delete": ("odradek.cli.topic.delete", "delete", "With all its records, once confirmed."),
    "list": ("odradek.cli.topic.list", "list_topics", "Names, partitions, replicas."),
    "describe": ("odradek.cli.topic.describe", "describe", "Leaders, ISR and settings of topics."),
    "produce": ("odradek.cli.topic.produce", "produce", "Records from standard input, a line each."),
    "consume": ("odradek.cli.topic.consume", "consume", "Records to standard output."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def topic() -> None:
    """Create, alter, delete, list topics; produce and consume."""
