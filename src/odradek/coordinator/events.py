"""What a coordinator is told. Each is one `step`."""

from odradek.coordinator.asides import Assigned, Resolved
from odradek.coordinator.member import Client
from odradek.model.error_codes import ErrorCode
from odradek.model.values import dataclass
from odradek.protocol.schema import Request


@dataclass(frozen=True, slots=True)
class Asked:
    """A client's request; `call` is the asker's name for it, and comes back in its one `Answer`.

    `unique`: the part of a member id that was never used before (a uuid).
    """

    call: int
    version: int
    client: Client
    request: Request
    unique: str


@dataclass(frozen=True, slots=True)
class Committed:
    """The append stands below the high watermark; its first record has this offset."""

    append_id: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class AppendFailed:
    append_id: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A marker in this partition is committed."""

    producer_id: int
    is_commit: bool


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed: `next_deadline_ms` was reached."""


@dataclass(frozen=True, slots=True)
class Unloaded:
    """The partition is led elsewhere now; nothing may be appended any more."""


Event = (
    Asked
    | Committed
    | AppendFailed
    | TransactionEnded
    | TopicsDeleted
    | Assigned
    | Resolved
    | Tick
    | Unloaded
)
