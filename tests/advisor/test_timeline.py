"""A partition's life, and the steps of its reassignments, read off a journal."""

from typing import Any

from odradek.advisor.reassignment_steps import (
    STEPS,
    as_json,
    progress,
    reassignments,
)
from odradek.advisor.timeline import outages, timeline
from odradek.controller.broker_requests import UpdateMetadataRequest
from odradek.controller.effects import Effects
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.ids import BrokerId, LeaderEpoch
from tests.advisor.test_explain_moves import delete
from tests.advisor.test_replay import written_down
from tests.controller.world import World, state, tp


def journal(world: World) -> list[dict[str, Any]]:
    lines = written_down(world)

    class WithEpochs(list[dict[str, Any]]):
        """The shell writes the epoch beside what `written_down` keeps."""

        def __iter__(self) -> Any:
            return iter([{"epoch": 1, **line} for line in lines])

    return WithEpochs()


def moved() -> tuple[World, list[dict[str, Any]]]:
    """{1,2} -> {3,4}, a second between two steps."""
    world = World().brokers(1, 2, 3, 4)
    lines = journal(world)
    world.elect(1)
    world.create("t", [1, 2], [2, 3])
    world.now_ms += 1000
    world.reassign({"t-0": [3, 4]})
    for newcomer in (3, 4):
        world.now_ms += 1000
        world.catch_up("t-0", newcomer)
    for leaver in (1, 2):
        world.now_ms += 1000
        world.stopped(leaver, "t-0")
    return world, list(lines)


def test_every_change_is_there_with_its_time_and_its_reason() -> None:
    _, lines = moved()
    rows = [(m.at_ms - 1_000_000, m.leader, m.isr, m.replicas, m.why) for m in timeline(lines, tp("t-0"))]
    assert rows == [
        (0, 1, (1, 2), (1, 2), "partition created: first live replica of a new partition"),
        (1000, 1, (1, 2), (3, 4, 1, 2), "reassignment asked for"),
        (1000, 1, (1, 2), (3, 4, 1, 2), "reassignment"),
        (2000, 1, (1, 2, 3), (3, 4, 1, 2), "AlterPartition of broker 1: 3 joined"),
        (3000, 1, (1, 2, 3, 4), (3, 4, 1, 2), "AlterPartition of broker 1: 4 joined"),
        (
            3000,
            3,
            (1, 2, 3, 4),
            (3, 4, 1, 2),
            "reassignment: first target replica that is live and in the ISR",
        ),
        (3000, 3, (3, 4), (3, 4, 1, 2), "reassignment"),
        (5000, 3, (3, 4), (3, 4), "reassignment complete"),
    ]


def test_an_outage_begins_with_the_death_of_the_last_in_sync_and_ends_with_its_return() -> None:
    world = World().brokers(1, 2, 3)
    lines = journal(world)
    world.elect(1)
    world.create("s3", [2])
    world.now_ms += 500
    world.kill(2)
    world.now_ms += 7000
    moments = timeline(list(lines), tp("s3-0"))
    (open_,) = outages(moments)
    assert (open_.since_ms, open_.until_ms) == (1_000_500, None)
    assert "broker 2 failed" in open_.why
    world.start(2)
    (closed,) = outages(timeline(list(lines), tp("s3-0")))
    assert (closed.since_ms, closed.until_ms) == (1_000_500, 1_007_500)


def test_a_partition_that_was_deleted_is_not_offline_since() -> None:
    world = World().brokers(1, 2, 3)
    lines = journal(world)
    world.elect(1)
    world.create("gone", [2])
    world.now_ms += 500
    delete(world, "gone")
    world.now_ms += 500
    world.stopped(2, "gone-0")
    world.now_ms += 7000
    moments = timeline(list(lines), tp("gone-0"))
    assert [(m.at_ms - 1_000_000, m.leader, m.is_gone) for m in moments] == [
        (0, 2, False),
        (500, -1, False),
        (1000, -1, True),
    ]
    (outage,) = outages(moments)
    assert (outage.since_ms, outage.until_ms) == (1_000_500, 1_001_000)


