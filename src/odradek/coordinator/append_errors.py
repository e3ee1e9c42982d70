"""What a client hears where the append of its records was refused, or its time ran out."""

from odradek.model.error_codes import ErrorCode

# Whoever waits hears it at once; the records stand in the log and may be committed all the same, and what becomes of
# them comes as a second event.
UNDECIDED = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
_TOLD = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
_TOO_LARGE = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
)


def told_of_group(error: ErrorCode) -> ErrorCode:
    """Of group metadata: a group that does not fit a record can never become stable."""
    if error in _TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if error == ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return _TOLD.get(error, error)


def told_of_consumer_group(error: ErrorCode) -> ErrorCode:
    """Of a group of KIP-848: whoever asks again is told what became of it."""
    if error == ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return told_of_group(error)


def told_of_offsets(error: ErrorCode) -> ErrorCode:
    """Of committed offsets; after REQUEST_TIMED_OUT the records may stand all the same."""
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error in _TOO_LARGE else _TOLD.get(error, error)
