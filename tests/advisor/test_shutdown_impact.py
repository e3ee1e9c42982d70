"""The impact of a shutdown, and the roll plan."""

from collections.abc import Iterable
from typing import Any

import pytest

from odradek.advisor import roll_plan as roll_plan_module
from odradek.advisor.roll_plan import Moment, RollPlan, check, fragile, roll_plan
from odradek.advisor.shutdown_impact import shutdown_impact
from odradek.advisor.what_if_steps import CatchUp, Reassign, Start, ask
from odradek.model.facts import DeleteTopicsRequested
from odradek.model.ids import BrokerId
from tests.controller.world import World, three, tp


def ids(*brokers: int) -> list[BrokerId]:
    return [BrokerId(b) for b in brokers]


def names(outcomes: object) -> list[str]:
    return [str(o.topic_partition) for o in outcomes]  # type: ignore[attr-defined]


def test_a_quote_names_what_goes_offline_what_falls_under_and_what_lands_on_min_isr() -> None:
    world = three("t", [2], [2, 3], [2, 1, 3], [1, 3])
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    impact = shutdown_impact(world.context, ids(2))
    assert names(impact.goes_offline) == ["t-0"]
    assert names(impact.falls_under_min_isr) == ["t-1"]
    assert names(impact.lands_on_min_isr) == ["t-2"]
    assert {str(o.topic_partition): o.leader_after for o in impact.moves_its_leader} == {"t-1": 3, "t-2": 1}
    assert world.leader("t-0")[0] == 2 and world.context.shutting_down_brokers == set(), "only asked"


def test_who_had_no_more_than_min_isr_before_does_not_land_on_it() -> None:
    world = three("t", [3, 2], [3, 2])
    world.alter("t-0", [3])
    impact = shutdown_impact(world.context, ids(2))
    assert names(impact.lands_on_min_isr) == ["t-1"]


def test_the_quote_is_what_then_happens() -> None:
    world = three("t", [2], [2, 3], [2, 1, 3])
    impact = shutdown_impact(world.context, ids(2))
    expected = {o.topic_partition: o.leader_after for o in (*impact.goes_offline, *impact.moves_its_leader)}
    world.shut_down(2)
    world.kill(2)
    assert {where: world.states[where].leader_and_isr.leader for where in expected} == expected


def test_the_remedy_is_the_smallest_reassignment_that_makes_it_safe() -> None:
    world = three("t", [2], [2, 3])
    world.start(4)
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    impact = shutdown_impact(world.context, ids(2))
    assert impact.remedy == {tp("t-0"): (1,), tp("t-1"): (4, 3)}, (
        "one place changes hands, the least loaded takes it"
    )
    for where, target in impact.remedy.items():
        world.reassign({str(where): target})
        for broker in target:
            if broker not in world.leader(str(where))[1]:
                world.catch_up(str(where), broker)
        world.stopped(2, str(where))
    safe = shutdown_impact(world.context, ids(2))
    assert safe.goes_offline == () and safe.falls_under_min_isr == ()


def test_an_election_outside_the_isr_is_not_called_safe() -> None:
    """With unclean elections allowed nothing goes offline, and records that were acknowledged are gone."""
    world = three("t", [2, 3], [2, 1])
    world.context.topic_configs["t"] = {"unclean.leader.election.enable": "true"}
    world.alter("t-0", [2])
    impact = shutdown_impact(world.context, ids(2))
    assert names(impact.may_lose_records) == ["t-0"] and not impact.is_safe
    assert impact.goes_offline == () and impact.falls_under_min_isr == ()
    said = "1 partition may lose acknowledged records by an unclean election, first t-0"
    assert (impact.refuses("none"), impact.refuses("offline"), impact.refuses("under-min")) == (
        None,
        said,
        said,
    )
    assert "  t-0 may lose acknowledged records: a replica leads that is not in sync" in impact.sentences()
    assert impact.as_json()["may_lose_records"][0]["partition"] == "t-0"  # type: ignore[index]
    assert names(shutdown_impact(world.context, ids(2, 3)).may_lose_records) == ["t-0"], (
        "3 led before it stopped too"
    )


