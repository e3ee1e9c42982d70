"""`odradek txn`: which transactions there are, what they wait for, and to end those that nobody ends. Works against any
Kafka-compatible cluster."""

import click

from odradek.cli.group import LazyGroup

VERBS = {
    "list": ("odradek.cli.transactions.list", "list_transactions", "Ids, states, producers, coordinators."),
    "describe": (
        "odradek.cli.transactions.describe",
        "describe",
        "One id: since when, and which partitions.",
    ),
    "find-hanging": (
        "odradek.cli.transactions.find_hanging",
        "find_hanging",
        "Open in a log, and no coordinator will end them.",
    ),
    "abort": ("odradek.cli.transactions.abort", "abort", "End a hanging one in one partition; shown first."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def txn() -> None:
    """Transactions: list, describe, find and end those that hang."""
