"""`odradek group`: what a group is, how far it has read, and to set where it goes on. Works against any Kafka-compatible
cluster."""

import click

from odradek.cli.group import LazyGroup

VERBS = {
    "list": ("odradek.cli.groups.list", "list_groups", "Names, states, coordinators."),
    "describe": ("odradek.cli.groups.describe", "describe", "State, coordinator, members and lag of groups."),
    "members": (
        "odradek.cli.groups.members",
        "members",
        "The members of a group, and the partitions of each.",
    ),
    "lag": ("odradek.cli.groups.lag", "lag", "How far each partition is read, and by whom."),
    "seek": ("odradek.cli.groups.seek", "seek", "Set where a group goes on; shown first."),
    "delete": ("odradek.cli.groups.delete", "delete", "With its offsets, once confirmed."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def group() -> None:
    """Consumer groups: members, lag, offsets."""
