"""The values of the search over transactions: two partitions, the coordinator's log, two producers of one transactional id."""

from typing import NamedTuple

from odradek.coordinator.transaction_records import StoredTransaction

PARTITIONS = (0, 1)
DATA, COMMIT, ABORT = "data", "commit", "abort"
NONE = -1


class TransactionScope(NamedTuple):
    """How far things may go. Everything within it is searched."""

    attempts: tuple[int, ...] = (2, 1)  # transactions of each producer
    crashes: int = 1  # of the broker that coordinates; the other one does then
    lost_connections: int = 1  # of a producer: what it asked for is still on its way
    time_outs: int = 1  # of what is open
    bumps: bool = False  # `transaction.version` 2, and clients that go by it


class Entry(NamedTuple):
    """Of a partition's log: a batch of one attempt of one producer, or a marker."""

    kind: str
    epoch: int
    producer: int = NONE
    attempt: int = NONE
    sequence: int = NONE
    coordinator_epoch: int = NONE


class Verified(NamedTuple):
    """What the leader remembers of a question it asked. It forgets with the next entry of its log, so what was begun at the same
    end of the log is the same question."""

    begun_at: int
    epoch: int
    leader_epoch: int
    sequence: int

    def is_same(self, other: "Verified | None") -> bool:
        return other is not None and self[:3] == other[:3]


class Place(NamedTuple):
    """A partition, at its leader."""

    leader_epoch: int = 0
    log: tuple[Entry, ...] = ()
    verified: Verified | None = None
    added: tuple[int, int] | None = (
        None  # in which epochs, of the producer and its own, it had the open transaction added
    )


class Producer(NamedTuple):
    """`step`: what it does next, or waits for while `is_asking`. `fates`: of each attempt, as it was told."""

    step: str = "init"
    is_asking: bool = False
    epoch: int = NONE
    attempt: int = 0
    sequences: tuple[int, int] = (0, 0)
    aborts: bool = False
    is_in_doubt: bool = False
    fates: tuple[str, ...] = ()


class Request(NamedTuple):
    """Of a producer, on its way. `is_late`: nobody waits for its answer any more."""

    producer: int
    kind: str  # init, add, data, end
    epoch: int
    place: int = NONE
    sequence: int = NONE
    attempt: int = NONE
    is_commit: bool = False
    is_late: bool = False


class Question(NamedTuple):
    """A leader asks whether its partition is in the transaction, or has it added; the batch waits. `call`: the coordinator
    writes it down."""

    batch: Request
    verified: Verified
    call: int = NONE
    attempts: int = 1  # left, this one too


class Verdict(NamedTuple):
    """... and is told."""

    batch: Request
    verified: Verified
    error: int
    attempts: int = 1


class Marker(NamedTuple):
    place: int
    epoch: int
    is_commit: bool
    coordinator_epoch: int


Message = Request | Question | Verdict | Marker


class Tail(NamedTuple):
    """Appended to the coordinator's log, and not committed yet."""

    append_id: int
    value: StoredTransaction


class TransactionState(NamedTuple):
    coordinator: int  # number of its value
    epoch: int  # of the coordinator: how often it moved
    stored: StoredTransaction | None
    tail: Tail | None
    places: tuple[Place, ...]
    producers: tuple[Producer, ...]
    messages: frozenset[Message]
    crashes: int = 0
    lost_connections: int = 0
    time_outs: int = 0
    fenced_below: int = 0  # the highest epoch a producer was given
