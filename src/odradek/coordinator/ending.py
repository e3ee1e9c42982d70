"""EndTxn: the decision. It is answered when the decision is committed; the markers follow from it.

From version 5 on (`transaction.version` 2) each end raises the epoch, which fences in the logs whatever the owner sent
before it; a repeated request is known by the epoch before. What is aborted from here - by a time-out, or because
somebody else takes the id - raises it in every version.
"""

from odradek.coordinator.events import Asked
from odradek.coordinator.transaction_checks import (
    fenced_as,
    told_of_transaction,
    why_not_owner,
)
from odradek.coordinator.transaction_records import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    StoredTransaction,
)
from odradek.coordinator.transaction_room import After, Room
from odradek.coordinator.transaction_settings import EPOCH_OF_NOBODY, LAST_EPOCH
from odradek.coordinator.transaction_states import PREPARED, TransactionState
from odradek.model.error_codes import ErrorCode
from odradek.model.values import dataclass
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FIRST_THAT_BUMPS = 5
BUMPING_CLIENT = 2


def end_txn(room: Room, asked: Asked, request: EndTxnRequest, now_ms: int) -> None:
    name = request.transactional_id
    value = room.stored.by_id.get(name)
    bumps = asked.version >= FIRST_THAT_BUMPS
    error = ErrorCode.NONE if name else ErrorCode.INVALID_REQUEST
    is_again = bumps and value is not None and _is_again(value, request)
    if not error and not is_again:
        error = why_not_owner(value, request.producer_id, request.producer_epoch)
    if not error and (room.pending(name) is not None or (value is not None and value.state in PREPARED)):
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    if error or value is None:
        return room.answer(asked.call, _refused(asked, error))
    outcome = _outcome(value, request.committed, bumps=bumps, is_again=is_again)
    if isinstance(outcome, ErrorCode):
        response = _refused(asked, outcome) if outcome else _ended(asked, value)
        return room.answer(asked.call, response)
    return _decide(room, asked, name, value, outcome, bumps=bumps, now_ms=now_ms)


def _is_again(value: StoredTransaction, request: EndTxnRequest) -> bool:
    """Its answer was lost: the owner still has the epoch before, or the producer id before that."""
    if request.producer_id == value.producer_id:
        return request.producer_epoch == value.epoch - 1
    was_last = request.producer_epoch == LAST_EPOCH and value.epoch == 0
    return was_last and request.producer_id == value.previous_producer_id


def _outcome(
    value: StoredTransaction, is_commit: bool, *, bumps: bool, is_again: bool
) -> TransactionState | ErrorCode:
    """The state to go to; or NONE where it is there already, or why not."""
    state = value.state
    if state is TransactionState.ONGOING and not is_again:
        return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
    result = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    if not bumps:
        return ErrorCode.NONE if state is result else ErrorCode.INVALID_TXN_STATE
    if is_again:
        if state is result:
            return ErrorCode.PRODUCER_FENCED if value.epoch > LAST_EPOCH else ErrorCode.NONE
        # An epoch behind, and no transaction ended with it: it was taken from its owner.
        is_ended = state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
        return ErrorCode.INVALID_TXN_STATE if is_ended else ErrorCode.PRODUCER_FENCED
    # A client cannot know whether its first write came here, so it may abort what never began.
    return ErrorCode.INVALID_TXN_STATE if is_commit else TransactionState.PREPARE_ABORT


def _decide(
    room: Room,
    asked: Asked,
    name: str,
    value: StoredTransaction,
    state: TransactionState,
    *,
    bumps: bool,
    now_ms: int,
) -> None:
    began_here = value.state is not TransactionState.ONGOING
    decided = value._replace(state=state, updated_at_ms=now_ms, client_version=BUMPING_CLIENT if bumps else 0)
    if began_here:
        decided = decided._replace(started_at_ms=now_ms)
    last_epoch = room.last_epochs.get(name, NO_EPOCH)
    if bumps:
        next_id = NO_PRODUCER_ID
        if value.epoch >= LAST_EPOCH:
            found = room.take_producer_id()
            if found is None:
                return room.answer(asked.call, _refused(asked, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            next_id = found
        last_epoch = value.epoch
        decided = decided._replace(epoch=min(value.epoch + 1, EPOCH_OF_NOBODY), next_producer_id=next_id)
    room.write(name, decided, last_epoch, Decided(asked, decided), now_ms)
    return None


def abort_from_here(room: Room, name: str, value: StoredTransaction, after: After, now_ms: int) -> None:
    """What is open, in the next epoch. With `transaction.version` 2 its owner may go on in that one; below it the epoch
    is nobody's, and the owner is fenced."""
    owner_goes_on = room.transaction_version() >= BUMPING_CLIENT
    next_id = None
    if owner_goes_on and value.epoch >= LAST_EPOCH:
        next_id = room.take_producer_id()  # without one the owner is fenced: an abort waits for nothing
    aborted = value._replace(
        state=TransactionState.PREPARE_ABORT,
        epoch=min(value.epoch + 1, EPOCH_OF_NOBODY),
        updated_at_ms=now_ms,
        next_producer_id=NO_PRODUCER_ID if next_id is None else next_id,
        client_version=BUMPING_CLIENT if owner_goes_on else 0,
    )
    room.write(name, aborted, value.epoch if owner_goes_on else NO_EPOCH, after, now_ms)


def _refused(asked: Asked, error: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=fenced_as(asked.version, error))


def _ended(asked: Asked, value: StoredTransaction) -> EndTxnResponse:
    if asked.version < FIRST_THAT_BUMPS:
        return EndTxnResponse()
    if value.next_producer_id != NO_PRODUCER_ID:
        return EndTxnResponse(producer_id=value.next_producer_id, producer_epoch=0)
    return EndTxnResponse(producer_id=value.producer_id, producer_epoch=value.epoch)


@dataclass(frozen=True, slots=True)
class Decided:
    asked: Asked
    value: StoredTransaction

    def committed(self, room: Room, now_ms: int) -> None:
        room.answer(self.asked.call, _ended(self.asked, self.value))

    def failed(self, room: Room, error: ErrorCode, now_ms: int) -> None:
        room.answer(self.asked.call, _refused(self.asked, told_of_transaction(error)))
