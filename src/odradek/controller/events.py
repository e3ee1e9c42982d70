"""Events: everything that can happen to a controller. `core.step(event, now_ms)` is the only way in.

An event is a value: it can be stored, compared, printed, replayed. A request of a broker or an
administrator therefore carries a `request_id` and is answered by the effect `Answer(request_id, ...)`,
never by a function kept inside the event.

Facts of the store (`BrokersChanged`, `TopicsChanged`, ...) stand in `odradek.model.facts`, what is asked in
`odradek.model.controller_requests`.
"""

from collections.abc import Mapping

from odradek.controller.broker_requests import LeaderAndIsrPartition
from odradek.model.controller_requests import ControllerAsk
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import Fact, MetadataLoaded
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from odradek.model.values import dataclass, field

# ------------------------------------------------------------------- becoming and ceasing to be controller


@dataclass(frozen=True, slots=True)
class Elected:
    """We created `/controller` and raised `/controller_epoch` in one transaction; then read everything.

    `epoch_version` is the store version of `/controller_epoch`: every later write checks it (KAFKA-6082).
    """

    broker: BrokerId
    controller_epoch: ControllerEpoch
    epoch_version: int
    snapshot: MetadataLoaded
    id_seed: bytes = b""  # 16 random bytes of the shell; ids we give are derived from them, so replay agrees


@dataclass(frozen=True, slots=True)
class Resigned:
    """Somebody else is controller, our session ended, or the process stops: forget everything (row 145)."""

    reason: str


# --------------------------------------------------------------------------------- answers of the store


@dataclass(frozen=True, slots=True)
class Stored:
    """The write happened; the node now has this version."""

    version: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """The node was not as expected. `current` is what it holds, decoded as the fact it is, None if missing.

    The type follows the write: `StoredPartitionState`, `TopicAssignment`, `ProducerIdBlock`, or
    `UnreadableNode`.
    """

    current: object | None


@dataclass(frozen=True, slots=True)
class Fenced:
    """`/controller_epoch` is not at our version: somebody else is controller. Nothing was written."""


WriteAnswer = Stored | Conflict | Fenced


@dataclass(frozen=True, slots=True)
class WritesAnswered:
    """One answer for each write of the last `Effects`, in the same order."""

    answers: tuple[WriteAnswer, ...]


# ------------------------------------------------------------------------------------ answers of brokers


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered:
    """A broker answered LeaderAndIsr. `error` is the request's own; only failed partitions are listed.

    STALE_CONTROLLER_EPOCH of a single partition acknowledges an epoch the broker had already (row 147).
    `told` is the `partitions` of the request itself, the same object.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    error: ErrorCode
    partition_errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)
    told: tuple[LeaderAndIsrPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateMetadataAnswered:
    broker: BrokerId
    broker_epoch: BrokerEpoch
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered:
    """A broker answered StopReplica. Every partition of the request is listed, with NONE where it worked.

    `deleted` names those whose request asked for deletion. `number` is that of the request; None in journals that are
    older than the numbers.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    error: ErrorCode
    partition_errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)
    deleted: frozenset[TopicPartition] = frozenset()
    number: int | None = None


@dataclass(frozen=True, slots=True)
class TellingsLost:
    """Of what this incarnation was to be told since some moment nothing has reached it, nor will: it did not answer, and too much
    waited (`server.outboxes`). All that was sent before has been answered, and it can be told again."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


# ------------------------------------------------------------------------- requests of brokers and clients


@dataclass(frozen=True, slots=True)
class Requested:
    """A broker or an administrator asks; answered by `effects.Answer` with the same `request_id`."""

    request_id: int
    body: ControllerAsk


@dataclass(frozen=True, slots=True)
class ReassignmentStep:
    """Go on with these reassignments. The core asks for it itself (`Effects.follow_up`): each phase is an event
    of its own, because each is kept in the store. `announce`: tell everybody, with a new leader epoch."""

    partitions: tuple[TopicPartition, ...]
    announce: bool = False


# --------------------------------------------------------------------------------------------------- time


@dataclass(frozen=True, slots=True)
class Tick:
    """The time asked for by `core.next_deadline_ms()` has come; `now_ms` stands in the call of `step`."""


@dataclass(frozen=True, slots=True)
class EndOffsetsAnswered:
    """What a survivor of an offline partition holds: its last epoch (-1 unknown) and its log end offset.

    The answer to the effect `AskEndOffsets`; a broker that cannot be asked is simply missing. `number` is that of the question;
    None in journals that are older than the numbers.
    """

    broker: BrokerId
    ends: Mapping[TopicPartition, tuple[LeaderEpoch, Offset]]
    number: int | None = None


Event = (
    Elected
    | Resigned
    | WritesAnswered
    | LeaderAndIsrAnswered
    | UpdateMetadataAnswered
    | StopReplicaAnswered
    | TellingsLost
    | Requested
    | ReassignmentStep
    | Tick
    | EndOffsetsAnswered
    | Fact
)
