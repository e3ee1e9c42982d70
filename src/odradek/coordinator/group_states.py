"""The states of a classic group, what moves it, and what a request hears in each: the tables are the code.

A state is a name and a promise:

- Empty: no members. Offsets may be committed by whoever names no generation.
- PreparingRebalance: members are joining; those parked in JoinGroup are waited for, and a deadline runs.
- CompletingRebalance: every member of this generation was told its leader, whose assignment is awaited or being
  written; members that asked for it are parked in SyncGroup.
- Stable: the assignment of this generation is stored; nobody is parked.
- Dead: the group's removal is being written. It ends in no group, or in Empty when the append fails.
"""

from enum import Enum

from odradek.model.error_codes import ErrorCode


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# State -> {next state: what moves it there}. It does not hold the state of a group that is read from records: whatever it was
# where they were written, it is Stable with members and Empty without (`ClassicGroup.adopt`), for nobody is parked here.
TRANSITIONS: dict[GroupState, dict[GroupState, str]] = {
    GroupState.EMPTY: {
        GroupState.PREPARING: "a member joins",
        GroupState.DEAD: "it is deleted, or has expired",
    },
    GroupState.PREPARING: {
        GroupState.COMPLETING: "all members joined, or those who did not are out of time",
        GroupState.EMPTY: "nobody is left",
    },
    GroupState.COMPLETING: {
        GroupState.STABLE: "the leader's assignment is committed",
        GroupState.PREPARING: "the members, or what they offer, changed; an append failed; a sync is overdue",
    },
    GroupState.STABLE: {
        GroupState.PREPARING: "the members, or what they offer, changed; the leader joined again; a sync is overdue",
    },
    GroupState.DEAD: {GroupState.EMPTY: "its removal could not be written"},
}

# Heartbeat of a member in the present generation.
HEARTBEAT: dict[GroupState, ErrorCode] = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
# OffsetCommit of a member in the present generation: while completing it must join again first.
COMMIT: dict[GroupState, ErrorCode] = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING: ErrorCode.NONE,
    GroupState.COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
# SyncGroup of a member in the present generation: NONE where it is looked at further.
SYNC: dict[GroupState, ErrorCode] = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
# DeleteGroups.
DELETE: dict[GroupState, ErrorCode] = {
    GroupState.EMPTY: ErrorCode.NONE,
    GroupState.PREPARING: ErrorCode.NON_EMPTY_GROUP,
    GroupState.COMPLETING: ErrorCode.NON_EMPTY_GROUP,
    GroupState.STABLE: ErrorCode.NON_EMPTY_GROUP,
    GroupState.DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}


class IllegalGroupTransition(AssertionError):
    """Ours: the group's coordinator can no longer be trusted."""


def check_transition(group: str, before: GroupState, after: GroupState) -> None:
    if after not in TRANSITIONS[before]:
        legal = ", ".join(state.value for state in TRANSITIONS[before])
        raise IllegalGroupTransition(f"group {group!r}: {before.value} -> {after.value}; legal: {legal}")
