"""A whole broker: the hub with its handlers. The server, the simulator and the tests make theirs here."""

from odradek.broker.control_queue import AT_ONCE
from odradek.broker.core import Broker
from odradek.broker.handlers.table import HandlerTable
from odradek.broker.topic_configs import TopicConfigs
from odradek.log.log_manager import LogManager
from odradek.model.settings import BrokerSettings


def assemble_broker(
    *,
    settings: BrokerSettings,
    cluster_id: str,
    logs: LogManager,
    topic_configs: TopicConfigs,
    inter_broker_listener: str,
    seed: bytes,
    now_ms: int,
    partitions_at_once: int = AT_ONCE,
) -> Broker:
    """`seed`: of all that the broker draws. `partitions_at_once`: of a request of the controller, in one turn."""
    return Broker(
        settings=settings,
        cluster_id=cluster_id,
        logs=logs,
        topic_configs=topic_configs,
        handlers=HandlerTable(),
        inter_broker_listener=inter_broker_listener,
        seed=seed,
        now_ms=now_ms,
        partitions_at_once=partitions_at_once,
    )