def test_the_outage_begins_when_the_broker_is_gone_not_when_that_is_written() -> None:
    world = World().brokers(1, 2, 3)
    lines = journal(world)
    world.elect(1)
    world.create("s3", [2])
    world.kill(2)
    told = list(lines)
    gone = next(n for n, line in enumerate(told) if line["event"]["type"] == "BrokersChanged")
    last = timeline(told[: gone + 1], tp("s3-0"))[-1]
    assert (last.leader, last.is_offline) == (2, True), "the controller died before it could write"


def test_brokers_that_have_nothing_to_do_with_it_make_no_row() -> None:
    world = World().brokers(1, 2, 3)
    lines = journal(world)
    world.elect(1)
    world.create("t", [1, 2])
    before = len(timeline(list(lines), tp("t-0")))
    world.kill(3)
    world.start(3)
    assert len(timeline(list(lines), tp("t-0"))) == before
    assert timeline(list(lines), tp("u-0")) == ()


def test_a_refused_write_shows_what_stood_there_instead() -> None:
    world = World().brokers(1, 2, 3)
    lines = journal(world)
    world.elect(1)
    world.create("t", [2, 1, 3])
    world.before_write = lambda writes: world.states.update({tp("t-0"): state(2, [2, 3], version=1)})
    world.kill(2)
    told = list(lines)
    refused = next(n for n, line in enumerate(told) if "Conflict" in str(line["event"]))
    assert timeline(told[: refused + 1], tp("t-0"))[-1].isr == (2, 3)
    assert timeline(told, tp("t-0"))[-1].isr == (3,)


def test_a_journal_that_begins_with_the_answer_to_a_write_that_it_does_not_hold() -> None:
    _, lines = moved()
    answer = next(line for line in lines if line["event"]["type"] == "WritesAnswered")
    writes = next(line for line in lines if "WritePartitionState" in str(line["writes"]))
    assert "Stored" in str(answer["event"])
    assert timeline([answer, writes], tp("t-0")) == (), "it is no answer to what was written later"


def test_the_twelve_steps_are_found_with_their_times() -> None:
    _, lines = moved()
    (found,) = reassignments(lines, tp("t-0"))
    assert (found.origin, found.target) == ((1, 2), (3, 4))
    assert (found.began_ms, found.ended_ms) == (1_001_000, 1_005_000)
    times = {step.number: step.at_ms and step.at_ms - 1_000_000 for step in found.steps}
    assert times == {
        1: 1000, 2: 1000, 3: 1000, 4: 3000, 5: 3000, 6: 3000, 7: 3000, 8: 3000, 9: 5000, 10: 5000, 11: 5000, 12: 5000,
    }  # fmt: skip
    told = {step.number: step.detail for step in found.steps}
    assert told[4] == "ISR [1,2,3,4]" and told[7] == "3 leads, epoch 2" and told[9] == "[1,2]"
    assert len(as_json(found)["steps"]) == len(STEPS) == 12


def test_a_running_reassignment_has_steps_that_have_not_happened() -> None:
    world = World().brokers(1, 2, 3)
    lines = journal(world)
    world.elect(1)
    world.create("t", [1, 2])
    world.reassign({"t-0": [1, 3]})
    (found,) = reassignments(list(lines), tp("t-0"))
    assert found.ended_ms is None
    assert [step.number for step in found.steps if step.at_ms is None] == [4, 5, 6, 7, 8, 9, 10, 11, 12]
    world.reassign({"t-0": None})
    (cancelled,) = reassignments(list(lines), tp("t-0"))
    assert cancelled.ended_ms is not None
    assert [step.number for step in cancelled.steps if step.at_ms is None] == [4, 5, 6, 7, 8, 9, 10, 11, 12]