def test_where_a_live_replica_is_behind_nothing_has_to_move() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    impact = shutdown_impact(world.context, ids(2))
    assert names(impact.goes_offline) == ["t-0"] and impact.remedy == {} and impact.without_remedy == {}
    assert impact.safe_once_in_sync == {tp("t-0"): (3,)}
    assert impact.sentences()[-1] == "  t-0 is safe once broker 3 is in sync"
    assert impact.as_json()["safe_once_in_sync"] == {"t-0": [3]}
    world.catch_up("t-0", 3)
    assert shutdown_impact(world.context, ids(2)).is_safe


def test_a_remedy_replaces_dead_replicas_first_for_with_them_it_would_not_end() -> None:
    world = three("t", [2, 3])
    world.start(4)
    world.kill(3)
    impact = shutdown_impact(world.context, ids(2))
    assert impact.remedy == {tp("t-0"): (2, 1)}
    (moved,), after = ask(world.context, [Reassign(impact.remedy)])
    assert moved.unfinished == () and shutdown_impact(after, ids(2)).is_safe
    world.kill(1, 4)
    assert list(shutdown_impact(world.context, ids(2)).without_remedy) == [tp("t-0")]


def test_the_remedy_of_a_partition_that_moves_is_about_its_target() -> None:
    """The union of old and new replicas, which it has until then, would keep all of them for ever."""
    world = three("t", [2])
    world.start(4, 5)
    world.reassign({"t-0": [3]})
    assert shutdown_impact(world.context, ids(2)).remedy == {tp("t-0"): (3,)}, "to its end, that is enough"
    impact = shutdown_impact(world.context, ids(2, 3))
    assert impact.remedy == {tp("t-0"): (1,)}
    (moved,), after = ask(world.context, [Reassign(impact.remedy)])
    assert moved.unfinished == () and shutdown_impact(after, ids(2, 3)).is_safe
    assert after.assignments[tp("t-0")].replicas == (1,)


def test_a_remedy_that_calls_off_what_runs_ends_at_once_and_who_is_behind_is_waited_for() -> None:
    """Nobody is added to the replicas of before, so the reassignment waits for nobody."""
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.reassign({"t-0": [1, 2]})
    impact = shutdown_impact(world.context, ids(1, 2))
    assert impact.remedy == {tp("t-0"): (3, 2)} and impact.safe_once_in_sync == {tp("t-0"): (3,)}
    assert impact.sentences()[-2:] == [
        "  first reassign t-0 to [3, 2]",
        "  t-0 is safe once broker 3 is in sync",
    ]
    (moved, _), after = ask(world.context, [Reassign(impact.remedy), CatchUp()])
    assert moved.unfinished == () and shutdown_impact(after, ids(1, 2)).is_safe


def test_whoever_alone_is_in_sync_is_kept_by_the_remedy_until_others_are() -> None:
    """It was added, and is refused as one to drop while nobody else has the records."""
    world = three("t", [2])
    world.reassign({"t-0": [3]})
    world.catch_up("t-0", 3)
    assert world.leader("t-0")[:2] == (3, (3,)) and world.context.reassignments, (
        "2 has not deleted its copy yet"
    )
    impact = shutdown_impact(world.context, ids(2, 3))
    assert impact.remedy == {tp("t-0"): (1, 3)}
    (moved,), after = ask(world.context, [Reassign(impact.remedy)])
    assert moved.unfinished == () and shutdown_impact(after, ids(2, 3)).is_safe
    world.start(4)
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    assert shutdown_impact(world.context, ids(2, 3)).remedy == {tp("t-0"): (1, 4, 3)}, (
        "of two replicas both count"
    )


def test_of_those_that_leave_the_one_that_is_behind_gives_its_place() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    assert shutdown_impact(world.context, ids(2, 3)).remedy == {tp("t-0"): (2, 1)}


def test_another_rack_is_preferred_for_the_newcomer() -> None:
    world = three("t", [2, 3])
    world.start(4, 5)
    context = world.context
    for broker, rack in ((3, "a"), (1, "a"), (4, "a"), (5, "b")):
        known = context.brokers[BrokerId(broker)]
        context.brokers[BrokerId(broker)] = type(known)(known.broker_id, known.epoch, known.endpoints, rack)
    context.topic_configs["t"] = {"min.insync.replicas": "2"}
    assert shutdown_impact(context, ids(2)).remedy == {tp("t-0"): (5, 3)}


