"""What an operator sets of a group coordinator; names and defaults are Apache Kafka's."""

from odradek.model.values import dataclass

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    offset_metadata_max_units: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS
    # What one batch of the groups' topic may have (its max.message.bytes).
    max_append_bytes: int = 1_048_588


# A member that joined for the first time and stays silent while it is parked.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * MINUTE_MS
# Ids are handed out for nothing, so what they cost is bounded, per coordinator: how many, and bytes of their text.
MOST_PENDING_IDS = 20_000
MOST_PENDING_BYTES = 8 << 20