def test_the_leavers_step_is_done_when_the_last_has_answered() -> None:
    world = World().brokers(1, 2, 3, 4)
    lines = journal(world)
    world.elect(1)
    world.create("t", [1, 2])
    world.reassign({"t-0": [3, 4]})
    world.alter("t-0", [1, 2, 3, 4])
    world.stopped(1, "t-0")
    (found,) = reassignments(list(lines), tp("t-0"))
    assert [step.number for step in found.steps if step.at_ms is None] == [9, 10, 11, 12]
    world.stopped(2, "t-0")
    (found,) = reassignments(list(lines), tp("t-0"))
    assert found.ended_ms is not None and found.steps[8].detail == "[1,2]"


def led(leader: int, *isr: int) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), LeaderEpoch(1), tuple(BrokerId(b) for b in isr))


def test_the_open_step_is_read_off_what_anybody_can_see() -> None:
    ids = BrokerId
    node = ReplicaAssignment((ids(3), ids(4), ids(1), ids(2)), (ids(3), ids(4)), (ids(1), ids(2)))
    alive = {ids(1), ids(2), ids(3), ids(4)}
    union, target = node.replicas, node.target_replicas
    steps = [
        (led(1, 1, 2), alive, union, 4, "brokers 3,4: copying, not in the ISR yet"),
        (led(1, 1, 2, 3), alive - {ids(4)}, union, 4, "broker 4: not alive; start it, or cancel"),
        (led(-1, 1), alive, union, 4, "it has no leader, so it cannot be copied: see odradek why t-0"),
        (led(1, 1, 2, 3, 4), alive, union, 7, "the leader moves from 1 to 3"),
        (led(3, 1, 2, 3, 4), alive, target, 8, "brokers 1,2: leaving the ISR"),
        (led(3, 3, 4), alive, target, 9, "brokers 1,2: deleting the copy, not answered yet"),
        (led(3, 3, 4), {ids(3), ids(4)}, target, 10, "every removing replica is gone; the topic node is about to list the target alone"),
        (led(3, 3), alive, target, 9, "brokers 1,2: deleting the copy, not answered yet; broker 4: not in the ISR any more"),
        (led(3, 3), alive - {ids(4)}, target, 9, "brokers 1,2: deleting the copy, not answered yet; broker 4: not in the ISR any more"),
        (led(-1, 3), {ids(1), ids(4)}, target, 9, "broker 1: deleting the copy, not answered yet; broker 4: not in the ISR any more"),
        (led(3, 1, 3), alive, target, 8, "broker 1: leaving the ISR; broker 4: not in the ISR any more"),
    ]  # fmt: skip
    for leadership, live, told, step, sentence in steps:
        found = progress(tp("t-0"), node, leadership, live, told)
        assert (found.step, found.sentence) == (step, sentence)
        assert (
            found.state_of(step) == "now" and found.state_of(1) == "done" and found.state_of(12) == "to come"
        )


def test_brokers_are_told_of_the_target_alone_once_every_target_replica_was_in_the_isr() -> None:
    """By that a target replica that is lost later is told from one that never joined."""
    world = World().brokers(1, 2, 3, 4)
    world.elect(1)
    world.create("t", [1, 2])

    def told(effects: Effects) -> set[tuple[BrokerId, ...]]:
        updates = [r for r in effects.requests if isinstance(r, UpdateMetadataRequest)]
        return {row.replicas for update in updates[-1:] for row in update.partitions}

    assert told(world.reassign({"t-0": [3, 4]})) == {(3, 4, 1, 2)}
    assert told(world.alter("t-0", [1, 2, 3, 4])) == {(3, 4)}
    lost = world.kill(4)
    assert told(lost) == {(3, 4)} and world.context.reassignments
    state = world.states[tp("t-0")].leader_and_isr
    node = world.context.stored_assignment(tp("t-0"))
    found = progress(tp("t-0"), node, state, [BrokerId(b) for b in (1, 2, 3)], next(iter(told(lost))))
    assert (found.step, found.sentence) == (
        9,
        "brokers 1,2: deleting the copy, not answered yet; broker 4: not in the ISR any more",
    )
