"""A small cluster as plain values: three replicas of one partition, the controller, what is in flight.

Values are hashable and know how to be renamed: brokers are interchangeable (the first replica of the assignment is
left open, see `controller_steps`), so a state and the same state with other names count once.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from odradek.log.leader_epochs import EpochEntry, LeaderEpochs
from odradek.model.ids import BrokerId, TopicId, TopicPartition
from odradek.replication.followed import FETCHING
from odradek.replication.isr import PendingExpandIsr

TP = TopicPartition("explored", 0)
TOPIC_ID = TopicId(bytes(15) + b"\1")
NOBODY = -1

COMMITTED, PENDING_EXPAND, PENDING_SHRINK = 0, 1, 2

Names = tuple[int, ...]  # broker -> its name in the renamed state


class Record(NamedTuple):
    """Written once, by one leader in one epoch: `number` counts the writes of the whole cluster."""

    epoch: int
    number: int


class Follower(NamedTuple):
    """What a leader remembers of another replica."""

    broker: int
    log_end_offset: int
    has_fetched: bool
    broker_epoch: int
    proposed_epoch: int = -1  # the incarnation a pending proposal names


class ReplicaValue(NamedTuple):
    """One broker: its process, its disk, and the partition as its process has it."""

    is_alive: bool = True
    registered: int = 1  # epoch of its node in the store; 0: there is none
    broker_epoch: int = 1  # of its last registration, as it knows it
    controller_epoch: int = 0
    log: tuple[Record, ...] = ()
    epochs: tuple[EpochEntry, ...] = ()
    is_hosted: bool = False  # LeaderAndIsr has come since the process started
    high_watermark: int = 0
    is_leader: bool = False
    leader: int = NOBODY
    leader_epoch: int = -1
    partition_epoch: int = -1
    epoch_start: int = -1
    kind: int = COMMITTED
    isr: tuple[int, ...] = ()
    moving: tuple[int, ...] = ()  # joining or leaving
    followers: tuple[Follower, ...] = ()
    fetch_state: str = FETCHING
    asks: int = 1  # epoch of the controller it asks; counts only where two may act at once
    lost_life: int = 0  # the incarnation whose records went with the power
    leader_high_watermark_seen: int = (
        -1
    )  # what a follower remembers from one answer to the next, where that is looked at
    is_prefix: bool = False
    clean_epoch: int = -1  # the incarnation that its registration says it lost nothing of

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        if self.kind != PENDING_EXPAND:
            return self.isr
        state = PendingExpandIsr(tuple(map(BrokerId, self.isr)), tuple(map(BrokerId, self.moving)))
        return tuple(sorted(state.maximal_isr))

    def renamed(self, names: Names) -> "ReplicaValue":
        return self._replace(
            leader=names[self.leader] if self.leader >= 0 else self.leader,
            isr=_renamed(self.isr, names),
            moving=_renamed(self.moving, names),
            followers=tuple(sorted(f._replace(broker=names[f.broker]) for f in self.followers)),
        )

    def signature(self, broker: int) -> tuple[Any, ...]:
        """What can be said without names: equal for a replica and its renamed twin."""
        relation = self.leader if self.leader < 0 else (100 if self.leader == broker else 101)
        return (
            self[:9],
            relation,
            self[10:14],
            (len(self.isr), broker in self.isr),
            (len(self.moving), broker in self.moving),
            sorted(f[1:] for f in self.followers),
            self.fetch_state,
            self.asks,
            self.lost_life,
            self.leader_high_watermark_seen,
            self.is_prefix,
            self.clean_epoch,
        )


class Leadership(NamedTuple):
    """The state node."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    controller_epoch: int = 1
    isr_broker_epochs: tuple[int, ...] = ()
    elr_broker_epochs: tuple[int, ...] = ()

    @property
    def may_lead(self) -> tuple[int, ...]:
        """Of the ISR, without those in doubt (`eligible`)."""
        return tuple(member for member in self.isr if member not in self.last_known_elr)

    def renamed(self, names: Names) -> "Leadership":
        pairs = sorted(zip((names[b] for b in self.isr), self.isr_broker_epochs, strict=True))
        eligible = sorted(zip((names[b] for b in self.elr), self.elr_broker_epochs, strict=True))
        return self._replace(
            leader=names[self.leader] if self.leader >= 0 else self.leader,
            isr=tuple(b for b, _ in pairs),
            isr_broker_epochs=tuple(e for _, e in pairs),
            elr=tuple(b for b, _ in eligible),
            elr_broker_epochs=tuple(e for _, e in eligible),
            last_known_elr=_renamed(self.last_known_elr, names),
        )


