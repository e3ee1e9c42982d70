"""The states of a transactional id, and what may follow which.

| state | promise |
|---|---|
| Empty | the owner has its epoch and nothing is open |
| Ongoing | partitions may hold records that are not decided |
| PrepareCommit, PrepareAbort | decided, and whoever loads it carries it out: every partition gets its marker |
| CompleteCommit, CompleteAbort | every partition has its marker |
"""

from enum import IntEnum


class TransactionState(IntEnum):
    """By the byte in the record. Dead and PrepareEpochFence are never written."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        return "".join(part.capitalize() for part in self.name.split("_"))


_S = TransactionState
PREPARED = {_S.PREPARE_COMMIT: _S.COMPLETE_COMMIT, _S.PREPARE_ABORT: _S.COMPLETE_ABORT}
# Nothing is open: another transaction may begin, and an idle id may be forgotten.
AT_REST = frozenset((_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT))
BY_TITLE = {state.title: state for state in _S}

# It does not hold the state of an id that is loaded: that is whatever its last record says.
_MOVES: dict[TransactionState | None, frozenset[TransactionState]] = {
    None: frozenset((_S.EMPTY,)),
    _S.EMPTY: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT)),
    _S.ONGOING: frozenset((_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT)),
    _S.PREPARE_COMMIT: frozenset((_S.COMPLETE_COMMIT,)),
    _S.PREPARE_ABORT: frozenset((_S.COMPLETE_ABORT,)),
    _S.COMPLETE_COMMIT: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT)),
    _S.COMPLETE_ABORT: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT)),
}


def check_transition(transactional_id: str, old: TransactionState | None, new: TransactionState) -> None:
    """`old` None: there was no such id. A move that is not in the table is our own mistake."""
    legal = _MOVES.get(old, frozenset())
    if new not in legal:
        came = "nothing" if old is None else old.title
        raise AssertionError(
            f"{transactional_id}: {came} -> {new.title}; legal: {', '.join(sorted(one.title for one in legal))}"
        )
