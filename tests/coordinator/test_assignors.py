"""The assignors of the server: everything is given once, to who wants it; evenly, and to who had it."""

from random import Random

import pytest

from odradek.coordinator.assignors import RANGE, UNIFORM, Question, Targets, assign, elected
from tests.support import each

TOPICS = [bytes([number]) * 16 for number in range(4)]


def check(question: Question, targets: Targets) -> None:
    given: set[tuple[bytes, int]] = set()
    for member, assignment in targets.items():
        for topic, partitions in assignment.items():
            assert topic in question.members[member]
            for partition in partitions:
                assert (topic, partition) not in given and partition < question.partitions[topic]
                given.add((topic, partition))
    wanted = set().union(*question.members.values())
    assert given == {(topic, one) for topic in wanted for one in range(question.partitions[topic])}
    assert targets.keys() == question.members.keys()


def size(assignment: object) -> int:
    return sum(map(len, assignment.values()))  # type: ignore[attr-defined]


@pytest.mark.behaviour("K18")
@each(range(200))
def test_members_come_and_go_and_everything_is_given_once(seed: int) -> None:
    random = Random(seed)
    sizes = {topic: random.randint(0, 7) for topic in TOPICS}
    same = frozenset(random.sample(TOPICS, 3))
    is_alike = seed % 2 == 0
    targets: Targets = {}
    for _ in range(5):
        names = random.sample("abcdefgh", random.randint(1, 6))
        members = {
            name: same if is_alike else frozenset(random.sample(TOPICS, random.randint(0, 4)))
            for name in names
        }
        used = set().union(*members.values())
        question = Question(members, {topic: sizes[topic] for topic in used}, targets, {n: n for n in names})
        check(question, assign(RANGE, question))
        before, targets = targets, assign(UNIFORM, question)
        check(question, targets)
        assert assign(UNIFORM, question._replace(targets=targets)) == targets, "what is even stays"
        if is_alike:
            loads = [size(one) for one in targets.values()]
            assert max(loads) - min(loads) <= 1
            for name in names:
                kept = {(t, p) for t, at in targets[name].items() for p in at} & {
                    (t, p) for t, at in before.get(name, {}).items() for p in at
                }
                assert len(kept) >= min(size(before.get(name, {})), min(loads)), (
                    "whoever has something keeps it"
                )


@pytest.mark.behaviour("K18")
def test_a_range_is_a_block_and_topics_of_one_size_are_given_alike() -> None:
    wanted = frozenset(TOPICS[:2])
    question = Question(
        {"a": wanted, "b": wanted}, {TOPICS[0]: 5, TOPICS[1]: 5}, {}, {"a": "second", "b": "first"}
    )

    targets = assign(RANGE, question)

    assert set(targets["b"].values()) == {(0, 1, 2)} and set(targets["a"].values()) == {(3, 4)}


def test_where_subscriptions_differ_the_fullest_gives_to_the_emptiest() -> None:
    narrow, wide = frozenset(TOPICS[:1]), frozenset(TOPICS[:2])
    question = Question(
        {"a": wide, "b": narrow}, {TOPICS[0]: 4, TOPICS[1]: 4}, {"a": {TOPICS[0]: (0, 1, 2, 3)}}, {}
    )

    targets = assign(UNIFORM, question._replace(order={"a": "a", "b": "b"}))

    assert targets == {"a": {TOPICS[1]: (0, 1, 2, 3)}, "b": {TOPICS[0]: (0, 1, 2, 3)}}


@pytest.mark.behaviour("K17")
@pytest.mark.parametrize(
    ("votes", "winner"),
    [
        ([], "uniform"),
        ([None, "range"], "range"),
        (["range", "uniform"], "uniform"),
        (["range"] * 2, "range"),
    ],
)
def test_most_votes_win_and_of_equals_the_first_that_is_configured(
    votes: list[str | None], winner: str
) -> None:
    assert elected(votes, ("uniform", "range")) == winner