def test_who_is_leaving_too_gets_no_replica() -> None:
    world = three("t", [2, 3])
    world.start(4, 5)
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    assert shutdown_impact(world.context, ids(2)).remedy == {tp("t-0"): (1, 3)}
    world.shut_down(1)
    world.shut_down(4)
    assert shutdown_impact(world.context, ids(2)).remedy == {tp("t-0"): (5, 3)}
    world.shut_down(5)
    assert list(shutdown_impact(world.context, ids(2)).without_remedy) == [tp("t-0")]


def test_without_another_broker_there_is_no_remedy_and_that_is_said() -> None:
    world = World().brokers(1)
    world.elect()
    world.create("t", [1])
    impact = shutdown_impact(world.context, ids(1))
    assert impact.remedy == {} and list(impact.without_remedy) == [tp("t-0")]
    assert impact.sentences() == [
        "taking down broker 1:",
        "  t-0 goes offline: broker 1 is the only one in sync",
        "  another leader for 0 partitions",
        "  t-0 cannot be made safe: there are too few other live brokers to take its replicas",
    ]


def test_a_dead_replica_that_would_make_it_safe_is_named() -> None:
    """ "Cannot be made safe" sent people away whose only task was to start a broker."""
    world = three("t", [3, 1, 2])
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    world.kill(3)
    impact = shutdown_impact(world.context, ids(1))
    why = "cannot be made safe before broker 3 is back and in sync: there are too few other live brokers to take its replicas"
    assert impact.without_remedy == {tp("t-0"): why}
    world.start(3)
    world.alter("t-0", [1, 2, 3])
    assert shutdown_impact(world.context, ids(1)).is_safe, "what was said is so"
    world.kill(3)
    assert list(shutdown_impact(world.context, ids(1, 2)).without_remedy.values()) == [
        "cannot be made safe: there are too few other live brokers to take its replicas"
    ], "one is not enough"
    world.context.topic_configs["t"] = {"min.insync.replicas": "1"}
    world.kill(2)
    assert list(shutdown_impact(world.context, ids(1)).without_remedy.values()) == [
        "cannot be made safe before broker 2 or 3 is back and in sync: there are too few other live brokers to take its replicas"
    ], "one is enough"


def test_whose_leader_is_shutting_down_already_has_no_remedy_and_that_is_said() -> None:
    """Nobody joins the ISR of a leader that leaves: a reassignment would not end, and who is behind stays so."""
    world = three("t", [2], [2, 3])
    world.alter("t-1", [2])
    world.shut_down(2)
    impact = shutdown_impact(world.context, ids(2))
    assert (impact.remedy, impact.safe_once_in_sync) == ({}, {})
    assert list(impact.without_remedy) == [tp("t-0"), tp("t-1")]
    why = (
        "cannot be made safe: broker 2, its leader, is shutting down already, and no replica joins its ISR (KIP-841); "
        "start broker 2 again once it has stopped"
    )
    assert impact.sentences()[-2:] == [f"  t-0 {why}", f"  t-1 {why}"]
    assert impact.as_json()["why_without_remedy"] == {"t-0": why, "t-1": why}
    (moved,), _ = ask(world.context, [Reassign({tp("t-0"): (BrokerId(1),)})])
    assert moved.unfinished == ("the reassignment of t-0 does not end: replica 1 has to join the ISR",)
    world.kill(2)
    world.start(2)
    assert list(shutdown_impact(world.context, ids(2)).remedy) == [tp("t-0")], "back again it can be copied"


def test_several_brokers_at_once_are_quoted_together() -> None:
    world = three("t", [2, 3], [2, 1])
    assert names(shutdown_impact(world.context, ids(2)).goes_offline) == []
    assert names(shutdown_impact(world.context, ids(2, 3)).goes_offline) == ["t-0"]


def test_the_refusal_follows_the_setting() -> None:
    world = three("t", [2], [2, 3])
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    impact = shutdown_impact(world.context, ids(2))
    assert impact.refuses("none") is None
    assert impact.refuses("offline") == "1 partition would go offline, first t-0"
    softer = shutdown_impact(three("t", [2, 3]).context, ids(2))
    assert softer.refuses("offline") is None and softer.refuses("under-min") is None
    world.create("u", [3, 1])
    world.context.topic_configs["u"] = {"min.insync.replicas": "2"}
    under = shutdown_impact(world.context, ids(1))
    assert under.refuses("offline") is None
    assert under.refuses("under-min") == "1 partition would fall under min.insync.replicas, first u-0"


