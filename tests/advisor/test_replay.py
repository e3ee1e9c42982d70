"""A journal played again."""

import json
from typing import Any

import pytest

from odradek.advisor.replay import first_difference, is_the_same, replay
from odradek.controller.broker_requests import StopReplicaRequest
from odradek.controller.context import ControllerSettings
from odradek.controller.election import ELIGIBLE, UNCLEAN
from odradek.controller.events import Event, Tick, WritesAnswered
from odradek.controller.journal import UnreadableJournal, as_json, effects_as_json, event_from_json
from odradek.controller.replica_removal import RetryRemovals
from odradek.model.facts import ConfigChanged, IsrChangeNotified, TopicsChanged
from odradek.model.values import replace
from tests.controller.test_topic_deletion import delete
from tests.controller.world import World, state, topic_id_of, tp


def written_down(world: World) -> list[dict[str, Any]]:
    """Make the world keep a journal, as the shell does: a line a step, through JSON text."""
    lines: list[dict[str, Any]] = []
    original = world.core.step

    def step(event: Event, now_ms: int) -> Any:
        effects = original(event, now_ms)
        line = {"at_ms": now_ms, "event": as_json(event), **effects_as_json(effects)}
        lines.append(json.loads(json.dumps(line)))
        return effects

    world.core.step = step  # type: ignore[method-assign]
    return lines


def story() -> tuple[World, list[dict[str, Any]]]:
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 1, 3], [3, 2, 1])
    world.step(ConfigChanged("topics", "t", {"min.insync.replicas": "2"}))
    world.now_ms += 1000
    world.alter("t-0", [2, 1])
    world.kill(2)
    world.start(2)
    world.catch_up("t-0", 2)
    world.reassign({"t-1": [1, 2]})
    world.stopped(3, "t-1")
    world.shut_down(1)
    world.delete_topics = ("t",)
    return world, lines


def test_every_event_and_effect_goes_through_json_and_back() -> None:
    _, lines = story()
    for line in lines:
        event = event_from_json(line["event"])
        assert as_json(event) == line["event"]
        again = event_from_json(json.loads(json.dumps(as_json(event))))
        assert again == event


def test_a_journal_played_again_says_the_same_at_every_step() -> None:
    world, lines = story()
    steps, core = replay(lines)
    assert len(steps) == len(lines)
    assert first_difference(steps) is None
    assert core.context is not None
    assert core.context.leaderships == world.context.leaderships
    assert core.context.replica_state_overrides == world.context.replica_state_overrides


def test_a_journal_that_ends_before_its_writes_were_answered_says_the_same_at_every_step() -> None:
    """The controller was killed there, or is in the middle of it; the next one is elected."""
    _, lines = story()
    answered = [n for n, line in enumerate(lines) if line["event"]["type"] == "WritesAnswered"]
    assert len(answered) > 5
    for cut in answered:
        for rest in ([], lines):
            steps, core = replay([*lines[:cut], *rest])
            assert first_difference(steps) is None, f"cut before line {cut}"
            assert core.context is not None


def test_after_a_difference_the_store_holds_what_a_hand_had_written_before_it() -> None:
    """From there on a store in memory answers, and it began with what the real one had answered."""
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 1, 3])
    world.before_write = lambda writes: world.states.update({tp("t-0"): state(2, [2, 3], version=1)})
    world.alter("t-0", [2, 1])
    from_here = len(lines)
    world.create("u", [1])
    at = next(n for n, line in enumerate(lines) if n >= from_here and line["changes"])
    lines[at]["changes"][0]["reason"] = "in words of another version"
    world.kill(3)
    steps, core = replay(lines)
    different = first_difference(steps)
    assert different is not None and different.line == at
    assert core.context is not None
    assert core.context.leaderships == world.context.leaderships


