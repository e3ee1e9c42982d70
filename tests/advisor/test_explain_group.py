"""Why a group does not get on: what its coordinator says, how far it has read, and what its records tell."""

import pytest

from odradek.advisor.explain import Why
from odradek.advisor.explain_group import CHURN_MS, SILENT_MS, deaths, owned_since, why_group
from odradek.model.groups import Generation, Group, GroupHistory, GroupMember, Position, Seat
from odradek.model.ids import BrokerId, TopicPartition
from tests.controller.world import World, three, tp

NOW = 10 * CHURN_MS
AT = tp("__consumer_offsets-0")


def world() -> World:
    """`t` in two partitions, and one of the internal topic, on brokers 1 to 3."""
    built = three("t", [2, 1, 3], [3, 1, 2])
    built.create(AT.topic, [1, 2, 3])
    return built


def member(name: str, *partitions: str, topics: tuple[str, ...] = ("t",)) -> GroupMember:
    return GroupMember(name, None, f"client-{name}", "/10.0.0.1", topics, tuple(tp(p) for p in partitions))


def group(*members: GroupMember, state: str = "Stable") -> Group:
    return Group("g", state, "classic", "consumer", "range", BrokerId(1), members)


def seat(name: str, *partitions: str) -> Seat:
    return Seat(name, None, f"client-{name}", "/10.0.0.1", 45_000, 300_000, tuple(tp(p) for p in partitions))


def generation(number: int, ago_ms: int, *seats: Seat) -> Generation:
    return Generation(NOW - ago_ms, number, seats[0].member_id if seats else None, seats)


def past(*generations: Generation, committed: dict[TopicPartition, int] | None = None) -> GroupHistory:
    return GroupHistory(generations, committed or {}, None)


def trees(
    of: Group, *read: Position, history: GroupHistory | None = None, on: World | None = None
) -> list[Why]:
    return list(why_group((on or world()).context, of, AT, read, history or past(), NOW))


def wrong(found: list[Why]) -> str:
    return "\n".join(line for tree in found if not tree.holds for line in tree.lines())


def read_to(partition: str, committed: int | None, end: int, owner: GroupMember | None = None) -> Position:
    return Position(tp(partition), committed, 0, end, owner)


BOTH = member("a", "t-0", "t-1")


def test_a_stable_group_that_has_read_everything_is_well() -> None:
    history = past(generation(3, 90_000, seat("a", "t-0", "t-1")))
    found = trees(group(BOTH), read_to("t-0", 5, 5, BOTH), read_to("t-1", 4, 4, BOTH), history=history)
    assert wrong(found) == ""
    assert found[1].detail == "Stable for 90 s, generation 3"


def test_a_group_without_a_name_is_seen_in_each_sentence() -> None:
    nameless = Group("", "Stable", "classic", "consumer", "range", BrokerId(1), (BOTH,))
    found = trees(nameless, read_to("t-0", 5, 5, BOTH))
    assert len(found) == 5
    assert all("''" in tree.condition for tree in found)


def test_a_coordinator_that_refuses_commits_is_the_first_reason() -> None:
    built = world()
    built.context.topic_configs[AT.topic] = {"min.insync.replicas": "2"}
    built.kill(2)
    built.kill(3)
    told = wrong(trees(group(BOTH), on=built))
    assert told.startswith(
        "no   g has a coordinator that can write: broker 1, which leads __consumer_offsets-0\n"
    )
    assert "__consumer_offsets-0 accepts acks=all: 1 in sync, min.insync.replicas 2" in told


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            "PreparingRebalance",
            "every member has joined again: 1 member known, and no answer tells which have; of the last generation "
            "client-b at /10.0.0.1 is gone",
        ),
        ("CompletingRebalance", "the leader of the group has sent the assignment: led by a, unless"),
        ("Assigning", "the coordinator has made an assignment"),
        ("Reconciling", "every member has let go of what it shall not read any more"),
    ],
)
def test_what_an_unsettled_group_waits_for_is_said(state: str, words: str) -> None:
    history = past(generation(1, 60_000, seat("a", "t-0"), seat("b", "t-1")))
    found = trees(group(member("a"), state=state), history=history)
    told = wrong(found)
    assert told.startswith(f"no   g is stable: {state}\n") and words in told
    if state == "PreparingRebalance":
        assert "who has not after at most 300 s, the largest max.poll.interval.ms, is removed" in told


