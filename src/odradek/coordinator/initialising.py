"""InitProducerId with a transactional id: a new epoch fences whoever had the id before.

An owner that names the id and epoch it has gets the next epoch (KIP-360), and the same again if it repeats that. What
is open is aborted first, in an epoch nobody is ever told; the client comes again (CONCURRENT_TRANSACTIONS) and gets
the epoch behind it. After the last epoch the id goes on under another producer id.
"""

from typing import NamedTuple

from odradek.coordinator.ending import abort_from_here
from odradek.coordinator.events import Asked
from odradek.coordinator.transaction_checks import (
    FIRST_WITH_FENCED_INIT,
    fenced_as,
    told_of_transaction,
    why_busy,
)
from odradek.coordinator.transaction_records import (
    NEVER_MS,
    NO_EPOCH,
    NO_PRODUCER_ID,
    StoredTransaction,
)
from odradek.coordinator.transaction_room import Room
from odradek.coordinator.transaction_settings import LAST_EPOCH
from odradek.coordinator.transaction_states import AT_REST, TransactionState
from odradek.model.error_codes import ErrorCode
from odradek.model.values import dataclass
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class Known(NamedTuple):
    """What a producer says it has."""

    producer_id: int
    epoch: int


class Turn(NamedTuple):
    """The next epoch of an id: under which producer id, and what its owner had before if it made the bump itself."""

    producer_id: int
    epoch: int
    last_epoch: int
    previous_producer_id: int


def refused(version: int, error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=fenced_as(version, error, FIRST_WITH_FENCED_INIT), producer_epoch=NO_EPOCH
    )


def why_not_sensible(request: InitProducerIdRequest, max_timeout_ms: int) -> ErrorCode:
    """What can be told without asking the coordinator."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def init_producer_id(room: Room, asked: Asked, request: InitProducerIdRequest, now_ms: int) -> None:
    name = request.transactional_id or ""
    error = why_not_sensible(request, room.settings.max_timeout_ms) or why_busy(room, name)
    if error:
        return room.answer(asked.call, refused(asked.version, error))
    known = None
    if request.producer_id != NO_PRODUCER_ID:
        known = Known(request.producer_id, request.producer_epoch)
    value = room.stored.by_id.get(name)
    if value is not None and known is not None and not _is_of(known, value):
        return room.answer(asked.call, refused(asked.version, ErrorCode.PRODUCER_FENCED))
    if value is not None and value.state not in AT_REST:
        return abort_from_here(room, name, value, Fenced(asked), now_ms)
    turn = _next(room, value, known, room.last_epochs.get(name, NO_EPOCH))
    if isinstance(turn, ErrorCode):
        return room.answer(asked.call, refused(asked.version, turn))
    begun = StoredTransaction(
        turn.producer_id,
        turn.epoch,
        request.transaction_timeout_ms,
        TransactionState.EMPTY,
        frozenset(),
        now_ms,
        NEVER_MS,
        turn.previous_producer_id,
        client_version=0 if value is None else value.client_version,
    )
    room.write(name, begun, turn.last_epoch, Initialised(asked, begun), now_ms)
    return None


def _is_of(known: Known, value: StoredTransaction) -> bool:
    """The producer id of now; or the one before it, whose last epoch was given out."""
    is_before = known.producer_id == value.previous_producer_id and known.epoch >= LAST_EPOCH
    return known.producer_id == value.producer_id or is_before


def _next(
    room: Room, value: StoredTransaction | None, known: Known | None, last_epoch: int
) -> Turn | ErrorCode:
    if value is None:
        return _under_a_new_id(room, NO_EPOCH, NO_PRODUCER_ID)
    if value.epoch >= LAST_EPOCH and (known is None or known.epoch == value.epoch):
        return _under_a_new_id(room, NO_EPOCH if known is None else known.epoch, value.producer_id)
    before = value.previous_producer_id
    if known is None:
        return Turn(value.producer_id, value.epoch + 1, NO_EPOCH, before)
    if known.epoch == value.epoch:
        return Turn(value.producer_id, value.epoch + 1, value.epoch, before)
    if known.epoch == last_epoch:
        if value.epoch > LAST_EPOCH:
            return _under_a_new_id(room, known.epoch, value.producer_id)
        return Turn(value.producer_id, value.epoch, last_epoch, before)
    return ErrorCode.PRODUCER_FENCED


def _under_a_new_id(room: Room, last_epoch: int, previous_producer_id: int) -> Turn | ErrorCode:
    producer_id = room.take_producer_id()
    if producer_id is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return Turn(producer_id, 0, last_epoch, previous_producer_id)


@dataclass(frozen=True, slots=True)
class Initialised:
    asked: Asked
    value: StoredTransaction

    def committed(self, room: Room, now_ms: int) -> None:
        response = InitProducerIdResponse(producer_id=self.value.producer_id, producer_epoch=self.value.epoch)
        room.answer(self.asked.call, response)

    def failed(self, room: Room, error: ErrorCode, now_ms: int) -> None:
        room.answer(self.asked.call, refused(self.asked.version, told_of_transaction(error)))


@dataclass(frozen=True, slots=True)
class Fenced:
    """What was open is being aborted; who asked has to come again."""

    asked: Asked

    def committed(self, room: Room, now_ms: int) -> None:
        room.answer(self.asked.call, refused(self.asked.version, ErrorCode.CONCURRENT_TRANSACTIONS))

    def failed(self, room: Room, error: ErrorCode, now_ms: int) -> None:
        room.answer(self.asked.call, refused(self.asked.version, told_of_transaction(error)))
