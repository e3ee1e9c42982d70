"""Why too few are in sync, why acks=all is refused, what makes a partition slow; and a cluster seen from outside."""

from odradek.advisor.explain import Why
from odradek.advisor.explain_replication import (
    why_partition,
    why_slow,
    why_under_min_isr,
    why_under_replicated,
)
from odradek.advisor.observed import observed_context
from odradek.controller.context import ControllerContext, ReassignmentPhase
from odradek.model.cluster import ReplicaAssignment
from odradek.model.facts import MetadataLoaded, TopicAssignment
from odradek.model.ids import BrokerId, TopicId
from tests.controller.world import registration, state, three, topic_id_of, tp


def text(why: Why) -> str:
    return "\n".join(why.lines())


def test_a_dead_replica_and_one_that_is_behind_are_told_apart() -> None:
    world = three("t", [1, 2, 3])
    world.kill(3)
    world.alter("t-0", [1])
    told = text(why_under_replicated(world.context, tp("t-0"), {BrokerId(1): 100, BrokerId(2): 40}))
    assert told.startswith("no   every replica of t-0 is in sync: replicas [1, 2, 3], ISR [1]")
    assert "no   broker 3 is in the ISR: not registered\n       -> start broker 3: it catches up" in told
    assert (
        "joins the ISR; if it is lost for good: an empty broker with id 3 in its place, or one with another id and then "
        "odradek reassign plan --drain 3"
    ) in told
    assert "broker 2 is in the ISR: it is live and behind: 60 records behind, at offset 40 of 100" in told
    unasked = text(why_under_replicated(world.context, tp("t-0")))
    assert "how far is not known from metadata" in unasked


def test_what_a_lost_broker_had_goes_to_one_that_has_no_replica_yet() -> None:
    world = three("t", [1, 3])
    world.kill(3)
    (missing,) = why_under_replicated(world.context, tp("t-0")).because
    assert missing.unblocked_by == (
        "start broker 3: it catches up and joins the ISR; if it is lost for good: odradek reassign plan --drain 3"
    )
    world.context.shutting_down_brokers.add(BrokerId(2))
    (missing,) = why_under_replicated(world.context, tp("t-0")).because
    assert "an empty broker with id 3 in its place" in missing.unblocked_by


def test_a_failed_disk_and_a_leaving_broker_are_named() -> None:
    world = three("t", [1, 2, 3])
    world.alter("t-0", [1])
    world.context.offline_directories[BrokerId(2)] = frozenset({tp("t-0")})
    world.context.shutting_down_brokers.add(BrokerId(3))
    told = text(why_under_replicated(world.context, tp("t-0")))
    assert "mend the disk and restart broker 2" in told
    assert "a broker that leaves may not join (KIP-841)" in told


def test_nobody_joins_the_isr_of_a_leader_that_is_shutting_down() -> None:
    world = three("t", [1, 2, 3])
    world.kill(3)
    world.alter("t-0", [1])
    world.context.shutting_down_brokers.add(BrokerId(1))
    behind, dead = why_under_replicated(world.context, tp("t-0")).because
    assert behind.detail == "its leader 1 is shutting down, and no replica joins its ISR (KIP-841)"
    assert behind.unblocked_by == "start broker 1 again once it has stopped"
    assert dead.unblocked_by == (
        "start broker 3, and broker 1, its leader, which is shutting down: until then no replica joins its ISR"
    )


def test_older_data_of_a_topic_of_that_name_goes_first() -> None:
    world = three("t", [1, 2])
    world.alter("t-0", [1])
    world.context.pending_deletions[BrokerId(2)] = {tp("t-0"): TopicId(b"another topic of")}
    (missing,) = why_under_replicated(world.context, tp("t-0")).because
    assert missing.detail == "it must first delete what it has of an older topic t"


def test_acks_all_is_refused_below_the_effective_minimum() -> None:
    world = three("t", [1, 2])
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    assert why_under_min_isr(world.context, tp("t-0")).holds
    world.kill(2)
    why = why_under_min_isr(world.context, tp("t-0"))
    assert not why.holds and why.detail == "1 in sync, min.insync.replicas 2"
    assert [reason.condition for reason in why.because] == ["broker 2 is in the ISR"]


def test_a_newcomer_copies_and_a_leaver_is_meant_to_go() -> None:
    world = three("t", [1, 2])
    world.reassign({"t-0": [1, 3]})
    world.alter("t-0", [1])
    told = text(why_under_replicated(world.context, tp("t-0")))
    assert "broker 3 is in the ISR: a reassignment adds it, and it copies" in told
    assert "broker 2 is in the ISR: a reassignment removes it\n       -> nothing: it is meant to go" in told


