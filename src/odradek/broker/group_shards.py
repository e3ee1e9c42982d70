"""The group coordinators of this broker: one for each partition of `__consumer_offsets` that it leads."""

from typing import Any

from odradek.broker.coordinator_load import Load
from odradek.broker.coordinator_shards import CoordinatorShards, Shard, TopicSizes
from odradek.coordinator.events import TopicsDeleted
from odradek.coordinator.group_coordinator import GroupCoordinator
from odradek.coordinator.loading import Loaded
from odradek.coordinator.partitioning import GROUPS_TOPIC
from odradek.coordinator.records import decode, encode
from odradek.coordinator.refusals import refuse
from odradek.coordinator.settings import MINUTE_MS, GroupSettings
from odradek.coordinator.stored import Stored
from odradek.model.error_codes import ErrorCode
from odradek.model.settings import BrokerSettings
from odradek.protocol.schema import Request, Response
from odradek.replication.partition import Partition


class GroupShards(CoordinatorShards[GroupCoordinator]):
    topic = GROUPS_TOPIC

    def topics_deleted(self, topics: frozenset[str], now_ms: int) -> None:
        for shard in list(self.shards.values()):
            self._tell(shard, TopicsDeleted(topics), now_ms)

    def _new_load(self, partition: Partition) -> Load:
        return Load(partition.log, Loaded(Stored(), decode))

    def _coordinator_of(self, shard: Shard[GroupCoordinator], now_ms: int) -> tuple[GroupCoordinator, str]:
        stored: Stored = shard.load.loaded.stored
        settings = _group_settings(self._settings(), shard.partition)
        coordinator = GroupCoordinator(settings, TopicSizes(self._metadata), stored, now_ms)
        return coordinator, f"{len(stored.groups)} groups"

    def _encoded(self, record: Any) -> tuple[bytes, bytes | None]:
        return encode(record)

    def _refused(self, request: Request, version: int, error: ErrorCode) -> Response:
        return refuse(request, version, error)

    def _append_timeout_ms(self) -> int:
        timeout_ms: int = self._settings().offsets_commit_timeout_ms
        return timeout_ms


def _group_settings(settings: BrokerSettings, partition: Partition) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        max_size=settings.group_max_size,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        offset_metadata_max_units=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * MINUTE_MS,
        offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
        max_append_bytes=partition.log.config.max_message_bytes,
    )
