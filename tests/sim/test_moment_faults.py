"""Faults that wait for their moment show what no other fault shows: each with a mutation put in that it has to find."""

from dataclasses import replace

from odradek.sim.plan import Fault, Plan, _of_transactions
from odradek.sim.run import OK, describe, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_further_faults import plan_with
from tests.support import each

FOUND = {
    "lost_leader_and_isr": (
        Edit("server.outboxes:Outbox._unsend", "self._waiting.extendleft(reversed(self._sent))", "pass"),
    ),
    "cut_at_isr_change": (
        Edit(
            "replication.partition:Partition.is_in_sync",
            "follower.log_end_offset >= self.high_watermark",
            "True",
        ),
    ),
    "deposed_while_asked": (
        Edit(
            "server.controller_channel:ControllerChannel.controller_is",
            "self._is_negotiating = False",
            "pass",
        ),
    ),
    # What comes late is told twice: by its number, and by the partition epoch.
    "late_isr_changes": (
        Edit(
            "broker.proposal_order:ProposalOrder.is_late",
            "last is not None and not is_after(correlation_id, last)",
            "False",
        ),
        Edit(
            "controller.alter_partition:AlterPartition._error",
            "item.partition_epoch < current.partition_epoch",
            "False",
        ),
    ),
}


def world_of(kind: str) -> Plan:
    """Three brokers, this fault twice, and a leader that is cut off and one that dies."""
    faults = []
    for n in range(2):
        faults.append(Fault(1.5 + 2.2 * n, kind, 0.3 + 0.13 * n, (0.2 + 0.19 * n) % 1, 1.5))
        other, lasts_s = ("cut_leader_from_followers", 1.5) if n % 2 else ("kill_leader", 0.5)
        faults.append(Fault(2.3 + 2.2 * n, other, 0.5, 0.5, lasts_s))
    plan = plan_with(*faults, duration_s=6.0)
    impatient = {"replica.lag.time.max.ms": "1000", "replica.fetch.wait.max.ms": "500"}
    return replace(plan, brokers=3, has_group=False, settings={**plan.settings, **impatient})


@each(FOUND)
def test_it_is_survived_and_shows_the_mutation_it_is_for(kind: str) -> None:
    plan = world_of(kind)
    outcome = run(plan)
    assert outcome.code == OK, describe(outcome)
    with applied(FOUND[kind]):
        assert run(plan).code != OK


def _with_transactions(*faults: Fault, duration_s: float) -> Plan:
    plan = plan_with(*faults, duration_s=duration_s)
    settings = {**plan.settings, **_of_transactions(3, 2)}
    return replace(plan, brokers=3, has_transactions=True, has_group=True, settings=settings)


BY_REQUEST: dict[str, tuple[Plan, Edit]] = {
    "lost_requests": (
        _with_transactions(
            *[Fault(1.0 + 1.5 * n, "lost_requests", 0.13, 0.9, 0.0) for n in range(2)], duration_s=3.0
        ),
        Edit(
            "broker.transaction_markers:TransactionMarkers._answered",
            "errors.get(key, ErrorCode.NETWORK_EXCEPTION)",
            "errors.get(key, ErrorCode.NONE)",
        ),
    ),
    "dies_when_told": (
        plan_with(
            *[
                fault
                for n in range(2)
                for fault in (
                    Fault(1.0 + 2.0 * n, "dies_when_told", 0.9, 0.0, 1.0),
                    Fault(1.3 + 2.0 * n, "reassign", 0.1 + 0.2 * n, 0.31 * n % 1, 0.0),
                )
            ],
            duration_s=4.5,
        ),
        Edit(
            "controller.replica_removal:commit_removals_died",
            "commit_pending_deletion(context, topic_partition, broker)",
            "pass",
        ),
    ),
    "a leader that dies": (
        _with_transactions(Fault(1.0, "kill_leader", 0.3, 0.5, 1.0), duration_s=2.0),
        Edit(
            "broker.marker_writes:MarkerWrites._append_one",
            "partition.commit_waiters.add(required, inner, 0)",
            "inner.complete(0, ErrorCode.NONE)",
        ),
    ),
}


@each(BY_REQUEST)
def test_what_goes_wrong_with_a_request_between_brokers_is_survived_and_shown(kind: str) -> None:
    plan, edit = BY_REQUEST[kind]
    outcome = run(plan)
    assert outcome.code == OK, describe(outcome)
    with applied([edit]):
        assert run(plan).code != OK