def test_what_waits_since_a_write_was_answered_waits_as_long_when_played_again() -> None:
    """The store took five seconds, and the survivors are asked behind that: nobody is elected sooner."""
    world = World(settings=ControllerSettings(unclean_leader_election_enable=True)).brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 3, 1])
    world.alter("t-0", [2])

    def slow(_writes: object) -> None:
        world.now_ms += 5_000

    world.before_write = slow
    world.kill(2)
    (poll,) = world.context.polls.values()
    for now_ms in (poll.deadline_ms - 1, poll.deadline_ms):
        world.now_ms = now_ms
        world.step(Tick())
    assert world.leader("t-0")[0] == 3
    steps, _ = replay(lines, settings=world.settings)
    assert first_difference(steps) is None


def test_it_can_stop_at_a_point_in_time() -> None:
    _, lines = story()
    _, core = replay(lines, until_ms=1_000_000)
    assert core.context is not None
    assert core.context.leadership(tp("t-0")).isr == (2, 1, 3)  # type: ignore[union-attr]


def test_without_the_death_of_a_broker_its_partitions_keep_their_leader() -> None:
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 1, 3])
    world.kill(2)
    world.create("u", [3, 1])
    death = next(n for n, line in enumerate(lines) if line["event"]["type"] == "BrokersChanged")
    steps, core = replay(lines, drop=[death])
    assert core.context is not None
    assert core.context.leadership(tp("t-0")).leader == 2  # type: ignore[union-attr]
    assert core.context.leadership(tp("u-0")).leader == 3  # type: ignore[union-attr]
    first = first_difference(steps)
    assert first is not None and first.line > death, "brokers are told of one more live broker from then on"


def test_another_setting_shows_what_it_would_have_changed() -> None:
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 3])
    world.alter("t-0", [2])
    world.kill(2)
    assert world.leader("t-0")[0] == -1
    steps, core = replay(lines, settings=ControllerSettings(unclean_leader_election_enable=True))
    assert core.context is not None
    assert core.context.leadership(tp("t-0")).leader == 3  # type: ignore[union-attr]
    first = first_difference(steps)
    assert first is not None and lines[first.line]["event"]["type"] in ("BrokersChanged", "WritesAnswered")


def test_conflicts_are_answered_as_they_were() -> None:
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 1, 3])
    world.before_write = lambda writes: world.states.update({tp("t-0"): state(2, [2, 3], version=1)})
    world.kill(2)
    steps, core = replay(lines)
    assert first_difference(steps) is None
    assert core.context is not None and core.context.leadership(tp("t-0")).isr == (3,)  # type: ignore[union-attr]


@pytest.mark.parametrize("is_dropped", [False, True])
def test_conflicts_are_answered_as_they_were_where_what_is_changed_has_no_consequence(
    is_dropped: bool,
) -> None:
    """A setting that they had, or an event that was nothing: what others wrote is known from the answers alone."""
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 1, 3])
    nothing = len(lines)
    world.step(Tick())
    world.before_write = lambda writes: world.states.update({tp("t-0"): state(2, [2, 3], version=1)})
    world.kill(2)
    steps, core = replay(lines, drop=[nothing] if is_dropped else (), settings=world.settings)
    assert first_difference(steps) is None
    assert core.context is not None and core.context.leadership(tp("t-0")).isr == (3,)  # type: ignore[union-attr]


def test_a_changed_line_is_found() -> None:
    _, lines = story()
    at = next(n for n, line in enumerate(lines) if line["changes"])
    lines[at]["changes"][0]["reason"] = "somebody else says so"
    steps, _ = replay(lines)
    first = first_difference(steps)
    assert first is not None and first.line == at


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("nobody in the ISR is live; unclean election is allowed", UNCLEAN),
        ("nobody in the ISR is live; first assigned replica that is live and eligible", ELIGIBLE),
        (
            "without [3] nobody live of the ISR [1, 3] would be left",
            "without [3] no live member of the ISR [1, 3] would be left",
        ),
        ("a leaver could not delete its data; asked again", RetryRemovals().reason()),
    ],
)
def test_a_reason_in_the_words_of_an_older_version_is_no_difference(recorded: str, now: str) -> None:
    assert recorded != now
    assert is_the_same([{"reason": f"broker 2 died: {now}"}], [{"reason": f"broker 2 died: {recorded}"}])
    assert not is_the_same([{"reason": now}], [{"reason": f"{recorded} as well"}])