def test_the_json_twin_says_the_same() -> None:
    world = three("t", [2], [2, 3])
    told = shutdown_impact(world.context, ids(2)).as_json()
    assert [p["partition"] for p in told["goes_offline"]] == ["t-0"]  # type: ignore[index, attr-defined]
    assert told["remedy"] == [{"topic": "t", "partition": 0, "replicas": [1]}]


def test_who_is_not_there_cannot_be_shut_down() -> None:
    with pytest.raises(ValueError, match=r"cannot shut down \[9\]"):
        shutdown_impact(three().context, ids(9))


# --------------------------------------------------------------------------------------------------- roll plan


def nine() -> World:
    """Nine brokers in three groups; a partition lies inside one group."""
    world = World().brokers(*range(1, 10))
    world.elect(1)
    world.create("t", *([b, b + 1, b + 2] for b in (1, 4, 7) for _ in range(2)))
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    return world


def test_a_plan_restarts_in_parallel_what_shares_nothing_and_the_controller_last() -> None:
    world = nine()
    plan = roll_plan(world.context, world.context.brokers)
    assert plan.is_safe
    assert plan.batches == ((2, 4, 7), (3, 5, 8), (6, 9), (1,))
    assert check(world.context, plan) == []


def test_a_batch_can_be_limited() -> None:
    world = nine()
    plan = roll_plan(world.context, world.context.brokers, at_once=1)
    assert [len(batch) for batch in plan.batches] == [1] * 9
    assert plan.batches[-1] == (1,) and check(world.context, plan) == []


def test_what_falls_under_min_isr_meanwhile_is_named() -> None:
    world = nine()
    moment = roll_plan(world.context, ids(4)).certificate[0]
    assert moment.under_min_isr == ()
    assert moment.under_min_isr_after_a_death == (tp("t-2"), tp("t-3")), "RF 3, min ISR 2: always"


def test_an_only_pair_is_a_counter_example_with_the_death_that_breaks_it() -> None:
    world = three("t", [2, 3], [1, 2, 3])
    plan = roll_plan(world.context, ids(2))
    assert not plan.is_safe and plan.batches == ()
    (example,) = plan.counter_examples
    assert (example.down, example.dies, example.topic_partition) == ((2,), 3, tp("t-0"))
    assert example.sentence() == (
        "while 2 restarts and broker 3 dies, no member of the ISR [2, 3] of t-0 is live"
    )
    assert roll_plan(world.context, ids(2), survives=0).is_safe


def test_an_only_replica_is_a_counter_example_without_any_death() -> None:
    world = three("t", [2])
    plan = roll_plan(world.context, ids(2), survives=0)
    assert plan.counter_examples[0].dies is None
    assert plan.sentences() == [
        "no order is safe:",
        "  while 2 restarts, no member of the ISR [2] of t-0 is live",
    ]


def test_a_replica_out_of_sync_does_not_count() -> None:
    world = three("t", [1, 2, 3])
    assert roll_plan(world.context, ids(2)).is_safe
    world.alter("t-0", [1, 2])
    assert not roll_plan(world.context, ids(2)).is_safe


def test_the_checker_finds_what_a_forged_certificate_hides() -> None:
    world = nine()
    forged = RollPlan((ids_tuple(4, 5),), (Moment(ids_tuple(4, 5), (), ()),), (), 1)
    wrong = check(world.context, forged)
    assert "t-2 goes offline when [4, 5] restarts and [6] dies" in wrong
    assert any("falls under min ISR and is not named" in sentence for sentence in wrong)
    twice = RollPlan(
        (ids_tuple(4), ids_tuple(4)), (Moment(ids_tuple(4), (), ()), Moment(ids_tuple(5), (), ())), (), 0
    )
    assert "a broker is restarted twice" in check(world.context, twice)
    assert "the certificate speaks of (5,), the plan of (4,)" in check(world.context, twice)


