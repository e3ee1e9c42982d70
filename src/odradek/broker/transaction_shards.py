"""The transaction coordinators of this broker: one for each partition of `__transaction_state` that it leads."""

from collections.abc import Callable
from typing import Any

from odradek.broker.coordinator_load import Load
from odradek.broker.coordinator_shards import CoordinatorShards, Shard, TopicSizes
from odradek.broker.producer_ids import ProducerIds
from odradek.broker.transaction_markers import TransactionMarkers
from odradek.coordinator.kept_memory import memory_of_transactions
from odradek.coordinator.loading import Loaded
from odradek.coordinator.stored_transactions import StoredTransactions
from odradek.coordinator.transaction_coordinator import TransactionCoordinator
from odradek.coordinator.transaction_effects import MarkersWritten, TransactionAppend, TransactionEffects
from odradek.coordinator.transaction_records import decode, encode
from odradek.coordinator.transaction_refusals import refuse
from odradek.coordinator.transaction_settings import TransactionSettings
from odradek.model.error_codes import ErrorCode
from odradek.model.settings import BrokerSettings
from odradek.model.topic_names import TRANSACTIONS_TOPIC
from odradek.protocol.schema import Request, Response
from odradek.replication.partition import Partition

# What Apache Kafka 3.9 reads, and where `transaction.version` is finalised.
VALUE_VERSION, EXTENSIBLE_VALUE_VERSION = 0, 1


class TransactionShards(CoordinatorShards[TransactionCoordinator]):
    topic = TRANSACTIONS_TOPIC

    def __init__(
        self,
        *,
        producer_ids: ProducerIds,
        markers: TransactionMarkers,
        transaction_version: Callable[[], int],
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.kept = memory_of_transactions()
        self._transaction_version = transaction_version
        self._producer_ids = producer_ids
        self._markers = markers
        markers.on_written = self._written

    def _new_load(self, partition: Partition) -> Load:
        return Load(partition.log, Loaded(StoredTransactions(), decode))

    def _coordinator_of(
        self, shard: Shard[TransactionCoordinator], now_ms: int
    ) -> tuple[TransactionCoordinator, str]:
        stored: StoredTransactions = shard.load.loaded.stored
        self._producer_ids.ask_if_low()  # the first client is not to wait for a block
        coordinator = TransactionCoordinator(
            _settings(self._settings(), shard.partition),
            TopicSizes(self._metadata),
            self._take_producer_id,
            stored,
            now_ms,
            self._transaction_version,
            self.kept,
        )
        return coordinator, f"{len(stored.by_id)} transactional ids"

    def _take_producer_id(self) -> int | None:
        taken = self._producer_ids.take()
        self._producer_ids.ask_if_low()
        return taken

    def _encoded(self, record: Any) -> tuple[bytes, bytes | None]:
        return encode(record, EXTENSIBLE_VALUE_VERSION if self._transaction_version() else VALUE_VERSION)

    def _rows(self, append: TransactionAppend) -> int:
        return sum(1 if one.value is None else 1 + len(one.value.partitions) for one in append.records)

    def _refused(self, request: Request, version: int, error: ErrorCode) -> Response:
        return refuse(request, version, error)

    def _append_timeout_ms(self) -> int:
        timeout_ms: int = self._settings().request_timeout_ms
        return timeout_ms

    def _stepped(
        self, shard: Shard[TransactionCoordinator], effects: TransactionEffects, now_ms: int
    ) -> None:
        index = shard.partition.topic_partition.partition
        for markers in effects.markers:
            self._markers.send(index, shard.partition.leader_epoch, markers, now_ms)

    def _end(self, shard: Shard[TransactionCoordinator]) -> None:
        self._markers.forget(shard.partition.topic_partition.partition)
        super()._end(shard)

    def _written(self, index: int, written: MarkersWritten, now_ms: int) -> None:
        shard = self.shards.get(index)
        if shard is not None:
            self._tell(shard, written, now_ms)


def _settings(settings: BrokerSettings, partition: Partition) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=settings.transaction_max_timeout_ms,
        abort_timed_out_interval_ms=settings.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        id_expiration_ms=settings.transactional_id_expiration_ms,
        remove_expired_interval_ms=settings.transaction_remove_expired_transaction_cleanup_interval_ms,
        max_append_bytes=partition.log.config.max_message_bytes,
    )