def test_who_comes_and_goes_is_named_with_how_often() -> None:
    """Four generations in ten minutes: b ends and comes back under another id."""
    a, b1, b2 = seat("a", "t-0"), seat("b1", "t-1"), seat("b2", "t-1")
    b2 = Seat("b2", None, b1.client_id, b1.host, 6_000, 300_000, b1.partitions)
    history = past(
        generation(1, 400_000, a, b1),
        generation(2, 300_000, a),
        generation(3, 200_000, a, b2),
        generation(4, 9_000, a),
    )
    told = wrong(trees(group(member("a", "t-0", "t-1")), history=history))
    assert (
        "no member comes and goes: 4 generations in the last 10 min: client-b1 at /10.0.0.1 came or went 3 times"
        in told
    )
    assert "session.timeout.ms 6000" in told and "a group.instance.id" in told
    three_only = past(*history.generations[1:])
    assert wrong(trees(group(BOTH), history=three_only)) == "", "some rebalances are the rule"
    old = past(*(generation(one.number, CHURN_MS + one.number, *one.seats) for one in history.generations))
    assert wrong(trees(group(BOTH), history=old)) == "", "long ago is no reason today"


def test_rebalances_among_the_same_members_are_told_apart() -> None:
    a = seat("a", "t-0", "t-1")
    history = past(*(generation(n, 100_000 - n, a) for n in range(5)))
    assert "5 generations in the last 10 min, always with the same members" in wrong(
        trees(group(BOTH), history=history)
    )


def test_a_topic_there_is_not_and_a_partition_nobody_reads_are_named() -> None:
    told = wrong(trees(group(member("a", "t-0", topics=("t", "tt")))))
    assert "every topic g subscribes to is there: there is no tt" in told
    assert "every partition g subscribes to has a reader: no member reads t-1" in told
    twice = wrong(trees(group(BOTH, member("b", "t-1"))))
    assert "t-1 has more than one" in twice
    rebalancing = trees(group(member("a", "t-0"), state="PreparingRebalance"))
    assert rebalancing[3].holds, "who reads what is not known then"


@pytest.mark.parametrize(
    ("one", "silent_ms", "words"),
    [
        (
            Position(tp("t-0"), 3, 7, 9, BOTH),
            0,
            "committed 3, and the log begins at 7: what lay between is gone",
        ),
        (Position(tp("t-0"), 30, 0, 9, BOTH), 0, "committed 30, beyond the end 9"),
        (read_to("t-0", 3, 9), 0, "6 behind, and no member subscribes to it"),
        (
            read_to("t-0", 3, 9, BOTH),
            SILENT_MS + 1_000,
            "6 behind, and client-a at /10.0.0.1 has committed nothing for 61 s",
        ),
        (read_to("t-0", 3, 9, BOTH), SILENT_MS, ""),
        (Position(tp("t-0"), 7, 7, 9, BOTH), 0, ""),  # nothing lay between
        (read_to("t-0", 9, 9, BOTH), SILENT_MS + 1_000, ""),
    ],
)
def test_lag_is_a_fault_where_nobody_works_it_off(one: Position, silent_ms: int, words: str) -> None:
    history = past(committed={tp("t-0"): NOW - silent_ms})
    told = wrong(trees(group(BOTH), one, history=history))
    assert words in told and bool(told) == bool(words)


def test_an_empty_group_is_well_while_it_has_read_all() -> None:
    assert wrong(trees(group(state="Empty"), read_to("t-0", 9, 9))) == ""
    assert "6 behind, and the group has no members" in wrong(
        trees(group(state="Empty"), read_to("t-0", 3, 9))
    )


def test_a_past_that_cannot_be_read_keeps_nothing_back() -> None:
    found = list(why_group(world().context, group(BOTH), AT, [read_to("t-0", 3, 9, BOTH)], None, NOW))
    assert wrong(found) == ""


def test_since_when_is_as_far_back_as_the_same_owner_is_told() -> None:
    history = past(
        generation(1, 900, seat("a", "t-0", "t-1")),
        generation(2, 600, seat("a", "t-0"), seat("b", "t-1")),
        generation(3, 300, seat("a", "t-0"), seat("b", "t-1")),
    )
    assert owned_since(history) == {tp("t-0"): NOW - 900, tp("t-1"): NOW - 600}
    given_back = past(*history.generations, generation(4, 100, seat("a", "t-0", "t-1")))
    assert owned_since(given_back)[tp("t-1")] == NOW - 100


def test_what_each_death_does_to_the_group() -> None:
    built = world()
    found = {death.broker: death for death in deaths(built.context, AT, [tp("t-0"), tp("t-1")])}
    assert (found[1].coordinator, found[1].new_leaders) == (2, ())
    assert (found[2].coordinator, found[2].new_leaders) == (None, (tp("t-0"),))
    assert found[1].sentence == "broker 1 dies: broker 2 coordinates it"
    assert found[2].sentence == "broker 2 dies: another leader for t-0"
    built.context.topic_configs[AT.topic] = {"min.insync.replicas": "3"}
    (refused, *_) = deaths(built.context, AT, [])
    assert refused.commits_refused and "commits are refused" in refused.sentence
    alone = three("t", [3])
    alone.create(AT.topic, [1])
    told = [death.sentence for death in deaths(alone.context, AT, [tp("t-0")])]
    assert told == [
        "broker 1 dies: it has no coordinator: no join, no commit",
        "broker 2 dies: nothing changes for it",
        "broker 3 dies: t-0 cannot be read",
    ]
