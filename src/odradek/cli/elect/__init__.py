"""`odradek elect`: leaders by hand (KIP-460). Preferred ones lose nothing; unclean ones may, so they are priced first."""

import click

from odradek.cli.group import LazyGroup

VERBS = {
    "preferred": ("odradek.cli.elect.preferred", "preferred", "Make preferred replicas the leaders again."),
    "unclean": ("odradek.cli.elect.unclean", "unclean", "A leader from outside the ISR, with what it loses."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def elect() -> None:
    """Elect leaders by hand, preferred or unclean."""
