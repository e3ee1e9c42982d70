"""Why a partition is offline: a tree of what is missing, with the event that would mend it."""

from odradek.advisor.explain import why_offline, why_out_of_service
from odradek.advisor.observed import observed_context
from odradek.controller.events import LeaderAndIsrAnswered
from odradek.model.cluster import ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import DeleteTopicsRequested, MetadataLoaded, TopicAssignment
from odradek.model.ids import NO_LEADER, BrokerId
from odradek.model.values import replace
from tests.controller.test_eligible import last_one_standing
from tests.controller.test_pending_deletions import create_again, left_behind
from tests.controller.test_unclean import ends
from tests.controller.world import World, three, tp


def told(world: World, partition: str) -> str:
    return "\n".join(why_offline(world.context, tp(partition)).lines())


def test_a_partition_with_a_leader_has_nothing_to_explain() -> None:
    why = why_offline(three().context, tp("t-0"))
    assert why.holds and why.because == ()
    assert why.detail == "broker 2, epoch 0, ISR [2, 1, 3]"


def test_an_only_replica_that_is_gone_is_named_with_what_follows_its_return() -> None:
    world = three("s3", [2])
    world.kill(2)
    text = told(world, "s3-0")
    assert text == (
        "no   s3-0 has a leader: leader epoch 1, no leader\n"
        "  no   a replica of the ISR is live: ISR [2], live: []\n"
        "    no   broker 2 is live: not registered\n"
        "         -> start broker 2: then 2 leads, ISR [2]"
    )


def test_a_live_replica_outside_the_isr_is_offered_only_as_unclean() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.kill(2)
    why = why_offline(world.context, tp("t-0"))
    clean, unclean = why.because
    assert not clean.holds and not unclean.holds
    gate, other = unclean.because
    assert not gate.holds and other.holds and other.detail == "live replicas [3]"


def test_who_is_eligible_is_named_too_and_how_a_broker_ended_decides_what_its_return_is_worth() -> None:
    text = told(last_one_standing(), "e-0")
    assert (
        "    no   broker 2 is live: not registered\n"
        "         -> start broker 2: if it was stopped in order then 2 leads, ISR [2]; after a crash it is not enough by "
        "itself\n"
        "  no   or one that is eligible beside the ISR is (KIP-966): eligible [1]: all committed records are there too\n"
        "    no   broker 1 is live: not registered\n"
        "         -> start broker 1: if it was stopped in order then 1 leads, ISR [1]; after a crash it is not enough by "
        "itself\n"
    ) in text


def test_what_is_foretold_of_a_return_happens() -> None:
    crashed, stopped = last_one_standing(), last_one_standing()
    crashed.start(2)
    stopped.start_clean(2, stopped_as=stopped.context.last_epochs[BrokerId(2)])
    assert [world.leader("e-0")[0] for world in (crashed, stopped)] == [NO_LEADER, 2]
    text = told(crashed, "e-0")
    assert "ISR [2], live: [2]; [2] came back without a clean shutdown, and may have lost records" in text
    foretold = "start broker 1: if it was stopped in order then 1 leads, ISR [1]; after a crash then of [2, 1] the one with the longest log leads"
    assert foretold in text
    again = last_one_standing()
    again.start(2)
    again.start(1)
    again.step(ends(1, 4, 10, "e-0"))
    again.step(ends(2, 4, 11, "e-0"))
    crashed.start_clean(1, stopped_as=crashed.context.last_epochs[BrokerId(1)])
    assert [world.leader("e-0")[:2] for world in (again, crashed)] == [(2, (2,)), (1, (1,))]


def test_a_partition_that_never_led_says_who_must_start() -> None:
    world = World().brokers(1)
    world.elect()
    world.create("t", [2, 3])
    text = told(world, "t-0")
    assert "NewPartition: it never had one" in text
    assert "-> start broker 2: then 2 leads, ISR [2]" in text


def test_a_failed_disk_is_named() -> None:
    world = three("t", [2])
    epoch = world.registrations[2].epoch
    lost = {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, lost))
    assert (
        "its log directory failed, or its log is damaged\n         -> broker 2 has logged which: mend the disk and restart broker 2"
        in told(world, "t-0")
    )


def test_a_broker_that_is_shutting_down_is_named() -> None:
    world = three()
    world.shut_down(3)
    world.create("late", [3])
    text = told(world, "late-0")
    assert "no   broker 3 is live: shutting down" in text
    assert "-> start broker 3 again once it has stopped" in text


def test_a_broker_that_must_first_delete_an_older_topic_is_not_said_to_be_live() -> None:
    world = left_behind()
    create_again(world, 3)
    world.start(3)
    text = told(world, "d-0")
    assert "no   broker 3 is live: it must first delete what it has of an older topic d\n" in text
    assert "-> its answer; it is told again every ten seconds" in text


