"""Faults that few seeds have, and logs that are flushed by time: each world is survived, and shows the mutation it is for."""

import asyncio
from typing import Any, NamedTuple

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.sim import run as running
from odradek.sim.clients.client import SimClient
from odradek.sim.clients.operations import MOVED_AWAY
from odradek.sim.plan import Fault, Plan, _of_sharers, _of_transactions
from odradek.sim.run import LIVENESS, OK, describe, run
from odradek.sim.world import World
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.plans import three_brokers
from tests.support import each

ALONE_AT_S = (1.5, 5.0, 8.5)


def alone(amount: float = 0.2) -> Plan:
    """A group of KIP-848 whose coordinator is alone three times, and a member that dies meanwhile."""
    faults = [Fault(at_s, "coordinator_alone", 0.2, amount, 2.0) for at_s in ALONE_AT_S]
    faults += [Fault(at_s, "member_killed", 0.5, 0.5, 3.0) for at_s in (2.6, 6.5)]
    settings = {"replica.lag.time.max.ms": "1000", "replica.fetch.wait.max.ms": "500", **_of_sharers(3, 2)}
    return three_brokers(
        partitions=3, has_sharers=True, settings=settings, faults=tuple(faults), duration_s=12.0
    )


def without_ids() -> Plan:
    """Of the ids that are asked for in each life of a broker the first are lost."""
    faults = [
        Fault(at_s, kind, target, 0.9 if kind == "lost_allocations" else 0.5, lasts_s)
        for at_s, kind, target, lasts_s in (
            (0.2, "lost_allocations", 0.1, 0.0),
            (1.0, "kill_leader", 0.1, 0.5),
            (2.0, "producer_restarts", 0.1, 0.5),
            (3.0, "lost_allocations", 0.1, 0.0),
            (3.2, "kill_leader", 0.6, 0.5),
            (3.5, "kill_all", 0.6, 0.5),
            (4.5, "producer_restarts", 0.1, 0.5),
        )
    ]
    return three_brokers(partitions=2, acks=-1, is_idempotent=True, faults=tuple(faults), duration_s=6.0)


def moved() -> Plan:
    faults = [Fault(1.0 + 2.0 * n, "delete_amid_move", 0.3 * n, (0.9, 0.2)[n % 2], 1.5) for n in range(3)]
    return three_brokers(partitions=2, faults=tuple(faults), duration_s=7.0)


def by_time() -> Plan:
    return three_brokers(partitions=2, settings={"log.flush.interval.ms": "2500"}, duration_s=8.0)


def on_a_slow_disk() -> Plan:
    """Each sync takes half a second, and there are more logs than seconds."""
    faults = (Fault(2.0, "slow_coordinator_load", 0.3, 0.99, 4.0),)
    settings = {"log.flush.interval.ms": "200", **_of_transactions(3, 2)}
    return three_brokers(
        partitions=3, has_transactions=True, settings=settings, faults=faults, duration_s=8.0
    )


def without_descriptors() -> Plan:
    """As soon as everybody has started, and has a tail to flush that is not open."""
    faults = (Fault(3.0, "kill_all", 0.5, 0.5, 0.5), Fault(4.0, "descriptors_run_out", 0.5, 0.5, 5.9))
    return three_brokers(
        partitions=2, settings={"log.flush.interval.ms": "200"}, faults=faults, duration_s=11.0
    )


def left_alone() -> Plan:
    faults = tuple(Fault(1.0 + 3.0 * n, "all_others_die", 0.2 + 0.5 * n, 0.3, 1.0) for n in range(2))
    return three_brokers(partitions=1, acks=-1, is_idempotent=True, faults=faults, duration_s=6.0)


def over_the_isr() -> Plan:
    faults = (Fault(1.0, "raise_min_isr", 0.2, 0.3, 1.0),)
    return three_brokers(partitions=1, acks=-1, is_idempotent=True, faults=faults, duration_s=5.0)


class Shown(NamedTuple):
    plan: Plan
    edit: Edit
    named: str


