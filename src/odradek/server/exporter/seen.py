"""What metrics are read from."""

from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.core import Broker
from odradek.log.log_manager import LogManager
from odradek.server.controller_runtime import ControllerRuntime
from odradek.server.gateway import Gateway
from odradek.server.metrics import Metrics


class Seen(NamedTuple):
    """A broker that runs, and what is around it. `idle_share`: see `busy_time`."""

    broker: Broker
    logs: LogManager
    gateway: Gateway
    controller: ControllerRuntime
    metrics: Metrics
    idle_share: Callable[[], float]
    is_stopping: Callable[[], bool]
