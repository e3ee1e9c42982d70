"""The group coordinators of this broker: one for each partition of `__consumer_offsets` that it leads."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from odradek.broker.coordinator_load import Load
from odradek.broker.coordinator_shards import CoordinatorShards, Shard, TopicSizes
from odradek.coordinator.asides import AsideWork, Assigned, Resolved
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.coordinator.effects import Append
from odradek.coordinator.events import TopicsDeleted, TransactionEnded
from odradek.coordinator.group_coordinator import GroupCoordinator
from odradek.coordinator.kept_memory import memory_of_groups
from odradek.coordinator.loading import Loaded
from odradek.coordinator.member_memory import MemberMemory
from odradek.coordinator.records import GroupRecord, OffsetRecord, StoredGroup, decode, encode
from odradek.coordinator.refusals import refuse
from odradek.coordinator.settings import MINUTE_MS, GroupSettings, MigrationPolicy
from odradek.coordinator.stored import Stored
from odradek.coordinator.written_together import written_together
from odradek.model.error_codes import ErrorCode
from odradek.model.settings import BrokerSettings
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.protocol.schema import Request, Response
from odradek.replication.partition import Partition

# Groups and members whose coordinator is made in the turn in which all is read: some ten milliseconds.
MOST_MADE_AT_ONCE = 1_000


class Topics(TopicSizes):
    """With their ids, by which members of consumer groups name them."""

    @property
    def changes(self) -> int:
        return self._metadata.epoch

    def id_of(self, name: str) -> bytes | None:
        return self._metadata.topic_ids.get(name)

    def name_of(self, topic_id: bytes) -> str | None:
        return self._metadata.names.get(topic_id)


class GroupShards(CoordinatorShards[GroupCoordinator]):
    topic = GROUPS_TOPIC

    def __init__(self, **common: Any) -> None:
        super().__init__(**common)
        self.memory = MemberMemory()
        self.kept = memory_of_groups()

    def transaction_ended(
        self, index: int, offset: int, producer_id: int, *, is_commit: bool, now_ms: int
    ) -> None:
        """A marker at this offset is committed. A coordinator that was loaded since has read it."""
        shard = self.shards.get(index)
        if shard is None or offset < shard.load.offset:
            return
        if shard.is_made_aside:
            shard.untold.append(TransactionEnded(producer_id, is_commit))
        else:
            self._tell(shard, TransactionEnded(producer_id, is_commit), now_ms)

    def topics_deleted(self, topics: frozenset[str], now_ms: int) -> None:
        for shard in list(self.shards.values()):
            if shard.coordinator is None:
                shard.untold.append(TopicsDeleted(topics))
            else:
                self._tell(shard, TopicsDeleted(topics), now_ms)

    def _new_load(self, partition: Partition) -> Load:
        return Load(partition.log, Loaded(Stored(), decode))

    def _coordinator_of(self, shard: Shard[GroupCoordinator], now_ms: int) -> tuple[GroupCoordinator, str]:
        stored: Stored = shard.load.loaded.stored
        settings = _group_settings(self._settings(), shard.partition)
        topics = Topics(self._metadata)
        coordinator = GroupCoordinator(settings, topics, stored, now_ms, topics, self.memory, self.kept)
        return coordinator, f"{len(stored.groups) + len(stored.consumer_groups)} groups"

    def _is_large(self, shard: Shard[GroupCoordinator]) -> bool:
        stored: Stored = shard.load.loaded.stored
        size = len(stored.groups) + len(stored.consumer_groups) + len(stored.offsets.by_group)
        groups: tuple[Iterable[StoredGroup | ConsumerImage], ...] = (
            stored.groups.values(),
            stored.consumer_groups.values(),
        )
        for one in chain(*groups):
            if size > MOST_MADE_AT_ONCE:
                break
            size += len(one.members)
        return size > MOST_MADE_AT_ONCE

    def _stepped(self, shard: Shard[GroupCoordinator], effects: Any, now_ms: int) -> None:
        for work in effects.asides:
            self._do_aside(shard, work, now_ms)

    def _do_aside(self, shard: Shard[GroupCoordinator], work: AsideWork, now_ms: int) -> None:
        """In a thread. A mistake of ours there is nothing found: the group may ask again."""

        def ended(result: Assigned | Resolved | None, later_ms: int) -> None:
            if not shard.is_over:
                self._tell(shard, result or work.nothing(), later_ms)

        self.aside.ask(self.aside.lookups, lambda: None if shard.is_over else work, ended, now_ms)

    def _encoded(self, record: Any) -> tuple[bytes, bytes | None]:
        return encode(record)

    def _rows(self, append: Append) -> int:
        return sum(
            len(record.value.members) if isinstance(record, GroupRecord) and record.value is not None else 1
            for record in append.records
        )

    def _encodes_one_by_one(self, append: Append) -> bool:
        return super()._encodes_one_by_one(append) and not isinstance(append.records[0], OffsetRecord)

    def _batch(self, append: Append, encoded: list[tuple[bytes, bytes | None]], now_ms: int) -> bytes:
        together = None if encoded else written_together(append.records, now_ms, append.producer)
        return together or super()._batch(append, encoded, now_ms)

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
        consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        consumer_max_size=settings.group_consumer_max_size,
        consumer_assignors=settings.consumer_assignors,
        migration_policy=MigrationPolicy(settings.odradek_group_consumer_migration_policy),
    )
