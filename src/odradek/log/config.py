"""What one log has to know of the settings, as plain attributes: they are read at every append."""

from odradek.model.settings import TopicSettings
from odradek.records.compression import CODEC_NUMBERS

LONG_MAX = 2**63 - 1


class LogConfig:
    __slots__ = (
        "cleanup_policy",
        "compression_level",
        "compression_type",
        "delete_retention_ms",
        "file_delete_delay_ms",
        "flush_messages",
        "flush_ms",
        "full_validation",
        "index_interval_bytes",
        "is_compacted",
        "is_deleted",
        "log_append_time",
        "max_compaction_lag_ms",
        "max_message_bytes",
        "min_cleanable_dirty_ratio",
        "min_compaction_lag_ms",
        "opens_batches",
        "producer_id_expiration_ms",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
        "timestamps_limited",
    )

    def __init__(self, settings: TopicSettings) -> None:
        self.segment_bytes: int = settings.segment_bytes
        self.segment_ms: int = settings.segment_ms
        self.segment_jitter_ms: int = settings.segment_jitter_ms
        self.segment_index_bytes: int = settings.segment_index_bytes
        self.index_interval_bytes: int = settings.index_interval_bytes
        self.max_message_bytes: int = settings.max_message_bytes
        self.retention_ms: int = settings.retention_ms
        self.retention_bytes: int = settings.retention_bytes
        self.file_delete_delay_ms: int = settings.file_delete_delay_ms
        self.flush_messages: int = settings.flush_messages
        self.flush_ms: int = settings.flush_ms
        self.cleanup_policy: tuple[str, ...] = tuple(settings.cleanup_policy)
        self.is_compacted = "compact" in self.cleanup_policy
        self.is_deleted = "delete" in self.cleanup_policy
        self.min_cleanable_dirty_ratio: float = settings.min_cleanable_dirty_ratio
        self.min_compaction_lag_ms: int = settings.min_compaction_lag_ms
        self.max_compaction_lag_ms: int = settings.max_compaction_lag_ms
        self.delete_retention_ms: int = settings.delete_retention_ms
        if self.is_compacted:
            # What has to be cleaned within that time must not stay in the active segment for longer (KIP-354).
            self.segment_ms = min(self.segment_ms, self.max_compaction_lag_ms)
        self.log_append_time: bool = settings.message_timestamp_type == "LogAppendTime"
        self.timestamp_before_max_ms: int = settings.message_timestamp_before_max_ms
        self.timestamp_after_max_ms: int = settings.message_timestamp_after_max_ms
        self.timestamps_limited = min(self.timestamp_before_max_ms, self.timestamp_after_max_ms) < LONG_MAX
        # None: as the producer compressed it.
        kind: str = settings.compression_type
        self.compression_type: int | None = None if kind == "producer" else CODEC_NUMBERS[kind]
        self.compression_level: int | None = _level(settings, kind)
        broker = settings.broker
        self.full_validation: bool = broker.odradek_log_record_validation == "full"
        # Of what producers send, records are read, or compressed anew: that may take long.
        self.opens_batches = self.full_validation or self.is_compacted or self.compression_type is not None
        self.producer_id_expiration_ms: int = broker.producer_id_expiration_ms


def _level(settings: TopicSettings, kind: str) -> int | None:
    if kind == "gzip":
        return None if settings.compression_gzip_level == -1 else settings.compression_gzip_level
    if kind == "zstd":
        return int(settings.compression_zstd_level)
    # The levels of lz4 are those of the Java codec's high-compression mode; ours has its own scale.
    return None
