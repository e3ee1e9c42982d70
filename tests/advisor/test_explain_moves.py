"""Why a reassignment does not end, why a topic is not deleted."""

import pytest

from odradek.advisor.explain import Why
from odradek.advisor.explain_moves import SLOW_LEAVER_MS, why_not_deleted, why_reassignment_stuck
from odradek.controller.context import ControllerSettings
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import DeleteTopicsRequested
from odradek.model.ids import BrokerId, TopicId
from tests.controller.world import World, three, tp


def stuck(world: World, text: str = "t-0") -> Why:
    return why_reassignment_stuck(world.context, tp(text), world.now_ms)


def text_of(why: Why) -> str:
    return "\n".join(why.lines())


def delete(world: World, topic: str) -> None:
    world.delete_topics = (topic,)
    world.step(DeleteTopicsRequested((topic,)))


def test_nothing_is_stuck_where_nothing_moves() -> None:
    assert stuck(three()).holds


def test_a_target_that_copies_is_named_and_the_others_are_ticked() -> None:
    world = three("t", [2, 1])
    world.start(4)
    world.reassign({"t-0": [2, 3, 4]})
    world.catch_up("t-0", 3)
    assert text_of(stuck(world)) == (
        "no   t-0 is on [2, 3, 4]: phase growing\n"
        "  no   every target replica is in the ISR (step 4): ISR [2, 1, 3]\n"
        "    yes  broker 2 is in the ISR\n"
        "    yes  broker 3 is in the ISR\n"
        "    no   broker 4 is in the ISR: it copies\n"
        "         -> it catches up; a throttle may hold it back\n"
        "  yes  the partition has a leader to copy from"
    )


@pytest.mark.parametrize("what", ["dead", "leaving", "disk"])
def test_a_target_that_cannot_copy_says_why(what: str) -> None:
    world = three("t", [2, 1])
    world.reassign({"t-0": [2, 3]})
    if what == "dead":
        world.kill(3)
        assert "broker 3 is in the ISR: not registered\n         -> start broker 3, or cancel" in text_of(
            stuck(world)
        )
    elif what == "leaving":
        world.shut_down(3)
        assert "broker 3 is in the ISR: shutting down" in text_of(stuck(world))
    else:
        world.context.offline_directories[3] = frozenset({tp("t-0")})  # type: ignore[index]
        assert "broker 3 is in the ISR: its log directory failed" in text_of(stuck(world))


def leads_alone_and_leaves(*targets: int) -> World:
    world = three("t", [2])
    world.start(4)
    world.reassign({"t-0": list(targets)})
    world.shut_down(2)
    assert world.leader("t-0")[:2] == (2, (2,))
    return world


def test_nobody_joins_the_isr_of_a_leader_that_is_shutting_down() -> None:
    world = leads_alone_and_leaves(3)
    told = text_of(stuck(world))
    assert (
        "no   broker 3 is in the ISR: its leader 2 is shutting down, and no replica joins its ISR (KIP-841)\n"
        "         -> start broker 2 again once it has stopped\n"
    ) in told
    assert "catches up" not in told


@pytest.mark.parametrize("what", ["dead", "leaving", "disk"])
def test_who_could_not_join_for_that_reason_either_is_told_both(what: str) -> None:
    world = leads_alone_and_leaves(3)
    if what == "dead":
        world.kill(3)
    elif what == "leaving":
        world.shut_down(3)
    else:
        world.context.offline_directories[3] = frozenset({tp("t-0")})  # type: ignore[index]
    (target,) = stuck(world).because[0].because
    both = "and broker 2, its leader, which is shutting down: until then no replica joins its ISR"
    assert both in target.unblocked_by


def test_a_target_with_older_data_must_delete_it_first() -> None:
    world = three("t", [2])
    world.reassign({"t-0": [2, 3]})
    world.context.pending_deletions[BrokerId(3)] = {tp("t-0"): TopicId(b"another topic of")}
    assert "it must first delete what it has of an older topic t\n" in text_of(stuck(world))