Registered = tuple[tuple[int, int, int], ...]  # (broker, broker epoch, its clean epoch)


class Poll(NamedTuple):
    """The question what replicas hold that is open, and what was answered (`controller.unclean`). Between two questions nothing of
    the first is left that counts, so the first after a pause is number 1 again."""

    number: int
    asked: tuple[int, ...]
    ends: tuple[tuple[int, int, int], ...] = ()  # (broker, last epoch, log end offset)

    def renamed(self, names: Names) -> "Poll":
        ends = tuple(sorted((names[b], epoch, end) for b, epoch, end in self.ends))
        return self._replace(asked=_renamed(self.asked, names), ends=ends)


class Deposed(NamedTuple):
    """A controller that has not noticed that another was elected, and what it remembers. Its watches come in order,
    so of brokers it may still hear what was so when it was deposed, and nothing later."""

    epoch: int
    live: Registered
    stored: Leadership
    will_hear: Registered
    poll: Poll | None = None

    def renamed(self, names: Names) -> "Deposed":
        return self._replace(
            live=_named(self.live, names),
            will_hear=_named(self.will_hear, names),
            stored=self.stored.renamed(names),
            poll=None if self.poll is None else self.poll.renamed(names),
        )


class ControllerValue(NamedTuple):
    """Epoch and memory of the controller; `is_acting` False: it died and nobody was elected yet."""

    is_acting: bool
    epoch: int
    live: Registered  # as it knows them
    stored: Leadership
    deposed: Deposed | None = None
    stale_write: int = 0  # the term that was over when it wrote; 0: none ever
    poll: Poll | None = None

    def renamed(self, names: Names) -> "ControllerValue":
        return self._replace(
            live=_named(self.live, names),
            stored=self.stored.renamed(names),
            deposed=None if self.deposed is None else self.deposed.renamed(names),
            poll=None if self.poll is None else self.poll.renamed(names),
        )

    @property
    def lives(self) -> dict[int, int]:
        return {broker: epoch for broker, epoch, _ in self.live}

    def poll_of(self, controller_epoch: int) -> Poll | None:
        """What the one with this epoch has asked, if it still acts."""
        if self.is_acting and self.epoch == controller_epoch:
            return self.poll
        old = self.deposed
        return old.poll if old is not None and old.epoch == controller_epoch else None


# ------------------------------------------------------------------------------------------------- in flight


class LeaderAndIsrMessage(NamedTuple):
    kind: str
    to: int
    broker_epoch: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int

    def renamed(self, names: Names) -> "LeaderAndIsrMessage":
        leader = names[self.leader] if self.leader >= 0 else self.leader
        return self._replace(to=names[self.to], leader=leader, isr=_renamed(self.isr, names))


class FetchMessage(NamedTuple):
    kind: str
    source: int
    to: int
    leader_epoch: int
    offset: int
    last_epoch: int
    broker_epoch: int

    def renamed(self, names: Names) -> "FetchMessage":
        return self._replace(source=names[self.source], to=names[self.to])


class FetchAnswer(NamedTuple):
    kind: str
    source: int
    to: int
    leader_epoch: int
    asked_end: int
    high_watermark: int
    records: tuple[Record, ...]
    diverging: tuple[int, int] | None
    turn: int = 0  # 1: behind another answer on the same connection
    is_of_former_fetch: bool = False  # the follower has named another end since

    def renamed(self, names: Names) -> "FetchAnswer":
        return self._replace(source=names[self.source], to=names[self.to])


class AlterPartitionMessage(NamedTuple):
    kind: str
    source: int
    broker_epoch: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[tuple[int, int], ...]  # (broker, broker epoch)

    def renamed(self, names: Names) -> "AlterPartitionMessage":
        members = tuple(sorted((names[b], e) for b, e in self.new_isr))
        return self._replace(source=names[self.source], new_isr=members)


