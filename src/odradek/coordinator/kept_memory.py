"""How much memory what coordinators keep takes, about, and how much all of a broker may take: groups with their committed offsets,
and transactional ids with the partitions of their transactions.

What a client stores stays for a week after it went. So whoever brings more than there is room for is told COORDINATOR_NOT_AVAILABLE,
which clients try again. Not asked are commits to partitions that the group has committed before, with no more metadata, and
transactions of few partitions. What is loaded is kept, however much it is. Decision 0075.
"""

from odradek.coordinator.bounded_memory import BoundedMemory, of_text

# Of groups and offsets; of transactional ids.
MOST_BYTES = 512 << 20
MOST_BYTES_OF_TRANSACTIONS = 256 << 20

# As they were measured, with what looks for them: a group without members; an offset, with as much metadata as most have.
BYTES_OF_A_GROUP = 1_200
BYTES_OF_AN_OFFSET = 400
FREE_METADATA = 50
BYTES_OF_AN_ID = 500
BYTES_OF_A_PARTITION = 200
# An id counts for no less, so a transaction of few partitions is never refused to one with a short name.
LEAST_OF_AN_ID = 1_500


class KeptMemory(BoundedMemory):
    def __init__(self, most_bytes: int, who: str, remedy: str) -> None:
        super().__init__()
        self.most_bytes = most_bytes
        self._who = who
        self._remedy = remedy

    def line(self) -> str:
        return (
            f"{self._who} take {self.size_bytes} of the {self.most_bytes} bytes of memory that they may take together: whoever "
            f"brings more is to come again, {self.refused} times so far; {self._remedy}"
        )

    def has_room(self, more_bytes: int, held_bytes: int) -> bool:
        """For what somebody brings beside what is held by all: who brings no more than there was is not asked."""
        return more_bytes <= 0 or held_bytes + more_bytes <= self.most_bytes


def memory_of_groups() -> KeptMemory:
    remedy = "`odradek group delete` removes a group, and after offsets.retention.minutes those go that nobody uses"
    return KeptMemory(MOST_BYTES, "groups with their committed offsets", remedy)


def memory_of_transactions() -> KeptMemory:
    remedy = "after transactional.id.expiration.ms those go that nobody uses"
    return KeptMemory(MOST_BYTES_OF_TRANSACTIONS, "transactional ids with their partitions", remedy)


def of_group(group_id: str) -> int:
    """It is held once as what is stored and once as what there is."""
    return BYTES_OF_A_GROUP + 2 * of_text(group_id)


def of_transaction(transactional_id: str, partitions: int) -> int:
    return max(LEAST_OF_AN_ID, BYTES_OF_AN_ID + of_text(transactional_id) + BYTES_OF_A_PARTITION * partitions)
