"""The options that say where a job runs."""

from collections.abc import Callable
from typing import Any

import click

_OF_SESSIONS = (
    click.option(
        "--cores",
        default="2",
        show_default=True,
        help="Cores of this machine (of a cluster: in all), * for all.",
    ),
    click.option("--memory", default="1g", show_default=True, help="Of Spark's JVM."),
    click.option(
        "--master",
        default="",
        help="local[*], spark://HOST:PORT of a standalone cluster, sc://HOST:PORT of a Spark Connect server; "
        "else this machine's cores.",
    ),
    click.option(
        "--archive",
        default="",
        type=click.Path(),
        help="Of `odradek spark pack`: travels to the workers of a standalone cluster.",
    ),
)


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OF_SESSIONS):
        command = option(command)
    return command
