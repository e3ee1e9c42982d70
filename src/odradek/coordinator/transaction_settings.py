"""What an operator sets of a transaction coordinator; names and defaults are Apache Kafka's."""

from odradek.model.values import dataclass

DAY_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    max_timeout_ms: int = 900_000
    abort_timed_out_interval_ms: int = 10_000
    id_expiration_ms: int = 7 * DAY_MS
    remove_expired_interval_ms: int = 3_600_000
    # How long who begins a transaction waits for the markers of the one before; 0: not at all.
    markers_wait_ms: int = 50
    # What one batch of the transactions' topic may have (its max.message.bytes).
    max_append_bytes: int = 1_048_588


# The last epoch a client is given; the one behind it is for the markers that fence its owner.
LAST_EPOCH = 32_766
EPOCH_OF_NOBODY = LAST_EPOCH + 1
# A Complete record that could not be written is written again.
COMPLETE_AGAIN_MS = 100
# Of one turn: a few milliseconds.
MOST_CHECKED = 2_000
MOST_TAKEN_OVER = 200
# Partitions of those together that get their markers, and of the last one whatever it has.
MOST_PARTITIONS_AT_ONCE = 4_000
# Partitions of one transaction. Its end makes a record of them, and a marker for each: 20 to 35 ms of a turn for so many.
MOST_IN_A_TRANSACTION = 10_000
