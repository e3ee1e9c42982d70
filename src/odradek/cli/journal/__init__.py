"""`odradek journal`: what the controllers of a cluster were told, decided and changed, step by step."""

import click

from odradek.cli.group import LazyGroup

VERBS = {
    "show": ("odradek.cli.journal.show", "show", "What changed when and why; a partition's time line."),
    "replay": (
        "odradek.cli.journal.replay",
        "replay",
        "Play it again, to a time, without an event, with a setting.",
    ),
    "record": ("odradek.cli.journal.record", "record", "Keep one of any Kafka cluster, by looking at it."),
    "diff": ("odradek.cli.journal.diff", "diff", "Where two journals part, or one and its replay."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def journal() -> None:
    """Show, replay, compare the controller's journal; record one of any cluster."""
