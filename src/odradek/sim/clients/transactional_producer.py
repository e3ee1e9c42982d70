"""Well-behaved producers with a transactional id, which ask again whatever may be asked again.

One of `transaction.version` 0 and 1 adds partitions before it writes to them. What it cannot know it does not build on: after
an attempt without an answer it takes its id over anew before its next transaction (`is_in_doubt`), so that what may still be
on its way is of an epoch that is over.

One of version 2 (KIP-890) writes, and the leaders add. Each end of a transaction gives it the next epoch, so that what it sent
before is of an epoch that is over without its doing anything for it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from odradek.model.error_codes import INVALID_METADATA, RETRIABLE, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.sim.checkers.history import Value
from odradek.sim.checkers.transactions import Fate
from odradek.sim.clients.client import EPOCH_MS, Address, Pauses, RequestFailed, SimClient
from odradek.sim.clients.coordinator_client import OF_GROUPS, OF_TRANSACTIONS, CoordinatorClient
from odradek.sim.clients.producer import produce_together

INIT, ADD, ADD_OFFSETS = 4, 3, 3
# By `bumps`.
END, COMMIT_OFFSETS, PRODUCE = (3, 5), (3, 5), (11, 12)

FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
# Whoever asked is to ask again; and of these, what was asked for may have been carried out all the same.
MAY_STAND = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT}
)
AGAIN = RETRIABLE | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.OPERATION_NOT_ATTEMPTED}


class Fenced(Exception):
    """Another producer has the id."""


class Refused(Exception):
    """The transaction cannot be committed any more, and is to be aborted."""


class TransactionalProducer:
    """`bumps`: it speaks as a client of `transaction.version` 2. That may change between two transactions."""

    def __init__(self, client: SimClient, transactional_id: str, group: str, timeout_ms: int) -> None:
        self._client = client
        self._name = transactional_id
        self._group_name = group
        self._timeout_ms = timeout_ms
        self._coordinator = CoordinatorClient(client, transactional_id, OF_TRANSACTIONS)
        self._group = CoordinatorClient(client, group, OF_GROUPS)
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = {}
        self.is_unheard = False  # an answer to the last question is missing
        self.is_in_doubt = False
        self.bumps = False

    @property
    def coordinator(self) -> Address | None:
        return self._coordinator.coordinator

    @property
    def has_an_epoch(self) -> bool:
        return self._producer_id >= 0

    async def take_over(self, *, repeats: int = 0) -> list[tuple[int, int] | None]:
        """In the next epoch: of its own, if it has one (KIP-360). Fenced: somebody else has the id by now. `repeats`: so often again, as
        if the answer had been lost. Gives the producer id and epoch of each answer, None for one that refuses."""
        request = InitProducerIdRequest(
            transactional_id=self._name,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
        )
        self._producer_id, self._epoch = -1, -1
        answer = await self._asked(self._coordinator, request, INIT, lambda answer: answer.error_code)
        self._judge(answer.error_code)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        self.is_in_doubt = False
        told: list[tuple[int, int] | None] = [(answer.producer_id, answer.producer_epoch)]
        for _ in range(repeats):
            answer = await self._asked(self._coordinator, request, INIT, lambda answer: answer.error_code)
            told.append(None if answer.error_code else (answer.producer_id, answer.producer_epoch))
        return told

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        if self.bumps:
            return  # their leaders do
        topics: dict[str, list[int]] = {}
        for one in partitions:
            topics.setdefault(one.topic, []).append(one.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=numbers) for topic, numbers in topics.items()
            ],
        )

        def worst(answer: Any) -> int:
            codes = [
                row.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            ]
            return next((code for code in codes if code), ErrorCode.NONE)

        self._judge(worst(await self._asked(self._coordinator, request, ADD, worst)))

    async def send_all(self, values: Mapping[TopicPartition, Sequence[Value]]) -> None:
        """A batch to each partition, again until it is there: one request to each leader, and all leaders at once."""
        batches = {partition: self._batch(partition, of_it) for partition, of_it in values.items()}
        failures: list[ErrorCode] = []
        pauses = Pauses()
        while True:
            errors = await self._sent(batches)
            for partition, error in errors.items():
                if error == ErrorCode.NONE:
                    self._sequences[partition] = self._sequences.get(partition, 0) + len(values[partition])
                elif error not in AGAIN:
                    failures.append(error)
                else:
                    self._not_heard()
                    continue
                del batches[partition]
            if not batches:
                break
            await pauses.pause()
            if any(error in INVALID_METADATA for error in errors.values()) or len(errors) < len(batches):
                await self._client.refresh(list({partition.topic for partition in batches}))
        for error in sorted(failures, key=lambda error: error not in FENCED):
            self._judge(error)

    def _batch(self, partition: TopicPartition, values: Sequence[Value]) -> bytes:
        at_ms = EPOCH_MS + int(self._client.loop.time() * 1000)
        return build_batch(
            [NewRecord(value, value, at_ms) for value in values],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences.get(partition, 0),
            is_transactional=True,
        )

    async def _sent(self, batches: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, ErrorCode]:
        """What leaders say of each; nothing of those that have none."""
        led_by: dict[Address, dict[TopicPartition, bytes]] = {}
        for partition, batch in batches.items():
            address, _ = await self._client.leader_of(partition, until=0.0)
            if address is not None:
                led_by.setdefault(address, {})[partition] = batch
        found: dict[TopicPartition, ErrorCode] = {}
        for of_one in await asyncio.gather(*(self._told(address, some) for address, some in led_by.items())):
            found |= of_one
        return found

    async def _told(
        self, address: Address, batches: Mapping[TopicPartition, bytes]
    ) -> dict[TopicPartition, ErrorCode]:
        try:
            answer = await self._client.ask(
                address, produce_together(batches, -1, self._name), PRODUCE[self.bumps]
            )
        except RequestFailed:
            return dict.fromkeys(batches, ErrorCode.NETWORK_EXCEPTION)
        return {
            TopicPartition(topic.name, row.index): ErrorCode(row.error_code)
            for topic in answer.responses
            for row in topic.partition_responses
        }

    async def send_offset(self, partition: TopicPartition, offset: int) -> None:
        if not self.bumps:  # else the coordinator of the group does
            await self._add_group()
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset, committed_metadata=""
        )
        commit = TxnOffsetCommitRequest(
            transactional_id=self._name,
            group_id=self._group_name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitRequestTopic(name=partition.topic, partitions=[row])],
        )

        def code(answer: Any) -> int:
            return int(answer.topics[0].partitions[0].error_code)

        self._judge(code(await self._asked(self._group, commit, COMMIT_OFFSETS[self.bumps], code)))

    async def _add_group(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            group_id=self._group_name,
        )
        answer = await self._asked(self._coordinator, request, ADD_OFFSETS, lambda answer: answer.error_code)
        self._judge(answer.error_code)

    async def end(self, *, is_commit: bool) -> Fate:
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=is_commit,
        )
        self.is_unheard = False
        answer = await self._asked(
            self._coordinator, request, END[self.bumps], lambda answer: answer.error_code
        )
        if answer.error_code == ErrorCode.NONE:
            if self.bumps:
                self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                self._sequences.clear()
            return "committed" if is_commit else "aborted"
        self.is_in_doubt = True
        return "unknown" if is_commit and self.is_unheard else "aborted"

    def _not_heard(self) -> None:
        """What was asked for may be carried out, now or later: of a client of version 2 in an epoch that ends with this
        transaction."""
        self.is_unheard = True
        self.is_in_doubt = self.is_in_doubt or not self.bumps

    # --- asking

    async def _asked(
        self, coordinator: CoordinatorClient, request: Any, version: int, code_of: Callable[[Any], int]
    ) -> Any:
        """The first answer that asking again would not change."""
        pauses = Pauses()
        while True:
            try:
                answer = await coordinator.ask(request, version)
            except RequestFailed:
                self._not_heard()
            else:
                code = ErrorCode(code_of(answer))
                if code not in AGAIN:
                    return answer
                if code in MAY_STAND:
                    self._not_heard()
                    coordinator.moved()
            await pauses.pause()

    def _judge(self, code: int) -> None:
        if code in FENCED:
            raise Fenced
        if code != ErrorCode.NONE:
            raise Refused(ErrorCode(code).name)
