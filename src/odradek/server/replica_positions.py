"""Up to where every replica of a log holds what this one holds: asked of the others before a tombstone or a marker goes.

A replica that has passed a tombstone cleans by itself what is before it. One that has not would, once the others have
dropped it, never hear of it, and show the key again when it leads. So whoever is about to clean, leader or not, asks each
other replica where the leader epoch ends that this log has there (`OffsetForLeaderEpoch` as replica -2, which ours
answer to anybody): below the smaller of both ends two logs are the same (KIP-101, KIP-279), and what is committed is
never cut off again. Apache's brokers refuse that on followers; they are asked for their log end (`ListOffsets`).
"""

import asyncio
from collections.abc import Callable, Collection
from typing import TypeVar

from odradek.client.connection import BrokerLink
from odradek.controller.broker_requests import AskEndOffsets
from odradek.log.compaction.cleaner import NO_LIMIT
from odradek.log.leader_epochs import UNDEFINED_EPOCH
from odradek.log.partition_log import PartitionLog
from odradek.model.cluster import Endpoint
from odradek.model.errors import ProtocolError
from odradek.model.ids import UNKNOWN_BROKER_EPOCH, BrokerId, LeaderEpoch
from odradek.protocol.messages.list_offsets import ListOffsetsResponse
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from odradek.protocol.schema import Response
from odradek.server.end_offset_queries import (
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    VERSIONS,
    AskLogEnds,
    encode_end_offsets,
    encode_log_ends,
)
from odradek.server.links import Links

ANSWER_MS = 5_000
NOTHING = 0  # is known to be there, so no tombstone is droppable

R = TypeVar("R", bound=Response)


class ReplicaPositions:
    def __init__(
        self,
        *,
        links: Links,
        others: Callable[[PartitionLog], Collection[BrokerId] | None],
        endpoint: Callable[[BrokerId], Endpoint | None],
    ) -> None:
        """`others`: the assigned replicas besides this broker, None where that is not known; `endpoint` None: it is not
        live."""
        self._links = links._replace(request_timeout_ms=ANSWER_MS, connect_timeout_ms=ANSWER_MS)
        self._others = others
        self._endpoint = endpoint

    async def passed_by_all(self, log: PartitionLog, end_offset: int) -> int:
        """The offset below which every replica holds what `log` holds below `end_offset`, all of that being committed."""
        others = self._others(log)
        if others is None:
            return NOTHING
        passed = NO_LIMIT
        for broker in sorted(others):
            passed = min(passed, await self._passed_by(broker, log, end_offset))
            if passed <= log.log_start_offset:
                return NOTHING  # whatever the rest would say
        return passed

    async def _passed_by(self, broker: BrokerId, log: PartitionLog, end_offset: int) -> int:
        endpoint = self._endpoint(broker)
        epoch = log.epochs.epoch_at(end_offset - 1)
        if endpoint is None or epoch == UNDEFINED_EPOCH:
            return NOTHING
        where = log.topic_partition
        link = self._links.to(endpoint.host, endpoint.port)
        try:
            asked = AskEndOffsets(broker, UNKNOWN_BROKER_EPOCH, ((where, LeaderEpoch(epoch)),))
            told = await self._ask(
                link, OFFSET_FOR_LEADER_EPOCH, encode_end_offsets(asked), OffsetForLeaderEpochResponse
            )
            agreed = by_epochs(log, end_offset, told)
            if agreed is not None:
                return agreed
            ends = AskLogEnds(broker, UNKNOWN_BROKER_EPOCH, (where,))
            return by_end(await self._ask(link, LIST_OFFSETS, encode_log_ends(ends), ListOffsetsResponse))
        finally:
            link.close()

    async def _ask(self, link: BrokerLink, api_key: int, body: bytes, of: type[R]) -> R | None:
        """None: it cannot be reached, or does not answer in time."""
        answered: asyncio.Future[R | None] = self._links.loop.create_future()

        def on_answer(answer: memoryview | None, _reason: str) -> None:
            if answered.done():
                return
            try:
                answered.set_result(None if answer is None else of.decode(VERSIONS[api_key], answer))
            except ProtocolError:
                answered.set_result(None)

        link.send(api_key, VERSIONS[api_key], body, on_answer)
        return await answered


def by_epochs(log: PartitionLog, end_offset: int, told: OffsetForLeaderEpochResponse | None) -> int | None:
    """None: it did not say."""
    for topic in told.topics if told is not None else ():
        for row in topic.partitions:
            if not row.error_code:
                return agreed_below(log, end_offset, epoch=row.leader_epoch, end=row.end_offset)
    return None


def by_end(told: ListOffsetsResponse | None) -> int:
    for topic in told.topics if told is not None else ():
        for row in topic.partitions:
            if not row.error_code:
                return max(int(row.offset), NOTHING)
    return NOTHING


def agreed_below(log: PartitionLog, end_offset: int, *, epoch: int, end: int) -> int:
    """How far another log is known to be this one, which is committed to `end_offset`: `epoch` is the largest that the other
    has at or below the one it was asked for, and `end` where it ends there; -1, -1: it has none."""
    ours, our_end = log.epochs.end_offset(epoch, end_offset)
    # An epoch that this log never had: where the two parted is not known.
    return min(our_end, end) if ours == epoch != UNDEFINED_EPOCH else NOTHING
