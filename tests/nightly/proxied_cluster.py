"""A cluster of processes whose every connection passes a proxy: clients', followers' and the controller's alike."""

from pathlib import Path
from typing import Self

from odradek.testing.process_cluster import BrokerProcess, ProcessCluster, free_ports
from tests.nightly.proxy import Proxies

# Short enough that a fault of seconds is one, long enough for a busy machine.
SETTINGS = {
    "zookeeper.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "4000",
    "controller.socket.timeout.ms": "4000",
    "log.segment.bytes": "200000",
    "replica.high.watermark.checkpoint.interval.ms": "2000",
}


class ProxiedCluster(ProcessCluster):
    """Brokers advertise their proxy, so that nobody knows another way."""

    def __init__(self, directory: str | Path, *, brokers: int = 3) -> None:
        super().__init__(directory, brokers=brokers, settings=SETTINGS)
        self._proxy_ports = dict(zip(self.brokers, free_ports(brokers), strict=True))
        self.proxies = Proxies(
            {self._proxy_ports[broker.broker_id]: broker.port for broker in self.brokers.values()}
        )

    def proxy_port(self, broker_id: int) -> int:
        return self._proxy_ports[broker_id]

    def properties_of(self, broker: BrokerProcess) -> dict[str, str]:
        advertised = f"PLAINTEXT://{broker.host}:{self.proxy_port(broker.broker_id)}"
        return {**super().properties_of(broker), "advertised.listeners": advertised}

    def __enter__(self) -> Self:
        self.proxies.__enter__()
        try:
            return super().__enter__()
        except BaseException:
            self.proxies.__exit__()
            raise

    def __exit__(self, *exc: object) -> None:
        try:
            super().__exit__(*exc)
        finally:
            self.proxies.__exit__()