SHOWN = {
    "who could not be removed is removed later": Shown(
        alone(),
        Edit(
            "coordinator.turns:Turn.failed",
            "group.set_deadline(kind, member_id, now_ms + FENCE_AGAIN_MS)",
            "pass",
        ),
        "NobodyWaits",
    ),
    "a group goes on when its records have come late": Shown(
        alone(),
        Edit("coordinator.shard:Shard._came", "_less(self.stalled, group_id)", "pass"),
        "PartsAreWhole",
    ),
    "what is owed to a move goes with the topic": Shown(
        moved(),
        Edit(
            "controller.context:ControllerContext.commit_reassignments_dropped",
            "self.removals.pop(topic_partition, None)",
            "pass",
        ),
        "GoneIsForgotten",
    ),
    "what came is asked for once it is old": Shown(
        by_time(),
        Edit("server.log_maintenance:LogMaintenance._flush_what_is_due", "log.flushed.came()", "pass"),
        "FlushedInTime",
    ),
    "who waits hears that all others are gone": Shown(
        left_alone(),
        Edit("replication.partition:Partition.make_leader", "self._answer_if_under_min_isr()", "pass"),
        "NobodyWaits",
    ),
    "who waits hears that more are needed now": Shown(
        over_the_isr(),
        Edit(
            "replication.partition:Partition.set_min_insync_replicas",
            "self._answer_if_under_min_isr()",
            "pass",
        ),
        "NobodyWaits",
    ),
    "a log that was idle is flushed again": Shown(
        by_time(), Edit("log.appending:AppendableLog._write", "self.flushed.came()", "pass"), "FlushedInTime"
    ),
}


@each(SHOWN)
def test_it_is_survived_and_shows_the_mutation_it_is_for(why: str) -> None:
    plan, edit, named = SHOWN[why]
    outcome = run(plan)
    assert outcome.code == OK, describe(outcome)
    assert outcome.injected == sorted(plan.faults)
    with applied([edit]):
        assert run(plan).reason.startswith(f"{named}: ")


LATE = {"a slow disk": on_a_slow_disk(), "no descriptors": without_descriptors()}


@each(LATE)
def test_a_disk_that_does_not_flush_in_time_is_no_fault_of_the_broker(why: str) -> None:
    outcome = run(LATE[why])
    assert outcome.code == OK, describe(outcome)
    assert outcome.injected == list(LATE[why].faults)


def test_no_link_is_cut_once_the_world_is_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By then the topic may have been made that was to be deleted amid a move."""
    create_topic, was_healed = SimClient.create_topic, False

    async def late(client: SimClient, name: str, *given: Any, **named: Any) -> ErrorCode:
        error = await create_topic(client, name, *given, **named)
        if name.startswith(MOVED_AWAY):
            await asyncio.sleep(3.0)
        return error

    def no_link_is_cut(world: World) -> None:
        nonlocal was_healed
        if world.is_healed:
            was_healed = True
            assert not any(link.is_cut for link in world.network._links.values())

    monkeypatch.setattr(SimClient, "create_topic", late)
    plan = three_brokers(faults=(Fault(2.0, "delete_amid_move", 0.3, 0.9, 1.5),), duration_s=3.0)
    outcome = run(plan, observe=no_link_is_cut)
    assert outcome.code == OK, describe(outcome)
    assert was_healed


def test_no_link_is_cut_for_a_topic_that_was_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    create_topic = SimClient.create_topic

    async def refused(client: SimClient, name: str, *given: Any, **named: Any) -> ErrorCode:
        if name.startswith(MOVED_AWAY):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        return await create_topic(client, name, *given, **named)

    def no_link_is_cut(world: World) -> None:
        assert not any(link.is_cut for link in world.network._links.values())

    monkeypatch.setattr(SimClient, "create_topic", refused)
    plan = three_brokers(faults=(Fault(1.0, "delete_amid_move", 0.3, 0.9, 1.5),), duration_s=2.0)
    outcome = run(plan, observe=no_link_is_cut)
    assert (outcome.code, outcome.injected) == (OK, list(plan.faults)), describe(outcome)


def test_a_broker_that_goes_round_in_circles_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though no time passes meanwhile: of a wish for ids that is never made again the deadline stays due."""
    plan, most = without_ids(), 20_000
    monkeypatch.setattr(running, "MOST_EVENTS", most)
    outcome = run(plan)
    assert outcome.code == OK, describe(outcome)
    edit = Edit("broker.producer_ids:ProducerIds._answered", "self._is_asking = False", "pass")
    with applied([edit]):
        outcome = run(plan)
    assert (outcome.code, outcome.events) == (LIVENESS, most + 1), describe(outcome)
    assert "goes round in circles" in outcome.reason
