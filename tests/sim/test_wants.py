"""What a machine wants for a while: brokers do without, and go on. And bugs of real runs are seen by seeds that are named."""

import pytest

from odradek.server.threads import Threads
from odradek.sim.loop import Host, SimLoop
from odradek.sim.plan import Fault, draw
from odradek.sim.run import CORRECTNESS, CRASH, OK, describe, run
from odradek.sim.threads import Machine, SimThreads
from odradek.sim.world import World
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_further_faults import notes, plan_with

# Work that found no thread was refused, and done all the same later (d147079).
REFUSED = Edit("server.threads:Threads._could_start", "return False", "raise")
# A follower waited for all of its windows (6d59947).
STOOD_STILL = Edit(
    "replication.follower:FollowerFetcher.throttle_changed", "followed.delayed_until_ms = now_ms", "pass"
)
# Not made later where another directory was offline (19e5b6e).
GIVEN_UP = Edit(
    "broker.replica_manager:ReplicaManager.commit_slice",
    "isinstance(refusal, NoDescriptor) and not self.logs.is_damaged(topic_partition)",
    "isinstance(refusal, NoDescriptor) and not self.logs.offline_directories",
)
# A broker whose directory has failed registered anew for what it had led there; a topic that was made just then it was told of as of
# one that it has had, which may lie in that directory (7c01a686).
TAKEN_FOR_LOST = (
    Edit(
        "broker.replica_manager:ReplicaManager._host",
        "self.logs.may_be_lost(topic_partition)",
        "self.logs.offline_directories",
    ),
    Edit("broker.replica_manager:ReplicaManager._is_of_a_former_life", "log.failure is not None", "False"),
)


@pytest.mark.parametrize(
    ("seed", "bug", "code", "reason"),
    [
        (16, (REFUSED,), CRASH, "can't start new thread"),
        (12, (STOOD_STILL,), CORRECTNESS, "NotHeldBack: "),
        (31, (GIVEN_UP,), CORRECTNESS, "LogIsMade: "),
        (504, TAKEN_FOR_LOST, CORRECTNESS, "LogIsMade: "),
    ],
)
def test_a_seed_sees_it_and_is_right_without_it(
    seed: int, bug: tuple[Edit, ...], code: int, reason: str
) -> None:
    with applied(bug):
        outcome = run(draw(seed))
    assert outcome.code == code and reason in outcome.reason, describe(outcome)

    assert run(draw(seed)).code == OK


@pytest.mark.parametrize("amount", [0.1, 0.3, 0.9])
def test_a_broker_begins_where_there_are_no_threads_or_few_and_serves_in_the_end(amount: float) -> None:
    counts: dict[int, set[bool]] = {}

    def observe(world: World) -> None:
        for broker in world.brokers.values():
            if broker.most_threads is not None:
                counts.setdefault(broker.most_threads, set()).add(broker.is_serving)

    outcome = run(plan_with(Fault(1.0, "threads_run_out", 0.3, amount, 2.0), duration_s=5.0), observe=observe)

    assert outcome.code == OK, describe(outcome)
    assert len(notes(outcome, "no more than ")) == len(notes(outcome, "threads for b")) // 2 == 1
    (most,) = counts
    assert (True in counts[most]) is (most > 0), "its logs are read by a thread"


def test_work_waits_for_a_thread_and_threads_that_there_are_stay() -> None:
    loop, most = SimLoop(1), [0]  # type: ignore[abstract]
    machine = Machine(loop, lambda: most[0], lambda: 0.0)
    done: list[int] = []

    def begin() -> None:
        pool = SimThreads(machine, 2, "blocking")
        assert isinstance(pool, Threads)
        for number in range(4):
            pool.do(done.append, number)

    loop.call_as(Host("b1", 1), begin)
    loop.run_until(5.0)
    assert done == []
    most[0] = 1
    loop.run_until(6.5)
    assert (done, machine.count) == ([0, 1, 2, 3], 1)
    loop.close()
