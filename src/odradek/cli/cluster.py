"""`odradek cluster`: what an operator looks at first."""

import click

from odradek.cli.group import LazyGroup

VERBS = {"health": ("odradek.cli.cluster_health", "health", "Is everything replicated, and who leads?")}


@click.group(cls=LazyGroup, verbs=VERBS)
def cluster() -> None:
    """Is everything replicated, and who leads?"""