def test_a_partition_without_a_leader_cannot_be_copied() -> None:
    world = three("t", [2])
    world.reassign({"t-0": [3]})
    world.kill(2)
    assert "broker 3 is in the ISR: nobody has what it could copy\n" in text_of(stuck(world))
    assert "no   the partition has a leader to copy from: it has no leader\n     " in text_of(stuck(world))


@pytest.mark.behaviour(172)
def test_a_leaver_that_does_not_answer_is_named_and_after_five_minutes_called_stuck() -> None:
    world = three("t", [2, 1, 3])
    world.reassign({"t-0": [2, 1]})
    world.now_ms += 42_000
    (leaver,) = stuck(world).because
    assert (leaver.condition, leaver.detail) == ("broker 3 has deleted its copy", "no answer for 42 s")
    world.now_ms += SLOW_LEAVER_MS
    (leaver,) = stuck(world).because
    assert leaver.detail == "no answer for 342 s: stuck"
    assert "stop broker 3: then the reassignment ends without it" in leaver.unblocked_by
    world.kill(3)
    assert stuck(world).holds


@pytest.mark.behaviour(172)
def test_a_leaver_that_says_no_is_named_so() -> None:
    world = three("t", [2, 1, 3])
    world.reassign({"t-0": [2, 1]})
    world.stopped(3, "t-0", error=ErrorCode.KAFKA_STORAGE_ERROR)
    (leaver,) = stuck(world).because
    assert leaver.detail == "it answered with an error for 0 s"


def test_a_deletion_that_waits_for_a_dead_broker_says_which() -> None:
    world = three("d", [2, 1])
    world.kill(1)
    delete(world, "d")
    world.stopped(2, "d-0")
    assert text_of(why_not_deleted(world.context, "d")) == (
        "no   d is deleted: 1 of 2 replicas are gone\n"
        "  no   broker 1 has deleted d-0: ReplicaDeletionIneligible: the broker is not live\n"
        "       -> start broker 1: it is told to delete at once, or set "
        "odradek.delete.topic.with.offline.replicas=true"
    )


def test_a_deletion_that_waits_for_an_answer_or_was_refused_says_so() -> None:
    world = three("d", [2, 1])
    delete(world, "d")
    world.stopped(2, "d-0", error=ErrorCode.KAFKA_STORAGE_ERROR)
    details = [why.detail for why in why_not_deleted(world.context, "d").because]
    assert details == [
        "ReplicaDeletionStarted: it was told and has not answered",
        "ReplicaDeletionIneligible: it answered with an error",
    ]


def test_from_outside_only_replicas_of_dead_brokers_are_known_to_be_there() -> None:
    """That broker 2 has answered stands in no node; to say it has not would be a guess."""
    world = three("d", [2, 1])
    world.kill(1)
    delete(world, "d")
    why = why_not_deleted(world.context, "d", knows_answers=False)
    assert why.detail == "1 of its replicas are on brokers that are not live"
    assert [reason.condition for reason in why.because] == ["broker 1 has deleted d-0"]
    world = three("d", [2, 1])
    delete(world, "d")
    (unknown,) = why_not_deleted(world.context, "d", knows_answers=False).because
    assert unknown.detail == "not known: it stands in no node"


def test_a_topic_nobody_wants_to_delete_says_how_to() -> None:
    world = World(ControllerSettings(delete_topic_enable=False)).brokers(1)
    world.elect()
    world.create("t", [1])
    wanted, enabled = why_not_deleted(world.context, "t").because
    assert wanted.unblocked_by == "DeleteTopics, which creates /admin/delete_topics/t"
    assert not enabled.holds


def test_a_topic_that_is_gone_is_deleted_and_one_that_cannot_be_read_is_not() -> None:
    world = three()
    assert why_not_deleted(world.context, "nobody").holds
    world.context.out_of_service["bad"] = "/brokers/topics/bad: bad JSON"
    assert why_not_deleted(world.context, "bad").because[0].detail == "/brokers/topics/bad: bad JSON"
