"""The states of the two machines, each with its promise; `invariants.py` checks the same promises.

The moves between them stand in `partition_states.py` and `replica_states.py`.
"""

from enum import StrEnum


class PartitionState(StrEnum):
    NON_EXISTENT = "NonExistentPartition"  # never created, or created and deleted: no leader and ISR
    NEW = "NewPartition"  # replicas assigned; no leader and ISR yet
    ONLINE = "OnlinePartition"  # a leader has been elected: it is in the ISR, and was live then
    OFFLINE = "OfflinePartition"  # the leader died and nobody has followed it


class ReplicaState(StrEnum):
    NON_EXISTENT = "NonExistentReplica"  # never created, or its data is gone
    NEW = "NewReplica"  # created with the topic or by a reassignment; may only follow
    ONLINE = "OnlineReplica"  # assigned and started: leads or follows
    OFFLINE = "OfflineReplica"  # its broker or disk is gone or going, or it is being removed; out of the ISR
    DELETION_STARTED = "ReplicaDeletionStarted"  # its broker was told to delete; no answer yet
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"  # its broker said that the data is gone
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"  # deletion failed, or its broker is dead: try later


DELETED = frozenset(
    {ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT}
)
