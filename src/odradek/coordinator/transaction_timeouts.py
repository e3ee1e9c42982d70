"""Transactions that were open for too long, and ids that nobody has used for long: checked now and then, a bounded
number in one turn."""

from odradek.coordinator.effects import RECORD_OVERHEAD_BYTES
from odradek.coordinator.ending import abort_from_here
from odradek.coordinator.transaction_room import Room
from odradek.coordinator.transaction_settings import MOST_CHECKED, MOST_PARTITIONS_AT_ONCE
from odradek.coordinator.transaction_states import AT_REST, TransactionState
from odradek.model.error_codes import ErrorCode
from odradek.model.values import dataclass

# Tombstones of one append.
MOST_REMOVED = 500
# Of one turn: each is an append, and markers for all its partitions.
MOST_ABORTED = 100


class TimeOuts:
    def __init__(self, room: Room, now_ms: int) -> None:
        self._room = room
        self._left: list[str] = []  # still to be checked, the next one last
        self.due_ms: int = now_ms + room.settings.abort_timed_out_interval_ms

    def tick(self, now_ms: int) -> None:
        if self.due_ms > now_ms:
            return
        room = self._room
        if not self._left:
            self._left = list(reversed(room.stored.ongoing))
        aborted = partitions = 0
        for _ in range(min(MOST_CHECKED, len(self._left))):
            if aborted == MOST_ABORTED or partitions >= MOST_PARTITIONS_AT_ONCE:
                break
            name = self._left.pop()
            value = room.stored.by_id.get(name)
            if (
                value is not None
                and value.state is TransactionState.ONGOING
                and room.pending(name) is None
                and value.started_at_ms + value.timeout_ms < now_ms
            ):
                abort_from_here(room, name, value, TimedOut(name), now_ms)
                aborted += 1
                partitions += len(value.partitions)
        self.due_ms = now_ms if self._left else now_ms + room.settings.abort_timed_out_interval_ms


@dataclass(frozen=True, slots=True)
class TimedOut:
    transactional_id: str

    def committed(self, room: Room, now_ms: int) -> None:
        room.say(f"transaction of {self.transactional_id!r} was open for longer than its time-out: aborted")

    def failed(self, room: Room, error: ErrorCode, now_ms: int) -> None:
        """The next pass finds it again."""
        room.say(
            f"transaction of {self.transactional_id!r} is open for longer than its time-out and could not be aborted: "
            f"{error.name}"
        )


class Expiry:
    def __init__(self, room: Room, now_ms: int) -> None:
        self._room = room
        self._left: list[str] = []
        self.due_ms: int = now_ms + room.settings.remove_expired_interval_ms

    def tick(self, now_ms: int) -> None:
        if self.due_ms > now_ms:
            return
        room = self._room
        if not self._left:
            self._left = list(reversed(room.stored.by_id))
        some = self._left[-MOST_CHECKED:][::-1]
        del self._left[-MOST_CHECKED:]
        before_ms = now_ms - room.settings.id_expiration_ms
        idle = [name for name in some if self._is_idle(name, before_ms)]
        while idle:
            count = _how_many_fit(idle, room.settings.max_append_bytes)
            room.remove(idle[:count], Removed(count))
            del idle[:count]
        self.due_ms = now_ms if self._left else now_ms + room.settings.remove_expired_interval_ms

    def _is_idle(self, name: str, before_ms: int) -> bool:
        value = self._room.stored.by_id.get(name)
        return (
            value is not None
            and value.state in AT_REST
            and value.updated_at_ms <= before_ms
            and self._room.pending(name) is None
        )


def _how_many_fit(names: list[str], most_bytes: int) -> int:
    """Tombstones of one append: one at least."""
    size = 0
    for count, name in enumerate(names[:MOST_REMOVED]):
        size += RECORD_OVERHEAD_BYTES + len(name.encode())
        if size > most_bytes:
            return max(count, 1)
    return min(len(names), MOST_REMOVED)


@dataclass(frozen=True, slots=True)
class Removed:
    count: int

    def committed(self, room: Room, now_ms: int) -> None:
        return None

    def failed(self, room: Room, error: ErrorCode, now_ms: int) -> None:
        """The next pass finds them again."""
        room.say(f"{self.count} transactional ids have expired and could not be removed: {error.name}")
