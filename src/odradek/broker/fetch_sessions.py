"""Fetch sessions (KIP-227): the partitions a reader wants, kept between its fetches.

A session knows for each partition where its reader stands and what it was last told. A fetch then names only
what moved, and the answer only what is new. Cost is per partition that changed, never per partition of the
session: a partition that may have something new tells its readers (`Reader.wake`), and only those are
read. A reader without a session (epoch -1) gets one that lives as long as its one fetch.
"""

from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.protocol.messages.fetch import TopicKey
from odradek.replication.followers import FetchSource
from odradek.replication.partition import Partition
from odradek.replication.purgatory import Purgatory, Waiter
from odradek.replication.replica import Replica
from odradek.replication.waiting import Reader

# A session nobody used for this long makes room for a new one.
MIN_EVICTION_MS = 120_000
# Of all sessions together, and of fetches without one while they wait. Each takes some 400 to 600 bytes, and who fetches may name
# what there is not.
MOST_PARTITIONS = 250_000
CLOSED_AT_ONCE = 2_000
NO_SESSION = 0
INT32_MAX = 2**31 - 1


class ParkedFetch(Waiter):
    """What a session and a connection know of the fetch that waits in them."""

    __slots__ = ()

    session: "FetchSession"

    def on_high_watermark(self, now_ms: int) -> None:
        """There are no more records for this follower, but more of them are committed."""
        raise NotImplementedError

    def leave(self) -> None:
        """Nobody waits for the answer any more."""
        raise NotImplementedError