def test_where_somebody_of_the_isr_lives_and_nobody_leads_the_controller_is_asked_for() -> None:
    """As one sees it from outside while no controller elects: to start brokers would not help."""
    context = three("t", [2, 3]).context
    snapshot = MetadataLoaded(
        tuple(context.brokers[BrokerId(b)] for b in (1, 3)),
        (TopicAssignment("t", None, {0: context.assignments[tp("t-0")]}),),
        {tp("t-0"): context.leaderships[tp("t-0")]},
    )
    why = why_offline(observed_context(snapshot), tp("t-0"))
    assert why.detail == "its leader 2 is gone"
    (reason,) = why.because
    assert (reason.condition, reason.holds) == ("a controller elects broker 3 of the ISR", False)
    assert reason.detail == "ISR [2, 3], live: [3], and no leader has been elected"
    assert "cannot read a node of t" in reason.unblocked_by


def test_an_isr_that_is_no_longer_assigned_is_said_to_be_so() -> None:
    """Somebody wrote another assignment over it by hand: that its broker lives helps nobody."""
    context = three("t", [2]).context
    led = context.leaderships[tp("t-0")]
    snapshot = MetadataLoaded(
        tuple(context.brokers.values()),
        (TopicAssignment("t", None, {0: ReplicaAssignment((BrokerId(9),))}),),
        {tp("t-0"): replace(led, leader_and_isr=replace(led.leader_and_isr, leader=NO_LEADER))},
    )
    clean = why_offline(observed_context(snapshot), tp("t-0")).because[0]
    (reason,) = clean.because
    assert (reason.condition, reason.holds) == ("broker 2 of the ISR is a replica", False)
    assert reason.detail == "the assignment [9] was written over it"


def test_a_state_that_cannot_be_read_is_read_again_by_the_next_controller() -> None:
    world = three()
    world.context.out_of_service["bad"] = "/brokers/topics/bad/partitions/0/state: bad JSON"
    (reason,) = why_offline(world.context, tp("bad-0")).because
    assert (
        reason.unblocked_by
        == "repair the node: odradek store set /brokers/topics/bad/partitions/0/state FILE --yes; then odradek store delete /controller "
        "--yes: the next controller reads it"
    )


def test_a_topic_out_of_service_gives_its_reason() -> None:
    world = three()
    world.context.out_of_service["bad"] = "/brokers/topics/bad: bad JSON"
    why = why_offline(world.context, tp("bad-0"))
    assert why.because[0].detail == "/brokers/topics/bad: bad JSON"


def test_that_a_topic_out_of_service_is_to_be_deleted_is_said() -> None:
    """Asked for in the same term, or before it: what waits for the node is more than an election."""
    world = three("t", [2])
    reason = "/brokers/topics/t/partitions/0/state: bad JSON"
    world.context.commit_out_of_service("t", reason)
    assert why_out_of_service(world.context, "t").because[0].detail == reason
    world.step(DeleteTopicsRequested(("t",)))
    asked = f"{reason}; its deletion was asked for, and begins once they can be"
    for tree in (why_out_of_service(world.context, "t"), why_offline(world.context, tp("t-0"))):
        assert tree.because[0].detail == asked
    world.context.deletions_requested, world.context.topics_to_delete = frozenset(), {"t"}
    assert why_out_of_service(world.context, "t").because[0].detail == asked


def test_a_partition_that_does_not_exist_names_those_that_do() -> None:
    world = three("t", [2], [3])
    assert why_offline(world.context, tp("t-9")).detail == "no such partition; partitions of t: t-0, t-1"
    assert "none: the topic is unknown" in why_offline(world.context, tp("nobody-0")).detail


def test_a_topic_being_deleted_gets_no_leader() -> None:
    world = three("t", [2])
    world.kill(2)
    world.context.topics_to_delete.add("t")
    assert "is being deleted" in why_offline(world.context, tp("t-0")).detail


def test_the_tree_has_a_json_twin() -> None:
    world = three("t", [2])
    world.kill(2)
    why = why_offline(world.context, tp("t-0")).as_json()
    assert why["condition"] == "t-0 has a leader" and why["holds"] is False
    assert len(why["because"]) == 1  # type: ignore[arg-type]


def test_an_unclean_election_is_no_way_out_where_every_replica_is_of_the_isr() -> None:
    """It was offered, with its command, for topics of one replica: nothing is elected by it."""
    world = three("t", [2], [2, 3])
    world.kill(2)
    world.kill(3)
    assert [reason.condition for reason in why_offline(world.context, tp("t-0")).because] == [
        "a replica of the ISR is live"
    ]
    assert "unclean" in told(world, "t-1"), "2 had left its ISR"


def test_an_unclean_election_takes_a_broker_that_is_there_and_a_setting() -> None:
    world = three("s3", [3, 2])
    world.kill(3)
    world.kill(2)
    assert told(world, "s3-0").endswith(
        "  no   or a replica outside the ISR may lead\n"
        "    no   unclean.leader.election.enable of s3: records acknowledged and not copied there would be lost\n"
        "         -> odradek elect unclean s3-0 --yes, or for all of it odradek config set --topic s3 "
        "unclean.leader.election.enable=true\n"
        "    no   another replica is live: none\n"
        "         -> start any broker that has a replica"
    )
