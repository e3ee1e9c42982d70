"""What an operator sets of a group coordinator; names and defaults are Apache Kafka's."""

from enum import Enum

from odradek.model.values import dataclass

MINUTE_MS = 60_000


class MigrationPolicy(Enum):
    """Which way a group with members may be converted; an empty one always may."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


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
    # Groups of KIP-848.
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # the first where nobody asks for another
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


# A member that joined for the first time and stays silent while it is parked.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * MINUTE_MS
# Ids are handed out for nothing, so what they cost is bounded, per coordinator: how many, and bytes of their text.
MOST_PENDING_IDS = 20_000
MOST_PENDING_BYTES = 8 << 20

# A regular expression of a group is resolved again after this, or when topics changed, but no sooner than that.
REGEX_REFRESH_MS = 10 * MINUTE_MS
REGEX_REST_MS = 10_000
# Requests that wait for a record of their group, per group: above that, whoever asks is to come again.
MOST_WAITING = 20_000
# Protocols that one member may offer: whatever looks for the one in common looks at those of each.
MOST_PROTOCOLS = 100
