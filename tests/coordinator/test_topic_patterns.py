"""Regular expressions over names of topics: what they match, what is none, and that none takes long."""

import re
from random import Random
from typing import Any

import pytest

from odradek.coordinator.asides import Resolve, Resolved
from odradek.coordinator.topic_patterns import MOST_BYTES, InvalidPattern, compile_pattern

LITERALS = ["a", "b", ".", "[ab]", "[^a]", r"\d", "1", r"\.", "[a-c1]", "(?:ab)", r"\w"]


def drawn(random: Random, depth: int = 0) -> str:
    choice = random.random()
    if depth > 3 or choice < 0.4:
        return random.choice(LITERALS)
    if choice < 0.6:
        return drawn(random, depth + 1) + drawn(random, depth + 1)
    if choice < 0.75:
        return f"({drawn(random, depth + 1)}|{drawn(random, depth + 1)})"
    if choice < 0.95:
        times = random.choice(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?"])
        return f"(?:{drawn(random, depth + 1)}){times}"
    return random.choice(["^", "$"])


@pytest.mark.behaviour("K20")
def test_an_expression_matches_what_pythons_own_matches_as_a_whole() -> None:
    random = Random(20)
    for _ in range(1_500):
        text = drawn(random)
        ours, pythons = compile_pattern(text), re.compile(text)
        for _ in range(5):
            name = "".join(random.choice("abc1.") for _ in range(random.randint(0, 6)))
            assert ours.matches(name) == bool(pythons.fullmatch(name)), (text, name)


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("(?i)ab", ["AB", "aB"], ["a"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("(?i)[^a]", ["b", "B"], ["a", "A"]),
        ("(?i)[[:^lower:]]", ["1"], ["a", "A"]),
        ("(?i)[^[:^lower:]]", ["a", "A"], ["1"]),
        ("(?i)[a-c]", ["B"], ["d"]),
        ("a{02}", ["a{02}"], ["aa"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
        ("[[:digit:]x-]+", ["1-x"], ["y"]),
        ("[^[:alpha:]]", ["1"], ["a"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        (r"\Ax\z", ["x"], ["xx"]),
        ("(?P<of>a)|(?<or>b)", ["a", "b"], ["of"]),
        ("", [""], ["a"]),
        ("é", [], ["e", "é"]),
    ],
)
def test_syntax_of_re2(text: str, matching: list[str], others: list[str]) -> None:
    pattern = compile_pattern(text)

    assert all(pattern.matches(name) for name in matching)
    assert not any(pattern.matches(name) for name in others)


@pytest.mark.behaviour("K20")
@pytest.mark.parametrize(
    "text",
    [
        "(",
        ")",
        "a**",
        "*",
        "[b-a]",
        "[a",
        r"\1",
        r"\pL",
        "(?=a)",
        "(?<=a)",
        "(?P<1>a)",
        "\\",
        "[[:no:]]",
        "a{1001}",
        "a{10001}",
        "a{2,10001}",
        "((a{100}){100})",
        "a" * (MOST_BYTES + 1),
        "(" * 60 + ")" * 60,
        # Nothing, so many times: no state is made, and a minute of the loop, or a year of it, passed in counting.
        "((){1000}){1000}",
        "((a{0}){1000}){1000}",
        "(" + "()" * 400 + "a){900}",
    ],
)
def test_what_is_none_or_too_large_is_said_so(text: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_pattern(text)


def test_many_expressions_are_tried_on_many_topics_piece_by_piece() -> None:
    """The thread has batches of producers to open as well: a hundred on ten thousand topics kept it for three seconds."""
    names = tuple(f"t{number}" for number in range(4_000))
    work: Any = Resolve("g", ("a", "b", "t1", "t2", "t3"), names, 7)
    pieces = []
    while work is not None:
        found = work.run()
        pieces.append(len(found.topics))
        work = found.rest

    assert pieces == [2, 4, 5]
    assert found == Resolved("g", {"a": (), "b": (), "t1": ("t1",), "t2": ("t2",), "t3": ("t3",)}, 7)


def test_what_backtracking_would_hang_on_ends_and_what_is_made_to_be_dear_matches_nothing() -> None:
    assert not compile_pattern("(a|a)*(a+)+$").matches("a" * 248 + "!")
    random = Random(1)
    names = tuple("".join(random.choice("ab") for _ in range(249)) for _ in range(2_000))

    found = Resolve("g", ("(.*a.{300})", "[ab]+"), names, 7).run()

    assert found.topics == {"(.*a.{300})": (), "[ab]+": tuple(sorted(names))}
