"""Brokers of tests, forked from a process that has imported what they need (`tests/fork_servers.py`)."""

import os
import subprocess
from typing import Any

from odradek.testing.forked_process import ForkedProcess
from odradek.testing.process_cluster import BrokerProcess
from tests.fork_servers import Forked, ForkServer, is_as_we_began, serve_until_closed

server = ForkServer(__spec__.name)
new_python = BrokerProcess._spawned


def launch(broker: BrokerProcess, output: int, pipe: int) -> "subprocess.Popen[bytes] | Forked":
    """In place of `BrokerProcess._spawned`."""
    if not is_as_we_began(os.environ):
        return new_python(broker, output, pipe)
    asked = [f"broker-{broker.broker_id}", str(broker.config_file), str(broker.log_file), dict(os.environ)]
    return Forked(server, asked, [output, pipe])


def forked(asked: list[Any], files: list[int]) -> ForkedProcess:
    from odradek.server.__main__ import main

    name, config_file, log_file, environment = asked
    output, pipe = files

    def run() -> int:
        os.environ.clear()
        os.environ.update(environment)
        return main(["--config", config_file, "--stop-when-closed", str(pipe), "--log-file", log_file])

    return ForkedProcess(run, name=name, output=output, keep_open=(pipe,))


if __name__ == "__main__":
    from odradek.server.preload import preload

    serve_until_closed(preload, forked)
