"""A cluster of both kinds of brokers on one ZooKeeper: ours and Apache's, either of them controller."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from odradek.client.sync import ANY, CONTROLLER, SyncClient, TopicView
from odradek.model.cluster import LeaderAndIsr
from odradek.model.errors import OdradekError
from odradek.model.ids import BrokerId, TopicPartition
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.schema import Request
from odradek.store import layout
from odradek.store.api import Node, Stat
from odradek.testing.process_cluster import BrokerProcess, ProcessCluster
from tests.conformance.zookeeper_server import ZooKeeperServer
from tests.interop.apache import ApacheBroker

OURS = "ours"
APACHES = "apache's"
SESSION_TIMEOUT_MS = 6000
# For four JVMs on two cores that others use too.
PATIENCE_S = 150.0
STOPPED_IN_ORDER = (0, 143)  # ours; a JVM that ended by SIGTERM

Assignment = Mapping[int, Sequence[int]]


class MixedCluster(ProcessCluster):
    """`ours` and `apaches` are broker ids. The brokers of kind `first` start first, so one of them is controller."""

    def __init__(
        self,
        directory: Path,
        *,
        ours: Sequence[int] = (1, 2),
        apaches: Sequence[int] = (3, 4),
        first: str = OURS,
        settings: Mapping[str, str] | None = None,
        advertised: Mapping[int, str] | None = None,
        starts_alone: int | None = None,
        disks: int = 1,
    ) -> None:
        """`advertised`: brokers that others shall reach at another address than their own, such as a proxy's.

        `starts_alone`: this one starts before all others, so it is controller. `disks`: log directories of each.
        """
        super().__init__(directory, brokers=len(ours) + len(apaches), settings=settings)
        made = list(self.brokers.values())
        self.brokers = {}
        for broker_id, broker in zip((*ours, *apaches), made, strict=True):
            kind = BrokerProcess if broker_id in ours else ApacheBroker
            self.brokers[broker_id] = kind(
                broker_id, self.directory / f"broker-{broker_id}", broker.host, broker.port
            )
        self._firsts = (
            [starts_alone]
            if starts_alone is not None
            else [b for b in self.brokers if self.kind_of(b) == first]
        )
        self._disks = disks
        self._paused: set[int] = set()
        self._advertised = dict(advertised or {})
        self.zookeeper = ZooKeeperServer(self.directory)
        self.tree: KazooClient = None  # a view of ZooKeeper for the test itself

    def kind_of(self, broker_id: int) -> str:
        return APACHES if isinstance(self.brokers[broker_id], ApacheBroker) else OURS

    def of_kind(self, kind: str) -> list[int]:
        return [broker_id for broker_id in self.brokers if self.kind_of(broker_id) == kind]

    def properties_of(self, broker: BrokerProcess) -> dict[str, str]:
        properties = {
            "broker.id": str(broker.broker_id),
            "listeners": f"PLAINTEXT://{broker.address}",
            "log.dirs": ",".join(map(str, self.disks_of(broker.broker_id))),
            "zookeeper.connect": self.zookeeper.address,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": "false",
            "controlled.shutdown.retry.backoff.ms": "500",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "4",
            "log.cleaner.dedupe.buffer.size": str(4 << 20),  # 128 MiB do not fit into a small heap
            **self.settings,
        }
        if broker.broker_id in self._advertised:
            properties["advertised.listeners"] = f"PLAINTEXT://{self._advertised[broker.broker_id]}"
        return properties

    def change_kind(self, broker_id: int) -> None:
        """Stops a broker in order and starts one of the other kind on its files, under its name."""
        before = self.brokers[broker_id]
        assert self.terminate(broker_id) in STOPPED_IN_ORDER
        kind = BrokerProcess if isinstance(before, ApacheBroker) else ApacheBroker
        self.brokers[broker_id] = kind(broker_id, before.directory, before.host, before.port)
        self.write_configurations()
        self.restart(broker_id)

    def data_of(self, broker_id: int) -> Path:
        return self.brokers[broker_id].directory / "data"

    def disks_of(self, broker_id: int) -> list[Path]:
        return [
            self.data_of(broker_id).with_name("data" if number == 0 else f"data-{number}")
            for number in range(self._disks)
        ]

    def disk_of(self, broker_id: int, topic: str, partition: int) -> Path:
        """The log directory that holds this replica."""
        disks = self.disks_of(broker_id)
        return next((disk for disk in disks if (disk / f"{topic}-{partition}").exists()), disks[0])

    # --- life

    def start(self, deadline_s: float = PATIENCE_S) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.zookeeper.start()
        self.tree = KazooClient(self.zookeeper.address, timeout=20)
        self.tree.start(30)
        self.write_configurations()
        for broker_id in self._firsts:
            self.brokers[broker_id].start()
        if self._firsts:
            self.wait_ready(deadline_s)
        for broker_id, broker in self.brokers.items():
            if broker_id not in self._firsts:
                broker.start()
        self.wait_ready(deadline_s)
        return self

    def stop(self, deadline_s: float = 10.0) -> None:
        super().stop(deadline_s)
        if self.tree is not None:
            self.tree.stop()
            self.tree.close()
        self.zookeeper.kill()

    def restart(self, broker_id: int, *, wait: bool = True, deadline_s: float = PATIENCE_S) -> None:
        super().restart(broker_id, wait=wait, deadline_s=deadline_s)

    def terminate(self, broker_id: int, deadline_s: float = PATIENCE_S) -> int:
        return super().terminate(broker_id, deadline_s)

    def wait_until(
        self,
        holds: Callable[[], bool],
        what: str,
        deadline_s: float = PATIENCE_S,
        pause_s: float = 0.05,
    ) -> None:
        super().wait_until(holds, what, deadline_s, pause_s)

    def kill(self, broker_id: int, *, end_session: bool = True) -> None:
        """`kill -9`. With `end_session` the others hear of it now, and not when its session times out."""
        super().kill(broker_id)
        if end_session:
            self.end_session_of(broker_id)

    def end_session_of(self, broker_id: int) -> None:
        """A second connection with the session's id and password, closed in order."""
        stat = self.tree.exists(layout.broker_path(BrokerId(broker_id)))
        if stat is None:
            return
        session = stat.ephemeralOwner
        second = KazooClient(self.zookeeper.address, client_id=(session, _password(session)))
        second.start(10)
        second.stop()
        second.close()
        self.wait_until(
            lambda: self.tree.exists(layout.broker_path(BrokerId(broker_id))) is None,
            f"broker {broker_id} is gone from ZooKeeper",
        )

    # --- the controller

    @property
    def controller(self) -> int | None:
        with suppress(NoNodeError):
            return layout.decode_controller(self.tree.get(layout.CONTROLLER)[0])
        return None

    def make_controller(self, kind: str, *, kill: bool = False) -> int:
        """Takes `/controller` away while the brokers of the other kind stand still; they wake as zombies.

        With `kill` its holder is killed instead.
        """
        before = self.controller
        if before is not None and self.kind_of(before) == kind:
            return before
        with self.paused([b for b in self.brokers if self.kind_of(b) != kind]):
            if kill and before is not None:
                self.kill(before)
            else:
                with suppress(NoNodeError):
                    self.tree.delete(layout.CONTROLLER)
            self.wait_until(
                lambda: self.controller not in (None, before), f"a broker of kind {kind} is controller"
            )
        after = self.controller
        assert after is not None
        assert self.kind_of(after) == kind
        return after

    @contextmanager
    def paused(self, broker_ids: Sequence[int]) -> Iterator[None]:
        running = [self.brokers[b] for b in broker_ids if self.brokers[b].is_running]
        stopped = {broker.broker_id for broker in running}
        for broker in running:
            broker.signal(signal.SIGSTOP)
        self._paused |= stopped
        try:
            yield
        finally:
            self._paused -= stopped
            for broker in running:
                if broker.is_running:
                    broker.signal(signal.SIGCONT)

    # --- topics

    @property
    def running(self) -> str:
        """Whom to ask. Waiting for one that is paused, and again, would take as long as its session with ZooKeeper lasts."""
        running = [broker for broker in self.brokers.values() if broker.is_running]
        return ",".join(broker.address for broker in running if broker.broker_id not in self._paused)

    def ask_controller(self, request: Request, deadline_s: float = PATIENCE_S) -> Any:
        """The answer of whoever is controller; a controller that is on its way out or in is asked again."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                with SyncClient(self.running) as client:
                    return client.call(CONTROLLER, request)
            except OdradekError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def create_topic(self, name: str, assignment: Assignment, **configs: str) -> None:
        """Settings with `_` for `.`; returns when every ISR is full on every broker's word."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                for index, replicas in assignment.items()
            ],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        answer = self.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
        assert answer.topics[0].error_code == 0, answer
        self.wait_full(name)

    def delete_topic(self, name: str) -> None:
        """Asks, and waits until nothing of it is left in the tree."""
        self.ask_deletion(name)
        self.wait_deleted(name)

    def ask_deletion(self, name: str) -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=20_000
        )
        answer = self.ask_controller(request)
        assert answer.responses[0].error_code == 0, answer

    def wait_deleted(self, name: str) -> None:
        self.wait_until(
            lambda: (
                self.tree.exists(layout.topic_path(name)) is None
                and self.tree.exists(layout.delete_topic_path(name)) is None
            ),
            f"topic {name} is deleted",
        )

    def reassign(self, topic: str, targets: Assignment, deadline_s: float = PATIENCE_S) -> None:
        """By request; returns when the moves are over."""
        self.ask_reassignment(topic, targets)
        self.wait_reassigned(topic, targets, deadline_s)

    def ask_reassignment(self, topic: str, targets: Assignment) -> None:
        partitions = [
            ReassignablePartition(partition_index=index, replicas=list(replicas))
            for index, replicas in targets.items()
        ]
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=20_000, topics=[ReassignableTopic(name=topic, partitions=partitions)]
        )
        answer = self.ask_controller(request)
        assert answer.error_code == 0, answer
        assert all(p.error_code == 0 for t in answer.responses for p in t.partitions), answer

    def reassign_by_node(self, topic: str, targets: Assignment, deadline_s: float = PATIENCE_S) -> None:
        """By `/admin/reassign_partitions`, as tools before 2.4 did."""
        wished = {
            TopicPartition(topic, index): tuple(map(BrokerId, replicas))
            for index, replicas in targets.items()
        }
        self.tree.create(layout.REASSIGN_PARTITIONS, layout.encode_reassignment(wished))
        self.wait_until(
            lambda: self.tree.exists(layout.REASSIGN_PARTITIONS) is None,
            "the reassignment node is gone",
            deadline_s,
        )
        self.wait_reassigned(topic, targets, deadline_s)

    def wait_reassigned(self, topic: str, targets: Assignment, deadline_s: float = PATIENCE_S) -> None:
        def is_over() -> bool:
            data, stat = self.tree.get(layout.topic_path(topic))
            found = layout.decode_topic(topic, Node(data, Stat(stat.version, 0, 0, 0, 0)))
            return all(
                not found.partitions[index].is_being_reassigned
                and found.partitions[index].replicas == tuple(replicas)
                for index, replicas in targets.items()
            )

        self.wait_until(is_over, f"{topic} is reassigned to {dict(targets)}", deadline_s, pause_s=0.1)

    def elect_preferred(self, topic: str, partitions: Sequence[int]) -> None:
        request = ElectLeadersRequest(
            election_type=0,
            topic_partitions=[TopicPartitions(topic=topic, partitions=list(partitions))],
            timeout_ms=20_000,
        )
        answer = self.ask_controller(request)
        assert answer.error_code == 0, answer

    def configure_topic(self, topic: str, config: Mapping[str, str]) -> None:
        """Replaces its settings, as Apache's brokers write them."""
        self.tree.set(layout.config_path("topics", topic), layout.encode_config(config))
        self.tree.create(layout.CONFIG_CHANGE, layout.encode_config_change(f"topics/{topic}"), sequence=True)

    def view(self, topic: str, broker_id: int | None = None) -> TopicView | None:
        """As one broker sees it: `broker_id`, or any that runs."""
        bootstrap = self.running if broker_id is None else self.brokers[broker_id].address
        try:
            with SyncClient(bootstrap, bootstrap_timeout_s=5, request_timeout_s=5) as client:
                return client.cluster([topic]).topics.get(topic)
        except OdradekError:
            return None

    def leadership(self, topic: str, partition: int = 0) -> LeaderAndIsr:
        """As it stands in the tree."""
        path = layout.state_path(TopicPartition(topic, partition))
        return layout.decode_partition_state(path, self.tree.get(path)[0], 0).leader_and_isr

    def leader(self, topic: str, partition: int = 0) -> int:
        return self.leadership(topic, partition).leader

    def isr(self, topic: str, partition: int = 0) -> set[int]:
        return set(self.leadership(topic, partition).isr)

    def is_full(self, topic: str) -> bool:
        """Every replica is in the ISR and every partition led, as every running broker says."""
        for broker_id, broker in self.brokers.items():
            if broker.is_running:
                view = self.view(topic, broker_id)
                if view is None or not view.partitions:
                    return False
                if not all(p.leader >= 0 and set(p.isr) == set(p.replicas) for p in view.partitions.values()):
                    return False
        return True

    def wait_full(self, topic: str, deadline_s: float = PATIENCE_S) -> None:
        self.wait_until(lambda: self.is_full(topic), f"every ISR of {topic} is full", deadline_s, pause_s=0.1)

    def ask(self, broker_id: int, request: Request) -> Any:
        with SyncClient(self.brokers[broker_id].address) as client:
            client.cluster([])
            return client.call(broker_id if broker_id >= 0 else ANY, request)


def _password(session: int) -> bytes:
    """ZooKeeper draws a session's password from java.util.Random, seeded by its id and a constant."""
    multiplier, mask = 0x5DEECE66D, (1 << 48) - 1
    seed = ((session ^ 0xB3415C00) ^ multiplier) & mask
    password = b""
    while len(password) < 16:
        seed = (seed * multiplier + 0xB) & mask
        password += (seed >> 16 & 0xFFFFFFFF).to_bytes(4, "little")
    return password