class WantedPartition(Reader):
    """One partition of a session: where the reader stands, and what it was told last.

    Invariants: `is_watching` means that `partition` has it among its readers, consumers' or followers' by the session's
    `replica_id`. What is not in `session.pending` has nothing new, and will say when it has. `sent_high_watermark` and
    `sent_log_start` are what the reader has from an answer of this session; -1: nothing, or not to be relied on.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "follower_log_start",
        "has_more",
        "has_moved",
        "index",
        "is_refused",
        "is_watching",
        "key",
        "last_fetched_epoch",
        "max_bytes",
        "partition",
        "role",
        "seen_bytes",
        "sent_high_watermark",
        "sent_log_start",
        "session",
    )

    def __init__(self, session: "FetchSession", key: TopicKey, index: int) -> None:
        self.is_dirty = True
        self.session = session
        self.key = key
        self.index = index
        self.partition: Partition | None = None
        self.is_watching = False  # stands in a partition's list of readers
        self.fetch_offset = -1
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.follower_log_start = -1
        self.max_bytes = 0
        self.has_moved = True  # named by the fetch being handled: a follower's position to be noted
        self.has_more = False  # there was something to say, or more than there was room for
        self.is_refused = False  # the last read ended in an error, or found the logs diverging
        self.role = (-1, False)  # leader epoch and leadership of the partition at the last read
        self.seen_bytes = 0  # what the last read brought
        self.sent_high_watermark = -1
        self.sent_log_start = -1

    @property
    def has_newer_high_watermark(self) -> bool:
        """Its reader does not know how far the partition is committed, or where it begins."""
        partition = self.partition
        return partition is not None and (
            partition.high_watermark != self.sent_high_watermark
            or partition.log.log_start_offset != self.sent_log_start
        )

    def wake(self) -> None:
        self.is_dirty = True
        session = self.session
        session.pending[self] = session.changed[self] = None
        if session.parked is not None:
            session.purgatory.wake(session.parked)

    def on_high_watermark(self, now_ms: int) -> None:
        session = self.session
        session.pending[self] = None
        if session.parked is not None:
            session.parked.on_high_watermark(now_ms)

    def watch(self, partition: Partition) -> None:
        """Be told when the partition may have something for this reader."""
        if self.is_watching:
            if self.partition is partition:
                return
            self.unwatch()
        self.partition = partition
        self.is_watching = True
        if self.session.replica_id >= 0:
            partition.follower_readers[self] = None
        else:
            partition.consumer_readers[self] = None

    def unwatch(self) -> None:
        partition = self.partition
        if partition is None or not self.is_watching:
            return
        self.is_watching = False
        if self.session.replica_id >= 0:
            partition.follower_readers.pop(self, None)
            partition.follower_left(BrokerId(self.session.replica_id), self.session)
        else:
            partition.consumer_readers.pop(self, None)


class FetchSession(FetchSource):
    """`pending` are the partitions to read; the others have nothing new, and will say when they have. `changed`: those that
    have said so since all that was pending was read.

    `is_full`: the answer names every partition, new or not (the first of a session, and every one without).
    """

    __slots__ = (
        "by_id",
        "changed",
        "counted",
        "created_ms",
        "doubted",
        "epoch",
        "id",
        "is_full",
        "parked",
        "pending",
        "purgatory",
        "replica_epoch",
        "replica_id",
        "used_ms",
        "wanted",
    )

    def __init__(
        self,
        session_id: int,
        *,
        replica_id: int,
        replica_epoch: BrokerEpoch,
        by_id: bool,
        purgatory: Purgatory,
        now_ms: int,
    ) -> None:
        super().__init__()
        self.id = session_id
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.by_id = by_id
        self.purgatory = purgatory
        self.epoch = 1
        self.is_full = True
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.wanted: dict[tuple[TopicKey, int], WantedPartition] = {}
        self.counted = 0  # how many of them its cache has counted
        self.pending: dict[WantedPartition, None] = {}
        self.changed: dict[WantedPartition, None] = {}
        # Of which another source has told since where the follower stands: each is named by the next fetch as it is.
        self.doubted: dict[WantedPartition, None] = {}
        self.parked: ParkedFetch | None = None

    def want(
        self,
        key: TopicKey,
        index: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        follower_log_start: int,
        max_bytes: int,
    ) -> WantedPartition:
        wanted = self.wanted.get((key, index))
        if wanted is None:
            wanted = self.wanted[key, index] = WantedPartition(self, key, index)
        elif current_leader_epoch != wanted.current_leader_epoch:
            # A follower that begins a leader epoch drops what is under way from the one before, and with it perhaps
            # the only word of the high watermark.
            wanted.sent_high_watermark = wanted.sent_log_start = -1
        wanted.current_leader_epoch = current_leader_epoch
        wanted.fetch_offset = fetch_offset
        wanted.last_fetched_epoch = last_fetched_epoch
        wanted.follower_log_start = follower_log_start
        wanted.max_bytes = max_bytes
        wanted.has_moved = True
        wanted.is_dirty = True
        self.pending[wanted] = None
        return wanted

    def forget(self, key: TopicKey, index: int) -> None:
        wanted = self.wanted.pop((key, index), None)
        if wanted is not None:
            self.pending.pop(wanted, None)
            self.changed.pop(wanted, None)
            self.doubted.pop(wanted, None)
            wanted.unwatch()

    def watch(self) -> None:
        """For a fetch without a session, when it is parked. In a session each partition is watched from its first read on,
        so that parking costs nothing for those that did not change."""
        for wanted in self.wanted.values():
            if wanted.partition is not None:
                wanted.watch(wanted.partition)

    def note_again(self, partition: Replica) -> None:
        topic, index = partition.topic_partition
        wanted = self.wanted.get((partition.topic_id if self.by_id else topic, index))
        if wanted is not None:
            self.doubted[wanted] = None

    def registered_anew(self, replica_epoch: BrokerEpoch) -> None:
        """Where this life of the follower stands is noted of all its partitions: it need not name those that did not move
        (Apache's does not), and would not be let into their ISRs on the word of the life before (KIP-903)."""
        self.replica_epoch = replica_epoch
        self.doubted.update(dict.fromkeys(self.wanted.values()))

    def fetched_again(self) -> None:
        """The reader lives: what was told of it over another connection was not the last word."""
        for wanted in self.doubted:
            wanted.has_moved = wanted.is_dirty = True
            self.pending[wanted] = None
        self.doubted.clear()

    def next_epoch(self) -> None:
        self.epoch = 1 if self.epoch == INT32_MAX else self.epoch + 1

    def close(self) -> None:
        for wanted in self.wanted.values():
            wanted.unwatch()
        self.wanted.clear()
        self.pending.clear()
        self.changed.clear()
        self.doubted.clear()

    def close_some(self) -> bool:
        """A millisecond of it; whether there is more."""
        wanted = self.wanted
        if len(wanted) <= CLOSED_AT_ONCE:
            self.close()
            return False
        for _ in range(CLOSED_AT_ONCE):
            wanted.popitem()[1].unwatch()
        return True


class FetchSessionCache:
    """At most max.incremental.fetch.session.cache.slots sessions, with MOST_PARTITIONS in them. A follower's is never put out by a
    consumer's."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0  # Invariant: the sum of `counted`

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def remove(self, session_id: int, now_ms: int) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            self._let_go(session)
            while session.parked is not None:
                session.purgatory.cut_short(session.parked, now_ms)
            session.close()

    def of_follower_gone(self, connection_id: int) -> list[FetchSession]:
        """That connection is closed: its sessions, taken out and to be closed. A follower begins anew over another one, ours and
        Apache's, and its next life knows of none: they would stay, each among the readers of its partitions, until there is
        room for no other.
        """
        gone = [
            session
            for session in self._sessions.values()
            if session.connection_id == connection_id and session.replica_id >= 0
        ]
        for session in gone:
            assert session.parked is None, "its fetch has left with the connection"
            self._let_go(session)
        return gone

    def _let_go(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        self.takes_back(session)

    def has_room(self, *, for_follower: bool, now_ms: int) -> bool:
        """Makes room if it may: by a session long unused, or for a follower by a consumer's."""
        return len(self._sessions) < self.slots or self._put_one_out(for_follower=for_follower, now_ms=now_ms)

    def _put_one_out(self, *, for_follower: bool, now_ms: int) -> bool:
        # In order of use, as far as `touch` has kept it.
        for session in self._sessions.values():
            is_stale = now_ms - session.used_ms > MIN_EVICTION_MS
            if session.parked is None and (is_stale or (for_follower and session.replica_id < 0)):
                self.remove(session.id, now_ms)
                return True
        return False

    def keeps(self, session: FetchSession, now_ms: int) -> bool:
        """Whether there is room for all that it has by now. Else it is none of the cache's any more: who asks is answered without
        a session."""
        self._partitions += len(session.wanted) - session.counted
        session.counted = len(session.wanted)
        for_follower = session.replica_id >= 0
        while self._partitions > MOST_PARTITIONS:
            if not self._put_one_out(for_follower=for_follower, now_ms=now_ms):
                self._let_go(session)
                return False
        return True

    def lends(self, session: FetchSession) -> bool:
        """Whether a consumer's fetch without a session may wait: there is room for all that it wants, until `takes_back`."""
        if self._partitions + len(session.wanted) - session.counted > MOST_PARTITIONS:
            return False
        self._partitions += len(session.wanted) - session.counted
        session.counted = len(session.wanted)
        return True

    def takes_back(self, session: FetchSession) -> None:
        self._partitions -= session.counted
        session.counted = 0

    def add(self, session: FetchSession) -> None:
        self._sessions[session.id] = session

    def touch(self, session: FetchSession, now_ms: int) -> None:
        session.used_ms = now_ms
        if len(self._sessions) >= self.slots:  # order matters only when there is no room
            self._sessions[session.id] = self._sessions.pop(session.id)

    def __len__(self) -> int:
        return len(self._sessions)
