"""What Apache Kafka answered, request by request, against the pure coordinator: docs/differences.md says where it is
otherwise, and KNOWN which steps of the traces show it."""

import pytest

from tests.coordinator.traces import CONSUMER, Player, Trace, traces

# Trace -> steps that differ, each with the row of docs/differences.md.
KNOWN = {
    # A group whose members have all left is empty, whatever ids are pending (as 4.1).
    "classic-3.9/inconsistent-protocol": {
        "12 LeaveGroup",
        "13 DescribeGroups",
        "14 JoinGroup",
        "15 LeaveGroup",
    },
    # Metadata that cannot be read is an unknown subscription, and does not end the join.
    "classic-3.9/opaque-metadata": {"7 JoinGroup", "8 JoinGroup", "10 DescribeGroups"},
    # A JoinGroup that is superseded is answered.
    "classic-3.9/third-member-during-prepare": {"5 JoinGroup"},
    "classic-4.1/third-member-during-prepare": {"5 JoinGroup"},
    # A generation that may have been handed out before the coordinator moved is not used again.
    "failover-3.9/completing-moves": {"15 JoinGroup"},
    # OffsetFetch 1 has no place for the error of a group: its partitions have it. ListGroups names groups of this
    # broker, and here there is one coordinator.
    # Groups of KIP-848 are served there.
    "failover-3.9/not-coordinator": {
        "10 OffsetFetch",
        "12 ListGroups",
        "15 ConsumerGroupHeartbeat",
        "16 ConsumerGroupDescribe",
    },
    # A fenced member that comes back with its id and epoch 0 is taken (KAFKA-19233).
    "consumer-4.1/two-members": {"18 ConsumerGroupHeartbeat"},
    # As 3.9: a group that stored nothing of itself needs no tombstone, and an empty one goes with its last offset.
    "classic-4.1/delete-groups": {"7 DeleteGroups"},
    "classic-4.1/join-bad-requests": {"16 DeleteGroups"},
    "classic-4.1/offset-delete": {"9 OffsetDelete", "11 DescribeGroups", "14 DescribeGroups"},
    # 4.x knows two more operations of a group.
    "classic-4.1/describe-and-list": {"17 DescribeGroups"},
    # Whoever joined first leads after the leader is gone: any is legal.
    "classic-4.1/leave-while-preparing-completing": {"13 JoinGroup", "14 JoinGroup"},
}
FOLDERS = ("classic-3.9", "classic-4.1", "limits-3.9", "failover-3.9", CONSUMER)
ALL = [trace for folder in FOLDERS for trace in traces(folder).values()]


@pytest.mark.parametrize("trace", ALL, ids=lambda trace: f"{trace.folder}/{trace.name}")
def test_a_trace_is_answered_as_it_was_recorded(trace: Trace) -> None:
    differences = Player(trace).play()

    found = {line.split(":")[0] for line in differences}
    assert found == KNOWN.get(f"{trace.folder}/{trace.name}", set()), "\n".join(differences)


def test_every_trace_that_differs_is_there() -> None:
    assert set(KNOWN) <= {f"{trace.folder}/{trace.name}" for trace in ALL}
    assert len(ALL) == 81
