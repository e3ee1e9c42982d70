"""The options that every job has: what it reads, how its batches go, what becomes of values that do not fit."""

from collections.abc import Callable
from typing import Any

import click

topic_option = click.option(
    "--topic", required=True, metavar="NAME,...", help="One topic, or several separated by commas."
)
schema_option = click.option(
    "--schema",
    default="",
    metavar="COLUMNS",
    help='As "id BIGINT, name STRING"; else inferred from the topic.',
)
explain_option = click.option(
    "--explain", "is_explained", is_flag=True, help="Print what the job would do, and start nothing."
)
_OF_ERRORS = (
    click.option(
        "--on-error",
        default="dlq",
        show_default=True,
        help="A value that does not fit: dlq makes it a dead letter, skip drops it, pause stops the job; or by kind, as "
        "value=dlq,schema=pause.",
    ),
    click.option(
        "--max-dead-letters",
        default="",
        metavar="N|N%",
        help="If a batch has more, the job stops and writes nothing of it.",
    ),
    click.option(
        "--dead-letters-topic",
        default="",
        metavar="NAME",
        help="Dead letters go to this topic, too, each once.",
    ),
)
_OF_BATCHES = (
    click.option("--trigger", default="10s", show_default=True, help="How often a batch begins."),
    click.option("--once", "is_once", is_flag=True, help="Stop at the present end of the topics."),
    click.option(
        "--starting-offsets", default="earliest", show_default=True, help="earliest, latest, or JSON."
    ),
    click.option(
        "--max-offsets-per-trigger", type=click.IntRange(min=1), help="At most so many records per batch."
    ),
    click.option(
        "--allow-data-loss",
        is_flag=True,
        help="Continue where records are missing; the line of the batch counts them, and so does verify.",
    ),
    click.option("--app-id", default="", help="Name of this writer; else derived from its topics."),
    click.option(
        "--commit-group",
        default="",
        metavar="GROUP",
        help="Consumer group that the end of each batch is committed to.",
    ),
)


def error_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OF_ERRORS):
        command = option(command)
    return command


def batch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All but `allow_data_loss` have the name of a job's field."""
    for option in reversed(_OF_BATCHES):
        command = option(command)
    return command
