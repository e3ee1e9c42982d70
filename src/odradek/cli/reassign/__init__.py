"""`odradek reassign`: moving partitions to other brokers. Works against any Kafka-compatible cluster (KIP-455)."""

import click

from odradek.cli.group import LazyGroup

VERBS = {
    "plan": ("odradek.cli.reassign.plan", "plan", "The fewest moves that reach a goal."),
    "apply": ("odradek.cli.reassign.apply", "apply", "Start the moves of a file."),
    "status": ("odradek.cli.reassign.status", "status", "What runs, and at which of its steps."),
    "cancel": ("odradek.cli.reassign.cancel", "cancel", "Back to where it was."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def reassign() -> None:
    """Move partitions: plan, apply, status, cancel."""