def ids_tuple(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(ids(*brokers))


def test_the_certificate_has_a_json_twin_and_sentences() -> None:
    world = nine()
    plan = roll_plan(world.context, ids(4, 7))
    assert plan.as_json()["batches"] == [[4, 7]]
    assert plan.sentences() == ["1. restart 4,7; if one more dies, acks=all is refused in 4 partitions"]


def test_a_partition_that_is_offline_already_does_not_forbid_the_roll() -> None:
    world = three("t", [2], [1, 2, 3], [1, 3, 2])
    world.kill(2)
    world.start(2)
    world.catch_up("t-1", 2)
    world.catch_up("t-2", 2)
    world.create("dead", [2])
    world.kill(2)
    assert roll_plan(world.context, ids(3), survives=0).is_safe


def test_a_partition_one_death_takes_offline_anyway_is_named_and_blames_no_plan() -> None:
    world = three("t", [2], [1, 3, 2])
    plan = roll_plan(world.context, ids(1, 3), at_once=1)
    assert plan.is_safe and check(world.context, plan) == []
    assert fragile(world.context) == (tp("t-0"),)


def test_a_broker_that_may_join_a_batch_is_asked_for_its_own_partitions_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a hundred brokers with 20,000 partitions a plan took 20 s: all that the whole batch has was put in order each time."""
    racks, size = 3, 8
    world = World().brokers(*range(1, racks * size + 1))
    world.elect()
    rows = [[1 + n % size + size * ((rack + n) % racks) for rack in range(racks)] for n in range(10 * size)]
    world.create("t", *rows)
    ordered: list[int] = []

    def counted(items: Iterable[Any]) -> list[Any]:
        found = sorted(items)
        ordered.append(len(found))
        return found

    monkeypatch.setattr(roll_plan_module, "sorted", counted, raising=False)
    plan = roll_plan(world.context, list(world.context.brokers))
    assert [len(batch) for batch in plan.batches] == [size, size, size - 1, 1], "its controller is the last"
    assert sum(ordered) < (racks + len(plan.batches) + 1) * len(rows) and check(world.context, plan) == []


def test_a_plan_counts_with_the_end_of_a_reassignment() -> None:
    """Between two steps one waits for full ISRs: what moves is on its target alone by then, and 4 and 5 went down together."""
    world = World().brokers(*range(1, 8))
    world.elect(1)
    world.create("t", [1, 6, 7])
    world.create("u", [2, 3], [2, 4], [2, 5])
    world.reassign({"t-0": [4, 5]})
    plan = roll_plan(world.context, ids(2, 3, 4, 5), survives=0)
    assert plan.batches == ((2,), (3, 4), (5,)) and check(world.context, plan) == []
    together = RollPlan((ids_tuple(4, 5),), (Moment(ids_tuple(4, 5), (), ()),), (), 0)
    assert check(world.context, together) == ["t-0 goes offline when [4, 5] restarts and [] dies"]
    examples = {str(e.topic_partition): e for e in roll_plan(world.context, ids(4)).counter_examples}
    example = examples["t-0"]
    assert example.sentence() == (
        "while 4 restarts and broker 5 dies, no member of the ISR [4, 5] of t-0 is live, once its reassignment has ended"
    )
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    assert roll_plan(world.context, ids(4), survives=0).certificate[0].under_min_isr == (tp("t-0"),)


def test_what_refuses_acks_all_until_a_replica_is_back_is_named_for_the_steps_after_that() -> None:
    """It does now, so it did not "fall"; and between two steps it is waited for."""
    world = three("t", [1, 2, 3])
    world.context.topic_configs["t"] = {"min.insync.replicas": "3"}
    world.alter("t-0", [1, 2])
    plan = roll_plan(world.context, ids(1, 2, 3), survives=0)
    assert [moment.under_min_isr for moment in plan.certificate] == [(tp("t-0"),)] * len(plan.batches)
    unnamed = RollPlan(((BrokerId(1),),), (Moment((BrokerId(1),), (), ()),), (), 0)
    assert "t-0 falls under min ISR and is not named" in check(world.context, unnamed)


def test_a_topic_that_is_being_deleted_is_no_outage() -> None:
    """Its replicas wait for a broker that is away; nobody waits for them."""
    world = three("t", [2], [2, 3])
    world.kill(3)
    world.delete_topics = ("t",)
    world.step(DeleteTopicsRequested(("t",)))
    assert world.context.topics_to_delete == {"t"}
    impact = shutdown_impact(world.context, [BrokerId(2)])
    assert impact.is_safe and impact.refuses("offline") is None
    (answer,), _ = ask(world.context, [Start((BrokerId(3),))])
    assert answer.outcomes == ()
    with pytest.raises(ValueError, match="t-0 cannot be reassigned: its topic is being deleted"):
        ask(world.context, [Reassign({tp("t-0"): (BrokerId(1),)})])
