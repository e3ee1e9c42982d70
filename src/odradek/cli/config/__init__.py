"""`odradek config`: settings of a topic, of a broker, or of all brokers, changed one at a time (KIP-339)."""

import click

from odradek.cli.group import LazyGroup

VERBS = {
    "describe": (
        "odradek.cli.config.describe",
        "describe_",
        "What is set, and where it comes from.",
    ),
    "get": ("odradek.cli.config.describe", "get", "The value of one setting."),
    "set": ("odradek.cli.config.alter", "set_", "Change settings; all others stay."),
    "delete": ("odradek.cli.config.alter", "delete", "Back to what is below: broker, cluster, default."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def config() -> None:
    """Settings of topics, brokers and the whole cluster."""
