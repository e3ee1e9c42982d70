"""A small client of the simulated cluster, on the same loop: connections, metadata, administration.

It speaks the real wire over the simulated network. What a well-behaved producer and consumer do with it: `producer`,
`consumer`.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from odradek.client.connection import BrokerLink
from odradek.client.receive_buffers import BufferPool
from odradek.model.error_codes import RETRIABLE, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.api_keys import APIS
from odradek.protocol.messages import (
    api_versions,
    create_topics,
    metadata,
    response_class,
)
from odradek.sim.loop import Host, SimLoop

# retry.backoff.ms, and retry.backoff.max.ms: each attempt in vain doubles the pause (KIP-580).
RETRY_S, MOST_RETRY_S = 0.1, 0.4
# Clients and the store have the same clock; brokers' clocks may jump.
EPOCH_MS = 1_767_225_600_000
REQUEST_TIMEOUT_MS = 5_000

Address = tuple[str, int]
# All clients of a process have one, as a broker's connections do: what is in it is read in the turn in which it came.
_POOL = BufferPool()


class RequestFailed(Exception):
    """No answer came; whether the request was carried out is not known."""


class Pauses:
    """Between attempts at one thing, longer and longer until one succeeds."""

    __slots__ = ("_next_s",)

    def __init__(self) -> None:
        self._next_s = RETRY_S

    async def pause(self) -> None:
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, MOST_RETRY_S)
        await asyncio.sleep(pause_s)

    def succeeded(self) -> None:
        self._next_s = RETRY_S


class SimClient:
    """Connections of one client host, and its idea of who leads what."""

    def __init__(
        self,
        loop: SimLoop,
        host: Host,
        bootstrap: list[Address],
        *,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        first_correlation_id: int = 0,
    ) -> None:
        """`first_correlation_id`: of each connection."""
        self._request_timeout_ms = request_timeout_ms
        self._first_correlation_id = first_correlation_id
        self.loop = loop
        self.host = host
        self._bootstrap = bootstrap
        self._links: dict[Address, BrokerLink] = {}
        self._pool = _POOL
        self._next_bootstrap = 0
        self.brokers: dict[int, Address] = {}
        self.controller: int = -1
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}  # leader, leader epoch
        self.topic_ids: dict[str, bytes] = {}

    async def ask(self, address: Address, message: Any, version: int | None = None) -> Any:
        """The decoded answer; RequestFailed if none came."""
        return await self.asked(address, message, version)

    def asked(self, address: Address, message: Any, version: int | None = None) -> "asyncio.Future[Any]":
        """As `ask`, of which several may be under way at once: they leave in the order in which they were asked."""
        link = self._links.get(address)
        if link is None or link.is_closed:
            link = self._links[address] = BrokerLink(
                self.loop,
                host=address[0],
                port=address[1],
                client_id=self.host.name,
                pool=self._pool,
                after_turn=lambda: None,
                request_timeout_ms=self._request_timeout_ms,
                connect_timeout_ms=2_000,
                first_correlation_id=self._first_correlation_id,
            )
        key = message.KEY
        if version is None:
            version = APIS[key].last_version
        answered: asyncio.Future[Any] = self.loop.create_future()

        def on_answer(body: memoryview | None, reason: str) -> None:
            if answered.done():
                return
            if body is None:
                answered.set_exception(RequestFailed(reason))
            else:
                answered.set_result(response_class(key).decode(version, bytes(body)))

        link.send(key, version, message.encode(version), on_answer)
        return answered

    async def refresh(self, topics: list[str] | None = None) -> None:
        """Asks one broker after the other until one answers."""
        request = metadata.MetadataRequest(
            topics=None if topics is None else [metadata.MetadataRequestTopic(name=t) for t in topics],
            allow_auto_topic_creation=False,
        )
        pauses = Pauses()
        while True:
            addresses = list(self.brokers.values()) or self._bootstrap
            self._next_bootstrap += 1
            try:
                answer = await self.ask(addresses[self._next_bootstrap % len(addresses)], request)
            except RequestFailed:
                self.brokers = {}
                await pauses.pause()
                continue
            self.brokers = {b.node_id: (b.host, b.port) for b in answer.brokers}
            self.controller = answer.controller_id
            for topic in answer.topics:
                self._learn(topic)
            return

    def _learn(self, topic: Any) -> None:
        """Nobody leads in an epoch before one that is known, of the same topic."""
        if topic.error_code == ErrorCode.NONE:
            if self.topic_ids.get(topic.name, topic.topic_id) != topic.topic_id:
                # Another topic of this name: its leader epochs begin anew.
                for partition in [p for p in self.leaders if p.topic == topic.name]:
                    del self.leaders[partition]
            self.topic_ids[topic.name] = topic.topic_id
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            _, known_epoch = self.leaders.get(partition, (-1, -1))
            if row.leader_epoch >= known_epoch:
                self.leaders[partition] = row.leader_id, row.leader_epoch

    async def finalised(self, feature: str) -> int:
        """The level in force, as some broker says that has heard of it."""
        request = api_versions.ApiVersionsRequest(
            client_software_name="odradek-sim", client_software_version="1"
        )
        while True:
            for address in list(self.brokers.values()):
                try:
                    answer = await self.ask(address, request)
                except RequestFailed:
                    continue
                if answer.finalized_features_epoch >= 0:
                    levels = {row.name: row.max_version_level for row in answer.finalized_features}
                    return int(levels.get(feature, 0))
            await asyncio.sleep(RETRY_S)
            await self.refresh([])

    async def leader_of(
        self, partition: TopicPartition, until: float = math.inf
    ) -> tuple[Address | None, int]:
        """None once the loop's time is past `until`."""
        pauses = Pauses()
        while True:
            leader, epoch = self.leaders.get(partition, (-1, -1))
            address = self.brokers.get(leader)
            if address is not None or self.loop.time() >= until:
                return address, epoch
            await pauses.pause()
            await self.refresh([partition.topic])

    async def ask_controller(self, message: Any) -> Any:
        pauses = Pauses()
        while True:
            address = self.brokers.get(self.controller)
            if address is not None:
                return await self.ask(address, message)
            await pauses.pause()
            await self.refresh([])

    # --- administration

    async def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: dict[str, str] | None = None,
        *,
        assignments: Sequence[Sequence[int]] = (),
    ) -> ErrorCode:
        """NONE also when a retry finds that the first attempt had worked."""
        request = create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replication_factor,
                    assignments=[
                        create_topics.CreatableReplicaAssignment(partition_index=n, broker_ids=list(replicas))
                        for n, replicas in enumerate(assignments)
                    ],
                    configs=[
                        create_topics.CreatableTopicConfig(name=k, value=v)
                        for k, v in sorted((configs or {}).items())
                    ],
                )
            ],
            timeout_ms=3_000,
        )
        attempts, pauses = 0, Pauses()
        while True:
            attempts += 1
            try:
                answer = await self.ask_controller(request)
            except RequestFailed:
                await pauses.pause()
                await self.refresh([])
                continue
            error = ErrorCode(answer.topics[0].error_code)
            if error == ErrorCode.TOPIC_ALREADY_EXISTS and attempts > 1:
                error = ErrorCode.NONE
            if error == ErrorCode.NONE:
                await self.refresh([name])
                return error
            if error not in RETRIABLE and error not in (
                ErrorCode.NOT_CONTROLLER,
                ErrorCode.INVALID_REPLICATION_FACTOR,
            ):
                return error
            await pauses.pause()
            await self.refresh([])
