"""What a mutation is, and the files most of them change."""

from typing import NamedTuple


class Mutation(NamedTuple):
    rows: tuple[int, ...]
    what: str  # what the changed code does, in a few words
    path: str  # below src/odradek
    old: str
    new: str


CONTEXT, PLAN, CORE = "controller/context.py", "controller/plan.py", "controller/core.py"
PARTITIONS, REPLICAS = "controller/partition_states.py", "controller/replica_states.py"
LEADERSHIP = "controller/leadership.py"
ELECTION, BROKERS, TOPICS = (
    "controller/election.py",
    "controller/broker_changes.py",
    "controller/topic_changes.py",
)
FAILOVER, SHUTDOWN, ALTER = (
    "controller/failover.py",
    "controller/controlled_shutdown.py",
    "controller/alter_partition.py",
)
DELETION, MOVES, WISHES = (
    "controller/topic_deletion.py",
    "controller/reassignment.py",
    "controller/reassignment_requests.py",
)
LEAVERS, MOVE_RULES = "controller/leavers.py", "controller/reassignment_rules.py"
REBALANCE, UNCLEAN, REQUESTS = (
    "controller/rebalance_leaders.py",
    "controller/unclean.py",
    "controller/requests.py",
)
DISPATCH, LOG = "controller/dispatch.py", "controller/state_change_log.py"
