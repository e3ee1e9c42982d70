"""`odradek roll`: restarting brokers without an outage."""

import click

from odradek.cli.group import LazyGroup

VERBS = {"plan": ("odradek.cli.roll_plan", "plan", "Order and batches, with a certificate.")}


@click.group(cls=LazyGroup, verbs=VERBS)
def roll() -> None:
    """Restart brokers without an outage: order, batches, certificate."""
