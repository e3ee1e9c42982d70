"""What is done to real brokers. Each fault holds for as long as its `with` lasts; at its end the cause is gone."""

import contextlib
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from odradek.testing.process_cluster import BrokerProcess
from tests.nightly.proxied_cluster import ProxiedCluster
from tests.nightly.proxy import FROM_BROKER, TO_BROKER

Fault = Callable[[ProxiedCluster, list[int]], AbstractContextManager[None]]
# A file may not grow beyond this: every append to a segment fails, as on a full disk.
SMALLEST_FILE_BYTES = 4096
FLOOD_CONNECTIONS = 400
GONE_WITHIN_S = 60.0
# Descriptors a flooded broker has beyond those it holds: fewer than the flood asks for.
SPARE_DESCRIPTORS = 100


@contextmanager
def killed(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    for broker in _of(cluster, victims[:1]):
        broker.kill()
    yield


@contextmanager
def all_killed(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    for broker in _of(cluster, victims):
        broker.kill()
    yield


@contextmanager
def terminated(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    brokers = _of(cluster, victims[:1])
    for broker in brokers:
        broker.signal(signal.SIGTERM)
    yield
    for broker in (
        brokers
    ):  # it hands over its leadership first: who looks earlier finds it running, and not to be started
        broker.wait(GONE_WITHIN_S)


@contextmanager
def stopped(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    brokers = _of(cluster, victims[:1])
    for broker in brokers:
        broker.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for broker in brokers:
            broker.signal(signal.SIGCONT)


@contextmanager
def stopped_while_another_is_killed(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    with stopped(cluster, victims[:1]), killed(cluster, victims[1:2]):
        yield


@contextmanager
def silent(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    with _proxied(cluster, victims, cluster.proxies.hold):
        yield


@contextmanager
def deaf(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    with _proxied(cluster, victims, lambda port: cluster.proxies.hold(port, (TO_BROKER,))):
        yield


@contextmanager
def mute(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    with _proxied(cluster, victims, lambda port: cluster.proxies.hold(port, (FROM_BROKER,))):
        yield


@contextmanager
def slow(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    with _proxied(cluster, victims, lambda port: cluster.proxies.slow(port, 0.15)):
        yield


@contextmanager
def connections_cut(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    with _proxied(cluster, victims, cluster.proxies.cut):
        yield


@contextmanager
def full_disk(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    """Its disk takes nothing more; a broker that took its replicas out of service is started again afterwards."""
    brokers = _of(cluster, victims[:1])
    for broker in brokers:
        _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (SMALLEST_FILE_BYTES, hard))
    try:
        yield
    finally:
        for broker in brokers:
            if broker.is_running:
                broker.kill()  # what an operator does once there is room again: the process starts anew


@contextmanager
def descriptor_flood(cluster: ProxiedCluster, victims: list[int]) -> Iterator[None]:
    brokers = _of(cluster, victims[:1])
    with contextlib.ExitStack() as open_sockets:
        limits = {}
        for broker in brokers:
            limits[broker] = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
            here = _descriptors(broker) + SPARE_DESCRIPTORS
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (here, limits[broker][1]))
            for _ in range(FLOOD_CONNECTIONS):
                flooding = open_sockets.enter_context(socket.socket())
                flooding.setblocking(False)
                flooding.connect_ex((broker.host, broker.port))
        try:
            yield
        finally:
            for broker, limit in limits.items():
                if broker.is_running:
                    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, limit)


FAULTS: Mapping[str, Fault] = {
    "kill -9": killed,
    "kill -9 of all": all_killed,
    "SIGTERM": terminated,
    "SIGSTOP": stopped,
    "SIGSTOP and kill -9 of another": stopped_while_another_is_killed,
    "silence both ways": silent,
    "hears nothing": deaf,
    "is not heard": mute,
    "150 ms a packet": slow,
    "connections reset": connections_cut,
    "full disk": full_disk,
    "descriptor flood": descriptor_flood,
}


def _of(cluster: ProxiedCluster, victims: list[int]) -> list[BrokerProcess]:
    """Those of them that run: a fault on what is already gone does nothing."""
    return [cluster.brokers[victim] for victim in victims if cluster.brokers[victim].is_running]


@contextmanager
def _proxied(cluster: ProxiedCluster, victims: list[int], spoil: Callable[[int], None]) -> Iterator[None]:
    port = cluster.proxy_port(victims[0])
    spoil(port)
    try:
        yield
    finally:
        cluster.proxies.heal(port)


def _descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))
