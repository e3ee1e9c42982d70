"""What every request of a transaction's owner is asked first, and how errors are told to older clients."""

from odradek.coordinator.transaction_records import NO_PRODUCER_ID, StoredTransaction
from odradek.coordinator.transaction_room import Room
from odradek.coordinator.transaction_states import PREPARED
from odradek.model.error_codes import ErrorCode

# First versions that know PRODUCER_FENCED (KIP-588); older ones hear INVALID_PRODUCER_EPOCH.
FIRST_WITH_FENCED_ADD = 2
FIRST_WITH_FENCED_INIT = 4

_TOLD = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def told_of_transaction(error: ErrorCode) -> ErrorCode:
    """Of a record that was refused, or not committed in time."""
    return _TOLD.get(error, error)


def fenced_as(version: int, error: ErrorCode, first_with_fenced: int = FIRST_WITH_FENCED_ADD) -> ErrorCode:
    is_old = error == ErrorCode.PRODUCER_FENCED and version < first_with_fenced
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old else error


def why_not_owner(value: StoredTransaction | None, producer_id: int, epoch: int) -> ErrorCode:
    """An epoch that is ahead is nobody's either. Who was told of another producer id with the decision has that from there on, and
    is not fenced while the markers of the former one are on their way."""
    if value is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    goes_on = value.state in PREPARED and value.next_producer_id != NO_PRODUCER_ID
    if goes_on and (producer_id, epoch) == (value.next_producer_id, 0):
        return ErrorCode.NONE
    if value.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if value.epoch == epoch else ErrorCode.PRODUCER_FENCED


def why_busy(room: Room, transactional_id: str) -> ErrorCode:
    """Between a decision and its last marker nobody may change the id."""
    value = room.stored.by_id.get(transactional_id)
    is_busy = room.pending(transactional_id) is not None or (value is not None and value.state in PREPARED)
    return ErrorCode.CONCURRENT_TRANSACTIONS if is_busy else ErrorCode.NONE
