"""Whole brokers in one process, asked by unmodified clients to move, elect and delete."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaAdminClient
from kafka import TopicPartition as Partition
from kafka.errors import KafkaConnectionError

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.client.sync_connection import ConnectionLost, Unreachable
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.schema import Request
from odradek.records.builder import NewRecord, build_batch
from odradek.store import api, layout
from odradek.testing.running_cluster import LocalCluster, RunningCluster, running_cluster
from tests.support import eventually


class Moves:
    """What these tests ask of a cluster and look at."""

    def __init__(self, running: RunningCluster) -> None:
        self.running = running
        self.cluster: LocalCluster = running.cluster
        self._session: api.Store | None = None
        self.client = SyncClient(running.bootstrap)
        self.admin = KafkaAdminClient(bootstrap_servers=running.bootstrap)
        self.elections = AdminClient({"bootstrap.servers": running.bootstrap})

    def close(self) -> None:
        if self._session is not None:
            self.running.call(self._session.close())
        self.admin.close()
        self.client.close()
        del self.elections  # it has no other end

    def create(self, topic: str, *replicas: int) -> TopicPartition:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
        wish = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=[assignment])
        request = CreateTopicsRequest(topics=[wish], timeout_ms=20_000)
        (row,) = self._ask_controller(request, lambda answer: answer.topics[0].error_code).topics
        assert row.error_code == ErrorCode.NONE, row
        eventually(lambda: self._is_led(topic, replicas), what=f"{topic} is led by {replicas[0]}")
        return TopicPartition(topic, 0)

    def _is_led(self, topic: str, replicas: tuple[int, ...]) -> bool:
        partition = self.hosted(replicas[0], topic)
        return partition is not None and partition.is_leader and set(partition.isr) == set(replicas)

    def produce(self, topic: str, count: int) -> None:
        with SyncClient(self.running.bootstrap) as client:
            for number in range(count):
                batch = build_batch([NewRecord(None, str(number).encode())])
                client.produce(TopicPartition(topic, 0), batch)

    def move(self, topic: str, *replicas: int) -> Any:
        """The error class of the answer, None where there is none."""
        return self._reassign(topic, list(replicas))

    def cancel(self, topic: str) -> Any:
        return self._reassign(topic, None)

    def _reassign(self, topic: str, replicas: list[int] | None) -> Any:
        def ask() -> list[Any] | None:
            try:
                return list(
                    self.admin.alter_partition_reassignments({Partition(topic, 0): replicas}).values()
                )
            except KafkaConnectionError:  # kafka-python gives up where a broker it once knew is gone
                return None

        (answer,) = eventually(ask, what="the client reaches the controller")
        return answer

    def delete(self, topic: str) -> None:
        self.elections.delete_topics([topic])[topic].result(20)

    def configure(self, kind: ConfigResource.Type, name: str, values: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in values.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        self.elections.incremental_alter_configs([resource])[resource].result(20)

    def running_moves(self) -> dict[str, dict[str, list[int]]]:
        request = ListPartitionReassignmentsRequest(topics=None)
        listed = self._ask_controller(request, lambda answer: answer.error_code)
        assert listed.error_code == ErrorCode.NONE, listed
        return {
            topic.name: {
                "replicas": row.replicas,
                "adding_replicas": row.adding_replicas,
                "removing_replicas": row.removing_replicas,
            }
            for topic in listed.topics
            for row in topic.partitions
        }

    def _ask_controller(self, request: Request, error: Callable[[Any], int]) -> Any:
        """Its answer. Who was named as controller may not be it any more; a lost answer is lost only where asking twice
        does no harm."""

        def ask() -> Any:
            try:
                with SyncClient(self.running.bootstrap) as client:  # its connections outlive no broker
                    answer = client.call(CONTROLLER, request)
            except Unreachable:
                return None
            except ConnectionLost:
                if isinstance(request, CreateTopicsRequest):
                    raise
                return None
            return None if error(answer) == ErrorCode.NOT_CONTROLLER else answer

        return eventually(ask, what="the controller answers")

    def node(self, topic: str) -> tuple[int, ...]:
        """The replicas in the topic's node; empty while it is moving."""
        (assignment,) = self.stored(topic).partitions.values()
        return () if assignment.is_being_reassigned else assignment.replicas

    def stored(self, topic: str) -> Any:
        async def read() -> Any:
            store = await self.session()
            return layout.decode_topic(topic, await store.get(layout.topic_path(topic)))

        return self.running.call(read())

    def settled(self, topic: str, *replicas: int) -> bool:
        """Assigned so, nothing under way, everybody in sync, and only they have a directory."""
        leading = [b for b in replicas if self.hosted(b, topic) and self.hosted(b, topic).is_leader]
        return (
            self.node(topic) == replicas
            and topic not in self.running_moves()
            and len(leading) == 1
            and set(self.hosted(leading[0], topic).isr) == set(replicas)
            and self.directories(topic) == set(replicas)
        )

    async def session(self) -> api.Store:
        """With the cluster's store; to be used on its loop."""
        if self._session is None:
            self._session = await self.cluster.stores.open_session(30_000)
        return self._session

    def exists(self, path: str) -> bool:
        async def look() -> bool:
            return await (await self.session()).exists(path) is not None

        return self.running.call(look())

    @property
    def controller(self) -> int:
        return next(b for b, runtime in self.cluster.runtimes.items() if runtime.controller.is_leading)

    @property
    def known_to_the_controller(self) -> tuple[int, ...]:
        """The brokers it counts on; none while nobody leads."""
        cores = [runtime.controller.core for runtime in self.cluster.runtimes.values()]
        return next((tuple(core.context.brokers) for core in cores if core is not None), ())

    def hosted(self, broker: int, topic: str) -> Any:
        return self.cluster.runtimes[broker].broker.replicas.partitions.get(TopicPartition(topic, 0))

    def directories(self, topic: str) -> set[int]:
        return {
            b for b in self.cluster.ids if (self.cluster.directory / f"broker-{b}" / f"{topic}-0").is_dir()
        }

    def leader(self, topic: str) -> int:
        return self.client.topic(topic).partitions[0].leader

    @contextmanager
    def not_fetching(self, broker: int) -> Iterator[None]:
        """New leaders are not followed there for a while. The broker must follow nobody yet."""
        fetchers = self.cluster.runtimes[broker].parts.fetchers
        start, held = fetchers.start, []
        fetchers.start = lambda *args: held.append(args)  # type: ignore[method-assign]
        try:
            yield
        finally:
            fetchers.start = start  # type: ignore[method-assign]
            runtime = self.cluster.runtimes.get(broker)
            for args in held if runtime is not None else ():
                runtime._loop.call_soon_threadsafe(start, *args)


@contextmanager
def moves(
    tmp_path: Path, brokers: int = 4, *, stores: api.StoreProvider | None = None, **settings: str
) -> Iterator[Moves]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    with running_cluster(brokers=brokers, directory=tmp_path, settings=named, stores=stores) as running:
        asked = Moves(running)
        try:
            yield asked
        finally:
            asked.close()