def test_a_partition_is_asked_for_a_leader_first() -> None:
    world = three("t", [2])
    world.reassign({"t-0": [3]})
    world.kill(2)
    wishes = [why.condition for why in why_partition(world.context, tp("t-0"), 0)]
    assert wishes == ["t-0 has a leader", "t-0 is on [3]"], (
        "what rests on a leader is not asked for without one"
    )
    assert len(why_partition(world.context, tp("t-9"), 0)) == 1
    well = why_partition(three("t", [1]).context, tp("t-0"), 0)
    assert [why.holds for why in well] == [True] * 4


def test_a_leaver_is_named_as_stuck_after_five_minutes() -> None:
    world = three("t", [1, 2])
    world.reassign({"t-0": [1, 3]})
    world.catch_up("t-0", 3)
    since = world.now_ms
    at_once = why_partition(world.context, tp("t-0"), since + 299_000)[-1]
    assert "no answer for 299 s" in text(at_once) and "stuck" not in text(at_once)
    late = why_partition(world.context, tp("t-0"), since + 300_000)[-1]
    assert "no   broker 2 has deleted its copy: no answer for 300 s: stuck" in text(late)


def slow(context: ControllerContext) -> list[str]:
    return [reason.condition for reason in why_slow(context, tp("t-0")).because]


def test_what_slows_is_told_and_nothing_else() -> None:
    world = three("t", [1, 2], [2, 3], [3, 1])
    assert why_slow(world.context, tp("t-0")).holds
    world.context.topic_configs["t"] = {"leader.replication.throttled.replicas": "0:1,5:2"}
    assert slow(world.context) == ["its replication is not throttled"]
    for listed in ("0:2", "*"):
        world.context.topic_configs["t"] = {"follower.replication.throttled.replicas": listed}
        assert slow(world.context) == ["its replication is not throttled"]
    world.context.topic_configs["t"] = {"leader.replication.throttled.replicas": "10:1"}
    assert slow(world.context) == []
    world.reassign({"t-0": [1, 3]})
    assert slow(world.context) == ["no reassignment copies it"]
    (copies,) = why_slow(world.context, tp("t-0")).because
    assert copies.unblocked_by == "its end, or odradek reassign cancel --partition t-0", "as it is typed"


def test_a_leader_that_carries_more_than_its_share_is_named() -> None:
    world = three("t", *[[2, 1, 3]] * 9)
    reasons = why_slow(world.context, tp("t-0")).because
    assert [r.condition for r in reasons] == ["broker 2 leads no more than its share"]
    assert reasons[0].detail == "it leads 9 of 9 partitions, its share is 3"
    world.kill(2)
    world.start(2)
    moved = why_slow(world.context, tp("t-0")).because
    assert moved[0].condition == "its preferred replica 2 leads" and moved[0].detail == "broker 1 leads"
    assert "then a preferred election" in moved[0].unblocked_by
    world.catch_up("t-0", 2)
    assert why_slow(world.context, tp("t-0")).because[0].unblocked_by == "odradek elect preferred t-0"


# ------------------------------------------------------------------------------------------ from outside


def seen(leader: int, isr: list[int], *, live: tuple[int, ...] = (1, 2, 3)) -> ControllerContext:
    node = ReplicaAssignment(
        (BrokerId(3), BrokerId(1), BrokerId(2)), (BrokerId(3),), (BrokerId(1), BrokerId(2))
    )
    snapshot = MetadataLoaded(
        brokers=tuple(registration(b, 100 + b) for b in live),
        topics=(TopicAssignment("t", topic_id_of("t"), {0: node}, 0),),
        states={tp("t-0"): state(leader, isr)},
    )
    return observed_context(snapshot, controller=BrokerId(2), now_ms=7)


def test_how_far_a_reassignment_is_is_read_off_the_isr() -> None:
    phases = [seen(1, [1, 2]), seen(1, [1, 2, 3]), seen(3, [1, 2, 3]), seen(3, [3])]
    assert [context.reassignments[tp("t-0")].phase for context in phases] == [
        ReassignmentPhase.GROWING,
        ReassignmentPhase.GROWING,
        ReassignmentPhase.SHRINKING,
        ReassignmentPhase.STOPPING,
    ]
    assert phases[-1].removals == {tp("t-0"): {1: 7, 2: 7}}
    assert seen(3, [3], live=(3,)).removals == {tp("t-0"): {}}, "the dead are not waited for"


def test_looking_decides_nothing() -> None:
    """A live member of the ISR that does not lead yet: a controller would elect it, one who looks does not."""
    context = seen(-1, [2])
    assert context.leadership(tp("t-0")).leader == -1  # type: ignore[union-attr]
    assert context.broker == 2
