"""`odradek start --config FILE`: one broker in this process. SIGTERM is a controlled shutdown."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.output import json_option, print_json

if TYPE_CHECKING:
    from odradek.server.broker_runtime import BrokerRuntime


@click.command()
@click.option(
    "--config",
    "-c",
    required=True,
    type=click.Path(path_type=Path),
    help="A properties file with Apache's property names, or ours.",
)
@json_option
def start(config: Path, as_json: bool) -> None:
    """One broker, from a properties file."""
    from odradek.server.main import read_configuration, run_broker

    settings = read_configuration(str(config))

    def ready(runtime: "BrokerRuntime") -> None:
        if as_json:
            print_json(
                {
                    "id": settings.broker_id,
                    "pid": os.getpid(),
                    "dir": settings.log_directories[0],
                    "ready": True,
                }
            )

    sys.exit(run_broker(settings, on_ready=ready))