@pytest.mark.parametrize("broken", [{"type": "Nonsense"}, {"no": "type"}, 7])
def test_a_line_that_cannot_be_understood_says_so(broken: Any) -> None:
    with pytest.raises(UnreadableJournal, match="no such event"):
        event_from_json(broken)


def test_a_line_with_a_missing_field_says_which_record() -> None:
    with pytest.raises(UnreadableJournal, match="ControlledShutdownRequested"):
        event_from_json({"type": "ControlledShutdownRequested", "broker": 1})
    with pytest.raises(UnreadableJournal, match="'zero' is no partition"):
        event_from_json({"type": "ReassignmentStep", "partitions": ["zero"]})


def test_answers_are_events_too() -> None:
    _, lines = story()
    answered = [event_from_json(line["event"]) for line in lines if line["event"]["type"] == "WritesAnswered"]
    assert answered and all(isinstance(event, WritesAnswered) for event in answered)


def test_a_journal_older_than_the_numbers_of_stop_replica_is_played_again() -> None:
    """Neither its requests nor its answers name one."""
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 1, 3])
    number = next(
        request.number
        for request in world.reassign({"t-0": [1, 2]}).requests
        if isinstance(request, StopReplicaRequest) and request.broker == 3
    )
    world.stopped(3, "t-0", number=number)
    assert world.node("t-0") == ((1, 2), (), ())

    for line in lines:
        for record in (line["event"], *line["requests"]):
            record.pop("number", None)
    assert '"number"' not in json.dumps(lines)
    steps, core = replay(lines)
    assert first_difference(steps) is None
    assert core.context is not None and core.context.assignments[tp("t-0")].replicas == (1, 2)


def test_a_request_with_another_number_is_a_difference() -> None:
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 1, 3])
    world.reassign({"t-0": [1, 2]})
    (stop,) = [r for line in lines for r in line["requests"] if "number" in r]
    stop["number"] += 1
    difference = first_difference(replay(lines)[0])
    assert difference is not None and stop in lines[difference.line]["requests"]


def test_a_change_by_somebody_else_that_is_dropped_is_not_in_the_store_either() -> None:
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 3, 1])
    told = len(lines)
    world.states[tp("t-0")] = state(2, [2], controller_epoch=world.controller_epoch, version=1)
    world.step(IsrChangeNotified({tp("t-0"): world.states[tp("t-0")]}))
    world.kill(3)
    _, core = replay(lines, drop=[told])
    assert core.context is not None
    known = core.context.leadership(tp("t-0"))
    assert known is not None and (known.leader, known.isr) == (2, (2, 1))


@pytest.mark.parametrize("is_seen_gone", [True, False])
def test_a_topic_made_again_begins_anew_also_where_its_deletion_is_dropped(is_seen_gone: bool) -> None:
    """Its node is another one all the same, and so are the states below: those of the old one refused the first leader."""
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2])
    asked = len(lines)
    delete(world, "t")
    world.stopped(2, "t-0")
    if is_seen_gone:
        world.step(TopicsChanged((), ()))
    world.topics["t"] = replace(world.store_topic("t", [[3]]), topic_id=topic_id_of("t", 1))
    world.step(TopicsChanged(("t",), (world.topics["t"],)))
    for dropped in ([], [asked]):
        _, core = replay(lines, drop=dropped)
        assert core.context is not None
        known = core.context.leadership(tp("t-0"))
        assert known is not None and (known.leader, known.isr) == (3, (3,)), dropped
