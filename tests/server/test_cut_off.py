"""A server that cuts the connection at the same question again and again is told of in words that lead to the reason."""

from odradek.server.cut_off import SO_OFTEN, TOGETHER_S, CutOff
from odradek.store.api import OutOfTouch


def test_the_question_at_which_the_connection_is_cut_again_and_again_is_named() -> None:
    now_s = 100.0
    cut_off = CutOff(lambda: now_s)
    said = []
    for _ in range(SO_OFTEN + 1):
        said.append(cut_off.at(OutOfTouch("/brokers/topics/huge", "lost on the way")))
        # In between the way is looked for, and nothing is asked.
        assert cut_off.at(OutOfTouch(message="trying to get it back")) == ""
        now_s += 1.0
    assert said[: SO_OFTEN - 1] == [""] * (SO_OFTEN - 1)
    assert f"{SO_OFTEN} times in a row when it was asked for /brokers/topics/huge" in said[SO_OFTEN - 1]
    assert f"{SO_OFTEN + 1} times" in said[SO_OFTEN] and "jute.maxbuffer" in said[SO_OFTEN]


def test_connections_that_are_lost_now_and_then_say_nothing_of_the_question() -> None:
    now_s = 100.0
    cut_off = CutOff(lambda: now_s)
    for number in range(3 * SO_OFTEN):
        assert cut_off.at(OutOfTouch(f"/{number % 2}")) == ""
    for _ in range(3 * SO_OFTEN):
        assert cut_off.at(OutOfTouch("/a")) == ""
        now_s += TOGETHER_S + 1
