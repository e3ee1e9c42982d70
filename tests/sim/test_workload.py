"""What the clients of a world do, whatever the numbers of its plan are."""

import pytest

from odradek.sim.clients import workload
from odradek.sim.plan import _of_sharers
from odradek.sim.run import OK, describe, run
from odradek.sim.world import World
from tests.sim.plans import three_brokers


def test_a_producer_writes_to_every_partition_however_many_records_a_batch_has() -> None:
    """Three records a batch and three partitions: each producer wrote to one of them, and nobody to the others."""
    written: set[int] = set()

    def observe(world: World) -> None:
        sends = world.clients.history.sends()
        written.update(send.topic_partition.partition for send in sends if send.producer == "p0")

    plan = three_brokers(partitions=3, producers=1, records_per_batch=3, duration_s=2.0)
    outcome = run(plan, observe=observe)

    assert outcome.code == OK, describe(outcome)
    assert written == {0, 1, 2}


def test_a_member_commits_offsets_of_all_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """It commits with every third heartbeat: of three partitions it was always the same one."""
    monkeypatch.setattr(workload, "SHARERS", 1)
    committed: set[int] = set()

    def observe(world: World) -> None:
        committed.update(one.shared[1] for one in world.clients.sharing_history.committing)

    plan = three_brokers(partitions=3, has_sharers=True, settings=_of_sharers(3, 2), duration_s=8.0)
    outcome = run(plan, observe=observe)

    assert outcome.code == OK, describe(outcome)
    assert committed == {0, 1, 2}