class AlterPartitionAnswer(NamedTuple):
    kind: str
    asked: AlterPartitionMessage
    error: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int

    def renamed(self, names: Names) -> "AlterPartitionAnswer":
        leader = names[self.leader] if self.leader >= 0 else self.leader
        return self._replace(asked=self.asked.renamed(names), leader=leader, isr=_renamed(self.isr, names))


class EndOffsetQuestion(NamedTuple):
    """What a broker holds, whichever life of it hears the question. `number`: of `Poll`."""

    kind: str
    to: int
    controller_epoch: int
    leader_epoch: int
    number: int

    def renamed(self, names: Names) -> "EndOffsetQuestion":
        return self._replace(to=names[self.to])


class EndOffsetAnswer(NamedTuple):
    kind: str
    source: int
    controller_epoch: int
    number: int
    last_epoch: int
    log_end_offset: int

    def renamed(self, names: Names) -> "EndOffsetAnswer":
        return self._replace(source=names[self.source])


Message = (
    LeaderAndIsrMessage
    | FetchMessage
    | FetchAnswer
    | AlterPartitionMessage
    | AlterPartitionAnswer
    | EndOffsetQuestion
    | EndOffsetAnswer
)


def _named(registered: Registered, names: Names) -> Registered:
    return tuple(sorted((names[b], epoch, clean) for b, epoch, clean in registered))


def _renamed(brokers: tuple[int, ...], names: Names) -> tuple[int, ...]:
    return tuple(sorted(names[b] for b in brokers))


# --------------------------------------------------------------------------------------------------- the log


class _Config:
    is_deleted = True


class _Appended(NamedTuple):
    base_offset: int
    last_offset: int
    size_bytes: int
    duplicate: bool


class _Read(NamedTuple):
    slices: tuple[Record, ...]
    size_bytes: int
    ends_early: bool = False


class TinyLog:
    """The part of `PartitionLog` that replication uses, over a tuple of records. Epochs are the production's."""

    config = _Config()
    topic_id = TOPIC_ID
    log_start_offset = 0
    recovery_point = 0
    failure = None  # a disk is lost as a whole, and never fails under its broker

    def __init__(self, records: tuple[Record, ...], epochs: tuple[EpochEntry, ...]) -> None:
        self.records = records
        self.epochs = LeaderEpochs(epochs)

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        self.epochs.assign(epoch, start_offset)

    def configure(self, config: Any) -> None:
        """Settings of topics are not explored."""

    def note_high_watermark(self, high_watermark: int) -> None:
        """Transactions are not explored."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset(epoch, self.log_end_offset)

    def append_as_leader(
        self, records: Any, *, leader_epoch: int, now_ms: int, **_of_a_producer: Any
    ) -> _Appended:
        """`records` is the number of the write."""
        base_offset = len(self.records)
        self.epochs.assign(leader_epoch, base_offset)
        self.records = (*self.records, Record(leader_epoch, records))
        return _Appended(base_offset, base_offset, 1, False)

    def append_as_follower(self, records: tuple[Record, ...], *, now_ms: int, leader_epoch: int) -> None:
        for record in records:
            if record.epoch > self.epochs.latest:
                self.epochs.assign(record.epoch, len(self.records))
            self.records = (*self.records, record)

    def read(self, offset: int, *, upper_bound_offset: int, **_of_a_size: Any) -> _Read:
        found = self.records[offset:upper_bound_offset]
        return _Read(found, len(found))

    def check_batch(self, offset: int) -> None:
        """Nothing turns bits here."""

    def truncating_to(self, offset: int, now_ms: int) -> Iterator[None]:
        if offset < len(self.records):
            self.records = self.records[:offset]
            self.epochs.truncate_from_end(offset)
        return iter(())

    def preparing_cut(self, offset: int, log_start_offset: int) -> Iterator[None]:
        """There are no checkpoints here."""
        return iter(())

    def restarting_at(self, offset: int, now_ms: int) -> Iterator[None]:
        assert offset == 0, "nothing is ever deleted here"
        self.records = ()
        self.epochs.truncate_from_end(0)
        return iter(())

    def last_stable_offset(self, high_watermark: int) -> int:
        return high_watermark
